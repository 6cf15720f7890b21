// A pool of threads that stays alive. Work is cut into tasks whose number never depends on the
// number of threads, so results do not either.

#ifndef BFM_CORE_THREADS_H
#define BFM_CORE_THREADS_H

#include <stdint.h>

#include "core/status.h"

typedef struct Threads Threads;

// n threads, the caller's included; 0: one per core
int threads_new(Threads **threads, int n);
void threads_free(Threads *threads);
int threads_count(const Threads *threads);

// call run(context, task, worker) for task = 0 … tasks-1, worker in 0 … count-1; returns when all
// are done. One caller at a time; run must not call threads_run on the same pool.
void threads_run(Threads *threads, int64_t tasks,
                 void (*run)(void *context, int64_t task, int worker), void *context);

#endif
