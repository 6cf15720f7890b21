// The robots of a stage: a few simulations of one domain, advanced substep by substep. Without a hand on
// it, a robot follows bit for bit the trajectory that bfm_env gives it for the same seed and actions.

#ifndef BFM_SERVE_ROBOTS_H
#define BFM_SERVE_ROBOTS_H

#include <stdint.h>

#include "envs/sim.h"
#include "serve/touch.h"

typedef struct Robots Robots;

// all robots begin in the first initial state of the seed
int robots_new(Robots **robots, const World *world, int count, uint64_t seed);
void robots_free(Robots *robots);

// set a robot to the start state, or to a given one; qvel and act may be NULL
int robots_reset(Robots *robots, int i);
int robots_set(Robots *robots, int i, const double *qpos, const double *qvel, const double *act);

// Begin a control step with an action; then do each of its substeps. drag and push may be NULL. After the
// last one, `read` is called with the new state, as by sim_step, unless the robot has diverged; a robot
// that diverges earlier stays where it is until then.
void robots_begin(Robots *robots, int i, const double *action);
void robots_substep(Robots *robots, int i, const Drag *drag, const Push *push, SimRead read,
                    void *context);

// bfm_env_end bits of the last control step, but for the time limit
int robots_ended(const Robots *robots, int i);

// The state now, and the positions before the last substep. The pointers stay valid.
const double *robots_qpos(const Robots *robots, int i);
const double *robots_qvel(const Robots *robots, int i);
const double *robots_act(const Robots *robots, int i);
const double *robots_last_qpos(const Robots *robots, int i);
const double *robots_obs(const Robots *robots,
                         int i);  // [obs_dim] at the end of the last control step

#endif
