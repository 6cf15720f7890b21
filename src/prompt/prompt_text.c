// Prompt states: a sample of training states in the model, on which rewards given as text are
// computed. From the rewards, B computes z.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "core/number.h"
#include "envs/bulk.h"
#include "envs/robot_bundle.h"
#include "envs/domain.h"
#include "envs/symmetry.h"
#include "envs/tasks.h"
#include "prompt/prompt.h"

// ------------------------------- the states ------------------------------------------------------

static int check_dimension(const bfm_agent *a, const char *what, int64_t have, int64_t want) {
  if (have == want) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "the model is not for %s: its %s has %ld numbers, not %ld",
                  a->prompt.env, what, (long)have, (long)want);
}

static int check_dimensions(const bfm_agent *a, const World *world) {
  const PromptStates *p = &a->prompt;
  const mjModel *model = world->model;
  TRY(check_dimension(a, "observation", a->obs_dim, world->domain->obs_dim));
  TRY(check_dimension(a, "action", a->act_dim, model->nu));
  if (!p->count) return BFM_OK;
  TRY(check_dimension(a, "qpos", p->nq, model->nq));
  TRY(check_dimension(a, "qvel", p->nv, model->nv));
  return check_dimension(a, "act", p->na, model->na);
}

int prompt_world(const bfm_agent *a, const World **world) {
  const Domain *domain;
  if (!*a->prompt.env) return bfm_fail(BFM_BAD_ARGUMENT, "the model " PROMPT_NO_ENV);
  TRY(domain_find(&domain, a->prompt.env));
  TRY(world_acquire(world, domain));
  int status = check_dimensions(a, *world);
  if (status) world_release(*world);
  return status;
}

int prompt_state_sizes(const bfm_agent *a, StateSizes *sizes) {
  const World *world;
  TRY(prompt_world(a, &world));
  *sizes = (StateSizes){world->model->nq, world->model->nv, world->model->na};
  world_release(world);
  return BFM_OK;
}

// a copy of `count` values; zeros if values is NULL
static int copy_values(double **out, const double *values, int64_t count) {
  *out = calloc(count + 1, sizeof **out);
  if (!*out) return bfm_fail(BFM_NO_MEMORY, "out of memory for the prompt states");
  for (int64_t i = 0; values && i < count; i++) {
    if (!isfinite(values[i])) return bfm_fail(BFM_BAD_ARGUMENT, "a prompt state is not finite");
    (*out)[i] = values[i];
  }
  return BFM_OK;
}

static int take_states(bfm_agent *a, int64_t count, const float *obs, const double *qpos,
                       const double *qvel, const double *act) {
  PromptStates *p = &a->prompt;
  StateSizes sizes;
  TRY(prompt_state_sizes(a, &sizes));
  p->nq = sizes.nq;
  p->nv = sizes.nv;
  p->na = sizes.na;
  if (!count) return BFM_OK;
  TRY(check_finite(obs, count, a->obs_dim, "obs"));
  TRY(copy_values(&p->qpos, qpos, count * p->nq));
  TRY(copy_values(&p->qvel, qvel, count * p->nv));
  TRY(copy_values(&p->act, act, count * p->na));
  size_t bytes = (size_t)(count * a->obs_dim) * sizeof *obs;
  p->obs = malloc(bytes);
  if (!p->obs) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld prompt states", (long)count);
  memcpy(p->obs, obs, bytes);
  p->count = count;
  return BFM_OK;
}

bfm_status bfm_agent_set_prompt(bfm_agent *a, const char *env, int64_t count, const float *obs,
                                const double *qpos, const double *qvel, const double *act) {
  NEED("agent, env", a, env);
  EXCLUSIVE(a);
  if (count < 0 || (count && (!obs || !qpos))) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%ld prompt states need both obs and qpos", (long)count);
  }
  PromptStates old = a->prompt, taken = {.count = 0};
  const Domain *domain;
  if (robot_is_path(env)) {
    TRY(domain_find(&domain, env));
    env = domain->name;
  }
  snprintf(taken.env, sizeof taken.env, "%s", env);  // env may be old.env
  a->prompt = taken;
  int status = take_states(a, count, obs, qpos, qvel, act);
  taken = a->prompt;
  prompt_states_free(status ? &taken : &old);
  a->prompt = status ? old : taken;
  if (!status) signals_free(&a->signals);
  return status;
}

int prompt_need_states(const bfm_agent *a) {
  if (a->prompt.count) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "the model has no prompt states: either its training data had no qpos and qvel, "
                  "or it is a training state; use the run's model.safetensors");
}

// ------------------------------- rewards ---------------------------------------------------------

// evaluates an expression at each prompt state
int prompt_values(bfm_agent *a, const World *world, const char *expression, double *out) {
  Threads *threads;
  const PromptStates *p = &a->prompt;
  TRY(threads_new(&threads, (int)a->config.threads));
  int status = rewards_bulk(world->model, world->domain->aliases, expression, p->count, p->qpos,
                            p->qvel, p->act, threads, out);
  threads_free(threads);
  return status;
}

static int reward_values(bfm_agent *a, const char *text, double *values) {
  const World *world;
  const Task *task = task_find(a->prompt.env, text);
  // Gym's run is a reward of steps, which measures the distance covered: use the speed instead
  const char *expression = !task ? text : task->expression ? task->expression : "speed";
  TRY(prompt_world(a, &world));
  int status = prompt_values(a, world, expression, values);
  if (!task) status = task_suggest(world, text, status);
  world_release(world);
  return status;
}

// The agent could only be told what a state is worth beside the others.
static int check_informative(const float *rewards, int64_t count) {
  int64_t i = 1;
  while (i < count && rewards[i] == rewards[0]) i++;
  if (i < count || count == 1) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "the reward is %g in all %ld prompt states: it tells the agent nothing",
                  rewards[0], (long)count);
}

int prompt_rewards(bfm_agent *a, const char *text, float *rewards) {
  NEED("task", text);
  TRY(prompt_need_states(a));
  double *values = malloc((size_t)a->prompt.count * sizeof *values);
  if (!values)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld rewards", (long)a->prompt.count);
  int status = reward_values(a, text, values);
  for (int64_t i = 0; i < a->prompt.count && !status; i++) {
    rewards[i] = (float)values[i];
    if (isinf(rewards[i])) {
      status = bfm_fail(BFM_BAD_ARGUMENT,
                        "the reward of prompt state %ld is %g, which overflows float32", (long)i,
                        values[i]);
    }
  }
  free(values);
  return status ? status : check_informative(rewards, a->prompt.count);
}

// describe rewards by their values at the prompt states
static void describe(const float *rewards, int64_t count, char *report, size_t size) {
  double lo = INFINITY, hi = -INFINITY, mean = 0;
  for (int64_t i = 0; i < count; i++) {
    lo = fmin(lo, rewards[i]);
    hi = fmax(hi, rewards[i]);
    mean += rewards[i] / (double)count;
  }
  snprintf(report, size, "mean reward %.4g at the %ld prompt states, from %.4g to %.4g", mean,
           (long)count, lo, hi);
}

int prompt_reward_z(bfm_agent *a, int replica, const char *reward, double softmax, float *z,
                    char *report, size_t size) {
  int64_t count = a->prompt.count;
  TRY(prompt_need_states(a));
  float *rewards = malloc((size_t)count * sizeof *rewards);
  if (!rewards) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld rewards", (long)count);
  int status = prompt_rewards(a, reward, rewards);
  if (!status && report) describe(rewards, count, report, size);
  if (!status) {
    status = bfm_agent_prompt_reward(a, replica, count, a->prompt.obs, rewards, softmax, z);
  }
  free(rewards);
  return status;
}

bfm_status bfm_agent_prompt_text(bfm_agent *a, int replica, const char *reward, double softmax,
                                 float *z) {
  NEED("agent, reward, z", a, reward, z);
  SHARED(a);
  return prompt_reward_z(a, replica, reward, softmax, z, NULL, 0);
}

// ------------------------------- what the agent cannot know --------------------------------------

static int warn(bfm_agent *a, const char *reward, char *warning, size_t size) {
  const PromptStates *p = &a->prompt;
  TRY(prompt_need_states(a));
  float *rewards = malloc((size_t)p->count * sizeof *rewards);
  if (!rewards) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld rewards", (long)p->count);
  SymmetryStates states = {.count = p->count, .qpos = p->qpos, .qvel = p->qvel, .act = p->act,
                           .rewards = rewards};
  int status = prompt_rewards(a, reward, rewards);
  if (!status) status = symmetry_warning(p->env, reward, &states, warning, size);
  free(rewards);
  return status;
}

bfm_status bfm_agent_prompt_warning(bfm_agent *a, const char *reward, char *warning, size_t size) {
  NEED("agent, reward, warning", a, reward, warning);
  if (size) *warning = 0;
  SHARED(a);
  return task_find(a->prompt.env, reward) ? BFM_OK : warn(a, reward, warning, size);
}
