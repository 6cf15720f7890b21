// The part of HDF5 that datasets need: tables of numbers and text attributes, with error sentences
// instead of HDF5's own error stack.

#ifndef BFM_DATA_HDF5_H
#define BFM_DATA_HDF5_H

#define H5_USE_110_API  // keeps the names of HDF5 1.10 in newer libraries
#include <hdf5.h>
#include <stdint.h>

#include "core/status.h"

// HDF5 prints its error stack. Silence it around work, then restore the previous setting.
typedef struct {
  H5E_auto2_t print;
  void *context;
} Hdf5Errors;
Hdf5Errors hdf5_silence(void);
void hdf5_restore(Hdf5Errors errors);

typedef enum { COLUMN_F32, COLUMN_F64, COLUMN_I32, COLUMN_I64, COLUMN_BOOL } ColumnType;

// the type in files and in memory; the caller closes it
hid_t hdf5_type(ColumnType type);

// Opens a file and calls `use`, which must only read it: first in a child process, which may crash
// on a damaged file, then in this process.
int hdf5_use(const char *path, int (*use)(hid_t file, void *context), void *context);

// Whether the file has a dataset or group of this name. Returns 1 if damage makes that unknown; the
// functions that open it then report the damage.
int hdf5_has(hid_t file, const char *name);

// the shape [rows, columns] of a dataset of numbers; a single axis counts as one column
int hdf5_shape(hid_t file, const char *name, int64_t *rows, int64_t *columns, int *axes);

// Read the first rows of a dataset into out, converted to float32 or float64. Fail if a number is
// not finite.
int hdf5_read(hid_t file, const char *name, int64_t rows, int64_t columns, float *out);
int hdf5_read_doubles(hid_t file, const char *name, int64_t rows, int64_t columns, double *out);

// The same in two steps, for any type: read, then check that numbers are finite. ends, which may be
// NULL, is 1 at an episode's last row, so that the error can name the episode.
int hdf5_read_as(hid_t file, const char *name, ColumnType type, int64_t rows, int64_t columns,
                 void *out);
int hdf5_check(const char *name, ColumnType type, int64_t rows, int64_t columns,
               const uint8_t *ends, const void *values);

// Whether the first `bytes` bytes of a dataset are stored contiguously and in the type of memory. If
// so, *offset is their offset in HDF5's own file descriptor *fd.
int hdf5_place(hid_t file, const char *name, ColumnType type, size_t bytes, int *fd, off_t *offset);

// reads the first rows of a column as 0 or 1 (not 0)
int hdf5_read_flags(hid_t file, const char *name, int64_t rows, uint8_t *out);

// reads a text attribute of the file into out, which becomes empty if there is none
void hdf5_attribute(hid_t file, const char *name, char *out, size_t size);

// all text attributes of the file, sorted by name; the caller frees *notes, which owns all texts
typedef struct {
  const char *name, *text;
} Note;
int hdf5_notes(hid_t file, Note **notes, int *count);

// a whole number, or `fallback` if the file has no such attribute
int64_t hdf5_attribute_number(hid_t file, const char *name, int64_t fallback);

// create an attribute of the file; a number may also replace an old one
int hdf5_put_text(hid_t file, const char *name, const char *text);
int hdf5_put_number(hid_t file, const char *name, int64_t number);

#endif
