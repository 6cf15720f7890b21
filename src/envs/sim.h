// Many simulations of one domain on all cores, by MuJoCo's batch interface. Each thread runs its
// simulations one after another in a single mjData, which stays in its cache. After the substeps,
// only what observations read is computed for the new state. Results depend neither on the number of
// threads nor on other simulations.

#ifndef BFM_ENVS_SIM_H
#define BFM_ENVS_SIM_H

#include <stdint.h>

#include "envs/domain.h"

typedef struct Sim Sim;

// n simulations in the model's default state; threads 0: one per core
int sim_new(Sim **sim, const World *world, int n, uint64_t seed, int threads);
void sim_free(Sim *sim);

// restarts the random numbers of initial states with a seed
void sim_seed(Sim *sim, uint64_t seed);

// draws initial states for environments with a nonzero entry in which [n]; NULL: all
int sim_reset(Sim *sim, const uint8_t *which);

// fails if a number in x [n, size] is one that MuJoCo considers bad; x may be NULL
int sim_check_numbers(const char *what, const double *x, int64_t n, int size);

// Sets states: qpos [n, nq], qvel [n, nv], act [n, na]; NULL qvel and act stand for zeros. Time,
// controls and warm start become zero; forces are computed without actuation.
int sim_set_state(Sim *sim, const double *qpos, const double *qvel, const double *act);
void sim_state(Sim *sim, double *qpos, double *qvel, double *act);

// called with simulation i; qpos is its state before the last step
typedef void (*SimRead)(const World *world, mjData *data, int i, const double *qpos, void *context);

// One control step of all simulations; actions [n, act_dim] must be finite and are clipped to their
// ranges. A simulation that diverges keeps the state before the step and gets BFM_END_DIVERGED. For
// the others, `read` is called with the new state, unless it is NULL.
int sim_step(Sim *sim, const double *actions, SimRead read, void *context);

const double *sim_obs(const Sim *sim);     // [n, obs_dim] of the current states
const uint8_t *sim_ended(const Sim *sim);  // [n] of bfm_env_end bits, of the last step or reset
int64_t sim_diverged(const Sim *sim);      // number of divergences so far

// Calls `read` on every simulation. With SIM_STATE, data holds only the state. With SIM_FORCES, it
// holds everything that dm_control's legacy step leaves; for that, the last step is repeated.
typedef enum { SIM_STATE, SIM_FORCES } SimNeed;

int sim_read(Sim *sim, SimNeed need, SimRead read, void *context);

#endif
