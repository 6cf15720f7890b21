// bfm paper show claims and plot claims: one row for each comparison of two methods, below its claim.

#include "cli/paper_claims.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/units.h"
#include "paper/claims.h"
#include "paper/datasets.h"
#include "render/plot.h"

#define ROWS 64  // at least the number of comparisons

typedef struct {
  const Claim *claim[ROWS];
  ClaimResult result[ROWS];
  int count;
} Results;

static int is_chosen(const ClaimResult *r, const char *filter) {
  return paper_cell_matches(&r->a, filter) || paper_cell_matches(&r->b, filter);
}

static void read_results(const Ledger *ledger, const char *filter, Results *all) {
  const Claim *claim;
  all->count = 0;
  for (int i = 0; (claim = claim_at(i)) && all->count < ROWS; i++) {
    claim_result(ledger, claim, &all->result[all->count]);
    all->claim[all->count] = claim;
    all->count += is_chosen(&all->result[all->count], filter);
  }
}

// whether row i is the first of its claim on its data
static int begins(const Results *all, int i) {
  if (!i) return 1;
  const Claim *a = all->claim[i - 1], *b = all->claim[i];
  return strcmp(a->text, b->text) || strcmp(a->domain, b->domain) || strcmp(a->data, b->data);
}

static const char *acting(const Claim *claim) {
  return claim->es_a && claim->es_b ? "ES" : claim->es_a ? "ES, mean" : "mean";
}

static void write_verdict(const ClaimResult *r, char *out, size_t size) {
  snprintf(out, size, "%s%s", claim_verdicts[r->verdict], r->pilot ? ", pilot" : "");
}

// ---------------------------------- for people ---------------------------------------------------

// to the digits shown, so that there is no -0.0
static double rounded(double value) { return round(10 * value) / 10 + 0.0; }

static void print_row(const Claim *claim, const ClaimResult *r) {
  char name[96], verdict[32], interval[32] = "", steps[32] = "";
  snprintf(name, sizeof name, "%s - %s", claim->a, claim->b);
  printf("%c %-46s%-6s%-10s", claim->decides ? '*' : ' ', name, claim->group, acting(claim));
  write_verdict(r, verdict, sizeof verdict);
  if (!r->seeds) {
    printf("%54s  %s\n", "", verdict);
    return;
  }
  short_count((double)r->steps, steps, sizeof steps);
  if (isfinite(r->low)) {
    snprintf(interval, sizeof interval, "%.1f to %.1f", rounded(r->low), rounded(r->high));
  }
  printf("%6.1f %6.1f %7.1f  %-16s%6d %6s  %s\n", r->mean_a, r->mean_b, rounded(r->effect),
         interval, r->seeds, steps, verdict);
}

static void print_legend(const PaperTable *table) {
  printf(
      "\n"
      "A, B, A - B  means over paired seeds of the mean return over the tasks; interval: 95%%, "
      "Student's\n"
      "             t; in, new, all: tasks of the data, other tasks, both\n"
      "kept         the share of the predicted return that is earned, %%, at most 100 in each "
      "task\n"
      "ES, mean     acting by the best of sampled actions, or by the policy's mean\n"
      "*            decides the claim; the other rows show what the result depends on\n"
      "holds        the interval lies above 0; claim 6: within ±5%% of B\n"
      "does not     the interval lies below 0; claim 6: wholly outside of ±5%% of B\n"
      "pilot        fewer seeds (%d), steps, episodes (%d) or transitions than planned, or other\n"
      "             options\n",
      (int)table->seeds, (int)table->episodes);
}

static void print_data(const PaperTable *table) {
  PaperCell cell;
  char last[64] = "";
  puts("\nData:");
  for (int i = 0; paper_cell_at(table, i, &cell); i++) {
    char command[512];
    if (!strcmp(last, cell.data)) continue;
    snprintf(last, sizeof last, "%s", cell.data);
    paper_data_command(cell.domain, cell.data, command, sizeof command);
    printf("  %s\n", command);
  }
}

static void print_all(const PaperTable *table, const Results *all) {
  printf("%s: %s\n\n", table->name, table->help);
  printf("  %-46s%-6s%-10s%6s %6s %7s  %-16s%6s %6s  %s\n", "A - B", "tasks", "acting", "A", "B",
         "A - B", "interval", "seeds", "steps", "verdict");
  int missing = 0;
  for (int i = 0; i < all->count; i++) {
    const Claim *claim = all->claim[i];
    if (begins(all, i)) {
      printf("\n%d %s (%s, %s)\n", claim->number, claim->text, claim->domain, claim->data);
    }
    print_row(claim, &all->result[i]);
    missing += !all->result[i].seeds;
  }
  print_legend(table);
  print_data(table);
  if (missing) {
    printf("\n%d of %d comparisons have not been run: bfm paper run %s\n", missing, all->count,
           table->name);
  }
}

// ---------------------------------- for programs -------------------------------------------------

static void add_number(cJSON *item, const char *name, double value) {
  if (isfinite(value)) cJSON_AddNumberToObject(item, name, value);
}

static void print_json(const Claim *claim, const ClaimResult *r) {
  cJSON *item = cJSON_CreateObject();
  cJSON_AddNumberToObject(item, "claim", claim->number);
  cJSON_AddStringToObject(item, "text", claim->text);
  cJSON_AddBoolToObject(item, "decides", claim->decides);
  cJSON_AddStringToObject(item, "domain", claim->domain);
  cJSON_AddStringToObject(item, "data", claim->data);
  cJSON_AddStringToObject(item, "a", claim->a);
  cJSON_AddStringToObject(item, "b", claim->b);
  cJSON_AddStringToObject(item, "group", claim->group);
  cJSON_AddStringToObject(item, "acting", acting(claim));
  cJSON_AddStringToObject(item, "rule", claim->matches ? "matches" : "above");
  cJSON_AddStringToObject(item, "verdict", claim_verdicts[r->verdict]);
  cJSON_AddNumberToObject(item, "seeds", r->seeds);
  if (r->seeds) {
    cJSON_AddBoolToObject(item, "pilot", r->pilot);
    cJSON_AddNumberToObject(item, "steps", (double)r->steps);
    cJSON_AddNumberToObject(item, "episodes", (double)r->episodes);
    cJSON_AddNumberToObject(item, "transitions", (double)r->transitions);
    cJSON_AddStringToObject(item, "more", r->line_a->more);
    add_number(item, "mean_a", r->mean_a);
    add_number(item, "mean_b", r->mean_b);
    add_number(item, "effect", r->effect);
    add_number(item, "low", r->low);
    add_number(item, "high", r->high);
  }
  cli_print_json(item);
  cJSON_Delete(item);
}

int paper_claims_show(const PaperSettings *settings, int json) {
  const PaperTable *table;
  Ledger ledger;
  Results *all = calloc(1, sizeof *all);
  if (!all) return bfm_fail(BFM_NO_MEMORY, "out of memory for the claims");
  int status = paper_table_find(&table, CLAIMS_TABLE);
  if (!status) status = ledger_read(&ledger, settings->results);
  if (!status) {
    read_results(&ledger, settings->filter, all);
    for (int i = 0; json && i < all->count; i++) print_json(all->claim[i], &all->result[i]);
    if (!json) print_all(table, all);
    ledger_free(&ledger);
  }
  free(all);
  return status;
}

// ---------------------------------- effects ------------------------------------------------------

#define FULL 1000.0  // the highest return of an episode in the domains of the claims

static const char *const colours[] = {[CLAIM_NOT_RUN] = "#777777", [CLAIM_HOLDS] = "#1b5e9e",
                                      [CLAIM_DOES_NOT] = "#c25b00", [CLAIM_UNDECIDED] = "#777777"};

typedef struct {
  char label[128], note[32];
} Text;

// returns in percent of the highest return, so that all effects share an axis
static PlotEffect effect_of(const Claim *claim, const ClaimResult *r, Text *text) {
  double scale = strcmp(claim->group, "kept") ? 100 / FULL : 1;
  snprintf(text->label, sizeof text->label, "%s%s − %s (%s; %s)", claim->decides ? "• " : "   ",
           claim->a, claim->b, claim->group, acting(claim));
  write_verdict(r, text->note, sizeof text->note);
  PlotEffect effect = {.label = text->label, .note = text->note, .value = NAN, .low = NAN,
                       .high = NAN, .colour = colours[r->verdict], .hollow = r->pilot};
  if (!r->seeds) return effect;
  effect.value = scale * r->effect;
  effect.low = scale * r->low;
  effect.high = scale * r->high;
  if (claim->matches) effect.band = scale * CLAIM_TOLERANCE * fabs(r->mean_b);
  return effect;
}

static int draw_effects(const Results *all, const char *path) {
  PlotEffect rows[3 * ROWS];
  static Text texts[3 * ROWS];
  int count = 0;
  for (int i = 0; i < all->count; i++) {
    const Claim *claim = all->claim[i];
    if (begins(all, i) && i) rows[count++] = (PlotEffect){"", "", NAN, NAN, NAN, .colour = "black"};
    if (begins(all, i)) {
      Text *text = &texts[count];
      snprintf(text->label, sizeof text->label, "%d  %s (%s, %s)", claim->number, claim->text,
               claim->domain, claim->data);
      rows[count++] = (PlotEffect){.label = text->label, .note = "", .value = NAN, .low = NAN,
                                   .high = NAN, .colour = "black", .heading = 1};
    }
    rows[count] = effect_of(claim, &all->result[i], &texts[count]);
    count++;
  }
  return plot_effects(rows, count,
                      "A − B, % of the highest return (claim 5: of the predicted return)", path);
}

// ---------------------------------- curves -------------------------------------------------------

#define POINTS 256

typedef struct {
  double x[POINTS], y[POINTS], spread[POINTS];
} Numbers;

// the mean over the claim's tasks at point i of a line's curve; NaN: there is none
static double point_at(const LedgerLine *line, const PaperCell *cell, const char *group, int i) {
  double sum = 0;
  int count = 0;
  const Task *task;
  for (int k = 0; (task = task_at(cell->domain, k)); k++) {
    if (!paper_in_group(cell, task, group)) continue;
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(line->curve, task->name);
    sum += cJSON_GetNumberValue(cJSON_GetArrayItem(values, i));
    count++;
  }
  return count ? sum / count : NAN;
}

// mean and standard deviation over the seeds of a run at point i of its curve
static int add_point(const Ledger *ledger, const LedgerLine *run, const PaperCell *cell,
                     const char *group, int i, Numbers *numbers) {
  double sum = 0, square = 0, step = NAN;
  int count = 0;
  for (int64_t seed = 0; seed < CLAIM_MAX_SEEDS; seed++) {
    const LedgerLine *line = claim_line(ledger, run, seed);
    if (!line) continue;
    double value = point_at(line, cell, group, i);
    if (isnan(value)) continue;
    const cJSON *steps = cJSON_GetObjectItem(line->curve, "steps");
    step = cJSON_GetNumberValue(cJSON_GetArrayItem(steps, i));
    sum += value;
    square += value * value;
    count++;
  }
  if (!count || isnan(step)) return 0;
  double mean = sum / count;
  numbers->x[i] = step;
  numbers->y[i] = mean;
  numbers->spread[i] = count > 1 ? sqrt(fmax(0, square - count * mean * mean) / (count - 1)) : 0;
  return 1;
}

static PlotCurve curve_of(const Ledger *ledger, const LedgerLine *run, const PaperCell *cell,
                          const Claim *claim, Numbers *numbers) {
  int count = 0;
  while (count < POINTS && run->curve &&
         add_point(ledger, run, cell, claim->group, count, numbers)) {
    count++;
  }
  return (PlotCurve){cell->method->method, count, numbers->x, numbers->y, numbers->spread};
}

// One panel for each deciding comparison that has curves. The panels compare different methods but share
// a key, which therefore says A and B.
static int draw_curves(const Ledger *ledger, const Results *all, const char *stem) {
  PlotPanel panels[ROWS];
  PlotCurve curves[ROWS][2];
  static char titles[ROWS][128];
  Numbers *numbers = calloc((size_t)all->count * 2, sizeof *numbers);
  if (!numbers) return bfm_fail(BFM_NO_MEMORY, "out of memory for curves");
  int count = 0;
  for (int i = 0; i < all->count; i++) {
    const Claim *claim = all->claim[i];
    const ClaimResult *r = &all->result[i];
    if (!r->seeds || !claim->decides || !strcmp(claim->group, "kept")) continue;
    curves[count][0] = curve_of(ledger, r->line_a, &r->a, claim, &numbers[2 * count]);
    curves[count][1] = curve_of(ledger, r->line_b, &r->b, claim, &numbers[2 * count + 1]);
    if (!curves[count][0].count && !curves[count][1].count) continue;
    curves[count][0].title = "A, the method of the claim";
    curves[count][1].title = "B, compared with it";
    snprintf(titles[count], sizeof titles[count], "claim %d (%s, %s)", claim->number, claim->domain,
             claim->data);
    panels[count] = (PlotPanel){titles[count], curves[count], 2};
    count++;
  }
  char path[PATH_MAX + 8];
  snprintf(path, sizeof path, "%s-curves", stem);
  int status = count ? plot_curves(panels, count, "steps", "return", path) : BFM_OK;
  if (!status && count) printf("%s.svg\n%s.png\n", path, path);
  free(numbers);
  return status;
}

// ---------------------------------- the plots ----------------------------------------------------

static int draw(const Ledger *ledger, const Results *all, const char *stem) {
  int any = 0;
  for (int i = 0; i < all->count; i++) any |= all->result[i].seeds > 0;
  if (!any) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "there is nothing to draw for the table %s yet: run it with bfm paper run %s",
                    CLAIMS_TABLE, CLAIMS_TABLE);
  }
  TRY(draw_effects(all, stem));
  printf("%s.svg\n%s.png\n", stem, stem);
  return draw_curves(ledger, all, stem);
}

int paper_claims_plot(const PaperSettings *settings, const char *path) {
  char by_default[PATH_MAX], stem[PATH_MAX];
  Ledger ledger;
  snprintf(by_default, sizeof by_default, "%s/%s", settings->results, CLAIMS_TABLE);
  TRY(plot_stem(path ? path : by_default, stem, sizeof stem));
  Results *all = calloc(1, sizeof *all);
  if (!all) return bfm_fail(BFM_NO_MEMORY, "out of memory for the claims");
  int status = ledger_read(&ledger, settings->results);
  if (!status) {
    read_results(&ledger, settings->filter, all);
    status = draw(&ledger, all, stem);
    ledger_free(&ledger);
  }
  free(all);
  return status;
}
