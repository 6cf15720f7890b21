// The streaming writer: rows are read back as they were appended, a killed writer leaves a valid
// file, no file is overwritten, and no file has two writers.

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/hdf5.h"
#include "data/writer.h"

#define ROWS_MAX 1000
#define PLAN 1000000000

static char folder[] = "/tmp/bfm-writer-XXXXXX", path[64];

static const Table tables[] = {{"observations", COLUMN_F32, 3},
                               {"terminals", COLUMN_BOOL, 0},
                               {"infos/qpos", COLUMN_F64, 2},
                               {"infos/step", COLUMN_I64, 0}};
#define TABLE_COUNT 4

static int setup(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/data.h5", folder);
  return 0;
}

// a killed writer may leave a file under a temporary name
static int fresh(void **state) {
  (void)state;
  DIR *files = opendir(folder);
  char name[512];
  for (struct dirent *entry; files && (entry = readdir(files));) {
    snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
    if (*entry->d_name != '.') unlink(name);
  }
  return files ? closedir(files) : -1;
}

static int teardown(void **state) { return fresh(state) | rmdir(folder); }

static int append(Writer *writer, int rows) {
  static float obs[3 * ROWS_MAX];
  static int8_t terminals[ROWS_MAX];
  static double qpos[2 * ROWS_MAX];
  static int64_t steps[ROWS_MAX];
  for (int i = 0; i < rows; i++) {
    int64_t row = writer_rows(writer) + i;
    for (int k = 0; k < 3; k++) obs[3 * i + k] = (float)(row % 1000) + .25f * (float)k;
    for (int k = 0; k < 2; k++) qpos[2 * i + k] = (double)row + .1 * k;
    terminals[i] = row % 7 == 0;
    steps[i] = row;
  }
  return writer_append(writer, rows, (const void *const[]){obs, terminals, qpos, steps});
}

static hid_t open_file(void) {
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(file >= 0);
  return file;
}

// Returns the number of rows in the file, all of which must have the values of append. A kill during
// a flush leaves tables of different lengths; then the shortest counts.
static int64_t check(int64_t planned) {
  hid_t file = open_file();
  int64_t rows = INT64_MAX;
  assert_int_equal(hdf5_attribute_number(file, "planned_rows", -1), planned);
  for (int i = 0; i < TABLE_COUNT; i++) {
    int64_t has = 0, columns;
    int axes;
    assert_int_equal(hdf5_shape(file, tables[i].name, &has, &columns, &axes), BFM_OK);
    if (has < rows) rows = has;
  }
  double *steps = malloc((rows + 1) * sizeof *steps), *qpos = malloc((2 * rows + 1) * sizeof *qpos);
  float *obs = malloc((3 * rows + 1) * sizeof *obs);
  uint8_t *terminals = malloc(rows + 1);
  assert_int_equal(hdf5_read_doubles(file, "infos/step", rows, 1, steps), BFM_OK);
  assert_int_equal(hdf5_read_doubles(file, "infos/qpos", rows, 2, qpos), BFM_OK);
  assert_int_equal(hdf5_read(file, "observations", rows, 3, obs), BFM_OK);
  assert_int_equal(hdf5_read_flags(file, "terminals", rows, terminals), BFM_OK);
  for (int64_t i = 0; i < rows; i++) {
    assert_true(steps[i] == (double)i && qpos[2 * i + 1] == (double)i + .1);
    assert_true(obs[3 * i + 2] == (float)(i % 1000) + .5f && terminals[i] == (i % 7 == 0));
  }
  free(steps);
  free(qpos);
  free(obs);
  free(terminals);
  H5Fclose(file);
  return rows;
}

static void test_stream_and_resume(void **state) {
  (void)state;
  Writer *writer, *second;
  const Note notes[] = {{"env", "walker"}, {"options", "{}"}};
  assert_int_equal(writer_create(&writer, path, tables, TABLE_COUNT, 10000, notes, 2), BFM_OK);
  assert_int_equal(check(10000), 0);
  for (int i = 0; i < 20; i++) assert_int_equal(append(writer, 1 + 49 * i), BFM_OK);
  assert_int_equal(check(10000), 0);
  assert_int_equal(writer_flush(writer), BFM_OK);
  assert_int_equal(check(10000), 9330);  // while the writer has it open
  assert_int_equal(writer_resume(&second, path, tables, TABLE_COUNT, 10000), BFM_IO);
  assert_non_null(strstr(bfm_error(), "another process is writing"));
  assert_int_equal(append(writer, 671), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "has room for 10000 rows, not for 10001"));
  assert_int_equal(writer_close(writer), BFM_OK);

  // the same number of planned rows, a larger one, a smaller one, one that is too small
  static const int64_t plans[] = {10000, 10000, 12000, 11000, 10};
  static const int rows[] = {500, 170, 900, 50, 0};
  for (int64_t i = 0, there = 9330; i < 5; i++) {
    assert_int_equal(writer_resume(&writer, path, tables, TABLE_COUNT, plans[i]), BFM_OK);
    assert_int_equal(writer_rows(writer), there);
    assert_int_equal(append(writer, rows[i]), BFM_OK);
    assert_int_equal(writer_close(writer), BFM_OK);
    there += rows[i];
    assert_int_equal(check(plans[i] < there ? there : plans[i]), there);
  }
  hid_t file = open_file();
  char text[16];
  hdf5_attribute(file, "options", text, sizeof text);
  assert_string_equal(text, "{}");
  H5Fclose(file);
}

// flushes as often as possible; every resume changes the planned rows, so the file is rewritten
static void write_forever(int64_t planned, int report) {
  Writer *writer;
  int there = !access(path, F_OK);
  int status = there ? writer_resume(&writer, path, tables, TABLE_COUNT, planned)
                     : writer_create(&writer, path, tables, TABLE_COUNT, planned, NULL, 0);
  for (int i = 0; !status; i++) {
    int64_t rows = writer_rows(writer);
    if (write(report, &rows, sizeof rows) != sizeof rows) status = BFM_IO;
    if (!status) status = append(writer, 1 + (37 * i) % ROWS_MAX);
    if (!status) status = writer_flush(writer);
  }
  _exit(status);
}

// every third writer is killed at its start, while it creates or rewrites the file
static void test_killed_writers_leave_valid_files(void **state) {
  int64_t planned = 0, flushed = 0;
  for (int kills = 0; kills < 36; kills++) {
    int report[2];
    int64_t rows;
    if (kills % 12 == 0) {
      fresh(state);
      planned = flushed = 0;
    }
    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    if (!child) write_forever(PLAN + kills, report[1]);
    close(report[1]);
    int at_start = kills % 3 == 0;
    if (!at_start) assert_int_equal(read(report[0], &rows, sizeof rows), sizeof rows);
    usleep((at_start ? 397 : 997) * (unsigned)(kills % 7));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    while (read(report[0], &rows, sizeof rows) == sizeof rows) flushed = rows;
    close(report[0]);

    if (access(path, F_OK)) continue;
    hid_t file = open_file();
    rows = hdf5_attribute_number(file, "planned_rows", -1);
    H5Fclose(file);
    assert_true(rows == PLAN + kills || (at_start && rows == planned));
    planned = rows;
    assert_true(check(planned) >= flushed);
  }
}

static void test_refusals(void **state) {
  (void)state;
  Writer *writer;
  assert_int_equal(writer_create(&writer, path, tables, TABLE_COUNT, 5, NULL, 0), BFM_OK);
  assert_int_equal(append(writer, 5), BFM_OK);
  assert_int_equal(writer_close(writer), BFM_OK);
  assert_int_equal(writer_create(&writer, path, tables, TABLE_COUNT, 5, NULL, 0), BFM_IO);
  assert_non_null(strstr(bfm_error(), "already exists"));
  Table wider[] = {{"observations", COLUMN_F32, 4}}, other[] = {{"observations", COLUMN_F64, 3}};
  assert_int_equal(writer_resume(&writer, path, wider, 1, 5), BFM_BAD_FILE);
  assert_int_equal(writer_resume(&writer, path, other, 1, 5), BFM_BAD_FILE);
  assert_non_null(strstr(bfm_error(), "another type or shape"));
  assert_int_equal(writer_create(&writer, "/nonexistent/x.h5", tables, 1, 5, NULL, 0), BFM_IO);
  assert_int_equal(check(5), 5);

  fresh(state);
  assert_int_equal(writer_create(&writer, path, tables, 4, 0, NULL, 0), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "0 rows"));
  assert_int_equal(writer_create(&writer, path, tables, 4, INT64_MAX / 37, NULL, 0), BFM_IO);
  assert_non_null(strstr(bfm_error(), "249280325320399346 rows"));
  assert_int_equal(access(path, F_OK), -1);
}

// simulates a full disk by a limit on the file's size that lies within the last table
static void test_a_full_disk_keeps_earlier_rows(void **state) {
  (void)state;
  Writer *writer;
  struct stat info;
  struct rlimit limit, before;
  assert_int_equal(writer_create(&writer, path, tables, TABLE_COUNT, 1000, NULL, 0), BFM_OK);
  assert_int_equal(append(writer, 500), BFM_OK);
  assert_int_equal(stat(path, &info) | getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  limit = before;
  limit.rlim_cur = (rlim_t)info.st_size - 300 * sizeof(int64_t);
  setrlimit(RLIMIT_FSIZE, &limit);
  assert_int_equal(append(writer, 300), BFM_IO);
  assert_non_null(strstr(bfm_error(), "cannot write infos/step"));
  assert_non_null(strstr(bfm_error(), "File too large"));
  setrlimit(RLIMIT_FSIZE, &before);
  writer_abandon(writer);
  assert_int_equal(check(1000), 500);
}

// files in newer HDF5 formats or with chunked tables store lengths and rows elsewhere
static void test_files_that_cannot_grow_are_refused(void **state) {
  (void)state;
  for (int chunked = 0; chunked < 2; chunked++) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), layout = H5Pcreate(H5P_DATASET_CREATE);
    if (!chunked) H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
    if (chunked) H5Pset_chunk(layout, 2, (hsize_t[]){2, 3});
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t space = H5Screate_simple(2, (hsize_t[]){4, 3}, NULL);
    H5Dclose(
        H5Dcreate2(file, "observations", H5T_IEEE_F32LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(access);
    H5Pclose(layout);
    Writer *writer;
    assert_int_equal(writer_resume(&writer, path, tables, 1, 5), BFM_BAD_FILE);
    assert_non_null(strstr(bfm_error(), "observations has no room to grow"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_stream_and_resume, fresh),
      cmocka_unit_test_setup(test_killed_writers_leave_valid_files, fresh),
      cmocka_unit_test_setup(test_refusals, fresh),
      cmocka_unit_test_setup(test_a_full_disk_keeps_earlier_rows, fresh),
      cmocka_unit_test_setup(test_files_that_cannot_grow_are_refused, fresh),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
