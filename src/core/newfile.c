// A file that appears whole or not at all. The temporary name carries the thread's id, so that two
// of them, of one process or of two, never write into each other's file; the rename decides who was
// last. What a thread that is no more has left is removed by the next to write the same file.

#define _GNU_SOURCE  // a rename that replaces nothing, gettid
#include "core/newfile.h"

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

#define WRITE_MAX ((size_t)1 << 30)  // write() takes no more than 2 GiB at once

static int failed(NewFile *f, const char *verb) {
  int status = bfm_fail(BFM_IO, "cannot %s %s: %s", verb, f->path, strerror(errno));
  newfile_abandon(f);
  return status;
}

// the folder of a path, as long a name as the path at most; returns the name in it
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

// of NAME.THREAD.tmp, or of the temporary of such a one; 0: the entry is something else
static long thread_of(const char *entry, const char *name) {
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

static void remove_abandoned(const char *path) {
  char folder[PATH_MAX];
  const char *name = split(path, folder);
  DIR *entries = opendir(folder);
  if (!entries) return;
  for (struct dirent *entry; (entry = readdir(entries));) {
    long thread = thread_of(entry->d_name, name);
    if (thread > 0 && kill((pid_t)thread, 0) && errno == ESRCH) {
      unlinkat(dirfd(entries), entry->d_name, 0);
    }
  }
  closedir(entries);
}

int newfile_open(NewFile *f, const char *path) {
  f->fd = -1;
  if (!path || !*path) return bfm_fail(BFM_BAD_ARGUMENT, "a file to write needs a name");
  int n = snprintf(f->path, sizeof f->path, "%s", path);
  int m = snprintf(f->temporary, sizeof f->temporary, "%s.%d.tmp", path, (int)gettid());
  if (n >= (int)sizeof f->path || m >= (int)sizeof f->temporary) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a file name of %zu characters is too long: %.64s…",
                    strlen(path), path);
  }

  // a rename over a device or a folder is never what was meant
  struct stat info;
  if (!stat(path, &info) && !S_ISREG(info.st_mode)) {
    return bfm_fail(BFM_IO, "cannot write %s: it is there and not a regular file", path);
  }

  remove_abandoned(path);
  f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return f->fd < 0 ? failed(f, "create") : BFM_OK;
}

int newfile_write(NewFile *f, const void *bytes, size_t size) {
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
  int bad = fsync(fd) && errno != EINVAL;  // some file systems cannot sync a folder
  close(fd);
  return bad ? -1 : 0;
}

// not every file system can refuse to replace
static int move(const NewFile *f, unsigned flags) {
  if (!flags) return rename(f->temporary, f->path);
  int bad = renameat2(AT_FDCWD, f->temporary, AT_FDCWD, f->path, flags);
  return bad && (errno == EINVAL || errno == ENOSYS) ? move(f, 0) : bad;
}

static int commit(NewFile *f, unsigned flags) {
  if (fsync(f->fd)) return failed(f, "write");
  int bad = close(f->fd);
  f->fd = -1;
  if (bad) return failed(f, "write");
  if (move(f, flags)) return failed(f, flags ? "create" : "replace");
  *f->temporary = 0;
  return sync_folder(f->path) ? failed(f, "sync the folder of") : BFM_OK;
}

int newfile_commit(NewFile *f) { return commit(f, 0); }

int newfile_commit_new(NewFile *f) { return commit(f, RENAME_NOREPLACE); }

void newfile_abandon(NewFile *f) {
  if (f->fd >= 0) close(f->fd);
  f->fd = -1;
  if (*f->temporary) unlink(f->temporary);
  *f->temporary = 0;
}
