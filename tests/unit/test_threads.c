// One agent in many threads: acting, prompting and the networks are bit-identical to a single thread,
// and a call that changes the agent waits for calls that read it.

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "bfm.h"

enum { OBS = 5, ACT = 3, D = 8, ROWS = 64, STATES = 300, THREADS = 8, CALLS = 200 };

static const char *const small =
    "{\"algo\": \"fb-aware\", \"d\": 8, \"blocks\": 4, \"batch\": 16, \"hidden\": 16, \"feat\": 8, "
    "\"b-hidden\": 8, \"threads\": 2, \"device\": \"cpu\"}";

static float obs[STATES * OBS], act[STATES * ACT], z[STATES * D], reward[STATES];

static int setup(void **state) {
  (void)state;
  bfm_random_normal(1, 0, 0, STATES * OBS, obs);
  bfm_random_normal(1, 0, 2, STATES * D, z);
  bfm_random_normal(1, 0, 3, STATES, reward);
  bfm_random_uniform(1, 0, 1, STATES * ACT, act);
  return 0;
}

// the results of the calls that each thread repeats, to compare with those of a single thread
typedef struct {
  bfm_agent *agent;
  int es;
  float act[ROWS * ACT], f[2 * ROWS * D], b[ROWS * D], prompted[D];
} Answers;

static void answer(Answers *a) {
  assert_int_equal(bfm_agent_act(a->agent, 0, ROWS, obs, z, a->es, 7, 9, a->act), BFM_OK);
  assert_int_equal(bfm_agent_F(a->agent, 0, ROWS, obs, act, z, a->f), BFM_OK);
  assert_int_equal(bfm_agent_B(a->agent, 0, ROWS, obs, z, a->b), BFM_OK);
  assert_int_equal(bfm_agent_prompt_reward(a->agent, 0, STATES, obs, reward, 0, a->prompted),
                   BFM_OK);
}

typedef struct {
  const Answers *expected;
  bfm_agent *agent;
  int calls, wrong;
} Caller;

static void *call(void *context) {
  Caller *c = context;
  Answers *a = calloc(1, sizeof *a);
  for (int i = 0; i < c->calls; i++) {
    a->agent = c->agent;
    a->es = c->expected->es;
    memset(a->act, 0, sizeof a->act);
    c->wrong += bfm_agent_act(a->agent, 0, ROWS, obs, z, a->es, 7, 9, a->act) != BFM_OK;
    c->wrong += memcmp(a->act, c->expected->act, sizeof a->act) != 0;
    if (i % 8) continue;
    c->wrong += bfm_agent_F(a->agent, 0, ROWS, obs, act, z, a->f) != BFM_OK;
    c->wrong += bfm_agent_B(a->agent, 0, ROWS, obs, z, a->b) != BFM_OK;
    c->wrong += bfm_agent_prompt_reward(a->agent, 0, STATES, obs, reward, 0, a->prompted) != BFM_OK;
    c->wrong += memcmp(a->f, c->expected->f, sizeof a->f) != 0;
    c->wrong += memcmp(a->b, c->expected->b, sizeof a->b) != 0;
    c->wrong += memcmp(a->prompted, c->expected->prompted, sizeof a->prompted) != 0;
  }
  free(a);
  return NULL;
}

static void *train(void *context) {
  bfm_agent *agent = context;
  for (int i = 0; i < 20; i++) {
    if (bfm_agent_train(agent, 5, NULL)) return agent;
  }
  return NULL;
}

static bfm_agent *agent_with_data(void) {
  bfm_agent *agent;
  assert_int_equal(bfm_agent_new(&agent, OBS, ACT, small), BFM_OK);
  assert_int_equal(bfm_agent_set_data(agent, STATES - 1, obs, act, obs + OBS, NULL), BFM_OK);
  return agent;
}

static void start(Caller *callers, pthread_t *threads, const Answers *expected, bfm_agent *agent) {
  for (int i = 0; i < THREADS; i++) {
    callers[i] = (Caller){.expected = expected, .agent = agent, .calls = CALLS};
    assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
  }
}

static void finish(const Caller *callers, const pthread_t *threads) {
  int wrong = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    wrong += callers[i].wrong;
  }
  assert_int_equal(wrong, 0);
}

// 8 threads × 200 calls × 64 rows: 100,000 actions, while two agents with the same seed train
static void test_a_shared_agent_is_bit_identical_to_one_thread(void **state) {
  (void)state;
  Caller callers[THREADS];
  pthread_t threads[THREADS], trainers[2];
  bfm_agent *trained[2] = {agent_with_data(), agent_with_data()};
  Answers *expected = calloc(1, sizeof *expected);
  assert_int_equal(bfm_agent_new(&expected->agent, OBS, ACT, small), BFM_OK);
  expected->es = 4;
  answer(expected);
  start(callers, threads, expected, expected->agent);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pthread_create(&trainers[i], NULL, train, trained[i]), 0);
  }
  finish(callers, threads);

  float first[16 * OBS], second[16 * OBS];
  for (int i = 0; i < 2; i++) {
    void *failed;
    pthread_join(trainers[i], &failed);
    assert_null(failed);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(bfm_agent_get_tensor(trained[i], 0, "B.s.in.weight", i ? second : first,
                                          8 * OBS),
                     BFM_OK);
    bfm_agent_free(trained[i]);
  }
  assert_memory_equal(first, second, 8 * OBS * sizeof *first);
  bfm_agent_free(expected->agent);
  free(expected);
}

// The actions of an agent while it trains: each uses the parameters before or after a whole call.
static void test_acting_during_training_sees_only_whole_calls(void **state) {
  (void)state;
  enum { PHASES = 21 };
  static float expected[PHASES][ROWS * ACT], seen[ROWS * ACT];
  bfm_agent *agent = agent_with_data();
  for (int i = 0; i < PHASES; i++) {
    assert_int_equal(bfm_agent_act(agent, 0, ROWS, obs, z, 0, 0, 0, expected[i]), BFM_OK);
    if (i + 1 < PHASES) assert_int_equal(bfm_agent_train(agent, 5, NULL), BFM_OK);
  }
  bfm_agent_free(agent);

  pthread_t trainer;
  agent = agent_with_data();
  assert_int_equal(pthread_create(&trainer, NULL, train, agent), 0);
  for (int phase = 0, calls = 0; phase < PHASES - 1 && calls < 100000; calls++) {
    assert_int_equal(bfm_agent_act(agent, 0, ROWS, obs, z, 0, 0, 0, seen), BFM_OK);
    while (phase < PHASES && memcmp(seen, expected[phase], sizeof seen)) phase++;
    assert_true(phase < PHASES);
  }
  void *failed;
  pthread_join(trainer, &failed);
  assert_null(failed);
  bfm_agent_free(agent);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_shared_agent_is_bit_identical_to_one_thread),
      cmocka_unit_test(test_acting_during_training_sees_only_whole_calls),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
