// What a URDF lacks to be a robot that can be trained: a base that moves, motors, a floor, a light.

#ifndef BFM_ENVS_URDF_H
#define BFM_ENVS_URDF_H

#include <mujoco/mujoco.h>

#include "envs/bundle.h"
#include "envs/flatten.h"

// completes a spec that MuJoCo has parsed from this text
int urdf_complete(mjSpec *spec, BundleBase base, const FlatText *flat);

#endif
