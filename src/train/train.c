// Whole training runs: what bfm train and bfm_train run.

#include "train/training.h"

#include <stdlib.h>

#include "core/sized.h"

int training_replicas(const Training *t) {
  return t->agent ? bfm_agent_replicas(t->agent) : t->offline.tasks.count * t->offline.seeds;
}

void training_model_path(const Training *t, int replica, char *out, size_t size) {
  if (t->offline.algo >= 0) {
    offline_path(t, "model", replica, out, size);
    return;
  }
  eval_thread_path(t->folder.path, "model", replica, bfm_agent_replicas(t->agent), out, size);
}

static int check_data(const bfm_training *run) {
  if (run->data_count < 0) {
    return bfm_fail(BFM_BAD_ARGUMENT, "data_count is %d, but must be 0 or more", run->data_count);
  }
  if (!run->data_count && run->resume) return BFM_OK;
  NEED("data", run->data);
  if (!run->data_count) return bfm_fail(BFM_BAD_ARGUMENT, "data_count is 0: name a dataset");
  for (int i = 0; i < run->data_count; i++) {
    if (!run->data[i]) return bfm_fail(BFM_BAD_ARGUMENT, "data[%d] is missing", i);
  }
  return BFM_OK;
}

static int train(const TrainPlan *plan) {
  Training training;
  TRY(training_open(&training, plan));
  int status = training_run(&training);
  training_close(&training);
  return status;
}

bfm_status bfm_train(const bfm_training *given) {
  bfm_training run;
  char *settings, *options;
  NEED("training", given);
  TRY(sized_read(&run, sizeof run, given, 0, "bfm_training"));
  NEED("output", run.output);
  TRY(check_data(&run));
  TRY(settings_split(run.options, &settings, &options));
  const TrainPlan plan = {
      .data = run.data,
      .data_count = run.data_count,
      .folder = run.output,
      .settings = settings,
      .options = options,
      .resume = run.resume,
      .progress = run.progress,
      .context = run.context,
  };
  int status = train(&plan);
  free(settings);
  free(options);
  return status;
}
