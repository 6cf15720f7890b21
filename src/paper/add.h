// Entering runs of bfm train in the ledger, from the logs in their folders.

#ifndef BFM_PAPER_ADD_H
#define BFM_PAPER_ADD_H

#include "paper/paper.h"

// what a folder may not say about its run
typedef struct {
  char domain[OPTION_TEXT_SIZE], kind[OPTION_TEXT_SIZE], recipe[OPTION_TEXT_SIZE];
  char commit[OPTION_TEXT_SIZE];
} PaperAddSettings;

extern const Option paper_add_options[];

typedef struct {
  const char *const *folders;
  int count;
  const PaperAddSettings *settings;
  int64_t steps,
      eval_steps;       // evaluated step, 0: the last one; length of episodes, if it is not known
  const char *results;  // folder of the ledger
  const char *options;  // of the agent, a JSON object of texts: those that a folder does not say
  void (*report)(void *context, const char *line);  // called with a line about each folder
  void *context;
} PaperAddPlan;

// Add the evaluation of each folder's run to the ledger, one line per seed and es, unless it is there.
int paper_add(const PaperAddPlan *plan);

#endif
