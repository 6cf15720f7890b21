// A small interface to oneDNN: matrix products on one thread, created once and run many times.
// oneDNN 2 and 3 describe primitives differently; onednn.c hides the difference.

#ifndef BFM_OPS_ONEDNN_H
#define BFM_OPS_ONEDNN_H

#include "core/status.h"
#include "ops/ops.h"

typedef struct {
  int64_t m, n, k, lda, ldb, ldc;
  int transpose_a, transpose_b;
  Type type, type_c;
  int bias, relu, add;  // C = A·B, + C with add, + bias, max(·, 0) with relu
} ProductShape;

typedef struct OneDnn OneDnn;
typedef struct Product Product;

int onednn_new(OneDnn **dnn, int workers);
void onednn_free(OneDnn *dnn);

// whether the processor has AVX-512 and the environment variable ONEDNN_MAX_CPU_ISA allows it
int onednn_uses_avx512(void);

// Makes room in the cache for this many new products, by freeing all cached ones if it is too full.
void onednn_make_room(OneDnn *dnn, int products);

// the product of this shape, created at the first call and then cached
int onednn_product(OneDnn *dnn, const ProductShape *shape, Product **product);

// runs the product as `worker`, from any thread
int product_run(Product *product, int worker, const void *a, const void *b, void *c,
                const float *bias);

// C[m,n] = alpha·A[m,k]·B + beta·C on one thread, float32, tight rows; transpose_b: B is [n, k]
void onednn_sgemm(int64_t m, int64_t n, int64_t k, float alpha, const float *a, const float *b,
                  int transpose_b, float beta, float *c);

#endif
