// A run's folder. The logs are read as they grow (run_log.h); run.json and the metadata of the agent's
// files when they are replaced. Whether the run still goes on is asked of the folder's lock, which its
// process holds until it ends, however it ends.

#include "serve/watch.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/folder.h"
#include "core/json.h"
#include "core/units.h"
#include "data/safetensors.h"
#include "serve/health.h"
#include "serve/run_log.h"

typedef enum {
  RUN_STARTING,
  RUN_RUNNING,
  RUN_EVALUATING,  // after the last step
  RUN_FINISHED,
  RUN_STOPPED,  // everything is saved
  RUN_DIVERGED,
  RUN_INTERRUPTED,  // the process ended without saving its last steps
  RUN_GONE,         // the folder was removed
} RunState;

static const char *const state_names[] = {"starting", "running",  "evaluating",  "finished",
                                          "stopped",  "diverged", "interrupted", "gone"};

// files that tell the agent's options and its robot; the first also where a resume begins
static const char *const agent_files[] = {"state.safetensors", "model.safetensors",
                                          "model.0.safetensors", "pending.safetensors",
                                          "pending.0.safetensors"};
enum { AGENT_FILES = sizeof agent_files / sizeof *agent_files };

struct Watch {
  char folder[PATH_MAX - 64];
  char label[64];
  RunLog log;
  RunState state;

  struct stat record_seen, agent_seen[AGENT_FILES];
  double steps;  // planned; 0: not known
  double saved;  // step of state.safetensors; -1: there is none
  AgentFacts agent;
  char algo[32], env[64];  // empty: not known
};

// ---------------------------------- run.json and the agent's files -------------------------------

static void path_of(const Watch *w, const char *name, char out[PATH_MAX]) {
  snprintf(out, PATH_MAX, "%s/%s", w->folder, name);
}

static int has(const Watch *w, const char *name) {
  char path[PATH_MAX];
  path_of(w, name, path);
  return !access(path, F_OK);
}

// whether the file is there and was replaced since the last look
static int is_new(const Watch *w, const char *name, struct stat *seen, char path[PATH_MAX]) {
  struct stat now;
  path_of(w, name, path);
  if (stat(path, &now)) memset(&now, 0, sizeof now);
  int replaced = now.st_ino && !same_file(&now, seen);
  *seen = now;
  return replaced;
}

static void copy(char *out, size_t size, const char *text) {
  if (text) snprintf(out, size, "%s", text);
}

// the agent's options
static void take_config(Watch *w, const cJSON *config) {
  double d = log_value(config, "d"), gamma = log_value(config, "gamma");
  int known = d >= 1 && d <= 1e6 && gamma >= 0 && gamma <= 1;
  w->agent = (AgentFacts){known ? (int64_t)d : 0, gamma, log_value(config, "ortho")};
  copy(w->algo, sizeof w->algo, cJSON_GetStringValue(cJSON_GetObjectItem(config, "algo")));
}

static int read_record(Watch *w) {
  char path[PATH_MAX];
  cJSON *record;
  if (!is_new(w, "run.json", &w->record_seen, path) || json_read(&record, path)) return 0;
  double steps = log_value(cJSON_GetObjectItem(record, "settings"), "steps");
  const cJSON *config = cJSON_GetObjectItem(record, "config");
  w->steps = log_is_step(steps) ? steps : 0;
  if (config) take_config(w, config);
  cJSON_Delete(record);
  return 1;
}

static void read_config(Watch *w, const SafeTensors *file) {
  const char *text = safetensors_metadata(file, "config");
  cJSON *config = cJSON_Parse(text ? text : "{}");
  take_config(w, config);
  copy(w->env, sizeof w->env, safetensors_metadata(file, "env"));
  cJSON_Delete(config);
}

static int read_agent(Watch *w) {
  int read = 0;
  for (int i = 0; i < AGENT_FILES; i++) {
    char path[PATH_MAX];
    SafeTensors *file;
    if (i && *w->algo && *w->env) break;
    if (!is_new(w, agent_files[i], &w->agent_seen[i], path)) continue;
    if (safetensors_open(&file, path)) continue;
    const char *step = safetensors_metadata(file, "step");
    if (i == 0) w->saved = step ? strtod(step, NULL) : -1;
    read_config(w, file);
    safetensors_close(file);
    read = 1;
  }
  if (!w->agent_seen[0].st_ino) w->saved = -1;
  return read;
}

// ---------------------------------- whether it goes on -------------------------------------------

static int is_done(const Watch *w) { return w->steps > 0 && run_log_step(&w->log) >= w->steps; }

static RunState judge(const Watch *w) {
  if (!has(w, "run.json")) return RUN_GONE;
  // where the lock tells nothing, a run that is not at its end is taken for one that goes on
  int locked = folder_is_locked(w->folder), diverged = *w->log.why != 0;
  if (locked > 0 || (locked < 0 && !is_done(w) && !diverged)) {
    return is_done(w) ? RUN_EVALUATING : w->log.last ? RUN_RUNNING : RUN_STARTING;
  }
  if (diverged) return RUN_DIVERGED;
  int pending = has(w, "pending.safetensors") || has(w, "pending.0.safetensors");
  if (is_done(w)) return pending ? RUN_INTERRUPTED : RUN_FINISHED;
  return w->saved >= run_log_step(&w->log) ? RUN_STOPPED : RUN_INTERRUPTED;
}

int watch_look(Watch *w, int *more) {
  int said = run_log_look(&w->log);
  int changed = said & (TAIL_NEW | TAIL_AGAIN);
  *more = said & TAIL_MORE;
  changed |= read_record(w);
  changed |= read_agent(w);
  RunState state = judge(w);
  changed |= state != w->state;
  w->state = state;
  return changed != 0;
}

// ---------------------------------- the message --------------------------------------------------

static void write_note(const Watch *w, char *out, size_t size) {
  char at[32], saved[32];
  short_count(run_log_step(&w->log), at, sizeof at);
  short_count(w->saved, saved, sizeof saved);
  switch (w->state) {
    case RUN_STARTING: snprintf(out, size, "is reading its data"); break;
    case RUN_EVALUATING: snprintf(out, size, "is evaluating its last step"); break;
    case RUN_STOPPED: snprintf(out, size, "saved at step %s", saved); break;
    case RUN_DIVERGED: snprintf(out, size, "%s", w->log.why); break;
    case RUN_GONE: snprintf(out, size, "its folder is gone"); break;
    case RUN_INTERRUPTED:
      if (w->saved < 0) snprintf(out, size, "ended at step %s with nothing saved", at);
      else snprintf(out, size, "ended at step %s; the last save is of step %s", at, saved);
      break;
    default:
      *out = 0;
      if (!w->log.divergences) break;
      snprintf(out, size, "diverged %d time%s and was restarted", w->log.divergences,
               w->log.divergences > 1 ? "s" : "");
  }
}

// by the last rate, from the time of the last line
static double seconds_left(const Watch *w) {
  double rate = log_value(w->log.last, "rate"), left = w->steps - run_log_step(&w->log);
  if (w->state != RUN_RUNNING || !(rate > 0) || !w->steps) return NAN;
  return fmax(0, left / rate - fmax(0, (double)time(NULL) - w->log.written));
}

static void add_progress(const Watch *w, cJSON *message) {
  char note[600];
  write_note(w, note, sizeof note);
  cJSON_AddStringToObject(message, "type", "run");
  log_add_text(message, "label", w->label);
  log_add_text(message, "folder", w->folder);
  log_add_text(message, "algo", w->algo);
  log_add_text(message, "domain", w->env);
  cJSON_AddStringToObject(message, "state", state_names[w->state]);
  cJSON_AddBoolToObject(message, "finished", w->state == RUN_FINISHED);
  log_add_text(message, "note", note);
  cJSON_AddNumberToObject(message, "step", run_log_step(&w->log));
  cJSON_AddNumberToObject(message, "steps", w->steps);
  log_add(message, "seconds", log_value(w->log.last, "seconds"));
  log_add(message, "seconds_left", seconds_left(w));
  log_add(message, "rate", log_value(w->log.last, "rate"));
}

cJSON *watch_message(const Watch *w) {
  cJSON *message = cJSON_CreateObject();
  add_progress(w, message);
  Health health = health_of(w->log.last, &w->agent, w->state == RUN_DIVERGED ? w->log.why : "");
  cJSON_AddItemToObject(message, "health", health_item(&health));
  if (run_log_describe(&w->log, message)) return message;
  cJSON_Delete(message);
  return NULL;
}

// ---------------------------------- opening ------------------------------------------------------

int watch_new(Watch **out, const char *folder, const char *label) {
  *out = NULL;
  Watch *w = calloc(1, sizeof *w);
  if (!w) return bfm_fail(BFM_NO_MEMORY, "out of memory for the run in %.64s", folder);
  w->saved = -1;
  snprintf(w->label, sizeof w->label, "%s", label);
  int length = snprintf(w->folder, sizeof w->folder, "%s", folder), status = BFM_OK;
  if (length >= (int)sizeof w->folder) {
    status = bfm_fail(BFM_BAD_ARGUMENT, "the name of the folder %.64s… is too long", folder);
  }
  if (!status) status = run_log_open(&w->log, folder);
  if (status) watch_free(w);
  else *out = w;
  return status;
}

void watch_free(Watch *w) {
  if (!w) return;
  run_log_close(&w->log);
  free(w);
}
