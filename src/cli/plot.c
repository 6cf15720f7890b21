// bfm plot: the learning curves of one or more runs in one picture.

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
    {"output", 'o', "FILE", 0, "where to draw, as .svg and .png (default: curves)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'o': a->path = arg; return 0;
    case ARGP_KEY_ARG: a->folders[a->count++] = arg; return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "name the folders of runs"); return 0;
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
  if (!a.folders) return cli_fail(bfm_fail(BFM_NO_MEMORY, "no memory for %d arguments", argc));
  const struct argp argp = {
      own_options,
      parse,
      "RUN|LOG.jsonl...",
      "Draw the returns of runs by step, as bfm train --eval-every found them: a panel a task, a "
      "curve a run, over its seeds mean and standard deviation; or those of bfm collect's learners "
      "by transition, from its log. gnuplot draws.\v"
      "Examples:\n"
      "  bfm plot runs/fb runs/fb-aw runs/fb-aware -o compared.svg\n"
      "  bfm plot mood.log.jsonl -o learners.svg\n",
      NULL,
      NULL,
      NULL};
  int status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = draw(&a))) status = cli_fail(status);
  free(a.folders);
  return status;
}
