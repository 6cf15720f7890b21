// The results of a sweep as a table, as JSON and as bars with intervals: a panel per value, a bar per row
// of the table.

#include "cli/sweep_show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/folder.h"
#include "render/plot.h"
#include "sweep/results.h"

#define MAX_PANELS 16
#define NAME_SIZE 160

// ---------------------------------- a table ------------------------------------------------------

// "412.3 ± 20.1", with four digits of the mean
static void interval_text(Interval i, char *out, size_t size) {
  double half = (i.high - i.low) / 2, large = fmax(fabs(i.mean), isnan(half) ? 0 : half);
  int decimals = large > 0 ? 3 - (int)floor(log10(large)) : 1;
  decimals = decimals < 0 ? 0 : decimals > 6 ? 6 : decimals;
  if (isnan(i.mean)) snprintf(out, size, "-");
  else if (isnan(half)) snprintf(out, size, "%.*f", decimals, i.mean);
  else snprintf(out, size, "%.*f ± %.*f", decimals, i.mean, decimals, half);
}

// printf counts bytes, but ± has two
static void print_padded(const char *text, int width) {
  int length = 0;
  for (const char *c = text; *c; c++) length += (*c & 0xC0) != 0x80;
  printf("%s%*s", text, width > length ? width - length : 0, "");
}

static int column_width(const Results *r, int column) {
  size_t width = strlen(r->columns[column]);
  for (int i = 0; i < r->row_count; i++) {
    size_t own = strlen(r->rows[i].texts[column]);
    width = own > width ? own : width;
  }
  return (int)width + 2;
}

static int most_seeds(const ResultRow *row, int values) {
  int most = 0;
  for (int v = 0; v < values; v++) most = row->counts[v] > most ? row->counts[v] : most;
  return most;
}

static void print_row(const Results *r, const ResultRow *row) {
  char text[64];
  for (int c = 0; c < r->column_count; c++) print_padded(row->texts[c], column_width(r, c));
  printf("%5d", most_seeds(row, r->value_count));
  for (int v = 0; v < r->value_count; v++) {
    interval_text(row->intervals[v], text, sizeof text);
    printf("  ");
    print_padded(text, v + 1 < r->value_count ? 20 : 0);
  }
  putchar('\n');
}

static void print_table(const Results *r) {
  for (int c = 0; c < r->column_count; c++) print_padded(r->columns[c], column_width(r, c));
  printf("seeds");
  for (int v = 0; v < r->value_count; v++) {
    printf("  ");
    print_padded(r->values[v], v + 1 < r->value_count ? 20 : 0);
  }
  putchar('\n');
  for (int i = 0; i < r->row_count; i++) print_row(r, &r->rows[i]);
}

static void print_failures(const Results *r) {
  if (r->failed) printf("\n%d failed:\n", r->failed);
  for (int i = 0; i < r->failed; i++) {
    printf("  %s: %s\n", cJSON_GetObjectItem(r->failures[i], "cell")->valuestring,
           cJSON_GetObjectItem(r->failures[i], "error")->valuestring);
  }
}

static void print_text(const Results *r) {
  if (r->row_count) print_table(r);
  else printf("no training has a result yet; %d collections are done\n", r->collections);
  print_failures(r);
  if (r->row_count) puts("\nmeans over seeds, with 95% intervals by Student's t");
}

// ---------------------------------- JSON ---------------------------------------------------------

static void add_number(cJSON *object, const char *name, double value) {
  cJSON_AddItemToObject(object, name, isfinite(value) ? log_number(value) : cJSON_CreateNull());
}

static void print_json(const Results *r) {
  for (int i = 0; i < r->row_count; i++) {
    const ResultRow *row = &r->rows[i];
    cJSON *line = cJSON_CreateObject(), *options = cJSON_AddObjectToObject(line, "options");
    for (int c = 0; c < r->column_count; c++) {
      cJSON_AddStringToObject(options, r->columns[c], row->texts[c]);
    }
    for (int v = 0; v < r->value_count; v++) {
      cJSON *value = cJSON_AddObjectToObject(line, r->values[v]);
      cJSON_AddNumberToObject(value, "seeds", row->counts[v]);
      add_number(value, "mean", row->intervals[v].mean);
      add_number(value, "low", row->intervals[v].low);
      add_number(value, "high", row->intervals[v].high);
    }
    cJSON *cells = cJSON_AddArrayToObject(line, "cells");
    for (int k = 0; k < row->cells; k++) {
      cJSON_AddItemToArray(cells, cJSON_Duplicate(cJSON_GetObjectItem(row->lines[k], "cell"), 1));
    }
    cli_print_json(line);
    cJSON_Delete(line);
  }
  for (int i = 0; i < r->failed; i++) {
    cJSON *line = cJSON_CreateObject();
    cJSON_AddItemToObject(line, "cell",
                          cJSON_Duplicate(cJSON_GetObjectItem(r->failures[i], "cell"), 1));
    cJSON_AddItemToObject(line, "error",
                          cJSON_Duplicate(cJSON_GetObjectItem(r->failures[i], "error"), 1));
    cli_print_json(line);
    cJSON_Delete(line);
  }
}

// ---------------------------------- a plot -------------------------------------------------------

// "algo fb-aware, blocks 2": the options that vary, as far as the row has them
static void name_row(const Results *r, const ResultRow *row, char out[NAME_SIZE]) {
  size_t at = 0;
  *out = 0;
  for (int c = 0; c < r->column_count && at < NAME_SIZE; c++) {
    if (!strcmp(row->texts[c], RESULTS_NONE)) continue;
    at += (size_t)snprintf(out + at, NAME_SIZE - at, "%s%s %s", at ? ", " : "", r->columns[c],
                           row->texts[c]);
  }
}

// what a plot's panels point to
typedef struct {
  char (*text)[NAME_SIZE];  // [rows]
  const char **names;       // [rows]
  double *numbers;          // [panels, 2, rows]: means, halves of the intervals
} Drawing;

static int draw_bars(const Results *r, const Drawing *d, int panels, const char *path) {
  static const char *const no_name[] = {""};
  PlotBars plots[MAX_PANELS];
  for (int i = 0; i < r->row_count; i++) {
    name_row(r, &r->rows[i], d->text[i]);
    d->names[i] = d->text[i];
  }
  for (int v = 0; v < panels; v++) {
    double *mean = d->numbers + 2 * v * r->row_count, *half = mean + r->row_count;
    for (int i = 0; i < r->row_count; i++) {
      const Interval *interval = &r->rows[i].intervals[v];
      mean[i] = interval->mean;
      half[i] = (interval->high - interval->low) / 2;
    }
    plots[v] = (PlotBars){r->values[v], r->row_count, 1, d->names, no_name, mean, half};
  }
  return plot_bars(plots, panels, "mean and 95% interval", path);
}

static int draw(const Results *r, const char *path) {
  char stem[PATH_MAX];
  size_t rows = (size_t)r->row_count;
  int panels = r->value_count < MAX_PANELS ? r->value_count : MAX_PANELS;
  if (!rows) return bfm_fail(BFM_BAD_ARGUMENT, "no training has a result to draw yet");
  TRY(plot_stem(path, stem, sizeof stem));
  const Drawing d = {calloc(rows, NAME_SIZE), calloc(rows, sizeof *d.names),
                     calloc(2 * rows * (size_t)panels, sizeof *d.numbers)};
  int status = d.text && d.names && d.numbers ? draw_bars(r, &d, panels, stem)
                                              : bfm_fail(BFM_NO_MEMORY, "out of memory for a plot");
  if (!status) printf("%s.svg\n%s.png\n", stem, stem);
  free(d.text);
  free(d.names);
  free(d.numbers);
  return status;
}

int sweep_show(const char *folder, const char *values, const char *plot, int json) {
  Results results;
  int status = BFM_OK;
  TRY(results_read(&results, folder, values));
  if (plot) status = draw(&results, plot);
  else if (json) print_json(&results);
  else print_text(&results);
  results_free(&results);
  return status;
}
