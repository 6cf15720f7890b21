// Collecting: an explorer acts in many environments at once, and every transition goes to a dataset
// file. Episodes are kept whole and in order; one that takes long is written in pieces.

#ifndef BFM_RUN_COLLECT_H
#define BFM_RUN_COLLECT_H

#include <signal.h>
#include <stdint.h>

#include "core/options.h"
#include "core/status.h"

typedef struct {
  int with;  // row of the table of explorers
  int64_t steps, envs, hold, seed, threads;
  char task[OPTION_TEXT_SIZE];
} CollectOptions;

extern const Option collect_options[];

typedef struct {
  const char *env;    // domain; a resume may leave it NULL, the file knows it
  const char *path;   // of the dataset
  const char *given;  // options, a JSON object; a resume takes the others from the file
  int resume, quiet;
  const volatile sig_atomic_t *stop;  // not 0: save and stop
} CollectPlan;

typedef struct Collection Collection;

// make the environments and the file, or go on with the file: all that can go wrong before the
// first step. A new file is not left behind when this fails
int collection_open(Collection **collection, const CollectPlan *plan);

// collect until the file has as many transitions as planned; BFM_INTERRUPTED when told to stop,
// with all of them saved
int collection_run(Collection *collection);

// what a summary needs; seconds are this run's
typedef struct {
  const char *env, *with;
  int64_t first, rows, episodes, diverged, envs;
  double seconds;
} CollectSummary;
void collection_summary(const Collection *collection, CollectSummary *summary);

void collection_close(Collection *collection);

#endif
