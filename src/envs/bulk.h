// Rewards of many stored states, on all threads.

#ifndef BFM_ENVS_BULK_H
#define BFM_ENVS_BULK_H

#include "core/threads.h"
#include "envs/reward.h"

// out[i] = the expression at state i of qpos [n, nq], qvel [n, nv], act [n, na]; NULL qvel and act
// stand for zeros. Controls are zero and actuation is off, as after dm_control's reset_context.
// Where the expression is not finite, the reward is 0; if that is so in all states, or if a state
// itself is not finite, it is an error. threads NULL: only the calling thread. Stops at its deadline.
int rewards_bulk(const mjModel *model, const Alias *aliases, const char *expression, int64_t n,
                 const double *qpos, const double *qvel, const double *act, Threads *threads,
                 double *out);

#endif
