// From words to z: rewards and goals are resolved on the prompt states that the agent carries.

#ifndef BFM_PROMPT_PROMPT_H
#define BFM_PROMPT_PROMPT_H

#include <cjson/cJSON.h>

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

int prompt_need_states(const bfm_agent *agent);  // BFM_BAD_ARGUMENT if there are no prompt states

// the values of an expression at the prompt states
int prompt_values(bfm_agent *agent, const World *world, const char *expression, double *values);

// The rewards of the prompt states by a task's name or an expression. A reward that is the same in
// all of them is refused: it says nothing.
int prompt_rewards(bfm_agent *agent, const char *text, float *rewards);

// bfm_agent_prompt_text with a report, which may be NULL
int prompt_reward_z(bfm_agent *agent, int replica, const char *reward, double softmax, float *z,
                    char *report, size_t size);

// The prompt state nearest to named values, and bfm_agent_prompt_goal's report, unless it is NULL. After
// an error, reward_error_place says where it is in the goal.
int prompt_goal_state(bfm_agent *agent, const char *goal, int64_t *state, char *report,
                      size_t size);

// The file of a prompt, as bfm_agent_prompt_file reads it. name and text are how it was given: "reward",
// "torso.z > 1.2". fingerprint NULL: z may be another model's. The result may lack parts, or be NULL,
// when memory ran out.
cJSON *prompt_file_json(const char *model, const char *fingerprint, const char *env,
                        const char *name, const char *text, const float *z, int64_t d);

// z of a goal in a JSON file
int prompt_file_goal(bfm_agent *agent, int replica, const char *path, float *z);

// Check that the JSON of a goal has the arrays of a state, or an observation, and finite numbers in
// them. Lengths are not checked; `path` is for the error message.
int prompt_check_goal(const cJSON *goal, const char *path);

#endif
