// Single-task agents, end to end: a point moves along a ring as its action pushes it, and is rewarded
// near one place. From uniformly random moves, td3bc, iql and xql learn to go there; bc, which clones
// the mean of all moves, stays where it is. bc is shown to learn on moves that depend on the state. If
// the sign of any loss is flipped, this program fails (tests/mutations.sh).

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "explore/explorer.h"

enum { TRANSITIONS = 10000, STARTS = 64, MOVES = 30 };

#define REACH 0.3f  // of one move, in radians
#define NEAR 0.5    // mean distance to the place that counts as reaching it, in radians

// where the two tasks reward the point
static const float places[] = {1, -2};

static float distance(float a, float b) { return fabsf(remainderf(a - b, 2 * (float)M_PI)); }

typedef struct {
  float obs[TRANSITIONS][2], act[TRANSITIONS], next_obs[TRANSITIONS][2], discount[TRANSITIONS];
  float rewards[2][TRANSITIONS];
} Moves;

// guided: the actions are sin(angle), else uniformly random
static Moves *make_moves(int guided) {
  static float angle[TRANSITIONS];
  Moves *m = malloc(sizeof *m);
  bfm_random_uniform(7, 2000, 0, TRANSITIONS, angle);
  bfm_random_uniform(7, 2001, 0, TRANSITIONS, m->act);
  for (int i = 0; i < TRANSITIONS; i++) {
    float at = 2 * (float)M_PI * angle[i];
    m->act[i] = guided ? sinf(at) : 2 * m->act[i] - 1;
    float to = at + REACH * m->act[i];
    m->obs[i][0] = cosf(at), m->obs[i][1] = sinf(at);
    m->next_obs[i][0] = cosf(to), m->next_obs[i][1] = sinf(to);
    m->discount[i] = 1;
    for (int t = 0; t < 2; t++) m->rewards[t][i] = expf(-distance(to, places[t]));
  }
  return m;
}

// two policies for each of two tasks
static bfm_explorer *trained(const char *options, int guided, int64_t steps) {
  Moves *m = make_moves(guided);
  ExplorerData data = {.count = TRANSITIONS, .obs = m->obs[0], .act = m->act,
                       .next_obs = m->next_obs[0], .discount = m->discount,
                       .rewards = m->rewards[0]};
  bfm_explorer *e;
  float losses[4 * EXPLORER_LOSSES];
  assert_int_equal(bfm_explorer_new(&e, 2, 1, 4, STARTS, options), BFM_OK);
  assert_int_equal(explorer_set_data(e, &data), BFM_OK);
  assert_int_equal(bfm_explorer_update(e, steps), BFM_OK);
  assert_int_equal(bfm_explorer_losses(e, losses), BFM_OK);
  free(m);
  return e;
}

// the mean distance of a policy to its place after some moves
static double left_over(bfm_explorer *e, int policy) {
  float angle[STARTS], obs[4][STARTS][2], act[4][STARTS];
  for (int i = 0; i < STARTS; i++) angle[i] = 2 * (float)M_PI * i / STARTS;
  for (int move = 0; move < MOVES; move++) {
    for (int i = 0; i < 4 * STARTS; i++) {
      obs[i / STARTS][i % STARTS][0] = cosf(angle[i % STARTS]);
      obs[i / STARTS][i % STARTS][1] = sinf(angle[i % STARTS]);
    }
    assert_int_equal(bfm_explorer_act(e, obs[0][0], 0, 0, act[0]), BFM_OK);
    for (int i = 0; i < STARTS; i++) angle[i] += REACH * act[policy][i];
  }
  double sum = 0;
  for (int i = 0; i < STARTS; i++) sum += distance(angle[i], places[policy / 2]) / STARTS;
  return sum;
}

#define SMALL                                                                    \
  "\"hidden\": 32, \"batch\": 64, \"lr\": 1e-3, \"gamma\": 0.9, \"tau\": 0.02, " \
  "\"seeds\": 2, \"device\": \"cpu\", \"threads\": 1"

static void learns(void **state) {
  char options[512];
  snprintf(options, sizeof options, "{%s, " SMALL "}", (const char *)*state);
  bfm_explorer *e = trained(options, 0, 1500);
  for (int policy = 0; policy < 4; policy++) {
    double distance = left_over(e, policy);
    if (!(distance < NEAR)) fail_msg("policy %d ends %.3g from its place", policy, distance);
  }
  bfm_explorer_free(e);
}

static void bc_clones(void **state) {
  (void)state;
  const char *options =
      "{\"algo\": \"bc\", \"hidden\": 32, \"batch\": 64, \"lr\": 1e-3, \"seeds\": 2, "
      "\"device\": \"cpu\", \"threads\": 1}";
  bfm_explorer *random = trained(options, 0, 500), *guided = trained(options, 1, 500);
  assert_true(left_over(random, 0) > 3 * NEAR / 2);
  float obs[4][STARTS][2], act[4][STARTS];
  for (int i = 0; i < 4 * STARTS; i++) {
    float at = 2 * (float)M_PI * (float)(i % STARTS) / STARTS;
    obs[i / STARTS][i % STARTS][0] = cosf(at);
    obs[i / STARTS][i % STARTS][1] = sinf(at);
  }
  assert_int_equal(bfm_explorer_act(guided, obs[0][0], 0, 0, act[0]), BFM_OK);
  for (int i = 0; i < 4 * STARTS; i++) {
    float wanted = obs[i / STARTS][i % STARTS][1];
    if (!(fabsf(act[i / STARTS][i % STARTS] - wanted) < 0.2f)) {
      fail_msg("row %d: the action is %.3g, not %.3g", i, act[i / STARTS][i % STARTS], wanted);
    }
  }
  bfm_explorer_free(random);
  bfm_explorer_free(guided);
}

// policies of one seed draw the same rows, so that a task's policy does not depend on other tasks
static void tasks_do_not_mix(void **state) {
  (void)state;
  const char *options = "{\"algo\": \"iql\", " SMALL "}";
  bfm_explorer *e = trained(options, 0, 20);
  float a[32 * 2], b[32 * 2];
  assert_int_equal(bfm_explorer_get_tensor(e, 0, "V.s.in.weight", a, 64), BFM_OK);
  assert_int_equal(bfm_explorer_get_tensor(e, 2, "V.s.in.weight", b, 64), BFM_OK);
  assert_true(memcmp(a, b, sizeof a) != 0);
  bfm_explorer_free(e);

  Moves *m = make_moves(0);
  memcpy(m->rewards[1], m->rewards[0], sizeof m->rewards[0]);
  ExplorerData data = {.count = TRANSITIONS, .obs = m->obs[0], .act = m->act,
                       .next_obs = m->next_obs[0], .discount = m->discount,
                       .rewards = m->rewards[0]};
  assert_int_equal(bfm_explorer_new(&e, 2, 1, 4, 1, options), BFM_OK);
  assert_int_equal(explorer_set_data(e, &data), BFM_OK);
  assert_int_equal(bfm_explorer_update(e, 20), BFM_OK);
  for (int seed = 0; seed < 2; seed++) {
    assert_int_equal(bfm_explorer_get_tensor(e, seed, "V.s.in.weight", a, 64), BFM_OK);
    assert_int_equal(bfm_explorer_get_tensor(e, 2 + seed, "V.s.in.weight", b, 64), BFM_OK);
    assert_memory_equal(a, b, sizeof a);
  }
  bfm_explorer_free(e);
  free(m);
}

// statistics of the data: mean 2 and -1, deviations 3 and 0.5, each plus TD3+BC's 1e-3
static void observations_are_normalized_by_the_data(void **state) {
  (void)state;
  float obs[4][2] = {{5, -0.5f}, {-1, -1.5f}, {5, -1.5f}, {-1, -0.5f}}, act[4] = {0};
  float ones[4] = {1, 1, 1, 1}, stats[4];
  ExplorerData data = {.count = 4, .obs = obs[0], .act = act, .next_obs = obs[0], .discount = ones,
                       .rewards = ones};
  bfm_explorer *e;
  assert_int_equal(bfm_explorer_new(&e, 2, 1, 1, 1, "{\"algo\": \"td3bc\", \"device\": \"cpu\"}"),
                   BFM_OK);
  assert_int_equal(explorer_set_data(e, &data), BFM_OK);
  assert_int_equal(bfm_explorer_update(e, 3), BFM_OK);  // which leaves them as they are
  assert_int_equal(bfm_explorer_get_tensor(e, 0, "input.stats", stats, 4), BFM_OK);
  const double wanted[4] = {2, -1, 3.001, 0.501};
  for (int i = 0; i < 4; i++) {
    assert_float_equal(i < 2 ? stats[i] : sqrt(stats[i] + 1e-5), wanted[i], 1e-5);
  }
  bfm_explorer_free(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      {"learns with \"algo\": \"td3bc\"", learns, NULL, NULL, "\"algo\": \"td3bc\""},
      {"learns with \"algo\": \"iql\"", learns, NULL, NULL,
       "\"algo\": \"iql\", \"inverse-temperature\": 10"},
      {"learns with \"algo\": \"xql\"", learns, NULL, NULL,
       "\"algo\": \"xql\", \"inverse-temperature\": 10, \"loss-temperature\": 0.5"},
      {"learns with \"algo\": \"bc\"", bc_clones, NULL, NULL, NULL},
      cmocka_unit_test(tasks_do_not_mix),
      cmocka_unit_test(observations_are_normalized_by_the_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
