// Arrays of an .npz file (numpy's savez: a zip file of .npy members, stored or deflated). Nothing
// in the file is trusted: offsets, sizes, headers and checksums are checked before they are used.

#ifndef BFM_DATA_NPZ_H
#define BFM_DATA_NPZ_H

#include <stdint.h>

#include "core/status.h"

typedef struct Npz Npz;

int npz_open(Npz **npz, const char *path);
int npz_parse(Npz **npz, const void *bytes, size_t size);  // a copy is taken
void npz_close(Npz *npz);

// 1 also where it cannot be told, which npz_read then says
int npz_has(const Npz *npz, const char *name);

// an array as float64 [rows, columns], to be freed; one axis counts as one column
int npz_read(const Npz *npz, const char *name, int64_t *rows, int64_t *columns, double **values);

#endif
