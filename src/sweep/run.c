// A worker of a sweep: take a free cell whose data is there, run or resume it in its folder, append its
// result to the ledger, end the claim; again until no cell is left. The order makes a result sure: a
// process that is killed before it has appended a result leaves a folder that the next one resumes, and
// one that is killed after it leaves a claim whose next holder finds the result.

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/files.h"
#include "core/folder.h"
#include "core/json.h"
#include "core/monitor.h"
#include "core/paths.h"
#include "core/units.h"
#include "data/writer.h"
#include "sweep/results.h"
#include "sweep/sweep.h"
#include "train/eval_log.h"

#define LOOK_EXPIRE 1e6  // seconds: a look alone holds no cell

typedef struct {
  const SweepPlan *plan;
  Sweep *sweep;
  SweepCount *count;
  Claims *claims;
  Journal journal;
} Worker;

static void report(const Worker *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void report(const Worker *w, const char *format, ...) {
  char line[PATH_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  w->plan->report(w->plan->context, line);
}

static int on_progress(void *context, const bfm_progress *progress) {
  const Worker *w = context;
  int stop = w->plan->progress(w->plan->context, progress);
  return stop || claims_lost(w->claims);
}

static const char *kind_of(const SweepCell *cell) { return cell->collect ? "collect" : "train"; }

// ---------------------------------- what the ledger says -----------------------------------------

static int by_claim(const void *x, const void *y) {
  return strcmp((*(SweepCell *const *)x)->claim.name, (*(SweepCell *const *)y)->claim.name);
}

// a result counts more than a failure, whatever their order
static int apply_lines(const JournalLines *lines, SweepCell *const *sorted, int count) {
  for (int i = 0; i < lines->count; i++) {
    const JournalLine *line = &lines->lines[i];
    SweepCell key, *at = &key, *const * found;
    TRY(results_check(lines, line));
    snprintf(key.claim.name, sizeof key.claim.name, "%s",
             cJSON_GetObjectItem(line->item, "cell")->valuestring);
    found = bsearch(&at, sorted, (size_t)count, sizeof *sorted, by_claim);
    if (!found || (*found)->state == CELL_FINISHED) continue;
    (*found)->state = cJSON_HasObjectItem(line->item, "error") ? CELL_FAILED : CELL_FINISHED;
  }
  return BFM_OK;
}

static int read_ledger(Sweep *s, const char *folder, JournalLines *lines) {
  char path[PATH_MAX];
  TRY(path_join(path, folder, SWEEP_LEDGER));
  TRY(journal_read(lines, NULL, path, SWEEP_LINE));
  SweepCell **sorted = malloc((size_t)s->count * sizeof *sorted);
  int status = sorted ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %d cells", s->count);
  for (int i = 0; i < s->count && sorted; i++) sorted[i] = &s->cells[i];
  if (!status) {
    qsort(sorted, (size_t)s->count, sizeof *sorted, by_claim);
    status = apply_lines(lines, sorted, s->count);
  }
  free(sorted);
  if (status) journal_free(lines);
  return status;
}

// mean seconds of the results so far, for the time that is left
static double mean_seconds(const JournalLines *lines) {
  double sum = 0;
  int count = 0;
  for (int i = 0; i < lines->count; i++) {
    const cJSON *seconds = cJSON_GetObjectItem(lines->lines[i].item, "seconds");
    if (!cJSON_IsNumber(seconds)) continue;
    sum += seconds->valuedouble;
    count++;
  }
  return count ? sum / count : NAN;
}

static void count_cells(const Sweep *s, double seconds, SweepCount *count) {
  *count = (SweepCount){.total = s->count, .seconds_left = seconds};
  for (int i = 0; i < s->count; i++) {
    const SweepCell *cell = &s->cells[i];
    count->finished += cell->state == CELL_FINISHED;
    count->failed += cell->state == CELL_FAILED;
    count->elsewhere += cell->state == CELL_WAITING && cell->claim.state == CLAIM_HELD;
  }
  int left = s->count - count->finished - count->failed;
  count->seconds_left = seconds * left / (count->elsewhere + 1);
}

static int refresh(Worker *w) {
  JournalLines lines;
  TRY(read_ledger(w->sweep, w->plan->folder, &lines));
  count_cells(w->sweep, mean_seconds(&lines), w->count);
  journal_free(&lines);
  return BFM_OK;
}

// ---------------------------------- running a cell -----------------------------------------------

// the options of a cell with complete paths, and those of this machine; a resume has the others already
static char *options_of(const Worker *w, const SweepCell *cell, int resume) {
  cJSON *options = cJSON_Parse(w->plan->machine);
  const cJSON *option, *given = resume ? NULL : cell->options;
  char value[PATH_MAX];
  cJSON_ArrayForEach(option, given) {
    if (!strcmp(option->string, "domain") || cJSON_HasObjectItem(options, option->string)) continue;
    if (sweep_value(w->sweep, cell, option, value)) continue;
    cJSON_AddStringToObject(options, option->string, value);
  }
  char *text = cJSON_PrintUnformatted(options);
  cJSON_Delete(options);
  return text;
}

static int make_folder(const Worker *w, const char *name) {
  Folder folder;
  char path[PATH_MAX];
  TRY(path_join(path, w->plan->folder, name));
  TRY(folder_name(&folder, path));
  return folder_make(&folder);
}

static int collect(const Worker *w, const SweepCell *cell, const char *path) {
  char domain[PATH_MAX];
  int resume = !access(path, F_OK);
  TRY(make_folder(w, "data"));
  TRY(sweep_value(w->sweep, cell, cJSON_GetObjectItem(cell->options, "domain"), domain));
  char *options = options_of(w, cell, resume);
  if (!options) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  const bfm_collection run = {.size = sizeof run, .env = resume ? NULL : domain, .output = path,
                              .options = options, .resume = resume, .progress = on_progress,
                              .context = (void *)w};
  int status = bfm_collect(&run);
  free(options);
  return status;
}

// the ledger says that another process has collected this dataset
static int check_input(const Worker *w, const SweepData *data, const char *path) {
  if (data->path || !access(path, F_OK)) return BFM_OK;
  return bfm_fail(
      BFM_IO,
      "%s was collected by another process, but is not here: all machines must share the "
      "folder %s",
      path, w->plan->folder);
}

static int train_on(const Worker *w, const SweepCell *cell, const char *const *data,
                    const char *folder) {
  char state[PATH_MAX];
  TRY(path_join(state, folder, "state.safetensors"));
  int resume = !access(state, F_OK);
  TRY(make_folder(w, "train"));
  char *options = options_of(w, cell, resume);
  if (!options) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  const bfm_training run = {.size = sizeof run, .data = data, .data_count = cell->input_count,
                            .output = folder, .options = options, .resume = resume,
                            .progress = on_progress, .context = (void *)w};
  int status = bfm_train(&run);
  free(options);
  return status;
}

static int train(const Worker *w, const SweepCell *cell, const char *folder) {
  char(*paths)[PATH_MAX] = calloc((size_t)cell->input_count + 1, sizeof *paths);
  const char **data = calloc((size_t)cell->input_count + 1, sizeof *data);
  int status = paths && data ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for datasets");
  for (int i = 0; i < cell->input_count && !status; i++) {
    data[i] = paths[i];
    status = sweep_input(w->sweep, &cell->inputs[i], w->plan->folder, paths[i]);
    if (!status) status = check_input(w, &cell->inputs[i], paths[i]);
  }
  if (!status) status = train_on(w, cell, data, folder);
  free(paths);
  free(data);
  return status;
}

// ---------------------------------- its result ---------------------------------------------------

static cJSON *last_line(const char *folder, const char *name) {
  char path[PATH_MAX];
  cJSON *lines, *last = NULL;
  if (path_join(path, folder, name) || json_read_lines(&lines, path)) return NULL;
  int count = cJSON_GetArraySize(lines);
  if (count) last = cJSON_DetachItemFromArray(lines, count - 1);
  cJSON_Delete(lines);
  return last;
}

// the returns of one seed and es, at its first task in the evaluations
static cJSON *returns_of(const EvalLog *log, int at, int64_t step) {
  const EvalLine *first = &log->lines[at];
  for (int i = 0; i < at; i++) {
    const EvalLine *l = &log->lines[i];
    if (l->step == step && l->seed == first->seed && l->es == first->es) return NULL;
  }
  cJSON *result = cJSON_CreateObject();
  cJSON_AddNumberToObject(result, "seed", (double)first->seed);
  cJSON_AddNumberToObject(result, "es", (double)first->es);
  cJSON_AddNumberToObject(result, "episodes", (double)first->episodes);
  cJSON *returns = cJSON_AddObjectToObject(result, "returns");
  for (int i = at; i < log->count; i++) {
    const EvalLine *l = &log->lines[i];
    if (l->step != step || l->seed != first->seed || l->es != first->es) continue;
    cJSON_AddNumberToObject(returns, l->task, l->mean);
  }
  return result;
}

// the last evaluation of a training, and the last line of its log
static int add_results(cJSON *line, const char *folder) {
  EvalLog log;
  int64_t step = 0;
  TRY(eval_log_read(&log, folder, INT64_MAX));
  for (int i = 0; i < log.count; i++) step = log.lines[i].step > step ? log.lines[i].step : step;
  cJSON_AddNumberToObject(line, "step", (double)step);
  cJSON *results = cJSON_AddArrayToObject(line, "results");
  for (int i = 0; i < log.count; i++) {
    cJSON *one = log.lines[i].step == step ? returns_of(&log, i, step) : NULL;
    if (one) cJSON_AddItemToArray(results, one);
  }
  eval_log_free(&log);
  cJSON *last = last_line(folder, "log.jsonl");
  if (last) cJSON_AddItemToObject(line, "log", last);
  return BFM_OK;
}

static int append(Worker *w, const SweepCell *cell, const char *path, double seconds,
                  const char *error) {
  cJSON *line = cJSON_CreateObject(), *lines = cJSON_CreateArray();
  cJSON_AddItemToArray(lines, line);
  cJSON_AddStringToObject(line, "cell", cell->claim.name);
  cJSON_AddStringToObject(line, "kind", kind_of(cell));
  cJSON_AddItemToObject(line, "options", cJSON_Duplicate(cell->options, 1));
  if (cell->data) cJSON_AddItemToObject(line, "data", cJSON_Duplicate(cell->data, 1));
  int status = BFM_OK;
  if (error) cJSON_AddStringToObject(line, "error", error);
  else cJSON_AddNumberToObject(line, "seconds", round(1e3 * seconds) / 1e3);
  if (!error && !cell->collect) status = add_results(line, path);
  journal_sign(line);
  if (!status) status = journal_append(&w->journal, lines);
  cJSON_Delete(lines);
  return status;
}

// an error that is the cell's own, not the machine's: other processes would meet it again
static int is_of_cell(int status) {
  return status == BFM_DIVERGED || status == BFM_BAD_ARGUMENT || status == BFM_BAD_FILE;
}

static int fail_cell(Worker *w, SweepCell *cell, const char *error) {
  char text[1024];
  snprintf(text, sizeof text, "%s", error);
  cell->state = CELL_FAILED;
  cell->retried = 0;
  report(w, "failed  %s: %s", cell->claim.name, text);
  TRY(append(w, cell, "", 0, text));
  return claims_end(w->claims, CLAIM_DONE);
}

static int finish_cell(Worker *w, SweepCell *cell, const char *path, double seconds) {
  TRY(append(w, cell, path, seconds, NULL));
  cell->state = CELL_FINISHED;
  TRY(claims_end(w->claims, CLAIM_DONE));
  TRY(refresh(w));
  char took[32];
  short_time(seconds, took, sizeof took);
  report(w, "done    %s in %s, %d of %d cells", cell->claim.name, took, w->count->finished,
         w->count->total);
  return BFM_OK;
}

// whether a process still writes the output: another machine's, which only seems to be dead
static int is_written(const SweepCell *cell, const char *path) {
  if (access(path, F_OK)) return 0;
  return cell->collect ? writer_is_open(path) : folder_is_locked(path) == 1;
}

// run a claimed cell; its claim ends in any case
static int run_cell(Worker *w, SweepCell *cell) {
  char path[PATH_MAX], dead[160];
  if (cell->claim.deaths >= CLAIM_DEATHS) {
    snprintf(dead, sizeof dead, "%d processes ended in it without a result", cell->claim.deaths);
    return fail_cell(w, cell, dead);
  }
  TRY(sweep_output(cell, w->plan->folder, path));
  if (is_written(cell, path)) {
    cell->pause = seconds_now() + w->plan->expire;
    return claims_end(w->claims, CLAIM_FREE);
  }
  report(w, "%-7s %s", kind_of(cell), cell->claim.name);
  double begin = seconds_now();
  int status = (cell->collect ? collect : train)(w, cell, path);
  if (claims_renew(w->claims)) {
    report(w, "lost    %s to another process, because its claim was not renewed in time",
           cell->claim.name);
    return claims_end(w->claims, CLAIM_FREE);
  }
  if (!status) return finish_cell(w, cell, path, seconds_now() - begin);
  if (is_of_cell(status)) return fail_cell(w, cell, bfm_error());
  if (status == BFM_INTERRUPTED) {
    bfm_fail(status, "stopped in the cell %s; the same bfm sweep command resumes it",
             cell->claim.name);
  }
  char error[1024];
  snprintf(error, sizeof error, "%s", bfm_error());
  claims_end(w->claims, CLAIM_FREE);
  return bfm_fail(status, "%s", error);
}

// ---------------------------------- choosing cells -----------------------------------------------

// Whether the data of a training is there; *never: its collection has failed.
static int has_data(const Sweep *s, const SweepCell *cell, int *never) {
  int ready = 1;
  for (int i = 0; i < cell->input_count; i++) {
    const SweepData *data = &cell->inputs[i];
    CellState state = data->path ? CELL_FINISHED : s->cells[data->cell].state;
    ready &= state == CELL_FINISHED;
    *never |= state == CELL_FAILED;
  }
  return ready;
}

// what a look at all cells has found
typedef struct {
  SweepCell *cell;  // claimed by this process, or NULL
  int held, later;  // cells that others hold; cells whose data is not there yet
  int stale;        // a cell is done that has no result yet, as far as this process has read
} Choice;

// A cell that stays done without a result in the ledger: someone removed the result.
static int has_lost_result(const Worker *w, const SweepCell *cell) {
  return seconds_now() - cell->claim.since > w->plan->expire;
}

static int try_cell(Worker *w, SweepCell *cell, Choice *choice) {
  int never = 0, taken, ready = has_data(w->sweep, cell, &never);
  if (never) {
    cell->state = CELL_FAILED;
    report(w, "failed  %s: its data could not be collected", cell->claim.name);
    return BFM_OK;
  }
  TRY(claims_look(w->claims, &cell->claim));
  int again = cell->claim.state == CLAIM_DONE &&
              (cell->retried == cell->claim.number || has_lost_result(w, cell));
  choice->stale |= cell->claim.state == CLAIM_DONE && !again;
  int held = cell->claim.state == CLAIM_HELD || seconds_now() < cell->pause;
  choice->held += held;
  choice->later += !ready;
  if (!ready || held) return BFM_OK;
  TRY(claims_take(w->claims, &cell->claim, again, &taken));
  if (!taken) {
    choice->held++;
    return BFM_OK;
  }
  choice->cell = cell;
  if (again) cell->retried = cell->claim.number;
  return BFM_OK;
}

static int choose(Worker *w, Choice *choice) {
  *choice = (Choice){.cell = NULL};
  for (int i = 0; i < w->sweep->count && !choice->cell; i++) {
    SweepCell *cell = &w->sweep->cells[i];
    if (cell->state == CELL_WAITING) TRY(try_cell(w, cell, choice));
  }
  return BFM_OK;
}

// a failure that this process may try again is no result
static void forget_failures(const Sweep *s) {
  for (int i = 0; i < s->count; i++) {
    SweepCell *cell = &s->cells[i];
    int again = cell->retried && cell->claim.number <= cell->retried;
    if (cell->state == CELL_FAILED && again) cell->state = CELL_WAITING;
  }
}

// a cell just claimed: by now another process may have finished it
static int run_choice(Worker *w, SweepCell *cell) {
  TRY(refresh(w));
  forget_failures(w->sweep);
  if (cell->state != CELL_WAITING) return claims_end(w->claims, CLAIM_DONE);
  return run_cell(w, cell);
}

static int wait_a_moment(const Worker *w, double seconds) {
  Monitor monitor = {.call = w->plan->progress, .context = w->plan->context};
  monitor_begin(&monitor, "wait", "", 0, 0);
  for (double begin = seconds_now(); seconds_now() - begin < seconds;) {
    if (monitor_update(&monitor, 0, NULL)) {
      return bfm_fail(BFM_INTERRUPTED, "stopped while other processes were running %d cells",
                      w->count->elsewhere);
    }
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  return BFM_OK;
}

// wait for cells that others hold, or for their data, unless this process is to leave
static int wait_for_others(Worker *w, const Choice *choice, int *told) {
  TRY(refresh(w));
  forget_failures(w->sweep);
  if (!*told) {
    report(w, "wait    for other processes, which run %d cell%s", choice->held,
           choice->held == 1 ? "" : "s");
  }
  *told = 1;
  return wait_a_moment(w, choice->stale ? 0.1 : 0.5);
}

static int work(Worker *w) {
  Choice choice;
  for (int told = 0;;) {
    TRY(choose(w, &choice));
    if (choice.cell) {
      TRY(run_choice(w, choice.cell));
      told = 0;
    } else if (choice.held + choice.later + choice.stale == 0 ||
               (w->plan->leave && !choice.later && !choice.stale)) {
      return BFM_OK;
    } else {
      TRY(wait_for_others(w, &choice, &told));
    }
  }
}

// ---------------------------------- a worker -----------------------------------------------------

static int look_at_claims(Claims *claims, Sweep *s, int retry) {
  for (int i = 0; i < s->count; i++) {
    SweepCell *cell = &s->cells[i];
    if (cell->state == CELL_FINISHED) continue;
    TRY(claims_look(claims, &cell->claim));
    if (retry && cell->state == CELL_FAILED) cell->retried = cell->claim.number;
  }
  return BFM_OK;
}

static int open_worker(Worker *w) {
  char ledger[PATH_MAX];
  TRY(path_join(ledger, w->plan->folder, SWEEP_LEDGER));
  int status = claims_open(&w->claims, ledger, w->plan->expire);
  if (status) {
    return bfm_fail_prefix(status,
                           "a sweep needs a folder that it can write into on all machines: ");
  }
  TRY(journal_open(&w->journal, ledger));
  TRY(refresh(w));
  TRY(look_at_claims(w->claims, w->sweep, w->plan->retry));
  forget_failures(w->sweep);
  return BFM_OK;
}

int sweep_run(const SweepPlan *plan, Sweep *sweep, SweepCount *count) {
  Worker w = {.plan = plan, .sweep = sweep, .count = count};
  int status = open_worker(&w);
  if (!status) status = work(&w);
  if (!status) status = refresh(&w);
  claims_close(w.claims);
  TRY(status);
  count_cells(sweep, count->seconds_left, count);
  if (!count->failed) return BFM_OK;
  return bfm_fail(BFM_DIVERGED,
                  "%d of %d cells failed: bfm sweep show %s lists them, --retry runs them again",
                  count->failed, count->total, plan->folder);
}

int sweep_look(Sweep *sweep, const char *folder, SweepCount *count) {
  char ledger[PATH_MAX];
  JournalLines lines;
  Claims *claims;
  TRY(read_ledger(sweep, folder, &lines));
  journal_free(&lines);
  TRY(path_join(ledger, folder, SWEEP_LEDGER));
  int status = BFM_OK;
  if (!access(ledger, W_OK) && !(status = claims_open(&claims, ledger, LOOK_EXPIRE))) {
    status = look_at_claims(claims, sweep, 0);
    claims_close(claims);
  }
  count_cells(sweep, NAN, count);
  return status;
}
