// The progress line of long work: share done, rate, time left. One line that rewrites itself on a
// terminal; nothing at all when standard error is not one (or --quiet).

#ifndef BFM_CLI_PROGRESS_H
#define BFM_CLI_PROGRESS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "bfm.h"

typedef struct {
  const char *what;  // "train"
  const char *unit;  // "steps"
  int64_t total, done;
  int64_t start_done;  // where a resumed run began: the rate counts from here
  double start, last;  // seconds
  double limit;        // seconds after which it ends in any case; 0: none
  int active;
} Progress;

void progress_start(Progress *p, const char *what, const char *unit, int64_t done, int64_t total,
                    int quiet);
// note (may be NULL) is shown after the time left: "fb -12.3  actor 4.1"
void progress_update(Progress *p, int64_t done, const char *note);
// the same with a text of the caller's own
void progress_show(Progress *p, const char *line);
void progress_end(Progress *p);

// The line of a run of the library: progress_of_run is its callback, whose context is a RunProgress.
// *stop not 0 stops the run. Call progress_end(&run.line) after it.
typedef struct {
  int quiet;
  const volatile sig_atomic_t *stop;
  Progress line;
} RunProgress;
int progress_of_run(void *run_progress, const bfm_progress *progress);

// the line's text at this time: "train  45%  450k/1M steps  1.8k/s  5 min left  note"
void progress_text(const Progress *p, double now, const char *note, char *out, size_t size);

#endif
