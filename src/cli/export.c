// bfm export: write a smaller copy of a model for machines that only prompt it and run its policy,
// or one of its networks as an ONNX graph.

#include <sys/stat.h>

#include "cli/cli.h"
#include "core/units.h"

typedef struct {
  int64_t members, prompt_states;
  int part, weights;
} ExportOptions;

#define PARTS "pi|B|F"

static const Option export_options[] = {
    {"members", OPTION_INT, offsetof(ExportOptions, members), "0", 0, 8, NULL,
     "networks of the ensemble F to keep; 0: all. --es needs at least one"},
    {"prompt-states", OPTION_INT, offsetof(ExportOptions, prompt_states), "-1", -1, 1e9, NULL,
     "prompt states to keep, chosen at random; -1: all. Rewards need them"},
    {"part", OPTION_CHOICE, offsetof(ExportOptions, part), "pi", 0, 0, PARTS,
     "for an .onnx file: the policy, or the networks B or F"},
    {"weights", OPTION_CHOICE, offsetof(ExportOptions, weights), "keep", 0, 0, "keep|bf16|int8|f32",
     "type of the parameters: bf16 halves a model, int8 quarters it; keep: as they are"},
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
    {.name = "output", .key = 'o', .arg = "FILE", .doc = "the file to write (required)"},
    {.name = "half", .key = KEY_HALF, .doc = "the same as --weights bf16"},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'o': a->path = arg; return 0;
    case KEY_HALF: a->half = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->model) argp_error(state, "name one model, not %s and %s", a->model, arg);
      a->model = arg;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a model: bfm export models/walker.safetensors -o slim.safetensors");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static double bytes_of(const char *path) {
  struct stat info;
  return stat(path, &info) ? 0 : (double)info.st_size;
}

// The extension decides what is written, and some options belong to one kind of file alone.
static int check_kind(const Arguments *a, int onnx) {
  const char *other = onnx ? "prompt-states" : "part";
  if (!cJSON_HasObjectItem(a->flags.given, other)) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "--%s is for a file whose name ends in %s, not for %s", other,
                  onnx ? ".safetensors" : ".onnx", a->path);
}

static bfm_status write_onnx(bfm_agent *agent, const Arguments *a, int weights) {
  char part[OPTION_TEXT_SIZE];
  options_get(options_find(export_options, "part"), &a->options, part, sizeof part);
  return bfm_agent_export_onnx(agent, 0, a->path, part, (int)a->options.members, weights);
}

static int run(void *input) {
  const Arguments *a = input;
  if (!a->path) return bfm_fail(BFM_BAD_ARGUMENT, "name the file to write: -o slim.safetensors");
  if (cli_is_same(a->model, a->path)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "-o %s is the model itself: name another file", a->path);
  }
  int onnx = cli_has_suffix(a->path, ".onnx");
  TRY(check_kind(a, onnx));
  int weights = a->half && !a->options.weights ? BFM_WEIGHTS_BF16 : a->options.weights;
  if (a->half && weights != BFM_WEIGHTS_BF16) {
    return bfm_fail(BFM_BAD_ARGUMENT, "--half means --weights bf16: leave one of them out");
  }
  bfm_agent *agent;
  double before = bytes_of(a->model);
  TRY(bfm_agent_load(&agent, a->model, "{\"device\": \"cpu\"}"));
  int status = onnx ? write_onnx(agent, a, weights)
                    : bfm_agent_export(agent, 0, a->path, (int)a->options.members, weights,
                                       a->options.prompt_states);
  bfm_agent_free(agent);
  if (!status) {
    printf("%s: %s, was %s\n", a->path, size_of_bytes(bytes_of(a->path)).text,
           size_of_bytes(before).text);
  }
  return status;
}

int cli_export(int argc, char **argv) {
  Arguments a = {.flags = {.table = export_options, .fields = &a.options, .heading = "Contents"}};
  const CommandLine line = {
      .options = own_options, .parse = parse, .arguments = "MODEL",
      .help =
          "Write a smaller copy of a model, for machines that prompt it and run its policy but do "
          "not train. The copy is a model like any other: prompt, play, eval and the library "
          "load it. With a name that ends in .onnx, write one network as an ONNX graph for other "
          "runtimes. The command prints the sizes of both files.\v"
          "Examples:\n"
          "  bfm export models/walker.safetensors --prompt-states 2k -o small.safetensors\n"
          "  bfm export models/walker.safetensors -o policy.onnx\n"
          "  bfm export models/walker.safetensors --part B --weights bf16 -o features.onnx\n"
          "For the policy runtime on a robot, docs/policy.md:\n"
          "  bfm export models/walker.safetensors --weights int8 -o robot.safetensors\n"
          "A model as bfm train writes it (a short run of seconds, on a CPU):\n"
          "  bfm collect point_mass --steps 5k -o export.h5\n"
          "  bfm train export.h5 --preset small --batch 64 --steps 100 -o runs/export\n"
          "  bfm export runs/export/model.safetensors --half -o half.safetensors\n",
      .flags = {&a.flags},
      .run = run,
  };
  return cli_run(&line, argc, argv, &a);
}
