// A problem on which F diverges. The data's actions are at the corners ±1, like those of trained
// agents. The mean of a policy that is regressed on them lies inside, where F computes targets but is
// never trained. Without layer norm in its trunk, F grows there without bounds, which the guard must
// report; with layer norm it stays bounded. Most states are in one place, like those of experts.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#include "agent/guard.h"
#include "bfm.h"

enum { TRANSITIONS = 4000, OBS = 4, ACT = 6, STEPS = 1500, LOOK = 100 };

static void observe(float angle, float *obs) {
  obs[0] = cosf(angle), obs[1] = sinf(angle);
  obs[2] = cosf(3 * angle), obs[3] = sinf(3 * angle);
}

static float *draw(void (*draws)(uint64_t, uint32_t, uint64_t, int64_t, float *), uint32_t stream,
                   int64_t count) {
  float *x = malloc(count * sizeof *x);
  assert_non_null(x);
  draws(7, stream, 0, count, x);
  return x;
}

// the mean of a point's actions pushes it along a ring; four in five states are in one place
static void set_data(bfm_agent *agent) {
  float *normal = draw(bfm_random_normal, 2000, TRANSITIONS);
  float *uniform = draw(bfm_random_uniform, 2001, 2 * TRANSITIONS);
  float *act = draw(bfm_random_uniform, 2002, TRANSITIONS * ACT);
  float *obs = malloc(2 * TRANSITIONS * OBS * sizeof *obs), *next = obs + TRANSITIONS * OBS;
  for (int i = 0; i < TRANSITIONS; i++) {
    float angle = uniform[2 * i] < 0.8f ? 0.3f * normal[i] : 2 * (float)M_PI * uniform[2 * i + 1];
    float push = 0;
    for (int j = 0; j < ACT; j++) {
      act[i * ACT + j] = act[i * ACT + j] < 0.5f ? -1 : 1;
      push += 0.3f * act[i * ACT + j] / ACT;
    }
    observe(angle, obs + i * OBS);
    observe(angle + push, next + i * OBS);
  }
  assert_int_equal(bfm_agent_set_data(agent, TRANSITIONS, obs, act, next, NULL), BFM_OK);
  free(normal);
  free(uniform);
  free(act);
  free(obs);
}

// the guard's verdict within STEPS steps
static int train(const char *changes) {
  char options[512];
  snprintf(
      options, sizeof options,
      "{\"device\": \"cpu\", \"threads\": 1, \"seed\": 1, \"d\": 8, \"batch\": 64, \"hidden\": 64, "
      "\"feat\": 32, \"b-hidden\": 32, \"lr\": 1e-3, \"polyak\": 0.05, %s}",
      changes);
  bfm_agent *agent;
  assert_int_equal(bfm_agent_new(&agent, OBS, ACT, options), BFM_OK);
  set_data(agent);
  int status = BFM_OK;
  for (int step = 0; step < STEPS && !status; step += LOOK) {
    float losses[4];
    status = bfm_agent_train(agent, LOOK, losses);
    if (!status) status = guard_check(agent, losses);
  }
  printf("%s: %s\n", status ? bfm_error() : "stays within bounds", changes);
  bfm_agent_free(agent);
  return status;
}

static void diverges(void **state) { assert_int_equal(train(*state), BFM_DIVERGED); }
static void stays(void **state) { assert_int_equal(train(*state), BFM_OK); }

#define DIVERGES(options) {"diverges with " options, diverges, NULL, NULL, (void *)options}
#define STAYS(options) {"stays with " options, stays, NULL, NULL, (void *)options}

int main(void) {
  const struct CMUnitTest tests[] = {
      DIVERGES("\"algo\": \"fb-aw\""),
      DIVERGES("\"algo\": \"fb-aware\", \"blocks\": 4"),
      DIVERGES("\"algo\": \"fb-aw\", \"ortho\": 100"),
      STAYS("\"algo\": \"fb-aw\", \"f-norm\": true"),
      STAYS("\"algo\": \"fb-aware\", \"blocks\": 4, \"f-norm\": true"),
      STAYS("\"algo\": \"fb-aw\", \"ortho\": 100, \"f-norm\": true"),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
