// D4RL's protocol. The agent trains in a collection of its own, data.train.h5 (D4RL's
// medium-replay), which stops at one level after the other. A level's policy is the one whose
// return was nearest to it.

#include "collect/d4rl.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/collection.h"
#include "collect/d4rl_scores.h"

// the dataset's options, except for what the level says
static char *training_options(const CollectOptions *options, double until) {
  CollectOptions training = *options;
  training.steps = options->train_steps;
  training.until = until;
  training.minutes = 0;
  if (options_set(collect_options(), &training, "with", "d4rl-medium-replay")) return NULL;
  return options_to_json(collect_options(), &training);
}

static int check_level(const Collection *training, int level, double until) {
  double found = training->evaluated ? training->returns[0] : 0;
  if (!d4rl_levels[level].required || (training->evaluated && found >= until)) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "after %" PRId64
                  " transitions the agent's return is %.0f, but %s begins at %.0f: "
                  "resume with a larger --train-steps",
                  training->rows, found, d4rl_levels[level].name, until);
}

// train in `data` until the return of the level is reached
static int run_training(const Collection *c, int level, const char *data) {
  double until = d4rl_return(c->env_name, level);
  char *given = training_options(&c->options, until);
  if (!given) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  CollectPlan plan = c->plan;
  plan.env = c->env_name;
  plan.path = data;
  plan.given = given;
  plan.resume = !access(data, F_OK);

  Collection *training;
  int status = collection_open(&training, &plan);
  free(given);
  TRY(status);
  status = collection_loop(training);
  if (!status) status = check_level(training, level, until);
  collection_close(training);
  return status;
}

static int train_level(const Collection *c, int level, const char *policy) {
  char data[PATH_MAX], nearest[PATH_MAX];
  collect_path_beside(c->plan.path, "train.h5", data, sizeof data);
  int status = run_training(c, level, data);
  if (status == BFM_INTERRUPTED) {
    return bfm_fail(status,
                    "stopped while the %s agent was training; continue with bfm collect --resume "
                    "-o %s",
                    d4rl_levels[level].name, c->plan.path);
  }
  TRY(status);
  collect_path_beside(data, "nearest.safetensors", nearest, sizeof nearest);
  // a link, as this policy may stay the nearest to the next level too
  if (!link(nearest, policy) || !rename(nearest, policy)) return BFM_OK;
  return bfm_fail(BFM_IO, "cannot rename %s to %s: %s", nearest, policy, strerror(errno));
}

// once the training went on to the next level, the policy of this one cannot be made again
static int check_order(const Collection *c, int level, const char *policy) {
  char data[PATH_MAX], next[PATH_MAX];
  collect_path_beside(c->plan.path, "train.h5", data, sizeof data);
  if (level + 1 >= c->crew.kind->levels || access(data, F_OK)) return BFM_OK;
  d4rl_policy_path(c->plan.path, level + 1, next, sizeof next);
  if (access(next, F_OK)) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "%s is missing, but the training in %s went on to %s: put it back, or remove "
                  "the other two to train again",
                  policy, data, next);
}

int d4rl_run(Collection *c) {
  char policy[PATH_MAX];
  int levels = c->rows < c->options.steps ? c->crew.kind->levels : 0;
  for (int level = 0; level < levels; level++) {
    d4rl_policy_path(c->plan.path, level, policy, sizeof policy);
    if (!access(policy, F_OK)) continue;
    TRY(check_order(c, level, policy));
    TRY(train_level(c, level, policy));
  }
  return collection_loop(c);
}
