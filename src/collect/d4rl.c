// D4RL's protocol. The agent trains in a collection of its own (data.train.h5, which is what D4RL
// calls medium-replay), stopped at one level after the other. A level's agent is the one whose
// return was nearest to it.

#include "collect/d4rl.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int d4rl_check(const char *env, const char *task, const char *what) {
  if (find(env, "run") == TASK_COUNT) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is for halfcheetah, hopper and walker2d, not for %s",
                    what, env);
  }
  if (!*task || !strcmp(task, "run")) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s learns run, not \"%s\": leave out --task, or use td3", what,
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

void d4rl_model_path(const char *data, int level, char *out, size_t size) {
  char name[64];
  snprintf(name, sizeof name, "%s.safetensors", d4rl_levels[level].name);
  collect_path_beside(data, name, out, size);
}

// the options of the training: those of the dataset but for what the level says
static char *training_options(const CollectOptions *options, double until) {
  CollectOptions training = *options;
  training.steps = options->train_steps;
  training.until = until;
  if (options_set(collect_options(), &training, "with", "d4rl-medium-replay")) return NULL;
  return options_to_json(collect_options(), &training);
}

static int check_level(const Collection *training, int level, double until) {
  CollectSummary s;
  collection_summary(training, &s);
  if (!d4rl_levels[level].must || (s.returns && s.returns[0] >= until)) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "after %" PRId64
                  " transitions the agent's return is %.0f, but %s begins at %.0f: "
                  "go on with a larger --train-steps",
                  s.rows, s.returns ? s.returns[0] : 0, d4rl_levels[level].name, until);
}

static int train_to(const CollectPlan *plan, const char *env, const CollectOptions *options,
                    int level) {
  char data[PATH_MAX], policy[PATH_MAX], model[PATH_MAX];
  double until = d4rl_return(env, level);
  collect_path_beside(plan->path, "train.h5", data, sizeof data);
  char *given = training_options(options, until);
  if (!given) return bfm_fail(BFM_NO_MEMORY, "no memory for the options");
  CollectPlan training = *plan;
  training.env = env;
  training.path = data;
  training.given = given;
  training.resume = !access(data, F_OK);

  Collection *collection;
  int status = collection_open(&collection, &training);
  free(given);
  TRY(status);
  status = collection_run(collection);
  if (!status) status = check_level(collection, level, until);
  collection_close(collection);
  if (status == BFM_INTERRUPTED) {
    return bfm_fail(status, "stopped while the %s agent trains; bfm collect --resume -o %s goes on",
                    d4rl_levels[level].name, plan->path);
  }
  TRY(status);
  collect_path_beside(data, "nearest.safetensors", policy, sizeof policy);
  d4rl_model_path(plan->path, level, model, sizeof model);
  // it stays the nearest to the next level until another is nearer
  if (!link(policy, model) || !rename(policy, model)) return BFM_OK;
  return bfm_fail(BFM_IO, "cannot rename %s to %s: %s", policy, model, strerror(errno));
}

// the agent of a level cannot be had again once the training went on to the next
static int check_order(const CollectPlan *plan, int level, int levels, const char *model) {
  char data[PATH_MAX], next[PATH_MAX];
  collect_path_beside(plan->path, "train.h5", data, sizeof data);
  if (level + 1 >= levels || access(data, F_OK)) return BFM_OK;
  d4rl_model_path(plan->path, level + 1, next, sizeof next);
  if (access(next, F_OK)) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "%s is missing, and the training in %s went on to %s: put it back, or remove the "
                  "other two to train anew",
                  model, data, next);
}

int d4rl_train(const CollectPlan *plan, const char *env, const CollectOptions *options,
               int levels) {
  char model[PATH_MAX];
  for (int level = 0; level < levels; level++) {
    d4rl_model_path(plan->path, level, model, sizeof model);
    if (!access(model, F_OK)) continue;
    TRY(check_order(plan, level, levels, model));
    TRY(train_to(plan, env, options, level));
  }
  return BFM_OK;
}
