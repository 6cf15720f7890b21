// Whole training steps, ten and a thousand, explorers and prompts, on a GPU against the CPU.
// Differences add up over steps, so the tolerances are wider than those of operations.

#define _GNU_SOURCE
#include "cuda_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "bfm.h"
#include "core/rng.h"

enum { OBS = 13, ACT = 3, ROWS = 500, STEPS = 10, LOSSES = 8 };

// Tolerances of whole steps: losses relative to their size, the drift of parameters relative to the
// largest change that Adam can make (its steps depend on the sign of small gradients, so the drift
// is far above the rounding of a product). bf16 keeps 8 bits of every number, tf32 11 bits of a
// product's operands. If a device truncates instead of rounding, losses differ by up to 2% and
// parameters by 7%.
static const struct {
  const char *name;
  double loss, drift;
} tolerances[] = {
    [PRECISION_F32] = {"f32", 1e-4, 0.05},
    [PRECISION_TF32] = {"tf32", 3e-2, 0.15},
    [PRECISION_BF16] = {"bf16", 5e-2, 0.5},
};

static const char *algos[] = {"fb", "fb-aw", "fb-are", "fb-aware", "lap", "lap-aw"};
enum { ALGOS = sizeof algos / sizeof *algos };

// networks so small that many steps take little time
#define TINY "\"d\": 16, \"hidden\": 24, \"feat\": 16, \"b-hidden\": 24, \"batch\": 24"

typedef struct {
  char text[500];
} Options;

// options for an algorithm on CPU or GPU; rest: further options
static Options options_of(const char *algo, int side, const char *rest) {
  Options o;
  snprintf(o.text, sizeof o.text,
           "{\"algo\": \"%s\", \"device\": \"%s\", \"precision\": \"%s\", \"threads\": 2, %s}",
           algo, side ? "cuda" : "cpu", side ? tolerances[precision].name : "f32", rest);
  return o;
}

// obs, next_obs, act
static const float *data(void) {
  static float values[ROWS * (2 * OBS + ACT)];
  for (int64_t i = 0; i < ROWS * (2 * OBS + ACT); i++) {
    values[i] = 0.5f * random_normal(9, STREAM_USER, 0, i);
    if (i >= ROWS * 2 * OBS) values[i] = tanhf(values[i]);
  }
  return values;
}

static void give_data(bfm_agent *agent) {
  const float *x = data();
  float ones[ROWS];
  for (int i = 0; i < ROWS; i++) ones[i] = i % 50 ? 1 : 0;
  if (bfm_agent_set_data(agent, ROWS, x, x + ROWS * 2 * OBS, x + ROWS * OBS, ones)) {
    fail_msg("%s", bfm_error());
  }
}

static void train_on(bfm_agent *agent, int64_t steps, float *losses) {
  if (bfm_agent_train(agent, steps, losses)) fail_msg("%s", bfm_error());
}

static bfm_agent *train(Options options, int64_t steps, float *losses) {
  bfm_agent *agent = NULL;
  if (bfm_agent_new(&agent, OBS, ACT, options.text)) fail_msg("%s: %s", options.text, bfm_error());
  give_data(agent);
  train_on(agent, steps, losses);
  return agent;
}

// the largest difference of any parameter, over the largest change that Adam can have made
static double difference(bfm_agent *a, bfm_agent *b, double lr, int64_t steps) {
  double worst = 0;
  for (int i = 0; i < bfm_agent_tensor_count(a); i++) {
    const char *name;
    int dims;
    int64_t shape[4], count = 1;
    assert_int_equal(bfm_agent_tensor_info(a, i, &name, &dims, shape), BFM_OK);
    for (int j = 0; j < dims; j++) count *= shape[j];
    float *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
    assert_true(x && y);
    for (int r = 0; r < bfm_agent_replicas(a); r++) {
      assert_int_equal(bfm_agent_get_tensor(a, r, name, x, count), BFM_OK);
      assert_int_equal(bfm_agent_get_tensor(b, r, name, y, count), BFM_OK);
      double square = 0;
      for (int64_t j = 0; j < count; j++) square += (x[j] - y[j]) * (x[j] - y[j]);
      worst = fmax(worst, sqrt(square / count) / (lr * steps));
    }
    free(x);
    free(y);
  }
  return worst;
}

// compares agents whose last `steps` steps ran on different devices
static void compare(const char *what, bfm_agent *x, const float *losses_x, bfm_agent *y,
                    const float *losses_y, int64_t steps) {
  int count = bfm_agent_loss_count(x);
  for (int i = 0; i < bfm_agent_replicas(x) * count; i++) {
    float a = losses_x[i], b = losses_y[i];
    if (!(fabsf(a - b) <= tolerances[precision].loss * fmaxf(fabsf(a), 1))) {
      fail_msg("%s, %s loss: %g and %g", what, bfm_agent_loss_name(x, i % count), a, b);
    }
  }
  double drift = difference(x, y, 1e-4, steps);
  if (!(drift <= tolerances[precision].drift)) fail_msg("%s: parameters drift by %g", what, drift);
}

void test_steps(void **state) {
  (void)state;
  for (int i = 0; i < ALGOS; i++) {
    float losses[2][LOSSES] = {{0}}, again[LOSSES] = {0};
    bfm_agent *agent[2], *same[2];
    const char *rest = i % 2 ? "\"preset\": \"small\", \"d\": 20, \"batch\": 96, \"seeds\": 2,"
                               " \"f-norm\": \"on\""
                             : "\"preset\": \"small\", \"d\": 20, \"batch\": 96, \"seeds\": 2";
    for (int side = CPU; side <= GPU; side++) {
      agent[side] = train(options_of(algos[i], side, rest), STEPS, losses[side]);
    }
    compare(algos[i], agent[CPU], losses[CPU], agent[GPU], losses[GPU], STEPS);

    // with the same algorithms for products, training is bit-identical
    setenv("BFM_CUDA_TIMED", "0", 1);
    same[0] = train(options_of(algos[i], GPU, rest), STEPS, losses[GPU]);
    same[1] = train(options_of(algos[i], GPU, rest), STEPS, again);
    unsetenv("BFM_CUDA_TIMED");
    assert_memory_equal(losses[GPU], again, sizeof again);
    assert_true(difference(same[0], same[1], 1e-4, STEPS) == 0);
    for (int j = 0; j < 2; j++) {
      bfm_agent_free(agent[j]);
      bfm_agent_free(same[j]);
    }
  }
}

// whole steps with other options, only in f32, because options do not depend on the precision
void test_step_options(void **state) {
  (void)state;
  static const struct {
    const char *algo, *rest;
  } cases[] = {
      {"fb-aware", "\"mbar\": 8"},
      {"fb-aware", "\"target\": \"min\""},
      {"fb-aware", "\"ensemble\": \"shared\""},
      {"fb-aware", "\"pi-norm\": \"on\""},
      {"fb-aware", "\"z-groups\": 4"},
      {"fb-aware", "\"b-norm\": \"off\""},
      {"fb-aware", "\"goal\": \"0:5,7\""},
      {"fb-aw", "\"ess\": 0.5"},
      {"fb-aw", "\"weights\": \"wis\", \"adv\": \"sum\", \"adv-base\": \"mean\""},
      {"fb", "\"mbar\": 8, \"target\": \"min\", \"z-groups\": 4"},
      {"lap-aw", "\"b-norm\": \"off\", \"ensemble\": \"shared\""},
      {"lap", "\"target\": \"min\", \"z-groups\": 4, \"pi-norm\": \"on\""},
      {"fb", "\"ensemble\": \"shared\", \"members\": 3, \"f-norm\": \"on\""},
      {"lap", "\"ensemble\": \"shared\", \"members\": 3, \"target\": \"min\", \"z-whiten\": true"},
  };
  if (precision != PRECISION_F32) skip();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float losses[2][LOSSES] = {{0}};
    bfm_agent *agent[2];
    char rest[300], what[300];
    snprintf(rest, sizeof rest, TINY ", \"seeds\": 2, %s", cases[i].rest);
    snprintf(what, sizeof what, "%s with %s", cases[i].algo, cases[i].rest);
    for (int side = CPU; side <= GPU; side++) {
      agent[side] = train(options_of(cases[i].algo, side, rest), STEPS, losses[side]);
    }
    compare(what, agent[CPU], losses[CPU], agent[GPU], losses[GPU], STEPS);
    for (int side = CPU; side <= GPU; side++) bfm_agent_free(agent[side]);
  }
}

// ------------------------------- many steps ------------------------------------------------------

// saves an agent's state to a temporary file, which the caller unlinks
static void save_state(bfm_agent *agent, char path[32]) {
  strcpy(path, "/tmp/bfm-state-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  if (bfm_agent_save_state(agent, path)) fail_msg("%s", bfm_error());
}

// an agent's whole training state as bytes, which the caller frees
static char *state_of(bfm_agent *agent, size_t *size) {
  char path[32];
  struct stat about;
  save_state(agent, path);
  assert_int_equal(stat(path, &about), 0);
  char *bytes = malloc(about.st_size);
  FILE *file = fopen(path, "rb");
  assert_true(bytes && file);
  *size = fread(bytes, 1, about.st_size, file);
  assert_int_equal(*size, about.st_size);
  fclose(file);
  unlink(path);
  return bytes;
}

// One call for many steps launches graphs of many steps, in which a step may begin before the one
// before it has finished. Calls for single steps do not. The resulting states must be bit-identical.
void test_many_steps(void **state) {
  (void)state;
  enum { MANY = 40 };
  setenv("BFM_CUDA_TIMED", "0", 1);
  for (int i = 0; i < ALGOS; i++) {
    float losses[2][LOSSES] = {{0}};
    size_t size[2];
    char *bytes[2];
    Options options = options_of(algos[i], GPU, TINY ", \"seeds\": 2");
    bfm_agent *together = train(options, MANY, losses[0]);
    bfm_agent *alone = train(options, 1, losses[1]);
    for (int j = 1; j < MANY; j++) train_on(alone, 1, losses[1]);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    bytes[0] = state_of(together, &size[0]);
    bytes[1] = state_of(alone, &size[1]);
    assert_int_equal(size[0], size[1]);
    if (memcmp(bytes[0], bytes[1], size[0])) {
      fail_msg("%s: %d steps at once and one by one differ", algos[i], MANY);
    }
    bfm_agent_free(together);
    bfm_agent_free(alone);
    for (int j = 0; j < 2; j++) free(bytes[j]);
  }
  unsetenv("BFM_CUDA_TIMED");
}

// Training that moves to another device, against training that stays; in f32, because the rounding
// of other precisions would hide an error.
void test_resumes(void **state) {
  (void)state;
  static const char *kinds[] = {"fb-aware", "fb-aw", "lap-aw"};
  if (precision != PRECISION_F32) skip();
  for (int i = 0; i < 3; i++) {
    for (int side = CPU; side <= GPU; side++) {
      float losses[2][LOSSES] = {{0}};
      char path[32];
      bfm_agent *stays = train(options_of(kinds[i], side, TINY ", \"seeds\": 2"), STEPS, NULL);
      bfm_agent *moves = NULL;
      save_state(stays, path);
      if (bfm_agent_load(&moves, path, options_of(kinds[i], !side, "\"seed\": 0").text)) {
        fail_msg("%s: %s", path, bfm_error());
      }
      unlink(path);
      give_data(moves);
      train_on(stays, STEPS, losses[0]);
      train_on(moves, STEPS, losses[1]);
      assert_int_equal(bfm_agent_step(moves), 2 * STEPS);
      compare(side ? "from GPU to CPU" : "from CPU to GPU", stays, losses[0], moves, losses[1],
              STEPS);
      bfm_agent_free(stays);
      bfm_agent_free(moves);
    }
  }
}

// ------------------------------- long runs -------------------------------------------------------

enum { MEANS = 7 };
static const char *mean_names[MEANS] = {"fb loss",  "ortho loss", "actor loss", "F",
                                        "F.target", "B",          "B.eig.max"};

// means of samples over the last 200 of 1,000 steps
static void long_run(Options options, double means[MEANS]) {
  enum { FIRST = 800, EVERY = 5, SAMPLES = 40 };
  float losses[LOSSES], metrics[32];
  bfm_agent *agent = train(options, FIRST, NULL);
  int metric_count = bfm_agent_metric_count(agent);
  assert_true(metric_count <= 32);
  for (int j = 0; j < MEANS; j++) means[j] = 0;
  for (int i = 0; i < SAMPLES; i++) {
    train_on(agent, EVERY, losses);
    assert_int_equal(bfm_agent_metrics(agent, metrics), BFM_OK);
    for (int j = 0; j < 3; j++) means[j] += losses[j] / SAMPLES;
    for (int k = 0; k < metric_count; k++) {
      for (int j = 3; j < MEANS; j++) {
        if (!strcmp(bfm_agent_metric_name(agent, k), mean_names[j])) {
          means[j] += metrics[k] / SAMPLES;
        }
      }
    }
  }
  bfm_agent_free(agent);
}

// The results of a thousand steps with one seed must differ less between CPU and GPU than between
// seeds. On a CPU in f32, these means of three seeds differ by up to 18% for fb-aware and 11% for
// fb-aw. In fb-aware, z depends on the current B, and a rounding error grows a thousandfold in 60
// steps; fb-aw is stable, so in f32 it stays close.
void test_long_runs(void **state) {
  (void)state;
  static const struct {
    const char *algo;
    double f32, rounded;
  } kinds[] = {{"fb-aware", 0.25, 0.25}, {"fb-aw", 0.02, 0.15}};
  for (int i = 0; i < 2; i++) {
    double means[2][MEANS];
    double most = precision == PRECISION_F32 ? kinds[i].f32 : kinds[i].rounded;
    for (int side = CPU; side <= GPU; side++) {
      long_run(options_of(kinds[i].algo, side, TINY ", \"lr\": 1e-3"), means[side]);
    }
    for (int j = 0; j < MEANS; j++) {
      double x = means[CPU][j], y = means[GPU][j];
      if (!(fabs(x - y) <= most * fabs(x))) {
        fail_msg("%s, %s: %g on the CPU, %g on the GPU", kinds[i].algo, mean_names[j], x, y);
      }
    }
  }
}

// ------------------------------- explorers and prompts -------------------------------------------

// An explorer of three tasks after some updates, which have filled its ring more than once. act
// receives its actions afterwards.
static bfm_explorer *explore(const char *options, const float *data, float *losses, float *act) {
  enum { TASKS = 3, ENVS = 5, ROW = 2 * OBS + ACT + 3 };
  bfm_explorer *e = NULL;
  float rows[TASKS * ENVS * ROW];
  int status = bfm_explorer_new(&e, OBS, ACT, TASKS, ENVS, options);
  for (int slot = 0; slot < 13 && !status; slot++) {
    for (int i = 0; i < TASKS * ENVS * ROW; i++) {
      int column = i % ROW, ends = (slot + i / ROW) % 6 == 5;
      rows[i] = data[slot * 700 + i];
      if (column == OBS + ACT + 1) rows[i] = !(ends && i / ROW % 2);
      if (column == ROW - 1) rows[i] = ends;
    }
    status = bfm_explorer_add(e, rows);
    if (!status && slot > 3) status = bfm_explorer_update(e, slot % 4);
  }
  if (!status) status = bfm_explorer_losses(e, losses);
  if (!status) status = bfm_explorer_act(e, data, 1, 7, act);
  if (status) fail_msg("%s: %s", options, bfm_error());
  return e;
}

// losses and actions, with the tolerances of whole steps
void test_explorers(void **state) {
  (void)state;
  static const char *algos[] = {"td3", "rnd"};
  double most = precision == PRECISION_F32 ? 1e-3 : tolerances[precision].loss;
  static float data[13 * 700];
  for (int i = 0; i < 13 * 700; i++) data[i] = 0.5f * random_normal(9, STREAM_USER, 1, i);
  for (int i = 0; i < 2; i++) {
    float losses[3][3 * 5] = {{0}}, act[3][3 * 5 * ACT];
    for (int run = 0; run < 3; run++) {  // CPU, GPU, GPU again with the same algorithms
      char options[400];
      snprintf(options, sizeof options,
               "{\"algo\": \"%s\", \"device\": \"%s\", \"precision\": \"%s\", \"hidden\": 24,"
               " \"batch\": 40, \"rnd-dim\": 24, \"replay\": 45, \"random-steps\": 0,"
               " \"threads\": 2}",
               algos[i], run ? "cuda" : "cpu", run ? tolerances[precision].name : "f32");
      setenv("BFM_CUDA_TIMED", "0", 1);
      bfm_explorer_free(explore(options, data, losses[run], act[run]));
      unsetenv("BFM_CUDA_TIMED");
    }
    assert_memory_equal(losses[1], losses[2], sizeof losses[1]);
    assert_memory_equal(act[1], act[2], sizeof act[1]);
    for (int j = 0; j < 3 * 5; j++) {
      float x = losses[CPU][j], y = losses[GPU][j];
      if (!(fabsf(x - y) <= most * fmaxf(fabsf(x), 1))) {
        fail_msg("%s, loss %d: %g on the CPU, %g on the GPU", algos[i], j, x, y);
      }
    }
    for (int j = 0; j < 3 * 5 * ACT; j++) {
      if (!(fabsf(act[CPU][j] - act[GPU][j]) <= most)) {
        fail_msg("%s, action %d: %g on the CPU, %g on the GPU", algos[i], j, act[CPU][j],
                 act[GPU][j]);
      }
    }
  }
}

// z of rewards at different numbers of states, with and without blocks and a goal space
void test_prompts(void **state) {
  (void)state;
  static const char *kinds[] = {"\"fb-aware\", \"blocks\": 4", "\"fb\"", "\"lap\"",
                                "\"fb-aware\", \"goal\": \"0:5,7\""};
  static const int64_t rows[] = {40, 3000, 30};
  // A CPU has no tf32. These rewards are noise, so their sum nearly cancels, and rounding errors are
  // large relative to the small z.
  double most = precision == PRECISION_TF32 ? 0.1 : tolerances[precision].loss;
  float *data = malloc(3000 * (OBS + 1) * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < 3000 * (OBS + 1); i++) data[i] = random_normal(9, STREAM_USER, 1, i);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    bfm_agent *agent[2];
    for (int side = CPU; side <= GPU; side++) {
      char options[300];
      snprintf(options, sizeof options,
               "{\"algo\": %s, \"device\": \"%s\", \"precision\": \"%s\", \"d\": 16,"
               " \"hidden\": 16, \"feat\": 8, \"b_hidden\": 32, \"batch\": 8, \"threads\": 2}",
               kinds[i], side ? "cuda" : "cpu", tolerances[precision].name);
      if (bfm_agent_new(&agent[side], OBS, ACT, options)) fail_msg("%s: %s", options, bfm_error());
    }
    for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
      float z[2][16], largest = 0;
      for (int side = CPU; side <= GPU; side++) {
        assert_int_equal(bfm_agent_prompt_reward(agent[side], 0, rows[j], data + 3000, data, 0,
                                                 z[side]),
                         BFM_OK);
      }
      for (int k = 0; k < 16; k++) largest = fmaxf(largest, fabsf(z[CPU][k]));
      for (int k = 0; k < 16; k++) {
        if (!(fabsf(z[CPU][k] - z[GPU][k]) <= most * largest)) {
          fail_msg("%s, %ld states, z[%d]: %g on the CPU, %g on the GPU", kinds[i], (long)rows[j],
                   k, z[CPU][k], z[GPU][k]);
        }
      }
    }
    for (int side = CPU; side <= GPU; side++) bfm_agent_free(agent[side]);
  }
  free(data);
}
