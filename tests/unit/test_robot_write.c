// Descriptions that are written: whatever a robot has is read back, from the bytes for a bundle and from the
// commented start for people, and the bytes for a bundle are always the same.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "envs/domain.h"
#include "envs/robot.h"
#include "envs/robot_write.h"
#include "reward_model.h"

static Robot *parse(const char *yaml) {
  Robot *robot;
  if (robot_parse(&robot, "r.yaml", yaml, strlen(yaml))) fail_msg("%s in:\n%s", bfm_error(), yaml);
  return robot;
}

static char *write_it(const Robot *robot, const mjModel *model, int comments) {
  char *yaml;
  if (robot_write(robot, model, robot->model.text, comments, &yaml)) fail_msg("%s", bfm_error());
  return yaml;
}

// completes a description and returns the bytes for a bundle
static char *canonical(const char *yaml, const mjModel *model) {
  Robot *robot = parse(yaml);
  if (robot_complete(robot, model)) fail_msg("%s in:\n%s", bfm_error(), yaml);
  char *text = write_it(robot, model, 0);
  robot_free(robot);
  return text;
}

static void check(const Robot *robot, const mjModel *model) {
  char *bytes = write_it(robot, model, 0), *commented = write_it(robot, model, 1);
  char *again = canonical(bytes, model), *read = canonical(commented, model);
  assert_string_equal(again, bytes);
  assert_string_equal(read, bytes);
  free(bytes);
  free(commented);
  free(again);
  free(read);
}

static void test_built_in_robots(void **state) {
  const Domain *domain;
  const World *world;
  (void)state;
  for (int i = 0; (domain = domain_at(i)); i++) {
    if (!domain->robot) continue;
    if (world_acquire(&world, domain)) fail_msg("%s", bfm_error());
    check(domain->robot, world->model);
    world_release(world);
  }
}

// with every key, texts that need quotes, and every step of a reset
static const char all[] =
    "help: \"it's 100% \\\"done\\\": a # robot\\twith \\\\ tabs\\nand lines\"\n"
    "model: ../a b.xml\nbase: fixed\nassets: ../assets\nsubsteps: 3\nepisode: 70\n"
    "camera: '- yes'\nactions: raw\n"
    "observed: {all: [qpos, qvel], half/1: \"clip(qvel, -10, 10)\"}\n"
    "reset:\n  - keyframe: 'on'\n  - joints: random\n  - joints: limited\n"
    "  - noise: {qpos: uniform 0.1, qvel: normal 1e-7}\n  - noise: {}\n  - orientation: random\n"
    "  - raise: 0.3333333333333333\n  - raise: {from: -1, by: 0.1}\n  - redraw: floor\n"
    "  - settle: 20\n  - states: ../starts/s.npz\n"
    "terminated: '!(qpos.0 > 1)'\n"
    "aliases: {a: qpos.0, b: {is: '-a', help: 'minus: a'}}\n"
    "tasks:\n  one: b\n  two: {reward: b, kind: new, help: ä}\n  three: {step: dt, kind: prompt}\n"
    "goal: [all, half/1]\n"
    "edits:\n  change: {geom a b: {size: 1 2, friction: 1}, option: {timestep: 0.1}}\n"
    "  remove: [sensor type gyro, body 'x']\n";

static void test_every_key(void **state) {
  mjModel *model = reward_model();
  (void)state;
  Robot *robot = parse(all);
  if (robot_complete(robot, model)) fail_msg("%s", bfm_error());
  char *bytes = write_it(robot, model, 0), *commented = write_it(robot, model, 1);
  assert_string_equal(robot->help.text, "it's 100% \"done\": a # robot\twith \\ tabs\nand lines");

  // a bundle has the states under their own name and no folder of assets; a start keeps both
  assert_non_null(strstr(bytes, "states: starts/s.npz\n"));
  assert_null(strstr(bytes, "assets"));
  assert_non_null(strstr(commented, "states: ../starts/s.npz\n"));
  assert_non_null(strstr(commented, "\nassets: ../assets\n"));

  for (int i = 0; i < 2; i++) {
    Robot *read = parse(i ? commented : bytes);
    assert_string_equal(read->help.text, robot->help.text);
    assert_string_equal(read->terminated.text, "!(qpos.0 > 1)");
    assert_int_equal(read->reset_count, robot->reset_count);
    assert_true(read->resets[6].by == robot->resets[6].by);
    assert_true(read->resets[3].qvel.size == 1e-7);
    assert_int_equal(read->edit_count, 5);
    assert_string_equal(read->edits[0].name.text, "a b");
    assert_string_equal(read->edits[4].name.text, "'x'");
    assert_null(read->edits[3].attribute.text);
    assert_int_equal(read->base, BASE_FIXED);
    robot_free(read);
  }
  check(robot, model);
  free(bytes);
  free(commented);
  robot_free(robot);
  mj_deleteModel(model);
}

// the lines that a start offers as comments are right when they are uncommented
static void test_examples(void **state) {
  mjModel *model = reward_model();
  (void)state;
  Robot *robot = parse("model: a.xml\n");
  if (robot_complete(robot, model)) fail_msg("%s", bfm_error());
  char *yaml = write_it(robot, model, 1);
  for (char *c = yaml; *c; c++) {
    int starts_line = c == yaml || c[-1] == '\n';
    int is_example = c[0] == '#' && (c[1] != ' ' || c[2] == ' ');
    if (starts_line && is_example) memmove(c, c + 1, strlen(c));
  }
  Robot *read = parse(yaml);
  assert_int_equal(read->task_count, 3);
  assert_int_equal(read->alias_count, 2);
  assert_int_equal(read->goal.count, 1);
  assert_int_equal(read->edit_count, 1);
  assert_non_null(read->terminated.text);
  if (robot_check_aliases(read, model) || robot_complete(read, model) || robot_check(read, model)) {
    fail_msg("%s", bfm_error());
  }
  free(yaml);
  robot_free(read);
  robot_free(robot);
  mj_deleteModel(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_built_in_robots),
      cmocka_unit_test(test_every_key),
      cmocka_unit_test(test_examples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
