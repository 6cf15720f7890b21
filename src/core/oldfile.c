// A file that is there. It is opened without waiting: the other end of a pipe may never come.

#include "core/oldfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int oldfile_open(const char *path, int *fd, size_t *size) {
  struct stat info = {.st_mode = 0};
  if (!path) return bfm_fail(BFM_BAD_ARGUMENT, "the file to read has no name");
  *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (*fd < 0) return bfm_fail(BFM_IO, "cannot open %s: %s", path, strerror(errno));
  if (!fstat(*fd, &info) && S_ISREG(info.st_mode)) {
    *size = (size_t)info.st_size;
    return BFM_OK;
  }
  close(*fd);
  return bfm_fail(BFM_IO, "%s is %s", path,
                  S_ISDIR(info.st_mode) ? "a folder: a file is wanted here" : "not a regular file");
}
