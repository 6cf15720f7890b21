// The CPU's float32 products beside sums in double: every epilogue, transposed operands, shared
// operands, sizes that fill no tile, with AVX-512 where there is one and without it, and the same bits
// for any number of threads. oneDNN fixes its instructions at first use: each set has a process.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bfm.h"
#include "ops/ops.h"

enum { MOST = 1 << 20 };

typedef struct {
  int64_t m, n, k;
  int transpose_a, transpose_b;
  Epilogue epilogue;
  int64_t batch, share_a, share_b, share_c;
} Case;

static const Case cases[] = {
    {1, 1, 1, 0, 0, EPILOGUE_NONE, 1, 1, 1, 1},
    {14, 32, 16, 0, 0, EPILOGUE_BIAS, 2, 1, 1, 1},
    {14, 32, 16, 0, 1, EPILOGUE_BIAS_RELU, 2, 1, 1, 1},
    {13, 31, 17, 0, 1, EPILOGUE_BIAS_RELU, 3, 1, 1, 1},
    {100, 40, 300, 0, 1, EPILOGUE_BIAS, 1, 1, 1, 1},
    {100, 40, 300, 1, 0, EPILOGUE_ADD, 2, 1, 1, 1},
    {65, 8, 259, 0, 1, EPILOGUE_RELU_GRAD, 2, 1, 1, 1},
    {65, 88, 8, 0, 0, EPILOGUE_RELU_GRAD, 2, 1, 1, 1},
    {29, 57, 70, 1, 1, EPILOGUE_NONE, 4, 2, 1, 1},
    {29, 57, 70, 0, 0, EPILOGUE_NONE, 4, 1, 4, 1},
    {70, 64, 257, 1, 0, EPILOGUE_ADD, 6, 1, 3, 3},
    {1030, 33, 24, 0, 1, EPILOGUE_BIAS, 1, 1, 1, 1},
};
#define CASES (sizeof cases / sizeof *cases)

static float a[MOST], b[MOST], start[MOST], relu[MOST], bias[4096];

// rows of c are 3 values longer than n: those must keep their values
static Gemm gemm_of(const Case *t, float *c) {
  Gemm x = {.m = t->m, .n = t->n, .k = t->k, .transpose_a = t->transpose_a,
            .transpose_b = t->transpose_b, .epilogue = t->epilogue, .a = a, .b = b, .c = c,
            .batch = t->batch, .share_a = t->share_a, .share_b = t->share_b, .share_c = t->share_c};
  x.lda = (t->transpose_a ? t->m : t->k) + 1;
  x.ldb = (t->transpose_b ? t->k : t->n) + 2;
  x.ldc = t->n + 3;
  x.stride_a = x.lda * (t->transpose_a ? t->k : t->m);
  x.stride_b = x.ldb * (t->transpose_b ? t->n : t->k);
  x.stride_c = x.ldc * t->m;
  x.bias = bias;
  x.stride_bias = t->n;
  x.relu = relu;
  return x;
}

static double expected(const Case *t, const Gemm *x, int64_t group, int64_t i, int64_t j) {
  int64_t at = group * x->stride_c + i * x->ldc + j;
  double sum = t->epilogue == EPILOGUE_ADD ? start[at] : 0;
  for (int64_t g = group * t->share_c; g < (group + 1) * t->share_c; g++) {
    const float *p = a + g / t->share_a * x->stride_a, *q = b + g / t->share_b * x->stride_b;
    for (int64_t k = 0; k < t->k; k++) {
      sum += (double)p[t->transpose_a ? k * x->lda + i : i * x->lda + k] *
             q[t->transpose_b ? j * x->ldb + k : k * x->ldb + j];
    }
  }
  if (t->epilogue == EPILOGUE_BIAS || t->epilogue == EPILOGUE_BIAS_RELU) {
    sum += bias[group * t->n + j];
  }
  if (t->epilogue == EPILOGUE_BIAS_RELU) return fmax(sum, 0);
  return t->epilogue == EPILOGUE_RELU_GRAD && !(relu[at] > 0) ? 0 : sum;
}

static int wrong(const Case *t, const Gemm *x, const float *c) {
  for (int64_t g = 0; g < t->batch / t->share_c; g++) {
    for (int64_t i = 0; i < t->m; i++) {
      const float *row = c + g * x->stride_c + i * x->ldc;
      for (int64_t j = 0; j < t->n; j++) {
        if (!(fabs(row[j] - expected(t, x, g, i, j)) < 1e-6 * (double)(t->k * t->share_c) + 1e-6)) {
          return 1;
        }
      }
      if (memcmp(row + t->n, start + (row - c) + t->n, 3 * sizeof *row)) return 2;
    }
  }
  return 0;
}

// 0, or a number that says what is wrong
static int check(const char *isa) {
  static float c[2][MOST];
  static const int threads[2] = {1, 3};
  setenv("ONEDNN_MAX_CPU_ISA", isa, 1);
  for (size_t i = 0; i < CASES; i++) {
    for (int run = 0; run < 2; run++) {
      Ops *ops;
      if (ops_open_cpu(&ops, F32, threads[run])) return 100;
      memcpy(c[run], start, sizeof start);
      Gemm x = gemm_of(&cases[i], c[run]);
      ops->gemm(ops, &x);
      int bad = wrong(&cases[i], &x, c[run]);
      ops->close(ops);
      if (bad) return (int)i + 1;
    }
    if (memcmp(c[0], c[1], sizeof c[0])) return (int)i + 50;
  }
  return 0;
}

static int in_process(const char *isa) {
  int status;
  pid_t child = fork();
  if (!child) _exit(check(isa));
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int setup(void **state) {
  (void)state;
  bfm_random_normal(1, 0, 0, MOST, a);
  bfm_random_normal(1, 0, 1, MOST, b);
  bfm_random_normal(1, 0, 2, MOST, start);
  bfm_random_normal(1, 0, 3, MOST, relu);
  bfm_random_normal(1, 0, 4, 4096, bias);
  return 0;
}

static void test_products_with_all_instructions(void **state) {
  (void)state;
  assert_int_equal(in_process("ALL"), 0);
}

static void test_products_with_avx2(void **state) {
  (void)state;
  assert_int_equal(in_process("AVX2"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products_with_all_instructions),
      cmocka_unit_test(test_products_with_avx2),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
