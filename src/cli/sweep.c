// bfm sweep: run the cells of a text file, list them, show their results.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/sweep_show.h"
#include "core/units.h"
#include "sweep/sweep.h"

typedef struct {
  char device[OPTION_TEXT_SIZE], value[OPTION_TEXT_SIZE];
  int64_t threads;
  double expire;
} Settings;

typedef struct {
  Settings settings;
  Flags flags;
  const char *words[2], *output;  // FILE, or "show" and FOLDER
  int count, dry, retry, leave, json, quiet;
  Progress line;
  SweepCount cells;
} Arguments;

#define AT(field) offsetof(Settings, field)

static const Option sweep_options[] = {
    {"device", OPTION_TEXT, AT(device), "", 0, 0, NULL,
     "device of this process, instead of the file's: auto, cpu, cuda or cuda:n"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL,
     "CPU threads of this process, instead of the file's"},
    {"expire", OPTION_REAL, AT(expire), "120", 1, 86400, NULL,
     "seconds without a sign of life after which other machines take over a cell of this process"},
    {"value", OPTION_TEXT, AT(value), "return", 0, 0, NULL,
     "show: what to show, separated by commas: return (the mean over tasks), tasks, losses and "
     "other numbers of log.jsonl, seconds"},
    {.name = NULL},
};

enum { DRY = 0x100, RETRY, LEAVE };

static const struct argp_option own_options[] = {
    {"output", 'o', "FOLDER", 0,
     "the folder of the sweep, shared by all machines; show: write a plot", 0},
    {"dry-run", DRY, NULL, 0, "list the cells with their states and commands, and run nothing", 0},
    {"retry", RETRY, NULL, 0, "run the cells again that have failed", 0},
    {"no-wait", LEAVE, NULL, 0,
     "end when all cells are taken, although other processes may still die", 0},
    {"json", 'j', NULL, 0, "show: print one JSON object per row, each on a line", 0},
    {"quiet", 'q', NULL, 0, "print nothing but errors", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'o': a->output = arg; return 0;
    case DRY: a->dry = 1; return 0;
    case RETRY: a->retry = 1; return 0;
    case LEAVE: a->leave = 1; return 0;
    case 'j': a->json = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->count == 2) argp_error(state, "there are too many arguments: %s", arg);
      a->words[a->count++] = arg;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name the file of a sweep: bfm sweep sweep.yaml -o runs/sweep");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- progress -----------------------------------------------------

// "sweep  12/40 cells, 3 elsewhere, 5 min left  train  45%  note"
static int tell(void *context, const bfm_progress *progress) {
  Arguments *a = context;
  const SweepCount *c = &a->cells;
  char left[32], line[512], part[64] = "", elsewhere[32] = "", failed[32] = "";
  short_time(c->seconds_left, left, sizeof left);
  if (c->elsewhere) snprintf(elsewhere, sizeof elsewhere, ", %d elsewhere", c->elsewhere);
  if (c->failed) snprintf(failed, sizeof failed, ", %d failed", c->failed);
  if (progress->total > 0) {
    snprintf(part, sizeof part, "  %s %3.0f%%", progress->stage,
             floor(100.0 * (double)progress->done / (double)progress->total));
  }
  snprintf(line, sizeof line, "sweep  %d/%d cells%s%s, %s left%s", c->finished, c->total, failed,
           elsewhere, left, part);
  progress_show(&a->line, line);
  return cli_stop != 0;
}

static void say(void *context, const char *line) {
  Arguments *a = context;
  if (a->quiet) return;
  progress_end(&a->line);
  puts(line);
  fflush(stdout);
  progress_start(&a->line, "sweep", "", 0, 0, a->quiet);
}

// ---------------------------------- running and listing ------------------------------------------

static const char *state_of(const SweepCell *cell) {
  if (cell->state == CELL_FINISHED) return "done";
  if (cell->state == CELL_FAILED) return "failed";
  return cell->claim.state == CLAIM_HELD ? "running" : "waiting";
}

static int list(const Arguments *a, Sweep *sweep) {
  SweepCount count;
  TRY(sweep_look(sweep, a->output, &count));
  for (int i = 0; i < sweep->count; i++) {
    printf("%-8s ", state_of(&sweep->cells[i]));
    sweep_print_command(sweep, &sweep->cells[i], a->output, stdout);
    putchar('\n');
  }
  printf("%d cells: %d done, %d failed, %d running\n", count.total, count.finished, count.failed,
         count.elsewhere);
  return BFM_OK;
}

// the options that say where this process runs its cells
static char *machine_of(const Arguments *a) {
  static const char *const names[] = {"device", "threads"};
  cJSON *machine = cJSON_CreateObject();
  for (int i = 0; i < 2; i++) {
    const cJSON *given = cJSON_GetObjectItem(a->flags.given, names[i]);
    if (given) cJSON_AddStringToObject(machine, names[i], given->valuestring);
  }
  char *text = cJSON_PrintUnformatted(machine);
  cJSON_Delete(machine);
  return text;
}

static int run_cells(Arguments *a, Sweep *sweep) {
  char *machine = machine_of(a);
  if (!machine) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  const SweepPlan plan = {.folder = a->output, .machine = machine, .expire = a->settings.expire,
                          .retry = a->retry, .leave = a->leave, .progress = tell, .report = say,
                          .context = a};
  cli_catch_signals();
  progress_start(&a->line, "sweep", "", 0, 0, a->quiet);
  int status = sweep_run(&plan, sweep, &a->cells);
  progress_end(&a->line);
  if (!status && !a->quiet) {
    printf("%d of %d cells have results; bfm sweep show %s prints them\n", a->cells.finished,
           a->cells.total, a->output);
  }
  free(machine);
  return status;
}

static int run_file(Arguments *a) {
  Sweep sweep;
  if (a->count == 2) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name one file: bfm sweep %s -o %s", a->words[0],
                    a->output ? a->output : "runs/sweep");
  }
  if (a->json || cJSON_HasObjectItem(a->flags.given, "value")) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is an option of bfm sweep show: leave it out",
                    a->json ? "--json" : "--value");
  }
  if (!a->output) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name the folder of the sweep: bfm sweep %s -o runs/sweep",
                    a->words[0]);
  }
  TRY(sweep_read(&sweep, a->words[0]));
  int status = a->dry ? list(a, &sweep) : run_cells(a, &sweep);
  sweep_free(&sweep);
  return status;
}

// reject options that show would ignore
static int check_show(const Arguments *a) {
  const cJSON *flag;
  const char *other = a->dry ? "dry-run" : a->retry ? "retry" : a->leave ? "no-wait" : NULL;
  cJSON_ArrayForEach(flag, a->flags.given) {
    if (strcmp(flag->string, "value")) other = flag->string;
  }
  if (other)
    return bfm_fail(BFM_BAD_ARGUMENT, "--%s is not an option of show: leave it out", other);
  if (a->count == 2) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "name the folder of the sweep: bfm sweep show runs/sweep");
}

static int run(void *input) {
  Arguments *a = input;
  if (strcmp(a->words[0], "show")) return run_file(a);
  TRY(check_show(a));
  return sweep_show(a->words[1], a->settings.value, a->output, a->json);
}

int cli_sweep(int argc, char **argv) {
  Arguments a = {.flags = {.table = sweep_options, .fields = &a.settings, .heading = "Sweep"}};
  const CommandLine line = {
      .options = own_options, .parse = parse, .arguments = "FILE\nshow FOLDER",
      .help =
          "Run many collections and trainings. FILE names their options; a list of values varies "
          "an option, and the cells are all combinations. Start the same command as often as you "
          "like, on any number of machines that share FOLDER: each process claims one cell at a "
          "time, and takes over the cells of processes that have died. Ctrl-C saves and gives "
          "the cell back; the next process resumes it. docs/cluster.md describes the file.\v"
          "Examples:\n"
          "  bfm sweep sweep.yaml -o runs/sweep --dry-run\n"
          "  bfm sweep sweep.yaml -o runs/sweep\n"
          "  bfm sweep show runs/sweep --value return,stand\n"
          "  bfm sweep show runs/sweep -o sweep.png\n"
          "where sweep.yaml is, for example:\n"
          "  collect:\n"
          "    mood: {domain: walker, with: mood, steps: 1M}\n"
          "  train:\n"
          "    data: mood\n"
          "    algo: [fb, fb-aware]\n"
          "    seed: 0..4\n"
          "    steps: 300k\n",
      .flags = {&a.flags},
      .run = run,
  };
  return cli_run(&line, argc, argv, &a);
}
