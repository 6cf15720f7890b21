// One model acts alike on every processor. make test-cross runs this test on other processors
// than this machine's.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../processors/walker.h"
#include "bfm.h"

static bfm_agent *agent;

static int load(void **state) {
  (void)state;
  return bfm_agent_load(&agent, "models/walker.safetensors",
                        "{\"device\": \"cpu\", \"threads\": 1}");
}

static int unload(void **state) {
  (void)state;
  bfm_agent_free(agent);
  return 0;
}

static void prompt(float z[D]) {
  float obs[ROWS][OBS];
  walker_observe(obs);
  assert_int_equal(bfm_agent_prompt_states(agent, 0, ROWS, *obs, z), BFM_OK);
}

static void test_prompts(void **state) {
  (void)state;
  float z[D];
  prompt(z);
  for (int i = 0; i < 8; i++) assert_float_equal(z[i * 8], walker_z[i], WALKER_NEAR);
}

static void test_actions(void **state) {
  (void)state;
  float obs[ROWS][OBS], z[D], act[ROWS][ACT];
  prompt(z);
  walker_observe(obs);
  for (size_t c = 0; c < sizeof walker_cases / sizeof *walker_cases; c++) {
    for (int r = 0; r < ROWS; r++) {
      assert_int_equal(bfm_agent_act(agent, 0, 1, obs[r], z, walker_cases[c].es, 0, 7, act[r]),
                       BFM_OK);
      for (int i = 0; i < ACT; i++)
        assert_float_equal(act[r][i], walker_cases[c].act[r][i], WALKER_NEAR);
    }
  }
}

// A processor whose minimum and maximum pass over a NaN must not hide one.
static void test_absurd_observations_are_refused(void **state) {
  (void)state;
  static const float absurd[] = {1e19f, -1e25f, 1e30f, 3e38f, (float)(0.0 / 0.0), 1 / 0.0f};
  float obs[ROWS][OBS], z[D], act[ACT];
  prompt(z);
  for (size_t k = 0; k < sizeof absurd / sizeof *absurd; k++) {
    for (int all = 0; all < 2; all++) {
      walker_observe(obs);
      for (int i = 0; i < (all ? OBS : 1); i++) obs[0][i] = absurd[k];
      for (int64_t es = 0; es <= 8; es += 8) {
        assert_int_equal(bfm_agent_act(agent, 0, 1, obs[0], z, es, 0, 0, act), BFM_BAD_ARGUMENT);
        assert_non_null(strstr(bfm_error(), "row 0, column 0"));
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prompts),
      cmocka_unit_test(test_actions),
      cmocka_unit_test(test_absurd_observations_are_refused),
  };
  return cmocka_run_group_tests(tests, load, unload);
}
