// One model acts alike on every processor. The numbers here were computed on x86-64 with AVX2; make
// test-cross runs this test on other processors.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bfm.h"

enum { OBS = 24, ACT = 6, D = 64, ROWS = 4 };
#define NEAR 1e-5f

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

// numbers that every processor computes exactly
static void observe(float obs[ROWS][OBS]) {
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < OBS; i++) obs[r][i] = (float)((i * 37 + r * 101) % 61 - 30) / 16;
  }
}

static void prompt(float z[D]) {
  float obs[ROWS][OBS];
  observe(obs);
  assert_int_equal(bfm_agent_prompt_states(agent, 0, ROWS, *obs, z), BFM_OK);
}

static void test_prompts(void **state) {
  (void)state;
  static const float expected[8] = {1.17430043f, -0.37312227f, -0.05607989f, -0.38113993f,
                                    0.54713738f, 0.36363751f,  -1.23667276f, -0.25245991f};
  float z[D];
  prompt(z);
  for (int i = 0; i < 8; i++) assert_float_equal(z[i * 8], expected[i], NEAR);
}

static void test_actions(void **state) {
  (void)state;
  static const struct {
    int64_t es;
    float act[ROWS][ACT];
  } cases[] = {{0,
                {{-0.3458212f, -0.8501737f, -0.6429930f, -0.3313038f, -0.9023787f, 0.5608938f},
                 {0.8207804f, 0.4760731f, 0.6452299f, 0.8936979f, -0.0768217f, -0.7316350f},
                 {0.7893037f, 0.5354773f, 0.1303924f, 0.2559472f, 0.7771456f, 0.6593971f},
                 {-0.6715198f, -0.2159385f, -0.9054954f, -0.6155620f, -0.4840204f, 0.6708666f}}},
               {16,
                {{-0.3998202f, -1.0000000f, -0.5382794f, -0.2251063f, -0.9288093f, 0.5995315f},
                 {1.0000000f, 0.2263703f, 0.5760724f, 0.7465262f, -0.1940901f, -0.6980032f},
                 {0.4703044f, 1.0000000f, -0.0386534f, 0.1439174f, 0.8827843f, 0.6359698f},
                 {-0.3384092f, -0.1196705f, -0.9489496f, -0.7336193f, -0.6111112f, 0.8433979f}}}};
  float obs[ROWS][OBS], z[D], act[ROWS][ACT];
  prompt(z);
  observe(obs);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    for (int r = 0; r < ROWS; r++) {
      assert_int_equal(bfm_agent_act(agent, 0, 1, obs[r], z, cases[c].es, 0, 7, act[r]), BFM_OK);
      for (int i = 0; i < ACT; i++) assert_float_equal(act[r][i], cases[c].act[r][i], NEAR);
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
      observe(obs);
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
