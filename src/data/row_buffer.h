// A growable array of rows. It lies in memory, in an unlinked temporary file when memory is short,
// or directly in a mapped dataset file.

#ifndef BFM_DATA_ROW_BUFFER_H
#define BFM_DATA_ROW_BUFFER_H

#include <sys/types.h>

#include "core/status.h"

// a zeroed buffer is empty
typedef struct {
  void *base;    // of the mapping or the allocation
  size_t bytes;  // length of the mapping or the allocation
  int mapped;    // 1: mapped from a file, 0: allocated
  int file;      // descriptor of the temporary file plus 1, or 0 without one
} RowBuffer;

// Grows the buffer to this many bytes, keeps its contents and sets *rows to the first row. With
// spill, or if memory runs out, the rows move into a temporary file and stay there.
int row_buffer_grow(RowBuffer *buffer, void **rows, size_t bytes, int spill);

// maps bytes of an open file read-only and sets *rows; offset need not be a multiple of the page size
int row_buffer_map(RowBuffer *buffer, void **rows, int fd, off_t offset, size_t bytes);

// makes the rows writable; changes to a mapped dataset file stay private to this process
int row_buffer_make_writable(const RowBuffer *buffer);

// tells the kernel that rows will be read in random order, so that it does not read ahead
void row_buffer_expect_random_reads(const RowBuffer *buffer);

void row_buffer_free(RowBuffer *buffer);

#endif
