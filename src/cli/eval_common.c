// What bfm eval and bfm bias share. All models of one command must be of the same domain, and are
// evaluated on the same tasks.

#include "cli/eval_common.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/config.h"
#include "cli/warn.h"
#include "prompt/prompt.h"

#define AT(field) offsetof(EvalCommon, options.field)

static const struct argp_option own_options[] = {
    {"tasks", 't', "LIST", 0,
     "tasks, separated by commas: all (default), in (the tasks of the datasets), new, names, "
     "expressions",
     0},
    {"json", 'j', NULL, 0, "print a JSON object per line, for each model and task", 0},
    {"quiet", 'q', NULL, 0, "show no progress", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  EvalCommon *j = state->input;
  switch (key) {
    case 't': j->list = arg; return 0;
    case 'j': j->json = 1; return 0;
    case 'q': j->quiet = 1; return 0;
    case ARGP_KEY_ARG: j->models[j->model_count++] = arg; return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a model: %s models/walker.safetensors", state->name);
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp own_argp = {own_options, parse, NULL, NULL, NULL, NULL, NULL};

int eval_common_new(EvalCommon *j, int argc, const char *episodes) {
  static Option rows[] = {
      {"episodes", OPTION_INT, AT(episodes), "", 1, 100000, NULL, "episodes of each task"},
      {"steps", OPTION_INT, AT(steps), "0", 0, 1e6, NULL,
       "control steps of an episode; 0: as the domain defines, 1000 in most"},
      {"es", OPTION_INT, AT(es), "0", 0, 4096, NULL,
       "evaluation-based sampling: act by the best of so many sampled actions; 0: by the "
       "policy's mean"},
      {"es-base", OPTION_CHOICE, AT(es_base), "model", 0, 0, ES_ACT_BASES,
       "how the members of F judge a sampled action, as in bfm train; model: as in the model"},
      {"seed", OPTION_INT, AT(seed), "0", 0, 9e15, NULL,
       "seed of the initial states and of sampled actions"},
      {"device", OPTION_TEXT, AT(device), "auto", 0, 0, NULL, "auto, cpu, cuda or cuda:n"},
      {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "CPU threads; 0: one per core"},
      {.name = NULL},
  };
  rows[0].fallback = episodes;
  j->models = calloc(argc, sizeof *j->models);
  j->es_bases = calloc(argc, sizeof *j->es_bases);
  if (!j->models || !j->es_bases)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %d arguments", argc);
  j->parsers[0] = (struct argp_child){&own_argp, 0, NULL, 0};
  j->parsers[1] = (struct argp_child){&j->flags.argp, 0, NULL, 1};
  return flags_new(&j->flags, rows, j, "Episodes");
}

void eval_common_init(struct argp_state *state, EvalCommon *j) {
  state->child_inputs[0] = j;
  state->child_inputs[1] = &j->flags;
}

void eval_common_free(EvalCommon *j) {
  tasklist_free(&j->tasks);
  flags_free(&j->flags);
  free(j->models);
  free(j->es_bases);
}

// without --tasks, models must agree on their tasks, which are those of the first model
static int check_tasks(const EvalCommon *j, const char *list) {
  TaskList own;
  TRY(tasklist_parse(&own, j->env, list));
  int same = own.count == j->tasks.count;
  for (int t = 0; t < own.count && same; t++) same = !strcmp(own.text[t], j->tasks.text[t]);
  tasklist_free(&own);
  if (same) return BFM_OK;
  return bfm_fail(
      BFM_BAD_ARGUMENT,
      "%s and %s are not for the same tasks: choose tasks for both, such as --tasks all",
      j->models[0], j->models[j->now]);
}

int eval_common_take_env(EvalCommon *j, const char *env, const char *list) {
  const char *path = j->models[j->now];
  if (!*env) return bfm_fail(BFM_BAD_ARGUMENT, "%s " PROMPT_NO_ENV, path);
  if (j->now && strcmp(j->env, env)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s is a model of %s, but %s is of %s: evaluate one domain at a time",
                    j->models[0], j->env, path, env);
  }
  if (j->now) return j->list ? BFM_OK : check_tasks(j, list);
  warn_of_robot(env);
  snprintf(j->env, sizeof j->env, "%s", env);
  return tasklist_parse(&j->tasks, env, j->list ? j->list : list);
}

int eval_common_load(EvalCommon *j, bfm_agent **agent) {
  char options[MACHINE_SIZE];
  const char *path = j->models[j->now];
  config_acting(j->options.device, j->options.threads, j->options.es_base, options);
  TRY(bfm_agent_load(agent, path, options));
  j->es_bases[j->now] = (*agent)->config.es_base;
  int status = eval_common_take_env(j, bfm_agent_env(*agent), "all");
  if (!status && bfm_agent_replicas(*agent) > 1) {
    status = bfm_fail(BFM_BAD_ARGUMENT,
                      "%s is the training state of a run: name its models instead", path);
  }
  if (status) bfm_agent_free(*agent);
  return status;
}

void eval_common_warn(const EvalCommon *j, bfm_agent *agent) {
  for (int t = 0; t < j->tasks.count && !j->now; t++) warn_of_prompt(agent, j->tasks.text[t]);
}

int check_es_base(int es_base, int64_t es) {
  if (!es_base || es) return BFM_OK;
  char name[OPTION_TEXT_SIZE];
  es_base_name(es_base - 1, name);
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "--es-base %s judges sampled actions: give their number, --es 32", name);
}

void eval_common_add_es(const EvalCommon *j, cJSON *line, int model) {
  cJSON_AddNumberToObject(line, "es", (double)j->options.es);
  if (!j->options.es || model >= j->model_count) return;
  char name[OPTION_TEXT_SIZE];
  es_base_name(j->es_bases[model], name);
  cJSON_AddStringToObject(line, "es_base", name);
}

void eval_common_print_es(const EvalCommon *j) {
  if (!j->options.es) {
    printf("the policy's mean action");
    return;
  }
  printf("the best of %ld sampled actions", (long)j->options.es);
  if (!j->options.es_base) return;
  char name[OPTION_TEXT_SIZE];
  es_base_name(j->options.es_base - 1, name);
  printf(" (es-base %s)", name);
}

// one progress line counts the steps of all models
static int each_step(void *context, int64_t done, int64_t total) {
  EvalCommon *j = context;
  char note[64];
  snprintf(note, sizeof note, "%d of %d", j->now + 1, j->count);
  j->progress.total = j->count * total;
  progress_update(&j->progress, j->now * total + done, j->count > 1 ? note : NULL);
  return cli_stop;
}

bfm_evaluation eval_common_plan(EvalCommon *j) {
  return (bfm_evaluation){.tasks = (const char *const *)j->tasks.text, .task_count = j->tasks.count,
                          .episodes = j->options.episodes, .steps = j->options.steps,
                          .es = (int)j->options.es, .seed = (uint64_t)j->options.seed,
                          .threads = (int)j->options.threads, .each = each_step, .context = j};
}

int task_width(const TaskList *tasks) {
  size_t width = 8;
  for (int t = 0; t < tasks->count; t++) {
    size_t length = strlen(tasks->text[t]);
    if (length > width) width = length < TASK_WIDTH ? length : TASK_WIDTH;
  }
  return (int)width;
}

void print_task(const char *task, int width) {
  if (strlen(task) > (size_t)width) printf("%.*s…", width - 1, task);
  else printf("%-*s", width, task);
}
