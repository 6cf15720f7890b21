// bfm bench: measure the speed of this machine. Each measurement is one row of a table. The training
// step is measured here, the others are measured in files of their own.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct {
  double rate;      // steps per second
  double flops;     // floating-point operations of the matrix products per second
  double products;  // steps per second if a step has only its matrix products; 0: not measured
} Speed;

// warm up, then double the number of steps until they take half of `seconds`
static int measure_step(bfm_agent *agent, double seconds, Speed *speed) {
  TRY(bfm_agent_train(agent, 3, NULL));
  for (int64_t steps = 1;; steps *= 2) {
    int64_t flops = agent->ops->flops;
    double start = seconds_now();
    TRY(bfm_agent_train(agent, steps, NULL));
    double took = seconds_now() - start;
    speed->rate = (double)steps / took;
    speed->flops = (double)(agent->ops->flops - flops) / took;
    if (took >= seconds / 2) return BFM_OK;
  }
}

// on a GPU, measure a step that has only its matrix products; its results are meaningless
static int measure_products(bfm_agent *agent, const Measure *m, Speed *speed) {
  Speed alone = {0};
  agent->ops->products_only = 1;
  TRY(set_random_data(agent, m));
  TRY(measure_step(agent, m->seconds, &alone));
  speed->products = alone.rate;
  return BFM_OK;
}

static void print_step(bfm_agent *agent, const Arguments *a, const Speed *speed) {
  double rate = speed->rate;
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
    printf(", %.4g ms per step, %.3g TFLOP/s", 1e3 / rate, speed->flops / 1e12);
    if (speed->products > 0) {
      printf(", matrix products alone %.4g steps/s (%.0f%%)", speed->products,
             100 * rate / speed->products);
    }
    printf("\n");
    return;
  }
  char *options = bfm_agent_options(agent);
  cJSON *result = cJSON_CreateObject();
  cJSON_AddStringToObject(result, "bench", "step");
  cJSON_AddNumberToObject(result, "steps_per_second", rate);
  cJSON_AddNumberToObject(result, "model_steps_per_second", rate * R);
  cJSON_AddNumberToObject(result, "tflops", speed->flops / 1e12);
  if (speed->products > 0) {
    cJSON_AddNumberToObject(result, "products_steps_per_second", speed->products);
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
  Speed speed = {0};
  TRY(set_random_data(agent, &a->measure));
  TRY(measure_step(agent, a->measure.seconds, &speed));
  if (!agent_on_cpu(agent)) TRY(measure_products(agent, &a->measure, &speed));
  print_step(agent, a, &speed);
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
