// bfm learn: a robot's name, a time, and a model at its end. One progress line for the whole run.

#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "core/units.h"
#include "learn/learn.h"

typedef struct {
  LearnOptions options;
  Flags flags;
  const char *robot, *folder;
  int resume, quiet;
  Progress line;
} Arguments;

static const struct argp_option own_options[] = {
    {"output", 'o', "FOLDER", 0, "the folder of the run (required)", 0},
    {"resume", 'r', NULL, 0, "continue the run in the folder; with --minutes also one that is done",
     0},
    {"quiet", 'q', NULL, 0, "print nothing but errors", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'o': a->folder = arg; return 0;
    case 'r': a->resume = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->robot) argp_error(state, "name one robot, not %s and %s", a->robot, arg);
      a->robot = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static int tell(void *context, const LearnProgress *now) {
  Arguments *a = context;
  char left[32], line[512];
  short_time(now->left, left, sizeof left);
  snprintf(line, sizeof line, "learn %3.0f%%  %s left  %s: %s", floor(100 * now->share), left,
           now->stage, now->note);
  progress_show(&a->line, line);
  return cli_stop != 0;
}

static void say(void *context, const char *line) {
  Arguments *a = context;
  if (a->quiet) return;
  progress_end(&a->line);
  puts(line);
  fflush(stdout);
  progress_start(&a->line, "learn", "", 0, 0, a->quiet);
}

static int run(void *input) {
  Arguments *a = input;
  if (!a->folder) return bfm_fail(BFM_BAD_ARGUMENT, "name the folder of the run: -o runs/walker");
  char *given = cJSON_PrintUnformatted(a->flags.given);
  if (!given) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  LearnPlan plan = {.robot = a->robot, .folder = a->folder, .given = given, .resume = a->resume,
                    .progress = tell, .say = say, .context = a};
  cli_catch_signals();
  progress_start(&a->line, "learn", "", 0, 0, a->quiet);
  int status = learn(&plan);
  progress_end(&a->line);
  free(given);
  return status;
}

int cli_learn(int argc, char **argv) {
  Arguments a = {.flags = {.table = learn_options, .fields = &a.options, .heading = "Learning"}};
  const CommandLine line = {
      .options = own_options, .parse = parse, .arguments = "[ROBOT]",
      .help =
          "Make a model of a robot within a given time: collect data, train, evaluate, and write "
          "a report. ROBOT is a domain that bfm tasks lists, or the .xml, .urdf or .yaml of a "
          "robot of your own. The command measures this machine and chooses the sizes of the "
          "networks. The folder receives the model, its learning curves, a strip of pictures and "
          "report.md; it can be watched with bfm serve meanwhile. Ctrl-C saves and stops, and "
          "--resume continues with the time that is left.\v"
          "Examples:\n"
          "  bfm learn walker --minutes 30 -o runs/walker\n"
          "  bfm learn my_robot.yaml --minutes 60 -o runs/mine\n"
          "  bfm learn --resume --minutes 120 -o runs/walker\n",
      .flags = {&a.flags},
      .run = run,
  };
  return cli_run(&line, argc, argv, &a);
}
