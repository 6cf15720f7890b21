// Fuzzes robots' files: any text is read, or refused with a sentence that names the file. What was read
// is compiled against a model, drawn from, observed and checked.

#include <stdlib.h>
#include <string.h>

#include "../unit/reward_model.h"
#include "envs/robot.h"
#include "envs/robot_world.h"

static void use(World *world, mjData *data) {
  const mjModel *model = world->model;
  double obs[OBS_MAX];
  Draws draw = draw_new(0, 0, 0);
  mj_resetData(model, data);
  mj_forward(model, data);
  int slow = 0;  // steps that simulate, or that may raise an error of MuJoCo
  for (int i = 0; i < world->domain->robot->reset_count; i++) {
    ResetKind kind = world->domain->robot->resets[i].kind;
    slow |= kind == RESET_SETTLE || kind == RESET_REDRAW || kind == RESET_RAISE;
  }
  if (!slow) world->domain->reset(world, data, &draw);
  world->domain->observe(world, data, obs);
  if (world->domain->terminated) world->domain->terminated(world, data);
}

// as bfm robot check: goes on after problems, and finds one where reading alone fails
static void examine(const uint8_t *bytes, size_t size, const mjModel *model) {
  RobotProblems problems = {.count = 0};
  Robot *robot;
  int status = robot_parse_all(&robot, "r.yaml", (const char *)bytes, size, &problems);
  if (!status) status = robot_check_aliases(robot, model);
  if (!status) status = robot_complete(robot, model);
  if (!status) status = robot_check(robot, model);
  if (status) robot_problems_add(&problems);
  robot_free(robot);
  int count = problems.count;
  if (robot_parse(&robot, "r.yaml", (const char *)bytes, size) && !count) abort();
  robot_free(robot);
  robot_problems_free(&problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static mjModel *model;
  static mjData *data;
  if (!model) {
    model = reward_model();
    data = mj_makeData(model);
  }
  examine(bytes, size, model);
  Robot *robot;
  if (robot_parse(&robot, "r.yaml", (const char *)bytes, size)) {
    if (robot || strncmp(bfm_error(), "r.yaml", 6)) abort();
    return 0;
  }
  Observer *observer;
  Domain domain;
  if (!observer_new(&observer, robot, model)) {
    robot->size = observer_size(observer);
    observer_free(observer);
    robot_domain(&domain, "r", robot);
    World world = {.domain = &domain, .model = model, .resting = model};
    if (!robot_world_new(&world)) use(&world, data);
    robot_world_free(world.robot);
  }
  if (!robot_check_aliases(robot, model)) robot_check(robot, model);
  robot_free(robot);
  return 0;
}
