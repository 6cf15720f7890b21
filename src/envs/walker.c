// walker: dm_control's planar walker. The observation has the orientations of its bodies, the height
// of its torso and all velocities. Episodes start in a random posture, from which it falls.

#include "envs/domain.h"

enum { TORSO };

static const Alias aliases[] = {
    {"speed", "torso_subtreelinvel.x", "horizontal velocity of the centre of mass, m/s"},
    {"height", "torso.z", "height of the torso, m"},
    {"upright", "(1 + torso.zz) / 2", "1 when the torso is upright, 0 when it is upside down"},
    {"standing", "(3 * tolerance(height, 1.2, inf, 0.6) + upright) / 4", "reward of stand"},
    {0},
};

static void observe(const World *world, const mjData *data, double *obs) {
  for (int body = 1; body < world->model->nbody; body++) {
    *obs++ = data->xmat[9 * body + 0];
    *obs++ = data->xmat[9 * body + 2];
  }
  *obs++ = data->xpos[3 * world->ids[TORSO] + 2];
  put(obs, data->qvel, world->model->nv);
}

const Domain walker_domain = {
    .name = "walker",
    .help = "planar walker with two legs",
    .file = "suite/walker.xml",
    .obs_dim = 24,
    .observed = {{"orientations", 14}, {"height", 1}, {"velocity", 9}},
    .substeps = 10,
    .episode_steps = 1000,
    .camera = "side",
    .aliases = aliases,
    .names = {[TORSO] = {mjOBJ_BODY, "torso"}},
    .reset = draw_joints,
    .observe = observe,
};
