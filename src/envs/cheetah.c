// cheetah: dm_control's planar cheetah. The observation is the state without the distance covered.
// Episodes start in a random posture, after 200 physics steps to let it settle.

#include "envs/domain.h"

static const Alias aliases[] = {
    {"speed", "torso_subtreelinvel.x", "horizontal velocity of the centre of mass, m/s"},
    {"height", "torso.z", "height of the torso, m"},
    {"pitch", "torso.zx", "1 when the trunk is vertical with the head up, -1 with the head down"},
    {0},
};

static void reset(const World *world, mjData *data, Draws *draw) {
  const mjModel *model = world->model;
  for (int j = 0; j < model->njnt; j++) {
    const double *range = model->jnt_range + 2 * j;
    if (model->jnt_limited[j]) data->qpos[j] = draw_uniform(draw, range[0], range[1]);
  }
  world_step(world, data, 200);
}

static void observe(const World *world, const mjData *data, double *obs) {
  obs = put(obs, data->qpos + 1, world->model->nq - 1);
  put(obs, data->qvel, world->model->nv);
}

const Domain cheetah_domain = {
    .name = "cheetah",
    .help = "planar cheetah",
    .file = "suite/cheetah.xml",
    .obs_dim = 17,
    .observed = {{"position", 8}, {"velocity", 9}},
    .substeps = 1,
    .episode_steps = 1000,
    .camera = "side",
    .aliases = aliases,
    .reset = reset,
    .observe = observe,
};
