// point_mass: dm_control's mass in a small square, pushed along two axes. The fastest domain.

#include "envs/domain.h"

static const Alias aliases[] = {
    {"x", "root_x", "position, m"},
    {"y", "root_y", "position, m"},
    {"calm", "1 - norm(ctrl)^2 / 10", "1 without controls, 0.8 when all are at their limits"},
    {0},
};

static void observe(const World *world, const mjData *data, double *obs) {
  obs = put(obs, data->qpos, world->model->nq);
  put(obs, data->qvel, world->model->nv);
}

const Domain point_mass_domain = {
    .name = "point_mass",
    .help = "a mass in a small square",
    .file = "suite/point_mass.xml",
    .obs_dim = 4,
    .observed = {{"position", 2}, {"velocity", 2}},
    .substeps = 1,
    .episode_steps = 1000,
    .camera = "fixed",
    .aliases = aliases,
    .reset = draw_joints,
    .observe = observe,
};
