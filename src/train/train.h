// A training run and its folder:
//   run.json           data files and their checksum, settings: what a resume needs to know
//   log.jsonl          one JSON line every log-every steps: step, seconds, steps/s, losses, metrics
//   state.safetensors  everything of the agent
//   model.safetensors  the model; model.0.safetensors … with several seeds
// and with --eval-every what watch.h writes.

#ifndef BFM_TRAIN_TRAIN_H
#define BFM_TRAIN_TRAIN_H

#include <signal.h>

#include "agent/snapshot.h"
#include "core/options.h"
#include "data/dataset.h"
#include "core/folder.h"
#include "train/eval_thread.h"

// all that is not the agent's own
typedef struct {
  int64_t steps, stride, save_every, log_every;
  int64_t eval_every, eval_episodes, eval_steps, prompt_states;
  int recipe, eval_es, on_divergence;
  char eval_tasks[OPTION_TEXT_SIZE], env[OPTION_TEXT_SIZE];
} TrainSettings;

extern const Option train_options[];

typedef struct {
  const char *const *data;  // dataset files; a resume needs none, the run knows them
  int data_count;
  const char *folder;
  const char *settings;  // given ones, a JSON object; a resume takes the others from the run
  const char *options;   // of the agent, a JSON object; before the recipe
  int resume, quiet;
  const volatile sig_atomic_t *stop;  // not 0: save and stop
} TrainPlan;

typedef struct {
  TrainPlan plan;
  TrainSettings settings;
  Folder folder;
  bfm_agent *agent;
  Dataset data;  // while the agent reads it in place, on a CPU
  int64_t transitions, episodes, first_step;
  char env[OPTION_TEXT_SIZE], collector[64];
  char prompt_note[256];  // why the model carries no prompt states, or empty
  double seconds;         // of training, this time …
  double before;          // … and in earlier starts of the run
  float *losses;          // [R, loss_count] of the last step
  float *metrics;         // [R, metric_count] of the last look
  FILE *log;
  int64_t logged_step;  // the last line of the log, and when
  double logged_seconds;

  EvalThread *watch;    // NULL: no evaluation
  int64_t sample_rows;  // of the data: states with the rewards the file has
  float *sample_obs, *sample_rewards;

  Snapshot good[2];  // the older one is far enough from a divergence that is noticed later
  int older, restarts;

  int begun;  // the folder may have traces of this run …
  int kept;   // … which are worth keeping
} Training;

// read the data, make or load the agent, make the folder: all that can go wrong before the first
// step. Leaves nothing behind when it fails
int training_open(Training *t, const TrainPlan *plan);

// train until the planned steps are done and evaluated; BFM_INTERRUPTED when told to stop, with all
// saved; BFM_DIVERGED with the last good models and state saved
int training_run(Training *t);

void training_close(Training *t);

// a run.json, checked: the names of its data, their checksum and its settings are there
int training_read_record(cJSON **record, const char *path);

// where a replica's model is saved
void training_model_path(const Training *t, int replica, char *out, size_t size);

#endif
