// An array of rows: in memory, in an unlinked file where memory is short, or part of a mapped file.

#ifndef BFM_DATA_BLOCK_H
#define BFM_DATA_BLOCK_H

#include <sys/types.h>

#include "core/status.h"

// all zero: empty
typedef struct {
  void *base;    // of the mapping or the allocation
  size_t bytes;  // there
  int mapped;    // rather than allocated
  int file;      // descriptor + 1 of the unlinked file
} Block;

// make room for so many bytes, of which those that were there keep their values, and set *rows;
// spill, or no memory: in a file, and from then on
int block_grow(Block *block, void **rows, size_t bytes, int spill);

// the bytes of an open file at this offset, read-only, and set *rows
int block_map(Block *block, void **rows, int fd, off_t offset, size_t bytes);

// a mapped file's rows may be written from now on; the file stays as it is
int block_own(const Block *block);

// its rows are read in any order: of a file no more than was asked for is fetched
void block_at_random(const Block *block);

void block_free(Block *block);

#endif
