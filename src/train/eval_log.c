// eval.jsonl, the returns in a collector's log, and their curves. A curve is one run with one number
// of es actions; its points are means over seeds, its band their standard deviation.

#include "train/eval_log.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/files.h"
#include "render/plot.h"

// ---------------------------------- lines --------------------------------------------------------

static int parse_line(const char *text, EvalLine *line) {
  cJSON *object = cJSON_Parse(text);
  const struct {
    const char *name;
    int64_t *whole;
    double *real;
  } numbers[] = {{"step", &line->step, NULL}, {"seed", &line->seed, NULL},
                 {"es", &line->es, NULL},     {"episodes", &line->episodes, NULL},
                 {"mean", NULL, &line->mean}, {"std", NULL, &line->std}};
  const char *task = cJSON_GetStringValue(cJSON_GetObjectItem(object, "task"));
  int good = task != NULL;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const cJSON *item = cJSON_GetObjectItem(object, numbers[i].name);
    good = good && cJSON_IsNumber(item);
    if (good && numbers[i].whole) *numbers[i].whole = (int64_t)item->valuedouble;
    if (good && numbers[i].real) *numbers[i].real = item->valuedouble;
  }
  if (good) snprintf(line->task, sizeof line->task, "%s", task);
  cJSON_Delete(object);
  return good;
}

static int append(EvalLog *log, const EvalLine *line) {
  // room doubles: it is full whenever the count is a power of two
  if (!(log->count & (log->count - 1))) {
    size_t room = log->count ? 2 * (size_t)log->count : 1;
    EvalLine *lines = realloc(log->lines, room * sizeof *lines);
    if (!lines) return bfm_fail(BFM_NO_MEMORY, "out of memory for %zu evaluations", room);
    log->lines = lines;
  }
  log->lines[log->count++] = *line;
  return BFM_OK;
}

int eval_log_read(EvalLog *log, const char *folder, int64_t last_step) {
  *log = (EvalLog){.count = 0};
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/eval.jsonl", folder);
  FILE *file;
  TRY(input_stream_if_any(path, &file));
  if (!file) return BFM_OK;
  char *text = NULL;
  size_t size = 0;
  EvalLine line = {.step = 0};
  int status = BFM_OK;
  for (ssize_t n; !status && (n = getline(&text, &size, file)) > 0; log->bytes += n) {
    if (text[n - 1] != '\n' || !parse_line(text, &line) || line.step > last_step) break;
    status = append(log, &line);
  }
  free(text);
  fclose(file);
  if (status) eval_log_free(log);
  return status;
}

// a line of a collector's log: its learners' returns, at a number of transitions
static int append_returns(EvalLog *log, const char *text) {
  cJSON *object = cJSON_Parse(text);
  const cJSON *transitions = cJSON_GetObjectItem(object, "transitions"), *item;
  int status = BFM_OK;
  cJSON_ArrayForEach(item, cJSON_GetObjectItem(object, "returns")) {
    EvalLine line = {.mean = item->valuedouble};
    if (!cJSON_IsNumber(transitions) || !cJSON_IsNumber(item)) continue;
    line.step = (int64_t)transitions->valuedouble;
    snprintf(line.task, sizeof line.task, "%s", item->string);
    if (!status) status = append(log, &line);
  }
  cJSON_Delete(object);
  return status;
}

// the log that bfm collect writes beside its file, mood.log.jsonl
static int read_collector(EvalLog *log, const char *path) {
  *log = (EvalLog){.count = 0};
  FILE *file;
  TRY(input_stream(path, &file));
  char *text = NULL;
  size_t size = 0;
  int status = BFM_OK;
  while (!status && getline(&text, &size, file) > 0) status = append_returns(log, text);
  free(text);
  fclose(file);
  if (status) eval_log_free(log);
  return status;
}

void eval_log_free(EvalLog *log) {
  free(log->lines);
  *log = (EvalLog){.count = 0};
}

void eval_log_print(const EvalLine *line, FILE *out) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddNumberToObject(object, "step", (double)line->step);
  cJSON_AddNumberToObject(object, "seed", (double)line->seed);
  cJSON_AddStringToObject(object, "task", line->task);
  cJSON_AddNumberToObject(object, "es", (double)line->es);
  cJSON_AddNumberToObject(object, "mean", round(1e4 * line->mean) / 1e4);
  cJSON_AddNumberToObject(object, "std", round(1e4 * line->std) / 1e4);
  cJSON_AddNumberToObject(object, "episodes", (double)line->episodes);
  char *text = cJSON_PrintUnformatted(object);
  fprintf(out, "%s\n", text ? text : "");
  free(text);
  cJSON_Delete(object);
}

double eval_log_score(const EvalLog *log, int64_t step, int64_t seed) {
  int64_t es = -1;
  int count = 0;
  double sum = 0;
  for (int i = 0; i < log->count; i++) {
    const EvalLine *l = &log->lines[i];
    if (l->step != step || l->seed != seed || l->es < es) continue;
    if (l->es > es) {
      es = l->es;
      sum = count = 0;
    }
    sum += l->mean;
    count++;
  }
  return count ? sum / count : NAN;
}

// ---------------------------------- curves -------------------------------------------------------

#define MEAN_PANEL "mean over tasks"
#define MAX_PANELS 65
#define MAX_CURVES 32

typedef struct {
  char task[OPTION_TEXT_SIZE];  // of the panel
  PlotCurve curves[MAX_CURVES];
} Panel;

typedef struct {
  EvalLog *logs;             // [count]
  const EvalLine ***sorted;  // [count], the lines of each log
  const char *const *folders;
  int count;
  const char *unit;  // of x
  Panel *panels;
  int panel_count, curve_count;
  struct {
    int run;
    int64_t es;
    char title[OPTION_TEXT_SIZE];
  } curves[MAX_CURVES];
} Curves;

static const char *own_name(const char *folder) {
  const char *slash = strrchr(folder, '/');
  return slash && slash[1] ? slash + 1 : folder;
}

// the folder's own name; the given path if another run has the same name
static const char *name_run(const Curves *c, int run) {
  const char *name = own_name(c->folders[run]);
  for (int i = 0; i < c->count; i++) {
    if (i != run && !strcmp(own_name(c->folders[i]), name)) return c->folders[run];
  }
  return name;
}

// the run's name, with es if the run has it on and off
static void name_curve(Curves *c, int curve, int both) {
  const char *run = name_run(c, c->curves[curve].run);
  char *title = c->curves[curve].title;
  size_t size = sizeof c->curves[curve].title;
  int at = c->count > 1 ? snprintf(title, size, "%s%s", run, both ? ", " : "") : 0;
  if ((both || c->count == 1) && at < (int)size) {
    if (c->curves[curve].es) snprintf(title + at, size - at, "es %d", (int)c->curves[curve].es);
    else snprintf(title + at, size - at, "policy's mean");
  }
}

static int has_curve(const Curves *c, int run, int64_t es) {
  for (int i = 0; i < c->curve_count; i++) {
    if (c->curves[i].run == run && c->curves[i].es == es) return 1;
  }
  return 0;
}

static int has_panel(const Curves *c, const char *task) {
  for (int i = 0; i < c->panel_count; i++) {
    if (!strcmp(c->panels[i].task, task)) return 1;
  }
  return 0;
}

static int too_many(const char *what, int most) {
  return bfm_fail(BFM_BAD_ARGUMENT, "there are more than %d %s to draw: name fewer runs", most,
                  what);
}

// find the panels and curves
static int survey(Curves *c) {
  snprintf(c->panels[c->panel_count++].task, sizeof c->panels->task, MEAN_PANEL);
  for (int run = 0; run < c->count; run++) {
    int first = c->curve_count;
    for (int i = 0; i < c->logs[run].count; i++) {
      const EvalLine *l = &c->logs[run].lines[i];
      if (!has_curve(c, run, l->es)) {
        if (c->curve_count == MAX_CURVES) return too_many("curves", MAX_CURVES);
        c->curves[c->curve_count].run = run;
        c->curves[c->curve_count++].es = l->es;
      }
      if (!has_panel(c, l->task)) {
        if (c->panel_count == MAX_PANELS) return too_many("tasks", MAX_PANELS - 1);
        snprintf(c->panels[c->panel_count++].task, sizeof c->panels->task, "%s", l->task);
      }
    }
    for (int i = first; i < c->curve_count; i++) name_curve(c, i, c->curve_count - first > 1);
  }
  return BFM_OK;
}

// by es, step and seed, then as in the file
static int in_order(const void *x, const void *y) {
  const EvalLine *a = *(const EvalLine *const *)x, *b = *(const EvalLine *const *)y;
  if (a->es != b->es) return a->es < b->es ? -1 : 1;
  if (a->step != b->step) return a->step < b->step ? -1 : 1;
  if (a->seed != b->seed) return a->seed < b->seed ? -1 : 1;
  return (a > b) - (a < b);
}

// the lines of a log in that order, one pass over which makes a curve; the caller frees *lines
static int sort_lines(const EvalLog *log, const EvalLine ***lines) {
  *lines = malloc((size_t)(log->count + 1) * sizeof **lines);
  if (!*lines) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d evaluations", log->count);
  for (int i = 0; i < log->count; i++) (*lines)[i] = &log->lines[i];
  qsort(*lines, log->count, sizeof **lines, in_order);
  return BFM_OK;
}

// The mean and deviation over seeds of a task's returns at the step of the line `from`, or (task NULL)
// of each seed's mean over tasks. Returns the line after this step; *seeds is 0 without such returns.
static int point(const EvalLine *const *lines, int count, int from, const char *task, double *mean,
                 double *std, int *seeds) {
  const EvalLine *first = lines[from];
  double sum = 0, squares = 0;
  int i = from;
  *seeds = 0;
  while (i < count && lines[i]->es == first->es && lines[i]->step == first->step) {
    int64_t seed = lines[i]->seed;
    double value = 0;
    int tasks = 0;
    for (; i < count && lines[i]->es == first->es && lines[i]->step == first->step &&
           lines[i]->seed == seed;
         i++) {
      if (seed < 0 || (task && strcmp(lines[i]->task, task))) continue;
      value += lines[i]->mean;
      tasks++;
    }
    if (!tasks) continue;
    value /= tasks;
    sum += value;
    squares += value * value;
    ++*seeds;
  }
  if (!*seeds) return i;
  *mean = sum / *seeds;
  // the sample standard deviation
  double square = squares - *seeds * *mean * *mean;
  *std = *seeds > 1 ? sqrt(fmax(0, square / (*seeds - 1))) : 0;
  return i;
}

// room: 3 numbers for each line of the run's log
static void fill_curve(const Curves *c, int panel, int index, double *room) {
  int run = c->curves[index].run, count = c->logs[run].count, n = 0, seeds;
  const EvalLine *const *lines = c->sorted[run];
  double *x = room, *y = room + count, *spread = room + 2 * count;
  int64_t es = c->curves[index].es;
  int i = 0;
  while (i < count && (lines[i]->es < es || (lines[i]->es == es && lines[i]->step < 0))) i++;
  while (i < count && lines[i]->es == es) {
    x[n] = (double)lines[i]->step;
    i = point(lines, count, i, panel ? c->panels[panel].task : NULL, &y[n], &spread[n], &seeds);
    n += seeds > 0;
  }
  c->panels[panel].curves[index] = (PlotCurve){c->curves[index].title, n, x, y, spread};
}

static int draw(Curves *c, const char *path) {
  size_t room = 0;
  for (int i = 0; i < c->curve_count; i++) room += 3 * (size_t)c->logs[c->curves[i].run].count;
  double *numbers = malloc((room * c->panel_count + 1) * sizeof *numbers), *at = numbers;
  PlotPanel *panels = calloc(c->panel_count, sizeof *panels);
  int status = numbers && panels ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for curves");
  for (int p = 0; p < c->panel_count && !status; p++) {
    for (int i = 0; i < c->curve_count; i++) {
      fill_curve(c, p, i, at);
      at += 3 * c->logs[c->curves[i].run].count;
    }
    panels[p] = (PlotPanel){c->panels[p].task, c->panels[p].curves, c->curve_count};
  }
  if (!status) status = plot_curves(panels, c->panel_count, c->unit, "return", path);
  free(numbers);
  free(panels);
  return status;
}

int eval_log_draw(const char *const *folders, int count, const char *path) {
  Curves c = {.folders = folders, .count = count, .unit = "transitions"};
  c.logs = calloc(count, sizeof *c.logs);
  c.panels = calloc(MAX_PANELS, sizeof *c.panels);
  c.sorted = calloc(count, sizeof *c.sorted);
  int status =
      c.logs && c.panels && c.sorted ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for curves");
  for (int i = 0; i < count && !status; i++) {
    int file = !path_is_folder(folders[i]);
    if (!file) c.unit = "steps";
    status = file ? read_collector(&c.logs[i], folders[i])
                  : eval_log_read(&c.logs[i], folders[i], INT64_MAX);
    if (!status && !c.logs[i].count) {
      status = bfm_fail(BFM_BAD_ARGUMENT, "%s has no %s", folders[i],
                        file ? "returns of learners: name the log of bfm collect --with mood or td3"
                             : "evaluations: train with --eval-every");
    }
  }
  if (!status) status = survey(&c);
  for (int i = 0; i < count && !status; i++) status = sort_lines(&c.logs[i], &c.sorted[i]);
  if (!status) status = draw(&c, path);
  for (int i = 0; i < count && c.logs; i++) eval_log_free(&c.logs[i]);
  for (int i = 0; i < count && c.sorted; i++) free(c.sorted[i]);
  free(c.sorted);
  free(c.logs);
  free(c.panels);
  return status;
}
