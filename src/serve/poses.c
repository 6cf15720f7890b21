// Poses of bodies. Joints are interpolated, not bodies: so limbs keep their lengths between two states.

#include "serve/poses.h"

#include <stdlib.h>

int poses_new(Poses *p, const World *world) {
  const mjModel *model = world->model;
  *p = (Poses){.world = world, .data = mj_makeData(model)};
  p->qpos = calloc((size_t)(model->nq + model->nv), sizeof *p->qpos);
  if (p->data && p->qpos) {
    p->qvel = p->qpos + model->nq;
    return BFM_OK;
  }
  poses_free(p);
  return bfm_fail(BFM_NO_MEMORY, "out of memory for poses of %s", world->domain->name);
}

void poses_free(Poses *p) {
  if (p->data) mj_deleteData(p->data);
  free(p->qpos);
  *p = (Poses){.world = NULL};
}

static void compute(Poses *p) {
  const mjModel *model = p->world->model;
  mju_copy(p->data->qpos, p->qpos, model->nq);
  mj_kinematics(model, p->data);
  mj_comPos(model, p->data);
  if (model->ntendon) mj_tendon(model, p->data);
}

void poses_set(Poses *p, const double *qpos) {
  mju_copy(p->qpos, qpos, p->world->model->nq);
  compute(p);
}

void poses_between(Poses *p, const double *from, const double *to, double share) {
  const mjModel *model = p->world->model;
  mju_copy(p->qpos, share < 1 ? from : to, model->nq);
  if (share > 0 && share < 1) {
    mj_differentiatePos(model, p->qvel, 1, from, to);
    mj_integratePos(model, p->qpos, p->qvel, share);
  }
  compute(p);
}

// fixed tendons connect joints and have no path
static int is_drawn(const mjModel *model, int tendon) {
  int wrap = model->wrap_type[model->tendon_adr[tendon]];
  return wrap != mjWRAP_JOINT && model->tendon_group[tendon] < 3;
}

int poses_tendons(const World *world) {
  int count = 0;
  for (int t = 0; t < world->model->ntendon; t++) count += is_drawn(world->model, t);
  return count;
}

size_t poses_bytes(const World *world) {
  const mjModel *model = world->model;
  // a wrap object gives at most two points
  return sizeof(float) * (size_t)(7 * model->nbody + model->ntendon + 6 * model->nwrap);
}

unsigned char *poses_put_bodies(const Poses *p, unsigned char *out) {
  for (int b = 0; b < p->world->model->nbody; b++) {
    for (int i = 0; i < 3; i++) out = put_f32(out, p->data->xpos[3 * b + i]);
    for (int i = 0; i < 4; i++) out = put_f32(out, p->data->xquat[4 * b + i]);
  }
  return out;
}

unsigned char *poses_put_tendons(const Poses *p, unsigned char *out) {
  const mjData *data = p->data;
  for (int t = 0; t < p->world->model->ntendon; t++) {
    if (!is_drawn(p->world->model, t)) continue;
    const double *points = data->wrap_xpos + 3 * data->ten_wrapadr[t];
    out = put_u32(out, (uint32_t)data->ten_wrapnum[t]);
    for (int i = 0; i < 3 * data->ten_wrapnum[t]; i++) out = put_f32(out, points[i]);
  }
  return out;
}
