// Journals. A line is whole or absent: all lines of a result are one write with O_APPEND, which is
// undone if a full disk cuts it short.

#include "sweep/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/files.h"
#include "core/folder.h"
#include "core/paths.h"

#ifndef BFM_COMMIT
#define BFM_COMMIT ""
#endif

// ---------------------------------- writing ------------------------------------------------------

// Repair the last line: remove it if it was cut off, or add its newline if only that is missing.
static int end_line(int fd) {
  off_t size = lseek(fd, 0, SEEK_END), at = size;
  char last;
  while (at > 0 && pread(fd, &last, 1, at - 1) == 1 && last != '\n') at--;
  if (at == size) return 0;
  char *text = calloc((size_t)(size - at) + 1, 1);
  cJSON *item = text && pread(fd, text, (size_t)(size - at), at) > 0 ? cJSON_Parse(text) : NULL;
  int bad = item ? write(fd, "\n", 1) != 1 : ftruncate(fd, at);
  cJSON_Delete(item);
  free(text);
  return bad;
}

// Write everything or nothing: a part of a run's lines would look like a finished run, so a write that
// a full disk cut short is undone.
static int write_whole(int fd, const char *text, size_t size) {
  off_t before = lseek(fd, 0, SEEK_END);
  ssize_t written = write(fd, text, size);
  if (written == (ssize_t)size) return 0;
  if (written < 0) return -1;
  if (lseek(fd, 0, SEEK_END) == before + written && ftruncate(fd, before)) return -1;
  errno = ENOSPC;
  return -1;
}

int lines_append(const char *path, const cJSON *lines) {
  char *text = NULL;
  size_t size = 0;
  int fd;
  TRY(output_append(path, &fd));
  FILE *out = open_memstream(&text, &size);
  if (!out) {
    close(fd);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the ledger");
  }
  const cJSON *line;
  cJSON_ArrayForEach(line, lines) {
    char *one = cJSON_PrintUnformatted(line);
    fprintf(out, "%s\n", one ? one : "");
    free(one);
  }
  int bad = fclose(out) || end_line(fd) || write_whole(fd, text, size) || fsync(fd);
  int status = bad ? bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(errno)) : BFM_OK;
  close(fd);
  free(text);
  return status;
}

int journal_open(Journal *j, const char *path) {
  Folder folder;
  *j = (Journal){.path = ""};
  TRY(folder_name(&folder, path));
  TRY(folder_make(&folder));
  int n = snprintf(j->folder, sizeof j->folder, "%s", folder.path);
  if (n < (int)sizeof j->folder) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "the folder's name has %d characters: use fewer than %zu", n,
                  sizeof j->folder);
}

// A file that is there already is that of an earlier process with this number, or of a container with
// this name.
static int make_file(Journal *j) {
  char host[64] = "";
  if (gethostname(host, sizeof host - 1)) strcpy(host, "unknown");
  for (int i = 1;; i++) {
    char more[16] = "";
    if (i > 1) snprintf(more, sizeof more, "-%d", i);
    snprintf(j->path, sizeof j->path, "%s/%s-%d%s.jsonl", j->folder, host, (int)getpid(), more);
    int fd = open(j->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return close(fd), BFM_OK;
    if (errno != EEXIST) break;
  }
  int status = bfm_fail(BFM_IO, "cannot create %s: %s", j->path, strerror(errno));
  *j->path = 0;
  return status;
}

int journal_append(Journal *j, const cJSON *lines) {
  if (!*j->path) TRY(make_file(j));
  return lines_append(j->path, lines);
}

// ---------------------------------- reading ------------------------------------------------------

static int add_line(JournalLines *l, cJSON *item, int number) {
  // the array doubles: it is full whenever the count is a power of two
  if (!(l->count & (l->count - 1))) {
    size_t room = l->count ? 2 * (size_t)l->count : 1;
    JournalLine *lines = realloc(l->lines, room * sizeof *lines);
    if (!lines) {
      cJSON_Delete(item);
      return bfm_fail(BFM_NO_MEMORY, "out of memory for %zu results", room);
    }
    l->lines = lines;
  }
  const char *time = cJSON_GetStringValue(cJSON_GetObjectItem(item, "time"));
  l->lines[l->count++] = (JournalLine){item, l->files, number, time ? time : ""};
  return BFM_OK;
}

static int read_lines(JournalLines *l, FILE *file, const char *path, const char *what) {
  char *text = NULL;
  size_t size = 0;
  ssize_t n;
  int status = BFM_OK;
  for (int at = 1; !status && (n = getline(&text, &size, file)) > 0; at++) {
    cJSON *item = cJSON_Parse(text);
    int whole = text[n - 1] == '\n';
    if (item && !cJSON_IsObject(item)) {
      cJSON_Delete(item);
      item = NULL;
    }
    if (item) status = add_line(l, item, at);
    else if (whole && strspn(text, " \n") != (size_t)n)
      status = bfm_fail(BFM_BAD_FILE, "%s: line %d is not %s", path, at, what);
  }
  free(text);
  if (status || !ferror(file)) return status;
  return bfm_fail(BFM_IO, "cannot read %s: %s", path, strerror(errno));
}

static int read_file(JournalLines *l, const char *path, const char *what) {
  FILE *file;
  TRY(input_stream_if_any(path, &file));
  if (!file) return BFM_OK;
  int status = read_lines(l, file, path, what);
  fclose(file);
  char **paths = realloc(l->paths, (size_t)(l->files + 1) * sizeof *paths);
  if (paths) {
    l->paths = paths;
    paths[l->files] = strdup(path);
  }
  if (!paths || !paths[l->files++]) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  return status;
}

static int is_journal(const struct dirent *entry) { return path_ends(entry->d_name, ".jsonl"); }

static int read_folder(JournalLines *l, const char *folder, const char *what) {
  struct dirent **entries;
  int count = scandir(folder, &entries, is_journal, alphasort), status = BFM_OK;
  if (count < 0) {
    if (errno == ENOENT) return BFM_OK;
    return bfm_fail(BFM_IO, "cannot read the folder %s: %s", folder, strerror(errno));
  }
  for (int i = 0; i < count; i++) {
    char path[PATH_MAX];
    if (!status) status = path_join(path, folder, entries[i]->d_name);
    if (!status) status = read_file(l, path, what);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static int by_time(const void *x, const void *y) {
  const JournalLine *a = x, *b = y;
  int order = strcmp(a->time, b->time);
  if (!order) order = (a->file > b->file) - (a->file < b->file);
  return order ? order : (a->number > b->number) - (a->number < b->number);
}

int journal_read(JournalLines *l, const char *file, const char *folder, const char *what) {
  *l = (JournalLines){.count = 0};
  int status = file ? read_file(l, file, what) : BFM_OK;
  int first = l->count;  // one file is in the order of time as it is
  if (!status) status = read_folder(l, folder, what);
  if (l->count > first) qsort(l->lines, l->count, sizeof *l->lines, by_time);
  if (status) journal_free(l);
  return status;
}

void journal_free(JournalLines *l) {
  for (int i = 0; i < l->count; i++) cJSON_Delete(l->lines[i].item);
  for (int i = 0; i < l->files; i++) free(l->paths[i]);
  free(l->lines);
  free(l->paths);
  *l = (JournalLines){.count = 0};
}

// ---------------------------------- signing ------------------------------------------------------

// "model name : Intel …" of /proc/cpuinfo
static void cpu_name(char *out, size_t size) {
  char *line = NULL;
  size_t room = 0;
  snprintf(out, size, "CPU");
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && getline(&line, &room, file) > 0) {
    char *colon = strchr(line, ':');
    if (!colon || strncmp(line, "model name", 10)) continue;
    snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    break;
  }
  free(line);
  if (file) fclose(file);
}

void journal_sign(cJSON *line) {
  char cpu[128], machine[160], when[32];
  cpu_name(cpu, sizeof cpu);
  snprintf(machine, sizeof machine, "%ld × %s", sysconf(_SC_NPROCESSORS_ONLN), cpu);
  time_t now = time(NULL);
  struct tm utc;
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  cJSON_AddStringToObject(line, "version", BFM_VERSION);
  cJSON_AddStringToObject(line, "commit", BFM_COMMIT);
  cJSON_AddStringToObject(line, "machine", machine);
  cJSON_AddStringToObject(line, "time", when);
}
