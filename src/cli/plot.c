// bfm plot: draw the learning curves of one or more runs in one picture.

#include <limits.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "train/eval_log.h"
#include "render/plot.h"

typedef struct {
  const char **folders;
  int count;
  const char *path;
} Arguments;

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "write FILE.svg and FILE.png (default: curves)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'o': a->path = arg; return 0;
    case ARGP_KEY_ARG: a->folders[a->count++] = arg; return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name the folder of a run: bfm plot runs/fb");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static int draw(const Arguments *a) {
  char path[PATH_MAX];
  TRY(plot_stem(a->path, path, sizeof path));
  TRY(eval_log_draw(a->folders, a->count, path));
  printf("%s.svg\n%s.png\n", path, path);
  return BFM_OK;
}

int cli_plot(int argc, char **argv) {
  Arguments a = {.path = "curves", .folders = calloc(argc, sizeof *a.folders)};
  if (!a.folders) return cli_fail(bfm_fail(BFM_NO_MEMORY, "out of memory for %d arguments", argc));
  const struct argp argp = {
      own_options,
      parse,
      "RUN|LOG.jsonl...",
      "Draw the learning curves of runs: the return of each task over the training steps, from the "
      "evaluations of bfm train --eval-every. There is one panel per task and one curve per run, "
      "with the mean and the standard deviation over its seeds. If a log of bfm collect is "
      "given, the curves are its learners' returns over the transitions. Needs gnuplot.\v"
      "Examples (the first two commands make the data and the run, in seconds):\n"
      "  bfm collect point_mass --with mood --hidden 64 --batch 64 --steps 10k \\\n"
      "    --eval-every 2k -o plot.h5\n"
      "  bfm train plot.h5 --preset small --batch 64 --steps 100 --eval-every 50 \\\n"
      "    --eval-episodes 2 --eval-steps 100 -o runs/plot\n"
      "  bfm plot runs/plot -o curves\n"
      "  bfm plot plot.log.jsonl -o learners\n",
      NULL,
      NULL,
      NULL};
  int status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = draw(&a))) status = cli_fail(status);
  free(a.folders);
  return status;
}
