// Our numbers for the paper's tables: means over the seeds of a run in the ledger.

#include <math.h>
#include <string.h>

#include "paper/paper.h"

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

int paper_seeds(const Ledger *ledger, const PaperCell *cell, const LedgerLine *run,
                const char *task, const LedgerLine *lines[PAPER_MAX_SEEDS]) {
  int count = 0;
  for (int i = 0; run && i < ledger->count; i++) {
    const LedgerLine *line = &ledger->lines[i];
    if (!ledger_same_run(line, run) || isnan(paper_line_value(line, cell, task))) continue;
    // if a seed was run again, the last line counts
    int k = 0;
    while (k < count && lines[k]->seed != line->seed) k++;
    if (k == PAPER_MAX_SEEDS) continue;
    if (k == count) count++;
    lines[k] = line;
  }
  return count;
}

int paper_ours(const Ledger *ledger, const PaperCell *cell, const LedgerLine *run, const char *task,
               PaperOurs *ours) {
  const LedgerLine *lines[PAPER_MAX_SEEDS];
  int seeds = paper_seeds(ledger, cell, run, task, lines);
  if (!seeds) return 0;
  *ours = (PaperOurs){.seeds = seeds, .steps = run->steps, .episodes = INT64_MAX,
                      .updates = run->updates, .more = run->more};
  double values[PAPER_MAX_SEEDS];
  for (int k = 0; k < seeds; k++) {
    values[k] = paper_line_value(lines[k], cell, task);
    ours->mean += values[k] / seeds;
    if (lines[k]->episodes < ours->episodes) ours->episodes = lines[k]->episodes;
    ours->from_log |= *lines[k]->source != 0;
  }
  for (int k = 0; k < seeds; k++) {
    ours->std += (values[k] - ours->mean) * (values[k] - ours->mean);
  }
  ours->std = seeds > 1 ? sqrt(ours->std / (seeds - 1)) : NAN;
  return 1;
}
