// Products, on a GPU against the CPU: layouts, types, epilogues, shared operands, column sums; and
// the cache of algorithms on disk.

#define _GNU_SOURCE
#include "cuda_tests.h"

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
#include "ops/cpu.h"

// ------------------------------- products --------------------------------------------------------

typedef struct {
  int64_t m, n, k, pad;  // pad: elements between rows
  int transpose_a, transpose_b;
  Type type, type_c;
  Epilogue epilogue;
  int64_t batch, share_a, share_b, share_c;
  int copy;  // pass the bias as T too
  int sums;  // number of arrays for column sums of C
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
  for (int64_t i = 0; i < p->batch * p->n; i++) {  // values that are exact in bfloat16
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
  int tf32 = precision != PRECISION_F32 && p->type == F32;
  char what[160];
  snprintf(what, sizeof what, "product %ld x %ld x %ld, batch %ld, types %d %d, epilogue %d",
           (long)p->m, (long)p->n, (long)p->k, (long)p->batch, p->type, p->type_c, p->epilogue);
  check(what, c, rounded ? 1.2e-2 : tf32 ? 2e-3 : 5e-5);
  for (int i = 0; i < 2; i++) check(what, sums[i], rounded ? 1.2e-2 : tf32 ? 2e-3 : 1e-4);
  forget_buffers();
}

void test_products(void **state) {
  (void)state;
  Type t = machine[CPU]->type;
  static const int64_t sizes[][3] = {{1024, 1024, 1024}, {64, 64, 8},  {128, 30, 88},
                                     {33, 7, 65},        {1, 1, 1},    {200, 1, 129},
                                     {1, 64, 256},       {96, 131, 17}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int layout = 0; layout < 4; layout++) {
      product(&(Product_){.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2],
                          .pad = layout == 3 ? 5 : 0, .transpose_a = layout % 2,
                          .transpose_b = layout / 2, .type = t, .type_c = layout / 2 ? F32 : t,
                          .batch = 1});
    }
  }
  for (int e = EPILOGUE_NONE; e <= EPILOGUE_RELU_GRAD; e++) {
    for (int wide = 0; wide < 2; wide++) {
      Product_ p = {.m = wide ? 256 : 37, .n = wide ? 128 : 19, .k = wide ? 64 : 23,
                    .transpose_b = 1, .type = t, .type_c = t, .epilogue = (Epilogue)e, .batch = 4,
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

void test_sums(void **state) {
  (void)state;
  Type t = machine[CPU]->type;
  static const int64_t sizes[][2] = {{1024, 1024}, {37, 18}, {600, 512}, {1, 2}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int sums = 1; sums <= 2; sums++) {
      Product_ p = {.m = sizes[i][0], .n = sizes[i][1], .k = 24, .type = t, .type_c = t,
                    .epilogue = EPILOGUE_RELU_GRAD, .batch = 2, .sums = sums};
      product(&p);
      p.share_c = 2, p.pad = 8;
      product(&p);
    }
  }
}

void test_flops(void **state) {
  (void)state;
  Buffer *a = f32(64), *c = f32(64);
  for (int i = CPU; i <= GPU; i++) machine[i]->flops = 0;
  BOTH(gemm, Gemm, .m = 8, .n = 8, .k = 8, .type = F32, .type_c = F32, .a = AT(a), .b = AT(a),
       .c = AT(c), .lda = 8, .ldb = 8, .ldc = 8, .batch = 1);
  assert_int_equal(machine[CPU]->flops, 1024);
  assert_int_equal(machine[GPU]->flops, 1024);
  forget_buffers();
}

// ------------------------------- choices on disk -------------------------------------------------

// a product on a newly opened device, which reads the cache file; returns the file's size
static int64_t multiply_with(const char *path, float *out) {
  enum { SIZE = 64 };
  Ops *gpu = NULL;
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

void test_choices(void **state) {
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
  assert_int_equal(multiply_with(path, again), size);  // taken from the cache
  assert_memory_equal(first, again, sizeof first);
  assert_int_equal(ftruncate(fd, size - 1), 0);  // truncated within a record
  assert_int_equal(multiply_with(path, again), size);
  assert_int_equal(pwrite(fd, "\0\1\2\3", 4, size / 2), 4);  // a damaged record is ignored
  assert_int_equal(multiply_with(path, again), 2 * size);
  assert_int_equal(multiply_with(path, again), 2 * size);
  static char text[3000], kept[sizeof text];  // a file that is no cache is not changed
  memset(text, 'x', sizeof text);
  assert_int_equal(ftruncate(fd, 0), 0);
  assert_int_equal(pwrite(fd, text, sizeof text, 0), sizeof text);
  assert_int_equal(multiply_with(path, again), sizeof text);
  assert_int_equal(pread(fd, kept, sizeof kept, 0), sizeof kept);
  assert_memory_equal(text, kept, sizeof text);
  setenv("BFM_CUDA_CHOICES", "", 1);  // no cache file
  multiply_with(path, again);
  unsetenv("BFM_CUDA_CHOICES");
  close(fd);
  unlink(path);
}
