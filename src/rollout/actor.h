// The interface of everything that acts in environments, and three actors behind it: agents,
// policies of one task read from a file, and uniform random actions.

#ifndef BFM_ROLLOUT_ACTOR_H
#define BFM_ROLLOUT_ACTOR_H

#include "core/options.h"
#include "envs/domain.h"

// write actions [rows, act] for the observations [rows, obs] of one replica; z [rows, d] or NULL.
// Random draws depend on seed, step and row only
typedef int ActorAct(void *actor, int replica, int64_t rows, const float *obs, const float *z,
                     uint64_t seed, uint64_t step, float *act);

// write the rewards [rows] that the actor predicts for states
typedef int ActorPredict(void *actor, int replica, int64_t rows, const float *obs, const float *z,
                         float *rewards);

typedef struct {
  ActorAct *act;
  ActorPredict *predict;  // NULL: the actor predicts no rewards
  void *actor;            // handed to both
  const char *env;        // the domain
  int64_t obs_dim, act_dim;
  int replicas;
  int64_t d;    // columns of z, 0: the actor takes none
  int overlap;  // the actor uses a GPU: simulate on the CPU at the same time
} Actor;

typedef struct {
  bfm_agent *agent;
  int es;    // as in bfm_agent_act
  float *b;  // [rows, d]: a buffer that predict needs, else NULL
} AgentActor;

// `agent` must outlive the actor
Actor agent_actor(AgentActor *agent);

// a policy that bfm collect has trained; it acts for its own task, whatever reward is measured
typedef struct {
  const char *path;
  char env[64];
  char task[OPTION_TEXT_SIZE];  // empty: it was trained without one
  bfm_explorer *explorer;
  const World *world;
} Policy;

// read domain and task from the file; *found: whether the file holds a policy at all
int policy_find(Policy *policy, const char *path, int *found);

// read the policy itself, to act on so many rows at once; options as in bfm_explorer_load. The
// policy must outlive the actor
int policy_load(Policy *policy, int rows, const char *options, Actor *actor);

void policy_free(Policy *policy);

// actions between -1 and 1; `sizes` are those of the domain and must outlive the actor
Actor random_actor(const char *env, const bfm_env_sizes *sizes);

#endif
