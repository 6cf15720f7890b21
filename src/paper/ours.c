// Our numbers for the paper's tables: means over seeds of the returns in the ledger.

#include <math.h>
#include <string.h>

#include "paper/paper.h"

#define MAX_SEEDS 64

// whether a line is of the cell's run, with evaluation-based sampling on or off as for the method
static int is_ours(const LedgerLine *line, const PaperCell *cell) {
  return !strcmp(line->run, cell->run) && (line->es > 0) == cell->method->es;
}

// Prefer runs with the table's own options, then those with the most steps of all seeds together, then
// (if only the dataset differs) the later one.
static int is_better(const LedgerLine *a, const LedgerLine *b) {
  if (!*a->more != !*b->more) return !*a->more;
  int64_t more = a->steps * a->seeds - b->steps * b->seeds;
  if (more) return more > 0;
  return a->steps == b->steps && !strcmp(a->more, b->more);
}

static const LedgerLine *best_line(const Ledger *ledger, const PaperCell *cell) {
  const LedgerLine *best = NULL;
  for (int i = 0; i < ledger->count; i++) {
    const LedgerLine *line = &ledger->lines[i];
    if (is_ours(line, cell) && (!best || is_better(line, best))) best = line;
  }
  return best;
}

double paper_line_value(const LedgerLine *line, const PaperCell *cell, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(line->returns, name);
  if (cJSON_IsNumber(item)) return paper_score(cell, name, item->valuedouble);
  double sum = 0;
  int count = 0;
  const Task *task;
  for (int i = 0; (task = task_at(cell->domain, i)); i++) {
    if (!paper_in_group(cell, task, name)) continue;
    item = cJSON_GetObjectItemCaseSensitive(line->returns, task->name);
    sum += cJSON_IsNumber(item) ? paper_score(cell, task->name, item->valuedouble) : NAN;
    count++;
  }
  return count ? sum / count : NAN;
}

int paper_ours(const Ledger *ledger, const PaperCell *cell, const char *task, PaperOurs *ours) {
  const LedgerLine *best = best_line(ledger, cell);
  if (!best) return 0;
  *ours = (PaperOurs){.steps = best->steps, .episodes = INT64_MAX, .more = best->more};
  int64_t seeds[MAX_SEEDS], episodes[MAX_SEEDS];
  double values[MAX_SEEDS];
  for (int i = 0; i < ledger->count; i++) {
    const LedgerLine *line = &ledger->lines[i];
    if (!ledger_same_run(line, best)) continue;
    double value = paper_line_value(line, cell, task);
    if (isnan(value)) continue;
    // if a seed was run again, the last line counts
    int k = 0;
    while (k < ours->seeds && seeds[k] != line->seed) k++;
    if (k == MAX_SEEDS) continue;
    if (k == ours->seeds) ours->seeds++;
    seeds[k] = line->seed;
    values[k] = value;
    episodes[k] = line->episodes;
  }
  if (!ours->seeds) return 0;
  for (int k = 0; k < ours->seeds; k++) {
    ours->mean += values[k] / ours->seeds;
    if (episodes[k] < ours->episodes) ours->episodes = episodes[k];
  }
  for (int k = 0; k < ours->seeds; k++) {
    ours->std += (values[k] - ours->mean) * (values[k] - ours->mean) / ours->seeds;
  }
  ours->std = sqrt(ours->std);
  return 1;
}
