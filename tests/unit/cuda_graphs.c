// Lanes and graphs on CPU and GPU, and the errors of a GPU.

#include "cuda_tests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bfm.h"

typedef struct {
  Ops *ops;
  Buffer *x, *w, *h[3], *y, *db, *counter;
  int side;
} Body;

// three products side by side, their sum, a column sum, a counter
static void body_call(void *context) {
  Body *b = context;
  Ops *ops = b->ops;
  int64_t n = 96;
  for (int lane = 1; lane < 3; lane++) ops->fork(ops, lane);
  for (int lane = 0; lane < 3; lane++) {
    ops->lane(ops, lane);
    ops->gemm(ops, &(Gemm){.m = n, .n = n, .k = n, .type = ops->type, .type_c = ops->type,
                           .a = b->x->at[b->side], .b = b->w->at[b->side],
                           .c = b->h[lane]->at[b->side], .lda = n, .ldb = n, .ldc = n, .batch = 1,
                           .transpose_a = lane & 1, .transpose_b = lane >> 1});
  }
  ops->lane(ops, 0);
  for (int lane = 1; lane < 3; lane++) ops->join(ops, lane);
  for (int i = 0; i < 3; i++) {
    ops->gemm(ops, &(Gemm){.m = n, .n = n, .k = n, .type = ops->type, .type_c = F32,
                           .epilogue = i ? EPILOGUE_ADD : EPILOGUE_NONE, .a = b->h[i]->at[b->side],
                           .b = b->w->at[b->side], .c = b->y->at[b->side], .lda = n, .ldb = n,
                           .ldc = n, .batch = 1});
  }
  ops->bias_grad(ops, &(BiasGrad){.db = b->db->at[b->side], .dy = b->h[1]->at[b->side], .groups = 1,
                                  .rows = n, .cols = n, .ld = n});
  ops->adam(ops, &(Adam){.param = b->db->at[b->side], .m = b->y->at[b->side],
                         .v = b->counter->at[b->side], .grad = b->y->at[b->side],
                         .step = b->counter->at[b->side], .count = 0});
  ops->increment(ops, b->counter->at[b->side]);
}

void test_graph(void **state) {
  (void)state;
  int64_t n = 96 * 96, counter = 0;
  Body body = {.x = activations(n), .w = activations(n), .y = f32(n), .db = activations(96),
               .h = {activations(n), activations(n), activations(n)},
               .counter = raw(&counter, sizeof counter)};
  void *before = fetch(body.y, GPU), *first = NULL;
  for (int side = CPU; side <= GPU; side++) {
    Ops *ops = machine[side];
    OpsGraph *graph = NULL;
    body.ops = ops;
    body.side = side;
    assert_int_equal(ops->record(ops, &graph, body_call, &body), BFM_OK);
    if (side == GPU) {
      first = fetch(body.y, GPU);
      assert_memory_equal(before, first, body.y->bytes);  // recording computes nothing
      free(first);
    }
    assert_int_equal(ops->replay(ops, graph, 1), BFM_OK);
    first = fetch(body.y, side);
    assert_int_equal(ops->replay(ops, graph, 19), BFM_OK);
    assert_int_equal(ops->sync(ops), BFM_OK);
    void *last = fetch(body.y, side);
    assert_memory_equal(first, last, body.y->bytes);  // a replay is bit-identical
    free(first);
    free(last);
    ops->forget(ops, graph);
  }
  free(before);
  double exact = precision == PRECISION_TF32 ? 2e-3 : 5e-5;
  check("graph", body.y, tolerance(exact));
  check("graph's column sums", body.db, tolerance(exact));
  check_equal("graph's counter", body.counter);

  Ops *gpu = machine[GPU];
  OpsGraph *graph = NULL;
  body.ops = gpu, body.side = GPU;
  gpu->products_only = 1;
  gpu->flops = 0;
  assert_int_equal(gpu->record(gpu, &graph, body_call, &body), BFM_OK);
  gpu->products_only = 0;
  assert_int_equal(gpu->flops, 0);
  assert_int_equal(gpu->replay(gpu, graph, 2), BFM_OK);
  assert_int_equal(gpu->flops, 2 * 6 * 2 * 96 * 96 * 96);
  assert_int_equal(gpu->sync(gpu), BFM_OK);
  gpu->forget(gpu, graph);
  check_equal("counter after products alone", body.counter);
  forget_buffers();
}

static void bad_lane(void *context) {
  Body *b = context;
  b->ops->lane(b->ops, 2);
  b->ops->increment(b->ops, b->counter->at[GPU]);
}

static void bad_transfer(void *context) {
  Body *b = context;
  int64_t host;
  b->ops->download(b->ops, &host, b->counter->at[GPU], sizeof host);
}

void test_failures(void **state) {
  (void)state;
  int64_t counter = 5;
  Body body = {.ops = machine[GPU], .counter = raw(&counter, sizeof counter)};
  Ops *gpu = machine[GPU];
  OpsGraph *graph = (OpsGraph *)1;
  assert_int_equal(gpu->record(gpu, &graph, bad_lane, &body), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "before it is forked"));
  assert_null(graph);
  gpu->record(gpu, &graph, bad_transfer, &body);
  if (graph) gpu->forget(gpu, graph);
  assert_int_equal(gpu->sync(gpu), BFM_OK);
  check_equal("counter after failures", body.counter);
  void *memory = NULL;
  assert_int_equal(gpu->alloc(gpu, &memory, (size_t)1 << 50), BFM_NO_MEMORY);
  assert_non_null(strstr(bfm_error(), "reduce batch"));
  assert_null(memory);
  forget_buffers();
}
