// bfm paper show: one block per domain and kind of data, with one column per method. A column has our
// numbers, the paper's or both, whichever there are. Methods without any number are not shown; the
// last lines tell how to run them.

#include "cli/paper_show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/units.h"
#include "envs/tasks.h"
#include "paper/compare.h"
#include "paper/statistics.h"

int paper_both_read(PaperBoth *both, const PaperTable *table, const PaperSettings *settings) {
  *both = (PaperBoth){.table = table, .settings = settings};
  TRY(ledger_read(&both->ledger, settings->results));
  return paper_numbers_read(&both->numbers, table, settings->results);
}

void paper_both_free(PaperBoth *both) {
  ledger_free(&both->ledger);
  paper_numbers_free(&both->numbers);
}

// ---------------------------------- numbers ------------------------------------------------------

#define MAX_MARKS 52
#define MARK_SIZE (8 * PAPER_TEXT)

// footnotes for numbers made with fewer steps, seeds or episodes than the table asks for, or otherwise
// than the runs that they stand beside; their marks are the letters
typedef struct {
  char text[MAX_MARKS][MARK_SIZE];
  int count;
} Marks;

#define FROM_LOG "from the log of a bfm train run"

// the field's updates of RND's learner for each transition
#define RND_UPDATES 0.5

static char letter(int i) { return (char)(i < 26 ? 'a' + i : 'A' + i - 26); }

// differs: how the run differs from those that it stands beside
static char mark(Marks *marks, const PaperTable *table, const PaperOurs *ours,
                 const char *differs) {
  char text[MARK_SIZE] = "", steps[32], of[32];
  size_t at = 0;
  if (ours->steps < table->steps) {
    short_count((double)ours->steps, steps, sizeof steps);
    short_count((double)table->steps, of, sizeof of);
    at += snprintf(text + at, sizeof text - at, ", %s of %s steps", steps, of);
  }
  if (ours->seeds < table->seeds) {
    at += snprintf(text + at, sizeof text - at, ", %d of %d seeds", ours->seeds, (int)table->seeds);
  }
  if (ours->episodes < table->episodes) {
    at += snprintf(text + at, sizeof text - at, ", %d of %d episodes", (int)ours->episodes,
                   (int)table->episodes);
  }
  if (ours->updates > 0 && ours->updates < RND_UPDATES) {
    at += snprintf(text + at, sizeof text - at, ", data with %g of %g updates a transition",
                   ours->updates, RND_UPDATES);
  }
  if (ours->from_log) at += snprintf(text + at, sizeof text - at, ", " FROM_LOG);
  if (*ours->more) at += snprintf(text + at, sizeof text - at, ", %s", ours->more);
  if (*differs) snprintf(text + at, sizeof text - at, "%s%s", at ? "; " : ", ", differs);
  if (!*text) return ' ';
  int i = 0;
  while (i < marks->count && strcmp(marks->text[i], text + 2)) i++;
  if (i == MAX_MARKS) return '*';
  if (i == marks->count) snprintf(marks->text[marks->count++], sizeof *marks->text, "%s", text + 2);
  return letter(i);
}

enum { IN, NEW, ALL, GROUPS };

static const char *const groups[GROUPS] = {"in", "new", "all"};

// statistics of a group of tasks over seeds: the interquartile mean, and the probability of improvement
enum { IQM, IMPROVEMENT, STATISTICS };

typedef struct {
  PaperCell cell;
  const LedgerLine *run;                    // of ours, NULL: none
  char differs[MARK_SIZE / 2];              // what makes it incomparable with the others, or empty
  int ours, paper;                          // how many numbers of ours and of the paper's it has
  const char *baseline;                     // the method that it is compared with, NULL: none
  Interval statistics[STATISTICS][GROUPS];  // a mean of NaN: none
} Column;

typedef struct {
  PaperBoth both;
  Marks marks;
  int columns, run;        // cells of the table, and how many of them have been run
  int papers, both_there;  // numbers of the paper, and how many of them have one of ours beside
  // whether rows with means over groups, interquartile means, and probabilities were printed
  int means, iqms, improvements;
} Show;

static int group_size(const PaperCell *cell, const char *group) {
  const Task *task;
  int size = 0;
  for (int i = 0; (task = task_at(cell->domain, i)); i++) size += paper_in_group(cell, task, group);
  return size;
}

// name of row i of a cell's block: the tasks, then the groups of several tasks; NULL after the last
static const char *row_at(const PaperCell *cell, int i) {
  const Task *task;
  for (int k = 0; (task = task_at(cell->domain, k)); k++) {
    if (paper_in_group(cell, task, "all") && i-- == 0) return task->name;
  }
  for (int k = 0; k < GROUPS; k++) {
    if (group_size(cell, groups[k]) > 1 && i-- == 0) return groups[k];
  }
  return NULL;
}

// find the columns of a block
static int find_columns(Show *s, const PaperBlock *block, Column *columns) {
  const PaperBoth *both = &s->both;
  int count = 0;
  for (int k = 0; k < block->count; k++) {
    Column column = {.cell = block->cells[k], .run = block->lines[k]};
    const PaperCell *cell = &column.cell;
    const char *row;
    if (!paper_cell_matches(cell, both->settings->filter)) continue;
    paper_block_difference(block, k, column.differs, sizeof column.differs);
    for (int i = 0; (row = row_at(cell, i)); i++) {
      PaperOurs ours;
      int there = paper_ours(&both->ledger, cell, column.run, row, &ours);
      int theirs = paper_number(&both->numbers, cell, row) != NULL;
      column.ours += there;
      column.paper += theirs;
      s->both_there += there && theirs;
    }
    s->columns++;
    s->run += column.ours > 0;
    s->papers += column.paper;
    if (column.ours || column.paper) columns[count++] = column;
  }
  return count;
}

// ---------------------------------- statistics ---------------------------------------------------

#define RESAMPLES 2000

// the row that has the statistics of group g, NULL: none; a single task is the group "all"
static const char *statistics_row(const PaperCell *cell, int g) {
  int size = group_size(cell, groups[g]);
  if (size > 1) return groups[g];
  return size && g == ALL ? row_at(cell, 0) : NULL;
}

// Get the scores of a run's seeds on the tasks of a group; seeds 0: it has none. The caller frees them.
static int find_scores(const Show *s, const PaperCell *cell, const LedgerLine *run,
                       const char *group, Scores *all) {
  const LedgerLine *lines[PAPER_MAX_SEEDS];
  *all = (Scores){.tasks = group_size(cell, group)};
  int seeds = all->tasks ? paper_seeds(&s->both.ledger, cell, run, group, lines) : 0, column = 0;
  if (!seeds) return BFM_OK;
  all->seeds = seeds;
  all->scores = malloc((size_t)seeds * all->tasks * sizeof *all->scores);
  if (!all->scores) return bfm_fail(BFM_NO_MEMORY, "out of memory for the scores of a table");
  const Task *task;
  for (int i = 0; (task = task_at(cell->domain, i)); i++) {
    if (!paper_in_group(cell, task, group)) continue;
    for (int k = 0; k < seeds; k++) {
      all->scores[k * all->tasks + column] = paper_line_value(lines[k], cell, task->name);
    }
    column++;
  }
  return BFM_OK;
}

// The method that the others are compared with: of those with comparable runs FB, otherwise the first.
// -1: there is none.
static int find_baseline(const PaperBlock *block) {
  int first = -1;
  for (int k = 0; k < block->count; k++) {
    char differs[MARK_SIZE / 2];
    paper_block_difference(block, k, differs, sizeof differs);
    if (!block->lines[k] || *differs) continue;
    if (!strcmp(block->cells[k].method->method, "FB")) return k;
    if (first < 0) first = k;
  }
  return first;
}

static int find_statistics_of(const Show *s, Column *column, int g, const Scores *baseline) {
  Scores own;
  Interval *iqm = &column->statistics[IQM][g], *improvement = &column->statistics[IMPROVEMENT][g];
  *iqm = *improvement = (Interval){NAN, NAN, NAN};
  if (!statistics_row(&column->cell, g)) return BFM_OK;
  TRY(find_scores(s, &column->cell, column->run, groups[g], &own));
  int status = own.seeds ? interquartile_mean(&own, RESAMPLES, iqm) : BFM_OK;
  if (!status && own.seeds && baseline->seeds && column->baseline) {
    status = improvement_probability(&own, baseline, RESAMPLES, improvement);
  }
  free(own.scores);
  return status;
}

static int find_statistics(const Show *s, const PaperBlock *block, Column *columns, int count) {
  int status = BFM_OK, at = find_baseline(block);
  const PaperCell *cell = at < 0 ? NULL : &block->cells[at];
  for (int k = 0; k < count; k++) {
    Column *c = &columns[k];
    if (cell && c->run && !*c->differs && c->cell.method != cell->method) {
      c->baseline = cell->method->method;
    }
  }
  for (int g = 0; g < GROUPS && !status; g++) {
    Scores baseline = {.seeds = 0};
    if (cell) status = find_scores(s, cell, block->lines[at], groups[g], &baseline);
    for (int k = 0; k < count && !status; k++) {
      status = find_statistics_of(s, &columns[k], g, &baseline);
    }
    free(baseline.scores);
  }
  return status;
}

// ---------------------------------- for programs -------------------------------------------------

static void add_interval(cJSON *item, const char *name, const Interval *interval) {
  char end[32];
  if (!isfinite(interval->mean)) return;
  cJSON_AddNumberToObject(item, name, interval->mean);
  if (!isfinite(interval->low)) return;
  snprintf(end, sizeof end, "%s_low", name);
  cJSON_AddNumberToObject(item, end, interval->low);
  snprintf(end, sizeof end, "%s_high", name);
  cJSON_AddNumberToObject(item, end, interval->high);
}

static void add_statistics(cJSON *item, const Column *column, const char *row) {
  for (int g = 0; g < GROUPS; g++) {
    const char *own = statistics_row(&column->cell, g);
    const Interval *improvement = &column->statistics[IMPROVEMENT][g];
    if (!own || strcmp(own, row)) continue;
    add_interval(item, "iqm", &column->statistics[IQM][g]);
    add_interval(item, "improvement", improvement);
    if (isfinite(improvement->mean)) {
      cJSON_AddStringToObject(item, "improvement_over", column->baseline);
    }
  }
}

static void print_json(const Column *column, const char *task, const PaperNumber *paper,
                       const PaperOurs *ours) {
  const PaperCell *cell = &column->cell;
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "table", cell->table->name);
  cJSON_AddStringToObject(item, "domain", cell->domain);
  cJSON_AddStringToObject(item, "data", cell->data);
  cJSON_AddStringToObject(item, "task", task);
  cJSON_AddStringToObject(item, "method", cell->method->method);
  if (paper) cJSON_AddNumberToObject(item, "paper", paper->mean);
  if (paper && isfinite(paper->std)) cJSON_AddNumberToObject(item, "paper_std", paper->std);
  if (ours) {
    cJSON_AddNumberToObject(item, "ours", round(10 * ours->mean) / 10);
    if (ours->seeds > 1) { cJSON_AddNumberToObject(item, "ours_std", round(10 * ours->std) / 10); }
    cJSON_AddNumberToObject(item, "seeds", ours->seeds);
    cJSON_AddNumberToObject(item, "steps", (double)ours->steps);
    cJSON_AddNumberToObject(item, "episodes", (double)ours->episodes);
    cJSON_AddStringToObject(item, "more", ours->more);
    if (column->run->checksum != UNKNOWN_DATA) {
      cJSON_AddNumberToObject(item, "checksum", (double)column->run->checksum);
    }
    if (ours->updates > 0) cJSON_AddNumberToObject(item, "data_updates", ours->updates);
    if (ours->from_log) cJSON_AddStringToObject(item, "source", "log");
    cJSON_AddBoolToObject(item, "comparable", !*column->differs);
    cJSON_AddStringToObject(item, "differs", column->differs);
    add_statistics(item, column, task);
  }
  cli_print_json(item);
  cJSON_Delete(item);
}

static void print_block_json(Show *s, const Column *columns, int count) {
  const char *row;
  for (int i = 0; (row = row_at(&columns->cell, i)); i++) {
    for (int k = 0; k < count; k++) {
      const PaperCell *cell = &columns[k].cell;
      const PaperNumber *paper = paper_number(&s->both.numbers, cell, row);
      PaperOurs ours;
      int there = paper_ours(&s->both.ledger, cell, columns[k].run, row, &ours);
      if (there || paper) print_json(&columns[k], row, paper, there ? &ours : NULL);
    }
  }
}

// ---------------------------------- for people ---------------------------------------------------

#define NAME_WIDTH 20
#define OURS_WIDTH 11  // 1000 ±123 a
#define PAPER_WIDTH 6

static const int decimals[STATISTICS] = {0, 2};

static int width(const Column *c) {
  return (c->ours ? OURS_WIDTH : 0) + (c->paper ? PAPER_WIDTH : 0);
}

// spaces before a column's numbers: two, and more if the method's name is wider than the numbers
static int indent(const Column *c) {
  int name = (int)strlen(c->cell.method->method);
  return 2 + (name > width(c) ? name - width(c) : 0);
}

static void print_heading(const Column *columns, int count) {
  printf("\n%-*s", NAME_WIDTH, columns->cell.domain);
  for (int k = 0; k < count; k++) {
    const Column *c = &columns[k];
    printf("%*s", indent(c) + width(c), c->cell.method->method);
  }
  printf("\n%-*s", NAME_WIDTH, columns->cell.data);
  for (int k = 0; k < count; k++) {
    printf("%*s", indent(&columns[k]), "");
    if (columns[k].ours) printf("%*s  ", OURS_WIDTH - 2, "ours");
    if (columns[k].paper) printf("%*s", PAPER_WIDTH, "paper");
  }
  putchar('\n');
}

static void print_ours(Show *s, const Column *column, const char *row) {
  PaperOurs ours;
  if (!paper_ours(&s->both.ledger, &column->cell, column->run, row, &ours)) {
    printf("%*s%7s", OURS_WIDTH - 7, "-", "");
    return;
  }
  char spread[32] = "    ";  // a single seed has no standard deviation
  if (ours.seeds > 1) snprintf(spread, sizeof spread, "±%-3.0f", ours.std);
  printf("%*.0f %s %c", OURS_WIDTH - 7, ours.mean, spread,
         mark(&s->marks, column->cell.table, &ours, column->differs));
}

static void print_paper(const Show *s, const PaperCell *cell, const char *row) {
  double std, mean = paper_value(&s->both.numbers, cell, row, &std);
  if (isfinite(mean)) {
    printf("%*.0f", PAPER_WIDTH, mean);
  } else {
    printf("%*s", PAPER_WIDTH, "");
  }
}

static int is_empty(const Show *s, const Column *columns, int count, const char *row) {
  PaperOurs ours;
  double std;
  for (int k = 0; k < count; k++) {
    if (isfinite(paper_value(&s->both.numbers, &columns[k].cell, row, &std))) return 0;
    if (paper_ours(&s->both.ledger, &columns[k].cell, columns[k].run, row, &ours)) return 0;
  }
  return 1;
}

static void print_values(const Column *columns, int count, int kind, int g) {
  for (int k = 0; k < count; k++) {
    const Column *c = &columns[k];
    char text[32] = "-";
    double value = c->statistics[kind][g].mean;
    if (isfinite(value)) snprintf(text, sizeof text, "%.*f", decimals[kind], value);
    printf("%*s", indent(c), "");
    if (c->ours) printf("%*s%7s", OURS_WIDTH - 7, text, "");
    if (c->paper) printf("%*s", PAPER_WIDTH, "");
  }
  putchar('\n');
}

// a row of intervals, each beginning below its value; one that is wider than its column extends into
// the space before the next
static void print_intervals(const Column *columns, int count, int kind, int g) {
  int over = 0;
  printf("%-*s", NAME_WIDTH, "  95% interval");
  for (int k = 0; k < count; k++) {
    const Column *c = &columns[k];
    const Interval *x = &c->statistics[kind][g];
    char text[64] = "";
    if (isfinite(x->low)) {
      snprintf(text, sizeof text, "%*.*f to %.*f", OURS_WIDTH - 7, decimals[kind], x->low,
               decimals[kind], x->high);
    }
    int length = (int)strlen(text), room = width(c);
    printf("%*s%-*s", indent(c) - over, "", room, text);
    over = length > room ? length - room : 0;
  }
  putchar('\n');
}

// Print the values of a statistic and below them the intervals, unless no column has any; returns
// whether it has printed.
static int print_statistic(const Column *columns, int count, int kind, int g) {
  const Column *one = NULL;
  int intervals = 0;
  for (int k = 0; k < count; k++) {
    if (isfinite(columns[k].statistics[kind][g].mean)) one = &columns[k];
    intervals |= isfinite(columns[k].statistics[kind][g].low);
  }
  if (!one) return 0;
  char name[NAME_WIDTH + 1];
  if (kind == IQM) {
    snprintf(name, sizeof name, "IQM %s", statistics_row(&one->cell, g));
  } else {
    int room = NAME_WIDTH - 5, longer = (int)strlen(one->baseline) > room;
    snprintf(name, sizeof name, "P(> %.*s%s)", longer ? room - 3 : room, one->baseline,
             longer ? "..." : "");
  }
  printf("%-*s", NAME_WIDTH, name);
  print_values(columns, count, kind, g);
  if (intervals) print_intervals(columns, count, kind, g);
  return 1;
}

// one row of what our numbers were made with: steps, seeds, or episodes
static void print_made(const Show *s, const Column *columns, int count, const char *what) {
  printf("%-*s", NAME_WIDTH, what);
  for (int k = 0; k < count; k++) {
    const Column *c = &columns[k];
    char text[32] = "";
    PaperOurs ours;
    const char *row;
    printf("%*s", indent(c), "");
    // of a task that the run has
    for (int i = 0; c->ours && (row = row_at(&c->cell, i)); i++) {
      if (!paper_ours(&s->both.ledger, &c->cell, c->run, row, &ours)) continue;
      int64_t number = *what == 'e' ? ours.episodes : ours.seeds;
      if (!strcmp(what, "steps")) number = ours.steps;
      short_count((double)number, text, sizeof text);
      break;
    }
    if (c->ours) printf("%*s%7s", OURS_WIDTH - 7, text, "");
    if (c->paper) printf("%*s", PAPER_WIDTH, "");
  }
  putchar('\n');
}

static void print_block(Show *s, const Column *columns, int count) {
  print_heading(columns, count);
  const char *row;
  for (int i = 0; (row = row_at(&columns->cell, i)); i++) {
    if (is_empty(s, columns, count, row)) continue;
    s->means |= !task_find(columns->cell.domain, row);
    printf("%-*s", NAME_WIDTH, row);
    for (int k = 0; k < count; k++) {
      printf("%*s", indent(&columns[k]), "");
      if (columns[k].ours) print_ours(s, &columns[k], row);
      if (columns[k].paper) print_paper(s, &columns[k].cell, row);
    }
    putchar('\n');
  }
  s->iqms |= print_statistic(columns, count, IQM, IN);
  s->iqms |= print_statistic(columns, count, IQM, ALL);
  s->improvements |= print_statistic(columns, count, IMPROVEMENT, ALL);
  int any = 0;
  for (int k = 0; k < count; k++) any |= columns[k].ours;
  static const char *const made[] = {"steps", "seeds", "episodes"};
  for (int i = 0; any && i < 3; i++) print_made(s, columns, count, made[i]);
}

static void print_legend(const Show *s) {
  if (s->means || s->run) putchar('\n');
  if (s->means) {
    puts("in, new, all  means over tasks the data was collected for, other tasks, all tasks");
  }
  if (s->run) puts("±             sample standard deviation (n - 1) over seeds");
  if (s->iqms) {
    printf(
        "IQM           interquartile mean: the mean of the middle half of all returns, one\n"
        "              per seed and task\n");
  }
  if (s->improvements) {
    printf(
        "P(> A)        probability that a seed has a higher return than a seed of method A,\n"
        "              mean over all tasks; only if runs differ in nothing but the method\n");
  }
  if (s->iqms) {
    printf("95%% interval  stratified bootstrap over seeds, %d resamples\n", RESAMPLES);
  }
  for (int i = 0; i < s->marks.count; i++) printf("%-14c%s\n", letter(i), s->marks.text[i]);
}

// print how many numbers there are, and how to make the missing ones
static void print_summary(const Show *s) {
  const PaperTable *table = s->both.table;
  const char *filter = s->both.settings->filter;
  if (s->papers || s->run < s->columns) putchar('\n');
  if (s->papers) {
    printf("%d of the paper's %d numbers have one of ours beside them.\n", s->both_there,
           s->papers);
  }
  if (s->run == s->columns) return;
  char steps[32];
  short_count((double)table->steps, steps, sizeof steps);
  printf(
      "%d of %d cells (a method on a domain's data) %s not been run. To run the missing ones with\n"
      "%s steps and %d seeds per cell (--steps, --seeds and --filter reduce this):\n"
      "  bfm paper run %s%s%s%s\n",
      s->columns - s->run, s->columns, s->columns - s->run > 1 ? "have" : "has", steps,
      (int)table->seeds, table->name, *filter ? " --filter \"" : "", filter, *filter ? "\"" : "");
}

int paper_show(const PaperTable *table, const PaperSettings *settings, int json) {
  Show s = {.columns = 0};
  int status = paper_both_read(&s.both, table, settings), at = 0, more = 1;
  if (!status && !json) printf("%s: %s\n", table->name, table->help);
  while (!status && more) {
    PaperBlock block;
    Column columns[BLOCK_METHODS];
    more = paper_block(&block, &s.both.ledger, table, &at);
    if (more < 0) status = BFM_NO_MEMORY;
    int count = more > 0 ? find_columns(&s, &block, columns) : 0;
    if (count) status = find_statistics(&s, &block, columns, count);
    if (count && !status) (json ? print_block_json : print_block)(&s, columns, count);
    paper_block_free(&block);
  }
  if (!status && !json) {
    char left_out[LEFT_OUT_SIZE];
    if (ledger_left_out(&s.both.ledger, table->domains, left_out)) printf("\n%s\n", left_out);
    print_legend(&s);
    print_summary(&s);
  }
  paper_both_free(&s.both);
  return status;
}
