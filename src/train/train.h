// A training run and its folder:
//   run.json           data files and their checksum, settings: what a resume needs to know
//   log.jsonl          one JSON line every log-every steps: step, seconds, steps/s, losses, metrics
//   state.safetensors  everything of the agent
//   model.safetensors  the model; model.0.safetensors … with several seeds
// and with --eval-every the files of eval_thread.h.

#ifndef BFM_TRAIN_TRAIN_H
#define BFM_TRAIN_TRAIN_H

#include "agent/snapshot.h"
#include "core/folder.h"
#include "core/monitor.h"
#include "data/dataset.h"
#include "train/eval_thread.h"
#include "train/offline.h"
#include "train/settings.h"

typedef struct {
  const char *const *data;  // dataset files; a resume needs none, run.json names them
  int data_count;
  const char *folder;
  const char *settings;  // given ones, a JSON object; a resume takes the others from run.json
  const char *options;   // of the agent, a JSON object; they override the recipe
  int resume;
  bfm_progress_callback *progress;  // as in bfm_training
  void *context;
} TrainPlan;

typedef struct {
  TrainPlan plan;
  Monitor monitor;
  TrainSettings settings;
  Folder folder;
  bfm_agent *agent;  // NULL: single-task agents are trained …
  Offline offline;   // … which are here
  Dataset data;      // while the agent reads it in place, on a CPU
  int64_t transitions, episodes, first_step;
  char env[OPTION_TEXT_SIZE], collector[64];
  char prompt_note[256];  // why the model carries no prompt states, or empty
  char undrawn[512];      // why single-task agents have no curves, or empty
  double seconds;         // of training, this time …
  double before;          // … and in earlier starts of the run
  int timed_out;          // the setting minutes has ended it
  float *losses;          // [R, loss_count] of the last step
  float *metrics;         // [R, metric_count] of the last look
  FILE *log;
  int64_t logged_step;  // the last line of the log, and when
  double logged_seconds;

  EvalThread *evaluator;  // NULL: no evaluation
  int64_t sample_rows;    // states of the data, with the rewards in the file
  float *sample_obs, *sample_rewards;

  Snapshot good[2];  // the older one is from before a divergence that is noticed late
  int older, restarts;

  int begun;  // the folder may have traces of this run …
  int kept;   // … which are worth keeping
} Training;

// read the data, make or load the agent, make the folder: everything that can fail before the first
// step. Leaves nothing behind when it fails
int training_open(Training *t, const TrainPlan *plan);

// train until the planned steps are done and evaluated; BFM_INTERRUPTED when the callback stopped
// the run, with everything saved; BFM_DIVERGED with the last good models and state saved
int training_run(Training *t);

void training_close(Training *t);

// read run.json and check that it has the names of the data, their checksum and the settings
int training_read_record(cJSON **record, const char *path);

// how many models the run trains, and where each of them is saved
int training_replicas(const Training *t);
void training_model_path(const Training *t, int replica, char *out, size_t size);

#endif
