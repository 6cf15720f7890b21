// bfm eval: what models earn on tasks, in whole episodes; several models are seeds of one thing.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agents/config.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/judge.h"
#include "data/safetensors.h"
#include "run/d4rl.h"
#include "run/evaluate.h"

typedef struct {
  EpisodeOptions options;
  Flags flags;
  const char **models;
  const char *tasks, *z;
  double softmax;
  int model_count, random, json, quiet;
} Arguments;

enum { KEY_RANDOM = 0x900, KEY_SOFTMAX, KEY_Z };

static const struct argp_option own_options[] = {
    {"tasks", 't', "LIST", 0, EPISODE_TASKS_HELP, 0},
    {"random", KEY_RANDOM, NULL, 0, "compare with random actions", 0},
    {"softmax", KEY_SOFTMAX, "REAL", 0, "weigh states by softmax(reward / REAL) when prompting", 0},
    {"z", KEY_Z, "FILE", 0,
     "a prompt that bfm prompt -o has written, in place of the tasks: they only measure", 0},
    {"json", 'j', NULL, 0, "print a JSON object for each model and task, one a line", 0},
    {"quiet", 'q', NULL, 0, "no progress line", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: flags_init(state, (Flags *const[]){&a->flags}, 1); return 0;
    case 't': a->tasks = arg; return 0;
    case KEY_RANDOM: a->random = 1; return 0;
    case KEY_SOFTMAX: a->softmax = ask_softmax(arg); return 0;
    case KEY_Z: a->z = arg; return 0;
    case 'j': a->json = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG: a->models[a->model_count++] = arg; return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "name a model: bfm eval model.safetensors"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- evaluating ---------------------------------------------------

typedef struct {
  const Arguments *arguments;
  char env[64];
  TaskList tasks;
  double *returns;  // [models, or one more for random actions, tasks, episodes]
  Turns turns;
} Evaluation;

static bfm_evaluation plan_of(Evaluation *e) {
  const EpisodeOptions *o = &e->arguments->options;
  return (bfm_evaluation){.tasks = (const char *const *)e->tasks.text,
                          .task_count = e->tasks.count,
                          .episodes = o->episodes,
                          .steps = o->steps,
                          .es = (int)o->es,
                          .seed = (uint64_t)o->seed,
                          .softmax = e->arguments->softmax,
                          .threads = (int)o->threads,
                          .each = turns_each,
                          .context = &e->turns};
}

static double *returns_of(const Evaluation *e, int model, int task) {
  return e->returns + ((size_t)model * e->tasks.count + task) * e->arguments->options.episodes;
}

// the first model says which domain it is, and a policy for which task
static int take_env(Evaluation *e, const char *env, const char *task) {
  const Arguments *a = e->arguments;
  TRY(episodes_domain(e->env, sizeof e->env, env, a->models, e->turns.now));
  if (e->turns.now) return BFM_OK;
  TRY(tasklist_parse(&e->tasks, env, a->tasks ? a->tasks : task ? task : "all"));
  size_t count = (size_t)(a->model_count + 1) * e->tasks.count * a->options.episodes;
  e->returns = calloc(count, sizeof *e->returns);
  return e->returns ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "no memory for %zu returns", count);
}

// z [tasks, d] of --z, which is the same for all
static int read_z(const Evaluation *e, bfm_agent *agent, float **z) {
  int64_t d = bfm_agent_d(agent);
  char said[64];
  *z = calloc(e->tasks.count, d * sizeof **z);
  if (!*z) return bfm_fail(BFM_NO_MEMORY, "no memory for z");
  TRY(ask_z(&(Ask){.z = e->arguments->z}, agent, 0, *z, said, sizeof said));
  for (int t = 1; t < e->tasks.count; t++) memcpy(*z + t * d, *z, d * sizeof **z);
  return BFM_OK;
}

static int evaluate_agent(Evaluation *e, const char *path, const char *options) {
  bfm_agent *agent;
  float *z = NULL;
  TRY(bfm_agent_load(&agent, path, options));
  int status = take_env(e, bfm_agent_env(agent), NULL);
  bfm_evaluation plan = plan_of(e);
  if (!status && bfm_agent_replicas(agent) > 1) {
    status = bfm_fail(BFM_BAD_ARGUMENT, "%s is the state of a run: name its models", path);
  }
  if (!status && e->arguments->z) status = read_z(e, agent, &z);
  plan.z = z;
  if (!status) status = bfm_agent_evaluate(agent, &plan, returns_of(e, e->turns.now, 0));
  free(z);
  bfm_agent_free(agent);
  return status;
}

static int policy_act(void *context, int replica, int64_t rows, const float *obs, const float *z,
                      uint64_t seed, uint64_t step, float *act) {
  (void)replica, (void)rows, (void)z, (void)seed;
  return bfm_explorer_act(context, obs, 0, step, act);
}

// a policy that was trained for one task, which it does whatever it is evaluated on
static int evaluate_policy(Evaluation *e, const char *path, const SafeTensors *file,
                           const char *options) {
  const char *env = safetensors_metadata(file, "env");
  const Arguments *a = e->arguments;
  if (a->options.es || a->softmax > 0 || a->z) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s is the policy of one task: it takes no --es, --softmax and --z", path);
  }
  TRY(take_env(e, env ? env : "", safetensors_metadata(file, "task")));
  bfm_evaluation plan = plan_of(e);
  bfm_explorer *explorer;
  TRY(bfm_explorer_load(&explorer, path, (int)(plan.episodes * plan.task_count), options));
  bfm_explorer_sizes sizes;
  bfm_explorer_get_sizes(explorer, &sizes);
  Actor actor = {.act = policy_act,
                 .actor = explorer,
                 .env = e->env,
                 .obs_dim = sizes.obs_dim,
                 .act_dim = sizes.act_dim,
                 .replicas = 1};
  int status = evaluate(&actor, &plan, returns_of(e, e->turns.now, 0));
  bfm_explorer_free(explorer);
  return status;
}

static int evaluate_model(Evaluation *e, const char *path) {
  char options[MACHINE_SIZE];
  config_machine(e->arguments->options.device, e->arguments->options.threads, options);
  SafeTensors *file;
  TRY(safetensors_open(&file, path));
  const char *kind = safetensors_metadata(file, "bfm");
  int status = kind && !strcmp(kind, "policy") ? evaluate_policy(e, path, file, options)
                                               : evaluate_agent(e, path, options);
  safetensors_close(file);
  return status;
}

static int evaluate_all(Evaluation *e) {
  const Arguments *a = e->arguments;
  for (; e->turns.now < a->model_count; e->turns.now++)
    TRY(evaluate_model(e, a->models[e->turns.now]));
  bfm_evaluation plan = plan_of(e);
  return a->random ? evaluate_random(e->env, &plan, returns_of(e, e->turns.now, 0)) : BFM_OK;
}

// ---------------------------------- what a person sees -------------------------------------------

static const char *name_of(const Evaluation *e, int model) {
  const Arguments *a = e->arguments;
  return model < a->model_count ? a->models[model] : "random";
}

// D4RL's score of a return, for a task that is D4RL's; NaN: there is none
static double score_of(const Evaluation *e, int task, double value) {
  return task < 0 ? NAN : d4rl_score(e->env, e->tasks.text[task], value);
}

static int has_scores(const Evaluation *e) {
  int any = 0;
  for (int t = 0; t < e->tasks.count; t++) any |= !isnan(score_of(e, t, 0));
  return any;
}

static void print_json(const Evaluation *e) {
  const EpisodeOptions *o = &e->arguments->options;
  for (int m = 0; m < e->turns.count; m++) {
    for (int t = 0; t < e->tasks.count; t++) {
      const double *returns = returns_of(e, m, t);
      double mean, std;
      mean_std(returns, o->episodes, &mean, &std);
      cJSON *line = cJSON_CreateObject();
      cJSON_AddStringToObject(line, "model", name_of(e, m));
      cJSON_AddStringToObject(line, "env", e->env);
      cJSON_AddStringToObject(line, "task", e->tasks.text[t]);
      if (e->arguments->z) cJSON_AddStringToObject(line, "z", e->arguments->z);
      cJSON_AddNumberToObject(line, "episodes", (double)o->episodes);
      cJSON_AddNumberToObject(line, "es", (double)o->es);
      cJSON_AddNumberToObject(line, "seed", (double)o->seed);
      cJSON_AddNumberToObject(line, "mean", mean);
      cJSON_AddNumberToObject(line, "std", std);
      double score = score_of(e, t, mean);
      if (!isnan(score)) cJSON_AddNumberToObject(line, "d4rl", score);
      cJSON_AddItemToObject(line, "returns", cJSON_CreateDoubleArray(returns, (int)o->episodes));
      cli_print_json(line);
      cJSON_Delete(line);
    }
  }
}

static double mean_of(const Evaluation *e, int model, int task) {
  double mean, std;
  mean_std(returns_of(e, model, task), e->arguments->options.episodes, &mean, &std);
  return mean;
}

// mean and spread of a task (-1: of the mean of all): over the episodes of one model, or over
// models
static void summary(const Evaluation *e, int task, double *mean, double *std) {
  int models = e->arguments->model_count, tasks = e->tasks.count;
  if (models == 1 && task >= 0) {
    mean_std(returns_of(e, 0, task), e->arguments->options.episodes, mean, std);
    return;
  }
  double values[models];
  for (int m = 0; m < models; m++) {
    values[m] = 0;
    for (int t = task < 0 ? 0 : task; t < (task < 0 ? tasks : task + 1); t++) {
      values[m] += mean_of(e, m, t) / (task < 0 ? tasks : 1);
    }
  }
  mean_std(values, models, mean, std);
}

static void print_row(const Evaluation *e, int task, int width) {
  int models = e->arguments->model_count;
  double mean, std, random = 0;
  summary(e, task, &mean, &std);
  print_task(task < 0 ? "mean" : e->tasks.text[task], width);
  printf(" %8.1f", mean);
  if (task >= 0 || models > 1)
    printf(" ± %-6.1f", std);
  else
    printf("%9s", "");
  double score = score_of(e, task, mean);
  if (!isnan(score))
    printf(" %8.1f", score);
  else if (has_scores(e))
    printf("%9s", "");
  if (e->arguments->random) {
    for (int t = 0; t < e->tasks.count; t++) {
      random +=
          task < 0 ? mean_of(e, models, t) / e->tasks.count : (t == task) * mean_of(e, models, t);
    }
    printf(" %8.1f", random);
  }
  for (int m = 0; m < models && models > 1 && task >= 0; m++) printf(" %8.1f", mean_of(e, m, task));
  putchar('\n');
}

static void print_table(const Evaluation *e) {
  const Arguments *a = e->arguments;
  int width = task_width(&e->tasks);
  printf("%s, %ld episodes a task, %s; mean ± std over %s\n", e->env, (long)a->options.episodes,
         a->options.es ? "the best of sampled actions" : "the policy's mean",
         a->model_count > 1 ? "models" : "episodes");
  printf("%-*s %8s  %-7s", width, "task", "return", "");
  if (has_scores(e)) printf(" %8s", "D4RL");
  if (a->random) printf(" %8s", "random");
  for (int m = 0; m < a->model_count && a->model_count > 1; m++) printf("  model %d", m);
  putchar('\n');
  for (int t = 0; t < e->tasks.count; t++) print_row(e, t, width);
  if (e->tasks.count > 1) print_row(e, -1, width);
  for (int m = 0; m < a->model_count && a->model_count > 1; m++) {
    printf("model %d  %s\n", m, a->models[m]);
  }
}

static int run(const Arguments *a) {
  if (a->z && a->softmax > 0) {
    return bfm_fail(BFM_BAD_ARGUMENT, "--softmax is for prompts by tasks, which --z replaces");
  }
  Evaluation e = {.arguments = a, .turns.count = a->model_count + a->random};
  cli_catch_signals();
  progress_start(&e.turns.progress, "eval", "steps", 0, 1, a->quiet);
  int status = evaluate_all(&e);
  progress_end(&e.turns.progress);
  if (!status && a->json) print_json(&e);
  if (!status && !a->json) print_table(&e);
  tasklist_free(&e.tasks);
  free(e.returns);
  return status;
}

int cli_eval(int argc, char **argv) {
  Arguments a = {.models = calloc(argc, sizeof *a.models)};
  Option table[EPISODE_ROWS];
  episodes_table(table, "100");
  int status = a.models ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "no memory for %d arguments", argc);
  if (!status) status = flags_new(&a.flags, table, &a.options, "Episodes");
  if (status) return cli_fail(status);
  const struct argp_child children[] = {{&a.flags.argp, 0, NULL, 1}, {0}};
  const struct argp argp = {
      own_options,
      parse,
      "MODEL...",
      "Prompt models with tasks, let them act in whole episodes and add up the rewards. Several "
      "models are taken for seeds of one thing: the table shows mean ± std over them. Policies "
      "that bfm collect has trained (td3) are evaluated as well, on their own task if none is "
      "named.\v"
      "Examples:\n"
      "  bfm eval runs/walker/model.safetensors\n"
      "  bfm eval runs/five/model.*.safetensors --tasks in --es 32 --random\n"
      "  bfm eval model.safetensors --tasks 'run, torso.z > 1.2' --episodes 10 --json\n"
      "  bfm eval model.safetensors --z goal.json --tasks stand\n",
      children,
      NULL,
      NULL};
  status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  flags_free(&a.flags);
  free(a.models);
  return status;
}
