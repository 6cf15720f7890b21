// Matrix products by oneDNN, on one thread each: bfm itself cuts its work into tiles, the same tiles
// for any number of threads, so that results do not depend on that number.

#include "ops/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"

// oneDNN uses GNU's OpenMP, if it was built with it: its products must not start more threads
extern void omp_set_num_threads(int n) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));

#define TABLE_SIZE 4096  // a power of two; at most half of it is in use

enum { ARG_A, ARG_B, ARG_C, ARG_SCRATCH, ARG_BIAS, ARG_COUNT };

struct Product {
  ProductShape shape;
  OneDnn *dnn;
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t (*args)[ARG_COUNT];  // [workers]
  int arg_count;
};

struct OneDnn {
  int workers;
  dnnl_engine_t engine;
  dnnl_stream_t *streams;  // [workers]
  char **scratch;          // [workers]
  size_t scratch_size;
  Product *table[TABLE_SIZE];
  int count;
};

static int failed(dnnl_status_t status, const char *what) {
  return bfm_fail(BFM_UNAVAILABLE, "oneDNN: %s failed with status %d", what, (int)status);
}

#define DNNL(call, what)                             \
  do {                                               \
    dnnl_status_t s_ = (call);                       \
    if (s_ != dnnl_success) return failed(s_, what); \
  } while (0)

// ------------------------------- version 2 and 3 -------------------------------------------------

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t Desc;
typedef const_dnnl_memory_desc_t ConstDesc;
#define DESC_REF(d) (d)
static dnnl_status_t desc_strided(Desc *d, const dnnl_dims_t dims, dnnl_data_type_t t,
                                  const dnnl_dims_t strides) {
  return dnnl_memory_desc_create_with_strides(d, 2, dims, t, strides);
}
static void desc_free(Desc d) { dnnl_memory_desc_destroy(d); }
static dnnl_status_t post_sum(dnnl_post_ops_t ops) {
  return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}
static dnnl_status_t post_relu(dnnl_post_ops_t ops) {
  return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0);
}
static dnnl_status_t matmul_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, Desc *a, Desc *b,
                                 Desc *bias, Desc *c, dnnl_primitive_attr_t attr) {
  return dnnl_matmul_primitive_desc_create(pd, engine, *a, *b, bias ? *bias : NULL, *c, attr);
}
#else
typedef dnnl_memory_desc_t Desc;
typedef const dnnl_memory_desc_t *ConstDesc;
#define DESC_REF(d) (&(d))
static dnnl_status_t desc_strided(Desc *d, const dnnl_dims_t dims, dnnl_data_type_t t,
                                  const dnnl_dims_t strides) {
  return dnnl_memory_desc_init_by_strides(d, 2, dims, t, strides);
}
static void desc_free(Desc d) { (void)d; }
static dnnl_status_t post_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1); }
static dnnl_status_t post_relu(dnnl_post_ops_t ops) {
  return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0);
}
static dnnl_status_t matmul_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, Desc *a, Desc *b,
                                 Desc *bias, Desc *c, dnnl_primitive_attr_t attr) {
  dnnl_matmul_desc_t desc;
  dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, bias, c);
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL);
}
#endif

// ------------------------------- library ---------------------------------------------------------

int onednn_new(OneDnn **out, int workers) {
  *out = NULL;
  // some virtual machines report AMX in their processor flags but fail to run it: use it on request
  if (!getenv("ONEDNN_MAX_CPU_ISA") && !getenv("DNNL_MAX_CPU_ISA")) {
    dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);  // fails harmlessly after the first use
  }
  OneDnn *dnn = calloc(1, sizeof *dnn);
  if (!dnn) return bfm_fail(BFM_NO_MEMORY, "out of memory for oneDNN");
  dnn->workers = workers;
  dnn->streams = calloc(workers, sizeof *dnn->streams);
  dnn->scratch = calloc(workers, sizeof *dnn->scratch);
  *out = dnn;
  if (!dnn->streams || !dnn->scratch) return bfm_fail(BFM_NO_MEMORY, "out of memory for oneDNN");
  DNNL(dnnl_engine_create(&dnn->engine, dnnl_cpu, 0), "opening the CPU");
  for (int i = 0; i < workers; i++) {
    DNNL(dnnl_stream_create(&dnn->streams[i], dnn->engine, dnnl_stream_default_flags),
         "creating a stream");
  }
  return BFM_OK;
}

static void product_free(Product *product) {
  if (product->args) {
    for (int i = 0; i < product->dnn->workers; i++) {
      for (int j = 0; j < ARG_COUNT; j++) {
        if (product->args[i][j].memory) dnnl_memory_destroy(product->args[i][j].memory);
      }
    }
  }
  if (product->primitive) dnnl_primitive_destroy(product->primitive);
  free(product->args);
  free(product);
}

static void free_products(OneDnn *dnn) {
  for (int i = 0; i < TABLE_SIZE; i++) {
    if (dnn->table[i]) product_free(dnn->table[i]);
    dnn->table[i] = NULL;
  }
  dnn->count = 0;
}

void onednn_free(OneDnn *dnn) {
  if (!dnn) return;
  free_products(dnn);
  for (int i = 0; i < dnn->workers; i++) {
    if (dnn->streams && dnn->streams[i]) dnnl_stream_destroy(dnn->streams[i]);
    if (dnn->scratch) free(dnn->scratch[i]);
  }
  if (dnn->engine) dnnl_engine_destroy(dnn->engine);
  free(dnn->streams);
  free(dnn->scratch);
  free(dnn);
}

int onednn_uses_avx512(void) {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

// ------------------------------- products --------------------------------------------------------

// describes a [rows, cols] matrix with this leading dimension; transposed: stored as [cols, rows]
static dnnl_status_t matrix(Desc *desc, int64_t rows, int64_t cols, int64_t ld, int transposed,
                            Type type) {
  dnnl_dims_t dims = {rows, cols};
  dnnl_dims_t strides = {transposed ? 1 : ld, transposed ? ld : 1};
  return desc_strided(desc, dims, type == F32 ? dnnl_f32 : dnnl_bf16, strides);
}

static int grow_scratch(OneDnn *dnn, size_t size) {
  if (size <= dnn->scratch_size) return BFM_OK;
  size = (size + 4095) / 4096 * 4096;
  for (int i = 0; i < dnn->workers; i++) {
    free(dnn->scratch[i]);
    dnn->scratch[i] = aligned_alloc(4096, size);
    if (!dnn->scratch[i]) {
      dnn->scratch_size = 0;
      return bfm_fail(BFM_NO_MEMORY, "out of memory for %s of oneDNN's scratch",
                      size_of_bytes((double)size).text);
    }
  }
  dnn->scratch_size = size;
  return BFM_OK;
}

static int make_memories(Product *product, ConstDesc a, ConstDesc b, ConstDesc c, ConstDesc scratch,
                         ConstDesc bias) {
  const ConstDesc descs[ARG_COUNT] = {a, b, c, scratch, bias};
  const int kinds[ARG_COUNT] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD,
                                DNNL_ARG_BIAS};
  OneDnn *dnn = product->dnn;
  product->arg_count = bias ? ARG_COUNT : ARG_COUNT - 1;
  product->args = calloc(dnn->workers, sizeof *product->args);
  if (!product->args) return bfm_fail(BFM_NO_MEMORY, "out of memory for a product");
  for (int i = 0; i < dnn->workers; i++) {
    for (int j = 0; j < product->arg_count; j++) {
      product->args[i][j].arg = kinds[j];
      DNNL(dnnl_memory_create(&product->args[i][j].memory, descs[j], dnn->engine, DNNL_MEMORY_NONE),
           "describing an operand");
    }
  }
  return BFM_OK;
}

static int product_make(Product *product) {
  const ProductShape *s = &product->shape;
  OneDnn *dnn = product->dnn;
  Desc a, b, c, bias;
  DNNL(matrix(&a, s->m, s->k, s->lda, s->transpose_a, s->type), "describing A");
  DNNL(matrix(&b, s->k, s->n, s->ldb, s->transpose_b, s->type), "describing B");
  DNNL(matrix(&c, s->m, s->n, s->ldc, 0, s->type_c), "describing C");
  DNNL(matrix(&bias, 1, s->n, s->n, 0, F32), "describing a bias");

  dnnl_post_ops_t post;
  dnnl_primitive_attr_t attr;
  DNNL(dnnl_post_ops_create(&post), "creating post-operations");
  if (s->add) DNNL(post_sum(post), "adding a sum");
  if (s->relu) DNNL(post_relu(post), "adding a relu");
  DNNL(dnnl_primitive_attr_create(&attr), "creating attributes");
  DNNL(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
       "setting the scratchpad mode");
  DNNL(dnnl_primitive_attr_set_post_ops(attr, post), "setting post-operations");

  dnnl_primitive_desc_t pd;
  dnnl_status_t status = matmul_desc(&pd, dnn->engine, &a, &b, s->bias ? &bias : NULL, &c, attr);
  dnnl_post_ops_destroy(post);
  dnnl_primitive_attr_destroy(attr);
  if (status != dnnl_success) {
    return bfm_fail(BFM_UNAVAILABLE,
                    "oneDNN has no %s product of %ld x %ld x %ld on this CPU (status %d)",
                    s->type == F32 ? "float32" : "bfloat16", (long)s->m, (long)s->n, (long)s->k,
                    (int)status);
  }
  DNNL(dnnl_primitive_create(&product->primitive, pd), "creating a product");

  ConstDesc scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  TRY(grow_scratch(dnn, dnnl_memory_desc_get_size(scratch)));
  int made = make_memories(product, DESC_REF(a), DESC_REF(b), DESC_REF(c), scratch,
                           s->bias ? DESC_REF(bias) : NULL);
  dnnl_primitive_desc_destroy(pd);
  desc_free(a);
  desc_free(b);
  desc_free(c);
  desc_free(bias);
  return made;
}

static uint32_t hash(const ProductShape *shape) {
  uint32_t h = 2166136261u;
  const unsigned char *bytes = (const unsigned char *)shape;
  for (size_t i = 0; i < sizeof *shape; i++) h = (h ^ bytes[i]) * 16777619u;
  return h;
}

// Training uses some hundreds of shapes, but acting adds new ones for every number of rows.
void onednn_make_room(OneDnn *dnn, int products) {
  if (dnn->count + products > TABLE_SIZE / 2) free_products(dnn);
}

int onednn_product(OneDnn *dnn, const ProductShape *shape, Product **out) {
  uint32_t at = hash(shape) % TABLE_SIZE;
  while (dnn->table[at]) {
    if (!memcmp(&dnn->table[at]->shape, shape, sizeof *shape)) {
      *out = dnn->table[at];
      return BFM_OK;
    }
    at = (at + 1) % TABLE_SIZE;
  }
  Product *product = calloc(1, sizeof *product);
  if (!product) return bfm_fail(BFM_NO_MEMORY, "out of memory for a product");
  product->shape = *shape;
  product->dnn = dnn;

  int threads = omp_get_max_threads ? omp_get_max_threads() : 1;
  if (omp_set_num_threads) omp_set_num_threads(1);
  int made = product_make(product);
  if (omp_set_num_threads) omp_set_num_threads(threads);
  if (made) {
    product_free(product);
    return made;
  }
  dnn->table[at] = product;
  dnn->count++;
  *out = product;
  return BFM_OK;
}

int product_run(Product *product, int worker, const void *a, const void *b, void *c,
                const float *bias) {
  dnnl_exec_arg_t *args = product->args[worker];
  dnnl_memory_set_data_handle(args[ARG_A].memory, (void *)a);
  dnnl_memory_set_data_handle(args[ARG_B].memory, (void *)b);
  dnnl_memory_set_data_handle(args[ARG_C].memory, c);
  dnnl_memory_set_data_handle(args[ARG_SCRATCH].memory, product->dnn->scratch[worker]);
  if (product->shape.bias) dnnl_memory_set_data_handle(args[ARG_BIAS].memory, (void *)bias);

  int threads = omp_get_max_threads ? omp_get_max_threads() : 1;
  if (threads > 1) omp_set_num_threads(1);
  DNNL(dnnl_primitive_execute(product->primitive, product->dnn->streams[worker], product->arg_count,
                              args),
       "a product");
  if (threads > 1) omp_set_num_threads(threads);
  return BFM_OK;
}

void onednn_sgemm(int64_t m, int64_t n, int64_t k, float alpha, const float *a, const float *b,
                  int transpose_b, float beta, float *c) {
  int threads = omp_get_max_threads ? omp_get_max_threads() : 1;
  if (threads > 1) omp_set_num_threads(1);
  dnnl_sgemm('N', transpose_b ? 'T' : 'N', m, n, k, alpha, a, k, b, transpose_b ? k : n, beta, c,
             n);
  if (threads > 1) omp_set_num_threads(threads);
}
