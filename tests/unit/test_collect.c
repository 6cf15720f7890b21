// Parts of collecting: the names of files beside a dataset, rewards of groups, buffered episodes.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "collect/crew.h"
#include "collect/d4rl_scores.h"
#include "collect/episodes.h"

static void test_names(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"data.h5", "data.log.jsonl"},         {"a.b/data", "a.b/data.log.jsonl"},
      {"/x/y.z/d.h5", "/x/y.z/d.log.jsonl"}, {".h5", ".h5.log.jsonl"},
      {"d/.h5", "d/.h5.log.jsonl"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[64];
    collect_path_beside(cases[i][0], "log.jsonl", path, sizeof path);
    assert_string_equal(path, cases[i][1]);
  }
}

// every option is in the table once, the table survives JSON, and --with lists the crews
static void test_options(void **state) {
  (void)state;
  const Option *table = collect_options();
  for (const Option *o = table; o->name; o++) assert_ptr_equal(options_find(table, o->name), o);
  assert_null(options_find(table, "algo"));
  CollectOptions a, b;
  assert_int_equal(options_default(table, &a), BFM_OK);
  assert_int_equal(options_default(table, &b), BFM_OK);
  assert_int_equal(options_set(table, &a, "hidden", "48"), BFM_OK);
  assert_int_equal(a.learner.hidden, 48);
  char *json = options_to_json(table, &a);
  assert_int_equal(options_from_json(table, &b, json), BFM_OK);
  assert_int_equal(b.learner.hidden, 48);
  free(json);

  static const char *const crews[] = {"random",
                                      "rnd",
                                      "mood",
                                      "td3",
                                      "policy",
                                      "d4rl-medium",
                                      "d4rl-medium-replay",
                                      "d4rl-medium-expert"};
  for (int i = 0; i < 8; i++) {
    assert_string_equal(crew_kinds[i].name, crews[i]);
    assert_int_equal(options_set(table, &a, "with", crews[i]), BFM_OK);
    assert_int_equal(a.with, i);
  }
}

static void test_d4rl_levels(void **state) {
  (void)state;
  assert_int_equal(d4rl_check("hopper", "", "x"), BFM_OK);
  assert_int_equal(d4rl_check("hopper", "run", "x"), BFM_OK);
  assert_int_equal(d4rl_check("hopper", "torso.z", "x"), BFM_BAD_ARGUMENT);
  assert_int_equal(d4rl_check("walker", "", "x"), BFM_BAD_ARGUMENT);
  assert_true(d4rl_return("walker2d", 1) == 4592.3);
  double third = d4rl_return("halfcheetah", 0);
  assert_true(third > 3858.2 && third < 3858.3);
}

// the rewards of groups equal those of the same environments when all have one task
static void test_groups(void **state) {
  (void)state;
  enum { N = 6 };
  static const char *const tasks[] = {"stand", "run", "torso.z"};
  bfm_env *env;
  assert_int_equal(bfm_env_new(&env, "walker", N, 3, 1), BFM_OK);
  double actions[N * 6] = {0}, rewards[N], same[N];
  for (int k = 0; k < N * 6; k++) actions[k] = (k % 7) / 3.5 - 1;
  for (int step = 0; step < 3; step++) {
    assert_int_equal(bfm_env_step(env, actions), BFM_OK);
    assert_int_equal(bfm_env_group_rewards(env, tasks, 3, rewards), BFM_OK);
    for (int g = 0; g < 3; g++) {
      assert_int_equal(bfm_env_reward(env, tasks[g], same), BFM_OK);
      assert_memory_equal(rewards + 2 * g, same + 2 * g, 2 * sizeof *same);
    }
  }
  assert_int_equal(bfm_env_group_rewards(env, tasks, 4, rewards), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "6 environments"));
  bfm_env_free(env);
}

// three environments: one terminates, one is written in pieces, one waits until the end
static void test_episodes(void **state) {
  (void)state;
  const bfm_env_sizes sizes =
      {.count = 3, .obs_dim = 2, .act_dim = 1, .nq = 1, .nv = 1, .episode_steps = 4};
  char path[] = "/tmp/bfm-episodes-XXXXXX";
  close(mkstemp(path));
  unlink(path);
  Moment m;
  Episodes *e;
  Writer *writer;
  int count;
  assert_int_equal(moment_new(&m, &sizes), BFM_OK);
  assert_int_equal(episodes_new(&e, &sizes), BFM_OK);
  const Table *tables = episodes_tables(e, &count);
  const Note notes[] = {{"env", "none"}};
  assert_int_equal(writer_create(&writer, path, tables, count, 9, notes, 1), BFM_OK);

  for (int t = 0; t < 3; t++) {
    for (int i = 0; i < 3; i++) {
      m.obs[2 * i] = 10 * i + t;
      m.next_obs[2 * i] = 10 * i + t + 1;
      m.ended[i] = i == 1 && t == 1 ? BFM_END_TERMINATED : 0;
      Label label = {.source = i, .task = -1, .step = 3 * t + i};
      assert_int_equal(episodes_put(e, writer, &m, i, label, i == 0 ? 1 : 5), BFM_OK);
      if (m.ended[i]) assert_int_equal(episodes_write(e, writer, i), BFM_OK);
    }
  }
  assert_int_equal(writer_rows(writer), 2);
  assert_int_equal(episodes_write_old(e, writer, 2), BFM_OK);
  assert_int_equal(writer_rows(writer), 5);
  assert_int_equal(episodes_write_old(e, writer, 9), BFM_OK);
  assert_int_equal(writer_close(writer), BFM_OK);

  static const float first[] = {10, 11, 0, 1, 2, 12, 20, 21, 22};
  static const int ends[] = {0, 1, 0, 0, 1, 1, 0, 0, 1};
  Dataset data;
  const char *name = path;
  assert_int_equal(dataset_read(&data, &name, 1), BFM_OK);
  assert_int_equal(data.count, 9);
  for (int i = 0; i < 9; i++) {
    assert_true(data.obs[2 * i] == first[i] && data.next_obs[2 * i] == first[i] + 1);
    assert_int_equal(data.ends[i], ends[i]);
    assert_true(data.discount[i] == (i == 1 ? 0 : 1));
  }
  dataset_free(&data);
  episodes_free(e);
  moment_free(&m);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),       cmocka_unit_test(test_options),
      cmocka_unit_test(test_d4rl_levels), cmocka_unit_test(test_groups),
      cmocka_unit_test(test_episodes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
