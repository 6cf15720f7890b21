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

// for reading
int hdf5_open(hid_t *file, const char *path);

// whether the file has a dataset or group of this name
int hdf5_has(hid_t file, const char *name);

// [rows, columns] of a dataset of numbers; one with a single axis counts as one column
int hdf5_shape(hid_t file, const char *name, int64_t *rows, int64_t *columns, int *axes);

// the first rows of a dataset into out, converted to float32 or float64; finite numbers only
int hdf5_read(hid_t file, const char *name, int64_t rows, int64_t columns, float *out);
int hdf5_read_doubles(hid_t file, const char *name, int64_t rows, int64_t columns, double *out);

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
