// What an agent is asked to do. Rewards and tasks are asked of the model's prompt states, a goal is
// a state or named values, a demonstration a dataset's file.

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
    {"reward", KEY_REWARD, "EXPRESSION", 0, "a reward, such as 'torso.z > 1.2'; see bfm names", 1},
    {"task", KEY_TASK, "NAME", 0, "a reward that has a name; see bfm tasks", 1},
    {"goal", KEY_GOAL, "GOAL", 0,
     "named values, 'torso.z = 1.3, speed = 0', for the nearest prompt state, or a JSON file with "
     "a whole state: qpos and qvel, or obs",
     1},
    {"demo", KEY_DEMO, "FILE", 0, "a demonstration: a dataset, all of whose states are shown", 1},
    {"z", KEY_Z, "FILE", 0, "a prompt that bfm prompt -o has written", 1},
    {"softmax", KEY_SOFTMAX, "REAL", 0,
     "weigh states by softmax(reward / REAL), which finds the highest rewards", 1},
    {0},
};

double prompt_args_softmax(const char *arg) {
  char *end;
  double softmax = strtod(arg, &end);
  if (*end || end == arg || !(softmax > 0) || isinf(softmax)) {
    exit(cli_fail(
        bfm_fail(BFM_BAD_ARGUMENT, "softmax is \"%s\", but must be a number above 0", arg)));
  }
  return softmax;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  PromptArgs *ask = state->input;
  switch (key) {
    case KEY_REWARD: ask->reward = arg; return 0;
    case KEY_TASK: ask->task = arg; return 0;
    case KEY_GOAL: ask->goal = arg; return 0;
    case KEY_DEMO: ask->demo = arg; return 0;
    case KEY_Z: ask->z = arg; return 0;
    case KEY_SOFTMAX: ask->softmax = prompt_args_softmax(arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

const struct argp prompt_args_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

void prompt_args_given(const PromptArgs *ask, const char **name, const char **text) {
  const char *const names[] = {"reward", "task", "goal", "demo", "z"};
  const char *const texts[] = {ask->reward, ask->task, ask->goal, ask->demo, ask->z};
  for (int i = 0; i < 5; i++) {
    if (!texts[i]) continue;
    *name = names[i];
    *text = texts[i];
    return;
  }
}

int prompt_args_check(const PromptArgs *ask) {
  int given = !!ask->reward + !!ask->task + !!ask->goal + !!ask->demo + !!ask->z;
  if (given == 1 && (ask->softmax == 0 || ask->reward || ask->task)) return BFM_OK;
  if (given == 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "--softmax weighs rewards, of which --%s has none",
                    ask->goal   ? "goal"
                    : ask->demo ? "demo"
                                : "z");
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "say what to do by one of --reward, --task, --goal, --demo, --z%s",
                  given ? ", not by several" : "");
}

// ---------------------------------- goals in files -----------------------------------------------

// a word that means nothing here was meant to mean something
static int check_word(const char *word, const char *path) {
  static const char *const words[] = {"obs", "qpos", "qvel", "act"};
  Suggestion nearest = {.word = word};
  for (int i = 0; i < 4; i++) {
    if (!strcmp(words[i], word)) return BFM_OK;
    suggest_try(&nearest, words[i]);
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "%s: a goal has qpos, qvel and act, or obs, not \"%.64s\"%s",
                  path, word, suggest_say(&nearest, ""));
}

int prompt_args_check_goal(const cJSON *goal, const char *path) {
  const cJSON *array, *item;
  cJSON_ArrayForEach(array, goal) {
    TRY(check_word(array->string, path));
    int numbers = cJSON_IsArray(array);
    cJSON_ArrayForEach(item, array) numbers &= cJSON_IsNumber(item) && isfinite(item->valuedouble);
    if (numbers) continue;
    return bfm_fail(BFM_BAD_ARGUMENT, "%s: \"%s\" must be finite numbers", path, array->string);
  }
  int obs = cJSON_HasObjectItem(goal, "obs");
  if (obs && cJSON_GetArraySize(goal) > 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s has \"obs\" and more: one says all of a goal", path);
  }
  if (obs || cJSON_HasObjectItem(goal, "qpos")) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s has no \"qpos\" and no \"obs\"", path);
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

// what the prompt states say of a reward
static void say_rewards(const float *rewards, int64_t count, char *said, size_t size) {
  double lo = INFINITY, hi = -INFINITY, mean = 0;
  for (int64_t i = 0; i < count; i++) {
    lo = fmin(lo, rewards[i]);
    hi = fmax(hi, rewards[i]);
    mean += rewards[i] / (double)count;
  }
  snprintf(said, size,
           lo == hi ? "%.4g at all of the %ld prompt states: it tells the agent nothing"
                    : "mean %.4g of the %ld prompt states, from %.4g to %.4g",
           mean, (long)count, lo, hi);
}

static int reward_z(const PromptArgs *ask, bfm_agent *agent, float *z, char *said, size_t size) {
  int64_t count = bfm_agent_prompt_count(agent);
  float *rewards = malloc((size_t)(count + 1) * sizeof *rewards);
  if (!rewards) return bfm_fail(BFM_NO_MEMORY, "no memory for %ld rewards", (long)count);
  int status = prompt_rewards(agent, ask->reward ? ask->reward : ask->task, rewards);
  if (!status) {
    say_rewards(rewards, count, said, size);
    status = bfm_agent_prompt_reward(agent, 0, count, agent->prompt.obs, rewards, ask->softmax, z);
  }
  free(rewards);
  return status;
}

int prompt_args_z(const PromptArgs *ask, bfm_agent *agent, float *z, char *said, size_t size) {
  TRY(prompt_args_check(ask));
  *said = 0;
  if (ask->reward || ask->task) return reward_z(ask, agent, z, said, size);
  if (ask->demo) return bfm_agent_prompt_demo(agent, 0, ask->demo, z);
  if (ask->goal && strchr(ask->goal, '=') && access(ask->goal, F_OK)) {
    return bfm_agent_prompt_goal(agent, 0, ask->goal, z, said, size);
  }
  if (ask->goal && access(ask->goal, F_OK)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "goal \"%s\" is neither a file nor a list such as torso.z = 1.3, speed = 0",
                    ask->goal);
  }
  if (ask->z) return bfm_agent_prompt_file(agent, 0, ask->z, z);
  cJSON *json;
  TRY(json_read(&json, ask->goal));
  int status = file_goal(json, ask->goal, agent, z);
  cJSON_Delete(json);
  return status;
}
