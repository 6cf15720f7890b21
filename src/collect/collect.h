// Collecting: a crew of agents acts in many environments at once, and every transition goes to a
// dataset file. Learners learn from the transitions meanwhile. Beside data.h5 lie
//   data.log.jsonl            one JSON line for each evaluation: transitions, returns, losses, rates
//   data.state.safetensors    the learners, for a resume
//   data.TASK.safetensors     their policies, to act with
//   data.nearest.safetensors  D4RL only: the policy whose return was nearest to the level

#ifndef BFM_COLLECT_COLLECT_H
#define BFM_COLLECT_COLLECT_H

#include <stdint.h>

#include "core/status.h"

typedef struct {
  const char *env;    // domain; NULL with resume: the file's
  const char *path;   // of the dataset
  const char *given;  // options, a JSON object; with resume they override the file's
  int resume;
  bfm_progress_callback *progress;  // as in bfm_collection
  void *context;
} CollectPlan;

typedef struct Collection Collection;

// make the environments and the file, or continue the file: everything that can fail before the
// first step. When this fails, it leaves no new file behind
int collection_open(Collection **collection, const CollectPlan *plan);

// collect until the file has the planned transitions or the learners reach --until; before that,
// train the policies of D4RL's levels where the crew needs them. BFM_INTERRUPTED when the callback
// stopped the run. Everything is saved then, and also when a learner diverges
int collection_run(Collection *collection);

// what a summary needs; seconds and updates are those of this run
typedef struct {
  const char *env, *with;
  int64_t first, rows, episodes, diverged, updates;
  int envs, agents;
  int restarted;          // a resume found no saved learners: they started from scratch
  double seconds, busy;   // the whole time, and the simulator's part of it
  const double *returns;  // [agents] of the last evaluation, NULL before the first
} CollectSummary;
void collection_summary(const Collection *collection, CollectSummary *summary);
const char *collection_task(const Collection *collection, int agent);

void collection_close(Collection *collection);

#endif
