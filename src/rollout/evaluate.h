// Evaluation: episodes of all tasks and replicas simulated side by side over all cores, acted on in
// one batch a replica with a z for each row. Where a GPU acts, one half is simulated while it acts
// on the other. Uses nothing but its agent: another one may train meanwhile, in another thread.

#ifndef BFM_ROLLOUT_EVALUATE_H
#define BFM_ROLLOUT_EVALUATE_H

#include "bfm.h"

// who acts: actions [rows, act] for observations [rows, obs] of one replica; z [rows, d] or NULL
typedef int EvaluateAct(void *actor, int replica, int64_t rows, const float *obs, const float *z,
                        uint64_t seed, uint64_t step, float *act);

// what it expects states to earn: rewards [rows]
typedef int EvaluatePredict(void *actor, int replica, int64_t rows, const float *obs,
                            const float *z, float *rewards);

typedef struct {
  EvaluateAct *act;
  void *actor;
  const char *env;  // the domain
  int64_t obs_dim, act_dim;
  int replicas;
  int64_t d;    // columns of z, 0: none
  int overlap;  // act and simulate at the same time

  // where it is wanted, the bias [replicas, task_count, episodes, steps]: after each step what was
  // earned so far less what was predicted
  EvaluatePredict *predict;
  double *bias;
} Actor;

// an agent as who acts
typedef struct {
  bfm_agent *agent;
  int es;    // as in bfm_agent_act
  float *b;  // [tasks, episodes, d], where rewards are predicted
} AgentActor;

Actor agent_actor(AgentActor *agent);

// returns [replicas, task_count, episodes]; plan->z must be there unless d is 0
int evaluate(const Actor *actor, const bfm_evaluation *plan, double *returns);

// bfm_agent_evaluate, with the bias of the rewards B(s, z)ᵀz that the agent predicts, or NULL
int evaluate_bias(bfm_agent *agent, const bfm_evaluation *plan, double *returns, double *bias);

// uniform random actions, to compare with
int evaluate_random(const char *env, const bfm_evaluation *plan, double *returns);

// mean and standard deviation of count values
void mean_std(const double *values, int64_t count, double *mean, double *std);

#endif
