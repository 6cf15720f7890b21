// The ledger. All lines of a run are appended by one write with O_APPEND, so that several processes
// may share a ledger. If a killed process has left a partial line, the next process removes it first.

#include "paper/ledger.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/files.h"
#include "core/folder.h"

#ifndef BFM_COMMIT
#define BFM_COMMIT ""
#endif

static void path_of(const char *results, char *out, size_t size) {
  snprintf(out, size, "%s/ledger.jsonl", results);
}

// ---------------------------------- reading ------------------------------------------------------

static int parse_line(const cJSON *item, LedgerLine *line) {
  const struct {
    const char *name;
    int64_t *to;
  } numbers[] = {{"seed", &line->seed},
                 {"steps", &line->steps},
                 {"es", &line->es},
                 {"episodes", &line->episodes}};
  line->run = cJSON_GetStringValue(cJSON_GetObjectItem(item, "run"));
  line->more = cJSON_GetStringValue(cJSON_GetObjectItem(item, "more"));
  line->returns = cJSON_GetObjectItem(item, "returns");
  int good = line->run && line->more && cJSON_IsObject(line->returns);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const cJSON *number = cJSON_GetObjectItem(item, numbers[i].name);
    good = good && cJSON_IsNumber(number);
    if (good) *numbers[i].to = (int64_t)number->valuedouble;
  }
  const cJSON *transitions = cJSON_GetObjectItem(item, "transitions");
  line->transitions = cJSON_IsNumber(transitions) ? (int64_t)transitions->valuedouble : 0;
  return good;
}

static int append_line(Ledger *l, cJSON *item, const LedgerLine *line) {
  // the arrays double: they are full whenever the count is a power of two
  if (!(l->count & (l->count - 1))) {
    size_t room = l->count ? 2 * (size_t)l->count : 1;
    LedgerLine *lines = realloc(l->lines, room * sizeof *lines);
    if (lines) l->lines = lines;
    cJSON **parsed = realloc(l->parsed, room * sizeof *parsed);
    if (parsed) l->parsed = parsed;
    if (!lines || !parsed) return bfm_fail(BFM_NO_MEMORY, "out of memory for %zu results", room);
  }
  l->lines[l->count] = *line;
  l->parsed[l->count++] = item;
  return BFM_OK;
}

// the key of a group of lines, and a seed
static int by_group(const LedgerLine *a, const LedgerLine *b) {
  if ((a->es > 0) != (b->es > 0)) return a->es > 0 ? 1 : -1;
  if (a->steps != b->steps) return a->steps < b->steps ? -1 : 1;
  if (a->transitions != b->transitions) return a->transitions < b->transitions ? -1 : 1;
  int order = strcmp(a->run, b->run);
  return order ? order : strcmp(a->more, b->more);
}

static int by_seed(const void *x, const void *y) {
  const LedgerLine *a = *(const LedgerLine *const *)x, *b = *(const LedgerLine *const *)y;
  int order = by_group(a, b);
  return order ? order : (a->seed > b->seed) - (a->seed < b->seed);
}

// counts the different seeds of each group and tells its lines
static int count_seeds(Ledger *l) {
  LedgerLine **lines = malloc((size_t)(l->count + 1) * sizeof *lines);
  if (!lines) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d results", l->count);
  for (int i = 0; i < l->count; i++) lines[i] = &l->lines[i];
  qsort(lines, l->count, sizeof *lines, by_seed);
  for (int begin = 0, end; begin < l->count; begin = end) {
    int seeds = 0;
    for (end = begin; end < l->count && !by_group(lines[begin], lines[end]); end++) {
      seeds += end == begin || lines[end]->seed != lines[end - 1]->seed;
    }
    for (int i = begin; i < end; i++) lines[i]->seeds = seeds;
  }
  free(lines);
  return BFM_OK;
}

int ledger_read(Ledger *l, const char *results) {
  *l = (Ledger){.count = 0};
  char path[PATH_MAX], *text = NULL;
  size_t size = 0;
  path_of(results, path, sizeof path);
  FILE *file;
  TRY(input_stream_if_any(path, &file));
  if (!file) return BFM_OK;
  int status = BFM_OK;
  ssize_t n;
  for (int at = 1; !status && (n = getline(&text, &size, file)) > 0; at++) {
    LedgerLine line;
    cJSON *item = cJSON_Parse(text);
    int whole = text[n - 1] == '\n', good = item && parse_line(item, &line);
    if (good) status = append_line(l, item, &line);
    else if (whole && strspn(text, " \n") != (size_t)n)
      status = bfm_fail(BFM_BAD_FILE, "%s: line %d is not a result of bfm paper run", path, at);
    if (!good || status) cJSON_Delete(item);
  }
  free(text);
  if (!status && ferror(file)) {
    status = bfm_fail(BFM_IO, "cannot read %s: %s", path, strerror(errno));
  }
  fclose(file);
  if (!status) status = count_seeds(l);
  if (status) ledger_free(l);
  return status;
}

void ledger_free(Ledger *l) {
  for (int i = 0; i < l->count; i++) cJSON_Delete(l->parsed[i]);
  free(l->parsed);
  free(l->lines);
  *l = (Ledger){.count = 0};
}

const LedgerLine *ledger_find(const Ledger *l, const char *run, const char *more, int64_t seed,
                              int64_t steps, int64_t episodes) {
  for (int i = 0; i < l->count; i++) {
    const LedgerLine *line = &l->lines[i];
    if (line->seed == seed && line->steps >= steps && line->episodes >= episodes &&
        !strcmp(line->run, run) && !strcmp(line->more, more)) {
      return line;
    }
  }
  return NULL;
}

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

int ledger_append(const char *results, const cJSON *lines) {
  char path[PATH_MAX], *text = NULL;
  size_t size = 0;
  Folder folder;
  TRY(folder_name(&folder, results));
  TRY(folder_make(&folder));
  int fd;
  path_of(results, path, sizeof path);
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

void ledger_sign(cJSON *line) {
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
