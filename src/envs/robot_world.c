// The domain of a robot from a text file: the functions of a Domain, over its compiled description.

#include "envs/robot_world.h"

#include <stdlib.h>

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

static int check_size(const Robot *robot, const World *world) {
  int size = observer_size(world->robot->observer);
  if (size == world->domain->obs_dim) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "%s: the observation has %d numbers, not %d as \"size\" says",
                  robot->file, size, world->domain->obs_dim);
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
  return check_size(robot, world);
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

int robot_check(const Robot *robot, const mjModel *model) {
  for (int i = 0; i < robot->alias_count; i++) TRY(check_alias(robot, model, i));
  for (int i = 0; i < robot->task_count; i++) TRY(check_task(robot, model, i));
  return BFM_OK;
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
