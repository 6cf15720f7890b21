// Reports of a collection: every so many transitions its learners are evaluated, a line is added to
// data.log.jsonl, and for D4RL the policy whose return is nearest to the level is saved.

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/collection.h"
#include "collect/stage.h"
#include "core/units.h"

// By default a run has EVALUATIONS evaluations, but it collects at least EVALUATION_SHARE transitions
// for each transition of an evaluation; while --until waits for a return, UNTIL_SHARE.
#define EVALUATIONS 20
#define EVALUATION_SHARE 8
#define UNTIL_SHARE 2

// ---------------------------------- evaluating ---------------------------------------------------

// the progress of a collection stands still while its learners are evaluated
static int each_step(void *context) {
  Collection *c = context;
  return monitor_update(&c->monitor, c->rows, c->note);
}

static void write_note(Collection *c) {
  size_t at = 0;
  *c->note = 0;
  for (int t = 0; t < c->crew.agents && at < sizeof c->note; t++) {
    const char *name = c->crew.task_numbers[t] < 0 ? "return" : c->crew.tasks[t];
    at += snprintf(c->note + at, sizeof c->note - at, "%s%s %.0f", t ? "  " : "", name,
                   c->returns[t]);
  }
}

static int evaluate(Collection *c) {
  if (!*c->crew.tasks[0]) return BFM_OK;
  TRY(stage_evaluate(&c->crew, c->options.eval_episodes, c->at, each_step, c, c->returns));
  if (c->monitor.stopped) return BFM_OK;
  c->evaluated = 1;
  write_note(c);
  return BFM_OK;
}

int report_reached(const Collection *c) {
  if (!c->evaluated) return 0;
  for (int t = 0; t < c->crew.agents; t++) {
    if (c->returns[t] < c->options.until) return 0;
  }
  return 1;
}

int64_t report_due(const Collection *c) {
  int64_t every = c->options.eval_every;
  if (!every) {
    int64_t cost = c->crew.agents * c->options.eval_episodes * c->sizes.episode_steps;
    int waits = !isinf(c->options.until);
    every = waits ? UNTIL_SHARE * cost : c->options.steps / EVALUATIONS + 1;
    if (!waits && every < EVALUATION_SHARE * cost) every = EVALUATION_SHARE * cost;
  }
  return (c->rows / every + 1) * every;
}

// ---------------------------------- the log ------------------------------------------------------

static void log_losses(cJSON *entry, bfm_explorer *learner, int agents, const float *losses) {
  int count = bfm_explorer_loss_count(learner);
  cJSON *all = cJSON_AddObjectToObject(entry, "losses");
  for (int i = 0; i < count; i++) {
    cJSON *each = cJSON_AddArrayToObject(all, bfm_explorer_loss_name(learner, i));
    for (int t = 0; t < agents; t++) {
      cJSON_AddItemToArray(each, log_number(losses[t * count + i]));
    }
  }
}

// entry: the line that gets the losses, or NULL
static int check_learners(Collection *c, cJSON *entry) {
  if (!c->crew.learner) return BFM_OK;
  bfm_explorer *learner = c->crew.learner;
  float *losses = calloc((size_t)c->crew.agents * bfm_explorer_loss_count(learner), sizeof *losses);
  int status = losses ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for the losses");
  if (!status) status = bfm_explorer_losses(learner, losses);
  if (!status && entry) log_losses(entry, learner, c->crew.agents, losses);
  free(losses);
  return status;
}

int report_check_learners(Collection *c) { return check_learners(c, NULL); }

// The nearest policy may be one that was saved before a resume. Its return is in the log, except in
// logs of early versions: then the next policy that is evaluated replaces it.
static void recall_nearest(Collection *c, const char *log) {
  char path[PATH_MAX];
  collect_path_beside(c->plan.path, "nearest.safetensors", path, sizeof path);
  c->nearest = INFINITY;
  if (!c->plan.resume || access(path, F_OK)) return;
  double kept = folder_log_last(&c->folder, log, "nearest");
  if (kept != 0) c->nearest = kept;
}

int report_open(Collection *c) {
  char path[PATH_MAX];
  if (!c->crew.learner) return BFM_OK;
  collect_path_beside(c->plan.path, "log.jsonl", path, sizeof path);
  char *slash = strrchr(path, '/');
  if (slash) *slash = 0;
  TRY(folder_name(&c->folder, !slash ? "." : slash == path ? "/" : path));
  const char *name = slash ? slash + 1 : path;
  // read it first: opening the log cuts the lines after the last saved row
  recall_nearest(c, name);
  // cut by transitions, not by steps: after a kill, steps are ahead of the rows in the file
  return folder_open_log(&c->folder, name, "transitions", c->rows, &c->log);
}

static int write_log(Collection *c) {
  double seconds = seconds_now() - c->start;
  cJSON *entry = cJSON_CreateObject();
  cJSON_AddNumberToObject(entry, "step", (double)c->at);
  cJSON_AddNumberToObject(entry, "transitions", (double)c->rows);
  cJSON_AddItemToObject(entry, "seconds", log_number(seconds));
  cJSON_AddItemToObject(entry, "simulator", log_number(c->crew.busy / seconds));
  cJSON_AddNumberToObject(entry, "updates", (double)bfm_explorer_step(c->crew.learner));
  if (c->evaluated) {
    cJSON *returns = cJSON_AddObjectToObject(entry, "returns");
    for (int t = 0; t < c->crew.agents; t++) {
      cJSON_AddItemToObject(returns, c->crew.tasks[t], log_number(c->returns[t]));
    }
  }
  if (isfinite(c->nearest)) cJSON_AddItemToObject(entry, "nearest", log_number(c->nearest));
  int status = check_learners(c, entry);
  if (!status) status = folder_log(&c->folder, c->log, entry);
  cJSON_Delete(entry);
  return status;
}

// ---------------------------------- a report -----------------------------------------------------

// An agent may be far beyond its D4RL level at the next evaluation, so the nearest policy is saved.
static int keep_nearest(Collection *c) {
  double gap = fabs(c->returns[0] - c->options.until);
  if (!c->crew.kind->levels || gap >= fabs(c->nearest - c->options.until)) return BFM_OK;
  c->nearest = c->returns[0];
  return crew_save_policy(&c->crew, 0, c->plan.path, "nearest");
}

int report(Collection *c) {
  if (!c->crew.learner) return BFM_OK;
  TRY(evaluate(c));
  c->reported = c->rows;
  if (c->monitor.stopped) return BFM_OK;
  TRY(keep_nearest(c));
  return write_log(c);
}
