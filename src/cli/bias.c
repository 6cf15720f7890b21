// bfm bias: compare what models earn with what they predict. The bias of an episode is the sum of
// r(s) - B(s, z)ᵀz over its states; over the steps it is the curve of the paper's figure. Models whose
// names differ only in the number of the seed share a curve.

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/eval_common.h"
#include "envs/domain.h"
#include "rollout/evaluate.h"
#include "render/plot.h"

#define POINTS 100  // the most that a curve has after its start

typedef struct {
  EvalCommon common;
  const char *path;
  int64_t steps;
  double *returns;  // [models, tasks, episodes]
  double *bias;     // [models, tasks, episodes, steps]
  double *values;   // [models, tasks, episodes], scratch for means
  int *run;         // [models], the index of the run that the model is a seed of
  char **runs;      // [run_count], the names of the runs
  int run_count;
} Measure;

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "draw the bias over the steps to FILE.svg and FILE.png", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Measure *m = state->input;
  switch (key) {
    case ARGP_KEY_INIT: eval_common_init(state, &m->common); return 0;
    case 'o': m->path = arg; return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- measuring ----------------------------------------------------

static int64_t episode_at(const Measure *m, int model, int task) {
  return ((int64_t)model * m->common.tasks.count + task) * m->common.options.episodes;
}

// runs/five/model.3.safetensors → runs/five, fb.safetensors → fb
static char *run_name(const char *model) {
  char *name = strdup(model);
  if (!name) return NULL;
  char *dot = strrchr(name, '.'), *slash;
  if (dot && !strcmp(dot, ".safetensors")) *dot = 0;
  dot = strrchr(name, '.');
  if (dot && isdigit((unsigned char)dot[1]) && !dot[1 + strspn(dot + 1, "0123456789")]) *dot = 0;
  slash = strrchr(name, '/');
  if (slash && slash > name && !strcmp(slash, "/model")) *slash = 0;
  return name;
}

static int find_runs(Measure *m) {
  const EvalCommon *j = &m->common;
  m->run = calloc(j->model_count, sizeof *m->run);
  m->runs = calloc(j->model_count, sizeof *m->runs);
  if (!m->run || !m->runs) return bfm_fail(BFM_NO_MEMORY, "out of memory for names");
  m->run_count = 0;
  for (int i = 0; i < j->model_count; i++) {
    char *name = run_name(j->models[i]);
    if (!name) return bfm_fail(BFM_NO_MEMORY, "out of memory for names");
    while (m->run[i] < m->run_count && strcmp(m->runs[m->run[i]], name)) m->run[i]++;
    if (m->run[i] == m->run_count) m->runs[m->run_count++] = name;
    else free(name);
  }
  return BFM_OK;
}

// allocate the results; called after the first model has determined the tasks
static int make_room(Measure *m) {
  const EvalCommon *j = &m->common;
  const Domain *domain;
  if (m->returns) return BFM_OK;
  TRY(domain_find(&domain, j->env));
  m->steps = j->options.steps ? j->options.steps : domain->episode_steps;
  size_t count = (size_t)episode_at(m, j->model_count, 0);
  m->returns = calloc(count, sizeof *m->returns);
  m->bias = calloc(count, (size_t)m->steps * sizeof *m->bias);
  m->values = calloc(count, sizeof *m->values);
  if (m->returns && m->bias && m->values) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "out of memory for %zu episodes of %ld steps", count,
                  (long)m->steps);
}

static int measure_agent(Measure *m, bfm_agent *agent) {
  TRY(make_room(m));
  bfm_evaluation plan = eval_common_plan(&m->common);
  plan.steps = m->steps;
  eval_common_warn(&m->common, agent);
  int64_t at = episode_at(m, m->common.now, 0);
  return evaluate_bias(agent, &plan, m->returns + at, m->bias + at * m->steps);
}

static int measure(Measure *m) {
  for (; m->common.now < m->common.count; m->common.now++) {
    bfm_agent *agent;
    TRY(eval_common_load(&m->common, &agent));
    int status = measure_agent(m, agent);
    bfm_agent_free(agent);
    TRY(status);
  }
  return BFM_OK;
}

// ---------------------------------- results ------------------------------------------------------

typedef struct {
  double mean, std;
} Spread;

// Mean and standard deviation of a task over all episodes of a run's models: of the bias after `steps`
// steps, or with steps 0 of the returns.
static Spread over_run(const Measure *m, int run, int task, int64_t steps) {
  int64_t episodes = m->common.options.episodes, count = 0;
  for (int i = 0; i < m->common.model_count; i++) {
    if (m->run[i] != run) continue;
    int64_t at = episode_at(m, i, task);
    for (int64_t e = at; e < at + episodes; e++) {
      m->values[count++] = steps ? m->bias[e * m->steps + steps - 1] : m->returns[e];
    }
  }
  Spread s;
  mean_std(m->values, count, &s.mean, &s.std);
  return s;
}

static void print_table(const Measure *m) {
  const EvalCommon *j = &m->common;
  int width = task_width(&j->tasks);
  printf("%s, %ld episode%s per task and model, ", j->env, (long)j->options.episodes,
         j->options.episodes > 1 ? "s" : "");
  eval_common_print_es(j);
  printf("\nbias = return - predicted (below 0: overoptimistic), share = bias / |return|\n");
  printf("%-*s %9s %9s %9s  %-8s %7s%s\n", width, "task", "return", "predicted", "bias", "",
         "share", m->run_count > 1 ? "  model" : "");
  for (int t = 0; t < m->common.tasks.count; t++) {
    for (int r = 0; r < m->run_count; r++) {
      Spread earned = over_run(m, r, t, 0), bias = over_run(m, r, t, m->steps);
      print_task(r ? "" : m->common.tasks.text[t], width);
      printf(" %9.1f %9.1f %9.1f ± %-8.1f", earned.mean, earned.mean - bias.mean, bias.mean,
             bias.std);
      if (fabs(earned.mean) >= 0.05)  // a return that is printed as 0.0 has no share
        printf("%6.0f%%", 100 * bias.mean / fabs(earned.mean));
      else printf("%7s", "");
      printf("%s%s\n", m->run_count > 1 ? "  " : "", m->run_count > 1 ? m->runs[r] : "");
    }
  }
}

// the bias after each step, as the mean over the episodes from number `at` on
static cJSON *curve_json(const Measure *m, int64_t at) {
  int64_t episodes = m->common.options.episodes;
  cJSON *curve = cJSON_CreateArray();
  for (int64_t step = 0; step < m->steps; step++) {
    double sum = 0;
    for (int64_t e = at; e < at + episodes; e++) sum += m->bias[e * m->steps + step];
    cJSON_AddItemToArray(curve, cJSON_CreateNumber(sum / (double)episodes));
  }
  return curve;
}

static void print_line(const Measure *m, int model, int task) {
  const EvalCommon *j = &m->common;
  int64_t at = episode_at(m, model, task);
  double earned, mean, std;
  for (int64_t e = 0; e < j->options.episodes; e++)
    m->values[e] = m->bias[(at + e + 1) * m->steps - 1];
  mean_std(m->returns + at, j->options.episodes, &earned, &std);
  mean_std(m->values, j->options.episodes, &mean, &std);
  cJSON *line = cJSON_CreateObject();
  cJSON_AddStringToObject(line, "model", m->common.models[model]);
  cJSON_AddStringToObject(line, "env", m->common.env);
  cJSON_AddStringToObject(line, "task", m->common.tasks.text[task]);
  cJSON_AddNumberToObject(line, "episodes", (double)j->options.episodes);
  eval_common_add_es(j, line, model);
  cJSON_AddNumberToObject(line, "seed", (double)j->options.seed);
  cJSON_AddNumberToObject(line, "return", earned);
  cJSON_AddNumberToObject(line, "predicted", earned - mean);
  cJSON_AddNumberToObject(line, "bias", mean);
  cJSON_AddNumberToObject(line, "std", std);
  cJSON_AddNumberToObject(line, "share", mean / fabs(earned));  // null if the return is 0
  cJSON_AddItemToObject(line, "returns",
                        cJSON_CreateDoubleArray(m->returns + at, (int)j->options.episodes));
  cJSON_AddItemToObject(line, "biases",
                        cJSON_CreateDoubleArray(m->values, (int)j->options.episodes));
  cJSON_AddItemToObject(line, "curve", curve_json(m, at));
  cli_print_json(line);
  cJSON_Delete(line);
}

static void print_json(const Measure *m) {
  for (int i = 0; i < m->common.model_count; i++) {
    for (int t = 0; t < m->common.tasks.count; t++) print_line(m, i, t);
  }
}

// ---------------------------------- the figure ---------------------------------------------------

static void fill_curve(const Measure *m, int run, int task, PlotCurve *curve, double *numbers) {
  double *x = numbers, *y = x + POINTS + 1, *spread = y + POINTS + 1;
  int count = m->steps < POINTS ? (int)m->steps : POINTS;
  x[0] = y[0] = spread[0] = 0;  // before the first step there is no bias
  for (int i = 1; i <= count; i++) {
    int64_t step = m->steps * i / count;
    Spread s = over_run(m, run, task, step);
    x[i] = (double)step;
    y[i] = s.mean;
    spread[i] = s.std;
  }
  *curve = (PlotCurve){m->runs[run], count + 1, x, y, spread};
}

static int draw(const Measure *m, const char *path) {
  int count = m->common.tasks.count * m->run_count, size = 3 * (POINTS + 1);
  PlotPanel panels[TASKLIST_MAX];
  PlotCurve *curves = calloc(count, sizeof *curves);
  double *numbers = calloc(count, size * sizeof *numbers);
  int status = curves && numbers ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for curves");
  for (int i = 0; i < count && !status; i++) {
    fill_curve(m, i % m->run_count, i / m->run_count, &curves[i], numbers + (size_t)i * size);
  }
  for (int t = 0; t < m->common.tasks.count; t++) {
    panels[t] = (PlotPanel){m->common.tasks.text[t], curves + t * m->run_count, m->run_count};
  }
  if (!status)
    status = plot_curves(panels, m->common.tasks.count, "steps", "return - predicted", path);
  free(curves);
  free(numbers);
  return status;
}

static int run(Measure *m) {
  EvalCommon *j = &m->common;
  char path[PATH_MAX];
  TRY(check_es_base(j->options.es_base, j->options.es));
  if (m->path) TRY(plot_stem(m->path, path, sizeof path));
  j->count = j->model_count;
  cli_catch_signals();
  TRY(find_runs(m));
  progress_start(&j->progress, "bias", "steps", 0, 1, j->quiet);
  int status = measure(m);
  progress_end(&j->progress);
  if (!status && j->json) print_json(m);
  if (!status && !j->json) print_table(m);
  if (!status && m->path) status = draw(m, path);
  if (!status && m->path && !j->json) printf("%s.svg\n%s.png\n", path, path);
  return status;
}

int cli_bias(int argc, char **argv) {
  Measure m = {.path = NULL};
  int status = eval_common_new(&m.common, argc, "10");
  if (status) return cli_fail(status);
  const struct argp argp =
      {own_options,
       parse,
       "MODEL...",
       "Compare the returns that models earn with those they predict. A model predicts the reward "
       "B(s, z)·z in each state; the bias of an episode is its return minus the sum of these "
       "predictions, so a bias below 0 is overoptimism. Models whose file names differ only in the "
       "number of the seed (model.0.safetensors, model.1.safetensors) are averaged.\v"
       "Examples:\n"
       "  bfm bias models/walker.safetensors --tasks walk,run\n"
       "  bfm bias models/walker.safetensors --tasks in --episodes 2 --json\n"
       "Two seeds of a method, with a picture (a short run of seconds, on a CPU):\n"
       "  bfm collect point_mass --steps 5k -o bias.h5\n"
       "  bfm train bias.h5 --preset small --batch 64 --steps 100 --seeds 2 \\\n"
       "    -o runs/bias\n"
       "  bfm bias runs/bias/model.*.safetensors --tasks in -o bias\n",
       m.common.parsers,
       NULL,
       NULL};
  status = cli_parse(&argp, argc, argv, &m);
  if (!status && (status = run(&m))) status = cli_fail(status);
  for (int r = 0; r < m.run_count; r++) free(m.runs[r]);
  free(m.runs);
  free(m.run);
  free(m.returns);
  free(m.bias);
  free(m.values);
  eval_common_free(&m.common);
  return status;
}
