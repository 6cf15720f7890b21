// Single-task agents that learn from a dataset (bc, td3bc, iql, xql), as a training run has them: a
// policy for each task and seed, all side by side in one learner.

#ifndef BFM_TRAIN_OFFLINE_H
#define BFM_TRAIN_OFFLINE_H

#include "bfm.h"
#include "envs/tasklist.h"
#include "train/eval_log.h"

typedef struct {
  int algo;               // ExplorerAlgo; -1: the run trains an agent
  bfm_explorer *learner;  // policy number task · seeds + seed
  TaskList tasks;
  int seeds;         // policies of each task
  int64_t seed;      // of the first
  EvalLog evals;     // all results so far
  double *best;      // [policies]
  double q_most;     // beyond it, Q has diverged
  int64_t episodes;  // of each policy in an evaluation
} Offline;

#endif
