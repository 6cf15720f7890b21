// One simulation in one mjData: the pieces of a control step, shared by the many simulations of sim.h
// and by programs that simulate substep by substep.

#ifndef BFM_ENVS_SINGLE_H
#define BFM_ENVS_SINGLE_H

#include "envs/domain.h"

// draw an initial state and observe it
void single_reset(const World *world, mjData *data, Draws *draw, double *obs);

// Set a state and observe it; NULL qvel and act stand for zeros. Forces are computed without
// actuation.
void single_set(const World *world, mjData *data, const double *qpos, const double *qvel,
                const double *act, double *obs);

// A control step: begin it with the controls of an action, do its substeps, then end it. `first`: this
// is the first substep since a state was set or drawn.
void single_begin(const World *world, mjData *data, const double *action);
void single_substep(const World *world, mjData *data, int first);
// observe the new state; returns 0 if the simulation has diverged during the step
int single_end(const World *world, mjData *data, double *obs);

// all substeps at once
void single_substeps(const World *world, mjData *data, int first);

// whether MuJoCo has warned since single_begin, which here is taken for divergence
int single_has_warning(const mjData *data);

#endif
