// Evaluation: the returns of an actor in whole episodes of several tasks, all simulated side by
// side. Episode i begins in the same state for every task and replica. If the actor uses a GPU, the
// episodes are cut into two halves that take turns: one is simulated while the actor acts on the
// other.

#ifndef BFM_ROLLOUT_EVALUATE_H
#define BFM_ROLLOUT_EVALUATE_H

#include "rollout/actor.h"

// Write the returns [replicas, task_count, episodes]; they stay as they are after an error. If the
// actor takes z, the plan must have it. bias [replicas, task_count, episodes, steps], unless it is
// NULL, receives after each step the rewards earned so far minus those that the actor predicted.
int evaluate(const Actor *actor, const bfm_evaluation *plan, double *returns, double *bias);

// bfm_agent_evaluate, and the bias as above, or NULL
int evaluate_bias(bfm_agent *agent, const bfm_evaluation *plan, double *returns, double *bias);

// the returns of uniform random actions, as a baseline
int evaluate_random(const char *env, const bfm_evaluation *plan, double *returns);

// the mean and the sample standard deviation (n - 1) of `count` values; of a single value it is 0
void mean_std(const double *values, int64_t count, double *mean, double *std);

#endif
