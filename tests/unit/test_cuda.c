// The CUDA backend against the CPU backend: every operation on the same random inputs, also of odd
// sizes, then lanes and graphs, then whole steps, in the files cuda_*.c. Without a GPU the tests are
// skipped with a message.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bfm.h"
#include "cuda_tests.h"

Ops *machine[2];
Precision precision;

static int open_both(void) {
  assert_int_equal(ops_open(&machine[CPU], "cpu", precision, 2), BFM_OK);
  int status = ops_open(&machine[GPU], "cuda", precision, 0);
  if (status) machine[CPU]->close(machine[CPU]);
  return status;
}

static void close_both(void) {
  for (int i = CPU; i <= GPU; i++) machine[i]->close(machine[i]);
}

// arguments: a pattern of tests to run, a pattern of tests to skip
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
      cmocka_unit_test(test_choices),      cmocka_unit_test(test_steps),
      cmocka_unit_test(test_many_steps),   cmocka_unit_test(test_step_options),
      cmocka_unit_test(test_resumes),      cmocka_unit_test(test_long_runs),
      cmocka_unit_test(test_exploring),    cmocka_unit_test(test_explorers),
      cmocka_unit_test(test_prompts),
  };
  int failed = 0;
  static const Precision precisions[] = {PRECISION_F32, PRECISION_TF32, PRECISION_BF16};
  static const char *names[] = {"CUDA in f32", "CUDA in tf32", "CUDA in bf16"};
  for (int i = 0; i < 3; i++) {
    precision = precisions[i];
    if (open_both()) {
      printf("%s skipped: %s\n", names[i], bfm_error());
      continue;
    }
    printf("%s on %s\n", names[i], machine[GPU]->name);
    failed += _cmocka_run_group_tests(names[i], tests, sizeof tests / sizeof *tests, NULL, NULL);
    close_both();
  }
  return failed;
}
