// Rollouts and evaluation with actors of this test: two halves that take turns give the same bits as
// one batch, each row belongs to its task and replica, steps by hand equal an evaluation, observers
// see every step, and stops and errors reach the caller.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/status.h"
#include "rollout/evaluate.h"
#include "rollout/rollout.h"

enum {
  TASKS = 3,
  REPLICAS = 2,
  EPISODES = 5,
  STEPS = 20,
  D = 2,
  COUNT = REPLICAS * TASKS * EPISODES
};

static const char *const tasks[TASKS] = {"x", "y", "easy"};

// push where z says, each replica by its own strength
static int push(void *context, int replica, int64_t rows, const float *obs, const float *z,
                uint64_t seed, uint64_t step, float *act) {
  int64_t *fail_at = context;
  (void)seed;
  if (fail_at && (int64_t)step == *fail_at) {
    return bfm_fail(BFM_DIVERGED, "no action at step %d", (int)step);
  }
  for (int64_t i = 0; i < rows; i++) {
    for (int k = 0; k < 2; k++) {
      act[2 * i + k] = (replica ? 0.5f : 1.0f) * z[D * i + k] - 0.1f * obs[4 * i + k];
    }
  }
  return BFM_OK;
}

// z [R, T, d]: to the right, up, nowhere
static float z[REPLICAS * TASKS * D] = {1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0};

static Actor actor_of(int overlap) {
  return (Actor){.act = push, .env = "point_mass", .obs_dim = 4, .act_dim = 2, .replicas = REPLICAS,
                 .d = D, .overlap = overlap};
}

static bfm_evaluation plan_of(void) {
  return (bfm_evaluation){.tasks = tasks, .task_count = TASKS, .z = z, .episodes = EPISODES,
                          .steps = STEPS, .seed = 3, .threads = 2};
}

static void test_halves_are_the_whole(void **state) {
  (void)state;
  bfm_evaluation plan = plan_of();
  double whole[COUNT], halves[COUNT];
  Actor alone = actor_of(0), overlapped = actor_of(1);
  assert_int_equal(evaluate(&alone, &plan, whole, NULL), BFM_OK);
  assert_int_equal(evaluate(&overlapped, &plan, halves, NULL), BFM_OK);
  assert_memory_equal(whole, halves, sizeof whole);
}

// x to the right, y above, and 2 for easy
static int expect(void *context, int replica, int64_t rows, const float *obs, const float *z,
                  float *rewards) {
  (void)context, (void)replica;
  for (int64_t i = 0; i < rows; i++) {
    const float *s = obs + 4 * i, *to = z + D * i;
    rewards[i] = to[0] + to[1] > 0 ? s[0] * to[0] + s[1] * to[1] : 2;
  }
  return BFM_OK;
}

static void test_bias(void **state) {
  (void)state;
  bfm_evaluation plan = plan_of();
  double returns[COUNT];
  static double whole[COUNT][STEPS], halves[COUNT][STEPS];
  Actor alone = actor_of(0), overlapped = actor_of(1);
  alone.predict = overlapped.predict = expect;
  assert_int_equal(evaluate(&alone, &plan, returns, *whole), BFM_OK);
  assert_int_equal(evaluate(&overlapped, &plan, returns, *halves), BFM_OK);
  assert_memory_equal(whole, halves, sizeof whole);
  for (int i = 0; i < COUNT; i++) {
    int easy = i / EPISODES % TASKS == 2;  // the others predict the state that earns
    double bias = easy ? returns[i] - 2 * STEPS : 0;
    assert_true(whole[i][STEPS - 1] - bias < 1e-5 && bias - whole[i][STEPS - 1] < 1e-5);
  }
}

static void test_rows_are_of_their_task_and_replica(void **state) {
  (void)state;
  bfm_evaluation plan = plan_of(), one = plan;
  double all[COUNT], alone[REPLICAS * EPISODES];
  float own[REPLICAS * D];
  Actor actor = actor_of(0);
  assert_int_equal(evaluate(&actor, &plan, all, NULL), BFM_OK);
  for (int t = 0; t < TASKS; t++) {
    for (int r = 0; r < REPLICAS; r++) memcpy(own + r * D, z + (r * TASKS + t) * D, D * sizeof *z);
    one.tasks = tasks + t;
    one.task_count = 1;
    one.z = own;
    assert_int_equal(evaluate(&actor, &one, alone, NULL), BFM_OK);
    for (int r = 0; r < REPLICAS; r++) {
      assert_memory_equal(alone + r * EPISODES, all + (r * TASKS + t) * EPISODES,
                          EPISODES * sizeof *all);
    }
  }
  for (int e = 0; e < EPISODES; e++) assert_true(all[e] > all[TASKS * EPISODES + e]);
}

static int stop_at_seven(void *context, int64_t done, int64_t total) {
  int64_t *last = context;
  *last = done;
  return total == 20 && done == 7;
}

static void test_stops_and_errors(void **state) {
  (void)state;
  for (int overlap = 0; overlap < 2; overlap++) {
    double returns[COUNT];
    int64_t last = 0, fail_at = 4;
    bfm_evaluation plan = plan_of();
    Actor actor = actor_of(overlap);
    plan.each = stop_at_seven;
    plan.context = &last;
    assert_int_equal(evaluate(&actor, &plan, returns, NULL), BFM_INTERRUPTED);
    assert_int_equal(last, 7);

    plan = plan_of();
    actor.actor = &fail_at;
    assert_int_equal(evaluate(&actor, &plan, returns, NULL), BFM_DIVERGED);
    assert_string_equal(bfm_error(), "no action at step 4");

    plan.tasks = (const char *const[]){"x", "y +", "easy"};
    assert_int_equal(evaluate(&actor, &plan, returns, NULL), BFM_BAD_ARGUMENT);
  }
}

static void test_random_actions(void **state) {
  (void)state;
  bfm_evaluation plan = plan_of();
  double first[TASKS * EPISODES], again[TASKS * EPISODES];
  assert_int_equal(evaluate_random("point_mass", &plan, first), BFM_OK);
  assert_int_equal(evaluate_random("point_mass", &plan, again), BFM_OK);
  assert_memory_equal(first, again, sizeof first);
  assert_int_equal(evaluate_random("point_mess", &plan, first), BFM_BAD_ARGUMENT);
}

// ---------------------------------- rollouts -----------------------------------------------------

// one replica, one task: a rollout's own initial states are then those of an evaluation
static Actor single(void) {
  Actor actor = actor_of(0);
  actor.replicas = 1;
  return actor;
}

static void test_steps_by_hand_are_an_evaluation(void **state) {
  (void)state;
  bfm_evaluation plan = plan_of();
  double returns[EPISODES];
  Actor actor = single();
  Rollout rollout;
  plan.task_count = 1;
  assert_int_equal(evaluate(&actor, &plan, returns, NULL), BFM_OK);
  assert_int_equal(rollout_new(&rollout, &actor, &plan), BFM_OK);
  assert_int_equal(rollout.rows, EPISODES);
  for (int i = 0; i < STEPS; i++) {
    assert_int_equal(rollout.step, i);
    assert_int_equal(rollout_step(&rollout), BFM_OK);
  }
  assert_memory_equal(rollout.returns, returns, sizeof returns);

  // the same episodes again
  bfm_env_seed(rollout.env, plan.seed);
  assert_int_equal(bfm_env_reset(rollout.env, NULL), BFM_OK);
  assert_int_equal(rollout_begin(&rollout), BFM_OK);
  assert_int_equal(rollout.step, 0);
  for (int i = 0; i < STEPS; i++) assert_int_equal(rollout_step(&rollout), BFM_OK);
  assert_memory_equal(rollout.returns, returns, sizeof returns);
  rollout_free(&rollout);
}

typedef struct {
  int64_t calls, stop_at;
  double sums[COUNT];
} Seen;

static int see(void *context, const Rollout *rollout) {
  Seen *seen = context;
  for (int64_t i = 0; i < rollout->rows; i++) {
    seen->sums[i] += rollout_earned(rollout, i) ? rollout->rewards[i] : 0;
  }
  seen->calls++;
  return rollout->step == seen->stop_at ? bfm_fail(BFM_INTERRUPTED, "seen enough") : BFM_OK;
}

static void test_an_observer_sees_every_step(void **state) {
  (void)state;
  bfm_evaluation plan = plan_of();
  Actor actor = actor_of(0);
  Rollout rollout;
  Seen seen = {.stop_at = -1};
  assert_int_equal(rollout_new(&rollout, &actor, &plan), BFM_OK);
  assert_int_equal(rollout_run(&rollout, 1, STEPS, see, &seen), BFM_OK);
  assert_int_equal(seen.calls, STEPS);
  assert_memory_equal(seen.sums, rollout.returns, sizeof seen.sums);

  // a stopped loop goes on from where it was
  seen = (Seen){.stop_at = STEPS + 3};
  assert_int_equal(rollout_run(&rollout, 1, STEPS, see, &seen), BFM_INTERRUPTED);
  assert_int_equal(seen.calls, 3);
  assert_string_equal(bfm_error(), "seen enough");
  assert_int_equal(rollout_step(&rollout), BFM_OK);
  assert_int_equal(rollout.step, STEPS + 4);
  rollout_free(&rollout);
}

static void test_z_changes_between_steps(void **state) {
  (void)state;
  bfm_evaluation plan = plan_of();
  Actor actor = single();
  Rollout rollout;
  plan.task_count = 0;  // no rewards
  plan.episodes = 1;
  assert_int_equal(rollout_new(&rollout, &actor, &plan), BFM_OK);
  assert_int_equal(rollout.rows, 1);
  for (int i = 0; i < 2; i++) {
    rollout.z[0] = i ? -1 : 1;
    assert_int_equal(rollout_step(&rollout), BFM_OK);
    assert_true(i ? rollout.act[0] < -0.8 : rollout.act[0] > 0.8);
  }
  assert_true(rollout.returns[0] == 0 && rollout.rewards[0] == 0);
  rollout_free(&rollout);
}

// a hopper without torques falls: episodes end at different times, and the loop with the last one
static int rest(void *context, int replica, int64_t rows, const float *obs, const float *z,
                uint64_t seed, uint64_t step, float *act) {
  (void)context, (void)replica, (void)obs, (void)z, (void)seed, (void)step;
  memset(act, 0, rows * 3 * sizeof *act);
  return BFM_OK;
}

static int expect_nothing(void *context, int replica, int64_t rows, const float *obs,
                          const float *z, float *rewards) {
  (void)context, (void)replica, (void)obs, (void)z;
  memset(rewards, 0, rows * sizeof *rewards);
  return BFM_OK;
}

static void test_episodes_that_end(void **state) {
  (void)state;
  Actor actor = {.act = rest, .predict = expect_nothing, .env = "hopper", .obs_dim = 11,
                 .act_dim = 3, .replicas = 1};
  bfm_evaluation plan = {.tasks = (const char *const[]){"run"},
                         .task_count = 1, .episodes = EPISODES, .steps = 900, .threads = 2};
  Rollout rollout;
  Seen seen = {.stop_at = -1};
  assert_int_equal(rollout_new(&rollout, &actor, &plan), BFM_OK);
  assert_int_equal(rollout_run(&rollout, 1, plan.steps, see, &seen), BFM_OK);
  assert_in_range(seen.calls, 10, plan.steps - 1);
  assert_memory_equal(seen.sums, rollout.returns, EPISODES * sizeof *seen.sums);
  for (int k = 0; k < 5; k++) assert_int_equal(rollout_step(&rollout), BFM_OK);
  assert_memory_equal(seen.sums, rollout.returns, EPISODES * sizeof *seen.sums);

  // the bias has a value at every step, also after the last episode
  double returns[EPISODES];
  static double bias[EPISODES][900];
  for (int overlap = 0; overlap < 2; overlap++) {
    memset(bias, 0x7f, sizeof bias);
    actor.overlap = overlap;
    assert_int_equal(evaluate(&actor, &plan, returns, *bias), BFM_OK);
    assert_memory_equal(returns, rollout.returns, sizeof returns);
    for (int e = 0; e < EPISODES; e++) {
      assert_true(bias[e][9] < bias[e][899]);
      for (int64_t i = seen.calls; i < 900; i++) assert_true(bias[e][i] == returns[e]);
    }
  }
  rollout_free(&rollout);
}

static void test_mean_and_std(void **state) {
  (void)state;
  double mean, std;
  mean_std((double[]){1, 2, 3, 4}, 4, &mean, &std);
  assert_float_equal(mean, 2.5, 1e-12);
  assert_float_equal(std * std, 5 / 3., 1e-12);  // of a sample: n - 1
  mean_std((double[]){7}, 1, &mean, &std);
  assert_true(mean == 7 && std == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_halves_are_the_whole),
      cmocka_unit_test(test_bias),
      cmocka_unit_test(test_rows_are_of_their_task_and_replica),
      cmocka_unit_test(test_stops_and_errors),
      cmocka_unit_test(test_random_actions),
      cmocka_unit_test(test_steps_by_hand_are_an_evaluation),
      cmocka_unit_test(test_an_observer_sees_every_step),
      cmocka_unit_test(test_z_changes_between_steps),
      cmocka_unit_test(test_episodes_that_end),
      cmocka_unit_test(test_mean_and_std),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
