// bfm collect: collect a dataset from flags; print a line about it before and a few after.

#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/warn.h"
#include "collect/collect.h"
#include "collect/options.h"
#include "core/units.h"

typedef struct {
  CollectOptions options;
  Flags flags;
  const char *env, *path;
  int resume, quiet;
} Arguments;

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "the dataset, an HDF5 file in D4RL's layout", 0},
    {"resume", 'r', NULL, 0, "continue the file, with the options that it was started with", 0},
    {"quiet", 'q', NULL, 0, "print nothing but errors", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: flags_init(state, (Flags *const[]){&a->flags}, 1); return 0;
    case 'o': a->path = arg; return 0;
    case 'r': a->resume = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->env) argp_error(state, "name one environment, not %s and %s", a->env, arg);
      a->env = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- what a person sees -------------------------------------------

static void print_start(const Collection *collection) {
  CollectSummary s;
  collection_summary(collection, &s);
  printf("collect %s with %s in %d environments", s.env, s.with, s.envs);
  if (s.first) printf(", from transition %" PRId64 " on", s.first);
  if (s.restarted) printf("; its learners were not saved and start from scratch");
  putchar('\n');
  fflush(stdout);
}

static void print_end(const Collection *collection, const char *path) {
  CollectSummary s;
  collection_summary(collection, &s);
  int64_t rows = s.rows - s.first;
  if (!rows) {
    printf("all %" PRId64 " transitions were there already\n", s.rows);
    return;
  }
  char took[32], rate[32];
  short_time(s.seconds, took, sizeof took);
  short_count((double)rows / s.seconds, rate, sizeof rate);
  printf("done    %" PRId64 " transitions in %s, %s/s: %s\n", rows, took, rate, path);
  printf("        the simulator was busy %.0f%% of the time", 100 * s.busy / s.seconds);
  if (s.updates) printf("; %" PRId64 " updates, %.0f/s", s.updates, (double)s.updates / s.seconds);
  printf("\n");
  if (s.diverged)
    printf("        %" PRId64 " steps of the simulator diverged and were left out\n", s.diverged);
  if (!s.returns) return;
  printf("\n%12s  task, without noise\n", "return");
  for (int t = 0; t < s.agents; t++) {
    printf("%12.1f  %s\n", s.returns[t], collection_task(collection, t));
  }
}

// the rewards that agents learn
static void warn(const Collection *collection) {
  CollectSummary s;
  collection_summary(collection, &s);
  for (int t = 0; t < s.agents; t++) warn_of_tasks(s.env, collection_task(collection, t));
}

static int run(Arguments *a) {
  if (!a->path) return bfm_fail(BFM_BAD_ARGUMENT, "name the file to write: -o data.h5");
  char *given = cJSON_PrintUnformatted(a->flags.given);
  if (!given) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  RunProgress progress = {.quiet = a->quiet, .stop = &cli_stop};
  CollectPlan plan = {.env = a->env, .path = a->path, .given = given, .resume = a->resume,
                      .progress = progress_of_run, .context = &progress};
  Collection *collection;
  int status = collection_open(&collection, &plan);
  free(given);
  if (status) return status;
  cli_catch_signals();
  if (!a->quiet) print_start(collection);
  warn(collection);
  status = collection_run(collection);
  progress_end(&progress.line);
  if (!status && !a->quiet) print_end(collection, a->path);
  collection_close(collection);
  return status;
}

int cli_collect(int argc, char **argv) {
  Arguments a = {.env = NULL};
  int status = flags_new(&a.flags, collect_options(), &a.options, "Collecting");
  if (status) return cli_fail(status);
  const struct argp_child children[] = {{&a.flags.argp, 0, NULL, 1}, {0}};
  const struct argp argp = {own_options,
                            parse,
                            "[ENV]",
                            "Simulate a domain and write every transition to a dataset. The file "
                            "can be read while it grows, and a collector that is killed loses "
                            "only the last seconds. ENV is a domain that bfm tasks lists, or the "
                            ".xml, .urdf or .yaml of a robot of your own, whose files become part "
                            "of the dataset.\v"
                            "Examples:\n"
                            "  bfm collect point_mass --steps 100k -o point_mass.h5\n"
                            "  bfm collect walker --with mood --steps 4M -o mood.h5\n"
                            "  bfm collect walker --with td3 --task run --steps 1M -o run.h5\n"
                            "  bfm collect hopper --with d4rl-medium --steps 1M -o medium.h5\n"
                            "  bfm collect my_robot.xml --with rnd --steps 1M -o my.h5\n"
                            "  bfm collect --resume --steps 8M -o mood.h5\n",
                            children,
                            NULL,
                            NULL};
  status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  flags_free(&a.flags);
  return status;
}
