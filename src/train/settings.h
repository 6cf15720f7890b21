// The options of a training run: its own settings, and how they share a JSON object with the agent's.

#ifndef BFM_TRAIN_SETTINGS_H
#define BFM_TRAIN_SETTINGS_H

#include <stdint.h>

#include "core/options.h"

// all options of bfm train that are not the agent's
typedef struct {
  int64_t steps, stride, save_every, log_every;
  int64_t eval_every, eval_episodes, eval_steps, prompt_states;
  int recipe, eval_es, on_divergence;
  char eval_tasks[OPTION_TEXT_SIZE], env[OPTION_TEXT_SIZE];
} TrainSettings;

extern const Option train_options[];

// Split one JSON object of options into those of the run and those of the agent, each a JSON object
// of texts that the caller frees. NULL stands for {}. Names, values and ranges are checked
int settings_split(const char *options, char **settings, char **agent);

#endif
