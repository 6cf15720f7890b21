// Arrays of an .npz file (numpy's savez: a zip file of .npy members, stored or deflated). The reader
// trusts nothing in the file: it checks offsets, sizes, headers and checksums before it uses them.

#ifndef BFM_DATA_NPZ_H
#define BFM_DATA_NPZ_H

#include <stdint.h>

#include "core/status.h"

typedef struct Npz Npz;

int npz_open(Npz **npz, const char *path);
int npz_parse(Npz **npz, const void *bytes, size_t size);  // copies the bytes
void npz_close(Npz *npz);

// Whether the file has this array. Returns 1 if damage makes that unknown; npz_read then reports it.
int npz_has(const Npz *npz, const char *name);

// reads an array as float64 [rows, columns], which the caller frees; one axis counts as one column
int npz_read(const Npz *npz, const char *name, int64_t *rows, int64_t *columns, double **values);

#endif
