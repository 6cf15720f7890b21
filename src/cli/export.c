// bfm export: a smaller file of a model, for machines that only let it act.

#include <sys/stat.h>

#include "cli/cli.h"

typedef struct {
  int64_t members, prompt_states;
} ExportOptions;

static const Option export_options[] = {
    {"members", OPTION_INT, offsetof(ExportOptions, members), "0", 0, 8, NULL,
     "members of F to keep, one is enough for --es; 0: all"},
    {"prompt-states", OPTION_INT, offsetof(ExportOptions, prompt_states), "-1", -1, 1e9, NULL,
     "prompt states to keep, drawn at random; -1: all"},
    {.name = NULL},
};

typedef struct {
  ExportOptions options;
  Flags flags;
  const char *model, *path;
  int half;
} Arguments;

enum { KEY_HALF = 0x900 };

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "the smaller model", 0},
    {"half", KEY_HALF, NULL, 0,
     "parameters as bfloat16, states as float32; a model that has them so keeps them", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: flags_init(state, (Flags *const[]){&a->flags}, 1); return 0;
    case 'o': a->path = arg; return 0;
    case KEY_HALF: a->half = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->model) argp_error(state, "one model at a time: %s or %s", a->model, arg);
      a->model = arg;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a model: bfm export model.safetensors");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static double mebibytes(const char *path) {
  struct stat info;
  return stat(path, &info) ? 0 : (double)info.st_size / (1 << 20);
}

static int run(const Arguments *a) {
  if (!a->path) return bfm_fail(BFM_BAD_ARGUMENT, "name the file to write: -o slim.safetensors");
  if (cli_is_same(a->model, a->path)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is the model itself: name another file to write",
                    a->path);
  }
  bfm_agent *agent;
  double before = mebibytes(a->model);
  TRY(bfm_agent_load(&agent, a->model, "{\"device\": \"cpu\"}"));
  int status = bfm_agent_export(agent, 0, a->path, (int)a->options.members, a->half,
                                a->options.prompt_states);
  bfm_agent_free(agent);
  if (!status) printf("%s  %.1f MiB, was %.1f\n", a->path, mebibytes(a->path), before);
  return status;
}

int cli_export(int argc, char **argv) {
  Arguments a = {.model = NULL};
  int status = flags_new(&a.flags, export_options, &a.options, "What is kept");
  if (status) return cli_fail(status);
  const struct argp_child children[] = {{&a.flags.argp, 0, NULL, 1}, {0}};
  const struct argp argp =
      {own_options,
       parse,
       "MODEL",
       "Write a smaller file of a model, that loads, is prompted and acts as the model does.\v"
       "Example:\n"
       "  bfm export runs/walker/best.safetensors --half -o slim.safetensors\n",
       children,
       NULL,
       NULL};
  status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  flags_free(&a.flags);
  return status;
}
