// A growing log. Its size alone does not tell that it was cut and has grown again since, so the bytes
// before the place where reading stopped are compared too.

#include "serve/tail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/files.h"

enum { CHUNK = 64 << 10 };

int same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int tail_open(Tail *t, const char *folder, const char *name) {
  memset(t, 0, sizeof *t);
  if (snprintf(t->path, sizeof t->path, "%s/%s", folder, name) >= (int)sizeof t->path) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the path of %s in %.64s… is too long", name, folder);
  }
  t->line = malloc(TAIL_LINE);
  return t->line ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %s", t->path);
}

void tail_close(Tail *t) {
  free(t->line);
  t->line = NULL;
}

static int is_continued(const Tail *t, int fd, const struct stat *now) {
  char before[TAIL_KEPT];
  if (now->st_dev != t->seen.st_dev || now->st_ino != t->seen.st_ino || now->st_size < t->at) {
    return 0;
  }
  return pread(fd, before, t->kept_count, t->at - t->kept_count) == t->kept_count &&
         !memcmp(before, t->kept, t->kept_count);
}

static void start_over(Tail *t, const TailReader *reader) {
  t->at = t->length = t->too_long = t->kept_count = 0;
  reader->restart(reader->context);
}

// the bytes before `at`, after `size` more were read
static void keep_last(Tail *t, const char *bytes, int size) {
  int from_new = size < TAIL_KEPT ? size : TAIL_KEPT;
  int from_old = t->kept_count + from_new > TAIL_KEPT ? TAIL_KEPT - from_new : t->kept_count;
  memmove(t->kept, t->kept + t->kept_count - from_old, from_old);
  memcpy(t->kept + from_old, bytes + size - from_new, from_new);
  t->kept_count = from_old + from_new;
}

static int end_line(Tail *t, const TailReader *reader) {
  int whole = !t->too_long;
  if (whole) {
    t->line[t->length] = 0;
    reader->line(reader->context, t->line);
  }
  t->length = t->too_long = 0;
  return whole ? TAIL_NEW : 0;
}

static int take_bytes(Tail *t, const char *bytes, int size, const TailReader *reader) {
  int said = 0;
  for (const char *end = bytes + size; bytes < end;) {
    const char *newline = memchr(bytes, '\n', end - bytes);
    int n = (int)((newline ? newline : end) - bytes);
    if (t->length + n >= TAIL_LINE) t->too_long = 1;
    if (!t->too_long) {
      memcpy(t->line + t->length, bytes, n);
      t->length += n;
    }
    if (newline) said |= end_line(t, reader);
    bytes += n + (newline != NULL);
  }
  return said;
}

static int read_on(Tail *t, int fd, const TailReader *reader) {
  char bytes[CHUNK];
  int said = 0;
  for (int done = 0; done < TAIL_LOOK;) {
    ssize_t n = pread(fd, bytes, sizeof bytes, t->at);
    if (n <= 0) return said;
    t->at += n;
    done += (int)n;
    keep_last(t, bytes, (int)n);
    said |= take_bytes(t, bytes, (int)n, reader);
  }
  return said | TAIL_MORE;
}

int tail_look(Tail *t, const TailReader *reader) {
  struct stat now;
  int fd, said = 0;
  size_t size;
  if (stat(t->path, &now)) {
    t->seen.st_ino = 0;  // a new file of this name is another one
    return TAIL_GONE;
  }
  if (same_file(&now, &t->seen) && t->at >= now.st_size) return 0;
  if (input_open(t->path, &fd, &size)) return TAIL_GONE;
  if (!fstat(fd, &now)) {
    if (t->at && !is_continued(t, fd, &now)) {
      start_over(t, reader);
      said = TAIL_AGAIN;
    }
    t->seen = now;
    said |= read_on(t, fd, reader);
  }
  close(fd);
  return said;
}
