// A dataset file written in a stream. HDF5's single-writer mode orders its writes so that the file
// on disk is consistent after each of them; what it points to grows at the end. That mode also marks
// the file as open, a mark that would outlive a killed writer and keep other readers out: after each
// flush it is taken off again. A lock, which dies with its process, keeps other writers out.

#define _GNU_SOURCE  // locks of an open file
#include "data/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/hdf5.h"

#define CHUNK_ROWS 4096

struct Writer {
  char *path;
  int fd;  // for what HDF5 does not do: lock, unmark, sync
  hid_t file;
  Table tables[WRITER_TABLES];
  hid_t handles[WRITER_TABLES];
  int table_count;
  int64_t rows;
  int broken;  // a write failed
};

static const size_t type_sizes[] = {
    [COLUMN_F32] = 4, [COLUMN_F64] = 8, [COLUMN_I32] = 4, [COLUMN_I64] = 8, [COLUMN_BOOL] = 1};

size_t table_row_bytes(const Table *table) {
  return type_sizes[table->type] * (size_t)(table->columns ? table->columns : 1);
}

// to be closed by the caller. Booleans are an enumeration, as h5py writes them
static hid_t type_of(ColumnType type) {
  static const int8_t no = 0, yes = 1;
  hid_t copy;
  switch (type) {
    case COLUMN_F32: return H5Tcopy(H5T_IEEE_F32LE);
    case COLUMN_F64: return H5Tcopy(H5T_IEEE_F64LE);
    case COLUMN_I32: return H5Tcopy(H5T_STD_I32LE);
    case COLUMN_I64: return H5Tcopy(H5T_STD_I64LE);
    default:
      copy = H5Tenum_create(H5T_STD_I8LE);
      H5Tenum_insert(copy, "FALSE", &no);
      H5Tenum_insert(copy, "TRUE", &yes);
      return copy;
  }
}

static int failed(const Writer *w, const char *what) {
  return bfm_fail(BFM_IO, "cannot write %s of %s%s%s", what, w->path, errno ? ": " : "",
                  errno ? strerror(errno) : "");
}

// ---------------------------------- the mark of an open file -------------------------------------

#define SUPERBLOCK_WORDS 12  // of version 3, the last one the checksum of the others
#define MARK_BYTE 11

static uint32_t rotate(uint32_t x, int k) { return x << k | x >> (32 - k); }

// Jenkins' lookup3 of 44 bytes, which is what HDF5 protects its superblock with
static uint32_t superblock_checksum(const uint32_t *w) {
  static const int mix[6] = {4, 6, 8, 16, 19, 4}, final[7] = {14, 11, 25, 16, 4, 14, 24};
  uint32_t x[3];
  for (int i = 0; i < 3; i++) x[i] = 0xdeadbeef + 4 * (SUPERBLOCK_WORDS - 1);

  for (int block = 0; block < 3; block++) {
    for (int i = 0; i < 3; i++) x[i] += w[3 * block + i];
    for (int i = 0; i < 6; i++) {
      uint32_t *a = &x[i % 3], *b = &x[(i + 1) % 3], *c = &x[(i + 2) % 3];
      *a -= *c;
      *a ^= rotate(*c, mix[i]);
      *c += *b;
    }
  }
  x[0] += w[9];
  x[1] += w[10];
  for (int i = 0; i < 7; i++) {
    uint32_t *c = &x[(i + 2) % 3], *b = &x[(i + 1) % 3];
    *c ^= *b;
    *c -= rotate(*b, final[i]);
  }
  return x[2];
}

// a superblock of another kind or with another checksum is left alone: bfm reads the file anyway
static int unmark(const Writer *w) {
  union {
    uint32_t words[SUPERBLOCK_WORDS];
    uint8_t bytes[4 * SUPERBLOCK_WORDS];
  } block;
  int bad = pread(w->fd, &block, sizeof block, 0) != sizeof block;
  if (!bad && block.bytes[8] == 3 && block.bytes[MARK_BYTE] &&
      superblock_checksum(block.words) == block.words[SUPERBLOCK_WORDS - 1]) {
    block.bytes[MARK_BYTE] = 0;
    block.words[SUPERBLOCK_WORDS - 1] = superblock_checksum(block.words);
    bad = pwrite(w->fd, &block, sizeof block, 0) != sizeof block;
  }
  return bad ? failed(w, "the head") : BFM_OK;
}

static int lock(Writer *w) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  w->fd = open(w->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (w->fd < 0) return bfm_fail(BFM_IO, "cannot open %s: %s", w->path, strerror(errno));
  if (!fcntl(w->fd, F_OFD_SETLK, &whole) || (errno != EAGAIN && errno != EACCES)) return BFM_OK;
  return bfm_fail(BFM_IO, "another process is writing %s", w->path);
}

// ---------------------------------- tables -------------------------------------------------------

// chunks are written whole, so the cache of a table holds two of them
static hid_t table_access(const Table *table) {
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  H5Pset_chunk_cache(access, 101, 2 * CHUNK_ROWS * table_row_bytes(table), 1);
  return access;
}

static hid_t create_table(hid_t file, const Table *table) {
  int axes = table->columns ? 2 : 1;
  hsize_t shape[2] = {0, (hsize_t)table->columns};
  hsize_t most[2] = {H5S_UNLIMITED, (hsize_t)table->columns};
  hsize_t chunk[2] = {CHUNK_ROWS, (hsize_t)table->columns};
  hid_t type = type_of(table->type), space = H5Screate_simple(axes, shape, most);
  hid_t layout = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
  hid_t access = table_access(table);
  H5Pset_chunk(layout, axes, chunk);
  H5Pset_create_intermediate_group(links, 1);
  hid_t handle = H5Dcreate2(file, table->name, type, space, links, layout, access);
  H5Pclose(access);
  H5Pclose(links);
  H5Pclose(layout);
  H5Sclose(space);
  H5Tclose(type);
  return handle;
}

static int set_rows(const Writer *w, int i, int64_t rows) {
  hsize_t shape[2] = {(hsize_t)rows, (hsize_t)w->tables[i].columns};
  return H5Dset_extent(w->handles[i], shape) < 0 ? failed(w, w->tables[i].name) : BFM_OK;
}

static int write_rows(const Writer *w, int i, int64_t rows, const void *values) {
  const Table *table = &w->tables[i];
  int axes = table->columns ? 2 : 1;
  hsize_t start[2] = {(hsize_t)w->rows, 0}, count[2] = {(hsize_t)rows, (hsize_t)table->columns};
  TRY(set_rows(w, i, w->rows + rows));
  hid_t type = type_of(table->type), memory = H5Screate_simple(axes, count, NULL);
  hid_t space = H5Dget_space(w->handles[i]);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  int bad = H5Dwrite(w->handles[i], type, memory, space, H5P_DEFAULT, values) < 0;
  H5Sclose(space);
  H5Sclose(memory);
  H5Tclose(type);
  return bad ? failed(w, table->name) : BFM_OK;
}

// ---------------------------------- life ---------------------------------------------------------

static int writer_new(Writer **out, const char *path, const Table *tables, int table_count) {
  *out = NULL;
  Writer *w = calloc(1, sizeof *w);
  if (w) w->path = strdup(path);
  if (!w || !w->path) {
    free(w);
    return bfm_fail(BFM_NO_MEMORY, "no memory for a writer");
  }
  w->fd = -1;
  w->file = H5I_INVALID_HID;
  w->table_count = table_count;
  for (int i = 0; i < table_count; i++) {
    w->tables[i] = tables[i];
    w->handles[i] = H5I_INVALID_HID;
  }
  *out = w;
  return BFM_OK;
}

// closing is the last chance of a write to fail. After a failed one HDF5 would write a head that
// speaks of what is not there: it is left alone, as a killed process leaves it
static int close_all(Writer *w) {
  int bad = 0;
  if (w->broken) return 1;
  for (int i = 0; i < w->table_count; i++) {
    if (w->handles[i] >= 0) bad |= H5Dclose(w->handles[i]) < 0;
  }
  if (w->file >= 0) bad |= H5Fclose(w->file) < 0;
  return bad;
}

static void writer_free(Writer *w) {
  if (w->fd >= 0) close(w->fd);
  free(w->path);
  free(w);
}

void writer_abandon(Writer *w) {
  if (!w) return;
  Hdf5Errors errors = hdf5_silence();
  close_all(w);
  hdf5_restore(errors);
  writer_free(w);
}

// the format of HDF5 1.10, which single-writer mode needs and h5py has read since 2016
static hid_t file_access(void) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  return access;
}

static int begin_stream(Writer *w) {
  if (H5Fstart_swmr_write(w->file) < 0) return failed(w, "the head");
  return writer_flush(w);
}

static int create(Writer *w, const Note *notes, int note_count) {
  struct stat info;
  if (!lstat(w->path, &info)) return bfm_fail(BFM_IO, "%s is there already", w->path);
  errno = 0;
  hid_t access = file_access();
  w->file = H5Fcreate(w->path, H5F_ACC_EXCL, H5P_DEFAULT, access);
  H5Pclose(access);
  if (w->file < 0) {
    return bfm_fail(BFM_IO, "cannot create %s: %s", w->path, strerror(errno ? errno : EIO));
  }
  TRY(lock(w));
  for (int i = 0; i < note_count; i++) TRY(hdf5_put_text(w->file, notes[i].name, notes[i].text));
  TRY(hdf5_put_text(w->file, "bfm", BFM_VERSION));
  TRY(hdf5_put_number(w->file, "complete", 0));
  for (int i = 0; i < w->table_count; i++) {
    w->handles[i] = create_table(w->file, &w->tables[i]);
    if (w->handles[i] < 0) return failed(w, w->tables[i].name);
  }
  return begin_stream(w);
}

static int open_table(Writer *w, int i) {
  const Table *table = &w->tables[i];
  int64_t rows = 0, columns = 0;
  int axes = 0;
  TRY(hdf5_shape(w->file, table->name, &rows, &columns, &axes));
  hid_t access = table_access(table);
  w->handles[i] = H5Dopen2(w->file, table->name, access);
  H5Pclose(access);
  if (w->handles[i] < 0) return failed(w, table->name);

  hid_t has = H5Dget_type(w->handles[i]), wants = type_of(table->type);
  int same = H5Tequal(has, wants) > 0 && axes == (table->columns ? 2 : 1) &&
             (!table->columns || columns == table->columns);
  H5Tclose(has);
  H5Tclose(wants);
  if (!same) {
    return bfm_fail(BFM_BAD_FILE, "%s of %s has another type or shape than it would be given",
                    table->name, w->path);
  }
  if (i == 0 || rows < w->rows) w->rows = rows;
  return BFM_OK;
}

static int resume(Writer *w) {
  hid_t check;
  TRY(lock(w));
  TRY(unmark(w));
  TRY(hdf5_open(&check, w->path));
  H5Fclose(check);
  hid_t access = file_access();
  w->file = H5Fopen(w->path, H5F_ACC_RDWR, access);
  H5Pclose(access);
  if (w->file < 0) return failed(w, "more rows");
  TRY(unmark(w));
  for (int i = 0; i < w->table_count; i++) TRY(open_table(w, i));
  for (int i = 0; i < w->table_count; i++) TRY(set_rows(w, i, w->rows));
  TRY(hdf5_put_number(w->file, "complete", 0));
  return begin_stream(w);
}

int writer_create(Writer **out, const char *path, const Table *tables, int table_count,
                  const Note *notes, int note_count) {
  TRY(writer_new(out, path, tables, table_count));
  Hdf5Errors errors = hdf5_silence();
  int status = create(*out, notes, note_count);
  int made = (*out)->file >= 0;
  if (status) {
    writer_abandon(*out);
    *out = NULL;
    if (made) unlink(path);
  }
  hdf5_restore(errors);
  return status;
}

int writer_resume(Writer **out, const char *path, const Table *tables, int table_count) {
  TRY(writer_new(out, path, tables, table_count));
  Hdf5Errors errors = hdf5_silence();
  int status = resume(*out);
  if (status) {
    writer_abandon(*out);
    *out = NULL;
  }
  hdf5_restore(errors);
  return status;
}

int64_t writer_rows(const Writer *w) { return w->rows; }

int writer_append(Writer *w, int64_t rows, const void *const *values) {
  Hdf5Errors errors = hdf5_silence();
  int status = BFM_OK;
  errno = 0;
  for (int i = 0; i < w->table_count && !status && rows; i++) {
    status = write_rows(w, i, rows, values[i]);
  }
  if (!status) w->rows += rows;
  w->broken |= status != BFM_OK;
  hdf5_restore(errors);
  return status;
}

int writer_flush(Writer *w) {
  Hdf5Errors errors = hdf5_silence();
  errno = 0;
  int status = H5Fflush(w->file, H5F_SCOPE_LOCAL) < 0 ? failed(w, "rows") : BFM_OK;
  w->broken |= status != BFM_OK;
  hdf5_restore(errors);
  return status ? status : unmark(w);
}

int writer_close(Writer *w, int complete) {
  Hdf5Errors errors = hdf5_silence();
  int status = writer_flush(w);
  if (!status && complete) {
    status = hdf5_put_number(w->file, "complete", 1);
    if (!status) status = writer_flush(w);
  }
  errno = 0;
  if (close_all(w) && !status) status = failed(w, "the end");
  if (fsync(w->fd) && !status) status = failed(w, "the end");
  hdf5_restore(errors);
  writer_free(w);
  return status;
}
