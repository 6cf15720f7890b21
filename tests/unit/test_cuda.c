// The CUDA backend against the CPU's: every operation on the same random inputs, odd sizes too,
// then lanes and graphs, and what is in cuda_steps.c. Skipped, and said so, where no GPU answers.
//
// Tolerances are of the largest value of an output: float32 2e-5 (5e-5 for sums of a thousand
// products); bfloat16 1.2e-2, three roundings of 2^-8; products of float32 in tf32 2e-3.

#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "bfm.h"
#include "core/rng.h"
#include "cuda_steps.h"
#include "ops/cpu.h"

Ops *machine[2];
static uint64_t draws;  // buffers made so far: each gets its own random numbers

// ------------------------------- buffers on both machines ----------------------------------------

typedef struct {
  void *at[2];
  size_t bytes;
  Type type;
} Buffer;

static Buffer *made[256];
static int made_count;

static void *buffer_bytes(Buffer *b, const void *host, size_t bytes) {
  b->bytes = bytes;
  for (int i = CPU; i <= GPU; i++) {
    assert_int_equal(machine[i]->alloc(machine[i], &b->at[i], bytes), BFM_OK);
    assert_int_equal(machine[i]->upload(machine[i], b->at[i], host, bytes), BFM_OK);
  }
  return b;
}

// count normals of type, times scale: outputs too, so that what is not written stays the same
static Buffer *normals(int64_t count, Type type, float scale) {
  Buffer *b = calloc(1, sizeof *b);
  float *host = malloc(count * sizeof *host);
  uint16_t *half = malloc(count * sizeof *half);
  assert_true(b && host && half && made_count < 256);
  made[made_count++] = b;
  b->type = type;
  draws++;
  for (int64_t i = 0; i < count; i++) {
    host[i] = scale * random_normal(7, STREAM_USER, draws, i);
    half[i] = f32_to_bf16(host[i]);
  }
  buffer_bytes(b, type == F32 ? (void *)host : half, count * type_size(type));
  free(host);
  free(half);
  return b;
}

static Buffer *raw(const void *host, size_t bytes) {
  Buffer *b = calloc(1, sizeof *b);
  assert_true(b && made_count < 256);
  made[made_count++] = b;
  return buffer_bytes(b, host, bytes);
}

static Buffer *f32(int64_t count) { return normals(count, F32, 1); }
static Buffer *activations(int64_t count) { return normals(count, machine[CPU]->type, 1); }

static void forget_buffers(void) {
  for (int i = 0; i < made_count; i++) {
    for (int j = CPU; j <= GPU; j++) machine[j]->release(machine[j], made[i]->at[j]);
    free(made[i]);
  }
  made_count = 0;
}

// `call` on both machines; inside it, AT(buffer) is the buffer's memory there
#define AT(b) ((b)->at[side_])
#define BOTH(operation, Type_, ...)                                   \
  for (int side_ = CPU; side_ <= GPU; side_++) {                      \
    machine[side_]->operation(machine[side_], &(Type_){__VA_ARGS__}); \
    assert_int_equal(machine[side_]->sync(machine[side_]), BFM_OK);   \
  }

static void *fetch(const Buffer *b, int side) {
  void *host = malloc(b->bytes + 1);
  assert_non_null(host);
  assert_int_equal(machine[side]->download(machine[side], host, b->at[side], b->bytes), BFM_OK);
  return host;
}

static double value(const Buffer *b, const void *host, int64_t i) {
  return b->type == F32 ? ((const float *)host)[i] : bf16_to_f32(((const uint16_t *)host)[i]);
}

static void check(const char *what, const Buffer *b, double tolerance) {
  void *cpu = fetch(b, CPU), *gpu = fetch(b, GPU);
  int64_t count = (int64_t)(b->bytes / type_size(b->type)), worst = 0;
  double largest = 1e-30, error = 0;
  for (int64_t i = 0; i < count; i++) {
    double x = value(b, cpu, i), y = value(b, gpu, i), e = fabs(x - y);
    if (fabs(x) > largest) largest = fabs(x);
    if (!(e <= error)) error = e, worst = i;
    if (!(e == e)) break;
  }
  double x = value(b, cpu, worst), y = value(b, gpu, worst);
  free(cpu);
  free(gpu);
  if (!(error <= tolerance * largest)) {
    fail_msg("%s: %g on the CPU, %g on the GPU at %ld (largest %g)", what, x, y, (long)worst,
             largest);
  }
}

static void check_equal(const char *what, const Buffer *b) {
  void *cpu = fetch(b, CPU), *gpu = fetch(b, GPU);
  if (memcmp(cpu, gpu, b->bytes)) fail_msg("%s: bits differ", what);
  free(cpu);
  free(gpu);
}

// for outputs of T, and for float32 made from T or by tf32
static double tolerance(double exact) { return machine[CPU]->type == F32 ? exact : 1.2e-2; }

// ------------------------------- products --------------------------------------------------------

typedef struct {
  int64_t m, n, k, pad;  // pad: elements between rows
  int transpose_a, transpose_b;
  Type type, type_c;
  Epilogue epilogue;
  int64_t batch, share_a, share_b, share_c;
  int copy;  // give the bias as T too
  int sums;  // ask for so many arrays of C's sums over rows
} Product_;

static void product(const Product_ *p) {
  int64_t sa = p->share_a ? p->share_a : 1, sb = p->share_b ? p->share_b : 1;
  int64_t sc = p->share_c ? p->share_c : 1;
  int64_t rows_a = p->transpose_a ? p->k : p->m, lda = (p->transpose_a ? p->m : p->k) + p->pad;
  int64_t rows_b = p->transpose_b ? p->n : p->k, ldb = (p->transpose_b ? p->k : p->n) + p->pad;
  int64_t ldc = p->n + p->pad, groups_c = p->batch / sc;
  Buffer *a = normals(p->batch / sa * rows_a * lda, p->type, 1);
  Buffer *b = normals(p->batch / sb * rows_b * ldb, p->type, 1);
  Buffer *c = normals(groups_c * p->m * ldc, p->type_c, 1);
  Buffer *relu = normals(groups_c * p->m * ldc, p->type_c, 1);
  float *host = malloc(p->batch * p->n * sizeof *host);
  uint16_t *half = malloc(p->batch * p->n * sizeof *half);
  assert_true(host && half);
  for (int64_t i = 0; i < p->batch * p->n; i++) {  // values that bfloat16 has
    half[i] = f32_to_bf16(3 * random_normal(3, STREAM_USER, 0, i));
    host[i] = bf16_to_f32(half[i]);
  }
  Buffer *bias = raw(host, p->batch * p->n * sizeof *host);
  Buffer *bias_copy = raw(half, p->batch * p->n * sizeof *half);
  free(host);
  free(half);
  Buffer *sums[2];
  for (int i = 0; i < 2; i++) sums[i] = normals(groups_c * p->n, p->type_c, 1);
  BOTH(gemm, Gemm, .m = p->m, .n = p->n, .k = p->k, .transpose_a = p->transpose_a,
       .transpose_b = p->transpose_b, .type = p->type, .type_c = p->type_c, .epilogue = p->epilogue,
       .a = AT(a), .b = AT(b), .c = AT(c), .lda = lda, .ldb = ldb, .ldc = ldc, .batch = p->batch,
       .stride_a = rows_a * lda, .stride_b = rows_b * ldb, .stride_c = p->m * ldc,
       .share_a = p->share_a, .share_b = p->share_b, .share_c = p->share_c, .bias = AT(bias),
       .stride_bias = p->n, .bias_copy = p->copy ? AT(bias_copy) : NULL, .relu = AT(relu),
       .sums = {p->sums > 0 ? AT(sums[0]) : NULL, p->sums > 1 ? AT(sums[1]) : NULL});
  int rounded = p->type == BF16 || p->type_c == BF16;
  int tf32 = machine[CPU]->type == BF16 && p->type == F32;
  char what[160];
  snprintf(what, sizeof what, "product %ld x %ld x %ld, batch %ld, types %d %d, epilogue %d",
           (long)p->m, (long)p->n, (long)p->k, (long)p->batch, p->type, p->type_c, p->epilogue);
  check(what, c, rounded ? 1.2e-2 : tf32 ? 2e-3 : 5e-5);
  for (int i = 0; i < 2; i++) check(what, sums[i], rounded ? 1.2e-2 : 1e-4);
  forget_buffers();
}

static void test_products(void **state) {
  (void)state;
  Type t = machine[CPU]->type;
  static const int64_t sizes[][3] = {{1024, 1024, 1024}, {64, 64, 8},  {128, 30, 88},
                                     {33, 7, 65},        {1, 1, 1},    {200, 1, 129},
                                     {1, 64, 256},       {96, 131, 17}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int layout = 0; layout < 4; layout++) {
      product(&(Product_){.m = sizes[i][0],
                          .n = sizes[i][1],
                          .k = sizes[i][2],
                          .pad = layout == 3 ? 5 : 0,
                          .transpose_a = layout % 2,
                          .transpose_b = layout / 2,
                          .type = t,
                          .type_c = layout / 2 ? F32 : t,
                          .batch = 1});
    }
  }
  for (int e = EPILOGUE_NONE; e <= EPILOGUE_RELU_GRAD; e++) {
    for (int wide = 0; wide < 2; wide++) {
      Product_ p = {.m = wide ? 256 : 37,
                    .n = wide ? 128 : 19,
                    .k = wide ? 64 : 23,
                    .transpose_b = 1,
                    .type = t,
                    .type_c = t,
                    .epilogue = (Epilogue)e,
                    .batch = 4,
                    .copy = wide};
      product(&p);
      p.copy = !p.copy;
      p.pad = 8;
      product(&p);
      p.type = p.type_c = F32;
      product(&p);
      p.share_a = 2;
      product(&p);
      p.share_a = 0, p.share_b = 4;
      product(&p);
      p.batch = 6, p.share_b = 2;
      product(&p);
      p.share_b = 0, p.share_c = 3;
      if (e != EPILOGUE_BIAS && e != EPILOGUE_BIAS_RELU) product(&p);
    }
  }
}

static void test_sums(void **state) {
  (void)state;
  Type t = machine[CPU]->type;
  static const int64_t sizes[][2] = {{1024, 1024}, {37, 18}, {600, 512}, {1, 2}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int sums = 1; sums <= 2; sums++) {
      Product_ p = {.m = sizes[i][0],
                    .n = sizes[i][1],
                    .k = 24,
                    .type = t,
                    .type_c = t,
                    .epilogue = EPILOGUE_RELU_GRAD,
                    .batch = 2,
                    .sums = sums};
      product(&p);
      p.share_c = 2, p.pad = 8;
      product(&p);
    }
  }
}

static void test_flops(void **state) {
  (void)state;
  Buffer *a = f32(64), *c = f32(64);
  for (int i = CPU; i <= GPU; i++) machine[i]->flops = 0;
  BOTH(gemm, Gemm, .m = 8, .n = 8, .k = 8, .type = F32, .type_c = F32, .a = AT(a), .b = AT(a),
       .c = AT(c), .lda = 8, .ldb = 8, .ldc = 8, .batch = 1);
  assert_int_equal(machine[CPU]->flops, 1024);
  assert_int_equal(machine[GPU]->flops, 1024);
  forget_buffers();
}

// ------------------------------- layers ----------------------------------------------------------

static void bias_grad(int64_t groups, int64_t rows, int64_t cols, int64_t ld) {
  Buffer *db = activations(groups * cols), *dy = activations(groups * rows * ld);
  BOTH(bias_grad, BiasGrad, .db = AT(db), .dy = AT(dy), .groups = groups, .rows = rows,
       .cols = cols, .ld = ld, .stride = rows * ld);
  check("bias_grad", db, tolerance(2e-5));
  forget_buffers();
}

static void test_bias_grad(void **state) {
  (void)state;
  bias_grad(2, 1024, 1024, 1024);
  bias_grad(1, 2048, 512, 1024);
  bias_grad(3, 77, 6, 6);
  bias_grad(1, 1, 1, 3);
  bias_grad(40, 33, 520, 528);
}

static void norm(Activation f, int64_t groups, int64_t rows, int64_t stride, int64_t width,
                 int64_t blocks) {
  int64_t all = groups * stride * width;
  Buffer *x = activations(all), *y = activations(all), *dy = activations(all);
  Buffer *stats = f32(groups * stride * blocks * 2);
  Buffer *gain = f32(groups * width), *bias = f32(groups * width);
  Buffer *dgain = activations(groups * width), *dbias = activations(groups * width);
  Buffer *sums = activations(groups * width), *dx = activations(all);
  Buffer *scratch = f32(norm_scratch(groups, rows, width));
  BOTH(norm, Norm, .activation = f, .y = AT(y), .x = AT(x), .stats = AT(stats), .gain = AT(gain),
       .bias = AT(bias), .groups = groups, .rows = rows, .row_stride = stride, .width = width,
       .blocks = blocks);
  check("norm y", y, tolerance(2e-5));
  check("norm stats", stats, 2e-5);
  // the gradients get the same ones: what is above 0 on one machine must be so on the other
  void *host = fetch(stats, CPU);
  Buffer *given = raw(host, stats->bytes);
  free(host);
  BOTH(norm_grad, NormGrad, .activation = f, .dx = AT(dx), .dy = AT(dy), .x = AT(x),
       .stats = AT(given), .gain = AT(gain), .bias = AT(bias), .dgain = AT(dgain),
       .dbias = AT(dbias), .sums = AT(sums), .scratch = AT(scratch), .groups = groups, .rows = rows,
       .row_stride = stride, .width = width, .blocks = blocks);
  check("norm_grad dx", dx, tolerance(5e-5));
  check("norm_grad dgain", dgain, tolerance(5e-5));
  check("norm_grad dbias", dbias, tolerance(5e-5));
  check("norm_grad sums", sums, tolerance(2e-4));
  // in place, and without the gradients of the parameters
  BOTH(norm_grad, NormGrad, .activation = f, .dx = AT(dy), .dy = AT(dy), .x = AT(x),
       .stats = AT(given), .gain = AT(gain), .bias = AT(bias), .groups = groups, .rows = rows,
       .row_stride = stride, .width = width, .blocks = blocks);
  check("norm_grad in place", dy, tolerance(5e-5));
  BOTH(norm, Norm, .activation = f, .y = AT(x), .x = AT(x), .stats = AT(stats), .gain = AT(gain),
       .bias = AT(bias), .groups = groups, .rows = rows, .row_stride = stride, .width = width,
       .blocks = blocks, .first_block = blocks / 2, .end_block = blocks);
  check("norm of some blocks, in place", x, tolerance(2e-5));
  forget_buffers();
}

static void test_norm(void **state) {
  (void)state;
  static const int64_t shapes[][5] = {
      // groups, rows, row stride, width, blocks
      {2, 1024, 1024, 1024, 1}, {1, 300, 512, 256, 8},                         // as trained
      {40, 67, 70, 1024, 1},    {100, 60, 60, 512, 1}, {150, 70, 71, 256, 8},  // many rows a block
      {1, 19, 19, 1024, 2},     {1, 31, 31, 1024, 64}, {2, 9, 9, 768, 1},      // parts of a row
      {1, 33, 40, 1000, 1},     {2, 21, 21, 320, 1},   {1, 2, 2, 48, 3},      {1, 1, 1, 8, 1},
      {1, 33, 33, 4096, 1},     {2, 17, 17, 960, 5},   {1, 2, 2, 72, 3},  // any width
      {2, 5, 9, 256, 7},        {3, 64, 70, 30, 4},    {2, 11, 11, 1001, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int64_t *s = shapes[i];
    for (int f = TANH; f <= RELU; f++) norm((Activation)f, s[0], s[1], s[2], s[3], s[4]);
  }
}

static void test_moving(void **state) {
  (void)state;
  int64_t G = 3, N = 37;
  Buffer *a = f32(G * N * 24), *b = f32(G * N * 7), *out = activations(G * 2 * 50 * 40);
  BOTH(pack, Pack, .out = AT(out), .ld = 31, .a = AT(a), .b = AT(b), .a_cols = 24, .b_cols = 7,
       .groups = G, .copies = 2, .rows = N, .row0 = 11, .row_stride = 50);
  check_equal("pack", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 40, .a = AT(a), .b = AT(b), .a_cols = 24, .b_cols = 7,
       .groups = G, .copies = 2, .rows = N, .row0 = 11, .row_stride = 50);
  check_equal("pack of padded rows", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 32, .a = AT(b), .b = AT(a), .a_cols = 7, .b_cols = 24,
       .groups = G, .copies = 2, .rows = N, .row0 = 11, .row_stride = 50);
  check_equal("pack of rows that meet within a vector", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 31, .a = AT(a), .b = AT(b), .a_cols = 24, .a_rows = 5,
       .b_cols = 7, .groups = G, .copies = 2, .rows = N, .row_stride = 50);
  check_equal("pack of repeated rows", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 32, .a = AT(a), .b = AT(b), .a_cols = 24, .b_rows = 1,
       .b_cols = 7, .groups = G, .copies = 2, .rows = N, .row_stride = 50);
  check_equal("pack with one row for all", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 24, .a = AT(a), .a_cols = 24, .groups = G, .copies = 1,
       .rows = N, .row_stride = N);
  check_equal("pack of one", out);

  // five in one go, of different sizes
  BOTH(pack, Pack, .out = AT(out), .ld = 24, .a = AT(a), .a_cols = 24, .groups = 1, .copies = 1,
       .rows = 3, .row_stride = 50,
       .next = &(Pack){.out = AT(out),
                       .a = AT(b),
                       .a_cols = 24,
                       .ld = 24,
                       .groups = 2,
                       .copies = 1,
                       .rows = 9,
                       .row0 = 3,
                       .row_stride = 50,
                       .next = &(Pack){.out = AT(out),
                                       .a = AT(a),
                                       .a_cols = 24,
                                       .ld = 24,
                                       .groups = 3,
                                       .copies = 1,
                                       .rows = N,
                                       .row0 = 12,
                                       .row_stride = 50,
                                       .next = &(Pack){.out = AT(out),
                                                       .a = AT(a),
                                                       .a_cols = 24,
                                                       .ld = 24,
                                                       .groups = 1,
                                                       .copies = 1,
                                                       .rows = 1,
                                                       .row0 = 160,
                                                       .row_stride = 50,
                                                       .next = &(Pack){.out = AT(out),
                                                                       .a = AT(b),
                                                                       .a_cols = 7,
                                                                       .b = AT(a),
                                                                       .b_cols = 24,
                                                                       .ld = 31,
                                                                       .groups = 1,
                                                                       .copies = 2,
                                                                       .rows = 9,
                                                                       .row0 = 130,
                                                                       .row_stride = 9}}}});
  check_equal("packs in one go", out);

  for (int wide = 0; wide < 2; wide++) {
    int64_t cols = wide ? 64 : 9, ld_out = wide ? 128 : 21, ld_in = wide ? 96 : 13;
    Buffer *to = activations(G * N * ld_out), *from = activations(G * N * ld_in);
    BOTH(copy_columns, CopyColumns, .out = AT(to), .in = AT(from), .groups = G, .rows = N,
         .cols = cols, .ld_out = ld_out, .ld_in = ld_in, .stride_out = N * ld_out,
         .stride_in = N * ld_in);
    check_equal("copy_columns", to);
  }
  int32_t columns[5] = {23, 0, 7, 7, 11};
  Buffer *index = raw(columns, sizeof columns), *selected = f32(N * 5);
  BOTH(select_columns, SelectColumns, .out = AT(selected), .in = AT(a), .columns = AT(index),
       .rows = N, .in_cols = 24, .out_cols = 5);
  check_equal("select_columns", selected);
  forget_buffers();
}

static void test_outputs(void **state) {
  (void)state;
  int64_t N = 133, act = 6;
  Buffer *x = f32(2 * 2 * N * 8), *mu = f32(2 * 2 * N * act);
  Buffer *a = f32(2 * N * act), *noise = f32(2 * N * act);
  BOTH(policy_action, PolicyAction, .mu = AT(mu), .x = AT(x), .act = AT(a), .noise = AT(noise),
       .groups = 2, .rows = N, .row_stride = 2 * N, .act_dim = act, .ld = 8, .sigma = 0.2f,
       .noise_clip = 0.3f);
  check("policy_action mu", mu, 2e-5);
  check("policy_action act", a, 2e-5);

  static const int64_t shapes[][2] = {{64, 8}, {64, 1}, {50, 7}, {512, 64}, {6, 3}, {100, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int64_t d = shapes[i][0], K = shapes[i][1];
    Buffer *in = f32(N * d), *y = f32(N * d), *dy = f32(N * d);
    BOTH(block_norm, BlockNorm, .y = AT(y), .x = AT(in), .rows = N, .d = d, .blocks = K);
    check("block_norm", y, 2e-5);
    BOTH(block_norm_grad, BlockNormGrad, .dx = AT(dy), .dy = AT(dy), .x = AT(in), .rows = N, .d = d,
         .blocks = K);
    check("block_norm_grad", dy, 5e-5);
    BOTH(residual_norm, ResidualNorm, .y = AT(y), .z = AT(in), .rows = N, .d = d, .blocks = K);
    check("residual_norm", y, 2e-5);
    forget_buffers();
  }
}

// ------------------------------- draws -----------------------------------------------------------

static void test_draws(void **state) {
  (void)state;
  enum { R = 3, N = 205 };
  uint64_t seeds[R] = {1, 99, UINT64_MAX};
  int64_t step = 123456789012;
  Buffer *seed = raw(seeds, sizeof seeds), *at = raw(&step, sizeof step);
  Buffer *normal = f32(R * N), *uniform = f32(R * N), *index = f32(R * N);
  BOTH(draw_normal, Draw, .out = AT(normal), .seeds = AT(seed), .step = AT(at), .stream = 2,
       .replicas = R, .count = N);
  check("draw_normal", normal, 2e-6);
  BOTH(draw_uniform, Draw, .out = AT(uniform), .seeds = AT(seed), .step = AT(at), .stream = 3,
       .replicas = R, .count = N);
  check_equal("draw_uniform", uniform);
  BOTH(draw_index, DrawIndex, .out = AT(index), .seeds = AT(seed), .step = AT(at), .stream = 4,
       .replicas = R, .count = N, .below = 50);
  check_equal("draw_index", index);

  for (int cols = 5; cols <= 24; cols += 19) {
    Buffer *from = f32(R * 50 * cols), *out = f32(R * N * cols);
    BOTH(gather, Gather, .out = AT(out), .in = AT(from), .index = AT(index), .replicas = R,
         .rows = N, .cols = cols, .in_stride = cols == 5 ? 50 : 0);
    check_equal("gather", out);
  }

  int64_t d = 50, draw = 41;
  Buffer *states = f32(R * 60 * d), *v = f32(R * draw * d), *z = f32(R * N * d);
  BOTH(mix_z, MixZ, .z = AT(z), .normal = AT(v), .choice = AT(uniform), .states = AT(states),
       .index = AT(index), .replicas = R, .rows = N, .draws = draw, .d = d, .state_rows = 60,
       .mix = 0.5f);
  check("mix_z", z, 2e-5);
  BOTH(mix_z, MixZ, .z = AT(z), .normal = AT(v), .choice = AT(uniform), .states = AT(states),
       .replicas = R, .rows = draw, .draws = draw, .d = d, .state_rows = 60, .mix = 0.5f);
  check("mix_z of state i", z, 2e-5);
  BOTH(pool_z, PoolZ, .z = AT(z), .pool = AT(states), .step = AT(at), .replicas = R, .rows = N,
       .draws = 5, .d = d, .pool_rows = 60);
  check_equal("pool_z", z);
  BOTH(normalize_z, NormalizeZ, .z = AT(z), .rows = R * N, .d = d);
  check("normalize_z", z, 2e-5);

  for (int side = CPU; side <= GPU; side++) {
    machine[side]->increment(machine[side], at->at[side]);
  }
  check_equal("increment", at);
  forget_buffers();
}

static void test_es(void **state) {
  (void)state;
  int64_t N = 19, samples = 70, act = 5, M = 3;
  Buffer *mu = normals(N * act, F32, 0.5f), *out = f32(N * samples * act);
  Buffer *q = f32(M * N * samples), *picked = f32(N * act);
  BOTH(es_sample, EsSample, .out = AT(out), .mu = AT(mu), .seed = 5, .step = 7, .rows = N,
       .samples = samples, .act_dim = act, .first_row = 1000, .sigma = 0.2f);
  check("es_sample", out, 2e-5);
  BOTH(es_pick, EsPick, .act = AT(picked), .candidates = AT(out), .q = AT(q), .rows = N,
       .samples = samples, .act_dim = act, .members = M, .q_stride = N * samples);
  check("es_pick", picked, 2e-5);
  forget_buffers();
}

// ------------------------------- losses ----------------------------------------------------------

static void fb(int64_t R, int64_t M, int64_t T_, int64_t I, int64_t J) {
  Buffer *m = f32(R * M * I * J * J), *t = f32(R * T_ * I * J * J), *discount = f32(R * I * J);
  Buffer *loss = f32(R * 3), *scratch = f32(R * M * I * J);
  BOTH(fb_loss, FbLoss, .m = AT(m), .t = AT(t), .discount = AT(discount), .gamma = 0.98f,
       .loss = AT(loss), .loss_stride = 3, .scratch = AT(scratch), .replicas = R, .members = M,
       .t_members = T_, .groups = I, .rows = J);
  check("fb_loss gradient", m, 2e-5);
  check("fb_loss", loss, 2e-5);
  Buffer *c = f32(R * I * J * J), *loss2 = f32(R * 3);
  BOTH(ortho_loss, OrthoLoss, .c = AT(c), .scale = 100, .loss = AT(loss2), .loss_stride = 3,
       .scratch = AT(scratch), .replicas = R, .groups = I, .rows = J);
  check("ortho_loss gradient", c, 2e-5);
  check("ortho_loss", loss2, 2e-5);
  forget_buffers();
}

static void test_fb_losses(void **state) {
  (void)state;
  fb(1, 2, 1, 1, 1024);
  fb(2, 2, 2, 3, 64);
  fb(3, 1, 1, 2, 37);
  fb(1, 3, 3, 1, 2);
}

static void test_actor_losses(void **state) {
  (void)state;
  int64_t R = 2, M = 2, N = 300, act = 7, d = 50;
  Buffer *q = f32(R * M * N), *q_pi = f32(R * M * N), *w = f32(R * N), *advantage = f32(R * N);
  for (int options = 0; options < 8; options++) {
    BOTH(aw_weights, AwWeights, .w = AT(w), .q = AT(q), .q_pi = AT(q_pi),
         .advantage = options ? AT(advantage) : NULL, .replicas = R, .members = M, .rows = N - 1,
         .q_stride = N, .beta = 0.3f, .clip = options & 1 ? 4.6f : INFINITY,
         .sum_members = options & 1, .mean_base = options >> 1 & 1, .iwis = options >> 2 & 1);
    check("aw_weights", w, 2e-5);
    check("aw_weights advantage", advantage, 2e-5);
    BOTH(aw_weights, AwWeights, .w = AT(w), .q = AT(q), .q_pi = AT(q_pi), .replicas = R,
         .members = M, .rows = N - 1, .q_stride = N, .ess = 0.01f + 0.1f * options,
         .iwis = options & 1);
    check("aw_weights of an effective sample size", w, 2e-4);
  }
  Buffer *dx = f32(R * N * act), *a = f32(R * N * act), *loss = f32(R * 4);
  Buffer *mu = normals(R * 2 * N * act, F32, 0.3f), *z = f32(R * N * d);
  BOTH(aw_loss, AwLoss, .dx = AT(dx), .w = AT(w), .act = AT(a), .mu = AT(mu), .loss = AT(loss),
       .loss_stride = 4, .replicas = R, .rows = N, .act_dim = act, .mu_stride = 2 * N,
       .sigma = 0.2f);
  check("aw_loss gradient", dx, 2e-5);
  check("aw_loss", loss, 2e-5);
  Buffer *df = f32(R * M * 2 * N * d), *dxa = activations(R * M * 2 * N * 32);
  BOTH(td3_loss, Td3Loss, .df = AT(df), .q_pi = AT(q_pi), .z = AT(z), .loss = AT(loss),
       .loss_stride = 4, .replicas = R, .members = M, .rows = N, .q_stride = N, .df_stride = 2 * N,
       .d = d);
  check("td3_loss gradient", df, 2e-5);
  check("td3_loss", loss, 2e-5);
  BOTH(td3_action_grad, Td3ActionGrad, .dx = AT(dx), .dxa = AT(dxa), .mu = AT(mu), .replicas = R,
       .copies = M, .rows = N, .row_stride = 2 * N, .ld = 32, .obs_dim = 24, .act_dim = act,
       .mu_stride = 2 * N);
  check("td3_action_grad", dx, 2e-5);
  Buffer *out = f32(R * M * N);
  BOTH(row_dot, RowDot, .out = AT(out), .a = AT(df), .z = AT(z), .replicas = R, .members = M,
       .rows = N, .row_stride = 2 * N, .d = d);
  check("row_dot", out, 2e-5);
  BOTH(row_dot, RowDot, .out = AT(out), .a = AT(df), .z = AT(z), .replicas = R, .members = M,
       .rows = N, .row_stride = 2 * N, .d = d, .z_rows = 7);
  check("row_dot with repeated z", out, 2e-5);
  Buffer *mean = f32(R * N);
  BOTH(mean_members, MeanMembers, .out = AT(mean), .a = AT(q), .replicas = R, .members = M,
       .count = N);
  check("mean_members", mean, 2e-5);
  forget_buffers();
}

static void test_laplacian_losses(void **state) {
  (void)state;
  int64_t R = 2, M = 3, N = 203, d = 50;
  Buffer *phi = f32(R * 2 * N * d), *dphi = f32(R * 2 * N * d), *loss = f32(R * 4);
  Buffer *scratch = f32(R * N);
  BOTH(lap_loss, LapLoss, .dphi = AT(dphi), .phi = AT(phi), .loss = AT(loss), .loss_stride = 4,
       .scratch = AT(scratch), .replicas = R, .rows = N, .d = d);
  check("lap_loss gradient", dphi, 2e-5);
  check("lap_loss", loss, 2e-5);
  Buffer *dpsi = f32(R * M * 2 * N * d), *q = f32(R * M * 2 * N), *q_target = f32(R * M * N);
  Buffer *phi_z = f32(R * N), *z = f32(R * N * d), *discount = f32(R * N);
  for (int min = 0; min < 2; min++) {
    BOTH(psi_loss, PsiLoss, .dpsi = AT(dpsi), .q = AT(q), .q_target = AT(q_target),
         .phi_z = AT(phi_z), .z = AT(z), .discount = AT(discount), .gamma = 0.9f, .loss = AT(loss),
         .loss_stride = 4, .replicas = R, .members = M, .rows = N, .q_stride = 2 * N,
         .dpsi_stride = 2 * N, .d = d, .min_target = min);
    check("psi_loss gradient", dpsi, 2e-5);
    check("psi_loss", loss, 2e-5);
  }
  forget_buffers();
}

// ------------------------------- exploring -------------------------------------------------------

static void test_exploring(void **state) {
  (void)state;
  enum { R = 3, N = 205, ENVS = 5, CAPACITY = 7, WIDE = 37, ACTS = 4, ROW = 2 * WIDE + ACTS + 3 };
  uint64_t seeds[R] = {1, 99, UINT64_MAX};
  int64_t step = 3;
  float *host = malloc(CAPACITY * R * ENVS * ROW * sizeof *host);
  assert_non_null(host);
  for (int i = 0; i < CAPACITY * R * ENVS * ROW; i++) {
    int column = i % ROW;
    float u = random_uniform(5, STREAM_USER, 0, i);
    host[i] = column == WIDE + ACTS + 1 ? u < 0.8f : column == ROW - 1 ? u < 0.3f : u;
  }
  Buffer *ring = raw(host, CAPACITY * R * ENVS * ROW * sizeof *host);
  free(host);
  Buffer *seed = raw(seeds, sizeof seeds), *at = raw(&step, sizeof step);
  Buffer *obs = f32(R * N * WIDE), *act = f32(R * N * ACTS), *next_obs = f32(R * N * WIDE);
  Buffer *reward = f32(R * N), *discount = f32(R * N);
  for (int64_t slots = 1; slots <= 3 * CAPACITY; slots += CAPACITY - 2) {
    Buffer *count = raw(&slots, sizeof slots);
    BOTH(replay_sample, ReplaySample, .obs = AT(obs), .act = AT(act), .reward = AT(reward),
         .discount = AT(discount), .next_obs = AT(next_obs), .ring = AT(ring), .slots = AT(count),
         .seeds = AT(seed), .step = AT(at), .stream = 1, .replicas = R, .rows = N, .envs = ENVS,
         .capacity = CAPACITY, .obs_dim = WIDE, .act_dim = ACTS, .nstep = 3, .gamma = 0.9f);
    check_equal("replay_sample obs", obs);
    check_equal("replay_sample act", act);
    check_equal("replay_sample next_obs", next_obs);
    check("replay_sample reward", reward, 1e-6);
    check("replay_sample discount", discount, 1e-6);
  }

  Buffer *stats = f32(R * 2 * WIDE), *errors = f32(R * 2), *bonus = f32(R * N), *loss = f32(R * 3);
  BOTH(running_norm, RunningNorm, .out = AT(next_obs), .in = AT(obs), .stats = AT(stats),
       .step = AT(at), .replicas = R, .rows = N, .cols = WIDE, .clip = 1.5f);
  check("running_norm", next_obs, 2e-5);
  check("running_norm statistics", stats, 2e-6);
  BOTH(running_norm, RunningNorm, .out = AT(obs), .in = AT(obs), .stats = AT(stats), .replicas = R,
       .rows = N, .cols = WIDE, .clip = 1.5f);
  check("running_norm in place", obs, 2e-5);
  check("running_norm statistics that stay", stats, 2e-6);
  Buffer *f = f32(R * N * WIDE), *df = f32(R * N * WIDE);
  for (int side = CPU; side <= GPU; side++) {
    machine[side]->zero(machine[side], at->at[side], sizeof step);  // the first has no past
  }
  for (int i = 0; i < 2; i++) {
    BOTH(rnd_bonus, RndBonus, .df = AT(df), .bonus = AT(bonus), .f = AT(f), .g = AT(obs),
         .stats = AT(errors), .step = AT(at), .loss = AT(loss), .mean_bonus = (float *)AT(loss) + 1,
         .loss_stride = 3, .replicas = R, .rows = N, .cols = WIDE);
    check("rnd_bonus gradient", df, 2e-5);
    check("rnd_bonus", bonus, 2e-5);
    check("rnd_bonus loss", loss, 2e-5);
    check("rnd_bonus statistics", errors, 2e-5);
    for (int side = CPU; side <= GPU; side++) {
      machine[side]->increment(machine[side], at->at[side]);
    }
  }
  forget_buffers();
}

static void test_weighted_sum(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{100000, 64, 64}, {1000, 8, 64}, {3, 512, 512}, {77, 33, 40}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int64_t rows = shapes[i][0], cols = shapes[i][1], ld = shapes[i][2];
    double zeros[512] = {0};
    Buffer *w = f32(rows), *x = f32(rows * ld), *out = raw(zeros, cols * sizeof(double));
    for (int again = 0; again < 2; again++) {
      BOTH(weighted_sum, WeightedSum, .out = AT(out), .w = AT(w), .x = AT(x), .rows = rows,
           .ld = ld, .cols = cols);
    }
    double *cpu = fetch(out, CPU), *gpu = fetch(out, GPU);
    for (int64_t j = 0; j < cols; j++) {
      if (!(fabs(cpu[j] - gpu[j]) <= 1e-9 * sqrt(rows))) {
        fail_msg("weighted_sum: %g on the CPU, %g on the GPU", cpu[j], gpu[j]);
      }
    }
    free(cpu);
    free(gpu);
    forget_buffers();
  }
}

// ------------------------------- parameters ------------------------------------------------------

static void test_parameters(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 3, 4099, 1 << 20};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    int64_t n = counts[i], step = 41;
    Buffer *param = f32(n), *m = f32(n), *grad = activations(n), *target = f32(n);
    Buffer *copy = activations(n), *target_copy = activations(n);
    float *positive = malloc(n * sizeof *positive);
    uint8_t *kept = malloc(n);
    assert_true(positive && kept);
    for (int64_t j = 0; j < n; j++) {
      positive[j] = random_uniform(4, STREAM_USER, 0, j);
      kept[j] = positive[j] < 0.5f;
    }
    Buffer *v = raw(positive, n * sizeof *positive), *at = raw(&step, sizeof step);
    Buffer *keep = raw(kept, n);
    free(positive);
    free(kept);
    BOTH(adam, Adam, .param = AT(param), .m = AT(m), .v = AT(v), .grad = AT(grad),
         .target = AT(target), .copy = AT(copy), .target_copy = AT(target_copy), .step = AT(at),
         .count = n, .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .tau = 0.01f);
    check("adam", param, 1e-6);
    check("adam m", m, 1e-6);
    check("adam v", v, 1e-6);
    check("adam copy", copy, tolerance(1e-6));
    check("adam target", target, 1e-6);
    check("adam target's copy", target_copy, tolerance(1e-6));
    BOTH(adam, Adam, .param = AT(param), .m = AT(m), .v = AT(v), .grad = AT(grad), .step = AT(at),
         .count = n, .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f);
    check("adam alone", param, 1e-6);

    BOTH(adam, Adam, .param = AT(param), .m = AT(m), .v = AT(v), .grad = AT(grad),
         .mask = AT(keep), .target = AT(target), .copy = AT(copy), .target_copy = AT(target_copy),
         .step = AT(at), .count = n, .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.999f,
         .epsilon = 1e-8f, .tau = 0.01f);
    check("adam masked", param, 1e-6);
    check("adam masked m", m, 1e-6);
    check("adam masked v", v, 1e-6);
    check("adam masked copy", copy, tolerance(1e-6));
    check("adam masked target's copy", target_copy, tolerance(1e-6));

    Buffer *in = f32(n), *out = activations(n);
    BOTH(masked_copy, MaskedCopy, .out = AT(out), .in = AT(in), .mask = AT(keep), .count = n);
    check_equal("masked_copy", out);
    BOTH(masked_copy, MaskedCopy, .out = AT(out), .in = AT(in), .count = n);
    check_equal("masked_copy of all", out);
    forget_buffers();
  }
}

// ------------------------------- lanes and graphs ------------------------------------------------

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
    ops->gemm(ops, &(Gemm){.m = n,
                           .n = n,
                           .k = n,
                           .type = ops->type,
                           .type_c = ops->type,
                           .a = b->x->at[b->side],
                           .b = b->w->at[b->side],
                           .c = b->h[lane]->at[b->side],
                           .lda = n,
                           .ldb = n,
                           .ldc = n,
                           .batch = 1,
                           .transpose_a = lane & 1,
                           .transpose_b = lane >> 1});
  }
  ops->lane(ops, 0);
  for (int lane = 1; lane < 3; lane++) ops->join(ops, lane);
  for (int i = 0; i < 3; i++) {
    ops->gemm(ops, &(Gemm){.m = n,
                           .n = n,
                           .k = n,
                           .type = ops->type,
                           .type_c = F32,
                           .epilogue = i ? EPILOGUE_ADD : EPILOGUE_NONE,
                           .a = b->h[i]->at[b->side],
                           .b = b->w->at[b->side],
                           .c = b->y->at[b->side],
                           .lda = n,
                           .ldb = n,
                           .ldc = n,
                           .batch = 1});
  }
  ops->bias_grad(ops, &(BiasGrad){.db = b->db->at[b->side],
                                  .dy = b->h[1]->at[b->side],
                                  .groups = 1,
                                  .rows = n,
                                  .cols = n,
                                  .ld = n});
  ops->adam(ops, &(Adam){.param = b->db->at[b->side],
                         .m = b->y->at[b->side],
                         .v = b->counter->at[b->side],
                         .grad = b->y->at[b->side],
                         .step = b->counter->at[b->side],
                         .count = 0});
  ops->increment(ops, b->counter->at[b->side]);
}

static void test_graph(void **state) {
  (void)state;
  int64_t n = 96 * 96, counter = 0;
  Body body = {.x = activations(n),
               .w = activations(n),
               .y = f32(n),
               .db = activations(96),
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
    assert_memory_equal(first, last, body.y->bytes);  // the same bits again
    free(first);
    free(last);
    ops->forget(ops, graph);
  }
  free(before);
  check("graph", body.y, tolerance(5e-5));
  check("graph's column sums", body.db, tolerance(5e-5));
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

static void test_failures(void **state) {
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

// ------------------------------- choices on disk -------------------------------------------------

// a product by a machine of its own, which looks for choices in the file; returns the file's size
static int64_t multiply_with(const char *path, float *out) {
  enum { SIZE = 64 };
  Ops *gpu = NULL;
  Precision precision = machine[GPU]->type == F32 ? PRECISION_F32 : PRECISION_BF16;
  assert_int_equal(ops_open(&gpu, "cuda", precision, 0), BFM_OK);
  float values[SIZE * SIZE];
  for (int i = 0; i < SIZE * SIZE; i++) values[i] = (float)(i * 37 % 101) / 101 - 0.5f;
  void *in = NULL, *product = NULL;
  assert_int_equal(gpu->alloc(gpu, &in, sizeof values), BFM_OK);
  assert_int_equal(gpu->alloc(gpu, &product, sizeof values), BFM_OK);
  assert_int_equal(gpu->upload(gpu, in, values, sizeof values), BFM_OK);
  gpu->gemm(gpu, &(Gemm){.m = SIZE, .n = SIZE, .k = SIZE, .type = F32, .type_c = F32, .a = in,
                         .lda = SIZE, .b = in, .ldb = SIZE, .c = product, .ldc = SIZE, .batch = 1});
  assert_int_equal(gpu->download(gpu, out, product, sizeof values), BFM_OK);
  gpu->release(gpu, in);
  gpu->release(gpu, product);
  gpu->close(gpu);
  struct stat about = {0};
  stat(path, &about);
  return about.st_size;
}

static void test_choices(void **state) {
  (void)state;
  const char *timed = getenv("BFM_CUDA_TIMED");
  if (timed && !strcmp(timed, "0")) skip();
  char path[] = "/tmp/bfm-choices-XXXXXX";
  static float first[64 * 64], again[64 * 64];
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  setenv("BFM_CUDA_CHOICES", path, 1);
  int64_t size = multiply_with(path, first);
  assert_true(size > 0);
  assert_int_equal(multiply_with(path, again), size);  // remembered
  assert_memory_equal(first, again, sizeof first);
  assert_int_equal(ftruncate(fd, size - 1), 0);  // cut within a record
  assert_int_equal(multiply_with(path, again), size);
  assert_int_equal(pwrite(fd, "\0\1\2\3", 4, size / 2), 4);  // damaged: chosen anew
  assert_int_equal(multiply_with(path, again), 2 * size);
  assert_int_equal(multiply_with(path, again), 2 * size);
  setenv("BFM_CUDA_CHOICES", "", 1);  // none
  multiply_with(path, again);
  unsetenv("BFM_CUDA_CHOICES");
  close(fd);
  unlink(path);
}

// ------------------------------- both precisions -------------------------------------------------

static int open_both(Precision precision) {
  assert_int_equal(ops_open(&machine[CPU], "cpu", precision, 2), BFM_OK);
  int status = ops_open(&machine[GPU], "cuda", precision, 0);
  if (status) machine[CPU]->close(machine[CPU]);
  return status;
}

static void close_both(void) {
  for (int i = CPU; i <= GPU; i++) machine[i]->close(machine[i]);
}

// arguments: a pattern of tests to run, a pattern of tests to leave out
int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  if (argc > 2) cmocka_set_skip_filter(argv[2]);
  // the plugin is two folders above the tests
  char program[4096] = "", plugin[4200];
  if (readlink("/proc/self/exe", program, sizeof program - 1) > 0 && strrchr(program, '/')) {
    *strrchr(program, '/') = 0;
    snprintf(plugin, sizeof plugin, "%s/../../libbfm_cuda.so", program);
    if (!access(plugin, R_OK)) setenv("BFM_CUDA_PLUGIN", plugin, 0);
  }
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products),     cmocka_unit_test(test_sums),
      cmocka_unit_test(test_flops),        cmocka_unit_test(test_bias_grad),
      cmocka_unit_test(test_norm),         cmocka_unit_test(test_moving),
      cmocka_unit_test(test_outputs),      cmocka_unit_test(test_draws),
      cmocka_unit_test(test_es),           cmocka_unit_test(test_fb_losses),
      cmocka_unit_test(test_actor_losses), cmocka_unit_test(test_laplacian_losses),
      cmocka_unit_test(test_weighted_sum), cmocka_unit_test(test_parameters),
      cmocka_unit_test(test_graph),        cmocka_unit_test(test_failures),
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_steps),        cmocka_unit_test(test_exploring),
      cmocka_unit_test(test_explorers),    cmocka_unit_test(test_prompts),
  };
  int failed = 0;
  static const Precision precisions[] = {PRECISION_F32, PRECISION_BF16};
  static const char *names[] = {"CUDA in f32", "CUDA in bf16"};
  for (int i = 0; i < 2; i++) {
    if (open_both(precisions[i])) {
      printf("%s skipped: %s\n", names[i], bfm_error());
      continue;
    }
    printf("%s on %s\n", names[i], machine[GPU]->name);
    failed += _cmocka_run_group_tests(names[i], tests, sizeof tests / sizeof *tests, NULL, NULL);
    close_both();
  }
  return failed;
}
