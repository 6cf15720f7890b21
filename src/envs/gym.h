// What Gym's planar robots share, as D4RL's v2 datasets know them: the distance covered is not
// observed, and the reward of a step is its mean forward velocity less the cost of its controls.

#ifndef BFM_ENVS_GYM_H
#define BFM_ENVS_GYM_H

#include "envs/domain.h"

static inline void gym_observe(const World *world, const mjData *data, double *obs,
                               double velocity_limit) {
  obs = put(obs, data->qpos + 1, world->model->nq - 1);
  for (int i = 0; i < world->model->nv; i++) {
    *obs++ = fmin(fmax(data->qvel[i], -velocity_limit), velocity_limit);
  }
}

static inline double gym_reward(const World *world, const mjData *data, const double *qpos,
                                double alive, double cost) {
  double dt = world->domain->substeps * world->model->opt.timestep;
  double effort = mju_dot(data->ctrl, data->ctrl, world->model->nu);
  return (data->qpos[0] - qpos[0]) / dt + alive - cost * effort;
}

static inline void gym_reset(const World *world, mjData *data, Draws *draw, double noise) {
  for (int i = 0; i < world->model->nq; i++) data->qpos[i] += draw_uniform(draw, -noise, noise);
  for (int i = 0; i < world->model->nv; i++) data->qvel[i] += draw_uniform(draw, -noise, noise);
}

#endif
