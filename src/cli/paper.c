// bfm paper: lists, runs, shows and plots the tables of the paper.

#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "cli/cli.h"
#include "cli/paper_show.h"
#include "core/suggest.h"
#include "core/progress.h"

typedef struct {
  PaperSettings settings;
  Config config;
  Flags flags, agent_flags;
  const char *action, *table_name, *path;
  const PaperTable *table;  // NULL: none was named
  int json, quiet;
} Arguments;

static const struct argp_option own_options[] = {
    {.name = "output", .key = 'o', .arg = "FILE",
     .doc = "plot: write FILE.svg and FILE.png (default: results/TABLE)"},
    {.name = "json", .key = 'j', .doc = "show: print one JSON object per line and number"},
    {.name = "quiet", .key = 'q', .doc = "run: show no progress"},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'o': a->path = arg; return 0;
    case 'j': a->json = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG:
      if (!a->action) a->action = arg;
      else if (!a->table_name) a->table_name = arg;
      else argp_error(state, "name one table, not %s and %s", a->table_name, arg);
      return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "say what to do: list, run, show or plot"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- list ---------------------------------------------------------

// a cell, with the steps and seeds of our run if there is one
static void print_cell(const Ledger *ledger, const PaperCell *cell) {
  PaperOurs ours;
  int there = paper_ours(ledger, cell, "all", &ours);
  printf("%-30s%-*s", cell->method->method, there ? 58 : 0, cell->run);
  if (there) {
    char steps[32];
    short_count((double)ours.steps, steps, sizeof steps);
    printf("%s steps, %d seed%s", steps, ours.seeds, ours.seeds > 1 ? "s" : "");
  }
  putchar('\n');
}

static void list_cells(const Arguments *a, const Ledger *ledger) {
  PaperCell cell;
  for (int i = 0; paper_cell_at(a->table, i, &cell); i++) {
    if (paper_cell_matches(&cell, a->settings.filter)) print_cell(ledger, &cell);
  }
}

static void list_tables(const Ledger *ledger) {
  const PaperTable *table;
  printf("table        cells  run\n");
  for (int i = 0; (table = paper_table_at(i)); i++) {
    PaperCell cell;
    PaperOurs ours;
    int cells = 0, run = 0;
    while (paper_cell_at(table, cells, &cell)) {
      run += paper_ours(ledger, &cell, "all", &ours);
      cells++;
    }
    printf("%-13s%5d%5d  %s\n", table->name, cells, run, table->help);
  }
}

static int list(const Arguments *a) {
  Ledger ledger;
  TRY(ledger_read(&ledger, a->settings.results));
  if (a->table) {
    list_cells(a, &ledger);
  } else {
    list_tables(&ledger);
  }
  ledger_free(&ledger);
  return BFM_OK;
}

// ---------------------------------- run ----------------------------------------------------------

static void say(const char *line) {
  puts(line);
  fflush(stdout);
}

static int run(const Arguments *a) {
  if (cJSON_HasObjectItem(a->agent_flags.given, "seed")) {
    return bfm_fail(
        BFM_BAD_ARGUMENT,
        "--seed %ld cannot be set: a cell has the seeds 0, 1, …; --seeds sets their number",
        (long)a->config.seed);
  }
  char *options = cJSON_PrintUnformatted(a->agent_flags.given);
  if (!options) return bfm_fail(BFM_NO_MEMORY, "no memory for the options");
  PaperPlan plan = {.table = a->table, .settings = a->settings, .options = options,
                    .quiet = a->quiet, .stop = &cli_stop, .say = say};
  cli_catch_signals();
  int status = paper_run(&plan);
  free(options);
  return status;
}

// ---------------------------------- show, plot ---------------------------------------------------

static int show(const Arguments *a) { return paper_show(a->table, &a->settings, a->json); }

static int plot(const Arguments *a) { return paper_plot(a->table, &a->settings, a->path); }

// ---------------------------------- the command --------------------------------------------------

static const struct {
  const char *name;
  int (*run)(const Arguments *a);
  int needs_table;
} actions[] = {{"list", list, 0}, {"run", run, 1}, {"show", show, 1}, {"plot", plot, 1}};
#define ACTION_COUNT ((int)(sizeof actions / sizeof *actions))

// options for every action; the others are for run
static const char *const everywhere[] = {"filter", "data", "runs", "results", NULL};

// refuse options that the action would ignore
static int check_flags(const Arguments *a) {
  const char *action = a->action;
  if (a->json && strcmp(action, "show")) {
    return bfm_fail(BFM_BAD_ARGUMENT, "--json is for show, not for %s", action);
  }
  if (a->path && strcmp(action, "plot")) {
    return bfm_fail(BFM_BAD_ARGUMENT, "-o %s is for plot, not for %s", a->path, action);
  }
  if (!strcmp(action, "run")) return BFM_OK;
  const cJSON *given[] = {a->flags.given->child, a->agent_flags.given->child};
  for (int i = 0; i < 2; i++) {
    for (const cJSON *flag = given[i]; flag; flag = flag->next) {
      int k = 0;
      while (everywhere[k] && strcmp(everywhere[k], flag->string)) k++;
      if (everywhere[k]) continue;
      return bfm_fail(BFM_BAD_ARGUMENT, "--%s is for run; %s uses the runs in the ledger",
                      flag->string, action);
    }
  }
  return BFM_OK;
}

static int run_action(void *input) {
  Arguments *a = input;
  Suggestion nearest = {.word = a->action};
  int i = 0;
  while (i < ACTION_COUNT && strcmp(actions[i].name, a->action))
    suggest_try(&nearest, actions[i++].name);
  if (i == ACTION_COUNT) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no action \"%.64s\" (list, run, show, plot)%s",
                    a->action, suggest_say(&nearest, ""));
  }
  if (a->table_name) TRY(paper_table_find(&a->table, a->table_name));
  if (!a->table && actions[i].needs_table) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name a table: bfm paper %s mood; bfm paper list shows all",
                    a->action);
  }
  TRY(check_flags(a));
  if (a->table) TRY(paper_check_filter(a->table, a->settings.filter));
  return actions[i].run(a);
}

#define OPTIONS_MAX 64

// the agent's options without those that paper_options has under the same name
static const Option *agent_rows(void) {
  static Option rows[OPTIONS_MAX];
  int count = 0;
  for (const Option *o = agent_options; o->name && count < OPTIONS_MAX - 1; o++) {
    if (!options_find(paper_options, o->name)) rows[count++] = *o;
  }
  return rows;
}

int cli_paper(int argc, char **argv) {
  Arguments a = {
      .flags = {.table = paper_options, .fields = &a.settings, .heading = "Tables"},
      .agent_flags = {.table = agent_rows(), .fields = &a.config,
                      .heading = "Agent, for run (overrides the options of the table)"},
  };
  const CommandLine line = {
      .options = own_options, .parse = parse, .arguments = "list|run|show|plot [TABLE]",
      .help =
          "Reproduce the tables of the paper. A table has one cell per method, domain and "
          "dataset; a cell is a training run with several seeds.\n"
          "  list  the tables, or the cells of one table, and how far each was run\n"
          "  run   the cells that are missing: collect the data, train, evaluate, and\n"
          "        append the returns to results/ledger.jsonl. Finished cells are\n"
          "        skipped; an interrupted cell resumes where it stopped.\n"
          "  show  our numbers beside those of the paper\n"
          "  plot  the same numbers as bars\v"
          "Examples:\n"
          "  bfm paper list\n"
          "  bfm paper run mood --filter \"walker FB-AW\" --steps 300k --seeds 3\n"
          "  bfm paper show mood\n"
          "A short run of the whole path on a CPU:\n"
          "  bfm paper run first --preset small --batch 128 --steps 500 --seeds 1 \\\n"
          "    --episodes 2 --data-steps 100k\n",
      .flags = {&a.flags, &a.agent_flags},
      .run = run_action,
  };
  return cli_run(&line, argc, argv, &a);
}
