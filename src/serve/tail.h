// A log that another process appends to, line by line. Only what was appended since the last look is
// read. A log that was cut (a resumed run cuts off what it will write again) or replaced is read again
// from its start. A line without its newline waits for the rest of it.

#ifndef BFM_SERVE_TAIL_H
#define BFM_SERVE_TAIL_H

#include <limits.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/status.h"

enum {
  TAIL_LINE = 1 << 18,  // a longer line is left out
  TAIL_LOOK = 8 << 20,  // bytes read by a look; a large log takes several
  TAIL_KEPT = 64,       // bytes before the place that must be found again
};

typedef struct {
  char path[PATH_MAX];
  struct stat seen;  // the file at the last look; st_ino 0: there was none
  int64_t at;        // bytes read so far
  char *line;        // [length] of the line that is not whole yet, in memory of TAIL_LINE bytes
  int length, too_long;
  char kept[TAIL_KEPT];  // [kept_count] the last bytes before `at`
  int kept_count;
} Tail;

// what tail_look says, as bits
enum {
  TAIL_NEW = 1,    // there were new lines
  TAIL_AGAIN = 2,  // `restart` was called
  TAIL_MORE = 4,   // there is more to read: look again soon
  TAIL_GONE = 8,   // there is no such file
};

typedef struct {
  void *context;
  void (*restart)(void *context);  // forget all lines so far
  void (*line)(void *context, const char *text);
} TailReader;

int tail_open(Tail *tail, const char *folder, const char *name);
void tail_close(Tail *tail);
int tail_look(Tail *tail, const TailReader *reader);

// whether two looks saw the same file, unchanged
int same_file(const struct stat *a, const struct stat *b);

#endif
