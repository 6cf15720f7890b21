// D4RL's scores: 0 is the return of a random agent, 100 that of an expert. And the levels of its
// locomotion datasets, which are scores that an agent is trained to.

#ifndef BFM_COLLECT_D4RL_SCORES_H
#define BFM_COLLECT_D4RL_SCORES_H

#include <stddef.h>

#include "core/status.h"

typedef struct {
  const char *name;
  double score;
  int required;  // training fails when it does not reach the score; else it keeps the best it has
} D4rlLevel;

extern const D4rlLevel d4rl_levels[];  // medium, expert

// checks that the domain is one of D4RL's locomotion domains and that the task is empty or "run";
// who: the collector that asks, for the error
int d4rl_check(const char *env, const char *task, const char *who);

// a return as a score; NaN when the task is not D4RL's
double d4rl_score(const char *env, const char *task, double value);

// the return at which a level begins; NaN when the domain is not D4RL's
double d4rl_return(const char *env, int level);

// the path of a level's policy: data.h5 → data.medium.safetensors
void d4rl_policy_path(const char *data, int level, char *out, size_t size);

#endif
