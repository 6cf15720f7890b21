// Public structs begin with a field `size`, so that they can grow: the caller sets it to sizeof, and
// the library sees from it which fields the caller's bfm.h had. A size of 0 stands for the fields of
// version 0.1, which had no such field.

#ifndef BFM_CORE_SIZED_H
#define BFM_CORE_SIZED_H

#include "core/status.h"

// bytes of a struct up to and with its last field of version 0.1
#define SIZE_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

// Copy the caller's struct into `own`, which has `known` bytes; fields it lacks become zero. A field
// that this library does not know is refused unless it is zero. name: the struct's, for the error.
int sized_read(void *own, size_t known, const void *given, size_t oldest, const char *name);

// Fill the caller's struct from `own`. The `oldest` bytes are always written, since every caller has
// them: callers written for version 0.1 leave `size` uninitialized. `size` becomes what was written.
void sized_write(void *given, size_t oldest, void *own, size_t known);

#endif
