// The policy runtime beside the library: the same actions, values, features and z from the same files,
// for every algorithm and every set of kernels.

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// after the headers above
#include <cmocka.h>

#include "bfm.h"
#include "bfm_policy.h"

#define MODEL "build/test_policy.safetensors"

typedef struct {
  bfm_agent *agent;
  bfm_policy *policy;
  const bfm_policy_info *info;
  bfm_policy_work *work;
  void *memory;
  bfm_policy_error error;
  float *obs, *z, *act;  // [ROWS, ·] random
} Pair;

enum { ROWS = 40, SAMPLES = 11 };

static void open_work(Pair *p, int samples) {
  free(p->memory);
  size_t bytes = bfm_policy_work_bytes(p->policy, samples);
  assert_int_equal(posix_memalign(&p->memory, 64, bytes), 0);
  memset(p->memory, 0x7f, bytes);
  assert_int_equal(bfm_policy_work_init(&p->work, p->policy, samples, p->memory, bytes, &p->error),
                   0);
}

static void open_file(Pair *p, const char *path) {
  int status = bfm_policy_open(&p->policy, path, &p->error);
  if (status) print_error("%s\n", p->error.text);
  assert_int_equal(status, BFM_POLICY_OK);
  p->info = bfm_policy_get_info(p->policy);
  open_work(p, SAMPLES);
}

// a new agent of these options, and the runtime on the model that it saves
static void open_pair(Pair *p, int obs_dim, int act_dim, const char *options) {
  *p = (Pair){0};
  assert_int_equal(bfm_agent_new(&p->agent, obs_dim, act_dim, options), BFM_OK);
  assert_int_equal(bfm_agent_save_model(p->agent, 0, MODEL), BFM_OK);
  open_file(p, MODEL);
  int d = p->info->d;
  p->obs = malloc(ROWS * (size_t)(obs_dim + act_dim + d) * sizeof *p->obs);
  p->z = p->obs + ROWS * obs_dim;
  p->act = p->z + ROWS * d;
  bfm_random_normal(5, 1000, 0, ROWS * (obs_dim + d), p->obs);
  bfm_random_uniform(6, 1000, 0, (int64_t)ROWS * act_dim, p->act);
}

static void close_pair(Pair *p) {
  bfm_policy_close(p->policy);
  bfm_agent_free(p->agent);
  free(p->memory);
  free(p->obs);
  remove(MODEL);
}

static float apart(const float *x, const float *y, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i] - y[i]));
  return most;
}

static void act_of(Pair *p, int row, bfm_policy_how how, float *act, bfm_policy_report *report) {
  int status = bfm_policy_act(p->policy, p->work, p->obs + row * p->info->obs_dim,
                              p->z + row * p->info->d, &how, act, report, &p->error);
  if (status) print_error("%s\n", p->error.text);
  assert_int_equal(status, BFM_POLICY_OK);
}

// Actions by the mean, by the best of some, and values. The library acts on few rows through the
// runtime's kernels: it gets ROWS at once, which it computes with oneDNN.
static void compare_actions(Pair *p, float tolerance) {
  int n = p->info->act_dim, d = p->info->d, M = p->info->members;
  float mine[64], *theirs = malloc((size_t)(ROWS * n) * sizeof *theirs);
  float *f = malloc((size_t)(M * ROWS * d) * sizeof *f);
  for (int samples = 0; samples <= SAMPLES; samples += SAMPLES) {
    assert_int_equal(bfm_agent_act(p->agent, 0, ROWS, p->obs, p->z, samples, 3, 1, theirs), BFM_OK);
    assert_int_equal(bfm_agent_F(p->agent, 0, ROWS, p->obs, theirs, p->z, f), BFM_OK);
    for (int row = 0; row < (samples ? 1 : 8); row++) {  // other rows draw other samples
      bfm_policy_report report;
      const float *z = p->z + row * d;
      act_of(p, row, (bfm_policy_how){samples, BFM_POLICY_MEAN, 1, 3, 1}, mine, &report);
      assert_true(apart(mine, theirs + row * n, n) <= tolerance);
      float length = 0, q = 0;
      for (int i = 0; i < d; i++) length += z[i] * z[i];
      for (int m = 0; m < M; m++) {
        for (int i = 0; i < d; i++) {
          q += f[(m * ROWS + row) * d + i] * z[i] * sqrtf((float)d / length) / (float)M;
        }
      }
      assert_true(fabsf(report.q - q) <= 1e-4f * (1 + fabsf(q)));
      assert_true(M == 1 ? report.spread == 0 : report.spread > 0);
    }
  }
  free(f);
  free(theirs);
}

static void compare_networks(Pair *p) {
  int d = p->info->d, M = p->info->members, n = p->info->act_dim;
  float *mine = malloc((size_t)(ROWS * d + M * d) * sizeof *mine);
  float *theirs = malloc((size_t)(M * ROWS * d) * sizeof *theirs);
  assert_int_equal(bfm_policy_B(p->policy, p->work, ROWS, p->obs, p->z, mine, &p->error), 0);
  assert_int_equal(bfm_agent_B_one_z(p->agent, 0, ROWS, p->obs, p->z, theirs), BFM_OK);
  assert_true(apart(mine, theirs, (int64_t)ROWS * d) < 2e-5f);
  assert_int_equal(bfm_agent_F_one_z(p->agent, 0, ROWS, p->obs, p->act, p->z, theirs), BFM_OK);
  for (int row = 0; row < 4; row++) {
    assert_int_equal(bfm_policy_F(p->policy, p->work, p->obs + row * p->info->obs_dim,
                                  p->act + row * n, p->z, mine, &p->error),
                     0);
    for (int m = 0; m < M; m++) {
      assert_true(apart(mine + m * d, theirs + (m * ROWS + row) * d, d) < 2e-5f);
    }
  }
  free(mine);
  free(theirs);
}

// one row or forty, the library's actions are nearly the same: the runtime's kernels and oneDNN agree
static void compare_few(Pair *p) {
  int n = p->info->act_dim;
  float one[64], *all = malloc((size_t)(ROWS * n) * sizeof *all);
  assert_int_equal(bfm_agent_pi(p->agent, 0, ROWS, p->obs, p->z, all), BFM_OK);
  for (int row = 0; row < 4; row++) {
    assert_int_equal(bfm_agent_pi(p->agent, 0, 1, p->obs + row * p->info->obs_dim,
                                  p->z + row * p->info->d, one),
                     BFM_OK);
    assert_true(apart(one, all + row * n, n) < 2e-6f);
  }
  free(all);
}

static void to_unit(float *z, int d) {
  double square = 0;
  for (int i = 0; i < d; i++) square += (double)z[i] * z[i];
  for (int i = 0; i < d; i++) z[i] /= (float)sqrt(square);
}

static int stream(Pair *p, const float *weight, float *z) {
  bfm_policy_prompt_kind kind = weight ? BFM_POLICY_REWARDS : BFM_POLICY_STATES;
  size_t bytes = bfm_policy_prompt_bytes(p->policy, kind);
  void *memory = NULL;
  bfm_policy_prompt *prompt;
  assert_int_equal(posix_memalign(&memory, 64, bytes), 0);
  assert_int_equal(bfm_policy_prompt_init(&prompt, p->policy, kind, memory, bytes, &p->error), 0);
  int passes = 0, state;
  do {  // three, then one by one
    assert_int_equal(bfm_policy_prompt_add(prompt, p->work, 3, p->obs, weight, &p->error), 0);
    for (int i = 3; i < ROWS; i++) {
      assert_int_equal(bfm_policy_prompt_add(prompt, p->work, 1, p->obs + i * p->info->obs_dim,
                                             weight ? weight + i : NULL, &p->error),
                       0);
    }
    passes++;
  } while ((state = bfm_policy_prompt_pass(prompt, z, &p->error)) == BFM_POLICY_MORE);
  assert_int_equal(passes, p->info->blocks);
  free(memory);
  return state;
}

// Goals, demonstrations and rewards. Only the direction of z matters.
static void compare_prompts(Pair *p) {
  int d = p->info->d;
  float mine[256], theirs[256], streamed[256], reward[ROWS];
  for (int rows = 1; rows <= ROWS; rows += ROWS - 1) {
    assert_int_equal(bfm_policy_prompt_states(p->policy, p->work, rows, p->obs, mine, &p->error),
                     0);
    assert_int_equal(bfm_agent_prompt_states(p->agent, 0, rows, p->obs, theirs), BFM_OK);
    to_unit(mine, d), to_unit(theirs, d);
    assert_true(apart(mine, theirs, d) < 1e-5f);
  }
  assert_int_equal(stream(p, NULL, streamed), BFM_POLICY_DONE);
  to_unit(streamed, d);
  assert_true(apart(mine, streamed, d) < 1e-6f);

  for (int i = 0; i < ROWS; i++) reward[i] = cosf((float)i * i);
  int status = bfm_agent_prompt_reward(p->agent, 0, ROWS, p->obs, reward, 0, theirs);
  assert_int_equal(status, BFM_OK);
  assert_int_equal(stream(p, reward, mine), BFM_POLICY_DONE);
  to_unit(mine, d), to_unit(theirs, d);
  int laplacian =
      !strncmp(p->info->algo, "lap", 3);  // solves equations with 40 rows for 32 unknowns
  assert_true(apart(mine, theirs, d) < (laplacian ? 2e-3f : 2e-5f));
}

// a window of a motion is a demonstration
static void compare_tracking(Pair *p) {
  float mine[256], same[256];
  int d = p->info->d, n = p->info->obs_dim;
  static const struct {
    int now, window, from, count;
  } cases[] = {{0, 5, 1, 5}, {ROWS - 3, 10, ROWS - 2, 2}, {ROWS + 7, 3, ROWS - 1, 1}};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(bfm_policy_prompt_track(p->policy, p->work, ROWS, p->obs, cases[i].now,
                                             cases[i].window, mine, &p->error),
                     0);
    assert_int_equal(bfm_policy_prompt_states(p->policy, p->work, cases[i].count,
                                              p->obs + cases[i].from * n, same, &p->error),
                     0);
    assert_memory_equal(mine, same, (size_t)d * sizeof *mine);
  }
}

static const char *const kernels[] = {"avx512", "avx2", "neon", "plain", NULL};

static const char *const agents[] = {
    "{\"algo\":\"fb\",\"d\":32,\"preset\":\"small\"}",
    "{\"algo\":\"fb-aw\",\"d\":20,\"hidden\":96,\"feat\":40,\"b-hidden\":48,\"f-norm\":true,"
    "\"pi-norm\":true}",
    "{\"algo\":\"fb-are\",\"d\":24,\"blocks\":3,\"hidden\":64,\"feat\":32,\"b-hidden\":70,"
    "\"ensemble\":\"shared\",\"members\":3}",
    "{\"algo\":\"fb-aware\",\"d\":33,\"blocks\":5,\"hidden\":130,\"feat\":50,\"b-hidden\":61,"
    "\"members\":1,\"f-norm\":true,\"b-norm\":false}",
    "{\"algo\":\"fb-aware\",\"d\":64,\"blocks\":8,\"preset\":\"small\",\"goal\":\"0:4,7\"}",
    "{\"algo\":\"lap\",\"d\":32,\"preset\":\"small\"}",
    "{\"algo\":\"lap-aw\",\"d\":16,\"hidden\":48,\"feat\":32,\"b-hidden\":32,\"mbar\":0}",
};

static void test_algorithms(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof agents / sizeof *agents; i++) {
    Pair p;
    open_pair(&p, 11 + 7 * (int)i, 3 + (int)i, agents[i]);
    for (int k = 0; kernels[k]; k++) {
      if (bfm_policy_set_kernels(p.policy, kernels[k], &p.error)) continue;
      compare_actions(&p, 2e-6f);
      compare_networks(&p);
      compare_prompts(&p);
      compare_tracking(&p);
    }
    compare_few(&p);
    close_pair(&p);
  }
}

// few inputs are narrower than the lanes
static void test_narrow(void **state) {
  (void)state;
  Pair p;
  open_pair(&p, 1, 1, "{\"algo\":\"fb\",\"d\":2,\"hidden\":8,\"feat\":3,\"b-hidden\":5}");
  for (int k = 0; kernels[k]; k++) {
    if (bfm_policy_set_kernels(p.policy, kernels[k], &p.error)) continue;
    compare_actions(&p, 2e-6f);
    compare_networks(&p);
  }
  close_pair(&p);
}

// All kernels with fused multiply-add add up in one order, so they give the same bits; and an action is
// the same among any number of others.
static void test_same_bits(void **state) {
  (void)state;
  Pair p;
  float first[16], other[16];
  open_pair(&p, 24, 6, "{\"preset\":\"small\",\"f-norm\":true}");
  const char *fastest = p.info->kernels;
  act_of(&p, 0, (bfm_policy_how){SAMPLES, BFM_POLICY_GAIN, 0, 1, 2}, first, NULL);
  for (int k = 0; kernels[k]; k++) {
    if (bfm_policy_set_kernels(p.policy, kernels[k], &p.error)) continue;
    act_of(&p, 0, (bfm_policy_how){SAMPLES, BFM_POLICY_GAIN, 0, 1, 2}, other, NULL);
#ifdef FP_FAST_FMAF
    assert_memory_equal(first, other, 6 * sizeof *first);
#endif
    assert_true(apart(first, other, 6) < 1e-5f);
  }
  assert_int_equal(bfm_policy_set_kernels(p.policy, fastest, &p.error), 0);
  float b1[256], b8[8 * 256];
  assert_int_equal(bfm_policy_B(p.policy, p.work, 8, p.obs, p.z, b8, &p.error), 0);
  for (int i = 0; i < 8; i++) {
    assert_int_equal(bfm_policy_B(p.policy, p.work, 1, p.obs + i * 24, p.z, b1, &p.error), 0);
    assert_memory_equal(b1, b8 + i * p.info->d, (size_t)p.info->d * sizeof *b1);
  }
  close_pair(&p);
}

// the shipped models, which store their weights as bfloat16
static void test_shipped(void **state) {
  (void)state;
  static const char *const names[] = {"walker", "cheetah", "quadruped"};
  for (int i = 0; i < 3; i++) {
    char path[64];
    Pair p = {0};
    snprintf(path, sizeof path, "models/%s.safetensors", names[i]);
    assert_int_equal(bfm_agent_load(&p.agent, path, "{\"device\":\"cpu\",\"precision\":\"f32\"}"),
                     0);
    open_file(&p, path);
    assert_string_equal(p.info->weights, "bf16");
    assert_string_equal(p.info->env, names[i]);
    const float *obs = bfm_policy_prompt_obs(p.policy);
    p.obs = malloc(ROWS * (size_t)(p.info->obs_dim + p.info->d) * sizeof *p.obs);
    p.z = p.obs + ROWS * p.info->obs_dim;
    memcpy(p.obs, obs, ROWS * (size_t)p.info->obs_dim * sizeof *p.obs);
    bfm_random_normal(7, 1000, 0, (int64_t)ROWS * p.info->d, p.z);
    compare_actions(&p, 1e-5f);
    compare_prompts(&p);
    bfm_policy_close(p.policy);
    bfm_agent_free(p.agent);
    free(p.memory);
    free(p.obs);
  }
}

// each type of weights, beside the library on the same file
static void test_weights(void **state) {
  (void)state;
  static const struct {
    int weights;
    const char *name;
    float tolerance;
  } cases[] = {{BFM_WEIGHTS_F32, "f32", 2e-6f},
               {BFM_WEIGHTS_BF16, "bf16", 1e-5f},
               {BFM_WEIGHTS_INT8, "int8", 1e-5f}};
  bfm_agent *whole;
  assert_int_equal(bfm_agent_new(&whole, 30, 7, "{\"preset\":\"small\",\"d\":32,\"f-norm\":true}"),
                   0);
  for (int i = 0; i < 3; i++) {
    Pair p = {0};
    assert_int_equal(bfm_agent_export(whole, 0, MODEL, 0, cases[i].weights, -1), BFM_OK);
    assert_int_equal(bfm_agent_load(&p.agent, MODEL, "{\"device\":\"cpu\"}"), BFM_OK);
    open_file(&p, MODEL);
    assert_string_equal(p.info->weights, cases[i].name);
    p.obs = malloc(ROWS * 62 * sizeof *p.obs);
    p.z = p.obs + ROWS * 30;
    bfm_random_normal(5, 1000, 0, ROWS * 62, p.obs);
    for (int k = 0; kernels[k]; k++) {
      if (bfm_policy_set_kernels(p.policy, kernels[k], &p.error)) continue;
      compare_actions(&p, cases[i].tolerance);
      compare_prompts(&p);
    }
    // written again, int8 stays what it was
    if (i == 2) {
      float before[7], after[7];
      bfm_agent *again;
      assert_int_equal(bfm_agent_act(p.agent, 0, 1, p.obs, p.z, 0, 0, 0, before), BFM_OK);
      assert_int_equal(bfm_agent_export(p.agent, 0, MODEL ".again", 0, BFM_WEIGHTS_INT8, -1), 0);
      assert_int_equal(bfm_agent_load(&again, MODEL ".again", "{\"device\":\"cpu\"}"), BFM_OK);
      assert_int_equal(bfm_agent_act(again, 0, 1, p.obs, p.z, 0, 0, 0, after), BFM_OK);
      assert_true(apart(before, after, 7) < 1e-5f);
      bfm_agent_free(again);
      remove(MODEL ".again");
    }
    close_pair(&p);
  }
  assert_int_equal(bfm_agent_export(whole, 0, MODEL, 0, 9, -1), BFM_BAD_ARGUMENT);
  assert_string_equal(bfm_error(), "weights must be one of BFM_WEIGHTS_…, 0 to 3, not 9");
  bfm_agent_free(whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_algorithms), cmocka_unit_test(test_narrow),
      cmocka_unit_test(test_same_bits),  cmocka_unit_test(test_weights),

      cmocka_unit_test(test_shipped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
