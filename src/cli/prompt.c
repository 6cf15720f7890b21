// bfm prompt: turn a reward, a goal or a demonstration into the task vector z.

#include <math.h>
#include <stdlib.h>

#include "cli/prompt_args.h"
#include "cli/cli.h"
#include "cli/warn.h"
#include "core/json.h"
#include "core/units.h"
#include "prompt/prompt.h"

typedef struct {
  PromptArgs prompt;
  const char *model, *path;
  int json;
} Arguments;

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "write z to a JSON file, which --z of prompt, play and eval reads",
     2},
    {"json", 'j', NULL, 0, "print z as one JSON object", 2},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->prompt; return 0;
    case 'o': a->path = arg; return 0;
    case 'j': a->json = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->model) argp_error(state, "name one model, not %s and %s", a->model, arg);
      a->model = arg;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a model: bfm prompt models/walker.safetensors --task run");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static int z_json(const Arguments *a, bfm_agent *agent, const float *z, cJSON **out) {
  const char *name, *text;
  char fingerprint[9];
  TRY(bfm_agent_fingerprint(agent, 0, fingerprint));
  prompt_args_given(&a->prompt, &name, &text);
  // a z that was read from a file may come from another model
  *out = prompt_file_json(a->model, a->prompt.z ? NULL : fingerprint, bfm_agent_env(agent), name,
                          text, z, bfm_agent_d(agent));
  return BFM_OK;
}

static void print_z(const Arguments *a, bfm_agent *agent, const float *z, const char *note,
                    double seconds) {
  const char *name, *text;
  double square = 0;
  int64_t d = bfm_agent_d(agent);
  for (int64_t i = 0; i < d; i++) square += (double)z[i] * z[i];
  prompt_args_given(&a->prompt, &name, &text);
  printf("%-8s%s\n", name, text);
  if (*note) printf("%-8s%s\n", "", note);
  printf("%-8s%ld numbers of norm %.4g, in %.2f s%s%s\n", "z", (long)d, sqrt(square), seconds,
         a->path ? ", written to " : "", a->path ? a->path : "");
}

// reject an output that would overwrite an input
static int check_path(const Arguments *a) {
  const char *const inputs[] = {a->model, a->prompt.demo, a->prompt.goal};
  for (int i = 0; i < 3 && a->path; i++) {
    if (!inputs[i] || !cli_is_same(inputs[i], a->path)) continue;
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "-o %s would overwrite the input %s: name another file to write", a->path,
                    inputs[i]);
  }
  return BFM_OK;
}

static int run(const Arguments *a) {
  TRY(check_path(a));
  bfm_agent *agent;
  double start = seconds_now();
  char note[4096] = "";
  TRY(bfm_agent_load(&agent, a->model, NULL));
  warn_of_robot(bfm_agent_env(agent));
  float *z = calloc(bfm_agent_d(agent), sizeof *z);
  int status = z ? prompt_args_z(&a->prompt, agent, z, note, sizeof note)
                 : bfm_fail(BFM_NO_MEMORY, "out of memory for z");
  cJSON *json = NULL;
  if (!status) status = z_json(a, agent, z, &json);
  if (!status && a->path) status = json_write(json, a->path);
  if (!status && a->json) cli_print_json(json);
  if (!status && !a->json) print_z(a, agent, z, note, seconds_now() - start);
  cJSON_Delete(json);
  free(z);
  bfm_agent_free(agent);
  return status;
}

int cli_prompt(int argc, char **argv) {
  Arguments a = {.model = NULL};
  const struct argp_child children[] =
      {{&prompt_args_argp, 0, "Task (exactly one of --reward, --task, --goal, --demo, --z):", 1},
       {0}};
  const struct argp argp =
      {own_options,
       parse,
       "MODEL",
       "Compute the vector z that makes a model pursue a task. The task is a reward, a goal state "
       "or a demonstration. Rewards are evaluated at the prompt states that are stored in the "
       "model. The command prints z; with -o it also writes z to a file.\v"
       "Examples:\n"
       "  bfm prompt models/walker.safetensors --reward 'torso.z > 1.2'\n"
       "  bfm prompt models/walker.safetensors --task run -o run.json\n"
       "  bfm prompt models/walker.safetensors --goal 'torso.zz = 1, speed = 3'\n"
       "  bfm collect walker --steps 5k -o walker.h5\n"
       "  bfm prompt models/walker.safetensors --demo walker.h5 --json\n"
       "bfm names walker lists the quantities that rewards and goals can use.\n",
       children,
       NULL,
       NULL};
  int status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  return status;
}
