// The options of a collection, and the names of the files beside its dataset.

#ifndef BFM_COLLECT_OPTIONS_H
#define BFM_COLLECT_OPTIONS_H

#include <stdint.h>

#include "core/options.h"
#include "explore/explorer.h"

// the values of --with: the names of the rows of crew_kinds, in their order
#define CREW_NAMES "random|rnd|mood|td3|policy|d4rl-medium|d4rl-medium-replay|d4rl-medium-expert"

enum { COLLECT_FULL, COLLECT_SMALL };  // values of `preset`

typedef struct {
  int with;  // row of crew_kinds
  int preset;
  int whole_episodes;  // rows are written when their episode ends, not before
  int64_t steps, envs, hold, seed, threads, eval_every, eval_episodes, train_steps;
  double updates, until, minutes;
  char task[OPTION_TEXT_SIZE], model[OPTION_TEXT_SIZE];
  ExplorerOptions learner;
} CollectOptions;

// the collection's own options, then those of the learners that do not follow from them
const Option *collect_options(void);

// the path of a file beside the dataset: data.h5, "log.jsonl" → data.log.jsonl
void collect_path_beside(const char *data, const char *name, char *out, size_t size);

#endif
