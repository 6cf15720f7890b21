// One simulation. dm_control's order of computation is kept to the bit: a state that was set is
// forwarded without actuation, and after a step only what observations read is computed anew.

#include "envs/single.h"

#include <string.h>

void single_reset(const World *world, mjData *data, Draws *draw, double *obs) {
  mj_resetData(world->model, data);
  mj_forward(world->resting, data);
  world->domain->reset(world, data, draw);
  data->time = 0;
  mj_forward(world->resting, data);
  world->domain->observe(world, data, obs);
}

void single_set(const World *world, mjData *data, const double *qpos, const double *qvel,
                const double *act, double *obs) {
  const mjModel *model = world->model;
  mj_resetData(model, data);
  mju_copy(data->qpos, qpos, model->nq);
  if (qvel) mju_copy(data->qvel, qvel, model->nv);
  if (act) mju_copy(data->act, act, model->na);
  mj_forward(world->resting, data);
  world->domain->observe(world, data, obs);
}

void single_begin(const World *world, mjData *data, const double *action) {
  const mjModel *model = world->model;
  memset(data->warning, 0, sizeof data->warning);
  if (world->domain->control) {
    world->domain->control(world, data, action);
    return;
  }
  for (int u = 0; u < model->nu; u++) {
    double lo = model->actuator_ctrlrange[2 * u], hi = model->actuator_ctrlrange[2 * u + 1];
    double control = world->domain->scaled ? lo + (action[u] + 1) / 2 * (hi - lo) : action[u];
    data->ctrl[u] = fmin(fmax(control, lo), hi);
  }
}

// dm_control forwards a state that was set with actuation disabled. MuJoCo then skips the actuators'
// velocities, so the first physics step from there sees zeros. `first` reproduces this.
void single_substep(const World *world, mjData *data, int first) {
  const mjModel *model = world->model;
  if (first && model->opt.integrator != mjINT_RK4) {
    mj_step1(model, data);
    mju_zero(data->actuator_velocity, model->nu);
    mj_step2(model, data);
  } else {
    mj_step(model, data);
  }
}

void single_substeps(const World *world, mjData *data, int first) {
  for (int k = 0; k < world->domain->substeps; k++) single_substep(world, data, first && k == 0);
}

int single_has_warning(const mjData *data) {
  for (int w = 0; w < mjNWARNING; w++) {
    if (data->warning[w].number) return 1;
  }
  return 0;
}

static int all_finite(const double *x, int count) {
  for (int i = 0; i < count; i++) {
    if (!isfinite(x[i])) return 0;
  }
  return 1;
}

int single_end(const World *world, mjData *data, double *obs) {
  world_update(world, data);
  world->domain->observe(world, data, obs);
  return !single_has_warning(data) && all_finite(obs, world->domain->obs_dim);
}
