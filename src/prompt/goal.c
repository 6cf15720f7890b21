// Goals: named values, which select the nearest prompt state; a state of the simulator; or a JSON
// file with a state or an observation.

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "core/json.h"
#include "core/number.h"
#include "core/suggest.h"
#include "prompt/prompt.h"

// ------------------------------- named values ----------------------------------------------------

#define GOAL_TERMS 32

// one "name = value" of a goal
typedef struct {
  char name[256];
  double value;
  int at;  // offset in the goal
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

static int parse_goal(const char *goal, Term *terms, int *count) {
  const char *text = goal;
  reward_error_set((RewardPlace){.at = -1});
  for (*count = 0;; text++) {
    if (*count == GOAL_TERMS) {
      return bfm_fail(BFM_BAD_ARGUMENT, "a goal may have at most %d values", GOAL_TERMS);
    }
    text += strspn(text, " \t");
    size_t length = term_length(text);
    Term *term = &terms[(*count)++];
    term->at = (int)(text - goal);
    int status = parse_term(term, text, length);
    if (status) reward_error_set((RewardPlace){.at = term->at, .length = (int)length});
    TRY(status);
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
    int status = prompt_values(a, world, terms[t].name, x);
    if (status) {
      RewardPlace place = reward_error_place();
      if (place.at >= 0) place.at += terms[t].at;
      reward_error_set(place);
      return bfm_fail_prefix(status, "goal \"%s\": ", terms[t].name);
    }
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

static void describe(const bfm_agent *a, const Term *terms, int count, const double *values,
                     double distance, int64_t best, char *report, size_t size) {
  int64_t n = a->prompt.count;
  size_t at =
      snprintf(report, size, "prompt state %ld of %ld, %.2g standard deviations away:", (long)best,
               (long)n, sqrt(distance));
  for (int t = 0; t < count && at < size; t++) {
    at += snprintf(report + at, size - at, "%s %s %.4g (goal %.4g)", t ? "," : "", terms[t].name,
                   values[t * n + best], terms[t].value);
  }
}

int prompt_goal_state(bfm_agent *a, const char *goal, int64_t *state, char *report, size_t size) {
  Term terms[GOAL_TERMS];
  int count;
  int64_t n = a->prompt.count;
  *state = 0;
  TRY(prompt_need_states(a));
  TRY(parse_goal(goal, terms, &count));
  double *values = calloc((size_t)(n * (count + 1)), sizeof *values);
  if (!values)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the values of %ld states", (long)n);
  double *distance = values + count * n;
  const World *world = NULL;
  int status = prompt_world(a, &world);
  if (!status) status = nearest_state(a, world, terms, count, values, distance, state);
  world_release(world);
  if (!status && !isfinite(distance[*state])) {
    status = bfm_fail(BFM_BAD_ARGUMENT, "goal \"%s\" is too far from all prompt states", goal);
  }
  if (!status && report) {
    describe(a, terms, count, values, distance[*state], *state, report, size);
  }
  free(values);
  return status;
}

bfm_status bfm_agent_prompt_goal(bfm_agent *a, int replica, const char *goal, float *z,
                                 char *report, size_t size) {
  NEED("agent, goal, z", a, goal, z);
  SHARED(a);
  int64_t state;
  TRY(prompt_goal_state(a, goal, &state, report, size));
  return bfm_agent_prompt_states(a, replica, 1, a->prompt.obs + state * a->obs_dim, z);
}

// ------------------------------- states ----------------------------------------------------------

bfm_status bfm_agent_prompt_state(bfm_agent *a, int replica, const double *qpos, const double *qvel,
                                  const double *act, float *z) {
  NEED("agent, z", a, z);
  SHARED(a);
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

// ------------------------------- files -----------------------------------------------------------

// reject a key that is not part of a goal, which may be a typing error
static int check_key(const char *key, const char *path) {
  static const char *const keys[] = {"obs", "qpos", "qvel", "act"};
  Suggestion suggestion = {.word = key};
  for (int i = 0; i < 4; i++) {
    if (!strcmp(keys[i], key)) return BFM_OK;
    suggest_try(&suggestion, keys[i]);
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "%s: a goal has qpos, qvel and act, or obs, not \"%.64s\"%s",
                  path, key, suggest_say(&suggestion, ""));
}

int prompt_check_goal(const cJSON *goal, const char *path) {
  const cJSON *array, *item;
  cJSON_ArrayForEach(array, goal) {
    TRY(check_key(array->string, path));
    int numbers = cJSON_IsArray(array);
    cJSON_ArrayForEach(item, array) numbers &= cJSON_IsNumber(item) && isfinite(item->valuedouble);
    if (numbers) continue;
    return bfm_fail(BFM_BAD_ARGUMENT, "%s: \"%s\" must be an array of finite numbers", path,
                    array->string);
  }
  int obs = cJSON_HasObjectItem(goal, "obs");
  if (obs && cJSON_GetArraySize(goal) > 1) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s has \"obs\" and more: give either \"obs\" alone, or \"qpos\" and \"qvel\"",
                    path);
  }
  if (obs || cJSON_HasObjectItem(goal, "qpos")) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s has no \"qpos\" and no \"obs\": a goal needs one of them",
                  path);
}

static int json_goal(bfm_agent *a, int replica, const cJSON *json, const char *path, float *z) {
  float obs[OBS_MOST];
  int found;
  TRY(prompt_check_goal(json, path));
  const cJSON *given = cJSON_GetObjectItemCaseSensitive(json, "obs");
  if (given) TRY(domain_check_obs(a->prompt.env, cJSON_GetArraySize(given), path));
  TRY(json_floats(json, path, "obs", a->obs_dim, obs, &found));
  if (found) return bfm_agent_prompt_states(a, replica, 1, obs, z);

  StateSizes sizes;
  TRY(prompt_state_sizes(a, &sizes));
  double *qpos = NULL, *qvel = NULL, *act = NULL;
  int status = json_numbers(json, path, "qpos", sizes.nq, &qpos);
  if (!status) status = json_numbers(json, path, "qvel", sizes.nv, &qvel);
  if (!status) status = json_numbers(json, path, "act", sizes.na, &act);
  if (!status && (status = bfm_agent_prompt_state(a, replica, qpos, qvel, act, z))) {
    bfm_fail_prefix(status, "%s: ", path);
  }
  free(qpos);
  free(qvel);
  free(act);
  return status;
}

int prompt_file_goal(bfm_agent *a, int replica, const char *path, float *z) {
  cJSON *json;
  TRY(json_read(&json, path));
  int status = json_goal(a, replica, json, path, z);
  cJSON_Delete(json);
  return status;
}
