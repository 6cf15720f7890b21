// Arguments of bfm.h's functions: every function that returns a status refuses a NULL pointer that it
// needs and names it. Strings that belong to the agent itself are accepted.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bfm.h"

static void good(int status) {
  if (status) fail_msg("%s", bfm_error());
}

// checks that a call failed with BFM_BAD_ARGUMENT and that the message contains this word
static void refused(int status, const char *word) {
  if (status != BFM_BAD_ARGUMENT) fail_msg("%s: status %d", word, status);
  if (!strstr(bfm_error(), word)) fail_msg("\"%s\" does not name %s", bfm_error(), word);
}

enum { OBS = 24, ACT = 6, D = 4, N = 4, NQ = 9 };
static const char small[] =
    "{\"d\": 4, \"blocks\": 1, \"batch\": 4, \"hidden\": 8, \"feat\": 4, "
    "\"b-hidden\": 4, \"device\": \"cpu\", \"threads\": 1}";
static float x[N * OBS], z[N * D], out[1024];
static double wide[OBS];

static bfm_agent *make_agent(void) {
  bfm_agent *a;
  double qpos[2 * NQ] = {[NQ] = 0.5};  // states that rewards tell apart
  good(bfm_agent_new(&a, OBS, ACT, small));
  good(bfm_agent_set_data(a, N, x, x, x, NULL));
  good(bfm_agent_train(a, 1, NULL));
  good(bfm_agent_set_prompt(a, "walker", 2, x, qpos, NULL, NULL));
  for (int i = 0; i < N * D; i++) z[i] = 1;
  return a;
}

static void test_agents_name_what_is_missing(void **state) {
  (void)state;
  bfm_agent *a = make_agent();
  const char *name;
  int dims;
  int64_t shape[4];
  good(bfm_agent_tensor_info(a, 0, &name, &dims, shape));

  refused(bfm_agent_new(NULL, OBS, ACT, NULL), "agent");
  refused(bfm_agent_load(NULL, "model", NULL), "agent");
  refused(bfm_agent_tensor_info(NULL, 0, &name, &dims, shape), "agent");
  refused(bfm_agent_tensor_info(a, 0, NULL, &dims, shape), "name");
  refused(bfm_agent_tensor_info(a, 0, &name, NULL, shape), "dims");
  refused(bfm_agent_tensor_info(a, 0, &name, &dims, NULL), "shape");
  refused(bfm_agent_get_tensor(NULL, 0, name, out, 1), "agent");
  refused(bfm_agent_get_tensor(a, 0, NULL, out, 1), "name");
  refused(bfm_agent_get_tensor(a, 0, name, NULL, 1), "out");
  refused(bfm_agent_set_tensor(NULL, 0, name, out, 1), "agent");
  refused(bfm_agent_set_tensor(a, 0, NULL, out, 1), "name");
  refused(bfm_agent_update(NULL, &(bfm_batch){.obs = x, .act = x, .next_obs = x}, NULL), "agent");
  refused(bfm_agent_metrics(NULL, out), "agent");
  refused(bfm_agent_metrics(a, NULL), "out");
  refused(bfm_agent_set_data(NULL, N, x, x, x, NULL), "agent");
  refused(bfm_agent_train(NULL, 1, NULL), "agent");
  refused(bfm_agent_F(NULL, 0, 1, x, x, z, out), "agent");
  refused(bfm_agent_F(a, 0, 1, x, x, z, NULL), "out");
  refused(bfm_agent_B(NULL, 0, 1, x, z, out), "agent");
  refused(bfm_agent_B(a, 0, 1, x, z, NULL), "out");
  refused(bfm_agent_pi(NULL, 0, 1, x, z, out), "agent");
  refused(bfm_agent_pi(a, 0, 1, x, z, NULL), "out");
  refused(bfm_agent_act(NULL, 0, 1, x, z, 0, 0, 0, out), "agent");
  refused(bfm_agent_act(a, 0, 1, NULL, z, 0, 0, 0, out), "obs");
  refused(bfm_agent_act(a, 0, 1, x, z, 0, 0, 0, NULL), "act");
  refused(bfm_agent_fingerprint(NULL, 0, (char[9]){0}), "agent");
  refused(bfm_agent_fingerprint(a, 0, NULL), "out");
  refused(bfm_agent_save_model(NULL, 0, "model"), "agent");
  refused(bfm_agent_save_state(NULL, "state"), "agent");
  refused(bfm_agent_export(NULL, 0, "model", 0, 0, -1), "agent");
  bfm_agent_free(a);
}

static void test_prompts_name_what_is_missing(void **state) {
  (void)state;
  bfm_agent *a = make_agent();
  const char *tasks[] = {"stand", NULL};
  double returns[2];
  bfm_evaluation plan = {.tasks = tasks, .task_count = 2, .episodes = 1, .steps = 1};
  refused(bfm_agent_evaluate(NULL, &plan, returns), "agent");
  refused(bfm_agent_evaluate(a, NULL, returns), "evaluation");
  refused(bfm_agent_evaluate(a, &plan, NULL), "returns");
  refused(bfm_agent_evaluate(a, &plan, returns), "task");
  plan.z = z;
  refused(bfm_agent_evaluate(a, &plan, returns), "task");
  plan.tasks = NULL;
  refused(bfm_agent_evaluate(a, &plan, returns), "task");

  refused(bfm_agent_prompt_reward(NULL, 0, 1, x, x, 0, z), "agent");
  refused(bfm_agent_prompt_reward(a, 0, 1, x, NULL, 0, z), "reward");
  refused(bfm_agent_prompt_reward(a, 0, 1, x, x, 0, NULL), "z");
  refused(bfm_agent_prompt_states(NULL, 0, 1, x, z), "agent");
  refused(bfm_agent_prompt_states(a, 0, 1, x, NULL), "z");
  refused(bfm_agent_set_prompt(NULL, "walker", 0, NULL, NULL, NULL, NULL), "agent");
  refused(bfm_agent_set_prompt(a, NULL, 0, NULL, NULL, NULL, NULL), "env");
  refused(bfm_agent_prompt_text(NULL, 0, "stand", 0, z), "agent");
  refused(bfm_agent_prompt_text(a, 0, NULL, 0, z), "reward");
  refused(bfm_agent_prompt_text(a, 0, "stand", 0, NULL), "z");
  char text[8];
  refused(bfm_agent_prompt_warning(NULL, "torso.z", text, sizeof text), "agent");
  refused(bfm_agent_prompt_warning(a, NULL, text, sizeof text), "reward");
  refused(bfm_agent_prompt_warning(a, "torso.z", NULL, 0), "warning");
  refused(bfm_agent_prompt_goal(NULL, 0, "speed = 0", z, NULL, 0), "agent");
  refused(bfm_agent_prompt_goal(a, 0, NULL, z, NULL, 0), "goal");
  refused(bfm_agent_prompt_goal(a, 0, "speed = 0", NULL, NULL, 0), "z");
  refused(bfm_agent_prompt_state(NULL, 0, wide, NULL, NULL, z), "agent");
  refused(bfm_agent_prompt_state(a, 0, NULL, NULL, NULL, z), "qpos");
  refused(bfm_agent_prompt_state(a, 0, wide, NULL, NULL, NULL), "z");
  refused(bfm_agent_prompt_demo(NULL, 0, "demo.h5", z), "agent");
  refused(bfm_agent_prompt_demo(a, 0, NULL, z), "path");
  refused(bfm_agent_prompt_demo(a, 0, "demo.h5", NULL), "z");
  refused(bfm_agent_prompt_file(NULL, 0, "z.json", z), "agent");
  refused(bfm_agent_prompt_file(a, 0, NULL, z), "path");
  refused(bfm_agent_prompt_file(a, 0, "z.json", NULL), "z");
  bfm_agent_free(a);
}

static void test_set_prompt_accepts_the_agents_own_env_string(void **state) {
  (void)state;
  bfm_agent *a = make_agent();
  double qpos[3 * NQ] = {0};
  good(bfm_agent_set_prompt(a, bfm_agent_env(a), 3, x, qpos, NULL, NULL));
  assert_string_equal(bfm_agent_env(a), "walker");
  assert_int_equal(bfm_agent_prompt_count(a), 3);
  bfm_agent_free(a);
}

static void test_refused_prompt_states_leave_the_old_ones(void **state) {
  (void)state;
  bfm_agent *a = make_agent();
  double qpos[3 * NQ] = {[20] = NAN};
  refused(bfm_agent_set_prompt(a, "walker", 3, x, qpos, NULL, NULL), "finite");
  refused(bfm_agent_set_prompt(a, "hopper", 3, x, qpos, NULL, NULL), "hopper");
  refused(bfm_agent_set_prompt(a, "nowhere", 0, NULL, NULL, NULL, NULL), "nowhere");
  assert_string_equal(bfm_agent_env(a), "walker");
  assert_int_equal(bfm_agent_prompt_count(a), 2);
  good(bfm_agent_prompt_text(a, 0, "torso.z", 0, out));
  bfm_agent_free(a);
}

static void test_numbers_beyond_what_can_be_counted_are_refused(void **state) {
  (void)state;
  bfm_agent *a = make_agent();
  refused(bfm_agent_prompt_states(a, 0, 1LL << 62, NULL, z), "obs is missing");
  refused(bfm_agent_prompt_states(a, 0, 1LL << 62, x, z), "4611686018427387904");
  refused(bfm_agent_train(a, INT64_MAX, NULL), "9223372036854775807");
  const bfm_prompt cut = {.size = 12, .reward = "torso.z"};
  refused(bfm_agent_prompt(a, 0, &cut, z, NULL, 0), "bfm_prompt.size is 12");
  bfm_agent_free(a);
}

static void test_an_update_refuses_a_z_that_says_nothing(void **state) {
  (void)state;
  bfm_agent *a = make_agent();
  static float zero[N * D];
  const bfm_batch batch = {.size = sizeof batch, .obs = x, .act = x, .next_obs = x, .z = zero};
  refused(bfm_agent_update(a, &batch, NULL), "norm 0");
  bfm_agent_free(a);
}

static void test_explorers_name_what_is_missing(void **state) {
  (void)state;
  bfm_explorer *e;
  const char *name;
  int dims;
  int64_t shape[4];
  good(bfm_explorer_new(&e, OBS, ACT, 1, 1, "{\"hidden\": 8, \"batch\": 4, \"device\": \"cpu\"}"));
  good(bfm_explorer_tensor_info(e, 0, &name, &dims, shape));

  refused(bfm_explorer_new(NULL, OBS, ACT, 1, 1, NULL), "explorer");
  refused(bfm_explorer_load(NULL, "policy", 0, NULL), "explorer");
  refused(bfm_explorer_act(NULL, x, 0, 0, out), "explorer");
  refused(bfm_explorer_act(e, NULL, 0, 0, out), "obs");
  refused(bfm_explorer_act(e, x, 1, 0, NULL), "act");
  refused(bfm_explorer_add(NULL, x), "explorer");
  refused(bfm_explorer_add(e, NULL), "rows");
  refused(bfm_explorer_update(NULL, 1), "explorer");
  refused(bfm_explorer_learn(NULL, &(bfm_explorer_batch){.obs = x}), "explorer");
  refused(bfm_explorer_learn(e, NULL), "batch");
  refused(bfm_explorer_losses(NULL, out), "explorer");
  refused(bfm_explorer_losses(e, NULL), "losses");
  refused(bfm_explorer_tensor_info(NULL, 0, &name, &dims, shape), "explorer");
  refused(bfm_explorer_tensor_info(e, 0, NULL, &dims, shape), "name");
  refused(bfm_explorer_get_tensor(NULL, 0, name, out, 1), "explorer");
  refused(bfm_explorer_get_tensor(e, 0, NULL, out, 1), "name");
  refused(bfm_explorer_get_tensor(e, 0, name, NULL, 1), "out");
  refused(bfm_explorer_set_tensor(NULL, 0, name, out, 1), "explorer");
  refused(bfm_explorer_set_tensor(e, 0, NULL, out, 1), "name");
  refused(bfm_explorer_save_model(NULL, 0, NULL, NULL, "policy"), "explorer");
  refused(bfm_explorer_save_state(NULL, "state"), "explorer");
  bfm_explorer_free(e);
}

static void test_environments_name_what_is_missing(void **state) {
  (void)state;
  bfm_env *env;
  double reward;
  good(bfm_env_new(&env, "walker", 1, 0, 1));
  refused(bfm_env_new(NULL, "walker", 1, 0, 1), "env");
  refused(bfm_env_reset(NULL, NULL), "env");
  refused(bfm_env_step(NULL, wide), "env");
  refused(bfm_env_step(env, NULL), "actions");
  refused(bfm_env_set_state(NULL, wide, NULL, NULL), "env");
  refused(bfm_env_reward(NULL, "stand", &reward), "env");
  refused(bfm_env_reward(env, NULL, &reward), "task");
  refused(bfm_env_reward(env, "stand", NULL), "rewards");
  refused(bfm_env_group_rewards(env, NULL, 1, &reward), "tasks");
  bfm_env_free(env);

  refused(bfm_domain_rewards(NULL, "stand", 1, wide, NULL, NULL, 1, &reward), "domain");
  refused(bfm_domain_rewards("walker", NULL, 1, wide, NULL, NULL, 1, &reward), "task");
  refused(bfm_domain_rewards("walker", "stand", 1, NULL, NULL, NULL, 1, &reward), "qpos");
  refused(bfm_domain_rewards("walker", "stand", 1, wide, NULL, NULL, 1, NULL), "rewards");
  good(bfm_domain_rewards("walker", "stand", 0, NULL, NULL, NULL, 1, NULL));
  refused(bfm_domain_render("walker", 1, NULL, 1, 64, 64, "picture.png"), "qpos");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_beyond_what_can_be_counted_are_refused),
      cmocka_unit_test(test_an_update_refuses_a_z_that_says_nothing),
      cmocka_unit_test(test_agents_name_what_is_missing),
      cmocka_unit_test(test_prompts_name_what_is_missing),
      cmocka_unit_test(test_set_prompt_accepts_the_agents_own_env_string),
      cmocka_unit_test(test_refused_prompt_states_leave_the_old_ones),
      cmocka_unit_test(test_explorers_name_what_is_missing),
      cmocka_unit_test(test_environments_name_what_is_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
