// From words to z: rewards and goals are resolved on the prompt states that the agent carries.

#ifndef BFM_PROMPT_PROMPT_H
#define BFM_PROMPT_PROMPT_H

#include "bfm.h"
#include "envs/domain.h"

#define PROMPT_NO_ENV                                                                       \
  "does not name its domain: either its training data did not, or it is a training state; " \
  "use the run's model.safetensors"

// The world of the agent's domain, checked against the agent's dimensions. Pair with world_release.
int prompt_world(const bfm_agent *agent, const World **world);

// numbers of a state: qpos, qvel, act
typedef struct {
  int64_t nq, nv, na;
} StateSizes;

// the sizes of a state in the agent's domain, after the checks of prompt_world
int prompt_state_sizes(const bfm_agent *agent, StateSizes *sizes);

// rewards of the prompt states by a task's name or an expression
int prompt_rewards(bfm_agent *agent, const char *text, float *rewards);

#endif
