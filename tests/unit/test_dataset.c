// Datasets: the variants of D4RL's layout, transitions derived where successors are not stored, and
// an error sentence for all data that training cannot use.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <hdf5.h>

#include "agent/agent.h"
#include "data/dataset.h"

static char path[] = "/tmp/bfm-dataset-XXXXXX", other[] = "/tmp/bfm-dataset-XXXXXX";

static int setup(void **state) {
  (void)state;
  int a = mkstemp(path), b = mkstemp(other);
  return close(a) | close(b);
}

static int teardown(void **state) {
  (void)state;
  return unlink(path) | unlink(other);
}

static void assert_message(const char *part) {
  if (!strstr(bfm_error(), part)) fail_msg("\"%s\" lacks \"%s\"", bfm_error(), part);
}

// writes a table of doubles with this name; columns 0: one axis
static void put(hid_t file, const char *name, hid_t type, int rows, int columns,
                const double *values) {
  hsize_t shape[2] = {(hsize_t)rows, (hsize_t)columns};
  hid_t space = H5Screate_simple(columns ? 2 : 1, shape, NULL);
  hid_t table = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (rows) H5Dwrite(table, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(table);
  H5Sclose(space);
}

static void put_env(hid_t file, const char *env) {
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, strlen(env));
  hid_t attribute = H5Acreate2(file, "env", type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, env);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

// six rows: an episode of three rows that terminates, one of two rows with a timeout, one cut off
static const double obs[12] = {0, 100, 1, 101, 2, 102, 10, 110, 11, 111, 20, 120};
static const double act[6] = {0, .1, .2, .3, .4, .5};
static const double terminals[6] = {0, 0, 1, 0, 0, 0};
static const double timeouts[6] = {0, 0, 0, 0, 1, 0};

typedef struct {
  const char *without;  // omit this table
  const char *spoil;    // write this table with the values below instead
  int rows, columns;
  const double *values;
  int with_next;
  const char *env;
} Variant;

static void write_variant(const char *to, const Variant *v) {
  hid_t file = H5Fcreate(to, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const struct {
    const char *name;
    hid_t type;
    int columns;
    const double *values;
  } tables[] = {
      {"observations", H5T_IEEE_F64LE, 2, obs}, {"actions", H5T_IEEE_F32LE, 1, act},
      {"rewards", H5T_IEEE_F32LE, 0, act},      {"terminals", H5T_STD_U8LE, 0, terminals},
      {"timeouts", H5T_STD_I64LE, 1, timeouts}, {"next_observations", H5T_IEEE_F32LE, 2, obs},
  };
  for (int i = 0; i < 5 + v->with_next; i++) {
    if (v->without && !strcmp(v->without, tables[i].name)) continue;
    if (v->spoil && !strcmp(v->spoil, tables[i].name)) {
      put(file, v->spoil, H5T_IEEE_F64LE, v->rows, v->columns, v->values);
    } else {
      put(file, tables[i].name, tables[i].type, 6, tables[i].columns, tables[i].values);
    }
  }
  if (v->env) put_env(file, v->env);
  H5Fclose(file);
}

static int read_variant(Dataset *data, Variant v) {
  write_variant(path, &v);
  return dataset_read(data, (const char *const[]){path}, 1);
}

static void test_rebuilt_successors(void **state) {
  (void)state;
  Dataset data;
  assert_int_equal(read_variant(&data, (Variant){.env = "walker"}), BFM_OK);
  assert_int_equal(data.count, 3);
  assert_int_equal(data.episodes, 2);  // the third has no transition
  assert_int_equal(data.obs_dim, 2);
  assert_int_equal(data.act_dim, 1);
  assert_string_equal(data.env, "walker");
  static const float from[3] = {0, 1, 10};
  for (int i = 0; i < 3; i++) {
    assert_true(data.obs[2 * i] == from[i] && data.obs[2 * i + 1] == from[i] + 100);
    assert_true(data.next_obs[2 * i] == from[i] + 1 && data.next_obs[2 * i + 1] == from[i] + 101);
    assert_true(data.discount[i] == 1);
  }
  assert_true(data.act[2] == .3f);
  dataset_free(&data);
}

static void test_stored_successors(void **state) {
  (void)state;
  Dataset data;
  assert_int_equal(read_variant(&data, (Variant){.with_next = 1}), BFM_OK);
  assert_int_equal(data.count, 6);
  assert_string_equal(data.env, "");
  for (int i = 0; i < 6; i++) assert_true(data.discount[i] == (i == 2 ? 0 : 1));
  dataset_free(&data);
}

static void test_without_timeouts(void **state) {
  (void)state;
  Dataset data;
  assert_int_equal(read_variant(&data, (Variant){.without = "timeouts"}), BFM_OK);
  assert_int_equal(data.count, 4);
  assert_int_equal(data.episodes, 2);
  dataset_free(&data);
}

static void test_merge(void **state) {
  (void)state;
  write_variant(path, &(Variant){.env = "walker"});
  write_variant(other, &(Variant){.with_next = 1});
  Dataset data;
  assert_int_equal(dataset_read(&data, (const char *const[]){path, other}, 2), BFM_OK);
  assert_int_equal(data.count, 9);
  assert_int_equal(data.episodes, 5);
  assert_true(data.obs[2 * 2] == 10 && data.obs[2 * 3] == 0 && data.obs[2 * 8] == 20);
  dataset_free(&data);

  write_variant(other, &(Variant){.env = "cheetah"});
  assert_int_equal(dataset_read(&data, (const char *const[]){path, other}, 2), BFM_BAD_FILE);
  assert_message("cheetah");
  write_variant(other, &(Variant){.spoil = "actions", .rows = 6, .columns = 2, .values = obs});
  assert_int_equal(dataset_read(&data, (const char *const[]){path, other}, 2), BFM_BAD_FILE);
  assert_message("2 and 2 columns");
  assert_message(other);
}

// windows of two rows with the same action, none of them across the end of an episode
static void test_stride(void **state) {
  (void)state;
  Dataset data;
  static const double held[6] = {.1, .1, .1, .3, .3, .3};
  Variant v = {.spoil = "actions", .rows = 6, .columns = 1, .values = held, .with_next = 1};
  assert_int_equal(read_variant(&data, v), BFM_OK);
  assert_int_equal(dataset_stride(&data, 2), BFM_OK);
  assert_int_equal(data.count, 3);
  assert_int_equal(data.episodes, 2);
  static const float from[3] = {0, 1, 10}, to[3] = {1, 2, 11}, discount[3] = {1, 0, 1};
  static const uint8_t ends[3] = {0, 1, 1};
  for (int i = 0; i < 3; i++) {
    assert_true(data.obs[2 * i] == from[i] && data.next_obs[2 * i + 1] == to[i] + 100);
    assert_true(data.act[i] == (i < 2 ? .1f : .3f) && data.discount[i] == discount[i]);
    assert_int_equal(data.ends[i], ends[i]);
  }
  dataset_free(&data);

  assert_int_equal(read_variant(&data, v), BFM_OK);
  assert_int_equal(dataset_stride(&data, 3), BFM_BAD_ARGUMENT);
  assert_message(
      "stride is 3, but the number of windows of 3 steps with the same action is 1: training "
      "needs at least 2");
  dataset_free(&data);
}

static void test_refusals(void **state) {
  (void)state;
  static const double all_end[6] = {1, 1, 1, 1, 1, 1}, but_one[6] = {0, 1, 1, 1, 1, 1};
  static double with_nan[12], with_infinity[12], too_large[12];
  with_nan[7] = NAN;
  with_infinity[0] = -INFINITY;
  too_large[3] = 1e300;
  static const struct {
    Variant variant;
    const char *message;
  } bad[] = {
      {{.without = "observations"}, "no dataset \"observations\""},
      {{.without = "actions"}, "no dataset \"actions\""},
      {{.without = "terminals"}, "no dataset \"terminals\""},
      {{.spoil = "observations", .rows = 6, .columns = 2, .values = with_nan},
       "observations has NaN at row 3, column 1 (episode 1)"},
      {{.spoil = "observations", .rows = 6, .columns = 2, .values = too_large},
       "observations has an infinity at row 1, column 1"},
      {{.spoil = "actions", .rows = 6, .columns = 1, .values = with_infinity},
       "actions has an infinity at row 0, column 0 (episode 0)"},
      {{.spoil = "terminals", .rows = 6, .columns = 0, .values = with_infinity},
       "terminals has an infinity at row 0"},
      {{.spoil = "next_observations", .rows = 6, .columns = 2, .values = with_nan, .with_next = 1},
       "next_observations has NaN"},
      {{.spoil = "next_observations", .rows = 6, .columns = 1, .values = obs, .with_next = 1},
       "next_observations has 1 columns, but observations has 2"},
      {{.spoil = "actions", .rows = 5, .columns = 1, .values = act}, "actions has 5 rows"},
      {{.spoil = "timeouts", .rows = 5, .columns = 0, .values = act}, "timeouts has 5 rows"},
      {{.spoil = "rewards", .rows = 7, .columns = 0, .values = obs}, "rewards has 7 rows"},
      {{.spoil = "terminals", .rows = 6, .columns = 2, .values = obs}, "terminals has 2 columns"},
      {{.spoil = "observations", .rows = 6, .columns = 0, .values = obs}, "must have 2"},
      {{.spoil = "observations", .rows = 0, .columns = 2, .values = obs}, "actions has 6 rows"},
      {{.spoil = "terminals", .rows = 6, .columns = 0, .values = all_end},
       "0 transitions are too few"},
      {{.spoil = "terminals", .rows = 6, .columns = 0, .values = but_one},
       "1 transitions are too few"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Dataset data;
    assert_int_equal(read_variant(&data, bad[i].variant), BFM_BAD_FILE);
    assert_message(bad[i].message);
    assert_message(path);
    assert_null(data.obs);
  }
}

static void test_not_a_dataset(void **state) {
  (void)state;
  Dataset data;
  assert_int_equal(dataset_read(&data, (const char *const[]){"/nonexistent.h5"}, 1), BFM_IO);
  assert_message("No such file");
  assert_int_equal(dataset_read(&data, (const char *const[]){"/proc/self/fd"}, 1), BFM_BAD_FILE);
  assert_message("a folder without .npz episodes");
  assert_int_equal(dataset_read(&data, (const char *const[]){"/dev/null"}, 1), BFM_IO);
  assert_message("/dev/null is a device, not a file");
  assert_int_equal(dataset_read(&data, NULL, 0), BFM_BAD_FILE);

  FILE *text = fopen(path, "w");
  fputs("observations, actions\n", text);
  fclose(text);
  assert_int_equal(dataset_read(&data, (const char *const[]){path}, 1), BFM_BAD_FILE);
  assert_message("not an HDF5 file");

  write_variant(path, &(Variant){.with_next = 1});
  assert_int_equal(truncate(path, 2000), 0);
  assert_int_equal(dataset_read(&data, (const char *const[]){path}, 1), BFM_BAD_FILE);
  assert_message("cut short");

  // a group where a table should be
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(H5Gcreate2(file, "observations", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Fclose(file);
  assert_int_equal(dataset_read(&data, (const char *const[]){path}, 1), BFM_BAD_FILE);
  assert_message("\"observations\" is not a dataset");
}

// a table that claims more rows than fit into memory must be refused before it is read
static void test_a_table_larger_than_memory_is_refused(void **state) {
  (void)state;
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  static const struct {
    const char *name;
    hsize_t columns;
  } tables[] = {{"observations", 1000}, {"actions", 1}, {"terminals", 1}};
  for (int i = 0; i < 3; i++) {
    hsize_t shape[2] = {(hsize_t)1 << 38, tables[i].columns}, chunk[2] = {1024, 1};
    hid_t space = H5Screate_simple(2, shape, NULL), layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(layout, 2, chunk);
    H5Dclose(
        H5Dcreate2(file, tables[i].name, H5T_IEEE_F32LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
    H5Pclose(layout);
    H5Sclose(space);
  }
  H5Fclose(file);
  Dataset data;
  assert_int_equal(dataset_read(&data, (const char *const[]){path}, 1), BFM_NO_MEMORY);
  assert_message("fit neither into memory nor into a temporary file in");
}

// a dataset that bfm writes is mapped when it is read again, and bit-identical
static void test_a_written_dataset_is_mapped(void **state) {
  (void)state;
  Dataset one, two;
  assert_int_equal(read_variant(&one, (Variant){.with_next = 1, .env = "walker"}), BFM_OK);
  assert_true(one.buffers[PART_ACT].mapped && !one.buffers[PART_OBS].mapped);  // OBS are doubles
  unlink(other);
  volatile sig_atomic_t stop = 1;
  assert_int_equal(dataset_write(&one, other, NULL, &stop), BFM_INTERRUPTED);
  assert_message("stopped at transition 0 of");
  assert_int_equal(dataset_write(&one, other, NULL, NULL), BFM_OK);
  assert_int_equal(dataset_read_all(&two, (const char *const[]){other}, 1), BFM_OK);
  assert_true(two.buffers[PART_OBS].mapped && two.buffers[PART_NEXT_OBS].mapped);
  assert_memory_equal(one.obs, two.obs, 12 * sizeof *one.obs);
  assert_memory_equal(one.next_obs, two.next_obs, 12 * sizeof *one.obs);
  assert_memory_equal(one.act, two.act, 6 * sizeof *one.act);
  assert_memory_equal(one.discount, two.discount, 6 * sizeof *one.discount);
  assert_memory_equal(one.ends, two.ends, 6);
  dataset_free(&one);
  dataset_free(&two);
  assert_int_equal(dataset_read(&two, (const char *const[]){other, other}, 2), BFM_OK);
  assert_false(two.buffers[PART_OBS].mapped);
  assert_int_equal(two.count, 12);
  dataset_free(&two);
}

static bfm_agent *train(const Dataset *data, __typeof__(agent_lend_data) *hand_over) {
  bfm_agent *agent;
  assert_int_equal(
      bfm_agent_new(&agent, data->obs_dim, data->act_dim,
                    "{\"device\": \"cpu\", \"threads\": 1, \"d\": 4, \"blocks\": 2, \"batch\": 8, "
                    "\"hidden\": 8, \"feat\": 8, \"b-hidden\": 8, \"z-pool\": 2}"),
      BFM_OK);
  assert_int_equal(hand_over(agent, data->count, data->obs, data->act, data->next_obs,
                             data->discount),
                   BFM_OK);
  assert_int_equal(bfm_agent_train(agent, 8, NULL), BFM_OK);
  return agent;
}

// An agent on a CPU trains on mapped rows without a copy, bit-identically to training on a copy.
static void test_training_on_mapped_data_is_bit_identical(void **state) {
  (void)state;
  Dataset one, two;
  write_variant(path, &(Variant){.with_next = 1});
  assert_int_equal(dataset_read_all(&one, (const char *const[]){path}, 1), BFM_OK);
  unlink(other);
  assert_int_equal(dataset_write(&one, other, NULL, NULL), BFM_OK);
  dataset_free(&one);
  assert_int_equal(dataset_read_all(&two, (const char *const[]){other}, 1), BFM_OK);
  assert_non_null(two.rewards);
  dataset_trim(&two);
  assert_true(two.buffers[PART_OBS].mapped && !two.rewards && !two.ends);

  bfm_agent *copied = train(&two, bfm_agent_set_data), *lent = train(&two, agent_lend_data);
  assert_true(copied->data_memory && copied->data_obs != two.obs);
  assert_true(!lent->data_memory && lent->data_obs == two.obs && lent->data_next == two.next_obs);
  assert_memory_equal(copied->params.value, lent->params.value,
                      lent->params.count * sizeof *lent->params.value);
  assert_int_equal(agent_lend_data(lent, 1, two.obs, two.act, two.next_obs, two.discount),
                   BFM_BAD_ARGUMENT);
  assert_message("data must have 2 to 2147483647 transitions, not 1");
  bfm_agent_free(copied);
  bfm_agent_free(lent);
  dataset_free(&two);
}

static void test_row_buffers(void **state) {
  (void)state;
  RowBuffer buffer = {0};
  void *rows = NULL;
  for (int64_t i = 1; i <= 64; i *= 2) {  // in memory, then in a file
    assert_int_equal(row_buffer_grow(&buffer, &rows, (size_t)i * 1000, i > 4), BFM_OK);
    for (int64_t k = 0; k < i / 2 * 1000; k++) assert_int_equal(((uint8_t *)rows)[k], k % 251);
    for (int64_t k = 0; k < i * 1000; k++) ((uint8_t *)rows)[k] = (uint8_t)(k % 251);
  }
  assert_int_equal(row_buffer_grow(&buffer, &rows, (size_t)1 << 60, 1), BFM_NO_MEMORY);
  assert_message("1.15 EB of rows fit neither into memory");
  assert_int_equal(((uint8_t *)rows)[63999], 63999 % 251);
  row_buffer_free(&buffer);

  setenv("TMPDIR", "/nonexistent", 1);
  assert_int_equal(row_buffer_grow(&buffer, &rows, 1000, 1), BFM_NO_MEMORY);
  assert_message("/nonexistent: No such file");
  unsetenv("TMPDIR");
  row_buffer_free(&buffer);
}

// a simulated disk with this many free bytes
static double disk_bytes = 1 << 30;

int fstatvfs(int fd, struct statvfs *disk) {
  struct stat file;
  if (fstat(fd, &file)) return -1;
  fsblkcnt_t left = (fsblkcnt_t)(disk_bytes - (double)file.st_size);
  *disk = (struct statvfs){.f_frsize = 1, .f_bavail = left};
  return 0;
}

// A child process reads HDF5 files first, and its parent then uses the disk space that it reserved.
static void test_disk_space_is_reserved_once(void **state) {
  (void)state;
  RowBuffer buffer = {0};
  void *rows = NULL;
  disk_bytes = 3e6;
  assert_int_equal(row_buffer_grow(&buffer, &rows, 1000000, 1), BFM_OK);
  pid_t child = fork();
  if (!child) _exit(row_buffer_grow(&buffer, &rows, 2500000, 1));
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_int_equal(row_buffer_grow(&buffer, &rows, 2500000, 1), BFM_OK);
  assert_int_equal(row_buffer_grow(&buffer, &rows, 3500000, 1), BFM_NO_MEMORY);
  disk_bytes = 1 << 30;
  row_buffer_free(&buffer);
}

// if memory runs out, rows move to a temporary file
static void test_rows_move_to_a_file_when_memory_runs_out(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
  skip();  // the sanitizers themselves need more memory than any limit
#endif
  RowBuffer buffer = {0};
  void *rows = NULL;
  struct rlimit before, limit;
  getrlimit(RLIMIT_DATA, &before);
  limit = before;
  limit.rlim_cur = 64 << 20;
  setrlimit(RLIMIT_DATA, &limit);
  assert_int_equal(row_buffer_grow(&buffer, &rows, 1000, 0), BFM_OK);
  memset(rows, 7, 1000);
  assert_false(buffer.file);
  assert_int_equal(row_buffer_grow(&buffer, &rows, 128 << 20, 0), BFM_OK);
  assert_true(buffer.file);
  assert_int_equal(((uint8_t *)rows)[999], 7);
  row_buffer_free(&buffer);
  setrlimit(RLIMIT_DATA, &before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rebuilt_successors),
      cmocka_unit_test(test_stored_successors),
      cmocka_unit_test(test_without_timeouts),
      cmocka_unit_test(test_merge),
      cmocka_unit_test(test_stride),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_not_a_dataset),
      cmocka_unit_test(test_a_table_larger_than_memory_is_refused),
      cmocka_unit_test(test_a_written_dataset_is_mapped),
      cmocka_unit_test(test_training_on_mapped_data_is_bit_identical),
      cmocka_unit_test(test_row_buffers),
      cmocka_unit_test(test_disk_space_is_reserved_once),
      cmocka_unit_test(test_rows_move_to_a_file_when_memory_runs_out),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
