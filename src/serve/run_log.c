// The logs of a run as curves.

#include "serve/run_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---------------------------------- numbers of a line --------------------------------------------

double log_value(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

int log_is_step(double step) { return step >= 0 && step <= 9e15; }

// The values of all seeds; NaN and infinity are texts in a log. Returns how many there are.
static int values_of(const cJSON *item, double *out) {
  int count = 0;
  if (!item) return 0;
  if (!cJSON_IsArray(item)) {
    out[0] = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    return 1;
  }
  const cJSON *value;
  cJSON_ArrayForEach(value, item) {
    if (count < SEEDS_MOST) out[count++] = cJSON_IsNumber(value) ? value->valuedouble : NAN;
  }
  return count;
}

int log_values(const cJSON *line, const char *name, double *out) {
  return values_of(cJSON_GetObjectItemCaseSensitive(line, name), out);
}

// mean and sample standard deviation of the finite values; returns how many these are
static int mean_of(const double *values, int count, double *mean, double *std) {
  double sum = 0, squares = 0;
  int n = 0;
  for (int i = 0; i < count; i++) {
    if (!isfinite(values[i])) continue;
    sum += values[i];
    squares += values[i] * values[i];
    n++;
  }
  *mean = n ? sum / n : NAN;
  *std = n > 1 ? sqrt(fmax(0, (squares - n * *mean * *mean) / (n - 1))) : 0;
  return n;
}

// ---------------------------------- log.jsonl ----------------------------------------------------

// metrics of src/agent/metrics.c; the other numbers of a line are losses
static const char *const metrics[] = {"F",      "psi.norm", "F.target",  "psi.target",
                                      "B",      "phi",      "B.eig.min", "phi.eig.min",
                                      "M.max",  "pi.dist",  "B.eig.max", "phi.eig.max",
                                      "Q.data", "Q.pi",     "adv",       "adv.std",
                                      "ess",    "w.max",    NULL};
static const char *const counters[] = {"step", "seconds", "rate", "lr", "diverged", NULL};

static int is_among(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name)) names++;
  return *names != NULL;
}

int log_is_metric(const char *name) { return is_among(metrics, name); }
int log_is_counter(const char *name) { return is_among(counters, name); }

double run_log_step(const RunLog *w) { return w->last ? log_value(w->last, "step") : 0; }

static Line *find_line(RunLog *w, const char *name) {
  for (int i = 0; i < w->line_count; i++) {
    if (!strcmp(w->lines[i]->name, name)) return w->lines[i];
  }
  if (w->line_count == LINES_MOST || strlen(name) >= NAME_SIZE) return NULL;
  Line *line = calloc(1, sizeof *line);
  if (!line) return NULL;
  snprintf(line->name, sizeof line->name, "%s", name);
  return w->lines[w->line_count++] = line;
}

static void take_values(RunLog *w, double step, const cJSON *item) {
  double all[SEEDS_MOST];
  CurvePoint point = {.step = step};
  Line *line = log_is_counter(item->string) ? NULL : find_line(w, item->string);
  if (!line) return;
  if (mean_of(all, values_of(item, all), &point.mean, &point.std)) curve_add(&line->curve, point);
}

static void take_log(void *context, const char *text) {
  RunLog *w = context;
  cJSON *line = cJSON_Parse(text);
  double step = log_value(line, "step");
  const char *why = cJSON_GetStringValue(cJSON_GetObjectItem(line, "diverged"));
  if (!log_is_step(step)) {
    cJSON_Delete(line);
    return;
  }
  snprintf(w->why, sizeof w->why, "%s", why ? why : "");
  if (why) {
    w->divergences++;
    cJSON_Delete(line);
    return;
  }
  const cJSON *item;
  cJSON_ArrayForEach(item, line) take_values(w, step, item);
  cJSON_Delete(w->last);
  w->last = line;
}

static void forget_log(void *context) {
  RunLog *w = context;
  for (int i = 0; i < w->line_count; i++) free(w->lines[i]);
  cJSON_Delete(w->last);
  w->line_count = w->divergences = 0;
  w->last = NULL;
  *w->why = 0;
}

// ---------------------------------- eval.jsonl ---------------------------------------------------

static Returns *find_returns(RunLog *w, const char *task, int64_t es) {
  for (int i = 0; i < w->return_count; i++) {
    if (w->returns[i]->es == es && !strcmp(w->returns[i]->task, task)) return w->returns[i];
  }
  if (w->return_count == RETURNS_MOST) return NULL;
  Returns *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  snprintf(r->task, sizeof r->task, "%s", task);
  r->es = es;
  return w->returns[w->return_count++] = r;
}

// mean ± sample standard deviation over the seeds of the present step
static CurvePoint present(const Returns *r) {
  double mean = r->sum / r->seeds;
  double square = r->squares - r->seeds * mean * mean;
  return (CurvePoint){r->step, mean, r->seeds > 1 ? sqrt(fmax(0, square / (r->seeds - 1))) : 0};
}

static void add_return(Returns *r, double step, double mean) {
  if (r->seeds && step != r->step) {
    curve_add(&r->curve, present(r));
    r->seeds = 0;
    r->sum = r->squares = 0;
  }
  r->step = step;
  r->sum += mean;
  r->squares += mean * mean;
  r->seeds++;
}

static void take_eval(void *context, const char *text) {
  RunLog *w = context;
  cJSON *line = cJSON_Parse(text);
  double step = log_value(line, "step"), es = log_value(line, "es"), mean = log_value(line, "mean");
  const char *task = cJSON_GetStringValue(cJSON_GetObjectItem(line, "task"));
  if (task && strlen(task) < TASK_SIZE && log_is_step(step) && log_is_step(es) && isfinite(mean)) {
    Returns *r = find_returns(w, task, (int64_t)es);
    if (r) add_return(r, step, mean);
  }
  cJSON_Delete(line);
}

static void forget_evals(void *context) {
  RunLog *w = context;
  for (int i = 0; i < w->return_count; i++) free(w->returns[i]);
  w->return_count = 0;
}

// ---------------------------------- curves as JSON ------------------------------------------------

void log_add(cJSON *message, const char *name, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.5g", value);
  cJSON_AddItemToObject(message, name,
                        isfinite(value) ? cJSON_CreateRaw(text) : cJSON_CreateNull());
}

// bytes of the character that begins at `text`, or 0 if it is not UTF-8
static int character(const char *text) {
  const unsigned char *c = (const unsigned char *)text;
  int n = c[0] < 0x80 ? 1 : c[0] >= 0xc2 && c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
  if ((c[0] >= 0x80 && c[0] < 0xc2) || c[0] > 0xf4) return 0;
  for (int i = 1; i < n; i++) {
    if ((c[i] & 0xc0) != 0x80) return 0;
  }
  // overlong forms, surrogates, and what lies beyond the last character
  int bad = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
            (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f);
  return bad ? 0 : n;
}

static cJSON *text_item(const char *text) {
  char *clean = strdup(text);
  for (char *at = clean; at && *at;) {
    int n = character(at);
    if (!n) *at = '?';
    at += n ? n : 1;
  }
  cJSON *item = cJSON_CreateString(clean);
  free(clean);
  return item;
}

void log_add_text(cJSON *message, const char *name, const char *text) {
  cJSON_AddItemToObject(message, name, text_item(text));
}

static void print_text(const char *text, FILE *out) {
  cJSON *item = text_item(text);
  char *quoted = cJSON_PrintUnformatted(item);
  fputs(quoted ? quoted : "\"\"", out);
  free(quoted);
  cJSON_Delete(item);
}

static void print_returns(const RunLog *w, int unused, FILE *out) {
  (void)unused;
  for (int i = 0; i < w->return_count; i++) {
    const Returns *r = w->returns[i];
    CurvePoint last = present(r);
    fputs(i ? ",{\"task\":" : "{\"task\":", out);
    print_text(r->task, out);
    fprintf(out, ",\"es\":%" PRId64 ",\"seeds\":%d,\"points\":", r->es, r->seeds);
    curve_print(&r->curve, &last, 1, out);
    fputc('}', out);
  }
}

// those losses, or metrics, that have points
static void print_lines(const RunLog *w, int of_metrics, FILE *out) {
  const char *before = "";
  for (int i = 0; i < w->line_count; i++) {
    const Line *line = w->lines[i];
    if (log_is_metric(line->name) != of_metrics || !line->curve.count) continue;
    fputs(before, out);
    fputs("{\"name\":", out);
    print_text(line->name, out);
    fputs(",\"points\":", out);
    curve_print(&line->curve, NULL, 0, out);
    fputc('}', out);
    before = ",";
  }
}

// Thousands of numbers: cJSON would keep each as an item, so they are printed as one text.
static int add_curves(const RunLog *w, cJSON *message, const char *name, int which,
                      void (*print)(const RunLog *w, int which, FILE *out)) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return 0;
  fputc('[', out);
  print(w, which, out);
  fputc(']', out);
  int good = !fclose(out) && cJSON_AddRawToObject(message, name, text);
  free(text);
  return good;
}

int run_log_describe(const RunLog *w, cJSON *message) {
  return add_curves(w, message, "returns", 0, print_returns) &&
         add_curves(w, message, "losses", 0, print_lines) &&
         add_curves(w, message, "metrics", 1, print_lines);
}

// ---------------------------------- reading ------------------------------------------------------

int run_log_look(RunLog *w) {
  const TailReader log = {w, forget_log, take_log}, evals = {w, forget_evals, take_eval};
  int of_log = tail_look(&w->log, &log);
  if (of_log & TAIL_NEW) w->written = (double)w->log.seen.st_mtim.tv_sec;
  return of_log | tail_look(&w->evals, &evals);
}

int run_log_open(RunLog *w, const char *folder) {
  TRY(tail_open(&w->log, folder, "log.jsonl"));
  return tail_open(&w->evals, folder, "eval.jsonl");
}

void run_log_close(RunLog *w) {
  forget_log(w);
  forget_evals(w);
  tail_close(&w->log);
  tail_close(&w->evals);
}
