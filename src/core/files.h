// Opening input files, and writing output files atomically: an output file is written under a
// temporary name in the same folder, fsynced and renamed, then the folder is fsynced. A reader sees
// the old file or the new one, never a part of one.

#ifndef BFM_CORE_FILES_H
#define BFM_CORE_FILES_H

#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "core/status.h"

// Every file that bfm reads is opened by one of these functions. Only a regular file will do: to open
// or read a pipe could block forever. A folder, a pipe, a socket or a device is an error that says so.
int input_check(const char *path);                         // for a library that opens it itself
int input_open(const char *path, int *fd, size_t *size);   // the caller closes *fd
int input_stream(const char *path, FILE **stream);         // the caller closes *stream
int input_stream_if_any(const char *path, FILE **stream);  // *stream is NULL if there is no file
// the whole file and a zero after it; the caller frees *bytes, which is NULL after a failure
int input_bytes(const char *path, char **bytes, size_t *size);
// the same, but a file of more than `most` bytes is refused before it is read
int input_bytes_within(const char *path, size_t most, char **bytes, size_t *size);

int path_is_folder(const char *path);

// Opens a regular file for appending, and creates it if there is none.
int output_append(const char *path, int *fd);

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
