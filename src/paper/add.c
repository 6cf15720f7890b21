// Entering runs of bfm train in the ledger. run.json says which data a run was made with,
// state.safetensors its configuration, eval.jsonl what it earned. Options say what is missing, and what
// nobody knows is listed in the line. Returns that are in the ledger already are not added again.

#include "paper/add.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/files.h"
#include "core/folder.h"
#include "data/safetensors.h"
#include "envs/domain.h"
#include "nets/checkpoint.h"
#include "paper/configuration.h"
#include "paper/evidence.h"
#include "paper/identify.h"
#include "paper/origin.h"
#include "train/eval_log.h"
#include "train/train.h"

#define AT(field) offsetof(PaperAddSettings, field)

const Option paper_add_options[] = {
    {"domain", OPTION_TEXT, AT(domain), "", 0, 0, NULL, "domain of the run, such as walker"},
    {"kind", OPTION_TEXT, AT(kind), "", 0, 0, NULL, "kind of its data, such as mood or rnd"},
    {"recipe", OPTION_TEXT, AT(recipe), "auto", 0, 0, NULL,
     "recipe that the run had by default, as for bfm train or as options: \"ortho=1 f-norm=off\"; "
     "auto: this version's"},
    {"commit", OPTION_TEXT, AT(commit), "", 0, 0, NULL, "commit of the program that made the run"},
    {.name = NULL},
};

// a run, as far as it is known
typedef struct {
  const PaperAddPlan *plan;
  Folder folder;
  TrainSettings train;   // of run.json, or the defaults
  cJSON *record;         // run.json, NULL: there is none
  int has_state;         // whether there is a state.safetensors, with …
  Configuration config;  // … the configuration
  int64_t obs_dim;
  char version[32];
  char env[OPTION_TEXT_SIZE], kind[OPTION_TEXT_SIZE], precision[OPTION_TEXT_SIZE];
  char recipe[OPTION_TEXT_SIZE];
  Origin origin;  // of the data; line NULL: unknown
  int data_read;  // whether the data itself was read, and not only its checksum in run.json
  PaperCell cell;
  char more[PAPER_TEXT];
  EvalLog evals;  // up to …
  int64_t step;   // … the step that is added
} Run;

// ---------------------------------- what the folder says -----------------------------------------

static int read_record(Run *r) {
  char path[PATH_MAX], algo[OPTION_TEXT_SIZE];
  TRY(options_default(train_options, &r->train));
  folder_file(&r->folder, "run.json", path, sizeof path);
  if (access(path, F_OK)) return BFM_OK;
  TRY(training_read_record(&r->record, path));
  const char *single = cJSON_GetStringValue(cJSON_GetObjectItem(r->record, "algo"));
  if (single) {
    snprintf(algo, sizeof algo, "%s", single);
    return bfm_fail(
        BFM_BAD_ARGUMENT,
        "%s is a run of %s, which learns policies of single tasks: only agents that are "
        "prompted can be added",
        r->folder.path, algo);
  }
  char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(r->record, "settings"));
  int status = text ? options_from_json(train_options, &r->train, text)
                    : bfm_fail(BFM_NO_MEMORY, "out of memory for settings");
  free(text);
  return status ? bfm_fail_prefix(BFM_BAD_FILE, "%s: ", path) : BFM_OK;
}

// The precision as it was used: on a CPU, auto is f32; whether another machine had a GPU is not known.
static void find_precision(Run *r, const SafeTensors *file) {
  cJSON *config = cJSON_Parse(safetensors_metadata(file, "config"));
  const char *device = cJSON_GetStringValue(cJSON_GetObjectItem(config, "device"));
  options_get(options_find(agent_options, "precision"), &r->config.agent, r->precision,
              sizeof r->precision);
  if (!strcmp(r->precision, "auto")) {
    snprintf(r->precision, sizeof r->precision, "%s",
             device && !strcmp(device, "cpu") ? "f32" : "");
  }
  cJSON_Delete(config);
}

static int read_state(Run *r) {
  char path[PATH_MAX];
  folder_file(&r->folder, "state.safetensors", path, sizeof path);
  if (access(path, F_OK)) return BFM_OK;
  SafeTensors *file;
  TRY(safetensors_open(&file, path));
  const char *kind = safetensors_metadata(file, "bfm"), *env = safetensors_metadata(file, "env");
  const char *version = safetensors_metadata(file, "version");
  int status = kind && !strcmp(kind, "state")
                   ? checkpoint_config(file, agent_options, &r->config.agent, NULL)
                   : bfm_fail(BFM_BAD_FILE, "it is not the state of an agent");
  if (!status) status = checkpoint_count(file, "obs_dim", 1, INT32_MAX, &r->obs_dim);
  if (!status) {
    snprintf(r->env, sizeof r->env, "%s", env ? env : "");
    snprintf(r->version, sizeof r->version, "%s", version ? version : "");
    find_precision(r, file);
    r->has_state = 1;
  }
  safetensors_close(file);
  if (status) return bfm_fail_prefix(status, "%s: ", path);
  return domain_check_obs(r->env, r->obs_dim, path);
}

// the names of the data files; the path if there is only one
static void name_data(const cJSON *record, char *names, size_t size, const char **path) {
  const cJSON *file, *files = cJSON_GetObjectItem(record, "data");
  *names = 0;
  cJSON_ArrayForEach(file, files) {
    const char *slash = strrchr(file->valuestring, '/');
    size_t at = strlen(names);
    snprintf(names + at, size - at, "%s%s", at ? " + " : "", slash ? slash + 1 : file->valuestring);
  }
  *path = cJSON_GetArraySize(files) == 1 ? files->child->valuestring : NULL;
}

// The data by its checksum in run.json. If the file is still there, it also says how it was made. The
// checksum of a run with a stride is that of other transitions than the file's, so it does not count.
static int find_data(Run *r) {
  if (!r->record) return BFM_OK;
  char names[PAPER_TEXT];
  const char *path;
  int64_t recorded = (int64_t)cJSON_GetObjectItem(r->record, "checksum")->valuedouble;
  name_data(r->record, names, sizeof names, &path);
  if (path && !access(path, F_OK)) {
    int64_t checksum = recorded;
    TRY(origin_read(&r->origin, path, r->env));
    if (r->train.stride > 1) TRY(origin_checksum(&checksum, path, r->env, r->train.stride));
    else checksum = r->origin.checksum;
    r->data_read = checksum == recorded;
    if (r->data_read) return BFM_OK;
    origin_free(&r->origin);
  }
  if (r->train.stride > 1) return BFM_OK;
  r->origin = (Origin){.checksum = recorded, .line = cJSON_CreateObject()};
  cJSON_AddStringToObject(r->origin.line, "file", names);
  cJSON_AddNumberToObject(r->origin.line, "checksum", (double)recorded);
  return BFM_OK;
}

// ---------------------------------- what the options say -----------------------------------------

// Take what an option says, unless the folder says something else.
static int settle(const Run *r, const char *option, const char *given, char *known, size_t size) {
  if (*known && *given && strcmp(known, given)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the run in %s has the %s %s, not %s: leave out --%s",
                    r->folder.path, option, known, given, option);
  }
  if (!*known) snprintf(known, size, "%s", given);
  return BFM_OK;
}

static int find_domain(Run *r, const Domain **domain) {
  TRY(settle(r, "domain", r->train.env, r->env, sizeof r->env));
  TRY(settle(r, "domain", r->plan->settings->domain, r->env, sizeof r->env));
  if (*r->env) return domain_find(domain, r->env);
  return bfm_fail(BFM_BAD_ARGUMENT, "%s does not say which domain its run is of: add --domain",
                  r->folder.path);
}

static int find_kind(Run *r) {
  const char *given = r->plan->settings->kind;
  const char *collector = r->origin.collector;
  if (*given && strncmp(given, collector, strlen(collector))) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the data of %s was collected with %s: leave out --kind %s",
                    r->folder.path, collector, given);
  }
  // a table's kind may be more than the collector, such as mood-small
  snprintf(r->kind, sizeof r->kind, "%s", *given ? given : collector);
  if (*r->kind) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "%s does not say which kind of data its run was made with: add --kind, such as "
                  "mood or rnd",
                  r->folder.path);
}

// A domain that has changed: the run must be of the present one.
static int check_version(const Run *r, const Domain *domain) {
  if (!domain->old_obs_dim || (r->origin.line && (r->has_state || r->data_read))) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "%s may be of the earlier %s, which %s: without run.json and state.safetensors "
                  "its run cannot be added",
                  r->folder.path, r->env, domain->old_obs);
}

static const char *given_text(const cJSON *options, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(options, name));
  return text ? text : "";
}

// the configuration from the options, if the folder has no state
static int configure(Run *r, cJSON *options) {
  if (r->has_state) {
    const cJSON *item = options->child;
    if (!item) return BFM_OK;
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s/state.safetensors has the configuration of the run: leave out --%s",
                    r->folder.path, item->string);
  }
  if (!*given_text(options, "algo")) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s has no state.safetensors: add --algo and the other options of the agent",
                    r->folder.path);
  }
  TRY(configuration_goal(options, r->env));
  TRY(identify_recipe(r->recipe, r->kind, options));
  return configuration_complete(&r->config, options, 0);
}

static int find_config(Run *r) {
  const char *given = r->plan->settings->recipe;
  cJSON *options = cJSON_Parse(r->plan->options), *precision;
  if (!options) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  if (!strcmp(given, "auto")) {
    options_get(options_find(train_options, "recipe"), &r->train, r->recipe, sizeof r->recipe);
  } else {
    snprintf(r->recipe, sizeof r->recipe, "%s", given);
  }
  precision = cJSON_DetachItemFromObject(options, "precision");
  given = precision ? precision->valuestring : "";
  if (!strcmp(given, "auto")) given = "";
  int status = settle(r, "precision", given, r->precision, sizeof r->precision);
  if (!status) status = configure(r, options);
  cJSON_Delete(options);
  cJSON_Delete(precision);
  return status;
}

// the cell, and the options beyond those of the table, as bfm paper run names them
static int find_cell(Run *r) {
  cJSON *more;
  char steps[32];
  TRY(identify_cell(&r->cell, &more, r->env, r->kind, r->recipe, &r->config));
  if (!r->record) r->train.eval_steps = r->plan->eval_steps;
  if (r->train.eval_steps) {
    snprintf(steps, sizeof steps, "%" PRId64, r->train.eval_steps);
    cJSON_AddStringToObject(more, "eval-steps", steps);
  }
  // auto is never tf32
  if (!strcmp(r->precision, "tf32")) cJSON_AddStringToObject(more, "precision", "tf32");
  configuration_more(more, r->more, sizeof r->more);
  cJSON_Delete(more);
  if (!r->record || !r->plan->eval_steps || r->plan->eval_steps == r->train.eval_steps) {
    return BFM_OK;
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "%s/run.json has the length of episodes: leave out --eval-steps %" PRId64,
                  r->folder.path, r->plan->eval_steps);
}

// ---------------------------------- the evaluation -----------------------------------------------

static const EvalLine *find_line(const EvalLog *evals, int64_t step, int64_t seed, int64_t es,
                                 const char *task) {
  for (int i = evals->count - 1; i >= 0; i--) {
    const EvalLine *l = &evals->lines[i];
    if (l->step == step && l->seed == seed && l->es == es && !strcmp(l->task, task)) return l;
  }
  return NULL;
}

static int has_step(const EvalLog *evals, int64_t step) {
  for (int i = 0; i < evals->count; i++) {
    if (evals->lines[i].step == step) return 1;
  }
  return 0;
}

// whether this line is the first with its seed and, if a step is given, with its es at that step
static int is_first(const EvalLog *evals, int at, int64_t step) {
  const EvalLine *l = &evals->lines[at];
  for (int i = 0; i < at; i++) {
    const EvalLine *m = &evals->lines[i];
    if (m->seed == l->seed && (!step || (m->step == step && m->es == l->es))) return 0;
  }
  return !step || l->step == step;
}

// Fail unless every seed of the log was evaluated on every task at a step, with each es of that step.
static int check_step(const Run *r, int64_t step) {
  const Task *task;
  for (int i = 0; i < r->evals.count; i++) {
    const EvalLine *at = &r->evals.lines[i];
    if (at->step != step || !is_first(&r->evals, i, step)) continue;
    for (int k = 0; k < r->evals.count; k++) {
      if (!is_first(&r->evals, k, 0)) continue;
      int64_t seed = r->evals.lines[k].seed;
      for (int t = 0; (task = task_at(r->env, t)); t++) {
        if (!paper_in_group(&r->cell, task, "all") ||
            find_line(&r->evals, step, seed, at->es, task->name)) {
          continue;
        }
        return bfm_fail(BFM_BAD_FILE,
                        "%s/eval.jsonl: the evaluation of step %" PRId64
                        " lacks %s's task %s (seed %" PRId64 ", es %" PRId64 ")",
                        r->folder.path, step, r->env, task->name, seed, at->es);
      }
    }
  }
  return BFM_OK;
}

// the last step before another
static int64_t step_before(const EvalLog *evals, int64_t step) {
  int64_t last = -1;
  for (int i = 0; i < evals->count; i++) {
    int64_t own = evals->lines[i].step;
    if (own < step && own > last) last = own;
  }
  return last;
}

// Find the step that is given, or else the last one with a complete evaluation; if there is none, the
// error is that of the last one.
static int find_step(Run *r) {
  TRY(eval_log_read(&r->evals, r->folder.path, INT64_MAX));
  if (!r->evals.count) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s has no eval.jsonl with evaluations: runs of bfm train --eval-every can be "
                    "added",
                    r->folder.path);
  }
  int64_t last = step_before(&r->evals, INT64_MAX), given = r->plan->steps;
  if (given && !has_step(&r->evals, given)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s/eval.jsonl has no evaluation of step %" PRId64 "; the last is of %" PRId64,
                    r->folder.path, given, last);
  }
  int64_t step = given ? given : last;
  int status = check_step(r, step);
  while (status && !given && (step = step_before(&r->evals, step)) >= 0) {
    if (!check_step(r, step)) status = BFM_OK;
  }
  if (status) return check_step(r, given ? given : last);
  r->step = step;
  eval_log_free(&r->evals);
  return eval_log_read(&r->evals, r->folder.path, step);  // nothing after that step
}

// ---------------------------------- lines --------------------------------------------------------

// seconds of training until the step; NaN if the log does not say
static double find_seconds(const Run *r) {
  char path[PATH_MAX], *text = NULL;
  size_t size = 0;
  double seconds = NAN;
  FILE *file;
  folder_file(&r->folder, "log.jsonl", path, sizeof path);
  if (input_stream_if_any(path, &file) || !file) return seconds;
  while (getline(&text, &size, file) > 0) {
    cJSON *line = cJSON_Parse(text);
    double step = cJSON_GetNumberValue(cJSON_GetObjectItem(line, "step"));
    double own = cJSON_GetNumberValue(cJSON_GetObjectItem(line, "seconds"));
    if (step <= (double)r->step && isfinite(own)) seconds = own;
    cJSON_Delete(line);
  }
  free(text);
  fclose(file);
  return seconds;
}

// list what bfm paper run would have recorded
static void add_unknown(cJSON *line) {
  static const char *const keys[] = {"data",    "transitions", "seconds", "device", "precision",
                                     "version", "commit",      "machine", "time"};
  cJSON *unknown = cJSON_CreateArray();
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (cJSON_HasObjectItem(line, keys[i])) continue;
    cJSON_AddItemToArray(unknown, cJSON_CreateString(keys[i]));
  }
  cJSON_AddItemToObject(line, "unknown", unknown);
}

static void add_text(cJSON *line, const char *name, const char *text) {
  if (*text) cJSON_AddStringToObject(line, name, text);
}

static cJSON *make_line(const Run *r, const EvalLine *first, double seconds, const char *hash) {
  const Task *task;
  cJSON *line = cJSON_CreateObject();
  cJSON_AddStringToObject(line, "run", r->cell.run);
  cJSON_AddStringToObject(line, "more", r->more);
  cJSON_AddNumberToObject(line, "seed", (double)first->seed);
  cJSON_AddNumberToObject(line, "steps", (double)r->step);
  cJSON_AddNumberToObject(line, "es", (double)first->es);
  cJSON_AddNumberToObject(line, "episodes", (double)first->episodes);
  cJSON_AddNumberToObject(line, "eval_steps", (double)r->train.eval_steps);
  cJSON *returns = cJSON_AddObjectToObject(line, "returns");
  for (int t = 0; (task = task_at(r->env, t)); t++) {
    const EvalLine *l = find_line(&r->evals, r->step, first->seed, first->es, task->name);
    if (l) cJSON_AddNumberToObject(returns, task->name, l->mean);
  }
  if (r->origin.line) { cJSON_AddItemToObject(line, "data", cJSON_Duplicate(r->origin.line, 1)); }
  if (r->origin.transitions) {
    cJSON_AddNumberToObject(line, "transitions", (double)r->origin.transitions);
  }
  if (isfinite(seconds)) cJSON_AddNumberToObject(line, "seconds", round(1e3 * seconds) / 1e3);
  add_text(line, "precision", r->precision);
  cJSON *curve = evidence_curve(&r->evals, first->seed, first->es);
  if (curve) cJSON_AddItemToObject(line, "curve", curve);
  add_text(line, "version", r->version);
  add_text(line, "commit", r->plan->settings->commit);
  cJSON_AddStringToObject(line, "source", "log");
  cJSON_AddStringToObject(line, "folder", r->folder.path);
  add_unknown(line);
  cJSON_AddStringToObject(line, "config_hash", hash);
  cJSON_AddItemToObject(line, "config", configuration_json(&r->config));
  return line;
}

static int same_returns(const cJSON *a, const cJSON *b) {
  const cJSON *item;
  cJSON_ArrayForEach(item, a) {
    const cJSON *other = cJSON_GetObjectItemCaseSensitive(b, item->string);
    if (!cJSON_IsNumber(other) || other->valuedouble != item->valuedouble) return 0;
  }
  return 1;
}

// Whether a line has these returns of this seed and step: it was added before, or bfm paper run made it.
static int is_there(const Ledger *ledger, const cJSON *line, const Run *r, const EvalLine *first) {
  for (int i = 0; i < ledger->count; i++) {
    const LedgerLine *l = &ledger->lines[i];
    if (l->seed == first->seed && l->steps == r->step && l->es == first->es &&
        !strcmp(l->run, r->cell.run) &&
        same_returns(cJSON_GetObjectItem(line, "returns"), l->returns)) {
      return 1;
    }
  }
  return 0;
}

// make a line for each seed and es that the ledger lacks; *seeds: how many the run has
static int make_lines(const Run *r, const Ledger *ledger, cJSON *lines, int *seeds) {
  char *text, hash[HASH_SIZE];
  TRY(configuration_text(&text, &r->config));
  configuration_hash(text, hash);
  free(text);
  double seconds = find_seconds(r);
  *seeds = 0;
  for (int i = 0; i < r->evals.count; i++) {
    const EvalLine *first = &r->evals.lines[i];
    *seeds += is_first(&r->evals, i, 0);
    if (!is_first(&r->evals, i, r->step)) continue;
    cJSON *line = make_line(r, first, seconds, hash);
    if (is_there(ledger, line, r, first)) cJSON_Delete(line);
    else cJSON_AddItemToArray(lines, line);
  }
  return BFM_OK;
}

// ---------------------------------- a folder -----------------------------------------------------

static int describe(Run *r) {
  const Domain *domain;
  TRY(read_record(r));
  TRY(read_state(r));
  TRY(find_domain(r, &domain));
  TRY(find_data(r));
  TRY(find_kind(r));
  TRY(check_version(r, domain));
  TRY(find_config(r));
  TRY(find_cell(r));
  return find_step(r);
}

static int write_lines(const Run *r) {
  const PaperAddPlan *plan = r->plan;
  Ledger ledger;
  int seeds;
  TRY(ledger_read(&ledger, plan->results));
  cJSON *lines = cJSON_CreateArray();
  int status = make_lines(r, &ledger, lines, &seeds), count = cJSON_GetArraySize(lines);
  if (!status && count) status = ledger_append(plan->results, lines);
  cJSON_Delete(lines);
  ledger_free(&ledger);
  TRY(status);
  char line[PATH_MAX];
  snprintf(line, sizeof line, "%s %s: %s%s%s, %d seed%s, %" PRId64 " steps",
           count ? "added  " : "done   ", r->cell.method->method, r->cell.run, *r->more ? " " : "",
           r->more, seeds, seeds > 1 ? "s" : "", r->step);
  plan->report(plan->context, line);
  return BFM_OK;
}

static int add_folder(const PaperAddPlan *plan, const char *path) {
  Run r = {.plan = plan, .config.offline = -1};
  if (!path_is_folder(path)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is not a folder: name that of a run of bfm train", path);
  }
  TRY(folder_name(&r.folder, path));
  int status = describe(&r);
  if (!status) status = write_lines(&r);
  cJSON_Delete(r.record);
  origin_free(&r.origin);
  eval_log_free(&r.evals);
  return status;
}

int paper_add(const PaperAddPlan *plan) {
  for (int i = 0; i < plan->count; i++) TRY(add_folder(plan, plan->folders[i]));
  return BFM_OK;
}
