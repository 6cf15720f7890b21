// bfm prompt: from words, a goal or a demonstration to the task vector z.

#include <math.h>
#include <stdlib.h>

#include "cli/prompt_args.h"
#include "cli/cli.h"
#include "core/json.h"
#include "core/progress.h"

typedef struct {
  PromptArgs ask;
  const char *model, *path;
  int json;
} Arguments;

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "write z to a JSON file, for --z and bfm play --z", 2},
    {"json", 'j', NULL, 0, "print z as a JSON object", 2},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->ask; return 0;
    case 'o': a->path = arg; return 0;
    case 'j': a->json = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->model) argp_error(state, "one model at a time: %s or %s", a->model, arg);
      a->model = arg;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a model: bfm prompt model.safetensors");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// {"model": …, "fingerprint": …, "env": …, "prompt": {"reward": …}, "z": […]}
static int z_json(const Arguments *a, bfm_agent *agent, const float *z, cJSON **out) {
  const char *name, *text;
  char number[32], fingerprint[9];
  TRY(bfm_agent_fingerprint(agent, 0, fingerprint));
  prompt_args_given(&a->ask, &name, &text);
  cJSON *json = *out = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "model", a->model);
  // a kept z may be anyone's
  if (!a->ask.z) cJSON_AddStringToObject(json, "fingerprint", fingerprint);
  cJSON_AddStringToObject(json, "env", bfm_agent_env(agent));
  cJSON_AddStringToObject(cJSON_AddObjectToObject(json, "prompt"), name, text);
  cJSON *array = cJSON_AddArrayToObject(json, "z");
  for (int64_t i = 0; i < bfm_agent_d(agent); i++) {
    snprintf(number, sizeof number, "%.9g", z[i]);
    cJSON_AddItemToArray(array, cJSON_CreateRaw(number));
  }
  return BFM_OK;
}

static void print_z(const Arguments *a, bfm_agent *agent, const float *z, const char *said,
                    double seconds) {
  const char *name, *text;
  double square = 0;
  int64_t d = bfm_agent_d(agent);
  for (int64_t i = 0; i < d; i++) square += (double)z[i] * z[i];
  prompt_args_given(&a->ask, &name, &text);
  printf("%-8s%s\n", name, text);
  if (*said) printf("%-8s%s\n", "", said);
  printf("%-8s%ld numbers of norm %.4g, in %.2f s%s%s\n", "z", (long)d, sqrt(square), seconds,
         a->path ? ": " : "", a->path ? a->path : "");
}

// what was read is not to be written over
static int check_path(const Arguments *a) {
  const char *const read[] = {a->model, a->ask.demo, a->ask.goal};
  for (int i = 0; i < 3 && a->path; i++) {
    if (!read[i] || !cli_is_same(read[i], a->path)) continue;
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s is what the prompt is made of: name another file to write", a->path);
  }
  return BFM_OK;
}

static int run(const Arguments *a) {
  TRY(check_path(a));
  bfm_agent *agent;
  double start = seconds_now();
  char said[4096] = "";
  TRY(bfm_agent_load(&agent, a->model, NULL));
  float *z = calloc(bfm_agent_d(agent), sizeof *z);
  int status = z ? prompt_args_z(&a->ask, agent, z, said, sizeof said)
                 : bfm_fail(BFM_NO_MEMORY, "no memory for z");
  cJSON *json = NULL;
  if (!status) status = z_json(a, agent, z, &json);
  if (!status && a->path) status = json_write(json, a->path);
  if (!status && a->json) cli_print_json(json);
  if (!status && !a->json) print_z(a, agent, z, said, seconds_now() - start);
  cJSON_Delete(json);
  free(z);
  bfm_agent_free(agent);
  return status;
}

int cli_prompt(int argc, char **argv) {
  Arguments a = {.model = NULL};
  const struct argp_child children[] = {{&prompt_args_argp, 0, "What to do:", 1}, {0}};
  const struct argp argp =
      {own_options,
       parse,
       "MODEL",
       "Turn a reward, a goal or a demonstration into the vector z that tells the agent what to do."
       "\v"
       "Examples:\n"
       "  bfm prompt models/walker.safetensors --reward 'torso.z > 1.2'\n"
       "  bfm prompt models/walker.safetensors --task run -o run.json\n"
       "  bfm prompt models/walker.safetensors --goal 'torso.zz = 1, speed = 3'\n"
       "  bfm prompt models/walker.safetensors --demo mood.h5 --json\n"
       "bfm names walker lists what a reward and a goal can name.\n",
       children,
       NULL,
       NULL};
  int status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  return status;
}
