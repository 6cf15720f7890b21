// bfm paper plot: one panel per domain and kind of data, with one group of bars per method. If our run
// has fewer steps than the table asks for, they stand below the method's name.

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/paper_show.h"
#include "core/units.h"
#include "paper/compare.h"
#include "render/plot.h"

#define MAX_PANELS 16
#define MAX_METHODS BLOCK_METHODS
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

// add a cell's method to the panel, if there is a number of ours or of the paper's
static void add_bars(const PaperBoth *both, const PaperCell *cell, const LedgerLine *run,
                     Panel *panel) {
  int k = panel->count, any = 0;
  // compare means over all tasks if the paper has them, otherwise means over known and over new tasks
  int all = paper_number(&both->numbers, cell, "all") != NULL;
  int64_t steps = cell->table->steps;
  for (int i = 0; i < BARS; i++) {
    double *value = &panel->value[k * BARS + i], *spread = &panel->spread[k * BARS + i];
    const char *group = bar_groups[all][i];
    *value = *spread = NAN;
    PaperOurs ours;
    if (i % 2) {
      *value = paper_value(&both->numbers, cell, group, spread);
    } else if (paper_ours(&both->ledger, cell, run, group, &ours)) {
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

// fill the panels, one per block with numbers; *count is their number
static int fill_panels(const PaperBoth *both, Panel *panels, int *count) {
  PaperBlock block;
  int at = 0, more;
  *count = 0;
  while ((more = paper_block(&block, &both->ledger, both->table, &at)) > 0) {
    Panel *panel = &panels[*count];
    *panel = (Panel){.count = 0};
    snprintf(panel->title, sizeof panel->title, "%.30s, %.30s", block.cells[0].domain,
             block.cells[0].data);
    for (int k = 0; k < block.count; k++) {
      const PaperCell *cell = &block.cells[k];
      if (paper_cell_matches(cell, both->settings->filter)) {
        add_bars(both, cell, block.lines[k], panel);
      }
    }
    paper_block_free(&block);
    *count += panel->count > 0;
    if (*count == MAX_PANELS) break;
  }
  return more < 0 ? BFM_NO_MEMORY : BFM_OK;
}

static int draw(const PaperBoth *both, Panel *panels, const char *path) {
  int count;
  TRY(fill_panels(both, panels, &count));
  const PaperTable *table = both->table;
  if (!count) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "there is nothing to draw for the table %s yet: run it with bfm paper run %s",
                    table->name, table->name);
  }
  PlotBars bars[MAX_PANELS];
  for (int i = 0; i < count; i++) {
    bars[i] = (PlotBars){panels[i].title, panels[i].count, BARS, panels[i].methods, bar_names,
                         panels[i].value, panels[i].spread};
  }
  int d4rl = !strncmp(table->data, "d4rl-", 5);
  TRY(plot_bars(bars, count, d4rl ? "normalized return" : "return", path));
  printf("%s.svg\n%s.png\n", path, path);
  char left_out[LEFT_OUT_SIZE];
  if (ledger_left_out(&both->ledger, table->domains, left_out)) puts(left_out);
  return BFM_OK;
}

int paper_plot(const PaperTable *table, const PaperSettings *settings, const char *path) {
  char by_default[PATH_MAX], stem[PATH_MAX];
  snprintf(by_default, sizeof by_default, "%s/%s", settings->results, table->name);
  TRY(plot_stem(path ? path : by_default, stem, sizeof stem));
  PaperBoth both;
  Panel *panels = calloc(MAX_PANELS, sizeof *panels);
  if (!panels) return bfm_fail(BFM_NO_MEMORY, "out of memory for a plot");
  int status = paper_both_read(&both, table, settings);
  if (!status) status = draw(&both, panels, stem);
  paper_both_free(&both);
  free(panels);
  return status;
}
