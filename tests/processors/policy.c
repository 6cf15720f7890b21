// The policy runtime on another processor, without the library: the walker's z and actions, and the
// refusal of absurd observations. It runs in an emulator, also for 32-bit ARM.

#include <bfm_policy.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "walker.h"

static bfm_policy *policy;
static bfm_policy_work *work;
static bfm_policy_error problem;
static float obs[ROWS][OBS], z[D], act[ACT];
static int failures;

static void expect(int holds, const char *what, const char *kernels, double value) {
  if (holds) return;
  printf("%s with %s: %.9g %s\n", what, kernels, value, problem.text);
  failures++;
}

static void test_prompt(const char *kernels) {
  expect(!bfm_policy_prompt_states(policy, work, ROWS, *obs, z, &problem), "prompt", kernels, 0);
  for (int i = 0; i < 8; i++) {
    expect(fabsf(z[i * 8] - walker_z[i]) < WALKER_NEAR, "z", kernels, z[i * 8]);
  }
}

static void test_actions(const char *kernels) {
  for (size_t c = 0; c < sizeof walker_cases / sizeof *walker_cases; c++) {
    const bfm_policy_how how = {.samples = walker_cases[c].es, .step = 7};
    for (int r = 0; r < ROWS; r++) {
      expect(!bfm_policy_act(policy, work, obs[r], z, &how, act, NULL, &problem), "act", kernels,
             r);
      for (int i = 0; i < ACT; i++) {
        expect(fabsf(act[i] - walker_cases[c].act[r][i]) < WALKER_NEAR, "action", kernels, act[i]);
      }
    }
  }
}

// the action is then the safe one, which is 0
static void test_refusals(const char *kernels) {
  const float absurd[] = {1e19f, -1e25f, 1e30f, 3e38f, NAN, INFINITY};
  for (size_t k = 0; k < sizeof absurd / sizeof *absurd; k++) {
    for (int all = 0; all < 2; all++) {
      float bad[OBS];
      memcpy(bad, obs[0], sizeof bad);
      for (int i = 0; i < (all ? OBS : 1); i++) bad[i] = absurd[k];
      memset(act, 0xff, sizeof act);
      expect(bfm_policy_act(policy, work, bad, z, NULL, act, NULL, &problem) ==
                 BFM_POLICY_BAD_INPUT,
             "absurd observation", kernels, absurd[k]);
      for (int i = 0; i < ACT; i++) expect(act[i] == 0, "safe action", kernels, act[i]);
    }
  }
}

static void test(const char *kernels) {
  test_prompt(kernels);
  test_actions(kernels);
  test_refusals(kernels);
  printf("%s: %s\n", kernels, failures ? "FAILED" : "ok");
}

int main(void) {
  static const char *const names[] = {"plain", "neon", "avx2", "avx512"};
  if (bfm_policy_open(&policy, "models/walker.safetensors", &problem)) {
    return printf("%s\n", problem.text), 1;
  }
  size_t bytes = bfm_policy_work_bytes(policy, 16);
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!memory || bfm_policy_work_init(&work, policy, 16, memory, bytes, &problem)) {
    return printf("%s\n", problem.text), 1;
  }
  walker_observe(obs);
  for (int i = 0; i < 4; i++) {
    if (!bfm_policy_set_kernels(policy, names[i], &problem)) test(names[i]);
  }
  bfm_policy_close(policy);
  free(memory);
  return failures > 0;
}
