// Poses of a robot's bodies, computed from positions of its joints alone, in an mjData of their own:
// for frames between two substeps, for ghosts, and for the camera of the scene.

#ifndef BFM_SERVE_POSES_H
#define BFM_SERVE_POSES_H

#include "envs/domain.h"

typedef struct {
  const World *world;
  mjData *data;  // positions and orientations of the last state
  double *qpos;  // [nq] of it
  double *qvel;  // [nv] scratch
} Poses;

int poses_new(Poses *poses, const World *world);
void poses_free(Poses *poses);

// compute a state, or one between two states: share 0 is the first, 1 the second
void poses_set(Poses *poses, const double *qpos);
void poses_between(Poses *poses, const double *from, const double *to, double share);

// the tendons that run through space, which are drawn
int poses_tendons(const World *world);

// Write for each body x y z and a unit quaternion w x y z as float32; returns the end.
unsigned char *poses_put_bodies(const Poses *poses, unsigned char *out);
// for each drawn tendon the number of its points as u32, and their x y z as float32
unsigned char *poses_put_tendons(const Poses *poses, unsigned char *out);
// bytes that the two write at most
size_t poses_bytes(const World *world);

// one number as float32
static inline unsigned char *put_f32(unsigned char *out, double value) {
  float narrow = (float)value;
  __builtin_memcpy(out, &narrow, sizeof narrow);
  return out + sizeof narrow;
}

static inline unsigned char *put_u32(unsigned char *out, uint32_t value) {
  __builtin_memcpy(out, &value, sizeof value);
  return out + sizeof value;
}

#endif
