// Results of a sweep. The ledger alone makes the table: which options vary is seen in its lines, so that
// the sweep's file may have changed, or be elsewhere.

#define _GNU_SOURCE  // qsort_r
#include "sweep/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/files.h"
#include "core/number.h"
#include "core/paths.h"
#include "core/suggest.h"
#include "sweep/sweep.h"

#define CONFIDENCE 0.95

static const char *text_at(const cJSON *object, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
  return text ? text : "";
}

// ---------------------------------- lines --------------------------------------------------------

int results_check(const JournalLines *lines, const JournalLine *line) {
  if (*text_at(line->item, "cell") && cJSON_IsObject(cJSON_GetObjectItem(line->item, "options"))) {
    return BFM_OK;
  }
  return bfm_fail(BFM_BAD_FILE, "%s: line %d is not " SWEEP_LINE, lines->paths[line->file],
                  line->number);
}

static int by_cell(const void *x, const void *y) {
  const JournalLine *a = *(const JournalLine *const *)x, *b = *(const JournalLine *const *)y;
  int order = strcmp(text_at(a->item, "cell"), text_at(b->item, "cell"));
  // a result before failures, then the latest
  if (!order) order = cJSON_HasObjectItem(a->item, "error") - cJSON_HasObjectItem(b->item, "error");
  return order ? order : (a < b) - (a > b);
}

static int by_time(const void *x, const void *y) {
  const JournalLine *a = *(const JournalLine *const *)x, *b = *(const JournalLine *const *)y;
  return (a > b) - (a < b);
}

// One line per cell, in the order of time: lines[0 … *count).
static int merge(const JournalLines *all, const JournalLine ***out, int *count) {
  const JournalLine **lines = malloc((size_t)(all->count + 1) * sizeof *lines);
  *count = 0;
  *out = lines;
  if (!lines) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d results", all->count);
  for (int i = 0; i < all->count; i++) {
    TRY(results_check(all, &all->lines[i]));
    lines[i] = &all->lines[i];
  }
  qsort(lines, (size_t)all->count, sizeof *lines, by_cell);
  for (int i = 0; i < all->count; i++) {
    const char *cell = text_at(lines[i]->item, "cell");
    if (*count && !strcmp(text_at(lines[*count - 1]->item, "cell"), cell)) continue;
    lines[(*count)++] = lines[i];
  }
  qsort(lines, (size_t)*count, sizeof *lines, by_time);
  return BFM_OK;
}

// ---------------------------------- options ------------------------------------------------------

// options that are not a setting of their own: seeds are what intervals are over
static int is_left_out(const char *name) {
  static const char *const names[] = {"seed", "seeds", "device", "threads"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!strcmp(names[i], name)) return 1;
  }
  return 0;
}

// The options of a line as the table shows them: texts by name, `data` first.
static cJSON *shown_options(const cJSON *line) {
  cJSON *shown = cJSON_CreateObject();
  const cJSON *item;
  char data[512] = "";
  cJSON_ArrayForEach(item, cJSON_GetObjectItem(line, "data")) {
    size_t at = strlen(data);
    if (!cJSON_IsString(item)) continue;
    snprintf(data + at, sizeof data - at, "%s%s", at ? " + " : "", item->valuestring);
  }
  cJSON_AddStringToObject(shown, "data", data);
  cJSON_ArrayForEach(item, cJSON_GetObjectItem(line, "options")) {
    if (cJSON_IsString(item) && !is_left_out(item->string)) {
      cJSON_AddStringToObject(shown, item->string, item->valuestring);
    }
  }
  return shown;
}

static const char *shown_text(const cJSON *shown, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(shown, name));
  return text ? text : RESULTS_NONE;
}

static int varies(const cJSON *all, const char *name) {
  const cJSON *shown;
  cJSON_ArrayForEach(shown, all) {
    if (strcmp(shown_text(shown, name), shown_text(all->child, name))) return 1;
  }
  return 0;
}

static int has_column(const Results *r, const char *name) {
  int i = 0;
  while (i < r->column_count && strcmp(r->columns[i], name)) i++;
  return i < r->column_count;
}

// eval-every follows from steps unless it is given
static int follows(const cJSON *all, const char *name) {
  const cJSON *shown;
  if (strcmp(name, "eval-every")) return 0;
  cJSON_ArrayForEach(shown, all) {
    if (strcmp(shown_text(shown, name), shown_text(shown, "steps"))) return 0;
  }
  return 1;
}

static int find_columns(Results *r) {
  const cJSON *shown, *item;
  int most = 0;
  cJSON_ArrayForEach(shown, r->texts) most += cJSON_GetArraySize(shown);
  r->columns = calloc((size_t)most + 1, sizeof *r->columns);
  r->column_count = 0;
  if (!r->columns) return bfm_fail(BFM_NO_MEMORY, "out of memory for columns");
  cJSON_ArrayForEach(shown, r->texts) {
    cJSON_ArrayForEach(item, shown) {
      if (has_column(r, item->string) || !varies(r->texts, item->string)) continue;
      if (!follows(r->texts, item->string)) r->columns[r->column_count++] = item->string;
    }
  }
  return BFM_OK;
}

// ---------------------------------- values -------------------------------------------------------

static double mean_return(const cJSON *returns, const char *task) {
  const cJSON *item;
  double sum = 0;
  int count = 0;
  cJSON_ArrayForEach(item, returns) {
    if (!cJSON_IsNumber(item) || (task && strcmp(item->string, task))) continue;
    sum += item->valuedouble;
    count++;
  }
  return count ? sum / count : NAN;
}

static double number_at(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItem(object, name);
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

// whether a seed was evaluated with a larger es, too
static int has_better(const cJSON *results, const cJSON *one) {
  const cJSON *other;
  cJSON_ArrayForEach(other, results) {
    if (number_at(other, "seed") == number_at(one, "seed") &&
        number_at(other, "es") > number_at(one, "es")) {
      return 1;
    }
  }
  return 0;
}

typedef struct {
  double *numbers;
  int count, room;
} Numbers;

static int add_number(Numbers *n, double value) {
  if (!isfinite(value)) return BFM_OK;
  if (n->count == n->room) {
    int room = n->room ? 2 * n->room : 16;
    double *more = realloc(n->numbers, (size_t)room * sizeof *more);
    if (!more) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d numbers", room);
    n->numbers = more;
    n->room = room;
  }
  n->numbers[n->count++] = value;
  return BFM_OK;
}

// the numbers of one cell: one per seed
static int add_numbers(const cJSON *line, const char *value, Numbers *numbers) {
  const cJSON *results = cJSON_GetObjectItem(line, "results"), *one;
  int is_return = !strcmp(value, "return"), before = numbers->count;
  cJSON_ArrayForEach(one, results) {
    const cJSON *returns = cJSON_GetObjectItem(one, "returns");
    if (has_better(results, one)) continue;
    TRY(add_number(numbers, mean_return(returns, is_return ? NULL : value)));
  }
  if (numbers->count > before || is_return) return BFM_OK;
  if (!strcmp(value, "seconds")) return add_number(numbers, number_at(line, "seconds"));
  const cJSON *logged = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItem(line, "log"), value);
  if (cJSON_IsNumber(logged)) return add_number(numbers, logged->valuedouble);
  if (!cJSON_IsArray(logged)) return BFM_OK;
  cJSON_ArrayForEach(one, logged) {
    TRY(add_number(numbers, cJSON_IsNumber(one) ? one->valuedouble : NAN));
  }
  return BFM_OK;
}

static int fill_values(const Results *r, ResultRow *row) {
  row->intervals = calloc((size_t)r->value_count, sizeof *row->intervals);
  row->counts = calloc((size_t)r->value_count, sizeof *row->counts);
  if (!row->intervals || !row->counts) return bfm_fail(BFM_NO_MEMORY, "out of memory for results");
  for (int v = 0; v < r->value_count; v++) {
    Numbers numbers = {.count = 0};
    int status = BFM_OK;
    for (int i = 0; i < row->cells && !status; i++) {
      status = add_numbers(row->lines[i], r->values[v], &numbers);
    }
    row->counts[v] = numbers.count;
    row->intervals[v] = numbers.count ? mean_interval(numbers.numbers, numbers.count, CONFIDENCE)
                                      : (Interval){NAN, NAN, NAN};
    free(numbers.numbers);
    TRY(status);
  }
  return BFM_OK;
}

static int split_values(Results *r, const char *values) {
  r->names = strdup(values);
  r->values = calloc(strlen(values) + 1, sizeof *r->values);
  r->value_count = 0;
  if (!r->names || !r->values) return bfm_fail(BFM_NO_MEMORY, "out of memory for names");
  for (char *rest = r->names, *name; (name = strsep(&rest, ","));) {
    if (*name) r->values[r->value_count++] = name;
  }
  if (r->value_count) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "--value is \"%s\", but must name a value such as return",
                  values);
}

static void suggest_names(const cJSON *object, Suggestion *nearest) {
  const cJSON *item;
  cJSON_ArrayForEach(item, object) suggest_try(nearest, item->string);
}

// a value that no row has is a mistake of the person who asks
static int check_values(const Results *r) {
  for (int v = 0; v < r->value_count; v++) {
    int count = 0;
    Suggestion nearest = {.word = r->values[v]};
    suggest_try(&nearest, "return");
    suggest_try(&nearest, "seconds");
    for (int i = 0; i < r->row_count; i++) {
      const cJSON *line = r->rows[i].lines[0], *one;
      count += r->rows[i].counts[v];
      cJSON_ArrayForEach(one, cJSON_GetObjectItem(line, "results")) {
        suggest_names(cJSON_GetObjectItem(one, "returns"), &nearest);
      }
      suggest_names(cJSON_GetObjectItem(line, "log"), &nearest);
    }
    if (count || !r->row_count || !strcmp(r->values[v], "return")) continue;
    return bfm_fail(BFM_BAD_ARGUMENT, "no result has a value \"%.64s\"%s", r->values[v],
                    suggest_say(&nearest, ": name return, a task, a loss or seconds"));
  }
  return BFM_OK;
}

// ---------------------------------- rows ---------------------------------------------------------

static ResultRow *find_row(const Results *r, const cJSON *shown) {
  for (int i = 0; i < r->row_count; i++) {
    int c = 0;
    while (c < r->column_count && !strcmp(r->rows[i].texts[c], shown_text(shown, r->columns[c])))
      c++;
    if (c == r->column_count) return &r->rows[i];
  }
  return NULL;
}

static int add_row(Results *r, const cJSON *shown, int lines) {
  ResultRow *row = &r->rows[r->row_count++];
  row->texts = calloc((size_t)r->column_count + 1, sizeof *row->texts);
  row->lines = calloc((size_t)lines, sizeof *row->lines);
  if (!row->texts || !row->lines) return bfm_fail(BFM_NO_MEMORY, "out of memory for results");
  for (int c = 0; c < r->column_count; c++) row->texts[c] = shown_text(shown, r->columns[c]);
  return BFM_OK;
}

static int is_training(const cJSON *line) {
  return !cJSON_HasObjectItem(line, "error") && !strcmp(text_at(line, "kind"), "train");
}

static int fill_rows(Results *r, const JournalLine *const *lines, int count) {
  r->rows = calloc((size_t)count + 1, sizeof *r->rows);
  r->row_count = 0;
  if (!r->rows) return bfm_fail(BFM_NO_MEMORY, "out of memory for results");
  const cJSON *shown = r->texts->child;
  for (int i = 0; i < count; i++) {
    if (!is_training(lines[i]->item)) continue;
    ResultRow *row = find_row(r, shown);
    if (!row) {
      TRY(add_row(r, shown, count));
      row = &r->rows[r->row_count - 1];
    }
    row->lines[row->cells++] = lines[i]->item;
    shown = shown->next;
  }
  for (int i = 0; i < r->row_count; i++) TRY(fill_values(r, &r->rows[i]));
  return BFM_OK;
}

static int sort_lines(Results *r, const JournalLine *const *lines, int count) {
  r->failures = calloc((size_t)count + 1, sizeof *r->failures);
  r->texts = cJSON_CreateArray();
  if (!r->failures || !r->texts) return bfm_fail(BFM_NO_MEMORY, "out of memory for results");
  for (int i = 0; i < count; i++) {
    const cJSON *line = lines[i]->item;
    if (cJSON_HasObjectItem(line, "error")) r->failures[r->failed++] = line;
    else if (is_training(line)) cJSON_AddItemToArray(r->texts, shown_options(line));
    else r->collections++;
  }
  TRY(find_columns(r));
  TRY(fill_rows(r, lines, count));
  return check_values(r);
}

// numbers before texts, in their order
static int by_text(const char *a, const char *b) {
  char *a_end, *b_end;
  double x = number_read(a, &a_end), y = number_read(b, &b_end);
  int numbers = !*a_end + !*b_end;
  if (numbers == 2) return (x > y) - (x < y);
  return numbers ? (*a_end ? 1 : -1) : strcmp(a, b);
}

static int by_columns(const void *x, const void *y, void *context) {
  const ResultRow *a = x, *b = y;
  const Results *r = context;
  int order = 0;
  for (int c = 0; c < r->column_count && !order; c++) order = by_text(a->texts[c], b->texts[c]);
  return order;
}

int results_read(Results *r, const char *folder, const char *values) {
  char path[PATH_MAX];
  const JournalLine **lines = NULL;
  int count = 0;
  *r = (Results){.names = NULL};
  TRY(path_join(path, folder, SWEEP_LEDGER));
  if (!path_is_folder(path)) {
    return bfm_fail(BFM_IO, "%s has no results of a sweep: it has no folder " SWEEP_LEDGER, folder);
  }
  TRY(journal_read(&r->lines, NULL, path, SWEEP_LINE));
  int status = split_values(r, values);
  if (!status) status = merge(&r->lines, &lines, &count);
  if (!status) status = sort_lines(r, lines, count);
  if (!status) qsort_r(r->rows, (size_t)r->row_count, sizeof *r->rows, by_columns, r);
  free(lines);
  if (status) results_free(r);
  return status;
}

void results_free(Results *r) {
  for (int i = 0; i < r->row_count; i++) {
    free(r->rows[i].texts);
    free(r->rows[i].intervals);
    free(r->rows[i].counts);
    free(r->rows[i].lines);
  }
  free(r->rows);
  free(r->columns);
  free(r->values);
  free(r->failures);
  free(r->names);
  cJSON_Delete(r->texts);
  journal_free(&r->lines);
  *r = (Results){.names = NULL};
}
