// A training run and its folder:
//   run.json           data files and their checksum, planned steps: what a resume needs to know
//   log.jsonl          one JSON line every log_every steps: step, seconds, losses
//   state.safetensors  everything of the agent
//   model.safetensors  the model; model.0.safetensors … with several seeds

#ifndef BFM_RUN_TRAIN_H
#define BFM_RUN_TRAIN_H

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

typedef struct {
  const char *const *data;  // dataset files; a resume needs none, the run knows them
  int data_count;
  const char *folder;
  const char *options;  // of the agent, a JSON object, or NULL
  int64_t steps;        // in all; 0 on a resume: as planned when the run began
  int64_t save_every;   // steps; 0: every ten minutes
  int64_t log_every;    // steps
  int resume, quiet;
  const volatile sig_atomic_t *stop;  // not 0: save and stop
} TrainPlan;

typedef struct {
  TrainPlan plan;
  char folder[PATH_MAX - 64];  // without a slash at its end
  bfm_agent *agent;
  int64_t transitions, episodes, first_step;
  char env[64];
  double seconds;  // of training, this time
  float *losses;   // [R, loss_count] of the last step
  FILE *log;
  int begun;  // the folder may have traces of this run …
  int kept;   // … which are worth keeping
  int made;   // how many folders at the end of the path are new
} Training;

// read the data, make or load the agent, make the folder: all that can go wrong before the first
// step. Leaves nothing behind when it fails
int training_open(Training *t, const TrainPlan *plan);

// train until the planned steps are done; BFM_INTERRUPTED when told to stop, with all saved
int training_run(Training *t);

void training_close(Training *t);

// where a replica's model is saved
void training_model_path(const Training *t, int replica, char *out, size_t size);

#endif
