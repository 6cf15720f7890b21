// The folder of a run.

#include "core/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/files.h"

enum { LOCK_TRIES = 5, LOCK_PAUSE = 20000000 };  // nanoseconds

void folder_file(const Folder *f, const char *name, char *out, size_t size) {
  snprintf(out, size, "%s/%s", f->path, name);
}

int folder_name(Folder *f, const char *path) {
  *f = (Folder){.made = 0};
  if (!*path) return bfm_fail(BFM_BAD_ARGUMENT, "the output folder has no name");
  if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "the output folder's name has %zu characters: use at most %zu", strlen(path),
                    sizeof f->path - 1);
  }
  for (size_t n = strlen(f->path); n > 1 && f->path[n - 1] == '/';) f->path[--n] = 0;
  return BFM_OK;
}

// ---------------------------------- making and removing ------------------------------------------

// mkdir -p; *made counts the new folders
static int make_folders(char *path, int *made) {
  if (!mkdir(path, 0777)) {
    ++*made;
    return 0;
  }
  if (errno == EEXIST) return 0;
  char *slash = strrchr(path, '/');
  if (errno != ENOENT || !slash || slash == path) return -1;
  *slash = 0;
  int bad = make_folders(path, made);
  *slash = '/';
  return bad || mkdir(path, 0777) ? -1 : (++*made, 0);
}

int folder_make(Folder *f) {
  struct stat info;
  if (make_folders(f->path, &f->made)) {
    return bfm_fail(BFM_IO, "cannot create the folder %s: %s", f->path, strerror(errno));
  }
  if (stat(f->path, &info) || !S_ISDIR(info.st_mode)) {
    return bfm_fail(BFM_IO, "%s exists and is not a folder", f->path);
  }
  if (access(f->path, W_OK | X_OK)) {
    return bfm_fail(BFM_IO, "cannot write into %s: %s", f->path, strerror(errno));
  }
  return BFM_OK;
}

// folder_is_locked holds the lock for an instant, so a lock that is taken is tried again for a moment.
static int is_taken(int folder) {
  for (int i = 0; i < LOCK_TRIES; i++) {
    if (!flock(folder, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return 0;
    nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE}, NULL);
  }
  return 1;
}

// If the file system does not support locks, the run goes on without one.
int folder_lock(Folder *f) {
  f->lock = opendir(f->path);
  if (!f->lock || !is_taken(dirfd(f->lock))) return BFM_OK;
  folder_unlock(f);
  return bfm_fail(BFM_IO, "another process is writing its run into %s: use another folder",
                  f->path);
}

void folder_unlock(Folder *f) {
  if (f->lock) closedir(f->lock);
  f->lock = NULL;
}

int folder_is_locked(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int bad = flock(fd, LOCK_SH | LOCK_NB), why = errno;
  close(fd);
  return !bad ? 0 : why == EWOULDBLOCK ? 1 : -1;
}

void folder_take_back(Folder *f, const char *const *files) {
  char path[PATH_MAX];
  for (; f->lock && *files; files++) {
    folder_file(f, *files, path, sizeof path);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s", f->path);
  while (f->made > 0) {
    if (!rmdir(path)) f->made--;
    else if (errno != ENOENT) break;
    char *slash = strrchr(path, '/');
    if (!slash || slash == path) break;
    *slash = 0;
  }
}

// ---------------------------------- logs ---------------------------------------------------------

int folder_open_log(const Folder *f, const char *name, const char *count, int64_t last,
                    FILE **log) {
  char path[PATH_MAX];
  folder_file(f, name, path, sizeof path);
  FILE *old;
  TRY(input_stream_if_any(path, &old));
  off_t keep = 0;
  char *line = NULL;
  size_t size = 0;
  for (ssize_t n; old && (n = getline(&line, &size, old)) > 0; keep += n) {
    cJSON *entry = line[n - 1] == '\n' ? cJSON_Parse(line) : NULL;
    const cJSON *at = cJSON_GetObjectItem(entry, count);
    int good = cJSON_IsNumber(at) && at->valuedouble <= (double)last;
    cJSON_Delete(entry);
    if (!good) break;
  }
  free(line);
  if (old) fclose(old);

  int fd;
  TRY(output_append(path, &fd));
  *log = fdopen(fd, "a");
  if (!*log) close(fd);
  if (!*log || ftruncate(fileno(*log), keep)) {
    return bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(errno));
  }
  return BFM_OK;
}

double folder_log_last(const Folder *f, const char *name, const char *key) {
  char path[PATH_MAX], *line = NULL;
  size_t size = 0;
  double last = 0;
  folder_file(f, name, path, sizeof path);
  FILE *file;
  if (input_stream(path, &file)) return 0;
  while (getline(&line, &size, file) > 0) {
    cJSON *entry = cJSON_Parse(line);
    const cJSON *number = cJSON_GetObjectItem(entry, key);
    if (cJSON_IsNumber(number)) last = number->valuedouble;
    cJSON_Delete(entry);
  }
  free(line);
  fclose(file);
  return last;
}

int folder_log(const Folder *f, FILE *log, const cJSON *line) {
  char *text = cJSON_PrintUnformatted(line);
  if (!text) return bfm_fail(BFM_NO_MEMORY, "out of memory for a line of a log");
  int bad = fprintf(log, "%s\n", text) < 0 || fflush(log);
  free(text);
  return bad ? bfm_fail(BFM_IO, "cannot write a log in %s: %s", f->path, strerror(errno)) : BFM_OK;
}

cJSON *log_number(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.7g", value);
  return isfinite(value) ? cJSON_CreateRaw(text) : cJSON_CreateString(text);
}
