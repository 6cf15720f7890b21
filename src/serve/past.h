// What a robot did in the last half minute, a row for each control step: for films, trajectories and
// demonstrations.

#ifndef BFM_SERVE_PAST_H
#define BFM_SERVE_PAST_H

#include <stdint.h>

#include "envs/domain.h"

#define PAST_SECONDS 30.0

// Rows [count, ·] in order of time. obs, qpos, qvel and act_state belong to the state in which the
// action was taken, next_obs and next_qpos to the one after it. As in D4RL's files, terminals mark the
// states that end an episode, and timeouts the last rows of pieces that end otherwise.
typedef struct {
  int64_t count;
  float *obs, *act, *next_obs, *rewards;
  double *qpos, *qvel, *act_state, *next_qpos;
  int8_t *terminals, *timeouts;
  void *memory;
} Rows;

void rows_free(Rows *rows);

typedef struct Past Past;

int past_new(Past **past, const World *world);
void past_free(Past *past);

// The row to fill now; past_add then makes it the newest. Its timeout is not set: it follows from what
// comes next.
Rows past_next(Past *past);
void past_add(Past *past);

// the next row begins elsewhere: the robot was reset
void past_cut(Past *past);

// a copy of the rows of the last seconds, at least one; the caller frees it
int past_copy(const Past *past, double seconds, Rows *rows);

#endif
