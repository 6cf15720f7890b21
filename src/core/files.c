// Input files and atomically written output files. The temporary name of an output file contains the
// id of the writing thread, so two writers of the same path, in one process or in two, never share a
// temporary file; the last rename wins. If a writer dies, the next writer of the same path removes
// its temporary file.

#define _GNU_SOURCE  // renameat2, gettid
#include "core/files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_MAX ((size_t)1 << 30)  // write() transfers at most 2 GiB per call

// ---------------------------------- input --------------------------------------------------------

// O_NONBLOCK: opening a pipe that has no writer would block forever
int input_open(const char *path, int *fd, size_t *size) {
  struct stat info = {.st_mode = 0};
  if (!path) return bfm_fail(BFM_BAD_ARGUMENT, "the file to read needs a name");
  *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (*fd < 0) return bfm_fail(BFM_IO, "cannot open %s: %s", path, strerror(errno));
  if (!fstat(*fd, &info) && S_ISREG(info.st_mode)) {
    *size = (size_t)info.st_size;
    return BFM_OK;
  }
  close(*fd);
  return bfm_fail(BFM_IO, "cannot read %s: it is %s", path,
                  S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
}

// ---------------------------------- output -------------------------------------------------------

static int failed(OutputFile *f, const char *verb) {
  int status = bfm_fail(BFM_IO, "cannot %s %s: %s", verb, f->path, strerror(errno));
  output_discard(f);
  return status;
}

// writes the path's folder to folder and returns the file's name, a pointer into path
static const char *split(const char *path, char folder[PATH_MAX]) {
  snprintf(folder, PATH_MAX, "%s", path);
  char *slash = strrchr(folder, '/');
  if (!slash) {
    strcpy(folder, ".");
    return path;
  }
  const char *name = path + (slash - folder) + 1;
  slash[slash == folder] = 0;
  return name;
}

// The thread id in NAME.ID.tmp, 0 for any other entry. A temporary file may itself have been written
// atomically, so NAME.ID.tmp.ID.tmp counts too.
static long writer_of(const char *entry, const char *name) {
  size_t length = strlen(name);
  if (strncmp(entry, name, length)) return 0;
  long thread = 0;
  for (const char *rest = entry + length; *rest; rest += 4) {
    char *end;
    if (*rest != '.' || !isdigit((unsigned char)rest[1])) return 0;
    thread = strtol(rest + 1, &end, 10);
    rest = end;
    if (strncmp(rest, ".tmp", 4)) return 0;
  }
  return thread <= INT_MAX ? thread : 0;
}

static void remove_orphans(const char *path) {
  char folder[PATH_MAX];
  const char *name = split(path, folder);
  DIR *entries = opendir(folder);
  if (!entries) return;
  for (struct dirent *entry; (entry = readdir(entries));) {
    long thread = writer_of(entry->d_name, name);
    if (thread > 0 && kill((pid_t)thread, 0) && errno == ESRCH) {
      unlinkat(dirfd(entries), entry->d_name, 0);
    }
  }
  closedir(entries);
}

int output_open(OutputFile *f, const char *path) {
  f->fd = -1;
  if (!path || !*path) return bfm_fail(BFM_BAD_ARGUMENT, "the file to write needs a name");
  int n = snprintf(f->path, sizeof f->path, "%s", path);
  int m = snprintf(f->temporary, sizeof f->temporary, "%s.%d.tmp", path, (int)gettid());
  if (n >= (int)sizeof f->path || m >= (int)sizeof f->temporary) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the file name %.64s… is too long: it has %zu characters",
                    path, strlen(path));
  }

  // a rename would replace a device or an empty folder
  struct stat info;
  if (!stat(path, &info) && !S_ISREG(info.st_mode)) {
    return bfm_fail(BFM_IO, "cannot write %s: it exists and is not a regular file", path);
  }

  remove_orphans(path);
  f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return f->fd < 0 ? failed(f, "create") : BFM_OK;
}

int output_write(OutputFile *f, const void *bytes, size_t size) {
  const char *p = bytes;
  while (size > 0) {
    ssize_t n = write(f->fd, p, size < WRITE_MAX ? size : WRITE_MAX);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(f, "write");
    p += n;
    size -= (size_t)n;
  }
  return BFM_OK;
}

static int sync_folder(const char *path) {
  char folder[PATH_MAX];
  split(path, folder);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int bad = fsync(fd) && errno != EINVAL;  // EINVAL: the file system cannot sync folders
  close(fd);
  return bad ? -1 : 0;
}

// some file systems do not support RENAME_NOREPLACE: rename plainly there
static int move(const OutputFile *f, unsigned flags) {
  if (!flags) return rename(f->temporary, f->path);
  int bad = renameat2(AT_FDCWD, f->temporary, AT_FDCWD, f->path, flags);
  return bad && (errno == EINVAL || errno == ENOSYS) ? move(f, 0) : bad;
}

static int commit(OutputFile *f, unsigned flags) {
  if (fsync(f->fd)) return failed(f, "write");
  int bad = close(f->fd);
  f->fd = -1;
  if (bad) return failed(f, "write");
  if (move(f, flags)) return failed(f, flags ? "create" : "replace");
  *f->temporary = 0;
  return sync_folder(f->path) ? failed(f, "sync the folder of") : BFM_OK;
}

int output_commit(OutputFile *f) { return commit(f, 0); }

int output_commit_new(OutputFile *f) { return commit(f, RENAME_NOREPLACE); }

void output_discard(OutputFile *f) {
  if (f->fd >= 0) close(f->fd);
  f->fd = -1;
  if (*f->temporary) unlink(f->temporary);
  *f->temporary = 0;
}
