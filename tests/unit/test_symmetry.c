// What observations do not show, for each domain, and that no built-in task needs it: a task whose
// reward changes although the observation does not cannot be learned. Also the rewards that a person
// may type, and the sentence about them.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bfm.h"
#include "core/units.h"
#include "envs/symmetry.h"
#include "envs/tasks.h"

static const World *world_of(const char *name) {
  const Domain *domain;
  const World *world;
  assert_int_equal(domain_find(&domain, name), BFM_OK);
  assert_int_equal(world_acquire(&world, domain), BFM_OK);
  return world;
}

static int changes_of(const char *domain, const char *expression) {
  int moves;
  const World *world = world_of(domain);
  SymmetryStates random = {.count = 0};
  assert_int_equal(symmetry_changes(world, expression, &random, &moves), BFM_OK);
  world_release(world);
  return moves;
}

static void test_what_each_domain_does_not_show(void **state) {
  (void)state;
  static const struct {
    const char *domain;
    int moves;
  } rows[] = {
      {"walker", MOVE_X},
      {"cheetah", MOVE_X},
      {"quadruped", MOVE_X | MOVE_Y | MOVE_TURN | MOVE_HEIGHT},
      {"humanoid", MOVE_X | MOVE_Y},
      {"jaco", 0},
      {"point_mass", 0},
      {"fish", 0},
      {"finger", 0},
      {"acrobot", 0},
      {"dmc_hopper", MOVE_X},
      {"halfcheetah", MOVE_X},
      {"hopper", MOVE_X},
      {"walker2d", MOVE_X},
      {"ant", MOVE_X | MOVE_Y},
      {"kitchen", MOVE_SPEED},
      {"hand", 0},
  };
  int count = sizeof rows / sizeof *rows;
  for (int i = 0; i < count; i++) {
    int moves;
    const World *world = world_of(rows[i].domain);
    assert_int_equal(symmetry_unseen(world, &moves), BFM_OK);
    if (moves != rows[i].moves) fail_msg("%s: moves %d", rows[i].domain, moves);
    world_release(world);
  }
  assert_non_null(bfm_domain_name(count - 1, NULL));
  assert_null(bfm_domain_name(count, NULL));
}

// tasks of dm_control, and tasks like them, that use a height which the quadruped does not observe
static const char *const exceptions[] = {"jump", "bounce", "trot"};

static int is_exception(const char *domain, const char *task) {
  int found = 0;
  for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
    found |= !strcmp(domain, "quadruped") && !strcmp(task, exceptions[i]);
  }
  return found;
}

static void test_tasks_need_only_what_is_observed(void **state) {
  (void)state;
  const char *domain;
  int count = 0;
  for (int d = 0; (domain = bfm_domain_name(d, NULL)); d++) {
    const Task *task;
    for (int i = 0; (task = task_at(domain, i)); i++, count++) {
      // D4RL's runs reward steps; prompts use the speed in their place
      int moves = changes_of(domain, task->expression ? task->expression : "speed");
      int accepted = is_exception(domain, task->name) ? MOVE_HEIGHT : 0;
      if (moves != accepted) fail_msg("%s %s: moves %d", domain, task->name, moves);
    }
  }
  assert_true(count >= 50);
}

static void test_typed_rewards(void **state) {
  (void)state;
  static const struct {
    const char *domain, *reward;
    int moves;
  } rows[] = {
      // skip as it was in version 0.1, along the world's axes
      {"quadruped", "upright * tolerance_linear(min(torso.com.vx, torso.com.vy), 1, inf, 1, 0)",
       MOVE_TURN},
      {"quadruped", "torso.x", MOVE_X},
      {"quadruped", "torso.y > 3", MOVE_Y},
      {"quadruped", "norm(torso.x, torso.y) < 1", MOVE_X | MOVE_Y},
      {"quadruped", "upright * (torso.x > 20) * (torso.xx > 0.9)", MOVE_X | MOVE_TURN},
      {"quadruped", "norm(torso.vx, torso.vy)", 0},
      {"quadruped", "log(torso.x)", MOVE_X},  // NaN, where the reward is 0, counts as well
      {"quadruped", "height", MOVE_HEIGHT},
      {"quadruped", "imu_accel.x + force_toe_front_left.z", 0},
      {"walker", "torso.x > 2", MOVE_X},
      {"walker", "left_foot.x - torso.x", 0},
      {"walker", "upright + 1e-9 * torso.x", 0},
      {"humanoid", "head.y", MOVE_Y},
      {"humanoid", "torso.xx", 0},  // a heading, which velocities along the world's axes show
      {"point_mass", "x > 0.1", 0},
      {"hopper", "rootx", MOVE_X},
      {"kitchen", "abs(joint:microwave.v)", MOVE_SPEED},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int moves = changes_of(rows[i].domain, rows[i].reward);
    if (moves != rows[i].moves) fail_msg("%s %s: %d", rows[i].domain, rows[i].reward, moves);
  }
}

// The states of a model: the two that are rewarded are among 4,000 others, and all are at rest.
static void test_rare_rewards_of_stored_states(void **state) {
  (void)state;
  enum { STATES = 4000, NQ = 9, NV = 9 };
  double *qpos = calloc(STATES, NQ * sizeof *qpos);
  float *rewards = calloc(STATES, sizeof *rewards);
  assert_non_null(qpos);
  assert_non_null(rewards);
  for (int i = 100; i < 3000; i += 2500) {
    qpos[i * NQ + 1] = 777.5;
    rewards[i] = 1;
  }
  int moves;
  const World *world = world_of("walker");
  assert_int_equal(world->model->nq, NQ);
  SymmetryStates states = {.count = STATES, .qpos = qpos, .rewards = rewards};
  const char *reward = "abs(torso.x - 777.5) < 0.01";
  assert_int_equal(symmetry_changes(world, reward, &states, &moves), BFM_OK);
  assert_int_equal(moves, MOVE_X);
  // the robot stands exactly upright in all states, so that rounding could decide
  assert_int_equal(symmetry_changes(world, "torso.zz >= 1", &states, &moves), BFM_OK);
  assert_int_equal(moves, 0);

  double start = seconds_now();
  assert_int_equal(symmetry_changes(world, "speed", &states, &moves), BFM_OK);
  print_message("a check takes %.1f ms\n", 1e3 * (seconds_now() - start));
  world_release(world);
  free(qpos);
  free(rewards);
}

static void test_sentences(void **state) {
  (void)state;
  static const struct {
    int moves;
    const char *text;
  } rows[] = {
      {0, ""},
      {MOVE_TURN,
       "the reward changes when the robot turns about the vertical axis, which the observations do "
       "not show: the agent cannot know its heading"},
      {MOVE_X | MOVE_Y | MOVE_TURN,
       "the reward changes when the robot moves along x, moves along y or turns about the vertical "
       "axis, which the observations do not show: the agent cannot know its x, its y or its "
       "heading"},
      {MOVE_HEIGHT,
       "the reward changes with the robot's height, which the observations do not show: the agent "
       "has to infer it from posture and contacts"},
      {MOVE_SPEED | MOVE_HEIGHT,
       "the reward changes when the robot moves faster or slower, which the observations do not "
       "show: the agent cannot know its velocities, and has to infer its height from posture and "
       "contacts"},
  };
  char text[SYMMETRY_TEXT];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    symmetry_say(rows[i].moves, text, sizeof text);
    assert_string_equal(text, rows[i].text);
  }
  symmetry_say(MOVE_X | MOVE_Y | MOVE_TURN | MOVE_SPEED | MOVE_HEIGHT, text, sizeof text);
  assert_true(strlen(text) < sizeof text - 1);
  assert_non_null(strstr(text, "from posture and contacts"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_each_domain_does_not_show),
      cmocka_unit_test(test_tasks_need_only_what_is_observed),
      cmocka_unit_test(test_typed_rewards),
      cmocka_unit_test(test_rare_rewards_of_stored_states),
      cmocka_unit_test(test_sentences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
