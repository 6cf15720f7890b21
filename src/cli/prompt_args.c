// The task of an agent, from the command line. Rewards are evaluated at the model's prompt states; a
// goal is a state or a list of named values; a demonstration is a dataset.

#include "cli/prompt_args.h"

#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/warn.h"

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

int prompt_args_z(const PromptArgs *args, bfm_agent *agent, float *z, char *note, size_t size) {
  TRY(prompt_args_check(args));
  bfm_prompt prompt = {.size = sizeof prompt, .reward = args->reward ? args->reward : args->task,
                       .goal = args->goal, .demo = args->demo, .file = args->z,
                       .softmax = args->softmax};
  TRY(bfm_agent_prompt(agent, 0, &prompt, z, note, size));
  if (prompt.reward) warn_of_prompt(agent, prompt.reward);
  return BFM_OK;
}
