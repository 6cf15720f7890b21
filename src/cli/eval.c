// bfm eval: measure the returns of models on tasks in whole episodes. Several models are evaluated as
// seeds of one method.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "cli/prompt_args.h"
#include "cli/eval_common.h"
#include "collect/d4rl_scores.h"
#include "rollout/evaluate.h"

typedef struct {
  EvalCommon common;
  const char *z;
  double softmax;
  int random;
  double *returns;  // [models + 1, tasks, episodes]; the last is for random actions
  double *means;    // [models], scratch: the means of the task that is printed
} Evaluation;

enum { KEY_RANDOM = 0x900, KEY_SOFTMAX, KEY_Z };

static const struct argp_option own_options[] = {
    {"random", KEY_RANDOM, NULL, 0, "also evaluate uniformly random actions", 0},
    {"softmax", KEY_SOFTMAX, "REAL", 0,
     "weight prompt states by softmax(reward / REAL), REAL above 0, when prompting", 0},
    {"z", KEY_Z, "FILE", 0,
     "prompt the models with a z that bfm prompt -o has written; the tasks then only measure", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Evaluation *e = state->input;
  switch (key) {
    case ARGP_KEY_INIT: eval_common_init(state, &e->common); return 0;
    case KEY_RANDOM: e->random = 1; return 0;
    case KEY_SOFTMAX: e->softmax = prompt_args_softmax(arg); return 0;
    case KEY_Z: e->z = arg; return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- evaluating ---------------------------------------------------

static double *returns_of(const Evaluation *e, int model, int task) {
  return e->returns + ((size_t)model * e->common.tasks.count + task) * e->common.options.episodes;
}

// allocate the returns; called after the first model has determined the tasks
static int make_returns(Evaluation *e) {
  const EvalCommon *j = &e->common;
  if (e->returns) return BFM_OK;
  size_t count = (size_t)(j->model_count + 1) * j->tasks.count * j->options.episodes;
  e->returns = calloc(count, sizeof *e->returns);
  e->means = calloc(j->model_count, sizeof *e->means);
  return e->returns && e->means ? BFM_OK
                                : bfm_fail(BFM_NO_MEMORY, "out of memory for %zu returns", count);
}

// read the z of --z into each row of z [tasks, d]
static int read_z(const Evaluation *e, bfm_agent *agent, float **z) {
  int64_t d = bfm_agent_d(agent);
  *z = calloc(e->common.tasks.count, d * sizeof **z);
  if (!*z) return bfm_fail(BFM_NO_MEMORY, "out of memory for z");
  TRY(bfm_agent_prompt_file(agent, 0, e->z, *z));
  for (int t = 1; t < e->common.tasks.count; t++) memcpy(*z + t * d, *z, d * sizeof **z);
  return BFM_OK;
}

static int evaluate_agent(Evaluation *e) {
  bfm_agent *agent;
  float *z = NULL;
  TRY(eval_common_load(&e->common, &agent));
  int status = make_returns(e);
  bfm_evaluation plan = eval_common_plan(&e->common);
  if (!status && e->z) status = read_z(e, agent, &z);
  else if (!status) eval_common_warn(&e->common, agent);
  plan.softmax = e->softmax;
  plan.z = z;
  if (!status) status = bfm_agent_evaluate(agent, &plan, returns_of(e, e->common.now, 0));
  free(z);
  bfm_agent_free(agent);
  return status;
}

static int evaluate_policy(Evaluation *e, Policy *policy) {
  const EvalCommon *j = &e->common;
  if (j->options.es || e->softmax > 0 || e->z) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s is the policy of a single task: it takes no --es, --softmax or --z",
                    policy->path);
  }
  TRY(eval_common_take_env(&e->common, policy->env, *policy->task ? policy->task : "all"));
  TRY(make_returns(e));
  char options[MACHINE_SIZE];
  config_machine(j->options.device, j->options.threads, options);
  bfm_evaluation plan = eval_common_plan(&e->common);
  Actor actor;
  TRY(policy_load(policy, (int)(plan.episodes * plan.task_count), options, &actor));
  return evaluate(&actor, &plan, returns_of(e, j->now, 0), NULL);
}

static int evaluate_model(Evaluation *e, const char *path) {
  Policy policy;
  int found;
  TRY(policy_find(&policy, path, &found));
  int status = found ? evaluate_policy(e, &policy) : evaluate_agent(e);
  policy_free(&policy);
  return status;
}

static int evaluate_all(Evaluation *e) {
  EvalCommon *j = &e->common;
  for (; j->now < j->model_count; j->now++) TRY(evaluate_model(e, j->models[j->now]));
  bfm_evaluation plan = eval_common_plan(&e->common);
  return e->random ? evaluate_random(j->env, &plan, returns_of(e, j->now, 0)) : BFM_OK;
}

// ---------------------------------- results ------------------------------------------------------

static const char *name_of(const Evaluation *e, int model) {
  return model < e->common.model_count ? e->common.models[model] : "random";
}

// the normalized score of a return; NaN if the task is not one of D4RL's
static double score_of(const Evaluation *e, int task, double value) {
  return task < 0 ? NAN : d4rl_score(e->common.env, e->common.tasks.text[task], value);
}

static int has_scores(const Evaluation *e) {
  int any = 0;
  for (int t = 0; t < e->common.tasks.count; t++) any |= !isnan(score_of(e, t, 0));
  return any;
}

static void print_json(const Evaluation *e) {
  const EvalCommon *j = &e->common;
  for (int m = 0; m < j->count; m++) {
    for (int t = 0; t < j->tasks.count; t++) {
      const double *returns = returns_of(e, m, t);
      double mean, std;
      mean_std(returns, j->options.episodes, &mean, &std);
      cJSON *line = cJSON_CreateObject();
      cJSON_AddStringToObject(line, "model", name_of(e, m));
      cJSON_AddStringToObject(line, "env", j->env);
      cJSON_AddStringToObject(line, "task", j->tasks.text[t]);
      if (e->z) cJSON_AddStringToObject(line, "z", e->z);
      cJSON_AddNumberToObject(line, "episodes", (double)j->options.episodes);
      eval_common_add_es(j, line, m);
      cJSON_AddNumberToObject(line, "seed", (double)j->options.seed);
      cJSON_AddNumberToObject(line, "mean", mean);
      cJSON_AddNumberToObject(line, "std", std);
      double score = score_of(e, t, mean);
      if (!isnan(score)) cJSON_AddNumberToObject(line, "d4rl", score);
      cJSON_AddItemToObject(line, "returns",
                            cJSON_CreateDoubleArray(returns, (int)j->options.episodes));
      cli_print_json(line);
      cJSON_Delete(line);
    }
  }
}

static double mean_of(const Evaluation *e, int model, int task) {
  double mean, std;
  mean_std(returns_of(e, model, task), e->common.options.episodes, &mean, &std);
  return mean;
}

// Mean and standard deviation of a task's returns, or with task -1 of the mean over all tasks: over
// episodes if there is one model, otherwise over models.
static void summary(const Evaluation *e, int task, double *mean, double *std) {
  int models = e->common.model_count, tasks = e->common.tasks.count;
  if (models == 1 && task >= 0) {
    mean_std(returns_of(e, 0, task), e->common.options.episodes, mean, std);
    return;
  }
  for (int m = 0; m < models; m++) {
    e->means[m] = 0;
    for (int t = task < 0 ? 0 : task; t < (task < 0 ? tasks : task + 1); t++) {
      e->means[m] += mean_of(e, m, t) / (task < 0 ? tasks : 1);
    }
  }
  mean_std(e->means, models, mean, std);
}

static void print_row(const Evaluation *e, int task, int width) {
  int models = e->common.model_count;
  double mean, std, random = 0;
  summary(e, task, &mean, &std);
  print_task(task < 0 ? "mean" : e->common.tasks.text[task], width);
  printf(" %8.1f", mean);
  if (task >= 0 || models > 1) printf(" ± %-6.1f", std);
  else printf("%9s", "");
  double score = score_of(e, task, mean);
  if (!isnan(score)) printf(" %8.1f", score);
  else if (has_scores(e)) printf("%9s", "");
  if (e->random) {
    for (int t = 0; t < e->common.tasks.count; t++) {
      random += task < 0 ? mean_of(e, models, t) / e->common.tasks.count
                         : (t == task) * mean_of(e, models, t);
    }
    printf(" %8.1f", random);
  }
  for (int m = 0; m < models && models > 1 && task >= 0; m++) printf(" %8.1f", mean_of(e, m, task));
  putchar('\n');
}

static void print_table(const Evaluation *e) {
  const EvalCommon *j = &e->common;
  int width = task_width(&j->tasks);
  printf("%s, %ld episode%s per task, ", j->env, (long)j->options.episodes,
         j->options.episodes > 1 ? "s" : "");
  eval_common_print_es(j);
  printf("; mean ± std over %s\n", j->model_count > 1 ? "models" : "episodes");
  printf("%-*s %8s  %-7s", width, "task", "return", "");
  if (has_scores(e)) printf(" %8s", "D4RL");
  if (e->random) printf(" %8s", "random");
  for (int m = 0; m < j->model_count && j->model_count > 1; m++) printf("  model %d", m);
  putchar('\n');
  for (int t = 0; t < j->tasks.count; t++) print_row(e, t, width);
  if (j->tasks.count > 1) print_row(e, -1, width);
  for (int m = 0; m < j->model_count && j->model_count > 1; m++) {
    printf("model %d  %s\n", m, j->models[m]);
  }
}

static int run(Evaluation *e) {
  EvalCommon *j = &e->common;
  if (e->z && e->softmax > 0) {
    return bfm_fail(
        BFM_BAD_ARGUMENT,
        "--softmax %g has no effect with --z %s, which replaces prompting: leave it out",
        e->softmax, e->z);
  }
  TRY(check_es_base(j->options.es_base, j->options.es));
  j->count = j->model_count + e->random;
  cli_catch_signals();
  progress_start(&j->progress, "eval", "steps", 0, 1, j->quiet);
  int status = evaluate_all(e);
  progress_end(&j->progress);
  if (!status && j->json) print_json(e);
  if (!status && !j->json) print_table(e);
  return status;
}

int cli_eval(int argc, char **argv) {
  Evaluation e = {.z = NULL};
  int status = eval_common_new(&e.common, argc, "100");
  if (status) return cli_fail(status);
  const struct argp argp =
      {own_options,
       parse,
       "MODEL...",
       "Measure the returns of models. Each model is prompted with each task and acts in whole "
       "episodes; a return is the sum of an episode's rewards. With several models, which should "
       "be seeds of one method, the table shows mean ± std over the models. Policies that bfm "
       "collect has trained (with td3 or mood) can be evaluated too, by default on their own "
       "task.\v"
       "Examples:\n"
       "  bfm eval models/walker.safetensors --random --episodes 10\n"
       "  bfm eval models/walker.safetensors --tasks 'height > 1' --es 32 --episodes 2\n"
       "  bfm prompt models/walker.safetensors --task run -o run.json\n"
       "  bfm eval models/walker.safetensors --z run.json --tasks speed --json\n"
       "Two seeds of a method (a short run of seconds, on a CPU):\n"
       "  bfm collect point_mass --steps 5k -o two.h5\n"
       "  bfm train two.h5 --preset small --batch 64 --steps 100 --seeds 2 \\\n"
       "    -o runs/two\n"
       "  bfm eval runs/two/model.*.safetensors --tasks in\n",
       e.common.parsers,
       NULL,
       NULL};
  status = cli_parse(&argp, argc, argv, &e);
  if (!status && (status = run(&e))) status = cli_fail(status);
  eval_common_free(&e.common);
  free(e.returns);
  free(e.means);
  return status;
}
