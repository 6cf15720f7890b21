// An array of rows. What does not fit memory lies in a file that has no name, so that it is gone
// with its process; its disk space is taken first, since a write to a mapping cannot fail.

#define _GNU_SOURCE  // mremap, fallocate
#include "data/block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

// not /tmp, which may be memory
static const char *folder(void) {
  const char *named = getenv("TMPDIR");
  return named && *named ? named : "/var/tmp";
}

static int no_room(size_t bytes) {
  return bfm_fail(BFM_NO_MEMORY, "%.1f GB do not fit into memory, nor into a file in %s: %s",
                  (double)bytes / 1e9, folder(), strerror(errno));
}

static int open_unlinked(Block *block, size_t bytes) {
  char name[4096];
  snprintf(name, sizeof name, "%s/bfm-XXXXXX", folder());
  int fd = mkostemp(name, O_CLOEXEC);
  if (fd < 0) return no_room(bytes);
  unlink(name);
  block->file = fd + 1;
  return BFM_OK;
}

// a child that went ahead may have taken it
static int reserve(const Block *block, size_t bytes) {
  int fd = block->file - 1;
  struct stat file;
  struct statvfs disk;
  if (fstat(fd, &file) || fstatvfs(fd, &disk)) return no_room(bytes);
  double more = (double)bytes - (double)file.st_size;
  errno = ENOSPC;
  if ((double)disk.f_bavail * (double)disk.f_frsize < more) return no_room(bytes);
  return fallocate(fd, 0, 0, (off_t)bytes) ? no_room(bytes) : BFM_OK;
}

static int grow_file(Block *block, size_t bytes) {
  if (!block->file) TRY(open_unlinked(block, bytes));
  TRY(reserve(block, bytes));
  void *base = block->mapped
                   ? mremap(block->base, block->bytes, bytes, MREMAP_MAYMOVE)
                   : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, block->file - 1, 0);
  if (base == MAP_FAILED) return no_room(bytes);
  if (!block->mapped && block->bytes) memcpy(base, block->base, block->bytes);
  if (!block->mapped) free(block->base);
  block->base = base;
  block->mapped = 1;
  return BFM_OK;
}

int block_grow(Block *block, void **rows, size_t bytes, int spill) {
  void *base = spill || block->mapped ? NULL : realloc(block->base, bytes);
  if (base) block->base = base;
  else TRY(grow_file(block, bytes));
  block->bytes = bytes;
  *rows = block->base;
  return BFM_OK;
}

int block_map(Block *block, void **rows, int fd, off_t offset, size_t bytes) {
  off_t inside = offset % sysconf(_SC_PAGESIZE);
  size_t whole = bytes + (size_t)inside;
  void *base = mmap(NULL, whole, PROT_READ, MAP_PRIVATE, fd, offset - inside);
  if (base == MAP_FAILED) {
    return bfm_fail(BFM_NO_MEMORY, "cannot map %.1f GB of rows: %s", (double)bytes / 1e9,
                    strerror(errno));
  }
  *block = (Block){.base = base, .bytes = whole, .mapped = 1};
  *rows = (char *)base + inside;
  return BFM_OK;
}

int block_own(const Block *block) {
  if (!block->mapped || block->file) return BFM_OK;
  if (!mprotect(block->base, block->bytes, PROT_READ | PROT_WRITE)) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "cannot change %.1f GB of rows: %s", (double)block->bytes / 1e9,
                  strerror(errno));
}

void block_at_random(const Block *block) {
  if (block->mapped) madvise(block->base, block->bytes, MADV_RANDOM);
}

void block_free(Block *block) {
  if (block->mapped) munmap(block->base, block->bytes);
  else free(block->base);
  if (block->file) close(block->file - 1);
  *block = (Block){0};
}
