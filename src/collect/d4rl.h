// D4RL's protocol for its locomotion domains: agents trained to a level of return, data of what they
// do then. The level is a score: 0 is a random agent, 100 an expert.

#ifndef BFM_COLLECT_D4RL_H
#define BFM_COLLECT_D4RL_H

#include "collect/collect.h"

typedef struct {
  const char *name;
  double score;
  int must;  // training that does not reach it has failed; else it ends with what there is
} D4rlLevel;

extern const D4rlLevel d4rl_levels[];  // medium, expert

// whether the domain is one of D4RL's locomotion, and the task (or none) its own; what: who asks
int d4rl_check(const char *env, const char *task, const char *what);

// a return as a score; NaN for other tasks than D4RL's
double d4rl_score(const char *env, const char *task, double value);

// the return that a level begins with
double d4rl_return(const char *env, int level);

// where the policy of a level lies: data.h5 → data.medium.safetensors
void d4rl_model_path(const char *data, int level, char *out, size_t size);

// train an agent through the levels, leaving a policy of each beside the dataset; what is there
// already is kept, what was interrupted goes on
int d4rl_train(const CollectPlan *plan, const char *env, const CollectOptions *options, int levels);

#endif
