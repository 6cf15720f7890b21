// The options of a training run: its own settings, and how they share a JSON object with the agent's.

#ifndef BFM_TRAIN_SETTINGS_H
#define BFM_TRAIN_SETTINGS_H

#include <stdint.h>

#include "core/options.h"

// all options of bfm train that are not the agent's
typedef struct {
  int64_t steps, stride, save_every, log_every;
  int64_t eval_every, eval_episodes, eval_steps, prompt_states;
  double minutes;
  int recipe, eval_es, on_divergence, reward_scale;
  char eval_tasks[OPTION_TEXT_SIZE], env[OPTION_TEXT_SIZE], task[OPTION_TEXT_SIZE];
} TrainSettings;

extern const Option train_options[];

enum { REWARDS_AUTO, REWARDS_OFF, REWARDS_RETURNS };  // values of reward-scale

// The options of what is trained: the agent's, whose algo may also be one of the offline learners; and
// those that only offline learners have.
const Option *settings_agent_options(void);
const Option *settings_offline_options(void);

// the algorithm in an agent's options (JSON), as a value of ExplorerAlgo if it is an offline learner's,
// else -1
int settings_offline_algo(const char *agent_options);

// fail if an algorithm would ignore one of the run's or the agent's options (JSON)
int settings_check(const char *settings, const char *agent_options, int offline_algo);

// Split one JSON object of options into those of the run and those of the agent, each a JSON object
// of texts that the caller frees. NULL stands for {}. Names, values and ranges are checked
int settings_split(const char *options, char **settings, char **agent);

#endif
