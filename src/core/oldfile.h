// A file that is there, to be read.

#ifndef BFM_CORE_OLDFILE_H
#define BFM_CORE_OLDFILE_H

#include <stddef.h>

#include "core/status.h"

// its descriptor, to be closed by the caller, and its size in bytes; what is no regular file is
// refused
int oldfile_open(const char *path, int *fd, size_t *size);

#endif
