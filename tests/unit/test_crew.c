// The data that learners get: a step's rows go to the replay buffer, and after a resume the rows of
// the dataset go back to it in the order of time. The buffer cannot be read, so this file replaces
// the function that fills it.

#define bfm_explorer_add catch_rows
#include "collect/crew.c"
#undef bfm_explorer_add

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 4, ROW = 4 + 2 + 1 + 1 + 4 + 1, STEPS = 6 };
static float caught[STEPS][N][ROW];
static int count;

bfm_status catch_rows(bfm_explorer *explorer, const float *rows) {
  (void)explorer;
  assert_true(count < STEPS);
  memcpy(caught[count++], rows, sizeof *caught);
  return BFM_OK;
}

// Environment 1 terminates in step 1; environment 2 has lost its row of step 3. The environments are
// written one after another, like pieces of episodes.
static void write_file(const char *path, const bfm_env_sizes *sizes) {
  Moment m;
  Episodes *e;
  Writer *writer;
  int tables_count;
  assert_int_equal(moment_new(&m, sizes), BFM_OK);
  assert_int_equal(episodes_new(&e, sizes), BFM_OK);
  const Table *tables = episodes_tables(e, &tables_count);
  const Note notes[] = {{"env", "point_mass"}};
  int64_t rows = N * STEPS - 1;
  assert_int_equal(writer_create(&writer, path, tables, tables_count, rows, notes, 1), BFM_OK);
  for (int i = N; i-- > 0;) {
    for (int t = 0; t < STEPS; t++) {
      if (i == 2 && t == 3) continue;
      m.obs[4 * i] = 100 * i + t;
      m.next_obs[4 * i] = 100 * i + t + 1;
      m.rewards[i] = 1000 * i + t;
      m.actions[2 * i] = 0.125 * t;
      m.ended[i] = i == 1 && t == 1 ? BFM_END_TERMINATED : 0;
      Label label = {.step = N * t + i};
      assert_int_equal(episodes_put(e, writer, &m, i, label, 0), BFM_OK);
      if (m.ended[i]) assert_int_equal(episodes_write(e, writer, i), BFM_OK);
    }
    assert_int_equal(episodes_write(e, writer, i), BFM_OK);
  }
  assert_int_equal(writer_close(writer), BFM_OK);
  episodes_free(e);
  moment_free(&m);
}

// a learner with N environments, before any rows
static bfm_env *open_crew(Crew *crew, CollectOptions *options) {
  const Option *table = collect_options();
  static const char *const set[][2] = {{"with", "td3"}, {"envs", "4"},     {"hidden", "16"},
                                       {"batch", "16"}, {"device", "cpu"}, {"threads", "1"}};
  assert_int_equal(options_default(table, options), BFM_OK);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(options_set(table, options, set[i][0], set[i][1]), BFM_OK);
  }
  bfm_env *env;
  assert_int_equal(crew_choose(crew, "point_mass", options, 1), BFM_OK);
  assert_int_equal(bfm_env_new(&env, "point_mass", N, 0, 1), BFM_OK);
  assert_int_equal(crew_open(crew, env, NULL), BFM_OK);
  count = 0;
  return env;
}

// a termination sets the discount to 0; a time limit only ends the sum of n-step rewards
static void test_steps_go_to_the_replay_buffer(void **state) {
  (void)state;
  CollectOptions options;
  Crew crew;
  bfm_env *env = open_crew(&crew, &options);
  Moment m;
  assert_int_equal(moment_new(&m, &crew.sizes), BFM_OK);
  static const uint8_t ended[N] = {0, BFM_END_TIME_LIMIT, BFM_END_TERMINATED,
                                   BFM_END_TERMINATED | BFM_END_TIME_LIMIT};
  memcpy(m.ended, ended, sizeof ended);
  for (int k = 0; k < 4 * N; k++) {
    m.obs[k] = k + 0.5;
    m.next_obs[k] = -k;
    int row = k / 4;
    m.rewards[row] = 100 * row;
  }
  assert_int_equal(crew_act(&crew, m.obs, 1, 0, m.actions), BFM_OK);
  assert_int_equal(crew_add(&crew, &m), BFM_OK);
  assert_int_equal(count, 1);
  for (int i = 0; i < N; i++) {
    const float *row = caught[0][i];
    for (int k = 0; k < 4; k++) {
      assert_true(row[k] == m.obs[4 * i + k] && row[8 + k] == m.next_obs[4 * i + k]);
    }
    assert_true(row[4] == m.actions[2 * i] && row[5] == m.actions[2 * i + 1]);
    assert_true(row[6] == 100 * i && row[7] == (i < 2) && row[12] == (i > 0));
  }
  moment_free(&m);
  crew_close(&crew);
  bfm_env_free(env);
}

static void test_resume_refills_the_replay_buffer(void **state) {
  (void)state;
  CollectOptions options;
  Crew crew;
  bfm_env *env = open_crew(&crew, &options);

  char path[] = "/tmp/bfm-crew-XXXXXX";
  close(mkstemp(path));
  unlink(path);
  write_file(path, &crew.sizes);
  assert_int_equal(crew_remember(&crew, path), BFM_OK);
  assert_int_equal(count, STEPS - 1);
  assert_int_equal(crew.slots, STEPS - 1);
  for (int k = 0; k < count; k++) {
    int t = k < 3 ? k : k + 1;  // step 3 lacks a row and is skipped
    for (int i = 0; i < N; i++) {
      const float *row = caught[k][i];
      int ended = i == 1 && t == 1;
      assert_true(row[0] == 100 * i + t && row[4] == 0.125f * t && row[6] == 1000 * i + t);
      assert_true(row[7] == !ended && row[8] == 100 * i + t + 1);
      assert_true(row[12] == (ended || t == 2 || t == STEPS - 1));
    }
  }
  crew_close(&crew);
  bfm_env_free(env);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_go_to_the_replay_buffer),
                                     cmocka_unit_test(test_resume_refills_the_replay_buffer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
