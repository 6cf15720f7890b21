// The part of HDF5 that datasets need. While it reads, HDF5 converts any integer, float or boolean
// to float32. A value that is not finite afterwards is an error that names its row and column.

#include "data/hdf5.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/files.h"
#include "data/hdf5_probe.h"

// At exit, HDF5 would flush files that are still open, and after a failed write it would crash. bfm
// closes every file itself, so HDF5's exit handler is not needed.
__attribute__((constructor)) static void no_exit_handler(void) { H5dont_atexit(); }

Hdf5Errors hdf5_silence(void) {
  Hdf5Errors errors = {NULL, NULL};
  H5Eget_auto2(H5E_DEFAULT, &errors.print, &errors.context);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  return errors;
}

void hdf5_restore(Hdf5Errors errors) { H5Eset_auto2(H5E_DEFAULT, errors.print, errors.context); }

typedef struct {
  const char *path;
  int (*use)(hid_t file, void *context);
  void *context;
  int status;
  int locked;  // another process has the file open for writing
} Use;

static void open_and_use(void *context) {
  Use *u = context;
  hid_t file = H5Fopen(u->path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) {
    u->status = u->locked
                    ? bfm_fail(BFM_IO, "another process has %s open for writing", u->path)
                    : bfm_fail(BFM_BAD_FILE,
                               "cannot open %s: the HDF5 file is cut short or damaged", u->path);
    return;
  }
  u->status = u->use(file, u->context);
  H5Fclose(file);
}

static int use_with_care(Use *u) {
  int fd;
  size_t size;
  TRY(input_open(u->path, &fd, &size));
  u->locked = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
  close(fd);
  if (H5Fis_hdf5(u->path) <= 0) return bfm_fail(BFM_BAD_FILE, "%s is not an HDF5 file", u->path);
  if (!hdf5_probe(open_and_use, u)) {
    return bfm_fail(BFM_BAD_FILE, "%s is damaged: the HDF5 library crashes or hangs on it",
                    u->path);
  }
  return u->status;
}

int hdf5_use(const char *path, int (*use)(hid_t file, void *context), void *context) {
  Hdf5Errors errors = hdf5_silence();
  int status = use_with_care(&(Use){path, use, context, BFM_OK, 0});
  hdf5_restore(errors);
  return status;
}

// whether the group exists that a name such as "infos/qpos" needs; infos might also be a table
static int has_group_of(hid_t file, const char *name) {
  char group[64];
  H5O_info_t info;
  const char *slash = strchr(name, '/');
  if (!slash) return 1;
  snprintf(group, sizeof group, "%.*s", (int)(slash - name), name);
  if (!H5Lexists(file, group, H5P_DEFAULT)) return 0;
  return H5Oget_info_by_name(file, group, &info, H5P_DEFAULT) < 0 || info.type == H5O_TYPE_GROUP;
}

int hdf5_has(hid_t file, const char *name) {
  return has_group_of(file, name) && H5Lexists(file, name, H5P_DEFAULT) &&
         H5Oexists_by_name(file, name, H5P_DEFAULT);
}

// ---------------------------------- tables -------------------------------------------------------

// booleans are an enumeration, as in h5py
hid_t hdf5_type(ColumnType type) {
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

static int open_table(hid_t file, const char *name, hid_t *table) {
  *table = H5I_INVALID_HID;
  hdf5_probe_step(0);
  if (!hdf5_has(file, name)) return bfm_fail(BFM_BAD_FILE, "there is no dataset \"%s\"", name);
  *table = H5Dopen2(file, name, H5P_DEFAULT);
  if (*table >= 0) return BFM_OK;
  unsigned major, minor, release;
  H5get_libversion(&major, &minor, &release);
  return bfm_fail(BFM_BAD_FILE,
                  "\"%s\" is not a dataset, or is damaged, or was written for a newer HDF5 than "
                  "%u.%u.%u",
                  name, major, minor, release);
}

static int shape_of(hid_t table, const char *name, int64_t *rows, int64_t *columns, int *axes) {
  hid_t type = H5Dget_type(table), space = H5Dget_space(table);
  H5T_class_t kind = H5Tget_class(type);
  hsize_t extents[2] = {0, 1};
  *axes = H5Sget_simple_extent_ndims(space);
  int plain = *axes == 1 || *axes == 2;
  if (plain) H5Sget_simple_extent_dims(space, extents, NULL);
  H5Tclose(type);
  H5Sclose(space);

  if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM) {
    return bfm_fail(BFM_BAD_FILE, "%s does not hold numbers", name);
  }
  if (!plain) return bfm_fail(BFM_BAD_FILE, "%s has %d axes, but must have 1 or 2", name, *axes);
  if (extents[0] > INT32_MAX * (hsize_t)1024 || extents[1] > INT32_MAX) {
    return bfm_fail(BFM_BAD_FILE, "%s has an impossible size: %" PRIu64 " x %" PRIu64, name,
                    (uint64_t)extents[0], (uint64_t)extents[1]);
  }
  *rows = (int64_t)extents[0];
  *columns = (int64_t)extents[1];
  return BFM_OK;
}

int hdf5_shape(hid_t file, const char *name, int64_t *rows, int64_t *columns, int *axes) {
  hid_t table;
  TRY(open_table(file, name, &table));
  int status = shape_of(table, name, rows, columns, axes);
  H5Dclose(table);
  return status;
}

// reads the first rows of a table, which must have this many columns and at least as many rows
static int read_table(hid_t file, const char *name, hid_t type, int64_t rows, int64_t columns,
                      void *out) {
  hid_t table;
  int64_t has_rows = 0, has_columns = 0;
  int axes = 1, bad = 0;
  TRY(open_table(file, name, &table));
  int status = shape_of(table, name, &has_rows, &has_columns, &axes);
  if (!status && (has_rows < rows || has_columns != columns)) {
    status = bfm_fail(BFM_BAD_FILE,
                      "%s has %" PRId64 " x %" PRId64 " numbers, but %" PRId64 " x %" PRId64
                      " are expected",
                      name, has_rows, has_columns, rows, columns);
  }
  if (!status && rows > 0) {
    hsize_t start[2] = {0, 0}, count[2] = {(hsize_t)rows, (hsize_t)columns};
    hdf5_probe_step((double)rows * (double)columns * (double)H5Tget_size(type));
    hid_t memory = H5Screate_simple(axes, count, NULL), space = H5Dget_space(table);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    bad = H5Dread(table, type, memory, space, H5P_DEFAULT, out) < 0;
    H5Sclose(space);
    H5Sclose(memory);
  }
  H5Dclose(table);
  if (status) return status;
  if (!bad) return BFM_OK;
  return bfm_fail(
      BFM_BAD_FILE,
      "cannot read %s: it is damaged, or compressed with a filter that is not installed", name);
}

static int not_finite(const char *name, int64_t columns, const uint8_t *ends, int64_t i,
                      double value) {
  char where[48] = "";
  int64_t row = i / columns, episode = 0;
  for (int64_t k = 0; ends && k < row; k++) episode += ends[k];
  if (ends) snprintf(where, sizeof where, " (episode %" PRId64 ")", episode);
  return bfm_fail(BFM_BAD_FILE, "%s has %s at row %" PRId64 ", column %" PRId64 "%s", name,
                  isnan(value) ? "NaN" : "an infinity", row, i % columns, where);
}

int hdf5_read_as(hid_t file, const char *name, ColumnType type, int64_t rows, int64_t columns,
                 void *out) {
  hid_t memory = hdf5_type(type);
  int status = read_table(file, name, memory, rows, columns, out);
  H5Tclose(memory);
  return status;
}

// A sum is finite only if all its terms are, and sums are fast. Only if one is not does a second
// pass search for the value.
static int check_floats(const char *name, int64_t rows, int64_t columns, const uint8_t *ends,
                        const float *values) {
  for (int64_t i = 0, end; i < rows * columns; i = end) {
    end = i + 4096 < rows * columns ? i + 4096 : rows * columns;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = i; k < end; k++) sum += 0 * values[k];
    if (sum == 0) continue;
    while (isfinite(values[i])) i++;
    return not_finite(name, columns, ends, i, values[i]);
  }
  return BFM_OK;
}

int hdf5_check(const char *name, ColumnType type, int64_t rows, int64_t columns,
               const uint8_t *ends, const void *values) {
  if (hdf5_is_probe()) return BFM_OK;  // bad numbers cannot crash the process
  if (type == COLUMN_F32) return check_floats(name, rows, columns, ends, values);
  const double *doubles = values;
  for (int64_t i = 0; type == COLUMN_F64 && i < rows * columns; i++) {
    if (!isfinite(doubles[i])) return not_finite(name, columns, ends, i, doubles[i]);
  }
  return BFM_OK;
}

int hdf5_read(hid_t file, const char *name, int64_t rows, int64_t columns, float *out) {
  TRY(hdf5_read_as(file, name, COLUMN_F32, rows, columns, out));
  return hdf5_check(name, COLUMN_F32, rows, columns, NULL, out);
}

int hdf5_read_doubles(hid_t file, const char *name, int64_t rows, int64_t columns, double *out) {
  TRY(hdf5_read_as(file, name, COLUMN_F64, rows, columns, out));
  return hdf5_check(name, COLUMN_F64, rows, columns, NULL, out);
}

// the table must lie within the file, because touching a mapped page beyond its end is fatal
int hdf5_place(hid_t file, const char *name, ColumnType type, size_t bytes, int *fd,
               off_t *offset) {
  void *handle = NULL;
  struct stat info;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || fstat(*(int *)handle, &info)) return 0;
  hid_t table = H5Dopen2(file, name, H5P_DEFAULT);
  if (table < 0) return 0;
  hid_t has = H5Dget_type(table), wants = hdf5_type(type);
  haddr_t at = H5Dget_offset(table);
  int good = at != HADDR_UNDEF && H5Tequal(has, wants) > 0 && at % H5Tget_size(wants) == 0 &&
             at <= (haddr_t)info.st_size && bytes <= (haddr_t)info.st_size - at;
  H5Tclose(has);
  H5Tclose(wants);
  H5Dclose(table);
  *fd = *(int *)handle;
  *offset = (off_t)at;
  return good;
}

static int is_float(hid_t file, const char *name) {
  hid_t table = H5Dopen2(file, name, H5P_DEFAULT), type = H5Dget_type(table);
  int yes = H5Tget_class(type) == H5T_FLOAT;
  H5Tclose(type);
  H5Dclose(table);
  return yes;
}

// Booleans and integers are read as bytes, which is fast. Floats are not, because 0.5 would become 0.
int hdf5_read_flags(hid_t file, const char *name, int64_t rows, uint8_t *out) {
  if (!hdf5_has(file, name) || !is_float(file, name)) {
    TRY(read_table(file, name, H5T_NATIVE_INT8, rows, 1, out));
    for (int64_t i = 0; i < rows; i++) out[i] = out[i] != 0;
    return BFM_OK;
  }
  float *values = malloc((size_t)(rows + 1) * sizeof *values);
  if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rows", rows);
  int status = hdf5_read(file, name, rows, 1, values);
  for (int64_t i = 0; i < rows && !status; i++) out[i] = values[i] != 0;
  free(values);
  return status;
}

// ---------------------------------- attributes ---------------------------------------------------

// The text of an attribute, which the caller frees, or NULL if it is no text. A text of fixed length
// may lack its final zero, hence calloc.
static char *read_text(hid_t attribute) {
  hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
  char *text = NULL, *theirs = NULL;
  if (H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1) {
    if (H5Tis_variable_str(type) > 0) {
      if (H5Aread(attribute, type, &theirs) >= 0 && theirs) text = strdup(theirs);
      if (theirs) H5free_memory(theirs);
    } else if ((text = calloc(1, H5Tget_size(type) + 1)) && H5Aread(attribute, type, text) < 0) {
      *text = 0;
    }
  }
  H5Sclose(space);
  H5Tclose(type);
  return text;
}

void hdf5_attribute(hid_t file, const char *name, char *out, size_t size) {
  *out = 0;
  if (H5Aexists(file, name) <= 0) return;
  hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
  if (attribute < 0) return;
  char *text = read_text(attribute);
  if (text) snprintf(out, size, "%s", text);
  free(text);
  H5Aclose(attribute);
}

// notes as one text, "name\0text\0name\0…"
typedef struct {
  char *bytes;
  size_t size;
  int count, missing;
} Notes;

static herr_t take_note(hid_t file, const char *name, const H5A_info_t *info, void *context) {
  (void)info;
  Notes *notes = context;
  hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
  char *text = attribute < 0 ? NULL : read_text(attribute);
  if (attribute >= 0) H5Aclose(attribute);
  if (!text) return 0;
  size_t n = strlen(name) + 1, m = strlen(text) + 1;
  char *larger = realloc(notes->bytes, notes->size + n + m);
  if (larger) {
    memcpy(larger + notes->size, name, n);
    memcpy(larger + notes->size + n, text, m);
    notes->bytes = larger;
    notes->size += n + m;
    notes->count++;
  }
  notes->missing |= !larger;
  free(text);
  return 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const Note *)a)->name, ((const Note *)b)->name);
}

int hdf5_notes(hid_t file, Note **out, int *count) {
  Notes notes = {0};
  hsize_t at = 0;
  H5Aiterate2(file, H5_INDEX_NAME, H5_ITER_INC, &at, take_note, &notes);
  *count = notes.count;
  *out = malloc((size_t)notes.count * sizeof **out + notes.size + 1);
  if (!*out || notes.missing) {
    free(notes.bytes);
    free(*out);
    *out = NULL;
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the notes of a file");
  }
  char *p = (char *)(*out + notes.count);
  if (notes.size) memcpy(p, notes.bytes, notes.size);
  for (int i = 0; i < notes.count; i++) {
    (*out)[i].name = p;
    (*out)[i].text = p + strlen(p) + 1;
    p = (char *)(*out)[i].text + strlen((*out)[i].text) + 1;
  }
  free(notes.bytes);
  qsort(*out, notes.count, sizeof **out, by_name);  // HDF5's order already, if it is not damaged
  return BFM_OK;
}

int64_t hdf5_attribute_number(hid_t file, const char *name, int64_t fallback) {
  if (H5Aexists(file, name) <= 0) return fallback;
  hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
  if (attribute < 0) return fallback;
  hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
  int64_t number = fallback;
  if (H5Tget_class(type) == H5T_INTEGER && H5Sget_simple_extent_npoints(space) == 1 &&
      H5Aread(attribute, H5T_NATIVE_INT64, &number) < 0) {
    number = fallback;
  }
  H5Sclose(space);
  H5Tclose(type);
  H5Aclose(attribute);
  return number;
}

static int put_attribute(hid_t file, const char *name, hid_t type, const void *value) {
  hid_t attribute;
  if (H5Aexists(file, name) > 0) {
    attribute = H5Aopen(file, name, H5P_DEFAULT);
  } else {
    hid_t space = H5Screate(H5S_SCALAR);
    attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Sclose(space);
  }
  int bad = attribute < 0 || H5Awrite(attribute, type, value) < 0;
  if (attribute >= 0) H5Aclose(attribute);
  return bad ? bfm_fail(BFM_IO, "cannot write the attribute \"%s\"", name) : BFM_OK;
}

// writes a text of variable length, which h5py reads as str
int hdf5_put_text(hid_t file, const char *name, const char *text) {
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  int status = put_attribute(file, name, type, &text);
  H5Tclose(type);
  return status;
}

int hdf5_put_number(hid_t file, const char *name, int64_t number) {
  return put_attribute(file, name, H5T_NATIVE_INT64, &number);
}
