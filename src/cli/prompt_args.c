// The task of an agent, from the command line. Rewards are evaluated at the model's prompt states; a
// goal is a state or a list of named values; a demonstration is a dataset.

#include "cli/prompt_args.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "cli/cli.h"
#include "core/json.h"
#include "core/suggest.h"
#include "prompt/prompt.h"

enum { KEY_REWARD = 0x800, KEY_TASK, KEY_GOAL, KEY_DEMO, KEY_Z, KEY_SOFTMAX };

static const struct argp_option options[] = {
    {"reward", KEY_REWARD, "EXPRESSION", 0,
     "a reward, such as 'torso.z > 1.2'; bfm names lists what it can use", 1},
    {"task", KEY_TASK, "NAME", 0, "a built-in task; bfm tasks lists them", 1},
    {"goal", KEY_GOAL, "GOAL", 0,
     "a state to reach: named values such as 'torso.z = 1.3, speed = 0', which choose the closest "
     "prompt state, or a JSON file with the whole state (qpos and qvel, or obs)",
     1},
    {"demo", KEY_DEMO, "FILE", 0,
     "a demonstration: a dataset; z is the mean of B over all its states", 1},
    {"z", KEY_Z, "FILE", 0, "a z that bfm prompt -o has written", 1},
    {"softmax", KEY_SOFTMAX, "REAL", 0,
     "weight prompt states by softmax(reward / REAL), REAL above 0, which helps with rare rewards "
     "(default: weight them by the reward)",
     1},
    {0},
};

double prompt_args_softmax(const char *arg) {
  char *end;
  double softmax = strtod(arg, &end);
  if (*end || end == arg || !(softmax > 0) || isinf(softmax)) {
    exit(cli_fail(
        bfm_fail(BFM_BAD_ARGUMENT, "--softmax is \"%s\", but must be a number above 0", arg)));
  }
  return softmax;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  PromptArgs *args = state->input;
  switch (key) {
    case KEY_REWARD: args->reward = arg; return 0;
    case KEY_TASK: args->task = arg; return 0;
    case KEY_GOAL: args->goal = arg; return 0;
    case KEY_DEMO: args->demo = arg; return 0;
    case KEY_Z: args->z = arg; return 0;
    case KEY_SOFTMAX: args->softmax = prompt_args_softmax(arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

const struct argp prompt_args_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

void prompt_args_given(const PromptArgs *args, const char **name, const char **text) {
  const char *const names[] = {"reward", "task", "goal", "demo", "z"};
  const char *const texts[] = {args->reward, args->task, args->goal, args->demo, args->z};
  for (int i = 0; i < 5; i++) {
    if (!texts[i]) continue;
    *name = names[i];
    *text = texts[i];
    return;
  }
}

int prompt_args_check(const PromptArgs *args) {
  int given = !!args->reward + !!args->task + !!args->goal + !!args->demo + !!args->z;
  if (given == 1 && (args->softmax == 0 || args->reward || args->task)) return BFM_OK;
  if (given == 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "--softmax needs --reward or --task: --%s has no rewards",
                    args->goal   ? "goal"
                    : args->demo ? "demo"
                                 : "z");
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "give the task by one of --reward, --task, --goal, --demo and --z%s",
                  given ? ", not by several" : "");
}

// ---------------------------------- goals in files -----------------------------------------------

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

int prompt_args_check_goal(const cJSON *goal, const char *path) {
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

static int file_goal(const cJSON *json, const char *path, bfm_agent *agent, float *z) {
  float obs[4096];
  int found;
  TRY(prompt_args_check_goal(json, path));
  TRY(json_floats(json, path, "obs", bfm_agent_obs_dim(agent), obs, &found));
  if (found) return bfm_agent_prompt_states(agent, 0, 1, obs, z);

  StateSizes sizes;
  TRY(prompt_state_sizes(agent, &sizes));
  double *qpos = NULL, *qvel = NULL, *act = NULL;
  int status = json_numbers(json, path, "qpos", sizes.nq, &qpos);
  if (!status) status = json_numbers(json, path, "qvel", sizes.nv, &qvel);
  if (!status) status = json_numbers(json, path, "act", sizes.na, &act);
  if (!status && (status = bfm_agent_prompt_state(agent, 0, qpos, qvel, act, z))) {
    bfm_fail_prefix(status, "%s: ", path);
  }
  free(qpos);
  free(qvel);
  free(act);
  return status;
}

// ---------------------------------- z ------------------------------------------------------------

// describe a reward by its values at the prompt states
static void describe_rewards(const float *rewards, int64_t count, char *note, size_t size) {
  double lo = INFINITY, hi = -INFINITY, mean = 0;
  for (int64_t i = 0; i < count; i++) {
    lo = fmin(lo, rewards[i]);
    hi = fmax(hi, rewards[i]);
    mean += rewards[i] / (double)count;
  }
  snprintf(note, size,
           lo == hi ? "reward %.4g at all of the %ld prompt states: it tells the agent nothing"
                    : "mean reward %.4g at the %ld prompt states, from %.4g to %.4g",
           mean, (long)count, lo, hi);
}

static int reward_z(const PromptArgs *args, bfm_agent *agent, float *z, char *note, size_t size) {
  int64_t count = bfm_agent_prompt_count(agent);
  float *rewards = malloc((size_t)(count + 1) * sizeof *rewards);
  if (!rewards) return bfm_fail(BFM_NO_MEMORY, "no memory for %ld rewards", (long)count);
  int status = prompt_rewards(agent, args->reward ? args->reward : args->task, rewards);
  if (!status) {
    describe_rewards(rewards, count, note, size);
    status = bfm_agent_prompt_reward(agent, 0, count, agent->prompt.obs, rewards, args->softmax, z);
  }
  free(rewards);
  return status;
}

int prompt_args_z(const PromptArgs *args, bfm_agent *agent, float *z, char *note, size_t size) {
  TRY(prompt_args_check(args));
  *note = 0;
  if (args->reward || args->task) return reward_z(args, agent, z, note, size);
  if (args->demo) return bfm_agent_prompt_demo(agent, 0, args->demo, z);
  if (args->goal && strchr(args->goal, '=') && access(args->goal, F_OK)) {
    return bfm_agent_prompt_goal(agent, 0, args->goal, z, note, size);
  }
  if (args->goal && access(args->goal, F_OK)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "--goal \"%s\" is neither a file nor a list such as torso.z = 1.3, speed = 0",
                    args->goal);
  }
  if (args->z) return bfm_agent_prompt_file(agent, 0, args->z, z);
  cJSON *json;
  TRY(json_read(&json, args->goal));
  int status = file_goal(json, args->goal, agent, z);
  cJSON_Delete(json);
  return status;
}
