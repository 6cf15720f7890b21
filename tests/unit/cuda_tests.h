// The parts of test_cuda: buffers on CPU and GPU, and the tests that use them.
//
// Tolerances are relative to the largest value of an output: float32 2e-5 (5e-5 for sums of a
// thousand products); bfloat16 1.2e-2, three roundings of 2^-8; float32 products in tf32 2e-3.

#ifndef BFM_TESTS_CUDA_TESTS_H
#define BFM_TESTS_CUDA_TESTS_H

#include "ops/ops.h"

enum { CPU, GPU };
extern Ops *machine[2];
extern Precision precision;  // of both devices

// ------------------------------- buffers on both devices -----------------------------------------

typedef struct {
  void *at[2];
  size_t bytes;
  Type type;
} Buffer;

// `count` normals of `type`, times scale. Outputs are filled too, so that parts which an operation
// does not write compare equal.
Buffer *normals(int64_t count, Type type, float scale);
Buffer *f32(int64_t count);
Buffer *activations(int64_t count);
Buffer *raw(const void *host, size_t bytes);
void forget_buffers(void);

// runs an operation on both devices; AT(buffer) is the buffer's memory on the current one
#define AT(b) ((b)->at[side_])
#define BOTH(operation, Type_, ...)                                   \
  for (int side_ = CPU; side_ <= GPU; side_++) {                      \
    machine[side_]->operation(machine[side_], &(Type_){__VA_ARGS__}); \
    assert_int_equal(machine[side_]->sync(machine[side_]), BFM_OK);   \
  }

void *fetch(const Buffer *b, int side);  // a copy on the host, which the caller frees

void check(const char *what, const Buffer *b, double tolerance);
void check_equal(const char *what, const Buffer *b);
// the tolerance for outputs of T, and for float32 outputs computed from T or with tf32
double tolerance(double exact);

// ------------------------------- tests -----------------------------------------------------------

void test_products(void **state);
void test_sums(void **state);
void test_flops(void **state);
void test_bias_grad(void **state);
void test_norm(void **state);
void test_moving(void **state);
void test_outputs(void **state);
void test_draws(void **state);
void test_es(void **state);
void test_fb_losses(void **state);
void test_actor_losses(void **state);
void test_laplacian_losses(void **state);
void test_exploring(void **state);
void test_weighted_sum(void **state);
void test_parameters(void **state);
void test_graph(void **state);
void test_failures(void **state);
void test_choices(void **state);
void test_steps(void **state);
void test_many_steps(void **state);
void test_step_options(void **state);
void test_resumes(void **state);
void test_long_runs(void **state);
void test_explorers(void **state);
void test_prompts(void **state);

#endif
