// hopper: Gym's planar one-legged robot, D4RL's v2. Terminates when it falls or leans.

#include "envs/gym.h"

static const Alias aliases[] = {
    {"speed", "rootx.v", "horizontal velocity of the torso, m/s"},
    {"height", "rootz", "height of the torso, m"},
    {0},
};

static void reset(const World *world, mjData *data, Draws *draw) {
  gym_reset(world, data, draw, 5e-3);
}

static void observe(const World *world, const mjData *data, double *obs) {
  gym_observe(world, data, obs, 10);
}

static int terminated(const World *world, const mjData *data) {
  double height = data->qpos[1], angle = data->qpos[2];
  double largest = 0;
  for (int i = 2; i < world->model->nq; i++) largest = fmax(largest, fabs(data->qpos[i]));
  for (int i = 0; i < world->model->nv; i++) largest = fmax(largest, fabs(data->qvel[i]));
  return !(largest < 100 && height > 0.7 && fabs(angle) < 0.2);
}

static double step_reward(const World *world, const mjData *data, const double *qpos) {
  return gym_reward(world, data, qpos, 1, 1e-3);
}

const Domain hopper_domain = {
    .name = "hopper",
    .help = "Gym's planar robot on one leg, as in D4RL v2",
    .file = "gymnasium/hopper.xml",
    .obs_dim = 11,
    .substeps = 4,
    .episode_steps = 1000,
    .camera = "track",
    .aliases = aliases,
    .reset = reset,
    .observe = observe,
    .terminated = terminated,
    .step_reward = step_reward,
};
