// One path from what a person gives, a reward, a goal, a demonstration or a file of z, to z.

#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "core/sized.h"
#include "data/dataset.h"
#include "prompt/prompt.h"

bfm_status bfm_agent_prompt_demo(bfm_agent *a, int replica, const char *path, float *z) {
  NEED("agent, path, z", a, path, z);
  SHARED(a);
  Dataset data;
  TRY(dataset_read_demo(&data, path));
  int status = domain_check_obs(a->prompt.env, data.obs_dim, path);
  if (!status && data.obs_dim != a->obs_dim) {
    status =
        bfm_fail(BFM_BAD_ARGUMENT, "%s has observations of %ld numbers, but the model needs %ld",
                 path, (long)data.obs_dim, (long)a->obs_dim);
  } else if (!status && *data.env && *a->prompt.env && strcmp(data.env, a->prompt.env)) {
    status = bfm_fail(BFM_BAD_ARGUMENT, "%s is data of %s, but the model is for %s", path, data.env,
                      a->prompt.env);
  }
  const Domain *domain;
  if (!status && !domain_find(&domain, a->prompt.env) && domain->goal_dim) {
    status = dataset_clear(&data, domain->obs_dim - domain->goal_dim);
  }
  if (!status) status = bfm_agent_prompt_states(a, replica, data.count, data.obs, z);
  dataset_free(&data);
  return status;
}

// named values, unless there is a file of that name
static int goal_z(bfm_agent *a, int replica, const char *goal, float *z, char *report,
                  size_t size) {
  if (!access(goal, F_OK)) return prompt_file_goal(a, replica, goal, z);
  if (strchr(goal, '=')) return bfm_agent_prompt_goal(a, replica, goal, z, report, size);
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "goal \"%s\" is neither a file nor a list such as torso.z = 1.3, speed = 0",
                  goal);
}

bfm_status bfm_agent_prompt(bfm_agent *a, int replica, const bfm_prompt *given, float *z,
                            char *report, size_t size) {
  NEED("agent, prompt, z", a, given, z);
  bfm_prompt p = {0};
  TRY(sized_read(&p, sizeof p, given, 0, "bfm_prompt"));
  if (report && size) *report = 0;
  if (!!p.reward + !!p.goal + !!p.demo + !!p.file != 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a prompt has one of reward, goal, demo and file");
  }
  if (p.softmax != 0 && !p.reward) {
    return bfm_fail(BFM_BAD_ARGUMENT, "softmax is %g, but only a reward can be weighed by it",
                    p.softmax);
  }
  SHARED(a);
  if (p.reward) return prompt_reward_z(a, replica, p.reward, p.softmax, z, report, size);
  if (p.goal) return goal_z(a, replica, p.goal, z, report, size);
  if (p.demo) return bfm_agent_prompt_demo(a, replica, p.demo, z);
  return bfm_agent_prompt_file(a, replica, p.file, z);
}
