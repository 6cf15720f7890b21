// A persistent thread pool. Callers cut work into tasks whose number does not depend on the number
// of threads, so neither do the results.

#ifndef BFM_CORE_THREADS_H
#define BFM_CORE_THREADS_H

#include <stdint.h>

#include "core/status.h"

typedef struct Threads Threads;

// n threads, the caller's included; 0: one per core
int threads_new(Threads **threads, int n);
void threads_free(Threads *threads);
int threads_count(const Threads *threads);

// Calls run(context, task, worker) for task = 0 … tasks-1, with worker in 0 … count-1, and returns
// when all tasks are done. One caller at a time; run must not call threads_run on the same pool.
void threads_run(Threads *threads, int64_t tasks,
                 void (*run)(void *context, int64_t task, int worker), void *context);

#endif
