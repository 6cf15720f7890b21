// The promises of bfm.h that keep programs working across versions: structs that grow, the version,
// and the names of version 0.1.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bfm.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { OBS = 24, ACT = 6, D = 4, N = 4, NQ = 9 };
static const char small[] =
    "{\"d\": 4, \"blocks\": 1, \"batch\": 4, \"hidden\": 8, \"feat\": 4, "
    "\"b-hidden\": 4, \"device\": \"cpu\", \"threads\": 1}";
static float x[N * OBS], z[N * D];

static void good(int status) {
  if (status) fail_msg("%s", bfm_error());
}

static bfm_agent *make_agent(void) {
  bfm_agent *agent;
  good(bfm_agent_new(&agent, OBS, ACT, small));
  for (int i = 0; i < N * OBS; i++) x[i] = (float)(i % 7) / 7;
  for (int i = 0; i < N * D; i++) z[i] = (float)(i % 3) - 1;
  return agent;
}

// ------------------------------- structs that grow -----------------------------------------------

// a struct of a later version, with a field that this library does not know
#define LATER(type)  \
  struct {           \
    type known;      \
    const void *new; \
  }

static void test_a_batch_of_size_0_has_all_fields_of_version_0_1(void **state) {
  (void)state;
  bfm_agent *agent = make_agent();
  good(bfm_agent_update(agent, &(bfm_batch){.obs = x, .act = x, .next_obs = x}, NULL));
  bfm_batch full = {sizeof full, .obs = x, .act = x, .next_obs = x, .discount = x};
  good(bfm_agent_update(agent, &full, NULL));
  assert_int_equal(bfm_agent_step(agent), 2);
  bfm_agent_free(agent);
}

static void test_fields_beyond_a_smaller_size_are_not_read(void **state) {
  (void)state;
  bfm_agent *agent = make_agent();
  bfm_batch batch = {.size = offsetof(bfm_batch, discount), .obs = x, .act = x, .next_obs = x,
                     .discount = (const float *)1, .z = (const float *)1};
  good(bfm_agent_update(agent, &batch, NULL));
  batch.size = offsetof(bfm_batch, next_obs);
  assert_int_equal(bfm_agent_update(agent, &batch, NULL), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "next_obs"));
  bfm_agent_free(agent);
}

static void test_a_larger_size_is_taken_while_the_unknown_fields_are_zero(void **state) {
  (void)state;
  bfm_agent *agent = make_agent();
  LATER(bfm_batch) later = {{sizeof later, .obs = x, .act = x, .next_obs = x}, NULL};
  good(bfm_agent_update(agent, &later.known, NULL));
  later.new = x;
  assert_int_equal(bfm_agent_update(agent, &later.known, NULL), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "bfm_batch.size is 72"));
  later.known.size = (size_t)1 << 40;
  assert_int_equal(bfm_agent_update(agent, &later.known, NULL), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "sizeof(bfm_batch)"));
  bfm_agent_free(agent);
}

static void test_the_size_of_an_explorer_batch(void **state) {
  (void)state;
  bfm_explorer *explorer;
  good(bfm_explorer_new(&explorer, OBS, ACT, 1, 1,
                        "{\"hidden\": 8, \"batch\": 4, \"device\": \"cpu\"}"));
  LATER(bfm_explorer_batch)
  later = {{.obs = x, .act = x, .reward = x, .discount = x, .next_obs = x}, x};
  good(bfm_explorer_learn(explorer, &later.known));
  later.known.size = offsetof(bfm_explorer_batch, next_obs);
  assert_int_equal(bfm_explorer_learn(explorer, &later.known), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "next_obs"));
  later.known.size = sizeof later;
  assert_int_equal(bfm_explorer_learn(explorer, &later.known), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "bfm_explorer_batch.size is 64"));
  bfm_explorer_free(explorer);
}

static void test_the_size_of_an_evaluation(void **state) {
  (void)state;
  bfm_agent *agent = make_agent();
  good(bfm_agent_set_prompt(agent, "walker", 0, NULL, NULL, NULL, NULL));
  const char *task = "torso.z";
  double old[2], returns[2];
  LATER(bfm_evaluation)
  later = {{.tasks = &task, .task_count = 1, .z = z, .episodes = 2, .steps = 3, .seed = 5}, x};
  good(bfm_agent_evaluate(agent, &later.known, old));
  later.known.size = sizeof(bfm_evaluation);
  good(bfm_agent_evaluate(agent, &later.known, returns));
  assert_memory_equal(returns, old, sizeof old);
  later.known.size = offsetof(bfm_evaluation, seed);
  good(bfm_agent_evaluate(agent, &later.known, returns));
  assert_memory_not_equal(returns, old, sizeof old);
  later.known.size = sizeof later;
  assert_int_equal(bfm_agent_evaluate(agent, &later.known, returns), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "bfm_evaluation.size"));
  bfm_agent_free(agent);
}

static void test_getters_write_no_more_than_they_know_and_no_less_than_version_0_1(void **state) {
  (void)state;
  bfm_env *env;
  bfm_explorer *explorer;
  good(bfm_env_new(&env, "walker", 3, 0, 1));
  good(bfm_explorer_new(&explorer, OBS, ACT, 2, 3, "{\"hidden\": 8, \"device\": \"cpu\"}"));
  const size_t sizes[] = {0, 3, sizeof(bfm_env_sizes), 1000, (size_t)-1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    LATER(bfm_env_sizes) of_env = {{.size = sizes[i]}, x};
    LATER(bfm_explorer_sizes) of_explorer = {{.size = sizes[i]}, x};
    bfm_env_get_sizes(env, &of_env.known);
    assert_int_equal(of_env.known.size, sizeof(bfm_env_sizes));
    assert_int_equal(of_env.known.count, 3);
    assert_int_equal(of_env.known.nq, NQ);
    assert_true(of_env.known.control_dt > 0);
    assert_ptr_equal(of_env.new, x);
    bfm_explorer_get_sizes(explorer, &of_explorer.known);
    assert_int_equal(of_explorer.known.size, sizeof(bfm_explorer_sizes));
    assert_int_equal(of_explorer.known.obs_dim, OBS);
    assert_int_equal(of_explorer.known.envs, 3);
    assert_ptr_equal(of_explorer.new, x);
  }
  bfm_explorer_free(explorer);
  bfm_env_free(env);
}

// ------------------------------- version ---------------------------------------------------------

static void test_the_version_is_one_in_every_form(void **state) {
  (void)state;
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", BFM_VERSION_MAJOR, BFM_VERSION_MINOR, BFM_VERSION_PATCH);
  assert_string_equal(BFM_VERSION, text);
  assert_string_equal(bfm_version(), text);
  assert_int_equal(bfm_version_number(), BFM_VERSION_NUMBER);
  assert_true(BFM_VERSION_NUMBER >= 200);
}

// ------------------------------- one z for many rows ---------------------------------------------

static void test_one_z_is_the_same_z_in_every_row(void **state) {
  (void)state;
  bfm_agent *agent;
  good(bfm_agent_new(&agent, OBS, ACT,
                     "{\"d\": 4, \"blocks\": 2, \"batch\": 4, \"hidden\": 8, \"feat\": 4, "
                     "\"b-hidden\": 4, \"device\": \"cpu\", \"threads\": 1}"));
  enum { ROWS = 5000 };  // more than a chunk
  static float obs[ROWS * OBS], act[ROWS * ACT], many[ROWS * D];
  static float one[2 * ROWS * D], each[2 * ROWS * D];
  bfm_random_normal(1, 0, 0, ROWS * OBS, obs);
  bfm_random_uniform(2, 0, 0, ROWS * ACT, act);
  bfm_random_normal(3, 0, 0, D, z);
  for (int i = 0; i < ROWS * D; i++) many[i] = z[i % D];
  for (int es = 0; es < 8; es += 7) {
    good(bfm_agent_act(agent, 0, ROWS, obs, many, es, 1, 2, each));
    good(bfm_agent_act_one_z(agent, 0, ROWS, obs, z, es, 1, 2, one));
    assert_memory_equal(one, each, ROWS * ACT * sizeof *one);
  }
  good(bfm_agent_pi(agent, 0, ROWS, obs, many, each));
  good(bfm_agent_pi_one_z(agent, 0, ROWS, obs, z, one));
  assert_memory_equal(one, each, ROWS * ACT * sizeof *one);
  good(bfm_agent_F(agent, 0, ROWS, obs, act, many, each));
  good(bfm_agent_F_one_z(agent, 0, ROWS, obs, act, z, one));
  assert_memory_equal(one, each, 2 * ROWS * D * sizeof *one);
  good(bfm_agent_B(agent, 0, ROWS, obs, many, each));
  good(bfm_agent_B_one_z(agent, 0, ROWS, obs, z, one));
  assert_memory_equal(one, each, ROWS * D * sizeof *one);
  bfm_agent_free(agent);
}

// ------------------------------- prompt states ---------------------------------------------------

static void test_prompt_states_can_be_read_back(void **state) {
  (void)state;
  bfm_agent *agent = make_agent();
  double qpos[2 * NQ], qvel[2 * NQ];
  for (int i = 0; i < 2 * NQ; i++) qpos[i] = i, qvel[i] = -i;
  int64_t columns = 1;
  assert_null(bfm_agent_prompt_obs(agent));
  assert_null(bfm_agent_prompt_qpos(agent, &columns));
  assert_int_equal(columns, 0);
  good(bfm_agent_set_prompt(agent, "walker", 2, x, qpos, qvel, NULL));
  assert_memory_equal(bfm_agent_prompt_obs(agent), x, 2 * OBS * sizeof *x);
  assert_memory_equal(bfm_agent_prompt_qpos(agent, &columns), qpos, sizeof qpos);
  assert_int_equal(columns, NQ);
  assert_memory_equal(bfm_agent_prompt_qvel(agent, NULL), qvel, sizeof qvel);
  assert_null(bfm_agent_prompt_act(agent, &columns));
  assert_int_equal(columns, 0);
  bfm_agent_free(agent);
}

// ------------------------------- names of version 0.1 --------------------------------------------

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void count_name(void *context, const char *kind, const char *name, const char *help) {
  (void)kind, (void)name, (void)help;
  ++*(int *)context;
}

static void test_names_of_version_0_1_still_work(void **state) {
  (void)state;
  bfm_env *env;
  uint8_t old[3], now[3];
  double action[3 * ACT] = {0}, qpos[NQ] = {0}, reward = 0, same = 1;
  good(bfm_env_new(&env, "walker", 3, 0, 1));
  good(bfm_env_step(env, action));
  bfm_env_ended(env, old);
  bfm_env_end_reasons(env, now);
  assert_memory_equal(old, now, sizeof now);
  bfm_ended bits = BFM_ENDED_TERMINATED | BFM_ENDED_TIME | BFM_ENDED_DIVERGED;
  assert_int_equal(bits, BFM_END_TERMINATED | BFM_END_TIME_LIMIT | BFM_END_DIVERGED);
  int names = 0;
  bfm_each_name *each = count_name;
  bfm_env_names(env, each, &names);
  assert_true(names > 10);
  bfm_env_free(env);

  assert_string_equal(bfm_task_name("walker", 0, NULL, NULL),
                      bfm_domain_task("walker", 0, NULL, NULL));
  good(bfm_rewards("walker", "torso.z", 1, qpos, NULL, NULL, 1, &reward));
  good(bfm_domain_rewards("walker", "torso.z", 1, qpos, NULL, NULL, 1, &same));
  assert_true(reward == same);
  assert_int_equal(bfm_pictures("walker", 0, qpos, 1, 64, 64, "picture.png"), BFM_BAD_ARGUMENT);

  bfm_agent *agent = make_agent();
  assert_int_equal(bfm_agent_prompt_kept(agent, 0, "/nowhere/z.json", z), BFM_IO);
  bfm_agent_free(agent);
  bfm_explorer *explorer;
  good(bfm_explorer_new(&explorer, OBS, ACT, 1, 1, "{\"hidden\": 8, \"device\": \"cpu\"}"));
  assert_int_equal(bfm_explorer_row(explorer), bfm_explorer_row_size(explorer));
  bfm_explorer_free(explorer);
}

#pragma GCC diagnostic pop

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_batch_of_size_0_has_all_fields_of_version_0_1),
      cmocka_unit_test(test_fields_beyond_a_smaller_size_are_not_read),
      cmocka_unit_test(test_a_larger_size_is_taken_while_the_unknown_fields_are_zero),
      cmocka_unit_test(test_the_size_of_an_explorer_batch),
      cmocka_unit_test(test_the_size_of_an_evaluation),
      cmocka_unit_test(test_getters_write_no_more_than_they_know_and_no_less_than_version_0_1),
      cmocka_unit_test(test_the_version_is_one_in_every_form),
      cmocka_unit_test(test_one_z_is_the_same_z_in_every_row),
      cmocka_unit_test(test_prompt_states_can_be_read_back),
      cmocka_unit_test(test_names_of_version_0_1_still_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
