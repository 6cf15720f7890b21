// A sequence of random numbers for one initial state, as long as rejection sampling needs. It is a
// function of (seed, environment, episode), independent of all other environments.

#ifndef BFM_ENVS_DRAW_H
#define BFM_ENVS_DRAW_H

#include <math.h>
#include <stdint.h>

#include "core/rng.h"

typedef struct {
  uint64_t seed;
  uint64_t step;   // environment and episode
  uint32_t index;  // numbers drawn so far
} Draws;

static inline Draws draw_new(uint64_t seed, uint32_t env, uint32_t episode) {
  return (Draws){.seed = seed, .step = (uint64_t)env << 32 | episode};
}

// uniform in (lo, hi), 53 random bits
static inline double draw_uniform(Draws *draw, double lo, double hi) {
  Philox p = philox(draw->seed, STREAM_RESET, draw->step, draw->index++);
  uint64_t bits = ((uint64_t)p.v[0] << 32 | p.v[1]) >> 12;
  return lo + (hi - lo) * (((double)bits + 0.5) * 0x1p-52);
}

// standard normal (Box-Muller)
static inline double draw_normal(Draws *draw) {
  double radius = sqrt(-2 * log(draw_uniform(draw, 0, 1)));
  return radius * cos(draw_uniform(draw, 0, 2 * 3.14159265358979323846));
}

#endif
