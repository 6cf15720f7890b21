// The CPU backend: memory, products of bfloat16, the table of operations. A product is cut into
// tiles that depend only on its size, never on the number of threads. Each tile is one oneDNN
// product on one thread, which also computes the epilogue while the tile is in the cache.

#include "ops/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/units.h"

// ------------------------------- memory ----------------------------------------------------------

#define ALIGNMENT 4096

// calloc does not touch fresh pages, which are zero already; huge pages make the first touch cheap
static int cpu_alloc(Ops *ops, void **memory, size_t bytes) {
  (void)ops;
  *memory = NULL;
  char *block = calloc(1, bytes + ALIGNMENT + sizeof(void *));
  if (!block) {
    return bfm_fail(BFM_NO_MEMORY,
                    "out of memory: cannot allocate %s; reduce the batch, the preset or the seeds",
                    size_of_bytes(bytes).text);
  }
  uintptr_t at = ((uintptr_t)block + sizeof(void *) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  ((void **)at)[-1] = block;
  madvise((void *)at, bytes / ALIGNMENT * ALIGNMENT, MADV_HUGEPAGE);
  *memory = (void *)at;
  return BFM_OK;
}

static void cpu_release(Ops *ops, void *memory) {
  (void)ops;
  if (memory) free(((void **)memory)[-1]);
}

static int cpu_transfer(Ops *ops, void *to, const void *from, size_t bytes) {
  (void)ops;
  memcpy(to, from, bytes);
  return BFM_OK;
}

static void cpu_copy(Ops *ops, void *to, const void *from, size_t bytes) {
  (void)ops;
  memmove(to, from, bytes);
}

static void cpu_zero(Ops *ops, void *to, size_t bytes) {
  (void)ops;
  memset(to, 0, bytes);
}

static int cpu_sync(Ops *ops) {
  Cpu *cpu = (Cpu *)ops;
  int error = cpu->error;
  cpu->error = BFM_OK;
  return error ? bfm_fail(error, "%s", cpu->message) : BFM_OK;
}

static void cpu_close(Ops *ops) {
  Cpu *cpu = (Cpu *)ops;
  onednn_free(cpu->dnn);
  threads_free(cpu->threads);
  free(cpu);
}

// ------------------------------- lanes and graphs ------------------------------------------------

static void cpu_lane(Ops *ops, int lane) {
  (void)ops;
  (void)lane;
}

struct OpsGraph {
  void (*body)(void *context);
  void *context;
};

static int cpu_record(Ops *ops, OpsGraph **graph, void (*body)(void *), void *context) {
  (void)ops;
  *graph = malloc(sizeof **graph);
  if (!*graph) return bfm_fail(BFM_NO_MEMORY, "out of memory for a graph");
  **graph = (OpsGraph){body, context};
  return BFM_OK;
}

static int cpu_replay(Ops *ops, OpsGraph *graph, int64_t times) {
  for (int64_t i = 0; i < times; i++) graph->body(graph->context);
  return cpu_sync(ops);
}

static void cpu_forget(Ops *ops, OpsGraph *graph) {
  (void)ops;
  free(graph);
}

// ------------------------------- products --------------------------------------------------------

typedef struct {
  const Gemm *x;
  Cpu *cpu;
  int64_t tile_m, tile_n, tiles_m, tiles_n;
  int64_t share_a, share_b, share_c;
  Product *first[2][2];  // [last row of tiles][last column of tiles]
  Product *next[2][2];   // the same with C +=: all but the first product of a shared C
} GemmJob;

// Tiles are tall enough to be fast, and at least eight where possible, so that cores can share them.
static void choose_tiles(GemmJob *job) {
  const Gemm *x = job->x;
  job->tile_m = x->m >= 1024 ? 256 : x->m >= 256 ? 128 : x->m;
  job->tile_n = x->n;
  int64_t tasks = chunks(x->m, job->tile_m) * (x->batch / job->share_c);
  if (tasks < 8 && x->n >= 256) job->tile_n = x->n >= 1024 ? 256 : 128;
  job->tiles_m = chunks(x->m, job->tile_m);
  job->tiles_n = chunks(x->n, job->tile_n);
}

static int find_products(GemmJob *job) {
  const Gemm *x = job->x;
  onednn_make_room(job->cpu->dnn, 8);
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 2; j++) {
      ProductShape shape;
      memset(&shape, 0, sizeof shape);
      shape.m = i ? x->m - (job->tiles_m - 1) * job->tile_m : job->tile_m;
      shape.n = j ? x->n - (job->tiles_n - 1) * job->tile_n : job->tile_n;
      shape.k = x->k;
      shape.lda = x->lda;
      shape.ldb = x->ldb;
      shape.ldc = x->ldc;
      shape.transpose_a = x->transpose_a;
      shape.transpose_b = x->transpose_b;
      shape.type = x->type;
      shape.type_c = x->type_c;
      shape.bias = x->epilogue == EPILOGUE_BIAS || x->epilogue == EPILOGUE_BIAS_RELU;
      shape.relu = x->epilogue == EPILOGUE_BIAS_RELU;
      shape.add = x->epilogue == EPILOGUE_ADD;
      TRY(onednn_product(job->cpu->dnn, &shape, &job->first[i][j]));
      if (job->share_c > 1) {
        shape.add = 1;
        TRY(onednn_product(job->cpu->dnn, &shape, &job->next[i][j]));
      }
    }
  }
  return BFM_OK;
}

static void relu_grad_f32(float *c, const float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) c[i] = y[i] > 0 ? c[i] : 0;
}

static void relu_grad_bf16(uint16_t *c, const uint16_t *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) c[i] = (int16_t)y[i] > 0 ? c[i] : 0;
}

static void gemm_task(void *argument, int64_t task, int worker) {
  GemmJob *job = argument;
  const Gemm *x = job->x;
  int64_t group = task / (job->tiles_m * job->tiles_n), tile = task % (job->tiles_m * job->tiles_n);
  int64_t ti = tile / job->tiles_n, tj = tile % job->tiles_n;
  int64_t i = ti * job->tile_m, j = tj * job->tile_n;
  int last_m = ti == job->tiles_m - 1, last_n = tj == job->tiles_n - 1;
  size_t size = type_size(x->type), size_c = type_size(x->type_c);
  int64_t at_c = group * x->stride_c + i * x->ldc + j;
  char *c = (char *)x->c + at_c * size_c;

  for (int64_t s = 0; s < job->share_c; s++) {
    int64_t g = group * job->share_c + s;
    int64_t at_a = g / job->share_a * x->stride_a + (x->transpose_a ? i : i * x->lda);
    int64_t at_b = g / job->share_b * x->stride_b + (x->transpose_b ? j * x->ldb : j);
    Product *product = s ? job->next[last_m][last_n] : job->first[last_m][last_n];
    int status = product_run(product, worker, (const char *)x->a + at_a * size,
                             (const char *)x->b + at_b * size, c,
                             x->bias ? x->bias + g * x->stride_bias + j : NULL);
    if (status) {
      job->cpu->error = status;
      snprintf(job->cpu->message, sizeof job->cpu->message, "%s", bfm_error());
    }
  }

  if (x->epilogue == EPILOGUE_RELU_GRAD) {
    int64_t rows = min64(job->tile_m, x->m - i), cols = min64(job->tile_n, x->n - j);
    for (int64_t row = 0; row < rows; row++) {
      int64_t at = at_c + row * x->ldc;
      if (x->type_c == F32) {
        relu_grad_f32((float *)x->c + at, (const float *)x->relu + at, cols);
      } else {
        relu_grad_bf16((uint16_t *)x->c + at, (const uint16_t *)x->relu + at, cols);
      }
    }
  }
}

static void onednn_gemm(Ops *ops, const Gemm *x) {
  Cpu *cpu = (Cpu *)ops;
  GemmJob job = {.x = x, .cpu = cpu};
  job.share_a = x->share_a ? x->share_a : 1;
  job.share_b = x->share_b ? x->share_b : 1;
  job.share_c = x->share_c ? x->share_c : 1;
  choose_tiles(&job);
  int status = find_products(&job);
  if (status) {
    cpu->error = status;
    snprintf(cpu->message, sizeof cpu->message, "%s", bfm_error());
    return;
  }
  int64_t groups = x->batch / job.share_c;
  threads_run(cpu->threads, groups * job.tiles_m * job.tiles_n, gemm_task, &job);
}

static int is_f32(const Gemm *x) { return x->type == F32 && x->type_c == F32; }

// C = A·B, or C += A·B, and nothing else: for benchmarks
static void bare_gemm(Ops *ops, const Gemm *x) {
  Gemm bare = *x;
  if (x->epilogue != EPILOGUE_ADD) bare.epilogue = EPILOGUE_NONE;
  int own = is_f32(x) && ops->products_only == OPS_PRODUCTS;
  (own ? ((Cpu *)ops)->product : onednn_gemm)(ops, &bare);
}

static void gemm(Ops *ops, const Gemm *x) {
  ops->flops += 2 * x->m * x->n * x->k * x->batch;
  if (ops->products_only) {
    bare_gemm(ops, x);
    return;
  }
  (is_f32(x) ? ((Cpu *)ops)->product : onednn_gemm)(ops, x);

  int64_t groups = x->batch / (x->share_c ? x->share_c : 1);
  int64_t cols = x->sums[1] ? x->n / 2 : x->n;
  for (int i = 0; i < 2 && x->sums[i]; i++) {
    ops->bias_grad(ops, &(BiasGrad){.db = x->sums[i],
                                    .dy = (char *)x->c + i * cols * type_size(x->type_c),
                                    .groups = groups, .rows = x->m, .cols = cols, .ld = x->ldc,
                                    .stride = x->stride_c});
  }
}

// ------------------------------- the table -------------------------------------------------------

int ops_open_cpu(Ops **out, Type type, int threads) {
  *out = NULL;
  Cpu *cpu = calloc(1, sizeof *cpu);
  if (!cpu) return bfm_fail(BFM_NO_MEMORY, "out of memory for the CPU backend");
  int status = threads_new(&cpu->threads, threads);
  if (!status) status = onednn_new(&cpu->dnn, threads_count(cpu->threads));
  if (status) {
    cpu_close(&cpu->ops);
    return status;
  }
  cpu->ops = (Ops){
      .name = "cpu",
      .type = type,
      .alloc = cpu_alloc,
      .release = cpu_release,
      .upload = cpu_transfer,
      .download = cpu_transfer,
      .copy = cpu_copy,
      .zero = cpu_zero,
      .sync = cpu_sync,
      .close = cpu_close,
      .lane = cpu_lane,
      .fork = cpu_lane,
      .join = cpu_lane,
      .record = cpu_record,
      .replay = cpu_replay,
      .forget = cpu_forget,
      .gemm = gemm,
  };
#ifdef __x86_64__
  int wide = onednn_uses_avx512();
  (wide ? cpu_gemm_wide : cpu_gemm)(&cpu->ops);
  (wide ? cpu_layers_wide : cpu_layers)(&cpu->ops);
#else
  cpu_gemm(&cpu->ops);
  cpu_layers(&cpu->ops);
#endif
  cpu_draws(&cpu->ops);
  cpu_losses(&cpu->ops);
  cpu_offline(&cpu->ops);
  cpu_explore(&cpu->ops);
  *out = &cpu->ops;
  return BFM_OK;
}
