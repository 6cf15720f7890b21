// The streaming writer: rows come back as they were appended, a writer that dies leaves a sound
// file, nothing is overwritten and no file has two writers.

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/hdf5.h"
#include "data/writer.h"

#define ROWS_MAX 1000

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

static int teardown(void **state) {
  (void)state;
  unlink(path);
  return rmdir(folder);
}

static int fresh(void **state) {
  (void)state;
  unlink(path);
  return 0;
}

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

// rows in the file, all of which must hold what append gave them; *complete as the file says. A kill
// in the midst of a flush leaves tables of different lengths: the shortest counts
static int64_t check(int64_t *complete) {
  hid_t file;
  int64_t rows = INT64_MAX;
  assert_int_equal(hdf5_open(&file, path), BFM_OK);
  *complete = hdf5_attribute_number(file, "complete", -1);
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
  Writer *writer;
  int64_t complete;
  const Note notes[] = {{"env", "walker"}};
  assert_int_equal(writer_create(&writer, path, tables, TABLE_COUNT, notes, 1), BFM_OK);
  for (int i = 0; i < 20; i++) assert_int_equal(append(writer, 1 + 49 * i), BFM_OK);
  assert_int_equal(writer_flush(writer), BFM_OK);
  assert_int_equal(check(&complete), 9330);  // while it is open
  assert_int_equal(complete, 0);
  Writer *second;
  assert_int_equal(writer_resume(&second, path, tables, TABLE_COUNT), BFM_IO);
  assert_non_null(strstr(bfm_error(), "another process is writing"));
  assert_int_equal(writer_close(writer, 0), BFM_OK);

  assert_int_equal(writer_resume(&writer, path, tables, TABLE_COUNT), BFM_OK);
  assert_int_equal(writer_rows(writer), 9330);
  assert_int_equal(append(writer, 1000), BFM_OK);
  assert_int_equal(writer_close(writer, 1), BFM_OK);
  assert_int_equal(check(&complete), 10330);
  assert_int_equal(complete, 1);
}

static void write_forever(int report) {
  Writer *writer;
  int there = !access(path, F_OK);
  int status = there ? writer_resume(&writer, path, tables, TABLE_COUNT)
                     : writer_create(&writer, path, tables, TABLE_COUNT, NULL, 0);
  for (int i = 0; !status; i++) {
    status = append(writer, 1 + (37 * i) % ROWS_MAX);
    if (!status && i % 10 == 0) status = writer_flush(writer);
    int64_t rows = writer_rows(writer);
    if (i % 10 == 0 && write(report, &rows, sizeof rows) != sizeof rows) status = BFM_IO;
  }
  _exit(status);
}

static void test_killed_writers(void **state) {
  (void)state;
  for (int kills = 0; kills < 12; kills++) {
    int report[2];
    int64_t flushed = 0, rows, complete;
    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    if (!child) write_forever(report[1]);
    close(report[1]);
    assert_int_equal(read(report[0], &flushed, sizeof flushed), sizeof flushed);
    usleep(997 * (unsigned)(kills % 5));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    while (read(report[0], &rows, sizeof rows) == sizeof rows) flushed = rows;
    close(report[0]);
    assert_true(check(&complete) >= flushed);
    assert_int_equal(complete, 0);
  }
}

static void test_refusals(void **state) {
  (void)state;
  Writer *writer;
  assert_int_equal(writer_create(&writer, path, tables, TABLE_COUNT, NULL, 0), BFM_OK);
  assert_int_equal(append(writer, 5), BFM_OK);
  assert_int_equal(writer_close(writer, 1), BFM_OK);
  assert_int_equal(writer_create(&writer, path, tables, TABLE_COUNT, NULL, 0), BFM_IO);
  assert_non_null(strstr(bfm_error(), "there already"));
  Table wider[] = {{"observations", COLUMN_F32, 4}}, other[] = {{"observations", COLUMN_F64, 3}};
  assert_int_equal(writer_resume(&writer, path, wider, 1), BFM_BAD_FILE);
  assert_int_equal(writer_resume(&writer, path, other, 1), BFM_BAD_FILE);
  assert_non_null(strstr(bfm_error(), "another type or shape"));
  assert_int_equal(writer_create(&writer, "/nonexistent/x.h5", tables, 1, NULL, 0), BFM_IO);
  int64_t complete;
  assert_int_equal(check(&complete), 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_stream_and_resume, fresh),
      cmocka_unit_test_setup(test_killed_writers, fresh),
      cmocka_unit_test_setup(test_refusals, fresh),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
