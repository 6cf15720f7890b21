// Many simulations of one domain over all cores, on MuJoCo's batch interface. A thread runs one
// after the other in one mjData that stays in its cache; after the substeps only what observations
// read is computed of the new state. Results do not depend on threads or on other simulations.

#ifndef BFM_ENVS_SIM_H
#define BFM_ENVS_SIM_H

#include <stdint.h>

#include "envs/domain.h"

typedef struct Sim Sim;

// n simulations in the model's default state; threads 0: one per core
int sim_new(Sim **sim, const World *world, int n, uint64_t seed, int threads);
void sim_free(Sim *sim);

// begin the random numbers of initial states anew
void sim_seed(Sim *sim, uint64_t seed);

// draw initial states; which [n]: those with a nonzero entry, NULL: all
int sim_reset(Sim *sim, const uint8_t *which);

// refuse numbers that MuJoCo itself would call bad, [n, size]; NULL has none
int sim_check_numbers(const char *what, const double *x, int64_t n, int size);

// states as float64: qpos [n, nq], qvel [n, nv], act [n, na]; NULL qvel and act are zeros.
// Time, controls and warm start become zero; forces are those without actuation.
int sim_set_state(Sim *sim, const double *qpos, const double *qvel, const double *act);
void sim_state(Sim *sim, double *qpos, double *qvel, double *act);

// a look at simulation i; qpos is where its last step began
typedef void (*SimRead)(const World *world, mjData *data, int i, const double *qpos, void *context);

// one control step of all; actions [n, act_dim] must be finite and are clipped to their ranges.
// A simulation that diverges keeps the state it had before the step, and BFM_END_DIVERGED is set.
// read (may be NULL) is called on those that did not, with the new state at hand.
int sim_step(Sim *sim, const double *actions, SimRead read, void *context);

const double *sim_obs(const Sim *sim);     // [n, obs_dim] of the present states
const uint8_t *sim_ended(const Sim *sim);  // [n] of bfm_env_end bits, of the last step or reset
int64_t sim_diverged(const Sim *sim);      // how often simulations diverged so far

// call read on every simulation. What data then holds: the state alone, or all that dm_control's
// legacy step leaves, which is made again from where the step began
typedef enum { SIM_STATE, SIM_FORCES } SimNeed;

int sim_read(Sim *sim, SimNeed need, SimRead read, void *context);

#endif
