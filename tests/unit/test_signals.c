// What models say about the numbers that they read and write.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// after the headers above
#include <cmocka.h>

#include "agent/agent.h"
#include "envs/domain.h"

static void expect(const Signal *s, const char *part, const char *name, const char *unit) {
  assert_string_equal(s->part, part);
  assert_string_equal(s->name, name);
  assert_string_equal(s->unit, unit);
}

static void test_walker(void **state) {
  (void)state;
  Signals s;
  assert_int_equal(signals_of_domain(&s, "walker"), BFM_OK);
  assert_int_equal(s.obs_count, 24);
  assert_int_equal(s.act_count, 6);
  assert_true(s.control_dt == 0.025);
  expect(s.obs, "orientations", "torso.xx", "1");
  expect(s.obs + 3, "orientations", "right_thigh.xz", "1");
  expect(s.obs + 14, "height", "torso.z", "m");
  expect(s.obs + 15, "velocity", "rootz.v", "m/s");
  expect(s.obs + 17, "velocity", "rooty.v", "rad/s");
  expect(s.act, "", "right_hip", "N m");
  assert_true(s.act[0].low == -100 && s.act[0].high == 100);
  signals_free(&s);
}

static void test_functions_and_sensors(void **state) {
  (void)state;
  Signals s;
  assert_int_equal(signals_of_domain(&s, "quadruped"), BFM_OK);
  expect(s.obs, "egocentric_state", "yaw_front_left.q", "rad");
  expect(s.obs + 44, "torso_velocity", "velocimeter.x", "m/s");
  expect(s.obs + 47, "torso_upright", "torso.zz", "1");
  expect(s.obs + 48, "imu", "imu_accel.x", "m/s^2");
  expect(s.obs + 77, "force_torque", "asinh(torque_toe_back_left.z)", "asinh(N m)");
  expect(s.act, "", "yaw_front_left", "rad");
  signals_free(&s);
  assert_int_equal(signals_of_domain(&s, "humanoid"), BFM_OK);
  expect(s.obs + 22, "extremities", "left_hand in torso.0", "m");
  expect(s.obs + 66, "velocity", "left_elbow.v", "rad/s");
  signals_free(&s);
}

// every domain can be described, and what JSON says comes back
static void test_every_domain(void **state) {
  (void)state;
  for (int i = 0; domain_at(i); i++) {
    Signals s, back;
    if (signals_of_domain(&s, domain_at(i)->name)) continue;  // its model is not installed
    assert_int_equal(s.obs_count, domain_at(i)->obs_dim);
    for (int k = 0; k < s.obs_count; k++) {
      assert_true(*s.obs[k].name && *s.obs[k].part);
      for (int j = 0; j < k; j++) {
        if (!strcmp(s.obs[j].part, s.obs[k].part)) {
          assert_string_not_equal(s.obs[j].name, s.obs[k].name);
        }
      }
    }
    float obs[2 * 1024] = {0};
    for (int k = 0; k < s.obs_count; k++) obs[s.obs_count + k] = 2;
    assert_int_equal(signals_measure(&s, obs, 2, s.obs_count), BFM_OK);
    assert_true(s.obs[0].mean == 1 && s.obs[0].std == 1);
    char *json = signals_to_json(&s);
    assert_int_equal(signals_from_json(&back, json, s.obs_count, s.act_count), BFM_OK);
    assert_true(back.control_dt == s.control_dt);
    for (int k = 0; k < s.obs_count; k++) {
      expect(back.obs + k, s.obs[k].part, s.obs[k].name, s.obs[k].unit);
      assert_true(back.obs[k].mean == s.obs[k].mean && back.obs[k].std == s.obs[k].std);
    }
    for (int u = 0; u < s.act_count; u++) {
      assert_string_equal(back.act[u].name, s.act[u].name);
      assert_float_equal(back.act[u].high, s.act[u].high, 1e-5 * (1 + s.act[u].high));
    }
    signals_free(&s);
    signals_free(&back);
    free(json);
  }
}

// a shipped model gets its names from the robot, keeps them, and says what its data was like
static void test_model(void **state) {
  (void)state;
  bfm_agent *agent;
  const char *path = "build/test_signals.safetensors";
  assert_int_equal(bfm_agent_load(&agent, "models/walker.safetensors", "{\"device\": \"cpu\"}"), 0);
  assert_int_equal(bfm_agent_export(agent, 0, path, 0, 0, 0), BFM_OK);
  bfm_agent_free(agent);
  assert_int_equal(bfm_agent_load(&agent, path, "{\"device\": \"cpu\"}"), BFM_OK);
  expect(agent->signals.obs + 14, "height", "torso.z", "m");
  assert_true(agent->signals.obs[14].mean > 0.1 && agent->signals.obs[14].mean < 1.5);
  assert_true(agent->signals.obs[14].std > 0.01);
  bfm_agent_free(agent);
  remove(path);
}

static void test_bad(void **state) {
  (void)state;
  Signals s;
  assert_int_equal(signals_from_json(&s, "7", 1, 1), BFM_BAD_FILE);
  assert_string_equal(bfm_error(), "metadata \"signals\" is not a JSON object");
  assert_int_equal(signals_from_json(&s, "{\"observations\":[{}]}", 2, 1), BFM_BAD_FILE);
  assert_string_equal(bfm_error(),
                      "metadata \"signals\" names 1 observations and 0 actions, but "
                      "the model has 2 and 1");
  assert_null(s.obs);
  assert_int_not_equal(signals_of_domain(&s, "nothing"), BFM_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_walker),       cmocka_unit_test(test_functions_and_sensors),
      cmocka_unit_test(test_every_domain), cmocka_unit_test(test_model),
      cmocka_unit_test(test_bad),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
