// Gym's planar robots, as in D4RL's v2 datasets: observations omit the distance covered, and the
// reward of a step is its mean forward velocity minus the cost of its controls. hopper and walker2d
// are also rewarded for staying up and terminate when they fall or lean; halfcheetah never does.

#include "envs/domain.h"

#define SPEED {"speed", "rootx.v", "horizontal velocity of the torso, m/s"}

static void observe_within(const World *world, const mjData *data, double *obs, double limit) {
  obs = put(obs, data->qpos + 1, world->model->nq - 1);
  for (int i = 0; i < world->model->nv; i++) *obs++ = fmin(fmax(data->qvel[i], -limit), limit);
}

static double reward(const World *world, const mjData *data, const double *qpos, double alive,
                     double cost) {
  double dt = world->domain->substeps * world->model->opt.timestep;
  double effort = mju_dot(data->ctrl, data->ctrl, world->model->nu);
  return (data->qpos[0] - qpos[0]) / dt + alive - cost * effort;
}

// ---------------------------------- halfcheetah --------------------------------------------------

static const Alias cheetah_aliases[] = {SPEED, {0}};

static void cheetah_reset(const World *world, mjData *data, Draws *draw) {
  for (int i = 0; i < world->model->nq; i++) data->qpos[i] += draw_uniform(draw, -0.1, 0.1);
  for (int i = 0; i < world->model->nv; i++) data->qvel[i] += 0.1 * draw_normal(draw);
}

static void cheetah_observe(const World *world, const mjData *data, double *obs) {
  observe_within(world, data, obs, mjMAXVAL);
}

static double cheetah_reward(const World *world, const mjData *data, const double *qpos,
                             const char *task) {
  (void)task;
  return reward(world, data, qpos, 0, 0.1);
}

const Domain halfcheetah_domain = {
    .name = "halfcheetah",
    .help = "Gym's planar cheetah, as in D4RL v2",
    .file = "gymnasium/half_cheetah.xml",
    .obs_dim = 17,
    .observed = {{"position", 8}, {"velocity", 9}},
    .substeps = 5,
    .episode_steps = 1000,
    .camera = "track",
    .aliases = cheetah_aliases,
    .reset = cheetah_reset,
    .observe = cheetah_observe,
    .step_reward = cheetah_reward,
};

// ---------------------------------- hopper and walker2d ------------------------------------------

static const Alias upright_aliases[] = {SPEED, {"height", "rootz", "height of the torso, m"}, {0}};

static void upright_reset(const World *world, mjData *data, Draws *draw) {
  for (int i = 0; i < world->model->nq; i++) data->qpos[i] += draw_uniform(draw, -5e-3, 5e-3);
  for (int i = 0; i < world->model->nv; i++) data->qvel[i] += draw_uniform(draw, -5e-3, 5e-3);
}

static void upright_observe(const World *world, const mjData *data, double *obs) {
  observe_within(world, data, obs, 10);
}

static double upright_reward(const World *world, const mjData *data, const double *qpos,
                             const char *task) {
  (void)task;
  return reward(world, data, qpos, 1, 1e-3);
}

static int hopper_terminated(const World *world, const mjData *data) {
  double height = data->qpos[1], angle = data->qpos[2];
  double largest = 0;
  for (int i = 2; i < world->model->nq; i++) largest = fmax(largest, fabs(data->qpos[i]));
  for (int i = 0; i < world->model->nv; i++) largest = fmax(largest, fabs(data->qvel[i]));
  return !(largest < 100 && height > 0.7 && fabs(angle) < 0.2);
}

static int walker2d_terminated(const World *world, const mjData *data) {
  (void)world;
  double height = data->qpos[1], angle = data->qpos[2];
  return !(height > 0.8 && height < 2 && angle > -1 && angle < 1);
}

#define UPRIGHT                                                                        \
  .substeps = 4, .episode_steps = 1000, .camera = "track", .aliases = upright_aliases, \
  .reset = upright_reset, .observe = upright_observe, .step_reward = upright_reward

const Domain hopper_domain = {
    .name = "hopper", .help = "Gym's planar robot on one leg, as in D4RL v2",
    .file = "gymnasium/hopper.xml", .obs_dim = 11, .observed = {{"position", 5}, {"velocity", 6}},
    .terminated = hopper_terminated,
    UPRIGHT,
};

const Domain walker2d_domain = {
    .name = "walker2d", .help = "Gym's planar robot on two legs, as in D4RL v2",
    .file = "gymnasium/walker2d.xml", .obs_dim = 17, .observed = {{"position", 8}, {"velocity", 9}},
    .terminated = walker2d_terminated,
    UPRIGHT,
};
