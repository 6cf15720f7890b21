// The HDF5 probe: it reports every way in which the child can die, whatever the process does with
// signals and threads; no flipped bit in a file ends the process that reads it; and large sound files
// do not exceed the time limit.

#define _GNU_SOURCE  // fallocate, syscall
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/rng.h"
#include "data/dataset.h"
#include "data/hdf5_probe.h"
#include "data/writer.h"

// on some damaged files HDF5 fails properly but leaks memory
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libhdf5"; }

// ---------------------------------- ways to die --------------------------------------------------

static void work(void *context) { *(int *)context += 1; }

static void fault(void *context) {
  (void)context;
  raise(SIGSEGV);
}

static void give_up(void *context) {
  (void)context;
  abort();
}

static void leave(void *context) {
  (void)context;
  _exit(0);
}

static void loop_forever(void *context) {
  for (volatile int *turns = context;; *turns ^= 1) continue;
}

static void test_a_child_that_dies_or_hangs_is_reported(void **state) {
  (void)state;
  int here = 1;
  assert_int_equal(hdf5_probe(work, &here), 1);
  assert_int_equal(here, 2);  // the child incremented its own copy
  assert_false(hdf5_is_probe());
  assert_int_equal(hdf5_probe(fault, NULL), 0);
  assert_int_equal(hdf5_probe(give_up, NULL), 0);
  assert_int_equal(hdf5_probe(leave, NULL), 0);
  assert_int_equal(hdf5_probe(loop_forever, &here), 0);
}

static void unexpected(int number) {
  (void)number;
  fail();
}

static void test_the_signal_settings_of_the_process_survive(void **state) {
  (void)state;
  int here = 1;
  sigset_t set, before, after;
  sigemptyset(&set);
  sigaddset(&set, SIGSEGV);
  sigaddset(&set, SIGPROF);
  sigprocmask(SIG_BLOCK, &set, &before);
  signal(SIGSEGV, unexpected);
  signal(SIGCHLD, SIG_IGN);
  assert_int_equal(hdf5_probe(work, &here), 1);
  assert_int_equal(hdf5_probe(fault, NULL), 0);
  sigprocmask(SIG_SETMASK, &before, &after);
  assert_true(sigismember(&after, SIGSEGV) && !sigismember(&after, SIGTERM));
  signal(SIGSEGV, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);
}

static volatile int stop;

static void *call_hdf5_until_stopped(void *context) {
  while (!stop) H5Pclose(H5Pcreate(H5P_DATASET_CREATE));
  return context;
}

static void call_hdf5(void *context) {
  (void)context;
  H5Pclose(H5Pcreate(H5P_DATASET_CREATE));
}

// one of these threads is inside HDF5 most of the time; a child that waited for it would hang
static void test_other_threads_may_be_inside_hdf5(void **state) {
  (void)state;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_hdf5_until_stopped, NULL), 0);
  alarm(100);
  for (int i = 0; i < 50; i++) assert_int_equal(hdf5_probe(call_hdf5, NULL), 1);
  alarm(0);
  stop = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

// ---------------------------------- damaged files ------------------------------------------------

enum { ROWS = 10, FLIPS = 150, BYTES_MAX = 1 << 16 };

static char folder[] = "/tmp/bfm-rehearsal-XXXXXX", path[64];

static void write_file(void) {
  static const Table tables[] = {{"observations", COLUMN_F32, 2},
                                 {"actions", COLUMN_F32, 1},
                                 {"next_observations", COLUMN_F32, 2},
                                 {"terminals", COLUMN_BOOL, 0}};
  static const Note notes[] = {{"env", "walker"}, {"collector", "random"}, {"options", "{}"}};
  static const float obs[2 * ROWS], act[ROWS];
  static const int8_t terminals[ROWS];
  Writer *writer;
  assert_int_equal(writer_create(&writer, path, tables, 4, ROWS, notes, 3), BFM_OK);
  assert_int_equal(writer_append(writer, ROWS, (const void *const[]){obs, act, obs, terminals}),
                   BFM_OK);
  assert_int_equal(writer_close(writer), BFM_OK);
}

// Most of the file is unused room: only bits in or beside nonzero bytes are flipped.
static int is_near_content(const uint8_t *bytes, int64_t size, int64_t at) {
  for (int64_t i = at < 8 ? 0 : at - 8; i < at + 8 && i < size; i++) {
    if (bytes[i]) return 1;
  }
  return 0;
}

static void read_flipped(int fd, int64_t at, uint8_t byte, int bit) {
  Dataset data;
  uint8_t flipped = byte ^ (uint8_t)(1 << bit);
  assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
  if (dataset_read_all(&data, (const char *const[]){path}, 1)) {
    if (!strstr(bfm_error(), path)) fail_msg("bit %d of byte %d: %s", bit, (int)at, bfm_error());
  } else {
    dataset_free(&data);
  }
  assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static int setup(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/data.h5", folder);
  write_file();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  return unlink(path) | rmdir(folder);
}

static int die_of(hid_t file, void *context) {
  (void)file;
  fault(context);
  return BFM_OK;
}

static void test_the_error_names_the_file(void **state) {
  (void)state;
  assert_int_equal(hdf5_use(path, die_of, NULL), BFM_BAD_FILE);
  assert_non_null(strstr(bfm_error(), path));
  assert_non_null(strstr(bfm_error(), "is damaged: the HDF5 library crashes or hangs on it"));
}

// HDF5 1.10 crashes on some of these bits
static void test_flipped_bits(void **state) {
  (void)state;
  static uint8_t bytes[BYTES_MAX];
  int fd = open(path, O_RDWR);
  int64_t size = read(fd, bytes, sizeof bytes);
  assert_in_range(size, 1000, BYTES_MAX - 1);
  for (int64_t flips = 0, draw = 0; flips < FLIPS; draw++) {
    int64_t at = (int64_t)random_below(3, STREAM_USER, draw, 0, (uint64_t)size);
    if (!is_near_content(bytes, size, at)) continue;
    read_flipped(fd, at, bytes[at], (int)(flips++ % 8));
  }
  close(fd);
}

// ---------------------------------- large files --------------------------------------------------

// Makes a small file behave like a large one: no memory, a tenth of the time limit, a slow disk.
static int large;

long __sysconf(int name);
long sysconf(int name) { return large && name == _SC_PHYS_PAGES ? 0 : __sysconf(name); }

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  (void)mode;
  for (clock_t begin = clock(); large && hdf5_is_probe() && clock() < begin + CLOCKS_PER_SEC / 4;) {
    continue;
  }
  return posix_fallocate(fd, offset, bytes);
}

int setitimer(__itimer_which_t which, const struct itimerval *value, struct itimerval *before) {
  struct itimerval less = *value;
  if (large) less.it_value = (struct timeval){0, value->it_value.tv_sec * 100000};
  return (int)syscall(SYS_setitimer, which, &less, before);
}

static void test_moving_rows_into_files_does_not_count_as_hdf5_time(void **state) {
  (void)state;
  Dataset data;
  large = 1;
  assert_int_equal(dataset_read(&data, (const char *const[]){path, path}, 2), BFM_OK);
  large = 0;
  assert_int_equal(data.count, 2 * ROWS);
  assert_true(data.buffers[PART_OBS].file);
  dataset_free(&data);
}

// a file of zeros, without successors
static void write_many(const char *name, int64_t rows) {
  static const Table tables[] = {{"observations", COLUMN_F32, 1},
                                 {"actions", COLUMN_F32, 1},
                                 {"terminals", COLUMN_BOOL, 0}};
  Writer *writer;
  void *zeros = calloc((size_t)rows, sizeof(float));
  assert_int_equal(writer_create(&writer, name, tables, 3, rows, NULL, 0), BFM_OK);
  assert_int_equal(writer_append(writer, rows, (const void *const[]){zeros, zeros, zeros}), BFM_OK);
  assert_int_equal(writer_close(writer), BFM_OK);
  free(zeros);
}

static void test_deriving_successors_does_not_count_as_hdf5_time(void **state) {
  (void)state;
  enum { MANY = 8000000 };
  Dataset data;
  char name[80];
  snprintf(name, sizeof name, "%s/many.h5", folder);
  write_many(name, MANY);
  large = 1;
  int status = dataset_read(&data, (const char *const[]){name}, 1);
  large = 0;
  unlink(name);
  assert_int_equal(status, BFM_OK);
  assert_int_equal(data.count, MANY - 1);
  dataset_free(&data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_child_that_dies_or_hangs_is_reported),
      cmocka_unit_test(test_the_signal_settings_of_the_process_survive),
      cmocka_unit_test(test_other_threads_may_be_inside_hdf5),
      cmocka_unit_test(test_the_error_names_the_file),
      cmocka_unit_test(test_flipped_bits),
      cmocka_unit_test(test_moving_rows_into_files_does_not_count_as_hdf5_time),
      cmocka_unit_test(test_deriving_successors_does_not_count_as_hdf5_time),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
