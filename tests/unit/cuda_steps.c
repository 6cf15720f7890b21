// Whole training steps, learners of data and prompts, on a GPU against the CPU. The tolerances stand
// with the tests: what adds up over steps is further apart than what an operation computes.

#define _GNU_SOURCE
#include "cuda_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bfm.h"
#include "core/rng.h"

enum { OBS = 13, ACT = 3, ROWS = 500, STEPS = 10 };

static bfm_agent *train(const char *options, const float *data, int64_t steps, float *losses) {
  bfm_agent *agent = NULL;
  float ones[ROWS];
  for (int i = 0; i < ROWS; i++) ones[i] = i % 50 ? 1 : 0;
  if (bfm_agent_new(&agent, OBS, ACT, options) ||
      bfm_agent_set_data(agent, ROWS, data, data + ROWS * 2 * OBS, data + ROWS * OBS, ones) ||
      bfm_agent_train(agent, steps, losses)) {
    fail_msg("%s: %s", options, bfm_error());
  }
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

// f32 losses to 1e-4; bf16 against float32 to 5%, the parameters' drift to 5% (50%) of Adam's reach
void test_steps(void **state) {
  (void)state;
  static const char *algos[] = {"fb", "fb-aw", "fb-are", "fb-aware", "lap", "lap-aw"};
  int exact = machine[CPU]->type == F32;
  float *data = malloc(ROWS * (2 * OBS + ACT) * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < ROWS * (2 * OBS + ACT); i++) {
    data[i] = 0.5f * random_normal(9, STREAM_USER, 0, i);
    if (i >= ROWS * 2 * OBS) data[i] = tanhf(data[i]);
  }
  for (size_t i = 0; i < sizeof algos / sizeof *algos; i++) {
    char options[2][300];
    float losses[2][8] = {{0}}, again[8] = {0};
    for (int side = CPU; side <= GPU; side++) {
      snprintf(
          options[side], sizeof options[side],
          "{\"algo\": \"%s\", \"device\": \"%s\", \"precision\": \"%s\", \"preset\": \"small\","
          " \"d\": 20, \"batch\": 96, \"seeds\": 2, \"threads\": 2, \"f-norm\": \"%s\"}",
          algos[i], side ? "cuda" : "cpu", side && !exact ? "bf16" : "f32", i % 2 ? "on" : "off");
    }
    bfm_agent *cpu = train(options[CPU], data, STEPS, losses[CPU]);
    bfm_agent *gpu = train(options[GPU], data, STEPS, losses[GPU]);
    for (int j = 0; j < 2 * bfm_agent_loss_count(cpu); j++) {
      float x = losses[CPU][j], y = losses[GPU][j];
      if (!(fabsf(x - y) <= (exact ? 1e-4 : 5e-2) * fmaxf(fabsf(x), 1))) {
        fail_msg("%s, %s loss: %g on the CPU, %g on the GPU", algos[i],
                 bfm_agent_loss_name(cpu, j % bfm_agent_loss_count(cpu)), x, y);
      }
    }
    double drift = difference(cpu, gpu, 1e-4, STEPS);
    if (!(drift <= (exact ? 0.05 : 0.5))) fail_msg("%s: parameters drift by %g", algos[i], drift);

    // the same plans, the same bits
    setenv("BFM_CUDA_TIMED", "0", 1);
    bfm_agent *one = train(options[GPU], data, STEPS, losses[GPU]);
    bfm_agent *two = train(options[GPU], data, STEPS, again);
    unsetenv("BFM_CUDA_TIMED");
    assert_memory_equal(losses[GPU], again, sizeof again);
    assert_true(difference(one, two, 1e-4, STEPS) == 0);
    bfm_agent_free(cpu);
    bfm_agent_free(gpu);
    bfm_agent_free(one);
    bfm_agent_free(two);
  }
  free(data);
}

// an explorer of three tasks after some updates, its ring gone round; act: what it does then
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

// losses and actions, to the tolerances of whole steps
void test_explorers(void **state) {
  (void)state;
  static const char *algos[] = {"td3", "rnd"};
  int exact = machine[CPU]->type == F32;
  static float data[13 * 700];
  for (int i = 0; i < 13 * 700; i++) data[i] = 0.5f * random_normal(9, STREAM_USER, 1, i);
  for (int i = 0; i < 2; i++) {
    float losses[3][3 * 5] = {{0}}, act[3][3 * 5 * ACT];
    for (int run = 0; run < 3; run++) {  // CPU, GPU, GPU again with the same plans
      char options[400];
      snprintf(options, sizeof options,
               "{\"algo\": \"%s\", \"device\": \"%s\", \"precision\": \"%s\", \"hidden\": 24,"
               " \"batch\": 40, \"rnd-dim\": 24, \"replay\": 45, \"random-steps\": 0,"
               " \"threads\": 2}",
               algos[i], run ? "cuda" : "cpu", run && !exact ? "bf16" : "f32");
      setenv("BFM_CUDA_TIMED", "0", 1);
      bfm_explorer_free(explore(options, data, losses[run], act[run]));
      unsetenv("BFM_CUDA_TIMED");
    }
    assert_memory_equal(losses[1], losses[2], sizeof losses[1]);
    assert_memory_equal(act[1], act[2], sizeof act[1]);
    for (int j = 0; j < 3 * 5; j++) {
      float x = losses[CPU][j], y = losses[GPU][j];
      if (!(fabsf(x - y) <= (exact ? 1e-3 : 5e-2) * fmaxf(fabsf(x), 1))) {
        fail_msg("%s, loss %d: %g on the CPU, %g on the GPU", algos[i], j, x, y);
      }
    }
    for (int j = 0; j < 3 * 5 * ACT; j++) {
      if (!(fabsf(act[CPU][j] - act[GPU][j]) <= (exact ? 1e-3 : 5e-2))) {
        fail_msg("%s, action %d: %g on the CPU, %g on the GPU", algos[i], j, act[CPU][j],
                 act[GPU][j]);
      }
    }
  }
}

// z of a reward, of more and of fewer states than before, with and without blocks and a goal space
void test_prompts(void **state) {
  (void)state;
  static const char *kinds[] = {"\"fb-aware\", \"blocks\": 4", "\"fb\"", "\"lap\"",
                                "\"fb-aware\", \"goal\": \"0:5,7\""};
  static const int64_t rows[] = {40, 3000, 30};
  int exact = machine[CPU]->type == F32;
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
               kinds[i], side ? "cuda" : "cpu", exact ? "f32" : "bf16");
      if (bfm_agent_new(&agent[side], OBS, ACT, options)) fail_msg("%s: %s", options, bfm_error());
    }
    for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
      float z[2][16], largest = 0;
      for (int side = CPU; side <= GPU; side++) {
        assert_int_equal(
            bfm_agent_prompt_reward(agent[side], 0, rows[j], data + 3000, data, 0, z[side]),
            BFM_OK);
      }
      for (int k = 0; k < 16; k++) largest = fmaxf(largest, fabsf(z[CPU][k]));
      for (int k = 0; k < 16; k++) {
        if (!(fabsf(z[CPU][k] - z[GPU][k]) <= (exact ? 1e-4 : 5e-2) * largest)) {
          fail_msg("%s, %ld states, z[%d]: %g on the CPU, %g on the GPU", kinds[i], (long)rows[j],
                   k, z[CPU][k], z[GPU][k]);
        }
      }
    }
    for (int side = CPU; side <= GPU; side++) bfm_agent_free(agent[side]);
  }
  free(data);
}
