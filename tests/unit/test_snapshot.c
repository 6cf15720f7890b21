// Snapshots: training from a restored snapshot is bit-identical to the first time, and a new learning
// rate applies from the next step on. If there is a GPU, the tests run on it too.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/snapshot.h"
#include "core/rng.h"

#define ROWS 64
#define OBS 3
#define ACT 2

static bfm_agent *make_agent(const char *device, const char *algo) {
  char options[256];
  snprintf(options, sizeof options,
           "{\"device\": \"%s\", \"algo\": \"%s\", \"d\": 4, \"batch\": 8, \"hidden\": 16, "
           "\"feat\": 8, \"b-hidden\": 8, \"seeds\": 2, \"z-pool\": 4, \"lr\": 1e-2}",
           device, algo);
  bfm_agent *agent;
  if (bfm_agent_new(&agent, OBS, ACT, options)) return NULL;
  float obs[ROWS * OBS], act[ROWS * ACT], next[ROWS * OBS];
  for (int i = 0; i < ROWS * OBS; i++) obs[i] = random_normal(1, STREAM_USER, 0, i);
  for (int i = 0; i < ROWS * OBS; i++) next[i] = random_normal(1, STREAM_USER, 1, i);
  for (int i = 0; i < ROWS * ACT; i++) act[i] = 2 * random_uniform(1, STREAM_USER, 2, i) - 1;
  assert_int_equal(bfm_agent_set_data(agent, ROWS, obs, act, next, NULL), BFM_OK);
  return agent;
}

static float *parameters(bfm_agent *agent) {
  float *out = malloc(agent->params.count * sizeof *out);
  assert_non_null(out);
  assert_int_equal(agent->ops->download(agent->ops, out, agent->params.value,
                                        agent->params.count * sizeof *out),
                   BFM_OK);
  assert_int_equal(agent->ops->sync(agent->ops), BFM_OK);
  return out;
}

static void check_restore(const char *device, const char *algo) {
  bfm_agent *agent = make_agent(device, algo);
  if (!agent) return;  // this machine has no such device
  Snapshot snapshot = {.memory = NULL};
  assert_int_equal(bfm_agent_train(agent, 6, NULL), BFM_OK);
  assert_int_equal(snapshot_take(&snapshot, agent), BFM_OK);
  assert_int_equal(bfm_agent_train(agent, 9, NULL), BFM_OK);
  float *first = parameters(agent);
  assert_int_equal(snapshot_restore(&snapshot, agent), BFM_OK);
  assert_int_equal(bfm_agent_step(agent), 6);
  assert_int_equal(bfm_agent_train(agent, 9, NULL), BFM_OK);
  float *again = parameters(agent);
  assert_memory_equal(first, again, agent->params.count * sizeof *first);

  assert_int_equal(agent_set_lr(agent, 0), BFM_OK);
  assert_int_equal(bfm_agent_train(agent, 5, NULL), BFM_OK);
  float *still = parameters(agent);
  assert_memory_equal(again, still, agent->params.count * sizeof *first);

  free(first);
  free(again);
  free(still);
  snapshot_free(&snapshot, agent);
  bfm_agent_free(agent);
}

static void test_restoring_a_snapshot_is_bit_identical(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "cuda"};
  static const char *const algos[] = {"fb", "fb-aware", "lap-aw"};
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 3; k++) check_restore(devices[i], algos[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_restoring_a_snapshot_is_bit_identical)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
