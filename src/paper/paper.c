// Running the paper's tables, cell by cell: collect the data if it is missing, train, evaluate the last
// step as the paper does, and append the results to the ledger. A run can be interrupted at any moment:
// data, run and ledger record their progress, and the next call continues there. Several processes may
// run a table together, on any number of machines: each claims the data and the runs that it makes.

#include "paper/paper.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/config.h"
#include "core/monitor.h"
#include "core/paths.h"
#include "data/hdf5.h"
#include "data/writer.h"
#include "nets/device.h"
#include "paper/claims.h"
#include "paper/configuration.h"
#include "paper/datasets.h"
#include "paper/evidence.h"
#include "paper/origin.h"
#include "sweep/claim.h"
#include "sweep/journal.h"
#include "train/eval_log.h"
#include "train/recipes.h"
#include "train/train.h"

#define AT(field) offsetof(PaperSettings, field)

const Option paper_options[] = {
    {"steps", OPTION_INT, AT(steps), "0", 0, 1e12, NULL, "training steps; 0: the table's"},
    {"seeds", OPTION_INT, AT(seeds), "0", 0, 64, NULL, "seeds per cell; 0: the table's"},
    {"episodes", OPTION_INT, AT(episodes), "0", 0, 100000, NULL,
     "evaluation episodes per task; 0: the table's"},
    {"filter", OPTION_TEXT, AT(filter), "", 0, 0, NULL,
     "only cells whose domain, data and method contain these words: \"walker FB-AW\""},
    {"data", OPTION_TEXT, AT(data), "data", 0, 0, NULL,
     "folder of datasets, DOMAIN-KIND.h5 or named as D4RL publishes them; missing ones are "
     "collected"},
    {"data-steps", OPTION_INT, AT(data_steps), "0", 0, 1e12, NULL,
     "transitions to collect, 0: 5M, or as many as the kind of data has; an interrupted collection "
     "resumes if it has fewer"},
    {"runs", OPTION_TEXT, AT(runs), "runs/paper", 0, 0, NULL, "folder of training runs"},
    {"results", OPTION_TEXT, AT(results), "results", 0, 0, NULL,
     "folder of the ledger and the paper's numbers"},
    {"eval-every", OPTION_INT, AT(eval_every), "0", 0, 1e12, NULL,
     "training steps between evaluations; 0: the table's, most evaluate only the last step"},
    {"eval-steps", OPTION_INT, AT(eval_steps), "0", 0, 1e6, NULL,
     "control steps per evaluation episode; 0: the domain's"},
    {.name = NULL},
};

#define EXPIRE_SECONDS 120  // without a renewal, until a claim of another machine is dead

// a cell, and the claims that this process has seen of its data and of its run
typedef struct {
  PaperCell cell;
  CellClaim data, run;
  int finished;
} Job;

typedef struct {
  const PaperPlan *plan;
  Claims *claims;
  Journal journal;
  Job *jobs;
  int count;
} Worker;

static void report(const PaperPlan *plan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void report(const PaperPlan *plan, const char *format, ...) {
  char line[PATH_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  plan->report(plan->context, line);
}

// ---------------------------------- claims -------------------------------------------------------

// the progress of a claimed cell, which stops when another process has taken the cell over
static int claimed_progress(void *context, const bfm_progress *progress) {
  const Worker *w = context;
  int stop = w->plan->progress ? w->plan->progress(w->plan->context, progress) : 0;
  return stop || claims_lost(w->claims);
}

// give the claim back; a cell that another process took over is that process's
static int end_claim(const Worker *w, const CellClaim *claim, int status, int *busy) {
  int lost = claims_lost(w->claims), ended = claims_end(w->claims, CLAIM_FREE);
  if (!lost) return status ? status : ended;
  report(w->plan, "lost    %s to another process, because its claim was not renewed in time",
         claim->name);
  *busy = 1;
  return BFM_OK;
}

// ---------------------------------- data ---------------------------------------------------------

typedef struct {
  int64_t rows, planned;
} Progress;

static int read_progress(hid_t file, void *context) {
  Progress *progress = context;
  int64_t columns;
  int axes;
  progress->planned = hdf5_attribute_number(file, "planned_rows", 0);
  return hdf5_shape(file, "rewards", &progress->rows, &columns, &axes);
}

// whether the file's collection was interrupted before `enough` rows; 0 for files of other programs
static int is_interrupted(const char *path, int64_t enough) {
  Progress progress = {0};
  hdf5_use(path, read_progress, &progress);
  return progress.rows < progress.planned && progress.rows < enough;
}

// wait while another process collects the data
static int wait_for_data(const PaperPlan *plan, const char *path) {
  Monitor monitor = {.call = plan->progress, .context = plan->context};
  if (!writer_is_open(path)) return BFM_OK;
  report(plan, "wait    for the process that writes %s", path);
  monitor_begin(&monitor, "wait", "", 0, 0);
  while (writer_is_open(path)) {
    if (monitor_update(&monitor, 0, NULL)) {
      return bfm_fail(BFM_INTERRUPTED, "stopped while another process was writing %s", path);
    }
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  }
  return BFM_OK;
}

static int64_t data_steps(const PaperPlan *plan, const PaperCell *cell) {
  return plan->settings.data_steps ? plan->settings.data_steps : paper_data_steps(cell->data);
}

// DATA/DOMAIN-KIND.h5, or the file as D4RL publishes it if only that is there
static void find_path(const PaperPlan *plan, const PaperCell *cell, char *path, size_t size) {
  char name[NAME_MAX];
  const char *folder = plan->settings.data;
  snprintf(path, size, "%s/%s-%s.h5", folder, cell->domain, cell->data);
  paper_data_original(cell->domain, cell->data, name, sizeof name);
  if (!access(path, F_OK) || !*name) return;
  snprintf(path, size, "%s/%s", folder, name);
  if (access(path, F_OK)) snprintf(path, size, "%s/%s-%s.h5", folder, cell->domain, cell->data);
}

// D4RL's file of a cell under its own name, and whether it is there
static int find_original(const PaperPlan *plan, const PaperCell *cell, char *name, size_t size) {
  char path[PATH_MAX];
  paper_data_original(cell->domain, cell->data, name, size);
  snprintf(path, sizeof path, "%s/%s", plan->settings.data, name);
  return *name && !access(path, F_OK);
}

static int refuse_mixture(const PaperPlan *plan, const PaperCell *cell, const char *found,
                          const char *missing) {
  char command[512];
  const char *folder = plan->settings.data;
  if (!strcmp(cell->domain, "kitchen")) {
    return bfm_fail(BFM_IO,
                    "%s has %s, but not %s: put it there, or choose other cells by --filter",
                    folder, found, missing);
  }
  paper_data_command(cell->domain, cell->data, command, sizeof command);
  return bfm_fail(
      BFM_IO,
      "%s has %s, but not %s: put it there, choose other cells by --filter, or put data "
      "there that bfm makes: %s",
      folder, found, missing, command);
}

// A folder with some of D4RL's files is not filled up with data that bfm collects: a table would mix
// the two.
static int check_originals(const PaperPlan *plan) {
  char found[NAME_MAX], missing[NAME_MAX], path[PATH_MAX];
  PaperCell cell;
  int any = 0;
  for (int i = 0; !any && paper_cell_at(plan->table, i, &cell); i++) {
    any = find_original(plan, &cell, found, sizeof found);
  }
  for (int i = 0; any && paper_cell_at(plan->table, i, &cell); i++) {
    if (!paper_cell_matches(&cell, plan->settings.filter)) continue;
    find_path(plan, &cell, path, sizeof path);
    if (!access(path, F_OK)) continue;
    find_original(plan, &cell, missing, sizeof missing);
    return refuse_mixture(plan, &cell, found, missing);
  }
  return BFM_OK;
}

static int has_data(const PaperPlan *plan, const PaperCell *cell, const char *path) {
  return !access(path, F_OK) && !is_interrupted(path, data_steps(plan, cell));
}

static int collect_data(const Worker *w, const PaperCell *cell, const char *path) {
  const PaperPlan *plan = w->plan;
  char original[NAME_MAX];
  Folder folder;
  int exists = !access(path, F_OK);
  paper_data_original(cell->domain, cell->data, original, sizeof original);
  TRY(folder_name(&folder, plan->settings.data));
  TRY(folder_make(&folder));
  cJSON *options = paper_data_options(cell->data, plan->settings.data_steps);
  char *given = cJSON_PrintUnformatted(options);
  cJSON_Delete(options);
  if (!given) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  bfm_collection run = {.size = sizeof run, .env = exists ? NULL : cell->domain, .output = path,
                        .options = exists ? NULL : given, .resume = exists,
                        .progress = claimed_progress, .context = (void *)w};
  if (exists || !*original) report(plan, "collect %s", path);
  else report(plan, "collect %s, because neither it nor D4RL's %s is there", path, original);
  int status = bfm_collect(&run);
  free(given);
  return status;
}

static int refuse_kitchen(const PaperCell *cell, const char *path) {
  char original[NAME_MAX];
  paper_data_original(cell->domain, cell->data, original, sizeof original);
  return bfm_fail(BFM_IO,
                  "%s is missing and cannot be collected: put D4RL's kitchen-%s-v0 there, or as "
                  "%s into the same folder",
                  path, cell->data + strlen("d4rl-"), original);
}

// collect the data unless it is there; *busy: another process collects it
static int make_data(const Worker *w, Job *job, const char *path, int *busy) {
  const PaperCell *cell = &job->cell;
  int taken;
  TRY(wait_for_data(w->plan, path));
  if (has_data(w->plan, cell, path)) return BFM_OK;
  if (access(path, F_OK) && !strcmp(cell->domain, "kitchen")) return refuse_kitchen(cell, path);
  snprintf(job->data.name, sizeof job->data.name, "data-%s-%s", cell->domain, cell->data);
  TRY(claims_take(w->claims, &job->data, 1, &taken));
  *busy = !taken;
  if (!taken) return BFM_OK;
  int status = wait_for_data(w->plan, path);
  if (!status && !has_data(w->plan, cell, path)) status = collect_data(w, cell, path);
  return end_claim(w, &job->data, status, busy);
}

// ---------------------------------- a training run -----------------------------------------------

// a training run of a cell, with the seeds first … first + count - 1
typedef struct {
  Worker *worker;
  const PaperPlan *plan;  // the worker's
  const PaperCell *cell;
  int64_t steps, episodes, first, count;
  char more[PAPER_TEXT];  // options other than the table's, such as "preset=small batch=64"
  char data[PATH_MAX - 256], folder[PATH_MAX - 256];
  const Origin *origin;  // of the data
  Configuration config;  // complete, apart from the seeds
  char *config_text;     // configuration_text
} Run;

// the options that are given for all cells, without those that a cell's agent does not have
static cJSON *given_options(const PaperPlan *plan, const PaperCell *cell) {
  int offline = paper_cell_offline(cell);
  cJSON *options = cJSON_Parse(plan->options);
  for (cJSON *item = options ? options->child : NULL, *next; item && offline >= 0; item = next) {
    next = item->next;
    if (options_find(explorer_options, item->string) && explorer_takes(offline, item->string))
      continue;
    cJSON_Delete(cJSON_DetachItemViaPointer(options, item));
  }
  return options;
}

// the name of a run without its seeds; a checksum tells configurations and data apart
static void name_run(const Run *r, char *out, size_t size) {
  char hash[HASH_SIZE], key[96];
  configuration_hash(r->config_text, hash);
  snprintf(key, sizeof key, "%s %" PRId64 " %" PRId64, hash, r->origin->checksum,
           r->plan->settings.eval_steps);
  configuration_hash(key, hash);
  snprintf(out, size, "%.*s-%s-%" PRId64, (int)size - 40, r->cell->run, hash, r->steps);
  for (char *c = out; *c; c++) {
    if (*c == ' ' || *c == '=') *c = '-';
  }
}

static void name_folder(const Run *r, char *out, size_t size) {
  char name[2 * PAPER_TEXT];
  name_run(r, name, sizeof name);
  snprintf(out, size, "%s/%s-seed%" PRId64 "x%" PRId64, r->plan->settings.runs, name, r->first,
           r->count);
}

// the options that are given and the table's; NULL if out of memory
static cJSON *options_of(const Run *r) {
  cJSON *options = given_options(r->plan, r->cell);
  if (!recipe_add(paper_options_of(r->cell), options)) return options;
  cJSON_Delete(options);
  return NULL;
}

// the whole configuration, as training completes it from the options, the recipe and the preset
static int find_config(Run *r) {
  cJSON *options = options_of(r);
  int status = options ? configuration_goal(options, r->cell->domain)
                       : bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  if (!status) status = recipe_apply("auto", recipe_kind(r->origin->collector), options);
  if (!status) status = configuration_complete(&r->config, options, r->steps);
  if (!status) status = configuration_text(&r->config_text, &r->config);
  cJSON_Delete(options);
  return status;
}

static char *agent_options_of(const Run *r) {
  cJSON *options = options_of(r);
  char number[32];
  const struct {
    const char *name;
    int64_t value;
  } seeds[] = {{"seed", r->first}, {"seeds", r->count}};
  for (int i = 0; i < 2; i++) {
    snprintf(number, sizeof number, "%" PRId64, seeds[i].value);
    cJSON_DeleteItemFromObject(options, seeds[i].name);
    cJSON_AddStringToObject(options, seeds[i].name, number);
  }
  char *text = options ? cJSON_PrintUnformatted(options) : NULL;
  cJSON_Delete(options);
  return text;
}

// what the ledger records of a run in addition to its returns
typedef struct {
  double seconds;
  char device[64];
  const char *precision;
  Configuration config;
  cJSON *bias;  // [replicas] of evidence_bias; NULL: no claim needs it
} Trained;

// the precision as given; auto is what device_open makes of it
static const char *precision_name(int given, int on_cpu, int auto_on_gpu) {
  static const char *const names[] =
      {[DEVICE_F32] = "f32", [DEVICE_TF32] = "tf32", [DEVICE_BF16] = "bf16"};
  return names[given != DEVICE_AUTO ? given : on_cpu ? DEVICE_F32 : auto_on_gpu];
}

static void describe_training(const Training *t, Trained *done) {
  const char *device;
  const bfm_explorer *learner = t->offline.learner;
  *done = (Trained){.seconds = t->before + t->seconds, .config.offline = t->offline.algo};
  if (t->agent) {
    int precision = t->agent->config.precision;
    done->config.agent = t->agent->config;
    done->precision = precision_name(precision, agent_on_cpu(t->agent), DEVICE_BF16);
    device = t->agent->ops->name;
  } else {
    int precision = explorer_options_of(learner)->precision;
    done->config.single = *explorer_options_of(learner);
    done->precision = precision_name(precision, explorer_on_cpu(learner), DEVICE_TF32);
    device = explorer_device(learner);
  }
  snprintf(done->device, sizeof done->device, "%s", device);
}

static int each_step(void *context, int64_t done, int64_t total) {
  Monitor *monitor = context;
  monitor->progress.total = total;
  return monitor_update(monitor, done, NULL);
}

// measure the bias of the trained agents if a claim needs it
static int measure_bias(const Run *r, bfm_agent *agent, cJSON **bias) {
  *bias = NULL;
  if (!claims_need_bias(r->cell)) return BFM_OK;
  Monitor monitor = {.call = claimed_progress, .context = r->worker};
  monitor_begin(&monitor, "bias", "steps", 0, 0);
  const bfm_evaluation how = {.size = sizeof how, .threads = (int)agent->config.threads,
                              .each = each_step, .context = &monitor};
  return evidence_bias(agent, r->cell->domain, r->episodes, r->plan->settings.eval_steps, &how,
                       bias);
}

// the settings of the training: the table's, then those of the kind of data; NULL if out of memory
static char *settings_of(const Run *r) {
  const PaperSettings *s = &r->plan->settings;
  int64_t evaluations = paper_cell_evaluations(r->cell);
  int64_t every = s->eval_every ? s->eval_every : (r->steps + evaluations - 1) / evaluations;
  cJSON *settings = cJSON_CreateObject();
  cJSON_AddNumberToObject(settings, "steps", (double)r->steps);
  cJSON_AddNumberToObject(settings, "eval-every", (double)every);
  cJSON_AddNumberToObject(settings, "eval-episodes", (double)r->episodes);
  cJSON_AddNumberToObject(settings, "eval-steps", (double)s->eval_steps);
  if (paper_cell_offline(r->cell) < 0) cJSON_AddStringToObject(settings, "eval-es", "both");
  cJSON_AddStringToObject(settings, "env", r->cell->domain);
  int bad = recipe_add(paper_data_training(r->cell->data), settings);
  char *text = bad ? NULL : cJSON_PrintUnformatted(settings);
  cJSON_Delete(settings);
  return text;
}

static int train(const Run *r, Trained *done) {
  char state[PATH_MAX];
  snprintf(state, sizeof state, "%s/state.safetensors", r->folder);
  char *options = agent_options_of(r), *settings = settings_of(r);
  if (!options || !settings) {
    free(options);
    free(settings);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  }
  const char *data = r->data;
  int resume = !access(state, F_OK);
  TrainPlan plan = {.data = &data, .data_count = 1, .folder = r->folder, .settings = settings,
                    .options = resume ? NULL : options, .resume = resume,
                    .progress = claimed_progress, .context = r->worker};
  Training training;
  int status = training_open(&training, &plan);
  free(options);
  free(settings);
  TRY(status);
  status = training_run(&training);
  describe_training(&training, done);
  if (!status) status = measure_bias(r, training.agent, &done->bias);
  training_close(&training);
  return status;
}

// ---------------------------------- the ledger ---------------------------------------------------

// the ledger's line for a seed and es, from the evaluation of the last step; `first` is the evaluation
// of its first task
static cJSON *ledger_line(const Run *r, const EvalLog *evals, const EvalLine *first) {
  cJSON *line = cJSON_CreateObject();
  cJSON_AddStringToObject(line, "run", r->cell->run);
  cJSON_AddStringToObject(line, "more", r->more);
  cJSON_AddNumberToObject(line, "seed", (double)first->seed);
  cJSON_AddNumberToObject(line, "steps", (double)r->steps);
  cJSON_AddNumberToObject(line, "es", (double)first->es);
  cJSON_AddNumberToObject(line, "episodes", (double)first->episodes);
  cJSON_AddNumberToObject(line, "eval_steps", (double)r->plan->settings.eval_steps);
  cJSON *returns = cJSON_AddObjectToObject(line, "returns");
  for (int i = 0; i < evals->count; i++) {
    const EvalLine *l = &evals->lines[i];
    if (l->step != r->steps || l->seed != first->seed || l->es != first->es) continue;
    cJSON_AddNumberToObject(returns, l->task, l->mean);
  }
  return line;
}

static int write_lines(const Run *r, const Trained *done) {
  EvalLog evals;
  char hash[HASH_SIZE], *text;
  TRY(configuration_text(&text, &done->config));
  configuration_hash(text, hash);
  free(text);
  TRY(eval_log_read(&evals, r->folder, r->steps));
  cJSON *lines = cJSON_CreateArray();
  for (int64_t seed = r->first; seed < r->first + r->count; seed++) {
    for (int i = 0; i < evals.count; i++) {
      // make one line for each es, at its first task
      const EvalLine *l = &evals.lines[i];
      int first = l->step == r->steps && l->seed == seed;
      for (int k = 0; k < i && first; k++) {
        const EvalLine *m = &evals.lines[k];
        first = m->step != l->step || m->seed != l->seed || m->es != l->es;
      }
      if (!first) continue;
      cJSON *line = ledger_line(r, &evals, l);
      cJSON_AddItemToObject(line, "data", cJSON_Duplicate(r->origin->line, 1));
      cJSON_AddNumberToObject(line, "transitions", (double)r->origin->transitions);
      cJSON_AddNumberToObject(line, "seconds", round(1e3 * done->seconds) / 1e3);
      cJSON_AddStringToObject(line, "device", done->device);
      cJSON_AddStringToObject(line, "precision", done->precision);
      cJSON *curve = evidence_curve(&evals, seed, l->es);
      if (curve) cJSON_AddItemToObject(line, "curve", curve);
      if (done->bias && !l->es) {  // by the policy's mean, as measured
        const cJSON *bias = cJSON_GetArrayItem(done->bias, (int)(seed - r->first));
        cJSON_AddItemToObject(line, "bias", cJSON_Duplicate(bias, 1));
      }
      journal_sign(line);
      cJSON_AddStringToObject(line, "config_hash", hash);
      cJSON_AddItemToObject(line, "config", configuration_json(&done->config));
      cJSON_AddItemToArray(lines, line);
    }
  }
  int status =
      cJSON_GetArraySize(lines)
          ? journal_append(&r->worker->journal, lines)
          : bfm_fail(BFM_BAD_FILE, "%s has no evaluation of step %" PRId64, r->folder, r->steps);
  cJSON_Delete(lines);
  eval_log_free(&evals);
  return status;
}

// ---------------------------------- a table ------------------------------------------------------

// Find the first seed that the ledger lacks. Seeds are run in order, so the missing ones are the last.
static int find_missing(Run *r, int64_t seeds) {
  const PaperSettings *s = &r->plan->settings;
  cJSON *given = cJSON_Parse(r->plan->options);
  const char *precision = cJSON_GetStringValue(cJSON_GetObjectItem(given, "precision"));
  LedgerLine key = {.run = r->cell->run, .steps = r->steps, .eval_steps = s->eval_steps,
                    .checksum = r->origin->checksum, .config = r->config_text,
                    .es = r->cell->method->es, .precision = precision ? precision : "auto"};
  Ledger ledger;
  int status = ledger_read(&ledger, s->results);
  r->first = 0;
  while (!status && r->first < seeds && ledger_find(&ledger, &key, r->first, r->episodes)) {
    r->first++;
  }
  if (!status) ledger_free(&ledger);
  cJSON_Delete(given);
  r->count = seeds - r->first;
  return status;
}

static int run_missing(Run *r) {
  const PaperPlan *plan = r->plan;
  const PaperCell *cell = r->cell;
  name_folder(r, r->folder, sizeof r->folder);
  report(plan, "train   %s: %s%s%s, %" PRId64 " seed%s, %" PRId64 " steps", cell->method->method,
         cell->run, *r->more ? " " : "", r->more, r->count, r->count > 1 ? "s" : "", r->steps);
  Trained done = {.bias = NULL};
  int status = train(r, &done);
  if (status == BFM_INTERRUPTED) {
    return bfm_fail(status,
                    "stopped while training %s in %s; the same bfm paper run command resumes it",
                    cell->method->method, r->folder);
  }
  if (!status && !claims_renew(r->worker->claims)) status = write_lines(r, &done);
  cJSON_Delete(done.bias);
  return status;
}

// the data of the previous cell, which most often is also that of the next one
typedef struct {
  char path[PATH_MAX];
  Origin origin;
} LastData;

static int find_data(const Run *r, Job *job, LastData *last, int *busy) {
  TRY(make_data(r->worker, job, r->data, busy));
  if (*busy || !strcmp(last->path, r->data)) return BFM_OK;
  origin_free(&last->origin);
  *last->path = 0;
  TRY(origin_read(&last->origin, r->data, r->cell->domain));
  snprintf(last->path, sizeof last->path, "%s", r->data);
  return BFM_OK;
}

// run the seeds that are missing, unless another process runs them
static int run_claimed(Run *r, Job *job, int64_t seeds, int *busy) {
  int taken;
  name_run(r, job->run.name, sizeof job->run.name);
  TRY(claims_take(r->worker->claims, &job->run, 1, &taken));
  *busy = !taken;
  if (!taken) return BFM_OK;
  int status = find_missing(r, seeds);  // by now another process may have run them
  if (!status && r->count) status = run_missing(r);
  return end_claim(r->worker, &job->run, status, busy);
}

static int run_config(Run *r, Job *job, int *busy) {
  const PaperPlan *plan = r->plan;
  int64_t seeds = plan->settings.seeds ? plan->settings.seeds : plan->table->seeds;
  TRY(find_config(r));
  TRY(find_missing(r, seeds));
  if (r->count) return run_claimed(r, job, seeds, busy);
  report(plan, "done    %s: %s", r->cell->method->method, r->cell->run);
  return BFM_OK;
}

// *busy: another process makes the data or runs the cell
static int run_cell(Worker *w, Job *job, LastData *last, int *busy) {
  const PaperSettings *s = &w->plan->settings;
  const PaperCell *cell = &job->cell;
  Run r = {.worker = w, .plan = w->plan, .cell = cell, .origin = &last->origin,
           .steps = s->steps ? s->steps : paper_cell_steps(cell),
           .episodes = s->episodes ? s->episodes : w->plan->table->episodes};
  cJSON *more = given_options(w->plan, cell);
  if (s->eval_steps) {
    char steps[32];
    snprintf(steps, sizeof steps, "%" PRId64, s->eval_steps);
    cJSON_AddStringToObject(more, "eval-steps", steps);
  }
  configuration_more(more, r.more, sizeof r.more);
  cJSON_Delete(more);
  find_path(w->plan, cell, r.data, sizeof r.data);
  *busy = 0;
  TRY(find_data(&r, job, last, busy));
  int status = *busy ? BFM_OK : run_config(&r, job, busy);
  free(r.config_text);
  return status;
}

// Run the cells that are left, one after the other; a cell that diverges is reported and skipped.
// *left: cells that other processes are busy with.
static int run_jobs(Worker *w, LastData *last, int *left, int *diverged) {
  *left = 0;
  for (int i = 0; i < w->count; i++) {
    Job *job = &w->jobs[i];
    int busy = 0, status = job->finished ? BFM_OK : run_cell(w, job, last, &busy);
    if (status == BFM_DIVERGED) {
      report(w->plan, "failed  %s", bfm_error());
      ++*diverged;
      status = BFM_OK;
    }
    TRY(status);
    job->finished = !busy;
    *left += busy;
  }
  return BFM_OK;
}

// wait a moment for the processes that are busy with cells
static int wait_for_cells(const Worker *w, int left) {
  Monitor monitor = {.call = w->plan->progress, .context = w->plan->context};
  monitor_begin(&monitor, "wait", "", 0, 0);
  for (int i = 0; i < 5; i++) {
    if (monitor_update(&monitor, 0, NULL)) {
      return bfm_fail(BFM_INTERRUPTED, "stopped while other processes were running %d cells", left);
    }
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  }
  return BFM_OK;
}

static int run_all(Worker *w) {
  LastData last = {.path = ""};
  int diverged = 0, left, told = 0, status;
  while (!(status = run_jobs(w, &last, &left, &diverged)) && left) {
    if (left != told) report(w->plan, "wait    for other processes, which run %d cells", left);
    told = left;
    if ((status = wait_for_cells(w, left))) break;
  }
  origin_free(&last.origin);
  TRY(status);
  if (!diverged) return BFM_OK;
  return bfm_fail(BFM_DIVERGED, "%d of %d cells diverged and are not in the ledger", diverged,
                  w->count);
}

static int take_jobs(Worker *w) {
  PaperCell cell;
  int cells = 0;
  while (paper_cell_at(w->plan->table, cells, &cell)) cells++;
  w->jobs = calloc((size_t)cells + 1, sizeof *w->jobs);
  if (!w->jobs) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d cells", cells);
  for (int i = 0; paper_cell_at(w->plan->table, i, &cell); i++) {
    if (paper_cell_matches(&cell, w->plan->settings.filter)) w->jobs[w->count++].cell = cell;
  }
  return BFM_OK;
}

// find out before the first cell whether the ledger can be read and written
static int open_ledger(Worker *w) {
  const char *results = w->plan->settings.results;
  char folder[PATH_MAX];
  Ledger ledger;
  TRY(ledger_read(&ledger, results));
  ledger_free(&ledger);
  TRY(path_join(folder, results, LEDGER_FOLDER));
  TRY(claims_open(&w->claims, folder, EXPIRE_SECONDS));
  return journal_open(&w->journal, folder);
}

int paper_run(const PaperPlan *plan) {
  Worker w = {.plan = plan};
  TRY(check_originals(plan));
  int status = open_ledger(&w);
  if (!status) status = take_jobs(&w);
  if (!status) status = run_all(&w);
  claims_close(w.claims);
  free(w.jobs);
  return status;
}
