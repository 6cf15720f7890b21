// A persistent thread pool. The caller works too; threads claim tasks from one atomic counter.
// A training step consists of hundreds of short jobs, so idle workers spin for a while before they
// sleep.

#define _GNU_SOURCE
#include "core/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MAX_THREADS 1024
#define SPINS 20000

typedef struct {
  Threads *pool;
  int index;
  pthread_t thread;
} Worker;

struct Threads {
  int count;
  Worker *workers;  // count-1 of them: the caller is worker 0

  void (*run)(void *context, int64_t task, int worker);
  void *context;
  int64_t tasks;
  atomic_int_fast64_t next;  // the next task to claim
  atomic_uint job;           // number of the current job
  atomic_int busy;           // workers that have not finished the current job
  atomic_int sleepers, stop;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
};

static void pause_briefly(int spin) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
  if (spin % 64 == 63) sched_yield();
}

static void work(Threads *pool, int worker) {
  for (;;) {
    int64_t task = atomic_fetch_add(&pool->next, 1);
    if (task >= pool->tasks) return;
    pool->run(pool->context, task, worker);
  }
}

// waits for a job other than `seen`
static void wait_for_job(Threads *pool, unsigned seen) {
  for (int spin = 0; spin < SPINS; spin++) {
    if (atomic_load(&pool->job) != seen || atomic_load(&pool->stop)) return;
    pause_briefly(spin);
  }
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->sleepers, 1);
  while (atomic_load(&pool->job) == seen && !atomic_load(&pool->stop)) {
    pthread_cond_wait(&pool->wake, &pool->mutex);
  }
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument) {
  Worker *worker = argument;
  Threads *pool = worker->pool;
  unsigned seen = 0;
  for (;;) {
    wait_for_job(pool, seen);
    if (atomic_load(&pool->stop)) return NULL;
    seen = atomic_load(&pool->job);
    work(pool, worker->index);
    atomic_fetch_sub(&pool->busy, 1);
  }
}

static int core_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  return CPU_COUNT(&set);
}

int threads_new(Threads **out, int n) {
  *out = NULL;
  if (n < 0 || n > MAX_THREADS) {
    return bfm_fail(BFM_BAD_ARGUMENT, "threads must be 0 to %d, not %d", MAX_THREADS, n);
  }
  Threads *pool = calloc(1, sizeof *pool);
  if (!pool) return bfm_fail(BFM_NO_MEMORY, "out of memory for a pool of threads");
  int want = n ? n : core_count();
  pool->workers = calloc(want, sizeof *pool->workers);
  if (!pool->workers) {
    free(pool);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %d threads", want);
  }
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pool->count = 1;
  for (int i = 1; i < want; i++) {
    Worker *worker = &pool->workers[i];
    worker->pool = pool;
    worker->index = i;
    if (pthread_create(&worker->thread, NULL, worker_main, worker)) {
      threads_free(pool);
      return bfm_fail(BFM_UNAVAILABLE, "cannot start thread %d of %d", i + 1, want);
    }
    pool->count++;
  }
  *out = pool;
  return BFM_OK;
}

void threads_free(Threads *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->mutex);
  atomic_store(&pool->stop, 1);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->mutex);
  for (int i = 1; i < pool->count; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->workers);
  free(pool);
}

int threads_count(const Threads *pool) { return pool->count; }

void threads_run(Threads *pool, int64_t tasks, void (*run)(void *, int64_t, int), void *context) {
  if (pool->count == 1 || tasks <= 1) {
    for (int64_t i = 0; i < tasks; i++) run(context, i, 0);
    return;
  }
  pool->run = run;
  pool->context = context;
  pool->tasks = tasks;
  atomic_store(&pool->next, 0);
  atomic_store(&pool->busy, pool->count - 1);
  atomic_fetch_add(&pool->job, 1);
  if (atomic_load(&pool->sleepers)) {
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
  }
  work(pool, 0);
  for (int spin = 0; atomic_load(&pool->busy); spin++) pause_briefly(spin);
}
