// bfm paper: the tables of the paper, to list, run, show and draw.

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agents/config.h"
#include "cli/cli.h"
#include "core/nearest.h"
#include "core/progress.h"
#include "envs/tasks.h"
#include "paper/paper.h"
#include "view/plot.h"

typedef struct {
  PaperSettings settings;
  Config config;
  Flags flags, agent_flags;
  const char *action, *table_name, *path;
  const PaperTable *table;  // NULL: none was named
  int json, quiet;
} Arguments;

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "plot: where to draw, as .svg and .png (default: results/TABLE)", 0},
    {"json", 'j', NULL, 0, "show: print a JSON object a number, one a line", 0},
    {"quiet", 'q', NULL, 0, "no progress line", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT:
      flags_init(state, (Flags *const[]){&a->flags, &a->agent_flags}, 2);
      return 0;
    case 'o': a->path = arg; return 0;
    case 'j': a->json = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG:
      if (!a->action)
        a->action = arg;
      else if (!a->table_name)
        a->table_name = arg;
      else
        argp_error(state, "one table at a time, not also %s", arg);
      return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "say what to do: list, run, show or plot"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- list ---------------------------------------------------------

static int list(const Arguments *a) {
  PaperCell cell;
  if (a->table) {
    for (int i = 0; paper_cell_at(a->table, i, &cell); i++) {
      if (paper_cell_matches(&cell, a->settings.filter)) {
        printf("%-30s%s\n", cell.method->method, cell.run);
      }
    }
    return BFM_OK;
  }
  const PaperTable *table;
  for (int i = 0; (table = paper_table_at(i)); i++) {
    int cells = 0;
    while (paper_cell_at(table, cells, &cell)) cells++;
    printf("%-13s%3d cells  %s\n", table->name, cells, table->help);
  }
  return BFM_OK;
}

// ---------------------------------- run ----------------------------------------------------------

static void say(void *context, const char *line) {
  (void)context;
  puts(line);
  fflush(stdout);
}

static int run(const Arguments *a) {
  char *options = cJSON_PrintUnformatted(a->agent_flags.given);
  if (!options) return bfm_fail(BFM_NO_MEMORY, "no memory for the options");
  PaperPlan plan = {.table = a->table,
                    .settings = a->settings,
                    .options = options,
                    .quiet = a->quiet,
                    .stop = &cli_stop,
                    .say = say};
  cli_catch_signals();
  int status = paper_run(&plan);
  free(options);
  return status;
}

// ---------------------------------- show ---------------------------------------------------------

#define MAX_MARKS 26

// what falls short of the table, each with a letter
typedef struct {
  char text[MAX_MARKS][2 * PAPER_TEXT];
  int count;
} Marks;

// the letter of how a number was made, a space when it was made as the paper's
static char mark(Marks *marks, const PaperTable *table, const PaperOurs *ours) {
  char text[2 * PAPER_TEXT] = "", steps[32], of[32];
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
  if (*ours->more) snprintf(text + at, sizeof text - at, ", %s", ours->more);
  if (!*text) return ' ';
  int i = 0;
  while (i < marks->count && strcmp(marks->text[i], text + 2)) i++;
  if (i == MAX_MARKS) return '*';
  if (i == marks->count) snprintf(marks->text[marks->count++], sizeof *marks->text, "%s", text + 2);
  return (char)('a' + i);
}

typedef struct {
  const Arguments *a;
  Ledger ledger;
  PaperNumbers numbers;
  Marks marks;
  int both;  // numbers of the paper that ours stand beside
} Show;

static void print_json(const PaperCell *cell, const char *task, const PaperNumber *paper,
                       const PaperOurs *ours) {
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
    cJSON_AddNumberToObject(item, "ours_std", round(10 * ours->std) / 10);
    cJSON_AddNumberToObject(item, "seeds", ours->seeds);
    cJSON_AddNumberToObject(item, "steps", (double)ours->steps);
    cJSON_AddNumberToObject(item, "episodes", (double)ours->episodes);
    cJSON_AddStringToObject(item, "more", ours->more);
  }
  cli_print_json(item);
  cJSON_Delete(item);
}

#define CELL_WIDTH 22

static void print_cell(Show *s, const PaperCell *cell, const char *task) {
  const PaperNumber *paper = paper_number(&s->numbers, cell, task);
  PaperOurs ours;
  int there = paper_ours(&s->ledger, cell, task, &ours);
  s->both += there && paper;
  if (s->a->json) {
    if (there || paper) print_json(cell, task, paper, there ? &ours : NULL);
    return;
  }
  char text[64] = "", theirs[16] = "";
  if (paper) snprintf(theirs, sizeof theirs, "%.0f", paper->mean);
  if (there) {
    snprintf(text, sizeof text, "%.0f ±%.0f %c", ours.mean, ours.std,
             mark(&s->marks, cell->table, &ours));
  }
  // ± is two bytes of one column
  printf("%*s %6s", CELL_WIDTH - 7 + there, there ? text : "-", theirs);
}

// the next cell of a block, from number *i on, that the filter leaves; 0: there is none
static int next_cell(const Show *s, const PaperCell *first, int *i, PaperCell *cell) {
  while (paper_cell_at(first->table, (*i)++, cell)) {
    if (strcmp(cell->domain, first->domain) || strcmp(cell->data, first->data)) return 0;
    if (paper_cell_matches(cell, s->a->settings.filter)) return 1;
  }
  return 0;
}

static void print_row(Show *s, const PaperCell *first, int index, const char *task) {
  PaperCell cell;
  if (!s->a->json) printf("%-20s", task);
  for (int i = index; next_cell(s, first, &i, &cell);) print_cell(s, &cell, task);
  if (!s->a->json) putchar('\n');
}

// one domain and kind of data, whose cells begin at index: its tasks, then the means of groups
static void print_block(Show *s, const PaperCell *first, int index) {
  static const char *const groups[] = {"in", "new", "all"};
  PaperCell cell;
  if (!s->a->json) {
    printf("\n%-20s", first->domain);
    for (int i = index; next_cell(s, first, &i, &cell);) {
      printf(" %*.*s", CELL_WIDTH - 1, CELL_WIDTH - 1, cell.method->method);
    }
    printf("\n%-20s", first->data);
    for (int i = index; next_cell(s, first, &i, &cell);) {
      printf("%*s %6s", CELL_WIDTH - 7, "ours  ", "paper");
    }
    putchar('\n');
  }
  const Task *task;
  int tasks = 0;
  for (int i = 0; (task = task_at(first->domain, i)); i++) {
    if (task->kind == TASK_PROMPT) continue;
    print_row(s, first, index, task->name);
    tasks++;
  }
  if (tasks < 2) return;
  for (int i = 0; i < 3; i++) print_row(s, first, index, groups[i]);
}

// call each for the first cell of every domain and kind of data that the filter leaves
static void each_block(Show *s, void (*each)(Show *s, const PaperCell *first, int index)) {
  PaperCell cell, last = {.table = NULL};
  for (int i = 0, begin = 0; paper_cell_at(s->a->table, i, &cell); i++) {
    int same = last.table && !strcmp(cell.domain, last.domain) && !strcmp(cell.data, last.data);
    if (!same) begin = i;
    if (!paper_cell_matches(&cell, s->a->settings.filter)) continue;
    if (same) continue;
    last = cell;
    each(s, &cell, begin);
  }
}

static void print_notes(const Show *s) {
  if (s->marks.count) putchar('\n');
  for (int i = 0; i < s->marks.count; i++) printf("%c  %s\n", 'a' + i, s->marks.text[i]);
  if (s->numbers.count) {
    printf("\n%d of the paper's %d numbers in this table have ours beside them\n", s->both,
           s->numbers.count);
  }
}

static int open_show(Show *s) {
  TRY(ledger_read(&s->ledger, s->a->settings.results));
  return paper_numbers_read(&s->numbers, s->a->table, s->a->settings.results);
}

static void close_show(Show *s) {
  ledger_free(&s->ledger);
  paper_numbers_free(&s->numbers);
}

static int show(const Arguments *a) {
  Show s = {.a = a};
  int status = open_show(&s);
  if (!status) {
    if (!a->json) printf("%s: %s\n", a->table->name, a->table->help);
    each_block(&s, print_block);
    if (!a->json) print_notes(&s);
  }
  close_show(&s);
  return status;
}

// ---------------------------------- plot ---------------------------------------------------------

#define MAX_PANELS 16
#define MAX_METHODS 16
#define BARS 4

// tasks of the data and new ones, or all where the paper has their mean alone
static const char *const bar_names[BARS] = {"ours", "paper", "ours, new tasks", "paper, new tasks"};
static const char *const bar_groups[2][BARS] = {{"in", "in", "new", "new"}, {"all", "all", "", ""}};

typedef struct {
  char title[64];
  const char *methods[MAX_METHODS];
  double value[MAX_METHODS * BARS], spread[MAX_METHODS * BARS];
  int count;
} Panel;

static int fill_bars(Show *s, const PaperCell *cell, Panel *panel) {
  int k = panel->count, any = 0, alone = paper_number(&s->numbers, cell, "all") != NULL;
  panel->methods[k] = cell->method->method;
  for (int i = 0; i < BARS; i++) {
    double *value = &panel->value[k * BARS + i], *spread = &panel->spread[k * BARS + i];
    *value = *spread = NAN;
    PaperOurs ours;
    const char *group = bar_groups[alone][i];
    const PaperNumber *paper = paper_number(&s->numbers, cell, group);
    if (i % 2 && paper) {
      *value = paper->mean;
      *spread = paper->std;
    } else if (i % 2 == 0 && paper_ours(&s->ledger, cell, group, &ours)) {
      *value = ours.mean;
      *spread = ours.std;
    }
    any |= isfinite(*value);
  }
  panel->count += any;
  return any;
}

static int draw(Show *s, Panel *panels, const char *path) {
  PaperCell cell;
  PlotBars bars[MAX_PANELS];
  int count = 0;
  for (int i = 0; paper_cell_at(s->a->table, i, &cell); i++) {
    if (!paper_cell_matches(&cell, s->a->settings.filter)) continue;
    char title[64];
    snprintf(title, sizeof title, "%.30s, %.30s", cell.domain, cell.data);
    int fresh = !count || strcmp(panels[count - 1].title, title);
    if (fresh && count == MAX_PANELS) break;
    if (fresh) memcpy(panels[count++].title, title, sizeof title);
    if (panels[count - 1].count < MAX_METHODS) fill_bars(s, &cell, &panels[count - 1]);
  }
  int drawn = 0;
  for (int i = 0; i < count; i++) {
    if (!panels[i].count) continue;
    bars[drawn++] = (PlotBars){panels[i].title, panels[i].count, BARS, panels[i].methods, bar_names,
                               panels[i].value, panels[i].spread};
  }
  if (!drawn)
    return bfm_fail(BFM_BAD_ARGUMENT, "there is nothing to draw of %s yet", s->a->table->name);
  TRY(plot_bars(bars, drawn, path));
  printf("%s.svg\n%s.png\n", path, path);
  return BFM_OK;
}

static int plot(const Arguments *a) {
  char own[PATH_MAX], path[PATH_MAX];
  snprintf(own, sizeof own, "%s/%s", a->settings.results, a->table->name);
  TRY(plot_stem(a->path ? a->path : own, path, sizeof path));
  Show s = {.a = a};
  Panel *panels = calloc(MAX_PANELS, sizeof *panels);
  int status = panels ? open_show(&s) : bfm_fail(BFM_NO_MEMORY, "no memory for a plot");
  if (!status) status = draw(&s, panels, path);
  close_show(&s);
  free(panels);
  return status;
}

// ---------------------------------- the command --------------------------------------------------

static const struct {
  const char *name;
  int (*run)(const Arguments *a);
  int needs_table;
} actions[] = {{"list", list, 0}, {"run", run, 1}, {"show", show, 1}, {"plot", plot, 1}};
#define ACTION_COUNT ((int)(sizeof actions / sizeof *actions))

static int act(Arguments *a) {
  Nearest nearest = {.word = a->action};
  int i = 0;
  while (i < ACTION_COUNT && strcmp(actions[i].name, a->action))
    nearest_try(&nearest, actions[i++].name);
  if (i == ACTION_COUNT) {
    return bfm_fail(BFM_BAD_ARGUMENT, "\"%.64s\" is not list, run, show or plot%s%s%s", a->action,
                    nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
                    nearest.best ? "?" : "");
  }
  if (a->table_name) TRY(paper_table_find(&a->table, a->table_name));
  if (!a->table && actions[i].needs_table) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name a table: bfm paper %s mood; bfm paper list shows them",
                    a->action);
  }
  return actions[i].run(a);
}

#define OPTIONS_MAX 64

// the agent's options, but for those of tables that have the same name
static const Option *agent_rows(void) {
  static Option rows[OPTIONS_MAX];
  int count = 0;
  for (const Option *o = agent_options; o->name && count < OPTIONS_MAX - 1; o++) {
    if (!options_find(paper_options, o->name)) rows[count++] = *o;
  }
  return rows;
}

int cli_paper(int argc, char **argv) {
  Arguments a = {.action = NULL};
  int status = flags_new(&a.flags, paper_options, &a.settings, "Tables");
  if (!status)
    status = flags_new(&a.agent_flags, agent_rows(), &a.config, "Agent, beside what a table says");
  if (status) return cli_fail(status);
  const struct argp_child children[] = {
      {&a.flags.argp, 0, NULL, 1}, {&a.agent_flags.argp, 0, NULL, 2}, {0}};
  const struct argp argp = {
      own_options,
      parse,
      "list|run|show|plot [TABLE]",
      "The paper's tables as runs. run collects data where it is missing, trains, evaluates, and "
      "appends to results/ledger.jsonl; what is there already is not done again, what was cut goes "
      "on. show prints ours beside the paper's, plot draws them.\v"
      "Examples:\n"
      "  bfm paper list\n"
      "  bfm paper run mood --filter \"walker FB-AW\" --steps 300k --seeds 3\n"
      "  bfm paper show mood\n"
      "  bfm paper run first --preset small --batch 128 --steps 500 --seeds 1 \\\n"
      "    --episodes 2 --data-steps 100k\n",
      children,
      NULL,
      NULL};
  status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = act(&a))) status = cli_fail(status);
  flags_free(&a.flags);
  flags_free(&a.agent_flags);
  return status;
}
