// Fuzzes edits of a sound dataset. Reading must succeed or fail with an error that names the file.
// The first byte of an input chooses one of two files: bfm's own, or a compressed one as h5py writes
// it. The rest is a list of edits, each with two bytes for the place and one for the change, because
// a fuzzer does not find valid HDF5 files by itself.

#include <fcntl.h>
#include <hdf5.h>
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"
#include "data/dataset.h"
#include "data/writer.h"

enum { ROWS = 10, BYTES_MAX = 1 << 16 };

typedef struct {
  uint8_t bytes[BYTES_MAX];
  uint16_t places[BYTES_MAX];  // offsets in or beside nonzero bytes: most of a file is unused room
  int size, count;
} Sound;

static Sound sound[2];
static char path[] = "/tmp/bfm-fuzz-XXXXXX";

// on some damaged files HDF5 fails properly but leaks memory
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libhdf5"; }

static void need(int good) {
  if (!good) abort();
}

static const float zeros[2 * ROWS];

static void write_own(void) {
  static const Table tables[] = {{"observations", COLUMN_F32, 2},
                                 {"actions", COLUMN_F32, 1},
                                 {"next_observations", COLUMN_F32, 2},
                                 {"terminals", COLUMN_BOOL, 0}};
  static const Note notes[] = {{"env", "walker"}, {"collector", "random"}, {"options", "{}"}};
  static const int8_t terminals[ROWS];
  Writer *writer;
  need(!writer_create(&writer, path, tables, 4, ROWS, notes, 3));
  need(!writer_append(writer, ROWS, (const void *const[]){zeros, zeros, zeros, terminals}));
  need(!writer_close(writer));
}

static void put(hid_t file, const char *name, hsize_t columns) {
  hsize_t shape[] = {ROWS, columns};
  hid_t space = H5Screate_simple(2, shape, NULL), packed = H5Pcreate(H5P_DATASET_CREATE);
  need(H5Pset_chunk(packed, 2, shape) >= 0 && H5Pset_deflate(packed, 4) >= 0);
  hid_t data = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, packed, H5P_DEFAULT);
  need(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros) >= 0);
  need(H5Dclose(data) >= 0 && H5Sclose(space) >= 0 && H5Pclose(packed) >= 0);
}

static void write_packed(void) {
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  need(file >= 0);
  put(file, "observations", 2);
  put(file, "actions", 1);
  put(file, "terminals", 1);
  put(file, "timeouts", 1);
  need(H5Fclose(file) >= 0);
}

static int is_near_content(const Sound *s, int at) {
  for (int i = at < 8 ? 0 : at - 8; i <= at + 8 && i < s->size; i++) {
    if (s->bytes[i]) return 1;
  }
  return 0;
}

static void take(Sound *s) {
  Dataset data;
  need(!dataset_read_all(&data, (const char *const[]){path}, 1));
  dataset_free(&data);
  int fd = open(path, O_RDONLY);
  s->size = (int)read(fd, s->bytes, sizeof s->bytes);
  close(fd);
  need(s->size > 1000 && s->size < BYTES_MAX);
  for (int i = 0; i < s->size; i++) {
    if (is_near_content(s, i)) s->places[s->count++] = (uint16_t)i;
  }
}

static void remove_file(void) { unlink(path); }

// a child that dies while it reads is not an error
static void be_quiet(void) { __sanitizer_set_death_callback(NULL); }

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  int fd = mkstemp(path);
  need(fd >= 0 && !close(fd) && !unlink(path));
  atexit(remove_file);
  pthread_atfork(NULL, NULL, be_quiet);
  write_own();
  take(&sound[0]);
  write_packed();
  take(&sound[1]);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
  static uint8_t bytes[BYTES_MAX];
  if (!size) return 0;
  const Sound *s = &sound[input[0] % 2];
  memcpy(bytes, s->bytes, s->size);
  for (size_t i = 1; i + 3 <= size; i += 3) {
    bytes[s->places[(input[i] << 8 | input[i + 1]) % s->count]] ^= input[i + 2];
  }
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  need(write(fd, bytes, s->size) == s->size && !close(fd));
  Dataset data;
  int status = dataset_read_all(&data, (const char *const[]){path}, 1);
  if (status) need(strstr(bfm_error(), path) != NULL);
  else dataset_free(&data);
  return 0;
}
