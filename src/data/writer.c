// A dataset file written in a stream. The HDF5 library creates the whole file once, under a temporary
// name: contiguous tables with room for the planned rows (the file is sparse, so room takes no disk
// space), in the oldest format, which has no checksums. After that the writer works without the
// library: it writes rows to their place in the file, and a flush writes the number of rows into the
// header of each table. That is a single write within a page, so a reader sees the old number or
// the new one, whenever the writer is killed.

#define _GNU_SOURCE  // locks of an open file
#include "data/writer.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/files.h"
#include "core/units.h"
#include "data/robot_files.h"

#define COPY_BYTES (1 << 20)

#define HEADER_BYTES 512  // at least those of a table's header, which never crosses a page

// the place of a table in the file
typedef struct {
  off_t rows, header;
  uint8_t bytes[HEADER_BYTES];  // the header, of which only two words change:
  int length_at, address_at;    // offsets in it of the number of rows and of the data's address
} Place;

struct Writer {
  char *path;
  int fd;
  Table tables[WRITER_TABLES];
  Place places[WRITER_TABLES];
  int table_count;
  int64_t rows, planned;
  int shown;            // 1: the headers show rows, so the tables have an address
  OutputFile *pending;  // the file under its temporary name, NULL once it has its own
};

static const size_t type_sizes[] =
    {[COLUMN_F32] = 4, [COLUMN_F64] = 8, [COLUMN_I32] = 4, [COLUMN_I64] = 8, [COLUMN_BOOL] = 1};

size_t table_row_bytes(const Table *table) {
  return type_sizes[table->type] * (size_t)(table->columns ? table->columns : 1);
}

static int failed(const Writer *w, const char *what) {
  return bfm_fail(BFM_IO, "cannot write %s of %s: %s", what, w->path,
                  strerror(errno ? errno : EIO));
}

static int put(const Writer *w, const char *what, const void *bytes, size_t size, off_t at) {
  const char *p = bytes;
  while (size > 0) {
    ssize_t n = pwrite(w->fd, p, size, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(w, what);
    p += n;
    at += n;
    size -= (size_t)n;
  }
  return BFM_OK;
}

// HDF5 considers an empty table with an address damaged, so a table gets its address only together
// with its first rows.
static int put_length(Writer *w, int i) {
  Place *place = &w->places[i];
  uint64_t rows = htole64((uint64_t)w->rows);
  uint64_t address = w->rows ? htole64((uint64_t)place->rows) : UINT64_MAX;
  memcpy(place->bytes + place->length_at, &rows, sizeof rows);
  memcpy(place->bytes + place->address_at, &address, sizeof address);
  int end = w->shown ? place->length_at : place->address_at;
  return put(w, w->tables[i].name, place->bytes + place->length_at,
             (size_t)(end - place->length_at) + sizeof rows, place->header + place->length_at);
}

// The first table comes last: readers take the number of rows from it, so all other tables must have
// their rows before.
static int put_lengths(Writer *w) {
  for (int i = w->table_count - 1; i >= 0; i--) TRY(put_length(w, i));
  w->shown = w->rows > 0;
  return BFM_OK;
}

// ---------------------------------- where things are ---------------------------------------------

enum { MESSAGE_SPACE = 1, MESSAGE_LAYOUT = 8 };

// Reads the object header of a table. A header of version 1 is a sequence of messages, of which two
// are needed: the dataspace (version 1) and the contiguous layout (version 3). Returns 0 if the header
// lacks them, or if a single write could cross a page.
static int read_header(Place *place, int fd) {
  const uint8_t *bytes = place->bytes;
  ssize_t size = pread(fd, place->bytes, HEADER_BYTES, place->header);
  place->length_at = place->address_at = 0;
  if (size < 16 || bytes[0] != 1 || place->header % HEADER_BYTES) return 0;
  for (ssize_t at = 16; at + 24 <= size;) {
    const uint8_t *message = bytes + at + 8;
    int type = bytes[at] | bytes[at + 1] << 8, length = bytes[at + 2] | bytes[at + 3] << 8;
    if (type == MESSAGE_SPACE && message[0] == 1) place->length_at = (int)at + 16;
    if (type == MESSAGE_LAYOUT && message[0] == 3 && message[1] == 1) {
      place->address_at = (int)at + 10;
      return place->length_at > 0;
    }
    at += 8 + length;
  }
  return 0;
}

static int same_type(hid_t handle, ColumnType type) {
  hid_t has = H5Dget_type(handle), wants = hdf5_type(type);
  int same = H5Tequal(has, wants) > 0;
  H5Tclose(has);
  H5Tclose(wants);
  return same;
}

// finds the place of a table; the shortest table determines the number of rows
static int locate_table(Writer *w, hid_t file, int i) {
  const Table *table = &w->tables[i];
  int64_t rows = 0, columns = 0;
  int axes = 0;
  TRY(hdf5_shape(file, table->name, &rows, &columns, &axes));
  hid_t handle = H5Dopen2(file, table->name, H5P_DEFAULT);
  H5O_info_t info;
  if (handle < 0 || H5Oget_info(handle, &info) < 0) {
    H5Dclose(handle);
    return bfm_fail(BFM_BAD_FILE, "cannot open the table %s", table->name);
  }
  w->places[i] = (Place){.rows = (off_t)H5Dget_offset(handle), .header = (off_t)info.addr};
  hsize_t room = H5Dget_storage_size(handle) / table_row_bytes(table);
  int same = same_type(handle, table->type) && axes == (table->columns ? 2 : 1) &&
             (!table->columns || columns == table->columns);
  H5Dclose(handle);
  if (!same) {
    return bfm_fail(BFM_BAD_FILE, "%s has another type or shape than the new rows", table->name);
  }
  if (!read_header(&w->places[i], w->fd) || (rows && room < (hsize_t)w->planned)) {
    return bfm_fail(BFM_BAD_FILE, "%s has no room to grow: rewrite the file with bfm data convert",
                    table->name);
  }
  if (i == 0 || rows < w->rows) w->rows = rows;
  return BFM_OK;
}

typedef struct {
  Writer *writer;
  Note *notes;  // the caller frees them
  int note_count;
} Found;

static int locate_tables(hid_t file, void *context) {
  Found *found = context;
  Writer *w = found->writer;
  w->planned = hdf5_attribute_number(file, "planned_rows", 0);
  int status = BFM_OK;
  for (int i = 0; i < w->table_count && !status; i++) status = locate_table(w, file, i);
  if (!status) status = hdf5_notes(file, &found->notes, &found->note_count);
  return status ? bfm_fail_prefix(status, "%s: ", w->path) : BFM_OK;
}

// finds all tables in the file of this name, which the writer has open
static int locate(Found *found, const char *name) { return hdf5_use(name, locate_tables, found); }

// Opens and locks a file; the lock ends with the process. Fails also if another process replaced the
// file in the meantime.
static int open_locked(Writer *w, const char *name) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct stat mine, there;
  w->fd = open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (w->fd < 0) return bfm_fail(BFM_IO, "cannot open %s: %s", w->path, strerror(errno));
  int taken = fcntl(w->fd, F_OFD_SETLK, &whole) && (errno == EAGAIN || errno == EACCES);
  if (!taken && !fstat(w->fd, &mine) && !stat(name, &there) && mine.st_ino == there.st_ino) {
    return BFM_OK;
  }
  return bfm_fail(BFM_IO, "another process is writing %s", w->path);
}

int writer_is_open(const char *path) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  int is_open = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
  if (fd >= 0) close(fd);
  return is_open;
}

// ---------------------------------- a new file ---------------------------------------------------

static int create_table(hid_t file, const Table *table, int64_t planned) {
  hsize_t shape[2] = {(hsize_t)planned, (hsize_t)table->columns};
  hid_t type = hdf5_type(table->type),
        space = H5Screate_simple(table->columns ? 2 : 1, shape, NULL);
  hid_t layout = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_alloc_time(layout, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(layout, H5D_FILL_TIME_NEVER);
  H5Pset_create_intermediate_group(links, 1);
  hid_t handle = H5Dcreate2(file, table->name, type, space, links, layout, H5P_DEFAULT);
  H5Pclose(links);
  H5Pclose(layout);
  H5Sclose(space);
  H5Tclose(type);
  if (handle < 0) return bfm_fail(BFM_IO, "cannot create the table %s", table->name);
  H5Dclose(handle);
  return BFM_OK;
}

static int put_contents(const Writer *w, hid_t file, int64_t planned, const Note *notes,
                        int note_count) {
  for (int i = 0; i < note_count; i++) {
    TRY(hdf5_put_text(file, notes[i].name, notes[i].text));
    if (!strcmp(notes[i].name, "env")) TRY(robot_files_write(file, notes[i].text));
  }
  TRY(hdf5_put_text(file, "bfm", BFM_VERSION));
  TRY(hdf5_put_number(file, "planned_rows", planned));
  for (int i = 0; i < w->table_count; i++) TRY(create_table(file, &w->tables[i], planned));
  return BFM_OK;
}

// creates the file with HDF5, with all planned rows
static int lay_out(const Writer *w, const char *name, int64_t planned, const Note *notes,
                   int note_count) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
  H5Pset_alignment(access, 1, HEADER_BYTES);
  errno = 0;
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Pclose(access);
  int status =
      file < 0 ? bfm_fail(BFM_IO, "cannot create %s: %s", w->path, strerror(errno ? errno : EIO))
               : put_contents(w, file, planned, notes, note_count);
  if (file >= 0 && status) bfm_fail_prefix(status, "%s: ", w->path);
  if (file >= 0 && H5Fclose(file) < 0 && !status) status = failed(w, "the header");
  return status;
}

// checks, before HDF5 does, that the file system supports a file of this size
static int check_room(const Writer *w, int fd, int64_t planned) {
  double bytes = 1 << 16;
  for (int i = 0; i < w->table_count; i++) {
    bytes += (double)planned * (double)table_row_bytes(&w->tables[i]);
  }
  if (planned < 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "cannot create %s for %" PRId64 " rows: plan at least 1",
                    w->path, planned);
  }
  if (bytes >= 0x1p62) errno = EFBIG;
  if (bytes < 0x1p62 && !ftruncate(fd, (off_t)bytes)) return BFM_OK;
  return bfm_fail(BFM_IO, "cannot create %s for %" PRId64 " rows, %s: %s", w->path, planned,
                  size_of_bytes(bytes).text, strerror(errno));
}

// creates the file under its temporary name, open, locked and without rows; the caller commits it
static int make_file(Writer *w, const OutputFile *file, int64_t planned, const Note *notes,
                     int note_count) {
  TRY(check_room(w, file->fd, planned));
  TRY(lay_out(w, file->temporary, planned, notes, note_count));
  TRY(open_locked(w, file->temporary));
  Found found = {.writer = w};
  int status = locate(&found, file->temporary);
  if (status) {  // without the temporary name, which the message contains
    return bfm_fail(status, "cannot write %s: HDF5 cannot read its header back", w->path);
  }
  free(found.notes);
  w->rows = w->shown = 0;
  return put_lengths(w);
}

// ---------------------------------- opening and closing ------------------------------------------

static int writer_new(Writer **out, const char *path, const Table *tables, int table_count) {
  *out = NULL;
  Writer *w = calloc(1, sizeof *w);
  if (w) w->path = strdup(path);
  if (!w || !w->path) {
    free(w);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a writer");
  }
  w->fd = -1;
  w->table_count = table_count;
  memcpy(w->tables, tables, (size_t)table_count * sizeof *tables);
  *out = w;
  return BFM_OK;
}

void writer_abandon(Writer *w) {
  if (!w) return;
  if (w->fd >= 0) close(w->fd);
  if (w->pending) output_discard(w->pending);
  free(w->pending);
  free(w->path);
  free(w);
}

// gives the file its own name, unless another file has it by now
static int publish(Writer *w) {
  int status = output_commit_new(w->pending);
  free(w->pending);
  w->pending = NULL;
  return status;
}

static int create(Writer *w, int64_t planned, const Note *notes, int note_count) {
  OutputFile *file = malloc(sizeof *file);
  if (!file) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", w->path);
  int status = output_open(file, w->path);
  if (status) {
    free(file);
    return status;
  }
  w->pending = file;
  return make_file(w, file, planned, notes, note_count);
}

static int copy_rows(const Writer *from, const Writer *to) {
  char *buffer = malloc(COPY_BYTES);
  if (!buffer) return bfm_fail(BFM_NO_MEMORY, "out of memory for a block of rows");
  int status = BFM_OK;
  for (int i = 0; i < to->table_count; i++) {
    off_t bytes = (off_t)(from->rows * (int64_t)table_row_bytes(&to->tables[i])), n;
    for (off_t at = 0; at < bytes && !status; at += n) {
      n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
      n = pread(from->fd, buffer, (size_t)n, from->places[i].rows + at);
      if (n <= 0) {
        status = bfm_fail(BFM_IO, "cannot read %s of %s", to->tables[i].name, from->path);
      } else {
        status = put(to, to->tables[i].name, buffer, (size_t)n, to->places[i].rows + at);
      }
    }
  }
  free(buffer);
  return status;
}

// replaces the file by one with the same rows and notes for another number of planned rows
static int rewrite(Writer *w, int64_t planned, const Note *notes, int note_count) {
  OutputFile file;
  TRY(output_open(&file, w->path));
  Writer old = *w;
  w->fd = -1;
  int status = make_file(w, &file, planned, notes, note_count);
  if (!status) status = copy_rows(&old, w);
  w->rows = old.rows;
  if (!status) status = put_lengths(w);
  if (!status) status = output_commit(&file);
  else output_discard(&file);
  close(old.fd);
  return status;
}

static int resume(Writer *w, int64_t planned) {
  Found found = {.writer = w};
  TRY(open_locked(w, w->path));
  TRY(locate(&found, w->path));
  if (planned < w->rows) planned = w->rows;
  w->shown = w->rows > 0;
  int status = w->shown && planned == w->planned
                   ? put_lengths(w)
                   : rewrite(w, planned, found.notes, found.note_count);
  free(found.notes);
  return status;
}

int writer_create_whole(Writer **out, const char *path, const Table *tables, int table_count,
                        int64_t planned, const Note *notes, int note_count) {
  TRY(writer_new(out, path, tables, table_count));
  Hdf5Errors errors = hdf5_silence();
  int status = create(*out, planned, notes, note_count);
  hdf5_restore(errors);
  if (status) {
    writer_abandon(*out);
    *out = NULL;
  }
  return status;
}

int writer_create(Writer **out, const char *path, const Table *tables, int table_count,
                  int64_t planned, const Note *notes, int note_count) {
  struct stat info;
  *out = NULL;
  if (!lstat(path, &info)) {
    return bfm_fail(BFM_IO, "%s already exists%s", path,
                    S_ISREG(info.st_mode) ? ": use --resume to continue it" : "");
  }
  TRY(writer_create_whole(out, path, tables, table_count, planned, notes, note_count));
  int status = publish(*out);
  if (status) {
    writer_abandon(*out);
    *out = NULL;
  }
  return status;
}

int writer_resume(Writer **out, const char *path, const Table *tables, int table_count,
                  int64_t planned) {
  TRY(writer_new(out, path, tables, table_count));
  Hdf5Errors errors = hdf5_silence();
  int status = resume(*out, planned);
  hdf5_restore(errors);
  if (status) {
    writer_abandon(*out);
    *out = NULL;
  }
  return status;
}

int64_t writer_rows(const Writer *w) { return w->rows; }

int writer_append(Writer *w, int64_t rows, const void *const *values) {
  if (rows > w->planned - w->rows) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s has room for %" PRId64 " rows, not for %" PRId64, w->path,
                    w->planned, w->rows + rows);
  }
  int status = BFM_OK;
  for (int i = 0; i < w->table_count && !status; i++) {
    int64_t bytes = (int64_t)table_row_bytes(&w->tables[i]);
    status = put(w, w->tables[i].name, values[i], (size_t)(rows * bytes),
                 w->places[i].rows + (off_t)(w->rows * bytes));
  }
  if (!status) w->rows += rows;
  else put_lengths(w);  // publish the earlier rows, which are complete even if the disk is full
  return status;
}

int writer_flush(Writer *w) { return put_lengths(w); }

int writer_close(Writer *w) {
  int status = put_lengths(w);
  if (!status && fsync(w->fd)) status = failed(w, "the end");
  if (!status && w->pending) status = publish(w);
  writer_abandon(w);
  return status;
}
