// kitchen: D4RL's rewards, the memory of reached objects, and missing models. tests/oracle compares
// the physics.

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bfm.h"

enum { N = 2, NQ = 30, ACT = 9, SLIDE = 19, MICROWAVE = 22 };

// all tests but one need the model, which might not be installed
static bfm_env *env_of(int count, int threads) {
  bfm_env *env;
  int status = bfm_env_new(&env, "kitchen", count, 7, threads);
  if (status == BFM_UNAVAILABLE) skip();
  if (status) fail_msg("%s", bfm_error());
  return env;
}

static bfm_env *env_new(void) { return env_of(N, 2); }

// initial states, with another position of one joint in the second environment
static void begin(bfm_env *env, int joint, double position) {
  double qpos[N][NQ];
  assert_int_equal(bfm_env_reset(env, NULL), BFM_OK);
  bfm_env_state(env, *qpos, NULL, NULL);
  qpos[1][joint] = position;
  assert_int_equal(bfm_env_set_state(env, *qpos, NULL, NULL), BFM_OK);
}

static void step(bfm_env *env) {
  static const double still[N * ACT];
  assert_int_equal(bfm_env_step(env, still), BFM_OK);
}

static void assert_pays(bfm_env *env, const char *task, double second) {
  double rewards[N];
  assert_int_equal(bfm_env_reward(env, task, rewards), BFM_OK);
  assert_true(rewards[0] == 0);
  assert_true(rewards[1] == second);
}

static void test_each_object_is_rewarded_once_per_episode(void **state) {
  (void)state;
  bfm_env *env = env_new();
  for (int episode = 0; episode < 2; episode++) {
    begin(env, MICROWAVE, -0.7);
    assert_pays(env, "partial", 0);  // the state was set, not reached by a step
    assert_pays(env, "open_microwave", 1);
    for (int t = 0; t < 3; t++) {
      step(env);
      assert_pays(env, "partial", t == 0);
      assert_pays(env, "partial", t == 0);
      assert_pays(env, "mixed", t == 0);
      assert_pays(env, "open_microwave", 1);
    }
  }
  bfm_env_free(env);
}

static void test_tasks_reward_only_their_own_objects(void **state) {
  (void)state;
  bfm_env *env = env_new();
  begin(env, SLIDE, 0.35);
  step(env);
  assert_pays(env, "partial", 1);
  assert_pays(env, "mixed", 0);
  bfm_env_free(env);
}

// Reading forces repeats the last step, which must not change the memory of reached objects.
static void test_reading_forces_does_not_reward_objects_twice(void **state) {
  (void)state;
  static const char *const tasks[] = {"panda0_joint1.force", "partial"};
  bfm_env *env = env_new();
  begin(env, MICROWAVE, -0.7);
  for (int t = 0; t < 2; t++) {
    double rewards[N];
    step(env);
    for (int again = 0; again < 2; again++) {
      assert_int_equal(bfm_env_group_rewards(env, tasks, 2, rewards), BFM_OK);
      assert_true(rewards[0] != 0);
      assert_true(rewards[1] == (t == 0));
    }
  }
  bfm_env_free(env);
}

static void test_actions_are_clipped_to_their_range(void **state) {
  (void)state;
  bfm_env *env = env_new();
  double actions[N * ACT], qpos[N][NQ], low[ACT], high[ACT];
  bfm_env_action_range(env, low, high);
  assert_true(low[0] == -1 && high[ACT - 1] == 1);
  begin(env, 0, 0.1);
  bfm_env_state(env, *qpos, NULL, NULL);
  memcpy(qpos[1], qpos[0], sizeof qpos[1]);
  assert_int_equal(bfm_env_set_state(env, *qpos, NULL, NULL), BFM_OK);
  for (int i = 0; i < N * ACT; i++) actions[i] = i < ACT ? 1 : 5;
  assert_int_equal(bfm_env_step(env, actions), BFM_OK);
  bfm_env_state(env, *qpos, NULL, NULL);
  assert_memory_equal(qpos[0], qpos[1], sizeof qpos[0]);
  bfm_env_free(env);
}

static void test_results_do_not_depend_on_threads_and_counts(void **state) {
  (void)state;
  bfm_env *alone = env_of(1, 1), *both = env_new();
  double actions[N * ACT], a[60], b[N * 60];
  for (int t = 0; t < 10; t++) {
    for (int i = 0; i < N * ACT; i++) actions[i] = (i + t) % 5 / 2.0 - 1;
    assert_int_equal(bfm_env_step(alone, actions), BFM_OK);
    assert_int_equal(bfm_env_step(both, actions), BFM_OK);
  }
  bfm_env_obs(alone, a);
  bfm_env_obs(both, b);
  assert_memory_equal(a, b, sizeof a);
  bfm_env_free(alone);
  bfm_env_free(both);
}

static void test_a_missing_model(void **state) {
  (void)state;
  const char *models = getenv("BFM_MODELS");
  char *before = models ? strdup(models) : NULL;
  bfm_env *env;
  setenv("BFM_MODELS", "/nowhere", 1);
  assert_int_equal(bfm_env_new(&env, "kitchen", 1, 0, 1), BFM_UNAVAILABLE);
  assert_non_null(strstr(bfm_error(), "/nowhere/kitchen/"));
  assert_null(env);
  if (before) setenv("BFM_MODELS", before, 1);
  else unsetenv("BFM_MODELS");
  free(before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_object_is_rewarded_once_per_episode),
      cmocka_unit_test(test_tasks_reward_only_their_own_objects),
      cmocka_unit_test(test_reading_forces_does_not_reward_objects_twice),
      cmocka_unit_test(test_actions_are_clipped_to_their_range),
      cmocka_unit_test(test_results_do_not_depend_on_threads_and_counts),
      cmocka_unit_test(test_a_missing_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
