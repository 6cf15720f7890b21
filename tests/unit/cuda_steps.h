// The tests of whole steps, a part of test_cuda, and the machines that it opens for them.

#ifndef BFM_TESTS_CUDA_STEPS_H
#define BFM_TESTS_CUDA_STEPS_H

#include "ops/ops.h"

enum { CPU, GPU };
extern Ops *machine[2];  // opened with one precision

void test_steps(void **state);
void test_explorers(void **state);
void test_prompts(void **state);

#endif
