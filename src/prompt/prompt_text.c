// Prompt states: a sample of training states in the model, on which rewards and goals given as text
// are resolved. A reward is computed for all of them; a goal is the state nearest to the given
// values. From either, B computes z.

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "core/number.h"
#include "data/dataset.h"
#include "envs/bulk.h"
#include "envs/domain.h"
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
  if (count < 0 || (count && (!obs || !qpos))) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%ld prompt states need both obs and qpos", (long)count);
  }
  PromptStates old = a->prompt, taken = {.count = 0};
  snprintf(taken.env, sizeof taken.env, "%s", env);  // env may be old.env
  a->prompt = taken;
  int status = take_states(a, count, obs, qpos, qvel, act);
  taken = a->prompt;
  prompt_states_free(status ? &taken : &old);
  a->prompt = status ? old : taken;
  return status;
}

static int need_states(const bfm_agent *a) {
  if (a->prompt.count) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "the model has no prompt states: either its training data had no qpos and qvel, "
                  "or it is a training state; use the run's model.safetensors");
}

// ------------------------------- rewards ---------------------------------------------------------

// evaluates an expression at each prompt state
static int evaluate(bfm_agent *a, const World *world, const char *expression, double *out) {
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
  int status = evaluate(a, world, expression, values);
  if (!task) status = task_suggest(world, text, status);
  world_release(world);
  return status;
}

int prompt_rewards(bfm_agent *a, const char *text, float *rewards) {
  NEED("task", text);
  TRY(need_states(a));
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
  return status;
}

bfm_status bfm_agent_prompt_text(bfm_agent *a, int replica, const char *reward, double softmax,
                                 float *z) {
  NEED("agent, reward, z", a, reward, z);
  TRY(need_states(a));
  float *rewards = malloc((size_t)a->prompt.count * sizeof *rewards);
  if (!rewards)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld rewards", (long)a->prompt.count);
  int status = prompt_rewards(a, reward, rewards);
  if (!status) {
    status =
        bfm_agent_prompt_reward(a, replica, a->prompt.count, a->prompt.obs, rewards, softmax, z);
  }
  free(rewards);
  return status;
}

// ------------------------------- goals -----------------------------------------------------------

#define GOAL_TERMS 32

// one "name = value" of a goal
typedef struct {
  char name[256];
  double value;
} Term;

// the length of the text up to the next comma outside parentheses
static size_t term_length(const char *text) {
  size_t i = 0;
  for (int depth = 0; text[i] && (text[i] != ',' || depth); i++) {
    depth += (text[i] == '(') - (text[i] == ')');
  }
  return i;
}

static int parse_term(Term *term, const char *text, size_t length) {
  const char *equals = memchr(text, '=', length);
  char number[64] = "", *end = number;
  int found = 0;
  if (equals) {
    int name = (int)(equals - text);
    while (name && isspace((unsigned char)text[name - 1])) name--;
    if (name >= (int)sizeof term->name) {
      return bfm_fail(BFM_BAD_ARGUMENT,
                      "an expression in a goal may have at most %zu characters, not %d",
                      sizeof term->name - 1, name);
    }
    snprintf(term->name, sizeof term->name, "%.*s", name, text);
    snprintf(number, sizeof number, "%.*s", (int)(text + length - equals - 1), equals + 1);
    term->value = number_read(number, &end);
    found = end != number;
    while (isspace((unsigned char)*end)) end++;
  }
  if (found && !*end && isfinite(term->value)) return BFM_OK;
  return bfm_fail(
      BFM_BAD_ARGUMENT,
      "a goal is a list such as \"torso.z = 1.3, speed = 0\", but \"%.*s\" is not a name and "
      "a number",
      (int)length, text);
}

static int parse_goal(const char *text, Term *terms, int *count) {
  for (*count = 0;; text++) {
    if (*count == GOAL_TERMS) {
      return bfm_fail(BFM_BAD_ARGUMENT, "a goal may have at most %d values", GOAL_TERMS);
    }
    text += strspn(text, " \t");
    size_t length = term_length(text);
    TRY(parse_term(&terms[(*count)++], text, length));
    text += length;
    if (!*text) return BFM_OK;
  }
}

static double spread_of(const double *values, int64_t count) {
  double mean = 0, square = 0;
  for (int64_t i = 0; i < count; i++) mean += values[i] / (double)count;
  for (int64_t i = 0; i < count; i++) square += (values[i] - mean) * (values[i] - mean);
  double spread = sqrt(square / (double)count);
  return spread > DBL_MIN ? spread : 1;
}

// Finds the nearest prompt state. values [count, states] receives the terms' values in all states;
// distance [states] must be zero.
static int nearest_state(bfm_agent *a, const World *world, const Term *terms, int count,
                         double *values, double *distance, int64_t *best) {
  int64_t n = a->prompt.count;
  for (int t = 0; t < count; t++) {
    double *x = values + t * n;
    int status = evaluate(a, world, terms[t].name, x);
    if (status) return bfm_fail_prefix(status, "goal \"%s\": ", terms[t].name);
    double spread = spread_of(x, n);
    for (int64_t i = 0; i < n; i++) {
      double off = (x[i] - terms[t].value) / spread;
      distance[i] += off * off / count;
    }
  }
  for (int64_t i = 1; i < n; i++) {
    if (distance[i] < distance[*best]) *best = i;
  }
  return BFM_OK;
}

bfm_status bfm_agent_prompt_goal(bfm_agent *a, int replica, const char *goal, float *z,
                                 char *report, size_t size) {
  NEED("agent, goal, z", a, goal, z);
  Term terms[GOAL_TERMS];
  int count;
  int64_t best = 0, n = a->prompt.count;
  TRY(need_states(a));
  TRY(parse_goal(goal, terms, &count));
  double *values = calloc((size_t)(n * (count + 1)), sizeof *values);
  if (!values)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the values of %ld states", (long)n);
  double *distance = values + count * n;
  const World *world = NULL;
  int status = prompt_world(a, &world);
  if (!status) status = nearest_state(a, world, terms, count, values, distance, &best);
  world_release(world);
  if (!status && !isfinite(distance[best])) {
    status = bfm_fail(BFM_BAD_ARGUMENT, "goal \"%s\" is too far from all prompt states", goal);
  }
  if (!status && report) {
    size_t at = snprintf(report, size,
                         "prompt state %ld of %ld, %.2g standard deviations away:", (long)best,
                         (long)n, sqrt(distance[best]));
    for (int t = 0; t < count && at < size; t++) {
      at += snprintf(report + at, size - at, "%s %s %.4g (goal %.4g)", t ? "," : "", terms[t].name,
                     values[t * n + best], terms[t].value);
    }
  }
  free(values);
  TRY(status);
  return bfm_agent_prompt_states(a, replica, 1, a->prompt.obs + best * a->obs_dim, z);
}

bfm_status bfm_agent_prompt_state(bfm_agent *a, int replica, const double *qpos, const double *qvel,
                                  const double *act, float *z) {
  NEED("agent, z", a, z);
  StateSizes sizes;
  TRY(prompt_state_sizes(a, &sizes));
  bfm_env *env;
  TRY(bfm_env_new(&env, a->prompt.env, 1, 0, 1));
  double *obs = malloc((size_t)a->obs_dim * (sizeof *obs + sizeof(float)));
  int status = obs ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for an observation");
  if (!status) status = bfm_env_set_state(env, qpos, qvel, act);
  if (!status) {
    float *narrow = (float *)(obs + a->obs_dim);
    bfm_env_obs(env, obs);
    for (int64_t i = 0; i < a->obs_dim; i++) narrow[i] = (float)obs[i];
    status = bfm_agent_prompt_states(a, replica, 1, narrow, z);
  }
  free(obs);
  bfm_env_free(env);
  return status;
}

bfm_status bfm_agent_prompt_demo(bfm_agent *a, int replica, const char *path, float *z) {
  NEED("agent, path, z", a, path, z);
  Dataset data;
  TRY(dataset_read_demo(&data, path));
  int status = BFM_OK;
  if (data.obs_dim != a->obs_dim) {
    status =
        bfm_fail(BFM_BAD_ARGUMENT, "%s has observations of %ld numbers, but the model needs %ld",
                 path, (long)data.obs_dim, (long)a->obs_dim);
  } else if (*data.env && *a->prompt.env && strcmp(data.env, a->prompt.env)) {
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
