// Opening input files, and writing output files atomically: an output file is written under a
// temporary name in the same folder, fsynced and renamed, then the folder is fsynced. A reader sees
// the old file or the new one, never a part of one.

#ifndef BFM_CORE_FILES_H
#define BFM_CORE_FILES_H

#include <limits.h>
#include <stddef.h>

#include "core/status.h"

// Opens a regular file for reading. The caller closes *fd; *size is in bytes. Folders, pipes and
// devices are an error.
int input_open(const char *path, int *fd, size_t *size);

typedef struct {
  char path[PATH_MAX], temporary[PATH_MAX];
  int fd;
} OutputFile;

int output_open(OutputFile *file, const char *path);

// When output_write or a commit fails, it has already discarded the file.
int output_write(OutputFile *file, const void *bytes, size_t size);
int output_commit(OutputFile *file);      // replaces a file at the path
int output_commit_new(OutputFile *file);  // fails if a file exists at the path by now
void output_discard(OutputFile *file);    // closes and removes the temporary file

#endif
