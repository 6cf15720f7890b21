// Agents, policies and random actions as actors. An agent predicts the reward B(s, z)ᵀz, with z as
// it was prompted: the norm of z carries the scale of the reward. A policy's file is opened before
// its parameters are read, because the number of rows depends on the tasks to measure, by default
// the policy's own.

#include "rollout/actor.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "nets/checkpoint.h"

// ---------------------------------- agents -------------------------------------------------------

static int agent_act(void *context, int replica, int64_t rows, const float *obs, const float *z,
                     uint64_t seed, uint64_t step, float *act) {
  const AgentActor *a = context;
  return bfm_agent_act(a->agent, replica, rows, obs, z, a->es, seed, step, act);
}

static int agent_predict(void *context, int replica, int64_t rows, const float *obs, const float *z,
                         float *rewards) {
  const AgentActor *a = context;
  int64_t d = a->agent->d;
  TRY(bfm_agent_B(a->agent, replica, rows, obs, z, a->b));
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t k = i * d; k < (i + 1) * d; k++) sum += (double)a->b[k] * z[k];
    rewards[i] = (float)sum;
  }
  return BFM_OK;
}

Actor agent_actor(AgentActor *a) {
  return (Actor){.act = agent_act, .predict = agent_predict, .actor = a,
                 .env = bfm_agent_env(a->agent), .obs_dim = a->agent->obs_dim,
                 .act_dim = a->agent->act_dim, .replicas = a->agent->R, .d = a->agent->d,
                 .overlap = !agent_on_cpu(a->agent)};
}

// ---------------------------------- policies -----------------------------------------------------

int policy_find(Policy *p, const char *path, int *found) {
  *p = (Policy){.path = path};
  SafeTensors *file;
  TRY(checkpoint_open(&file, path));
  const char *kind = safetensors_metadata(file, "bfm"), *env = safetensors_metadata(file, "env");
  const char *task = safetensors_metadata(file, "task");
  *found = kind && !strcmp(kind, "policy");
  if (env) snprintf(p->env, sizeof p->env, "%s", env);
  if (task) snprintf(p->task, sizeof p->task, "%s", task);
  safetensors_close(file);
  return BFM_OK;
}

static int policy_act(void *context, int replica, int64_t rows, const float *obs, const float *z,
                      uint64_t seed, uint64_t step, float *act) {
  (void)replica, (void)rows, (void)z, (void)seed;
  return bfm_explorer_act(context, obs, 0, step, act);
}

int policy_load(Policy *p, int rows, const char *options, Actor *actor) {
  const Domain *domain;
  if (!*p->env) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s does not say which domain its policy is for", p->path);
  }
  TRY(domain_find(&domain, p->env));
  TRY(world_acquire(&p->world, domain));
  TRY(bfm_explorer_load(&p->explorer, p->path, rows, options));
  bfm_explorer_sizes sizes = {.size = sizeof sizes};
  bfm_explorer_get_sizes(p->explorer, &sizes);
  if (sizes.obs_dim != domain->obs_dim || sizes.act_dim != p->world->model->nu) {
    return bfm_fail(BFM_BAD_FILE,
                    "%s holds a policy with %ld observations and %ld actions, but %s has %d and %d",
                    p->path, (long)sizes.obs_dim, (long)sizes.act_dim, p->env, domain->obs_dim,
                    (int)p->world->model->nu);
  }
  *actor = (Actor){.act = policy_act, .actor = p->explorer, .env = p->env, .obs_dim = sizes.obs_dim,
                   .act_dim = sizes.act_dim, .replicas = 1};
  return BFM_OK;
}

void policy_free(Policy *p) {
  bfm_explorer_free(p->explorer);
  world_release(p->world);
  *p = (Policy){.path = NULL};
}

// ---------------------------------- random actions -----------------------------------------------

static int random_act(void *context, int replica, int64_t rows, const float *obs, const float *z,
                      uint64_t seed, uint64_t step, float *act) {
  const bfm_env_sizes *sizes = context;
  (void)replica, (void)obs, (void)z;
  for (int64_t i = 0; i < rows * sizes->act_dim; i++) {
    act[i] = 2 * random_uniform(seed, STREAM_EXPLORE, step, i) - 1;
  }
  return BFM_OK;
}

Actor random_actor(const char *env, const bfm_env_sizes *sizes) {
  return (Actor){.act = random_act, .actor = (void *)sizes, .env = env, .obs_dim = sizes->obs_dim,
                 .act_dim = sizes->act_dim, .replicas = 1};
}
