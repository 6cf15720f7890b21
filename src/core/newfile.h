// A file that appears whole or not at all: written under a temporary name in its folder, fsynced,
// renamed, the folder fsynced. A reader sees the old file or the new one, never half of one.

#ifndef BFM_CORE_NEWFILE_H
#define BFM_CORE_NEWFILE_H

#include <limits.h>
#include <stddef.h>

#include "core/status.h"

typedef struct {
  char path[PATH_MAX], temporary[PATH_MAX];
  int fd;
} NewFile;

int newfile_open(NewFile *f, const char *path);

// newfile_write and the commits that fail have removed the temporary: nothing is left to do
int newfile_write(NewFile *f, const void *bytes, size_t size);
int newfile_commit(NewFile *f);
int newfile_commit_new(NewFile *f);  // refused when another file has come to the path meanwhile
void newfile_abandon(NewFile *f);

#endif
