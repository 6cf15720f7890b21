// Public structs begin with a field `size`, so that they can grow. The caller sets it to sizeof;
// from it the library knows which fields the caller's bfm.h had. A size of 0 stands for the fields
// of version 0.1, which had no field `size`.

#ifndef BFM_CORE_SIZED_H
#define BFM_CORE_SIZED_H

#include "core/status.h"

// bytes of a struct up to and including its last field of version 0.1
#define SIZE_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

// Copies the caller's struct into `own`, which has `known` bytes; fields it lacks become zero. If a
// field that this library does not know is not zero, that is an error. name: the struct's, for the
// error. oldest: the bytes of version 0.1; 0: the struct is newer, and a size of 0 is an error.
int sized_read(void *own, size_t known, const void *given, size_t oldest, const char *name);

// Fills the caller's struct from `own`. The `oldest` bytes are always written, since every caller
// has them and callers of version 0.1 leave `size` uninitialized. `size` becomes the bytes written.
void sized_write(void *given, size_t oldest, void *own, size_t known);

#endif
