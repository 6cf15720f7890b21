// Simulations: bit-identical results for any number of threads and environments, resets of some
// environments, ends of episodes, and failures that do not affect other environments.

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "bfm.h"
#include "core/rng.h"
#include "envs/domain.h"

static const char *const domains[] = {"walker",   "cheetah",    "quadruped",   "humanoid",
                                      "jaco",     "point_mass", "halfcheetah", "hopper",
                                      "walker2d", "ant",        "fish",        "finger",
                                      "acrobot",  "dmc_hopper", "hand"};
enum { DOMAINS = sizeof domains / sizeof domains[0], OBS = 128, ACT = 32 };

static bfm_env *env_new(const char *domain, int count, int threads) {
  bfm_env *env;
  int status = bfm_env_new(&env, domain, count, 7, threads);
  if (status) fail_msg("%s", bfm_error());
  return env;
}

static bfm_env_sizes sizes_of(const bfm_env *env) {
  bfm_env_sizes sizes = {.size = sizeof sizes};
  bfm_env_get_sizes(env, &sizes);
  return sizes;
}

// environment i's action at a step, the same whatever the number of environments
static void step(bfm_env *env, int t) {
  static double actions[256 * ACT];
  bfm_env_sizes s = sizes_of(env);
  for (int i = 0; i < s.count; i++) {
    for (int u = 0; u < s.act_dim; u++) {
      actions[i * s.act_dim + u] = 2 * random_uniform(i, STREAM_EXPLORE, t, u) - 1;
    }
  }
  assert_int_equal(bfm_env_step(env, actions), BFM_OK);
}

static void test_results_do_not_depend_on_threads_and_counts(void **state) {
  (void)state;
  for (int d = 0; d < DOMAINS; d++) {
    static const struct {
      int count, threads;
    } runs[] = {{1, 1}, {5, 1}, {5, 2}, {9, 3}};
    double first[OBS] = {0}, reward = 0;

    for (int run = 0; run < 4; run++) {
      bfm_env *env = env_new(domains[d], runs[run].count, runs[run].threads);
      double obs[9 * OBS], rewards[9];
      for (int t = 0; t < 10; t++) step(env, t);
      bfm_env_obs(env, obs);
      assert_int_equal(bfm_env_reward(env, bfm_domain_task(domains[d], 0, NULL, NULL), rewards), 0);
      if (run == 0) {
        memcpy(first, obs, sizeof first);
        reward = rewards[0];
      }
      assert_memory_equal(first, obs, sizes_of(env).obs_dim * sizeof *obs);
      assert_memory_equal(&reward, rewards, sizeof reward);
      bfm_env_free(env);
    }
  }
}

static void test_a_reset_leaves_other_environments_unchanged(void **state) {
  (void)state;
  bfm_env *alone = env_new("walker", 3, 1), *mixed = env_new("walker", 3, 2);
  uint8_t second[3] = {0, 1, 0};
  double a[3 * 24], b[3 * 24], start[3 * 24];
  bfm_env_obs(mixed, start);
  for (int t = 0; t < 6; t++) {
    if (t == 3) assert_int_equal(bfm_env_reset(mixed, second), BFM_OK);
    step(alone, t);
    step(mixed, t);
  }
  bfm_env_obs(alone, a);
  bfm_env_obs(mixed, b);
  assert_memory_equal(a, b, 24 * sizeof *a);
  assert_memory_equal(a + 48, b + 48, 24 * sizeof *a);
  assert_memory_not_equal(a + 24, b + 24, 24 * sizeof *a);

  // a new episode begins elsewhere
  assert_int_equal(bfm_env_reset(mixed, NULL), BFM_OK);
  bfm_env_obs(mixed, b);
  assert_memory_not_equal(start, b, 24 * sizeof *b);
  bfm_env_free(alone);
  bfm_env_free(mixed);
}

static void test_set_states_can_be_read_back(void **state) {
  (void)state;
  for (int d = 0; d < DOMAINS; d++) {
    bfm_env *env = env_new(domains[d], 2, 2);
    double qpos[2][64], qvel[2][64], act[2][64], again[2][64], obs[2 * OBS];
    for (int t = 0; t < 3; t++) step(env, t);
    bfm_env_state(env, *qpos, *qvel, *act);
    assert_int_equal(bfm_env_set_state(env, *qpos, *qvel, *act), BFM_OK);
    bfm_env_state(env, *again, NULL, NULL);
    assert_memory_equal(*qpos, *again, 2 * sizes_of(env).nq * sizeof(double));
    bfm_env_obs(env, obs);
    for (int i = 0; i < 2 * sizes_of(env).obs_dim; i++) assert_true(isfinite(obs[i]));
    bfm_env_free(env);
  }
}

static void test_the_time_limit_ends_episodes(void **state) {
  (void)state;
  bfm_env *env = env_new("point_mass", 2, 1);
  uint8_t ended[2], first[2] = {1, 0};
  for (int t = 0; t < 1000; t++) {
    if (t == 400) bfm_env_reset(env, first);
    bfm_env_end_reasons(env, ended);
    assert_int_equal(ended[0] | ended[1], 0);
    step(env, t);
  }
  bfm_env_end_reasons(env, ended);
  assert_int_equal(ended[0], 0);
  assert_int_equal(ended[1], BFM_END_TIME_LIMIT);
  bfm_env_free(env);
}

static void test_falling_terminates(void **state) {
  (void)state;
  bfm_env *env = env_new("hopper", 1, 1);
  uint8_t ended = 0;
  for (int t = 0; t < 200 && !ended; t++) {
    step(env, t);
    bfm_env_end_reasons(env, &ended);
  }
  assert_int_equal(ended, BFM_END_TERMINATED);
  bfm_env_free(env);
}

// one simulation gets an absurd speed: only that one ends, with a finite state, and is counted
static void test_divergence_of_one_simulation_leaves_the_others(void **state) {
  (void)state;
  static const char *const some[] = {"walker", "humanoid", "quadruped", "jaco", "hopper"};
  for (int d = 0; d < 5; d++) {
    bfm_env *env = env_new(some[d], 3, 2), *healthy = env_new(some[d], 3, 2);
    bfm_env_sizes s = sizes_of(env);
    double qpos[3 * 64], qvel[3 * 64], act[3 * 64], obs[3 * OBS], expected[3 * OBS];
    bfm_env_state(env, qpos, qvel, act);
    assert_int_equal(bfm_env_set_state(healthy, qpos, qvel, act), BFM_OK);
    for (int i = 0; i < s.nv; i++) qvel[s.nv + i] = 1e9;
    assert_int_equal(bfm_env_set_state(env, qpos, qvel, act), BFM_OK);

    uint8_t ended[3], any = 0;
    for (int t = 0; t < 3; t++) {
      step(env, t);
      step(healthy, t);
      bfm_env_end_reasons(env, ended);
      any |= ended[1];
      assert_int_equal((ended[0] | ended[2]) & BFM_END_DIVERGED, 0);
    }
    assert_true(any & BFM_END_DIVERGED);
    assert_true(bfm_env_diverged(env) >= 1);
    bfm_env_obs(env, obs);
    bfm_env_obs(healthy, expected);
    for (int i = 0; i < 3 * s.obs_dim; i++) assert_true(isfinite(obs[i]));
    assert_memory_equal(obs, expected, s.obs_dim * sizeof *obs);
    assert_memory_equal(obs + 2 * s.obs_dim, expected + 2 * s.obs_dim, s.obs_dim * sizeof *obs);

    uint8_t second[3] = {0, 1, 0};
    assert_int_equal(bfm_env_reset(env, second), BFM_OK);
    step(env, 4);
    bfm_env_end_reasons(env, ended);
    assert_int_equal(ended[1] & BFM_END_DIVERGED, 0);
    bfm_env_free(env);
    bfm_env_free(healthy);
  }
}

// forces are those of the last substep; reading them again later gives the same numbers
static void test_forces_can_be_read_after_a_step(void **state) {
  (void)state;
  bfm_env *env = env_new("quadruped", 2, 1);
  double obs[2 * 78], x[2];
  for (int t = 0; t < 5; t++) step(env, t);
  bfm_env_obs(env, obs);
  assert_int_equal(bfm_env_reward(env, "imu_accel.x", x), BFM_OK);
  assert_true(x[0] == obs[48] && x[1] == obs[78 + 48]);
  assert_int_equal(bfm_env_reward(env, "velocimeter.x", x), BFM_OK);
  assert_true(x[0] == obs[44] && x[1] == obs[78 + 44]);
  bfm_env_free(env);
}

// A reward that was requested before is computed together with the next step, and must be the same
// number as without that.
static void test_rewards_computed_with_a_step_are_the_same(void **state) {
  (void)state;
  for (int d = 0; d < DOMAINS; d++) {
    bfm_env *often = env_new(domains[d], 3, 2), *once = env_new(domains[d], 3, 1);
    const char *task = bfm_domain_task(domains[d], 0, NULL, NULL);
    double a[3], b[3];
    for (int t = 0; t < 5; t++) {
      step(often, t);
      step(once, t);
      assert_int_equal(bfm_env_reward(often, task, a), BFM_OK);
    }
    assert_int_equal(bfm_env_reward(once, task, b), BFM_OK);
    assert_memory_equal(a, b, sizeof a);

    // a reset discards the rewards computed before
    uint8_t first[3] = {1, 0, 0};
    assert_int_equal(bfm_env_reset(often, first), BFM_OK);
    assert_int_equal(bfm_env_reset(once, first), BFM_OK);
    assert_int_equal(bfm_env_reward(often, task, a), BFM_OK);
    assert_int_equal(bfm_env_reward(once, task, b), BFM_OK);
    assert_memory_equal(a, b, sizeof a);
    bfm_env_free(often);
    bfm_env_free(once);
  }
}

static void test_bad_values_are_refused(void **state) {
  (void)state;
  bfm_env *env;
  assert_int_equal(bfm_env_new(&env, "wolker", 1, 0, 1), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "walker"));
  assert_int_equal(bfm_env_new(&env, "walker", 0, 0, 1), BFM_BAD_ARGUMENT);
  assert_int_equal(bfm_env_new(&env, "walker", 1, 0, -1), BFM_BAD_ARGUMENT);

  env = env_new("walker", 1, 1);
  double actions[6] = {0, 0, NAN}, qpos[9] = {0, INFINITY}, reward;
  assert_int_equal(bfm_env_step(env, actions), BFM_BAD_ARGUMENT);
  assert_string_equal(bfm_error(), "action[0][2] is nan, not within ±1e+10");
  assert_int_equal(bfm_env_set_state(env, NULL, NULL, NULL), BFM_BAD_ARGUMENT);
  assert_string_equal(bfm_error(), "a state needs qpos");
  assert_int_equal(bfm_env_set_state(env, qpos, NULL, NULL), BFM_BAD_ARGUMENT);
  assert_int_equal(bfm_env_reward(env, "torso.q", &reward), BFM_BAD_ARGUMENT);
  bfm_env_free(env);
  bfm_env_free(NULL);
}

static void test_parts_make_up_the_observation(void **state) {
  (void)state;
  for (int i = 0; domain_at(i); i++) {
    const World *world;
    ObsPart part;
    int count = 0;
    if (world_acquire(&world, domain_at(i))) fail_msg("%s", bfm_error());
    for (int k = 0; (part = world_part(world, k)).name; k++) count += part.count;
    if (count != domain_at(i)->obs_dim) fail_msg("%s: %d", domain_at(i)->name, count);
    world_release(world);
  }
}

static void test_many_expressions(void **state) {
  (void)state;
  bfm_env *env = env_new("point_mass", 2, 2);
  double rewards[2], x[2];
  bfm_env_state(env, NULL, NULL, NULL);
  assert_int_equal(bfm_env_reward(env, "x", x), BFM_OK);
  for (int k = 0; k < 100; k++) {
    char expression[32];
    snprintf(expression, sizeof expression, "x * %d", k);
    assert_int_equal(bfm_env_reward(env, expression, rewards), BFM_OK);
    assert_true(fabs(rewards[1] - x[1] * k) < 1e-12);
  }
  bfm_env_free(env);
}

static void *acquire(void *context) {
  const World **world = context;
  const Domain *domain;
  if (!domain_find(&domain, "hopper")) world_acquire(world, domain);
  return NULL;
}

static void test_a_world_is_compiled_once_for_all_threads(void **state) {
  (void)state;
  enum { THREADS = 4 };
  const World *worlds[THREADS] = {NULL};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, acquire, &worlds[i]);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_non_null(worlds[i]);
    assert_ptr_equal(worlds[i], worlds[0]);
  }
  for (int i = 0; i < THREADS; i++) world_release(worlds[i]);
  world_release(NULL);
}

static void *acquire_and_release(void *context) {
  atomic_int *stop = context;
  while (!atomic_load(stop)) {
    const World *world;
    acquire(&world);
    world_release(world);
  }
  return NULL;
}

static void test_worlds_after_fork(void **state) {
  (void)state;
  atomic_int stop = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, acquire_and_release, &stop);
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();  // while the other thread acquires and releases worlds
    if (!child) {
      const World *world = NULL;
      acquire(&world);
      _exit(!world || world->model->nq != 6);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results_do_not_depend_on_threads_and_counts),
      cmocka_unit_test(test_a_reset_leaves_other_environments_unchanged),
      cmocka_unit_test(test_set_states_can_be_read_back),
      cmocka_unit_test(test_the_time_limit_ends_episodes),
      cmocka_unit_test(test_falling_terminates),
      cmocka_unit_test(test_divergence_of_one_simulation_leaves_the_others),
      cmocka_unit_test(test_forces_can_be_read_after_a_step),
      cmocka_unit_test(test_rewards_computed_with_a_step_are_the_same),
      cmocka_unit_test(test_bad_values_are_refused),
      cmocka_unit_test(test_parts_make_up_the_observation),
      cmocka_unit_test(test_many_expressions),
      cmocka_unit_test(test_a_world_is_compiled_once_for_all_threads),
      cmocka_unit_test(test_worlds_after_fork),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
