// The training loop. The agent runs in chunks of about half a second, between which the callback is
// called; chunks also end where a log line, a divergence check, an evaluation or a save is due. None
// of these changes a bit of the result.

#include <inttypes.h>
#include <math.h>

#include "agent/agent.h"
#include "agent/guard.h"
#include "core/units.h"
#include "train/training.h"

#define CHUNK_SECONDS 0.5
#define SAVE_SECONDS 600.0
#define SNAPSHOT_STEPS 1000  // between states to go back to, a multiple of GUARD_STEPS
#define RESTARTS 4
#define LR_FACTOR (1.0 / 3)

// ---------------------------------- the log ------------------------------------------------------

// column i of values [R, count]: a number, or with several seeds an array
static cJSON *column_item(const float *values, int R, int count, int i) {
  if (R == 1) return log_number(values[i]);
  cJSON *items = cJSON_CreateArray();
  for (int r = 0; r < R; r++) cJSON_AddItemToArray(items, log_number(values[r * count + i]));
  return items;
}

static int write_log(Training *t) {
  int64_t step = bfm_agent_step(t->agent);
  int R = bfm_agent_replicas(t->agent), count = bfm_agent_loss_count(t->agent);
  int metric_count = bfm_agent_metric_count(t->agent);
  TRY(bfm_agent_metrics(t->agent, t->metrics));
  double rate = (double)(step - t->logged_step) / fmax(t->seconds - t->logged_seconds, 1e-9);
  t->logged_step = step;
  t->logged_seconds = t->seconds;
  cJSON *line = cJSON_CreateObject();
  cJSON_AddNumberToObject(line, "step", (double)step);
  cJSON_AddNumberToObject(line, "seconds", round(1e3 * (t->before + t->seconds)) / 1e3);
  cJSON_AddNumberToObject(line, "rate", round(10 * rate) / 10);
  for (int i = 0; i < count; i++) {
    cJSON_AddItemToObject(line, bfm_agent_loss_name(t->agent, i),
                          column_item(t->losses, R, count, i));
  }
  for (int i = 0; i < metric_count; i++) {
    cJSON_AddItemToObject(line, bfm_agent_metric_name(t->agent, i),
                          column_item(t->metrics, R, metric_count, i));
  }
  int status = folder_log(&t->folder, t->log, line);
  cJSON_Delete(line);
  if (!status) t->kept = 1;
  return status;
}

static void write_note(const Training *t, char *out, size_t size) {
  int R = bfm_agent_replicas(t->agent), count = bfm_agent_loss_count(t->agent);
  size_t at = 0;
  for (int i = 0; i < count && at < size; i++) {
    double mean = 0;
    for (int r = 0; r < R; r++) mean += t->losses[r * count + i] / R;
    at += snprintf(out + at, size - at, "%s %.4g  ", bfm_agent_loss_name(t->agent, i), mean);
  }
  if (t->evaluator && at < size) eval_thread_note(t->evaluator, out + at, size - at);
}

// ---------------------------------- divergence ---------------------------------------------------

static int take_snapshot(Training *t) {
  TRY(snapshot_take(&t->good[t->older], t->agent));
  t->older = !t->older;
  return BFM_OK;
}

// both, so that neither is of a later step, and so that memory for both is allocated
static int take_snapshots(Training *t) {
  TRY(take_snapshot(t));
  return take_snapshot(t);
}

static int save(Training *t) {
  char path[PATH_MAX];
  for (int r = 0; r < bfm_agent_replicas(t->agent); r++) {
    training_model_path(t, r, path, sizeof path);
    TRY(bfm_agent_save_model(t->agent, r, path));
    t->kept = 1;  // the record and the log too, even if the rest fails
  }
  folder_file(&t->folder, "state.safetensors", path, sizeof path);
  return bfm_agent_save_state(t->agent, path);
}

static int log_divergence(Training *t, const char *why, double lr) {
  cJSON *line = cJSON_CreateObject();
  cJSON_AddNumberToObject(line, "step", (double)bfm_agent_step(t->agent));
  cJSON_AddStringToObject(line, "diverged", why);
  cJSON_AddItemToObject(line, "lr", log_number((float)lr));
  int status = folder_log(&t->folder, t->log, line);
  cJSON_Delete(line);
  return status;
}

// Restore the last good state; then either continue with a lower learning rate or end the run. The
// state is saved first: the files may be of later steps, and a resume would continue with those.
static int fall_back(Training *t) {
  enum { STOP, RESTART };
  char why[512];
  snprintf(why, sizeof why, "%s", bfm_error());
  TRY(snapshot_restore(&t->good[t->older], t->agent));
  int64_t step = bfm_agent_step(t->agent);
  int again = t->settings.on_divergence == RESTART && t->restarts < RESTARTS;
  double lr = t->agent->config.lr * (again ? LR_FACTOR : 1);
  if (again) TRY(agent_set_lr(t->agent, lr));
  TRY(save(t));

  fclose(t->log);
  TRY(folder_open_log(&t->folder, "log.jsonl", "step", step, &t->log));
  if (t->evaluator) TRY(eval_thread_forget(t->evaluator, step));
  t->logged_step = step;
  TRY(log_divergence(t, why, lr));
  if (!again) {
    char times[48] = "";
    if (t->restarts) snprintf(times, sizeof times, ", after %d restarts", t->restarts);
    return bfm_fail(BFM_DIVERGED,
                    "%s%s; the last good models and state, those of step %" PRId64 ", are in %s",
                    why, times, step, t->folder.path);
  }
  t->restarts++;
  return take_snapshots(t);
}

// ---------------------------------- the loop -----------------------------------------------------

static int64_t to_next(int64_t step, int64_t every) {
  return every > 0 ? every - step % every : INT64_MAX;
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static int is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static int64_t steps_to_due(const Training *t, int64_t step) {
  const TrainSettings *s = &t->settings;
  int64_t due = min64(to_next(step, s->log_every), to_next(step, s->save_every));
  due = min64(due, min64(to_next(step, s->eval_every), to_next(step, GUARD_STEPS)));
  return min64(due, s->steps - step);
}

// the work that is due at this step: evaluations before saves, so that the evaluator has every step
// that was saved
static int serve(Training *t, int64_t step) {
  const TrainSettings *s = &t->settings;
  int last = step == s->steps || t->timed_out;
  if (is_due(step, s->log_every) || last) TRY(write_log(t));
  if (is_due(step, SNAPSHOT_STEPS)) TRY(take_snapshot(t));
  if (!t->evaluator || (!last && !is_due(step, s->eval_every))) return BFM_OK;
  t->kept = 1;
  return eval_thread_begin(t->evaluator, t->agent);
}

// start an evaluation that the stopped run did not begin, or that had fewer episodes than are wanted
static int catch_up(Training *t, int64_t step) {
  const TrainSettings *s = &t->settings;
  if (!t->evaluator || !step || (!is_due(step, s->eval_every) && step != s->steps)) return BFM_OK;
  if (eval_thread_knows(t->evaluator, step)) return BFM_OK;
  TRY(eval_thread_forget(t->evaluator, step - 1));
  return eval_thread_begin(t->evaluator, t->agent);
}

static int interrupted(const Training *t, int64_t step) {
  return bfm_fail(BFM_INTERRUPTED,
                  "stopped at step %" PRId64 " of %" PRId64
                  "; continue with bfm train --resume -o %s",
                  step, t->settings.steps, t->folder.path);
}

// *saved: the step of the files
static int train(Training *t, int64_t *saved) {
  const TrainSettings *s = &t->settings;
  int64_t chunk = 1, step = t->first_step;
  char note[256] = "";
  double start = seconds_now(), last_save = start;
  t->logged_step = step;
  TRY(catch_up(t, step));
  if (step < s->steps) TRY(take_snapshots(t));

  while (step < s->steps && !t->timed_out && !t->monitor.stopped) {
    double before = seconds_now();
    int64_t n = min64(chunk, steps_to_due(t, step));
    int status = bfm_agent_train(t->agent, n, t->losses);
    if (!status && is_due(step + n, GUARD_STEPS)) status = guard_check(t->agent, t->losses);
    t->seconds = seconds_now() - start;
    if (status == BFM_DIVERGED) {
      *saved = -1;
      TRY(fall_back(t));
      step = bfm_agent_step(t->agent);
      continue;
    }
    TRY(status);
    step = bfm_agent_step(t->agent);
    if (n == chunk)
      chunk = start + t->seconds - before < CHUNK_SECONDS ? 2 * chunk : (chunk + 1) / 2;

    t->timed_out = s->minutes > 0 && t->seconds >= 60 * s->minutes;
    TRY(serve(t, step));
    int by_time = s->save_every == 0 && seconds_now() - last_save > SAVE_SECONDS;
    if (by_time || is_due(step, s->save_every)) {
      TRY(save(t));
      *saved = step;
      last_save = seconds_now();
    }
    write_note(t, note, sizeof note);
    monitor_update(&t->monitor, step, note);
  }
  monitor_end(&t->monitor, step, note);
  return BFM_OK;
}

// save the models although an evaluation or the log failed
static int rescue(Training *t, int status, int64_t step) {
  char why[512];
  snprintf(why, sizeof why, "%s", bfm_error());
  if (step == t->first_step || save(t)) return bfm_fail(status, "%s", why);
  return bfm_fail(status, "%s; models and state of step %" PRId64 " are in %s", why, step,
                  t->folder.path);
}

int training_run(Training *t) {
  if (t->offline.algo >= 0) return offline_run(t);
  monitor_limit(&t->monitor, 60 * t->settings.minutes);
  monitor_begin(&t->monitor, "train", "steps", t->first_step, t->settings.steps);
  int64_t saved = t->plan.resume ? t->first_step : -1;
  int status = train(t, &saved);
  int64_t step = bfm_agent_step(t->agent);
  if (status == BFM_DIVERGED) return status;
  if (status && status != BFM_INTERRUPTED) return saved == step ? status : rescue(t, status, step);

  if (saved != step) TRY(save(t));
  if (step < t->settings.steps && !t->timed_out) return interrupted(t, step);
  status = t->evaluator ? eval_thread_wait(t->evaluator) : BFM_OK;
  return status == BFM_INTERRUPTED ? interrupted(t, step) : status;
}
