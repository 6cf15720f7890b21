// The results of a sweep as a table: one row per combination of the options that vary, seeds apart, with
// means and intervals over its seeds.

#ifndef BFM_SWEEP_RESULTS_H
#define BFM_SWEEP_RESULTS_H

#include "core/interval.h"
#include "sweep/journal.h"

#define RESULTS_NONE "-"  // the text of an option that a row does not have

typedef struct {
  const char **texts;   // [columns] of the options that vary
  Interval *intervals;  // [values]; the mean is NaN if there is none
  int *counts;          // [values] of numbers behind a mean: seeds
  const cJSON **lines;  // [cells] of the ledger, in the order of their time
  int cells;
} ResultRow;

typedef struct {
  const char **columns;  // [column_count] options that vary, in the order of the file
  const char **values;   // [value_count] what is shown, such as "return"
  ResultRow *rows;
  const cJSON **failures;  // [failed] lines of cells that have no result
  int column_count, value_count, row_count, failed, collections;
  // owned
  JournalLines lines;
  char *names;   // of the values
  cJSON *texts;  // of the rows
} Results;

// Read the results of a sweep's folder. `values`, separated by commas: "return" (the mean over tasks), a
// task, a loss or another number of log.jsonl, or "seconds". A seed is evaluated with its largest es.
int results_read(Results *results, const char *folder, const char *values);
// Fail if a line of the ledger is not a result.
int results_check(const JournalLines *lines, const JournalLine *line);

void results_free(Results *results);

#endif
