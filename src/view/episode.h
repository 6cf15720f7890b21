// One episode of an actor, recorded to be drawn: its states and their rewards.

#ifndef BFM_VIEW_EPISODE_H
#define BFM_VIEW_EPISODE_H

#include "rollout/rollout.h"

typedef struct {
  const char *score;  // task or expression whose rewards are recorded, or NULL
  const float *z;     // [d], or NULL if the actor takes none
  uint64_t seed;
  int64_t steps;  // planned; 0: a whole episode
  // called after every step; not 0 stops the episode with BFM_INTERRUPTED
  int (*each)(void *context, int64_t done, int64_t total);
  void *context;

  // filled in
  Rollout rollout;
  bfm_env_sizes sizes;
  int64_t count;    // states, with the first; a step that diverged has no state
  double *qpos;     // [count, nq]
  double *rewards;  // [count] of the states
} Episode;

// make the environment in its first state, then record; free the episode also after an error
int episode_new(Episode *episode, const Actor *actor);
int episode_record(Episode *episode);
void episode_free(Episode *episode);

#endif
