// Our numbers for the paper's tables: means over the seeds of a run in the ledger.

#include <math.h>
#include <string.h>

#include "paper/paper.h"

#define MAX_SEEDS 64

// a task's return, or the mean over a group of tasks; NaN if the line lacks one of them
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

int paper_ours(const Ledger *ledger, const PaperCell *cell, const LedgerLine *run, const char *task,
               PaperOurs *ours) {
  if (!run) return 0;
  *ours = (PaperOurs){.steps = run->steps, .episodes = INT64_MAX, .more = run->more};
  int64_t seeds[MAX_SEEDS], episodes[MAX_SEEDS];
  double values[MAX_SEEDS];
  for (int i = 0; i < ledger->count; i++) {
    const LedgerLine *line = &ledger->lines[i];
    if (!ledger_same_run(line, run)) continue;
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
    ours->std += (values[k] - ours->mean) * (values[k] - ours->mean);
  }
  ours->std = ours->seeds > 1 ? sqrt(ours->std / (ours->seeds - 1)) : NAN;
  return 1;
}
