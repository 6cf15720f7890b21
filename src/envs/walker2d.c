// walker2d: Gym's planar robot on two legs, D4RL's v2. Terminates when it falls or leans.

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
  (void)world;
  double height = data->qpos[1], angle = data->qpos[2];
  return !(height > 0.8 && height < 2 && angle > -1 && angle < 1);
}

static double step_reward(const World *world, const mjData *data, const double *qpos) {
  return gym_reward(world, data, qpos, 1, 1e-3);
}

const Domain walker2d_domain = {
    .name = "walker2d",
    .help = "Gym's planar robot on two legs, as in D4RL v2",
    .file = "gymnasium/walker2d.xml",
    .obs_dim = 17,
    .substeps = 4,
    .episode_steps = 1000,
    .camera = "track",
    .aliases = aliases,
    .reset = reset,
    .observe = observe,
    .terminated = terminated,
    .step_reward = step_reward,
};
