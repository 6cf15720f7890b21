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

#include "core/units.h"

#define WRITE_MAX ((size_t)1 << 30)  // write() transfers at most 2 GiB per call

// ---------------------------------- input --------------------------------------------------------

int path_is_folder(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISDIR(info.st_mode);
}

static int not_a_file(const char *path, mode_t mode) {
  return bfm_fail(BFM_IO, "%s is %s, not a file", path,
                  S_ISDIR(mode)    ? "a folder"
                  : S_ISFIFO(mode) ? "a pipe"
                  : S_ISSOCK(mode) ? "a socket"
                                   : "a device");
}

int input_check(const char *path) {
  struct stat info;
  if (!path || !*path) return bfm_fail(BFM_BAD_ARGUMENT, "the file to read needs a name");
  if (stat(path, &info)) return bfm_fail(BFM_IO, "cannot open %s: %s", path, strerror(errno));
  return S_ISREG(info.st_mode) ? BFM_OK : not_a_file(path, info.st_mode);
}

// The second check is needed because the path may have changed since the first. O_NONBLOCK: opening
// a pipe that has no writer would block forever.
int input_open(const char *path, int *fd, size_t *size) {
  struct stat info = {.st_mode = 0};
  *fd = -1;
  TRY(input_check(path));
  *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  int bad = *fd < 0 || fstat(*fd, &info);
  if (!bad && S_ISREG(info.st_mode)) {
    *size = (size_t)info.st_size;
    return BFM_OK;
  }
  int status = bad ? bfm_fail(BFM_IO, "cannot open %s: %s", path, strerror(errno))
                   : not_a_file(path, info.st_mode);
  if (*fd >= 0) close(*fd);
  *fd = -1;
  return status;
}

int input_stream(const char *path, FILE **stream) {
  int fd;
  size_t size;
  *stream = NULL;
  TRY(input_open(path, &fd, &size));
  *stream = fdopen(fd, "r");
  if (*stream) return BFM_OK;
  close(fd);
  return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
}

int input_stream_if_any(const char *path, FILE **stream) {
  struct stat info;
  *stream = NULL;
  return stat(path, &info) && errno == ENOENT ? BFM_OK : input_stream(path, stream);
}

int input_bytes(const char *path, char **bytes, size_t *size) {
  return input_bytes_within(path, SIZE_MAX - 1, bytes, size);
}

int input_bytes_within(const char *path, size_t most, char **bytes, size_t *size) {
  int fd;
  size_t done = 0;
  ssize_t n = 1;
  *bytes = NULL;
  TRY(input_open(path, &fd, size));
  if (*size > most) {
    close(fd);
    return bfm_fail(BFM_BAD_FILE, "%s has %s, but at most %s are allowed", path,
                    size_of_bytes((double)*size).text, size_of_bytes((double)most).text);
  }
  char *room = malloc(*size + 1);
  while (room && done < *size && n > 0) {
    n = read(fd, room + done, *size - done);
    if (n > 0) done += (size_t)n;
    else if (n < 0 && errno == EINTR) n = 1;
  }
  int error = errno;
  close(fd);
  *bytes = room;
  if (!room)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the %s of %s",
                    size_of_bytes((double)*size).text, path);
  room[done] = 0;
  if (done == *size) return BFM_OK;
  free(room);
  *bytes = NULL;
  if (n < 0) return bfm_fail(BFM_IO, "cannot read %s: %s", path, strerror(error));
  return bfm_fail(BFM_IO, "cannot read %s: it ends after %zu of %zu bytes", path, done, *size);
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

int output_append(const char *path, int *fd) {
  struct stat info = {.st_mode = 0};
  *fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
  if (*fd >= 0 && !fstat(*fd, &info) && S_ISREG(info.st_mode)) return BFM_OK;
  int error = errno;
  if (*fd >= 0) close(*fd);
  *fd = -1;
  if (!stat(path, &info) && !S_ISREG(info.st_mode)) return not_a_file(path, info.st_mode);
  return bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(error));
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
