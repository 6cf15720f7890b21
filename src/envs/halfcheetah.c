// halfcheetah: Gym's planar cheetah, D4RL's v2. Never terminates.

#include "envs/gym.h"

static const Alias aliases[] = {
    {"speed", "rootx.v", "horizontal velocity of the torso, m/s"},
    {0},
};

static void reset(const World *world, mjData *data, Draws *draw) {
  for (int i = 0; i < world->model->nq; i++) data->qpos[i] += draw_uniform(draw, -0.1, 0.1);
  for (int i = 0; i < world->model->nv; i++) data->qvel[i] += 0.1 * draw_normal(draw);
}

static void observe(const World *world, const mjData *data, double *obs) {
  gym_observe(world, data, obs, mjMAXVAL);
}

static double step_reward(const World *world, const mjData *data, const double *qpos) {
  return gym_reward(world, data, qpos, 0, 0.1);
}

const Domain halfcheetah_domain = {
    .name = "halfcheetah",
    .help = "Gym's planar cheetah, as in D4RL v2",
    .file = "gymnasium/half_cheetah.xml",
    .obs_dim = 17,
    .substeps = 5,
    .episode_steps = 1000,
    .camera = "track",
    .aliases = aliases,
    .reset = reset,
    .observe = observe,
    .step_reward = step_reward,
};
