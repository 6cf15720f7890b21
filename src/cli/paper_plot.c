// bfm paper plot: a panel a domain and kind of data, in it a group of bars a method. Below a method
// stands what ours were made with, where that is less than the table's.

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/paper_show.h"
#include "core/progress.h"
#include "render/plot.h"

#define MAX_PANELS 16
#define MAX_METHODS 16
#define BARS 4

static const char *const bar_names[BARS] = {"ours", "paper", "ours, new tasks", "paper, new tasks"};
static const char *const bar_groups[2][BARS] = {{"in", "in", "new", "new"}, {"all", "all", "", ""}};

typedef struct {
  char title[64];
  char names[MAX_METHODS][96];
  const char *methods[MAX_METHODS];
  double value[MAX_METHODS * BARS], spread[MAX_METHODS * BARS];
  int count;
} Panel;

// method number k of a panel, when either has a number for it
static void add_bars(const PaperBoth *both, const PaperCell *cell, Panel *panel) {
  int k = panel->count, any = 0;
  // where the paper has the mean of all tasks, that is compared
  int all = paper_number(&both->numbers, cell, "all") != NULL;
  int64_t steps = cell->table->steps;
  for (int i = 0; i < BARS; i++) {
    double *value = &panel->value[k * BARS + i], *spread = &panel->spread[k * BARS + i];
    const char *group = bar_groups[all][i];
    *value = *spread = NAN;
    PaperOurs ours;
    if (i % 2) {
      *value = paper_value(&both->numbers, cell, group, spread);
    } else if (paper_ours(&both->ledger, cell, group, &ours)) {
      *value = ours.mean;
      *spread = ours.std;
      steps = ours.steps;
    }
    any |= isfinite(*value);
  }
  char count[32];
  short_count((double)steps, count, sizeof count);
  int less = steps < cell->table->steps;
  snprintf(panel->names[k], sizeof *panel->names, "%.40s%s%s%s", cell->method->method,
           less ? "\n" : "", less ? count : "", less ? " steps" : "");
  panel->methods[k] = panel->names[k];
  panel->count += any;
}

static int fill_panels(const PaperBoth *both, Panel *panels) {
  PaperCell cell;
  int count = 0;
  for (int i = 0; paper_cell_at(both->table, i, &cell); i++) {
    if (!paper_cell_matches(&cell, both->settings->filter)) continue;
    char title[sizeof panels->title];
    snprintf(title, sizeof title, "%.30s, %.30s", cell.domain, cell.data);
    int fresh = !count || strcmp(panels[count - 1].title, title);
    // a panel that got nothing is taken again
    if (fresh && count && !panels[count - 1].count) count--;
    if (fresh && count == MAX_PANELS) break;
    if (fresh) memcpy(panels[count++].title, title, sizeof title);
    if (panels[count - 1].count < MAX_METHODS) add_bars(both, &cell, &panels[count - 1]);
  }
  return count && !panels[count - 1].count ? count - 1 : count;
}

static int draw(const PaperBoth *both, Panel *panels, const char *path) {
  int count = fill_panels(both, panels);
  const PaperTable *table = both->table;
  if (!count) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "there is nothing to draw of %s yet: bfm paper run %s makes it", table->name,
                    table->name);
  }
  PlotBars bars[MAX_PANELS];
  for (int i = 0; i < count; i++) {
    bars[i] = (PlotBars){panels[i].title, panels[i].count, BARS, panels[i].methods, bar_names,
                         panels[i].value, panels[i].spread};
  }
  int d4rl = !strncmp(table->data, "d4rl-", 5);
  TRY(plot_bars(bars, count, d4rl ? "normalized return" : "return", path));
  printf("%s.svg\n%s.png\n", path, path);
  return BFM_OK;
}

int paper_plot(const PaperTable *table, const PaperSettings *settings, const char *path) {
  char own[PATH_MAX], stem[PATH_MAX];
  snprintf(own, sizeof own, "%s/%s", settings->results, table->name);
  TRY(plot_stem(path ? path : own, stem, sizeof stem));
  PaperBoth both;
  Panel *panels = calloc(MAX_PANELS, sizeof *panels);
  if (!panels) return bfm_fail(BFM_NO_MEMORY, "no memory for a plot");
  int status = paper_both_read(&both, table, settings);
  if (!status) status = draw(&both, panels, stem);
  paper_both_free(&both);
  free(panels);
  return status;
}
