// JSON files. The keys of a file's first object tell what kind of file it is. In a log, every line
// must be of the same kind; the last line is shown.

#include "cli/records.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prompt/prompt.h"
#include "core/json.h"
#include "data/safetensors.h"
#include "explore/explorer.h"
#include "train/train.h"

static const cJSON *get(const cJSON *object, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(object, name);
}

static double number(const cJSON *object, const char *name) {
  return cJSON_GetNumberValue(get(object, name));
}

// ---------------------------------- logs ---------------------------------------------------------

static const char evaluations[] = "evaluations";

// the numbers and texts that a line of each kind must have
static const struct {
  const char *kind;
  const char *numbers[7], *texts[3];
} lines_of[] = {
    {"ledger", {"seed", "steps", "es", "episodes"}, {"run", "more"}},
    {"ledger of a sweep", {NULL}, {"cell", "kind"}},
    {evaluations, {"step", "seed", "es", "episodes", "mean", "std"}, {"task"}},
    {"collection log", {"step", "transitions", "updates"}, {NULL}},
    {"training log", {"step", "seconds"}, {NULL}},
    {"training log", {"step", "lr"}, {"diverged"}},
    {"measurements", {NULL}, {"bench"}},
    {"measurements", {"episodes", "es", "seed", "std"}, {"model", "task"}},
};

static const char *kind_of(const cJSON *line) {
  for (size_t i = 0; i < sizeof lines_of / sizeof *lines_of; i++) {
    const char *const *name = lines_of[i].numbers, *const *text = lines_of[i].texts;
    while (*name && cJSON_IsNumber(get(line, *name))) name++;
    while (*text && cJSON_IsString(get(line, *text))) text++;
    if (!*name && !*text) return lines_of[i].kind;
  }
  return NULL;
}

static int fail_unknown(const char *path) {
  return bfm_fail(BFM_BAD_FILE,
                  "%s is JSON, but not a log, ledger, run, prompt, goal or measurements of bfm",
                  path);
}

static int check_lines(const char *path, const cJSON *lines) {
  const char *kind = kind_of(lines->child), *other;
  if (!kind) return fail_unknown(path);
  const cJSON *line;
  int at = 1;
  cJSON_ArrayForEach(line, lines) {
    if (!(other = kind_of(line)) || strcmp(kind, other)) {
      return bfm_fail(BFM_BAD_FILE, "%s: line %d lacks fields that line 1 (%s) has", path, at,
                      kind);
    }
    at++;
  }
  return BFM_OK;
}

// a task's return at the last step, by one seed
typedef struct {
  const char *task;
  double mean;
  int place, seeds;  // in the log, counted from 0; of a mean over seeds, their number
} Return;

static int by_task(const void *x, const void *y) {
  const Return *a = x, *b = y;
  int order = strcmp(a->task, b->task);
  return order ? order : a->place - b->place;
}

static int by_place(const void *x, const void *y) {
  return ((const Return *)x)->place - ((const Return *)y)->place;
}

static double rounded(double value) { return round(1e4 * value) / 1e4; }

// Merges the returns of each task, and sorts the means by the tasks' first places. Returns the number
// of tasks.
static int mean_over_seeds(Return *returns, int count) {
  int tasks = 0;
  qsort(returns, count, sizeof *returns, by_task);
  for (int i = 0; i < count; i++) {
    Return *last = tasks ? &returns[tasks - 1] : NULL;
    if (last && !strcmp(last->task, returns[i].task)) {
      last->mean += returns[i].mean;
      last->seeds++;
    } else {
      returns[tasks++] = returns[i];
    }
  }
  for (int i = 0; i < tasks; i++) returns[i].mean = rounded(returns[i].mean / returns[i].seeds);
  qsort(returns, tasks, sizeof *returns, by_place);
  return tasks;
}

// the returns at the last step, with the largest number of sampled actions (es)
static int evaluations_info(const cJSON *lines, cJSON *info) {
  const cJSON *line;
  double step = number(lines->child->prev, "step");  // in cJSON, prev of the first item is the last
  double es = -INFINITY, sum = 0;
  int count = 0;
  cJSON_ArrayForEach(line, lines) {
    if (number(line, "step") == step) es = fmax(es, number(line, "es"));
  }
  Return *all = malloc((size_t)cJSON_GetArraySize(lines) * sizeof *all);
  if (!all) return bfm_fail(BFM_NO_MEMORY, "out of memory for evaluations");
  cJSON_ArrayForEach(line, lines) {
    if (number(line, "step") != step || number(line, "es") != es) continue;
    all[count] = (Return){get(line, "task")->valuestring, number(line, "mean"), count, 1};
    count++;
  }
  int tasks = mean_over_seeds(all, count);
  cJSON *found = cJSON_AddObjectToObject(info, "evaluated");
  cJSON *returns = cJSON_AddObjectToObject(info, "returns");
  for (int i = 0; i < tasks; i++) {
    cJSON_AddNumberToObject(returns, all[i].task, all[i].mean);
    sum += all[i].mean;
  }
  free(all);
  cJSON_AddNumberToObject(found, "step", step);
  cJSON_AddNumberToObject(found, "es", es);
  cJSON_AddNumberToObject(found, "mean", rounded(sum / tasks));
  return BFM_OK;
}

// add the last line, with its tables as items of their own
static void last_info(const cJSON *line, cJSON *info) {
  static const char *const tables[] = {"returns", "losses", "config", "options", "log"};
  cJSON *last = cJSON_Duplicate(line, 1);
  cJSON_AddItemToObject(info, "last", last);
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    cJSON *table = cJSON_DetachItemFromObjectCaseSensitive(last, tables[i]);
    if (table) cJSON_AddItemToObject(info, tables[i], table);
  }
}

static int lines_info(const char *path, const cJSON *lines, cJSON *info) {
  TRY(check_lines(path, lines));
  const char *kind = kind_of(lines->child);
  cJSON_AddStringToObject(info, "kind", kind);
  cJSON_AddNumberToObject(info, "lines", cJSON_GetArraySize(lines));
  if (kind == evaluations) return evaluations_info(lines, info);
  last_info(lines->child->prev, info);
  return BFM_OK;
}

// ---------------------------------- runs ---------------------------------------------------------

void records_drop_unused(cJSON *config) {
  ExplorerOptions o;
  const char *algo = cJSON_GetStringValue(cJSON_GetObjectItem(config, "algo"));
  if (!algo || options_set(explorer_options, &o, "algo", algo)) return;
  for (const Option *option = explorer_options; option->name; option++) {
    if (!explorer_takes(o.algo, option->name)) cJSON_DeleteItemFromObject(config, option->name);
  }
}

// add the environment, tasks, step and configuration of a training state
static int state_info(const char *path, cJSON *info) {
  SafeTensors *file;
  TRY(safetensors_open(&file, path));
  const char *kind = safetensors_metadata(file, "bfm"), *env = safetensors_metadata(file, "env");
  const char *task = safetensors_metadata(file, "task");
  cJSON *config = cJSON_Parse(safetensors_metadata(file, "config"));
  cJSON *step = cJSON_Parse(safetensors_metadata(file, "step"));
  int offline = kind && !strcmp(kind, "explorer");
  int good =
      kind && (offline || !strcmp(kind, "state")) && cJSON_IsObject(config) && cJSON_IsNumber(step);
  if (offline) records_drop_unused(config);
  if (good && env) cJSON_AddStringToObject(info, "env", env);
  if (good && task) cJSON_AddStringToObject(info, "task", task);
  if (good) cJSON_AddNumberToObject(info, "step", step->valuedouble);
  if (good) cJSON_AddItemToObject(info, "config", cJSON_Duplicate(config, 1));
  cJSON_Delete(config);
  cJSON_Delete(step);
  safetensors_close(file);
  return good ? BFM_OK : bfm_fail(BFM_BAD_FILE, "%s is not the state of a run", path);
}

// add the data and settings of a run, checked as a resume checks them
static int record_info(const char *path, cJSON *info) {
  cJSON *record;
  TrainSettings settings;
  TRY(options_default(train_options, &settings));
  TRY(training_read_record(&record, path));
  char *text = cJSON_PrintUnformatted(get(record, "settings"));
  int status = text ? options_from_json(train_options, &settings, text)
                    : bfm_fail(BFM_NO_MEMORY, "out of memory for settings");
  free(text);
  cJSON_AddStringToObject(info, "kind", "run");
  cJSON_AddItemToObject(info, "data", cJSON_DetachItemFromObject(record, "data"));
  cJSON_AddItemToObject(info, "settings", cJSON_DetachItemFromObject(record, "settings"));
  cJSON_Delete(record);
  return status ? bfm_fail_prefix(BFM_BAD_FILE, "%s: ", path) : BFM_OK;
}

// an empty log is valid: the run's first evaluation has not finished
static int eval_log_info(const char *path, cJSON *info) {
  cJSON *lines;
  TRY(json_read_lines(&lines, path));
  const cJSON *first = lines->child;
  int status = first ? check_lines(path, lines) : BFM_OK;
  if (!status && first && kind_of(first) != evaluations) {
    status =
        bfm_fail(BFM_BAD_FILE, "%s is a %s, but must hold %s", path, kind_of(first), evaluations);
  }
  if (!status && first) status = evaluations_info(lines, info);
  cJSON_Delete(lines);
  return status;
}

int run_info(const char *path, cJSON *info) {
  char record[PATH_MAX], state[PATH_MAX], evals[PATH_MAX];
  Folder folder;
  TRY(folder_name(&folder, path));
  folder_file(&folder, "run.json", record, sizeof record);
  folder_file(&folder, "state.safetensors", state, sizeof state);
  folder_file(&folder, "eval.jsonl", evals, sizeof evals);
  TRY(record_info(record, info));
  if (!access(state, F_OK)) {
    TRY(state_info(state, info));
  } else {
    cJSON_AddNumberToObject(info, "step", folder_log_last(&folder, "log.jsonl", "step"));
  }
  return access(evals, F_OK) ? BFM_OK : eval_log_info(evals, info);
}

// ---------------------------------- prompts and goals --------------------------------------------

// add the norm of z, the model that it is for and the task
static int prompt_info(const char *path, const cJSON *prompt, cJSON *info) {
  static const char *const about[] = {"model", "fingerprint", "env", "prompt"};
  const cJSON *item, *z = get(prompt, "z");
  int d = cJSON_GetArraySize(z);
  double square = 0;
  cJSON_ArrayForEach(item, z) square += pow(cJSON_GetNumberValue(item), 2);
  if (!cJSON_IsArray(z) || !d || !isfinite(square)) {
    return bfm_fail(BFM_BAD_FILE, "%s: \"z\" must be an array of finite numbers", path);
  }
  cJSON_AddStringToObject(info, "kind", "z");
  for (size_t i = 0; i < sizeof about / sizeof *about; i++) {
    item = get(prompt, about[i]);
    if (item) cJSON_AddItemToObject(info, about[i], cJSON_Duplicate(item, 1));
  }
  cJSON_AddNumberToObject(info, "d", d);
  cJSON_AddItemToObject(info, "norm", log_number(sqrt(square)));
  return BFM_OK;
}

// add the length of each array
static int goal_info(const char *path, const cJSON *goal, cJSON *info) {
  const cJSON *array;
  TRY(prompt_check_goal(goal, path));
  cJSON_AddStringToObject(info, "kind", "goal");
  cJSON_ArrayForEach(array, goal) {
    cJSON_AddNumberToObject(info, array->string, cJSON_GetArraySize(array));
  }
  return BFM_OK;
}

// ---------------------------------- any JSON file ------------------------------------------------

// the whole run if the file is run.json in its folder, otherwise the record alone
static int record_or_run_info(const char *path, const cJSON *record, cJSON *info) {
  (void)record;
  const char *slash = strrchr(path, '/');
  if (strcmp(slash ? slash + 1 : path, "run.json")) return record_info(path, info);
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  return run_info(folder, info);
}

// kinds of files with a single object, each by a key that only this kind has
static const struct {
  const char *key;
  int (*info)(const char *path, const cJSON *object, cJSON *info);
} objects_of[] = {{"z", prompt_info},
                  {"checksum", record_or_run_info},
                  {"qpos", goal_info},
                  {"obs", goal_info}};

static int object_info(const char *path, const cJSON *object, cJSON *info) {
  for (size_t i = 0; i < sizeof objects_of / sizeof *objects_of; i++) {
    if (get(object, objects_of[i].key)) return objects_of[i].info(path, object, info);
  }
  return fail_unknown(path);
}

int records_info(const char *path, cJSON *info) {
  cJSON *objects;
  TRY(json_read_lines(&objects, path));
  const cJSON *first = objects->child;
  int status;
  if (!first) {
    status = bfm_fail(BFM_BAD_FILE, "%s is empty", path);
  } else if (kind_of(first) || first->next) {
    status = lines_info(path, objects, info);
  } else {
    status = object_info(path, first, info);
  }
  cJSON_Delete(objects);
  return status;
}
