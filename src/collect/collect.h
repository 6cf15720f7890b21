// Collecting: a crew of agents acts in many environments at once, and every transition goes to a
// dataset file. Learners learn from it meanwhile. Beside data.h5 lie
//   data.log.jsonl            one JSON line an evaluation: transitions, returns, losses, speeds
//   data.state.safetensors    the learners, to go on with
//   data.TASK.safetensors     their policies, to act with
//   data.nearest.safetensors  of D4RL's training: the policy whose return was nearest to the level

#ifndef BFM_COLLECT_COLLECT_H
#define BFM_COLLECT_COLLECT_H

#include <signal.h>
#include <stdint.h>

#include "explore/explorer.h"
#include "core/options.h"
#include "core/status.h"

typedef struct {
  int with;  // row of the table of crews
  int64_t steps, envs, hold, seed, threads, eval_every, eval_episodes, train_steps;
  double updates, until;
  char task[OPTION_TEXT_SIZE], model[OPTION_TEXT_SIZE];
  ExplorerOptions learner;
} CollectOptions;

// the collection's own options and those of the learners, but for what follows from the former
const Option *collect_options(void);

typedef struct {
  const char *env;    // domain; a resume may leave it NULL, the file knows it
  const char *path;   // of the dataset
  const char *given;  // options, a JSON object; a resume takes the others from the file
  int resume, quiet;
  double seconds;                     // stop after so many; 0: when all is there
  const volatile sig_atomic_t *stop;  // not 0: save and stop
} CollectPlan;

typedef struct Collection Collection;

// make the environments and the file, or go on with the file: all that can go wrong before the
// first step. A new file is not left behind when this fails
int collection_open(Collection **collection, const CollectPlan *plan);

// collect until the file has as many transitions as planned, or the agent the return it is to
// reach; BFM_INTERRUPTED when told to stop. All is saved then, also when a learner diverges
int collection_run(Collection *collection);

// what a summary needs; seconds and updates are this run's
typedef struct {
  const char *env, *with;
  int64_t first, rows, episodes, diverged, updates;
  int envs, agents;
  int anew;               // a resume found no learners to go on with
  double seconds;         // of all
  double busy;            // of them the simulator's
  const double *returns;  // [agents] of the last evaluation, NULL before the first
} CollectSummary;
void collection_summary(const Collection *collection, CollectSummary *summary);
const char *collection_task(const Collection *collection, int agent);

void collection_close(Collection *collection);

// the path of a file beside the dataset: data.h5, "log.jsonl" → data.log.jsonl
void collect_path_beside(const char *data, const char *name, char *out, size_t size);

#endif
