// bfm bias: whether models earn what they predict. Along episodes, the rewards less B(s, z)ᵀz are added
// up, for the paper's figure; models that differ in their seed's number alone are one curve.

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agents/config.h"
#include "cli/cli.h"
#include "cli/judge.h"
#include "envs/domain.h"
#include "run/evaluate.h"
#include "view/plot.h"

#define POINTS 100  // of a curve

typedef struct {
  EpisodeOptions options;
  Flags flags;
  const char **models;
  const char *tasks, *path;
  int model_count, json, quiet;
} Arguments;

static const struct argp_option own_options[] = {
    {"tasks", 't', "LIST", 0, EPISODE_TASKS_HELP, 0},
    {"output", 'o', "FILE", 0, "draw the bias by step, as .svg and .png", 0},
    {"json", 'j', NULL, 0, "print a JSON object for each model and task, one a line", 0},
    {"quiet", 'q', NULL, 0, "no progress line", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: flags_init(state, (Flags *const[]){&a->flags}, 1); return 0;
    case 't': a->tasks = arg; return 0;
    case 'o': a->path = arg; return 0;
    case 'j': a->json = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG: a->models[a->model_count++] = arg; return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "name a model: bfm bias model.safetensors"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- measuring ----------------------------------------------------

typedef struct {
  const Arguments *arguments;
  char env[64];
  TaskList tasks;
  int64_t steps;
  double *returns;  // [models, tasks, episodes]
  double *bias;     // [models, tasks, episodes, steps]
  double *values;   // [models, episodes], to take means of
  int *run;         // [models] number of the run that a model is a seed of
  char **runs;      // their names
  int run_count;
  Turns turns;
} Measure;

static int64_t episode_at(const Measure *m, int model, int task) {
  return ((int64_t)model * m->tasks.count + task) * m->arguments->options.episodes;
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
  const Arguments *a = m->arguments;
  m->run = calloc(a->model_count, sizeof *m->run);
  m->runs = calloc(a->model_count, sizeof *m->runs);
  if (!m->run || !m->runs) return bfm_fail(BFM_NO_MEMORY, "no memory for names");
  for (int i = 0; i < a->model_count; i++) {
    char *name = run_name(a->models[i]);
    if (!name) return bfm_fail(BFM_NO_MEMORY, "no memory for names");
    while (m->run[i] < m->run_count && strcmp(m->runs[m->run[i]], name)) m->run[i]++;
    if (m->run[i] == m->run_count)
      m->runs[m->run_count++] = name;
    else
      free(name);
  }
  return BFM_OK;
}

static int take_env(Measure *m, const char *env) {
  const Arguments *a = m->arguments;
  const Domain *domain;
  TRY(episodes_domain(m->env, sizeof m->env, env, a->models, m->turns.now));
  if (m->turns.now) return BFM_OK;
  TRY(domain_find(&domain, env));
  TRY(tasklist_parse(&m->tasks, env, a->tasks ? a->tasks : "all"));
  m->steps = a->options.steps ? a->options.steps : domain->episode_steps;
  size_t count = (size_t)episode_at(m, a->model_count, 0);
  m->returns = calloc(count, sizeof *m->returns);
  m->bias = calloc(count, (size_t)m->steps * sizeof *m->bias);
  m->values = calloc(count, sizeof *m->values);
  if (m->returns && m->bias && m->values) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "no memory for %zu episodes of %ld steps", count, (long)m->steps);
}

static int measure_agent(Measure *m, bfm_agent *agent, const char *path) {
  const EpisodeOptions *o = &m->arguments->options;
  TRY(take_env(m, bfm_agent_env(agent)));
  if (bfm_agent_replicas(agent) > 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is the state of a run: name its models", path);
  }
  const bfm_evaluation plan = {.tasks = (const char *const *)m->tasks.text,
                               .task_count = m->tasks.count,
                               .episodes = o->episodes,
                               .steps = m->steps,
                               .es = (int)o->es,
                               .seed = (uint64_t)o->seed,
                               .threads = (int)o->threads,
                               .each = turns_each,
                               .context = &m->turns};
  int64_t at = episode_at(m, m->turns.now, 0);
  return evaluate_bias(agent, &plan, m->returns + at, m->bias + at * m->steps);
}

static int measure(Measure *m) {
  const Arguments *a = m->arguments;
  char options[MACHINE_SIZE];
  config_machine(a->options.device, a->options.threads, options);
  for (; m->turns.now < a->model_count; m->turns.now++) {
    bfm_agent *agent;
    TRY(bfm_agent_load(&agent, a->models[m->turns.now], options));
    int status = measure_agent(m, agent, a->models[m->turns.now]);
    bfm_agent_free(agent);
    TRY(status);
  }
  return BFM_OK;
}

// ---------------------------------- what a person sees -------------------------------------------

typedef struct {
  double mean, std;
} Spread;

// the bias of a task after so many steps, over the episodes of a run's models; 0 steps: the returns
static Spread over_run(const Measure *m, int run, int task, int64_t steps) {
  int64_t episodes = m->arguments->options.episodes, count = 0;
  for (int i = 0; i < m->arguments->model_count; i++) {
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
  const EpisodeOptions *o = &m->arguments->options;
  int width = task_width(&m->tasks);
  printf("%s, %ld episodes of each task and model, %s; below 0: more was predicted than earned\n",
         m->env, (long)o->episodes, o->es ? "the best of sampled actions" : "the policy's mean");
  printf("%-*s %9s %9s %9s  %-8s %7s%s\n", width, "task", "return", "predicted", "bias", "",
         "share", m->run_count > 1 ? "  model" : "");
  for (int t = 0; t < m->tasks.count; t++) {
    for (int r = 0; r < m->run_count; r++) {
      Spread earned = over_run(m, r, t, 0), bias = over_run(m, r, t, m->steps);
      print_task(r ? "" : m->tasks.text[t], width);
      printf(" %9.1f %9.1f %9.1f ± %-8.1f", earned.mean, earned.mean - bias.mean, bias.mean,
             bias.std);
      if (earned.mean)
        printf("%6.0f%%", 100 * bias.mean / fabs(earned.mean));
      else
        printf("%7s", "");
      printf("%s%s\n", m->run_count > 1 ? "  " : "", m->run_count > 1 ? m->runs[r] : "");
    }
  }
}

// the bias of a model's task after each step, the mean of its episodes
static cJSON *curve_json(const Measure *m, int64_t at) {
  int64_t episodes = m->arguments->options.episodes;
  cJSON *curve = cJSON_CreateArray();
  for (int64_t step = 0; step < m->steps; step++) {
    double sum = 0;
    for (int64_t e = at; e < at + episodes; e++) sum += m->bias[e * m->steps + step];
    cJSON_AddItemToArray(curve, cJSON_CreateNumber(sum / (double)episodes));
  }
  return curve;
}

static void print_line(const Measure *m, int model, int task) {
  const EpisodeOptions *o = &m->arguments->options;
  int64_t at = episode_at(m, model, task);
  double earned, mean, std;
  for (int64_t e = 0; e < o->episodes; e++) m->values[e] = m->bias[(at + e + 1) * m->steps - 1];
  mean_std(m->returns + at, o->episodes, &earned, &std);
  mean_std(m->values, o->episodes, &mean, &std);
  cJSON *line = cJSON_CreateObject();
  cJSON_AddStringToObject(line, "model", m->arguments->models[model]);
  cJSON_AddStringToObject(line, "env", m->env);
  cJSON_AddStringToObject(line, "task", m->tasks.text[task]);
  cJSON_AddNumberToObject(line, "episodes", (double)o->episodes);
  cJSON_AddNumberToObject(line, "es", (double)o->es);
  cJSON_AddNumberToObject(line, "seed", (double)o->seed);
  cJSON_AddNumberToObject(line, "return", earned);
  cJSON_AddNumberToObject(line, "predicted", earned - mean);
  cJSON_AddNumberToObject(line, "bias", mean);
  cJSON_AddNumberToObject(line, "std", std);
  cJSON_AddNumberToObject(line, "share", mean / fabs(earned));  // null where nothing was earned
  cJSON_AddItemToObject(line, "returns",
                        cJSON_CreateDoubleArray(m->returns + at, (int)o->episodes));
  cJSON_AddItemToObject(line, "biases", cJSON_CreateDoubleArray(m->values, (int)o->episodes));
  cJSON_AddItemToObject(line, "curve", curve_json(m, at));
  cli_print_json(line);
  cJSON_Delete(line);
}

static void print_json(const Measure *m) {
  for (int i = 0; i < m->arguments->model_count; i++) {
    for (int t = 0; t < m->tasks.count; t++) print_line(m, i, t);
  }
}

// ---------------------------------- the figure ---------------------------------------------------

static void fill_curve(const Measure *m, int run, int task, PlotCurve *curve, double *numbers) {
  double *x = numbers, *y = x + POINTS + 1, *spread = y + POINTS + 1;
  int count = m->steps < POINTS ? (int)m->steps : POINTS;
  x[0] = y[0] = spread[0] = 0;  // an episode begins without
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
  int count = m->tasks.count * m->run_count, size = 3 * (POINTS + 1);
  PlotPanel panels[TASKLIST_MAX];
  PlotCurve *curves = calloc(count, sizeof *curves);
  double *numbers = calloc(count, size * sizeof *numbers);
  int status = curves && numbers ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "no memory for curves");
  for (int i = 0; i < count && !status; i++) {
    fill_curve(m, i % m->run_count, i / m->run_count, &curves[i], numbers + (size_t)i * size);
  }
  for (int t = 0; t < m->tasks.count; t++) {
    panels[t] = (PlotPanel){m->tasks.text[t], curves + t * m->run_count, m->run_count};
  }
  if (!status) status = plot_curves(panels, m->tasks.count, "steps", "return - predicted", path);
  free(curves);
  free(numbers);
  return status;
}

static int run(const Arguments *a) {
  Measure m = {.arguments = a, .turns.count = a->model_count};
  char path[PATH_MAX];
  if (a->path) TRY(plot_stem(a->path, path, sizeof path));
  cli_catch_signals();
  int status = find_runs(&m);
  progress_start(&m.turns.progress, "bias", "steps", 0, 1, a->quiet);
  if (!status) status = measure(&m);
  progress_end(&m.turns.progress);
  if (!status && a->json) print_json(&m);
  if (!status && !a->json) print_table(&m);
  if (!status && a->path) status = draw(&m, path);
  if (!status && a->path && !a->json) printf("%s.svg\n%s.png\n", path, path);
  tasklist_free(&m.tasks);
  for (int r = 0; r < m.run_count; r++) free(m.runs[r]);
  free(m.runs);
  free(m.run);
  free(m.returns);
  free(m.bias);
  free(m.values);
  return status;
}

int cli_bias(int argc, char **argv) {
  Arguments a = {.models = calloc(argc, sizeof *a.models)};
  Option table[EPISODE_ROWS];
  episodes_table(table, "10");
  int status = a.models ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "no memory for %d arguments", argc);
  if (!status) status = flags_new(&a.flags, table, &a.options, "Episodes");
  if (status) return cli_fail(status);
  const struct argp_child children[] = {{&a.flags.argp, 0, NULL, 1}, {0}};
  const struct argp argp = {
      own_options,
      parse,
      "MODEL...",
      "Prompt models with tasks, let them act and compare what an episode earns with what they "
      "predict for its states, the sum of B(s, z)·z: a bias below 0 is overoptimism. Models that "
      "differ in their seed's number alone (model.0.safetensors, model.1.safetensors) are taken "
      "together.\v"
      "Examples:\n"
      "  bfm bias model.safetensors --tasks walk,run\n"
      "  bfm bias runs/fb/model.* runs/fb-aw/model.* --tasks in -o bias.svg\n",
      children,
      NULL,
      NULL};
  status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  flags_free(&a.flags);
  free(a.models);
  return status;
}
