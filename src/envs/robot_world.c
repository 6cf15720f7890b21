// The domain of a robot from a text file: the functions of a Domain, over its compiled description.

#include "envs/robot_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/suggest.h"
#include "envs/sim.h"

// ---------------------------------- compiling ----------------------------------------------------

static int compile_terminated(const Robot *robot, World *world) {
  Reward *reward;
  if (!robot->terminated.text) return BFM_OK;
  if (reward_new(&reward, world->model, robot->aliases, robot->terminated.text)) {
    return robot_fail_expression(robot, robot->terminated);
  }
  world->needs |= reward_needs(reward);
  return reward_pool_new(&world->robot->terminated, reward);
}

// A control without limits is one in ±1; that of a position servo is a position of its joint.
static void limit_controls(mjModel *model) {
  for (int u = 0; u < model->nu; u++) {
    if (model->actuator_ctrllimited[u]) continue;
    int joint = model->actuator_trnid[2 * u];
    int servo = model->actuator_trntype[u] == mjTRN_JOINT &&
                model->actuator_biastype[u] == mjBIAS_AFFINE &&
                model->actuator_biasprm[u * mjNBIAS + 1] != 0 && model->jnt_limited[joint];
    model->actuator_ctrlrange[2 * u] = servo ? model->jnt_range[2 * joint] : -1;
    model->actuator_ctrlrange[2 * u + 1] = servo ? model->jnt_range[2 * joint + 1] : 1;
  }
}

int robot_world_new(World *world) {
  const Robot *robot = world->domain->robot;
  world->robot = calloc(1, sizeof *world->robot);
  if (!world->robot) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", world->domain->name);
  limit_controls(world->model);
  TRY(observer_new(&world->robot->observer, robot, world->model));
  world->needs = observer_needs(world->robot->observer);
  TRY(resets_new(&world->robot->resets, robot, world->model));
  TRY(compile_terminated(robot, world));
  return robot_check_size(robot, observer_size(world->robot->observer));
}

void robot_world_free(RobotWorld *robot) {
  if (!robot) return;
  observer_free(robot->observer);
  resets_free(robot->resets);
  reward_pool_free(robot->terminated);
  free(robot);
}

// ---------------------------------- checking -----------------------------------------------------

// an alias may also be a vector, which is no reward of its own
static int check_alias(const Robot *robot, const mjModel *model, int i) {
  Reward *reward;
  int count;
  if (reward_new_number(&reward, model, robot->aliases, robot->aliases[i].expression, 0, &count)) {
    return robot_fail_expression(robot, robot->alias_places[i]);
  }
  reward_free(reward);
  return BFM_OK;
}

static int check_task(const Robot *robot, const mjModel *model, int i) {
  const Task *task = robot->tasks + i;
  double dt = robot->substeps * model->opt.timestep;
  Reward *reward;
  int status = task->step ? reward_new_step(&reward, model, robot->aliases, dt, task->step)
                          : reward_new(&reward, model, robot->aliases, task->expression);
  if (status) return robot_fail_expression(robot, robot->task_places[i]);
  reward_free(reward);
  return BFM_OK;
}

int robot_check_size(const Robot *robot, int size) {
  if (size == robot->size) return BFM_OK;
  return robot_fail(robot, robot->size_place,
                    "the observation has %d numbers, not %d as \"size\" says", size, robot->size);
}

int robot_check_aliases(Robot *robot, const mjModel *model) {
  for (int i = 0; i < robot->alias_count; i++) {
    int status = check_alias(robot, model, i);
    TRY(robot_goes_on(robot, status));
    if (status) robot->aliases[i].expression = "0";
  }
  return BFM_OK;
}

static int check_terminated(const Robot *robot, const mjModel *model) {
  Reward *reward;
  if (!robot->terminated.text) return BFM_OK;
  if (reward_new(&reward, model, robot->aliases, robot->terminated.text)) {
    return robot_fail_expression(robot, robot->terminated);
  }
  reward_free(reward);
  return BFM_OK;
}

static int check_resets(const Robot *robot, const mjModel *model) {
  Resets *resets;
  TRY(resets_new(&resets, robot, model));
  resets_free(resets);
  return BFM_OK;
}

static int check_camera(const Robot *robot, const mjModel *model) {
  const char *camera = robot->camera.text;
  Suggestion nearest = {.word = camera};
  if (!camera || mj_name2id(model, mjOBJ_CAMERA, camera) >= 0) return BFM_OK;
  for (int c = 0; c < model->ncam; c++) {
    const char *name = mj_id2name(model, mjOBJ_CAMERA, c);
    if (name) suggest_try(&nearest, name);
  }
  if (!model->ncam) {
    return robot_fail(robot, robot->camera, "the model has no camera '%s', nor any other", camera);
  }
  return robot_fail(robot, robot->camera, "the model has no camera '%s' among its %d%s", camera,
                    (int)model->ncam, suggest_say(&nearest, ""));
}

static int check_goal(const Robot *robot, RobotText goal) {
  Suggestion nearest = {.word = goal.text};
  for (int p = 0; p < robot->observed_count; p++) {
    if (!strcmp(robot->observed[p].name.text, goal.text)) return BFM_OK;
    suggest_try(&nearest, robot->observed[p].name.text);
  }
  return robot_fail(robot, goal, "'%s' is no part of the observation%s", goal.text,
                    suggest_say(&nearest, ""));
}

int robot_check(const Robot *robot, const mjModel *model) {
  for (int i = 0; i < robot->task_count; i++) {
    TRY(robot_goes_on(robot, check_task(robot, model, i)));
  }
  TRY(robot_goes_on(robot, check_terminated(robot, model)));
  TRY(robot_goes_on(robot, check_resets(robot, model)));
  TRY(robot_goes_on(robot, check_camera(robot, model)));
  for (int i = 0; i < robot->goal.count; i++) {
    TRY(robot_goes_on(robot, check_goal(robot, robot->goal.of[i])));
  }
  return BFM_OK;
}

// ---------------------------------- how episodes start -------------------------------------------

enum { STARTS = 16 };  // initial states that are drawn, if all before were terminated

static void read_terminated(const World *world, mjData *data, int i, const double *qpos,
                            void *out) {
  (void)i, (void)qpos;
  *(int *)out = world->domain->terminated(world, data);
}

static int fail_start(const Robot *robot) {
  RobotText place = {0};
  char said[512];
  const char *reason = strstr(bfm_error(), ": ");  // after "environment 0"
  snprintf(said, sizeof said, "%s", reason ? reason + 2 : bfm_error());
  for (int i = 0; i < robot->reset_count; i++) {
    ResetKind kind = robot->resets[i].kind;
    if (kind == RESET_REDRAW || kind == RESET_RAISE) place = robot->resets[i].text;
  }
  return robot_fail(robot, place, "no episode can start: %s", said);
}

static int draw_starts(const World *world, Sim *sim) {
  const Robot *robot = world->domain->robot;
  int over = 1;
  for (int i = 0; i < STARTS && over; i++) {
    if (sim_reset(sim, NULL)) return fail_start(robot);
    if (!world->domain->terminated) return BFM_OK;
    TRY(sim_read(sim, SIM_STATE, read_terminated, &over));
  }
  if (!over) return BFM_OK;
  return robot_fail(
      robot, robot->terminated,
      "terminated is true in all of %d initial states, so every episode would be over "
      "when it begins",
      STARTS);
}

int robot_check_starts(const World *world) {
  Sim *sim;
  TRY(sim_new(&sim, world, 1, 0, 1));
  int status = draw_starts(world, sim);
  sim_free(sim);
  return status;
}

// ---------------------------------- the domain ---------------------------------------------------

static void reset(const World *world, mjData *data, Draws *draw) {
  resets_draw(world->robot->resets, world, data, draw);
}

static void observe(const World *world, const mjData *data, double *obs) {
  observer_read(world->robot->observer, world->model, data, obs);
}

static int terminated(const World *world, const mjData *data) {
  return reward_pool_value(world->robot->terminated, world->model, data) != 0;
}

void robot_domain(Domain *domain, const char *name, const Robot *robot) {
  *domain = (Domain){
      .name = name,
      .help = robot->help.text ? robot->help.text : "",
      .file = robot->model.text,
      .robot = robot,
      .obs_dim = robot->size,
      .substeps = robot->substeps,
      .episode_steps = robot->episode,
      .scaled = robot->actions == ACTIONS_RANGE,
      .camera = robot->camera.text,
      .aliases = robot->aliases,
      .tasks = robot->tasks,
      .reset = reset,
      .observe = observe,
      .terminated = robot->terminated.text ? terminated : NULL,
  };
}
