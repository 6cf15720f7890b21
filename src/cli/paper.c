// bfm paper: list, run, show and plot the tables of the paper; add runs to their ledger.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "cli/cli.h"
#include "cli/paper_claims.h"
#include "cli/paper_show.h"
#include "core/suggest.h"
#include "cli/progress.h"
#include "core/units.h"
#include "paper/add.h"
#include "paper/claims.h"
#include "paper/compare.h"

typedef struct {
  PaperSettings settings;
  Config config;
  PaperAddSettings add;
  Flags flags, agent_flags, add_flags;
  const char *action, *table_name, *path;
  const char **folders;  // to add
  int folder_count;
  const PaperTable *table;  // NULL: no table was named
  int json, quiet;
} Arguments;

static const struct argp_option own_options[] = {
    {.name = "output", .key = 'o', .arg = "FILE",
     .doc = "plot: write FILE.svg and FILE.png (default: results/TABLE)"},
    {.name = "json", .key = 'j', .doc = "show: print one JSON object per number, each on a line"},
    {.name = "quiet", .key = 'q', .doc = "run: print no progress lines"},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT:
      a->folders = calloc((size_t)state->argc, sizeof *a->folders);
      return a->folders ? 0 : ENOMEM;
    case 'o': a->path = arg; return 0;
    case 'j': a->json = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG:
      if (!a->action) a->action = arg;
      else if (!strcmp(a->action, "add")) a->folders[a->folder_count++] = arg;
      else if (!a->table_name) a->table_name = arg;
      else argp_error(state, "name one table, not %s and %s", a->table_name, arg);
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name an action: list, run, show, plot or add");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- list ---------------------------------------------------------

// print a cell, with the steps and seeds of our run if there is one
static void print_cell(const Ledger *ledger, const PaperCell *cell, const LedgerLine *run) {
  PaperOurs ours;
  int has_run = paper_ours(ledger, cell, run, "all", &ours);
  printf("%-30s%-*s", cell->method->method, has_run ? 58 : 0, cell->run);
  if (has_run) {
    char steps[32];
    short_count((double)ours.steps, steps, sizeof steps);
    printf("%s steps, %d seed%s", steps, ours.seeds, ours.seeds > 1 ? "s" : "");
  }
  putchar('\n');
}

static void print_left_out(const Ledger *ledger, const char *domains) {
  char text[LEFT_OUT_SIZE];
  if (ledger_left_out(ledger, domains, text)) printf("\n%s\n", text);
}

static int list_cells(const Arguments *a, const Ledger *ledger) {
  PaperBlock block;
  int at = 0, more;
  while ((more = paper_block(&block, ledger, a->table, &at)) > 0) {
    for (int k = 0; k < block.count; k++) {
      const PaperCell *cell = &block.cells[k];
      if (paper_cell_matches(cell, a->settings.filter)) print_cell(ledger, cell, block.lines[k]);
    }
    paper_block_free(&block);
  }
  if (!more) print_left_out(ledger, a->table->domains);
  return more ? BFM_NO_MEMORY : BFM_OK;
}

static int list_tables(const Ledger *ledger) {
  const PaperTable *table;
  printf("table        cells  run  contents\n");
  for (int i = 0; (table = paper_table_at(i)); i++) {
    PaperBlock block;
    PaperOurs ours;
    int cells = 0, run = 0, at = 0, more;
    while ((more = paper_block(&block, ledger, table, &at)) > 0) {
      cells += block.count;
      for (int k = 0; k < block.count; k++) {
        run += paper_ours(ledger, &block.cells[k], block.lines[k], "all", &ours);
      }
      paper_block_free(&block);
    }
    if (more) return BFM_NO_MEMORY;
    printf("%-13s%5d%5d  %s\n", table->name, cells, run, table->help);
  }
  print_left_out(ledger, NULL);
  return BFM_OK;
}

static int list(const Arguments *a) {
  Ledger ledger;
  TRY(ledger_read(&ledger, a->settings.results));
  int status = a->table ? list_cells(a, &ledger) : list_tables(&ledger);
  ledger_free(&ledger);
  return status;
}

// ---------------------------------- run ----------------------------------------------------------

// print a line below the progress line of the previous step
static void print_progress(void *context, const char *line) {
  RunProgress *progress = context;
  progress_end(&progress->line);
  progress->line.what = NULL;
  puts(line);
  fflush(stdout);
}

static int run(const Arguments *a) {
  if (cJSON_HasObjectItem(a->agent_flags.given, "seed")) {
    return bfm_fail(
        BFM_BAD_ARGUMENT,
        "--seed %ld cannot be set: a cell always has the seeds 0, 1, …; --seeds sets their number",
        (long)a->config.seed);
  }
  char *options = cJSON_PrintUnformatted(a->agent_flags.given);
  if (!options) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  RunProgress progress = {.quiet = a->quiet, .stop = &cli_stop};
  PaperPlan plan = {.table = a->table, .settings = a->settings, .options = options,
                    .progress = progress_of_run, .context = &progress, .report = print_progress};
  cli_catch_signals();
  int status = paper_run(&plan);
  progress_end(&progress.line);
  free(options);
  return status;
}

// ---------------------------------- add ----------------------------------------------------------

static int add(const Arguments *a) {
  if (!a->folder_count) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name the folders of the runs: bfm paper add runs/walker");
  }
  char *options = cJSON_PrintUnformatted(a->agent_flags.given);
  if (!options) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  RunProgress progress = {.quiet = 1};
  const PaperAddPlan plan = {.folders = a->folders, .count = a->folder_count, .settings = &a->add,
                             .steps = a->settings.steps, .eval_steps = a->settings.eval_steps,
                             .results = a->settings.results, .options = options,
                             .report = print_progress, .context = &progress};
  int status = paper_add(&plan);
  free(options);
  return status;
}

// ---------------------------------- show, plot ---------------------------------------------------

static int has_claims(const PaperTable *table) { return !strcmp(table->name, CLAIMS_TABLE); }

static int show(const Arguments *a) {
  if (has_claims(a->table)) return paper_claims_show(&a->settings, a->json);
  return paper_show(a->table, &a->settings, a->json);
}

static int plot(const Arguments *a) {
  if (has_claims(a->table)) return paper_claims_plot(&a->settings, a->path);
  return paper_plot(a->table, &a->settings, a->path);
}

// ---------------------------------- the command --------------------------------------------------

static const struct {
  const char *name;
  int (*run)(const Arguments *a);
  int needs_table;
} actions[] = {{"list", list, 0},
               {"run", run, 1},
               {"show", show, 1},
               {"plot", plot, 1},
               {"add", add, 0}};
#define ACTION_COUNT ((int)(sizeof actions / sizeof *actions))

// the tables' options that list, run, show and plot have, and those that add has; all others are for run
static const char *const common[] = {"filter", "data", "runs", "results", NULL};
static const char *const of_add[] = {"results", "steps", "eval-steps", NULL};
// the agent's options that add lacks: they say where a run is made, and the log has its seeds
static const char *const not_of_add[] = {"device", "threads", "seed", "seeds", NULL};

static int is_in(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name)) names++;
  return *names != NULL;
}

// the first option that add would ignore
static const cJSON *ignored_by_add(const Arguments *a) {
  const cJSON *flag;
  cJSON_ArrayForEach(flag, a->flags.given) {
    if (!is_in(of_add, flag->string)) return flag;
  }
  cJSON_ArrayForEach(flag, a->agent_flags.given) {
    if (is_in(not_of_add, flag->string)) return flag;
  }
  return NULL;
}

// reject options that the action would ignore
static int check_flags(const Arguments *a) {
  const char *action = a->action;
  if (a->json && strcmp(action, "show")) {
    return bfm_fail(BFM_BAD_ARGUMENT, "--json is an option of show, not of %s", action);
  }
  if (a->path && strcmp(action, "plot")) {
    return bfm_fail(BFM_BAD_ARGUMENT, "-o %s is an option of plot, not of %s", a->path, action);
  }
  const cJSON *of_other = !strcmp(action, "add") ? ignored_by_add(a) : a->add_flags.given->child;
  if (of_other) {
    return bfm_fail(BFM_BAD_ARGUMENT, "--%s %s is not an option of %s: leave it out",
                    of_other->string, of_other->valuestring, action);
  }
  if (!strcmp(action, "run") || !strcmp(action, "add")) return BFM_OK;
  const cJSON *given[] = {a->flags.given->child, a->agent_flags.given->child};
  for (int i = 0; i < 2; i++) {
    for (const cJSON *flag = given[i]; flag; flag = flag->next) {
      if (is_in(common, flag->string)) continue;
      return bfm_fail(BFM_BAD_ARGUMENT,
                      "--%s %s is an option of run; %s uses the results in the ledger",
                      flag->string, flag->valuestring, action);
    }
  }
  return BFM_OK;
}

static int run_action(void *input) {
  Arguments *a = input;
  Suggestion suggestion = {.word = a->action};
  int i = 0;
  while (i < ACTION_COUNT && strcmp(actions[i].name, a->action))
    suggest_try(&suggestion, actions[i++].name);
  if (i == ACTION_COUNT) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no action \"%.64s\"%s", a->action,
                    suggest_say(&suggestion, ": name list, run, show, plot or add"));
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

// the agent's options, except those whose names paper_options has too
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
                      .heading =
                          "Agent, for run (overrides the options of the table) and for add (if "
                          "the run has no state.safetensors)"},
      .add_flags = {.table = paper_add_options, .fields = &a.add,
                    .heading = "What a folder does not say about its run, for add"},
  };
  const CommandLine line = {
      .options = own_options, .parse = parse,
      .arguments = "list|run|show|plot [TABLE]\nadd FOLDER...",
      .help =
          "Reproduce the tables of the paper. A table has one cell per method, domain and "
          "dataset; a cell is a training run with several seeds.\n"
          "  list  print the tables, or the cells of one table, and what has been run\n"
          "  run   run the missing cells: collect the data, train, evaluate, and\n"
          "        append the returns to results/ledger. Finished cells are\n"
          "        skipped; an interrupted cell resumes where it stopped.\n"
          "  show  print our numbers beside the paper's\n"
          "  plot  draw the same numbers as bars (needs gnuplot)\n"
          "  add   append the last complete evaluation of runs of bfm train (or that of\n"
          "        --steps) to the ledger, from the logs in their folders\v"
          "Examples:\n"
          "  bfm paper list\n"
          "  bfm paper list mood --filter walker\n"
          "  bfm paper show mood\n"
          "  bfm paper plot mood -o mood\n"
          "A short run of every step, which takes two minutes on a CPU:\n"
          "  bfm paper run first --preset small --batch 128 --steps 500 --seeds 1 \\\n"
          "    --episodes 2 --data-steps 100k --results results/first\n"
          "Add a run of bfm train, and one of which only the logs are left:\n"
          "  bfm paper add runs/walker --kind mood\n"
          "  bfm paper add logs/walker --domain walker --kind mood --algo fb-aw\n"
          "A real cell, which needs a GPU:\n"
          "  bfm paper run mood --filter \"walker FB-AW\" --steps 300k --seeds 3\n",
      .flags = {&a.flags, &a.agent_flags, &a.add_flags},
      .run = run_action,
  };
  int status = cli_run(&line, argc, argv, &a);
  free(a.folders);
  return status;
}
