// The caller of a long run as the run sees it: a callback that is told about progress and that may
// ask the run to stop.

#ifndef BFM_CORE_MONITOR_H
#define BFM_CORE_MONITOR_H

#include "bfm.h"

typedef struct {
  bfm_progress_callback *call;  // NULL: nobody is told, and the run never stops early
  void *context;
  int stopped;  // the callback has asked to stop; later calls do not take it back

  bfm_progress progress;  // of the present stage
  double limit;           // of the next stage
  double start, called;   // seconds: when the stage began, and the last call
} Monitor;

// how long the next stage may take at most, in seconds; 0: no limit. For the callback to know
void monitor_limit(Monitor *monitor, double seconds);

// begin a stage and call the callback. The texts must outlive the stage
void monitor_begin(Monitor *monitor, const char *stage, const char *unit, int64_t done,
                   int64_t total);

// call the callback if the last call was long enough ago; note may be NULL. Returns whether the run
// must stop
int monitor_update(Monitor *monitor, int64_t done, const char *note);

// call the callback at the end of a stage. After it has asked to stop, the callback is not called
void monitor_end(Monitor *monitor, int64_t done, const char *note);

#endif
