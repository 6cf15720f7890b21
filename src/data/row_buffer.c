// Rows in memory or in a temporary file. The file is unlinked as soon as it is open, so it disappears
// with the process. Its disk space is reserved before rows are written, because a write to a mapped
// page of a full disk does not fail but kills the process.

#define _GNU_SOURCE  // mremap, fallocate
#include "data/row_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/units.h"

// the default is not /tmp, which may be a file system in memory
static const char *folder(void) {
  const char *named = getenv("TMPDIR");
  return named && *named ? named : "/var/tmp";
}

static int no_room(size_t bytes) {
  return bfm_fail(BFM_NO_MEMORY,
                  "%s of rows fit neither into memory nor into a temporary file in %s: %s; "
                  "set TMPDIR to a folder with more space",
                  size_of_bytes((double)bytes).text, folder(), strerror(errno));
}

static int open_unlinked(RowBuffer *buffer, size_t bytes) {
  char name[4096];
  snprintf(name, sizeof name, "%s/bfm-XXXXXX", folder());
  int fd = mkostemp(name, O_CLOEXEC);
  if (fd < 0) return no_room(bytes);
  unlink(name);
  buffer->file = fd + 1;
  return BFM_OK;
}

// The child process that probes a dataset shares this file and may have reserved the space already:
// only the bytes beyond its current size must still fit on the disk.
static int reserve(const RowBuffer *buffer, size_t bytes) {
  int fd = buffer->file - 1;
  struct stat file;
  struct statvfs disk;
  if (fstat(fd, &file) || fstatvfs(fd, &disk)) return no_room(bytes);
  double more = (double)bytes - (double)file.st_size;
  errno = ENOSPC;
  if ((double)disk.f_bavail * (double)disk.f_frsize < more) return no_room(bytes);
  return fallocate(fd, 0, 0, (off_t)bytes) ? no_room(bytes) : BFM_OK;
}

static int grow_file(RowBuffer *buffer, size_t bytes) {
  if (!buffer->file) TRY(open_unlinked(buffer, bytes));
  TRY(reserve(buffer, bytes));
  void *base = buffer->mapped
                   ? mremap(buffer->base, buffer->bytes, bytes, MREMAP_MAYMOVE)
                   : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->file - 1, 0);
  if (base == MAP_FAILED) return no_room(bytes);
  if (!buffer->mapped && buffer->bytes) memcpy(base, buffer->base, buffer->bytes);
  if (!buffer->mapped) free(buffer->base);
  buffer->base = base;
  buffer->mapped = 1;
  return BFM_OK;
}

int row_buffer_grow(RowBuffer *buffer, void **rows, size_t bytes, int spill) {
  void *base = spill || buffer->mapped ? NULL : realloc(buffer->base, bytes);
  if (base) buffer->base = base;
  else TRY(grow_file(buffer, bytes));
  buffer->bytes = bytes;
  *rows = buffer->base;
  return BFM_OK;
}

int row_buffer_map(RowBuffer *buffer, void **rows, int fd, off_t offset, size_t bytes) {
  off_t inside = offset % sysconf(_SC_PAGESIZE);
  size_t whole = bytes + (size_t)inside;
  void *base = mmap(NULL, whole, PROT_READ, MAP_PRIVATE, fd, offset - inside);
  if (base == MAP_FAILED) {
    return bfm_fail(BFM_NO_MEMORY, "cannot map %s of rows: %s", size_of_bytes((double)bytes).text,
                    strerror(errno));
  }
  *buffer = (RowBuffer){.base = base, .bytes = whole, .mapped = 1};
  *rows = (char *)base + inside;
  return BFM_OK;
}

int row_buffer_make_writable(const RowBuffer *buffer) {
  if (!buffer->mapped || buffer->file) return BFM_OK;
  if (!mprotect(buffer->base, buffer->bytes, PROT_READ | PROT_WRITE)) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "cannot make %s of rows writable: %s",
                  size_of_bytes((double)buffer->bytes).text, strerror(errno));
}

void row_buffer_expect_random_reads(const RowBuffer *buffer) {
  if (buffer->mapped) madvise(buffer->base, buffer->bytes, MADV_RANDOM);
}

void row_buffer_free(RowBuffer *buffer) {
  if (buffer->mapped) munmap(buffer->base, buffer->bytes);
  else free(buffer->base);
  if (buffer->file) close(buffer->file - 1);
  *buffer = (RowBuffer){0};
}
