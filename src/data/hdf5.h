// The little of HDF5 that datasets need: tables of numbers and text attributes, with sentences in
// place of HDF5's own error stack.

#ifndef BFM_DATA_HDF5_H
#define BFM_DATA_HDF5_H

#define H5_USE_110_API  // what newer libraries have under newer names
#include <hdf5.h>
#include <stdint.h>

#include "core/status.h"

// HDF5 prints its error stack by itself: silence it around work, then restore what was there
typedef struct {
  H5E_auto2_t print;
  void *context;
} Hdf5Errors;
Hdf5Errors hdf5_silence(void);
void hdf5_restore(Hdf5Errors errors);

typedef enum { COLUMN_F32, COLUMN_F64, COLUMN_I32, COLUMN_I64, COLUMN_BOOL } ColumnType;

// as it is stored and held in memory, to be closed by the caller
hid_t hdf5_type(ColumnType type);

// open a file for `use`, which only reads it; done twice, first in a child that may crash on it
int hdf5_use(const char *path, int (*use)(hid_t file, void *context), void *context);

// whether the file has a dataset or group of this name; 1 also where damage hides it, which those
// that open it then say
int hdf5_has(hid_t file, const char *name);

// [rows, columns] of a dataset of numbers; one with a single axis counts as one column
int hdf5_shape(hid_t file, const char *name, int64_t *rows, int64_t *columns, int *axes);

// the first rows of a dataset into out, converted to float32 or float64; finite numbers only
int hdf5_read(hid_t file, const char *name, int64_t rows, int64_t columns, float *out);
int hdf5_read_doubles(hid_t file, const char *name, int64_t rows, int64_t columns, double *out);

// the same in two steps, for any type: read, check that numbers are finite. ends (may be NULL): 1 at
// an episode's last row, so that the episode of one that is not can be named
int hdf5_read_as(hid_t file, const char *name, ColumnType type, int64_t rows, int64_t columns,
                 void *out);
int hdf5_check(const char *name, ColumnType type, int64_t rows, int64_t columns,
               const uint8_t *ends, const void *values);

// 1 where the first bytes of a dataset lie in the file in one piece and as they are held in memory:
// at this offset of HDF5's own descriptor
int hdf5_place(hid_t file, const char *name, ColumnType type, size_t bytes, int *fd, off_t *offset);

// the first rows of a column, 1 where it is not 0
int hdf5_read_flags(hid_t file, const char *name, int64_t rows, uint8_t *out);

// a text attribute of the file into out, empty when there is none
void hdf5_attribute(hid_t file, const char *name, char *out, size_t size);

// all text attributes of the file, to be freed in one piece
typedef struct {
  const char *name, *text;
} Note;
int hdf5_notes(hid_t file, Note **notes, int *count);

// a whole number, or fallback when there is none
int64_t hdf5_attribute_number(hid_t file, const char *name, int64_t fallback);

// make an attribute of the file, or change the number of one that is there
int hdf5_put_text(hid_t file, const char *name, const char *text);
int hdf5_put_number(hid_t file, const char *name, int64_t number);

#endif
