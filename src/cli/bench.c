// bfm bench: measure the speed of this machine. Each measurement is one row of a table. The training
// step is measured here, the others are measured in files of their own.

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/agent.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "core/suggest.h"
#include "core/units.h"

typedef struct {
  int64_t obs, act;
  double seconds;
} Measure;

static const Option measure_options[] = {
    {"obs", OPTION_INT, offsetof(Measure, obs), "24", 1, 1e5, NULL,
     "numbers in an observation of the random data"},
    {"act", OPTION_INT, offsetof(Measure, act), "6", 1, 1e4, NULL,
     "numbers in an action of the random data"},
    {"seconds", OPTION_REAL, offsetof(Measure, seconds), "5", 0.01, 3600, NULL,
     "duration of each measurement, in seconds"},
    {.name = NULL},
};

typedef struct {
  Measure measure;
  Config config;
  Flags measure_flags, agent_flags;
  const char *what;
  int json;
} Arguments;

static const struct argp_option own_options[] = {
    {.name = "json", .key = 'j', .doc = "print one JSON object per measurement, each on a line"},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'j': a->json = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->what) argp_error(state, "name one measurement, not %s and %s", a->what, arg);
      a->what = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- the training step --------------------------------------------

#define BENCH_ROWS 20000

// random transitions: observations are standard normal, actions uniform in ±1
static int set_random_data(bfm_agent *agent, const Measure *m) {
  int64_t o = m->obs, a = m->act, rows = BENCH_ROWS;
  float *values = malloc((size_t)rows * (2 * o + a + 1) * sizeof *values);
  if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " transitions", rows);
  float *obs = values, *next = obs + rows * o, *act = next + rows * o, *discount = act + rows * a;
  bfm_random_normal(0, 0, 0, 2 * rows * o, obs);
  bfm_random_uniform(0, 1, 0, rows * a, act);
  for (int64_t i = 0; i < rows * a; i++) act[i] = 2 * act[i] - 1;
  for (int64_t i = 0; i < rows; i++) discount[i] = 1;
  int status = bfm_agent_set_data(agent, rows, obs, act, next, discount);
  free(values);
  return status;
}

#define TURNS 5  // of each contender on a CPU, where other work may disturb some of them

typedef struct {
  double rate;   // steps per second
  double flops;  // floating-point operations of the matrix products per second
  double cpu;    // seconds of CPU time per step, of all threads: other work changes it little
} Speed;

// the whole step, and the step with nothing but its products: ours and, on a CPU, oneDNN's
typedef struct {
  Speed step, products, onednn;
} Speeds;

// double the number of steps until they take half of `seconds`
static int measure_turn(bfm_agent *agent, double seconds, Speed *speed) {
  for (int64_t steps = 1;; steps *= 2) {
    int64_t flops = agent->ops->flops;
    double start = seconds_now();
    clock_t cpu = clock();
    TRY(bfm_agent_train(agent, steps, NULL));
    double took = seconds_now() - start;
    speed->cpu = (double)(clock() - cpu) / CLOCKS_PER_SEC / (double)steps;
    speed->rate = (double)steps / took;
    speed->flops = (double)(agent->ops->flops - flops) / took;
    if (took >= seconds / 2) return BFM_OK;
  }
}

// On a GPU the operations are recorded with the data. Steps of products alone have meaningless results.
static int measure_kind(bfm_agent *agent, const Measure *m, int kind, double seconds,
                        Speed *speed) {
  if (agent->ops->products_only != kind) {
    agent->ops->products_only = kind;
    if (!agent_on_cpu(agent)) TRY(set_random_data(agent, m));
    TRY(bfm_agent_train(agent, 1, NULL));
  }
  return measure_turn(agent, seconds, speed);
}

static int by_rate(const void *a, const void *b) {
  double x = ((const Speed *)a)->rate, y = ((const Speed *)b)->rate;
  return (x > y) - (x < y);
}

static Speed median_speed(Speed *speeds, int count) {
  qsort(speeds, count, sizeof *speeds, by_rate);
  return speeds[count / 2];
}

static int measure_on_gpu(bfm_agent *agent, const Measure *m, Speeds *speeds) {
  TRY(measure_kind(agent, m, OPS_ALL, m->seconds, &speeds->step));
  return measure_kind(agent, m, OPS_PRODUCTS, m->seconds, &speeds->products);
}

// the contenders take turns, and the median of each counts
static int measure_on_cpu(bfm_agent *agent, const Measure *m, Speeds *speeds) {
  Speed turns[OPS_ONEDNN_PRODUCTS + 1][TURNS];
  for (int turn = 0; turn < TURNS; turn++) {
    for (int kind = OPS_ALL; kind <= OPS_ONEDNN_PRODUCTS; kind++) {
      TRY(measure_kind(agent, m, kind, m->seconds / TURNS, &turns[kind][turn]));
    }
  }
  speeds->step = median_speed(turns[OPS_ALL], TURNS);
  speeds->products = median_speed(turns[OPS_PRODUCTS], TURNS);
  speeds->onednn = median_speed(turns[OPS_ONEDNN_PRODUCTS], TURNS);
  return BFM_OK;
}

static void print_step(bfm_agent *agent, const Arguments *a, const Speeds *speeds) {
  double rate = speeds->step.rate, alone = fmax(speeds->products.rate, speeds->onednn.rate);
  int R = bfm_agent_replicas(agent);
  if (!a->json) {
    static const char *const shown[] = {"algo", "preset", "precision"};
    for (int i = 0; i < 3; i++) {
      char text[OPTION_TEXT_SIZE];
      options_get(options_find(agent_options, shown[i]), &a->config, text, sizeof text);
      printf("%s%s %s", i ? ", " : "", shown[i], text);
    }
    printf(", %s, d %" PRId64 ", batch %" PRId64 ", seeds %d: %.4g steps/s", agent->ops->name,
           bfm_agent_d(agent), bfm_agent_batch(agent), R, rate);
    if (R > 1) printf(", %.4g model-steps/s", rate * R);
    printf(", %.4g ms per step, %.3g TFLOP/s", 1e3 / rate, speeds->step.flops / 1e12);
    printf(", %.0f%% of its matrix products alone (%.4g steps/s", 100 * rate / alone, alone);
    if (speeds->onednn.rate > 0) {
      printf("; ours %.4g, oneDNN's %.4g", speeds->products.rate, speeds->onednn.rate);
    }
    printf(")\n");
    return;
  }
  char *options = bfm_agent_options(agent);
  cJSON *result = cJSON_CreateObject();
  cJSON_AddStringToObject(result, "bench", "step");
  cJSON_AddNumberToObject(result, "steps_per_second", rate);
  cJSON_AddNumberToObject(result, "model_steps_per_second", rate * R);
  cJSON_AddNumberToObject(result, "tflops", speeds->step.flops / 1e12);
  cJSON_AddNumberToObject(result, "products_steps_per_second", alone);
  cJSON_AddNumberToObject(result, "share_of_products", rate / alone);
  const Speed *best =
      speeds->onednn.rate > speeds->products.rate ? &speeds->onednn : &speeds->products;
  cJSON_AddNumberToObject(result, "cpu_seconds_per_step", speeds->step.cpu);
  cJSON_AddNumberToObject(result, "products_cpu_seconds_per_step", best->cpu);
  if (speeds->onednn.rate > 0) {
    cJSON_AddNumberToObject(result, "own_products_steps_per_second", speeds->products.rate);
    cJSON_AddNumberToObject(result, "onednn_products_steps_per_second", speeds->onednn.rate);
  }
  cJSON_AddStringToObject(result, "machine", agent->ops->name);
  cJSON_AddNumberToObject(result, "obs", (double)a->measure.obs);
  cJSON_AddNumberToObject(result, "act", (double)a->measure.act);
  cJSON_AddRawToObject(result, "options", options ? options : "{}");
  cli_print_json(result);
  free(options);
  cJSON_Delete(result);
}

static int bench_step(bfm_agent *agent, const Arguments *a) {
  Speeds speeds = {0};
  TRY(set_random_data(agent, &a->measure));
  TRY(bfm_agent_train(agent, 3, NULL));
  TRY((agent_on_cpu(agent) ? measure_on_cpu : measure_on_gpu)(agent, &a->measure, &speeds));
  print_step(agent, a, &speeds);
  return BFM_OK;
}

// ---------------------------------- the table ----------------------------------------------------

// create an agent with the options of the command line and measure it
static int with_agent(const Arguments *a, int (*measure)(bfm_agent *, const Arguments *)) {
  char *options = cJSON_PrintUnformatted(a->agent_flags.given);
  bfm_agent *agent = NULL;
  int status = bfm_agent_new(&agent, a->measure.obs, a->measure.act, options);
  free(options);
  if (!status) status = measure(agent, a);
  bfm_agent_free(agent);
  return status;
}

static int prompt(bfm_agent *agent, const Arguments *a) {
  return bench_prompt(agent, a->measure.seconds, a->json);
}

static int act(bfm_agent *agent, const Arguments *a) {
  return bench_act(agent, a->measure.seconds, a->json);
}

static int sim(const Arguments *a) { return bench_sim(a->measure.seconds, a->json); }

static int reward(const Arguments *a) { return bench_reward(a->measure.seconds, a->json); }

static int collect(const Arguments *a) {
  return bench_collect(a->agent_flags.given, a->measure.seconds, a->json);
}

static const struct {
  const char *name;
  int (*of_agent)(bfm_agent *agent, const Arguments *a);  // NULL: no agent is needed, call run
  int (*run)(const Arguments *a);
} benches[] = {{"step", bench_step, NULL}, {"sim", NULL, sim}, {"reward", NULL, reward},
               {"prompt", prompt, NULL},   {"act", act, NULL}, {"collect", NULL, collect}};
#define NAMES "step|sim|reward|prompt|act|collect"
#define BENCH_COUNT ((int)(sizeof benches / sizeof *benches))

static int run(void *input) {
  const Arguments *a = input;
  Suggestion suggestion = {.word = a->what ? a->what : ""};
  for (int i = 0; i < BENCH_COUNT; i++) {
    suggest_try(&suggestion, benches[i].name);
    if (!a->what || strcmp(benches[i].name, a->what)) continue;
    return benches[i].of_agent ? with_agent(a, benches[i].of_agent) : benches[i].run(a);
  }
  if (!a->what) return bfm_fail(BFM_BAD_ARGUMENT, "name a measurement: bfm bench " NAMES);
  return bfm_fail(BFM_BAD_ARGUMENT, "there is no measurement \"%.64s\"%s", a->what,
                  suggest_say(&suggestion, ": bfm bench " NAMES));
}

int cli_bench(int argc, char **argv) {
  Arguments a = {
      .measure_flags = {.table = measure_options, .fields = &a.measure, .heading = "Measurement"},
      .agent_flags = {.table = agent_options, .fields = &a.config, .heading = "Agent"},
  };
  const CommandLine line = {
      .options = own_options, .parse = parse, .arguments = NAMES,
      .help =
          "Measure the speed of this machine. The argument chooses what is measured:\n"
          "  step     training steps per second on random data, on a CPU or a GPU\n"
          "  sim      control steps per second of ten domains, beside bare MuJoCo\n"
          "  reward   time to compute the rewards of 100,000 stored states\n"
          "  prompt   time to compute z from the rewards of 100,000 states\n"
          "  act      time to compute actions from observations\n"
          "  collect  transitions and updates per second of bfm collect walker\n"
          "The agent's options apply to step, prompt and act; collect uses those that bfm "
          "collect has too, such as --batch and --device. No files are left behind.\v"
          "Examples:\n"
          "  bfm bench step --preset small\n"
          "  bfm bench sim --seconds 10\n"
          "  bfm bench act --json\n"
          "On a machine with a GPU:\n"
          "  bfm bench step --algo fb --batch 512 --device cuda --precision bf16\n",
      .flags = {&a.measure_flags, &a.agent_flags},
      .run = run,
  };
  return cli_run(&line, argc, argv, &a);
}
