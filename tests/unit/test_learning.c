// Learning, end to end: a point moves along a ring as its action pushes it. From random moves, each
// algorithm learns to reach given goals, which random moves do not reach. If the sign of any loss is
// flipped (fb, ortho, actor; psi, lap), this program fails; tests/mutations.sh shows which algorithms
// notice. Plain fb sometimes learns without orthonormal features, so their orthonormality is checked
// too. The divergence guard must stay silent, and must report a run with the learning rate 1.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "agent/guard.h"
#include "bfm.h"

enum { TRANSITIONS = 10000, STEPS = 1500, LOOK = 100, GOALS = 64, MOVES = 30 };

#define REACH 0.3f  // of one move, in radians
#define NEAR 0.5    // mean distance to the goals that counts as reaching them, in radians
#define ROUND 3.0   // largest eigenvalue of E[BBᵀ] that counts as orthonormal

static void observe(float angle, float *obs) {
  obs[0] = cosf(angle);
  obs[1] = sinf(angle);
}

// `count` values in (-1, 1)
static float *uniform(uint32_t stream, int64_t count) {
  float *x = malloc(count * sizeof *x);
  bfm_random_uniform(7, 2000 + stream, 0, count, x);
  for (int64_t i = 0; i < count; i++) x[i] = 2 * x[i] - 1;
  return x;
}

static float *angles(uint32_t stream, int64_t count) {
  float *x = uniform(stream, count);
  for (int64_t i = 0; i < count; i++) x[i] *= (float)M_PI;
  return x;
}

// the guard's verdict after this many steps, or as soon as it reports divergence
static int train(bfm_agent *agent, int steps) {
  float *angle = angles(0, TRANSITIONS), *act = uniform(1, TRANSITIONS);
  float *obs = malloc(4 * TRANSITIONS * sizeof *obs), *next = obs + 2 * TRANSITIONS;
  for (int i = 0; i < TRANSITIONS; i++) {
    observe(angle[i], obs + 2 * i);
    observe(angle[i] + REACH * act[i], next + 2 * i);
  }
  assert_int_equal(bfm_agent_set_data(agent, TRANSITIONS, obs, act, next, NULL), BFM_OK);
  float losses[4];
  int status = BFM_OK;
  for (int step = 0; step < steps && !status; step += LOOK) {
    status = bfm_agent_train(agent, LOOK, losses);
    if (!status) status = guard_check(agent, losses);
  }
  free(angle);
  free(act);
  free(obs);
  return status;
}

static double metric(bfm_agent *agent, const char *of_fb, const char *of_lap) {
  float values[16];
  assert_int_equal(bfm_agent_metrics(agent, values), BFM_OK);
  for (int i = 0; i < bfm_agent_metric_count(agent); i++) {
    const char *name = bfm_agent_metric_name(agent, i);
    if (!strcmp(name, of_fb) || !strcmp(name, of_lap)) return values[i];
  }
  fail();
  return 0;
}

// mean distance to the goals after MOVES moves; agent NULL: random moves
static double distance(bfm_agent *agent) {
  float *at = angles(2, GOALS), *goal = angles(3, GOALS), *random = uniform(4, GOALS * MOVES);
  float obs[2 * GOALS], act[GOALS], *z = NULL;
  int64_t d = agent ? bfm_agent_d(agent) : 0;
  if (agent) z = malloc(GOALS * d * sizeof *z);
  for (int i = 0; i < GOALS && agent; i++) {
    observe(goal[i], obs);
    assert_int_equal(bfm_agent_prompt_states(agent, 0, 1, obs, z + i * d), BFM_OK);
  }
  for (int t = 0; t < MOVES; t++) {
    for (int i = 0; i < GOALS; i++) observe(at[i], obs + 2 * i);
    if (agent) assert_int_equal(bfm_agent_act(agent, 0, GOALS, obs, z, 0, 0, 0, act), BFM_OK);
    for (int i = 0; i < GOALS; i++) at[i] += REACH * (agent ? act[i] : random[t * GOALS + i]);
  }
  double sum = 0;
  for (int i = 0; i < GOALS; i++) sum += fabs(remainder(at[i] - goal[i], 2 * M_PI));
  free(at);
  free(goal);
  free(random);
  free(z);
  return sum / GOALS;
}

static bfm_agent *agent_with(const char *changes, const char *lr) {
  char options[512];
  snprintf(options, sizeof options,
           "{\"device\": \"cpu\", \"threads\": 1, \"seed\": 1, \"d\": 8, \"batch\": 128, "
           "\"hidden\": 64, \"feat\": 32, \"b-hidden\": 32, \"lr\": %s, "
           "\"gamma\": 0.9, \"polyak\": 0.05, %s}",
           lr, changes);
  bfm_agent *agent;
  assert_int_equal(bfm_agent_new(&agent, 2, 1, options), BFM_OK);
  return agent;
}

static void check(void **state) {
  bfm_agent *agent = agent_with(*state, "1e-3");
  double before = distance(agent);
  int status = train(agent, STEPS);
  double after = distance(agent), random = distance(NULL);
  double largest = metric(agent, "B.eig.max", "phi.eig.max");
  printf(
      "goals at %.2f rad after learning, %.2f before, %.2f by random moves, E[BBᵀ] up to %.2f: "
      "%s\n",
      after, before, random, largest, (const char *)*state);
  bfm_agent_free(agent);
  if (status) fail_msg("%s", bfm_error());
  assert_true(after < NEAR);
  assert_true(random > 2 * NEAR && before > 2 * NEAR);
  assert_true(largest < ROUND);
}

static void check_guard(void **state) {
  bfm_agent *agent = agent_with(*state, "1");
  int status = train(agent, 300);
  printf("%s: %s\n", status ? bfm_error() : "the guard is silent", (const char *)*state);
  bfm_agent_free(agent);
  assert_int_equal(status, BFM_DIVERGED);
}

#define LEARNS(options)                                           \
  {"learns with " options, check, NULL, NULL, (void *)options}, { \
    "guards " options, check_guard, NULL, NULL, (void *)options   \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      LEARNS("\"algo\": \"fb\", \"ortho\": 10"),
      LEARNS("\"algo\": \"fb-aw\", \"ortho\": 10, \"beta\": 1"),
      LEARNS("\"algo\": \"fb-are\", \"ortho\": 10, \"blocks\": 4"),
      LEARNS("\"algo\": \"fb-aware\", \"ortho\": 10, \"blocks\": 4, \"beta\": 1"),
      LEARNS("\"algo\": \"lap\", \"ortho\": 0.1"),
      LEARNS("\"algo\": \"lap-aw\", \"ortho\": 0.1, \"beta\": 1"),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
