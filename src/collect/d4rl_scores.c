// D4RL's reference returns, as its repository lists them, and the levels of its datasets.

#include "collect/d4rl_scores.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collect/options.h"

static const struct {
  const char *env, *task;
  double random, expert;  // returns
} tasks[] = {
    {"halfcheetah", "run", -280.178953, 12135.0},
    {"hopper", "run", -20.272305, 3234.3},
    {"walker2d", "run", 1.629008, 4592.3},
    {"kitchen", "partial", 0, 4},
    {"kitchen", "mixed", 0, 4},
};
#define TASK_COUNT (sizeof tasks / sizeof *tasks)

static size_t find(const char *env, const char *task) {
  size_t i = 0;
  while (i < TASK_COUNT && (strcmp(tasks[i].env, env) || strcmp(tasks[i].task, task))) i++;
  return i;
}

const D4rlLevel d4rl_levels[] = {{"medium", 100.0 / 3, 1}, {"expert", 100, 0}};

int d4rl_check(const char *env, const char *task, const char *who) {
  if (find(env, "run") == TASK_COUNT) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is for halfcheetah, hopper and walker2d, not for %s", who,
                    env);
  }
  if (!*task || !strcmp(task, "run")) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "%s learns the task run, not \"%s\": leave out --task, or use --with td3", who,
                  task);
}

double d4rl_score(const char *env, const char *task, double value) {
  size_t i = find(env, task);
  if (i == TASK_COUNT) return NAN;
  return 100 * (value - tasks[i].random) / (tasks[i].expert - tasks[i].random);
}

double d4rl_return(const char *env, int level) {
  size_t i = find(env, "run");
  if (i == TASK_COUNT) return NAN;
  double share = d4rl_levels[level].score / 100;
  return tasks[i].random + share * (tasks[i].expert - tasks[i].random);
}

void d4rl_policy_path(const char *data, int level, char *out, size_t size) {
  char name[64];
  snprintf(name, sizeof name, "%s.safetensors", d4rl_levels[level].name);
  collect_path_beside(data, name, out, size);
}
