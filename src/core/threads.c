// A persistent thread pool. The caller works too; threads claim tasks from one atomic counter. The
// caller waits for tasks, not for threads: on a busy machine it does all of a short job itself while
// the others wait for a core. A training step consists of hundreds of short jobs, so idle workers
// spin for a while before they sleep.

#define _GNU_SOURCE
#include "core/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MAX_THREADS 1024
#define SPINS 5000  // about 0.1 ms: the pauses between the jobs of a step are shorter

typedef struct {
  Threads *pool;
  int index;
  pthread_t thread;
} Worker;

struct Threads {
  int count;
  Worker *workers;  // count-1 of them: the caller is worker 0

  // The current job. The caller changes it only while it is closed: no task can be claimed then.
  void (*_Atomic run)(void *context, int64_t task, int worker);
  void *_Atomic context;
  atomic_uint_fast64_t tasks;
  atomic_uint_fast64_t next;  // number of the job, and in the lower 32 bits the next task to claim
  atomic_uint_fast64_t done;  // finished tasks of the job
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

static uint32_t task_of(uint64_t next) { return (uint32_t)next; }

static int has_task(Threads *pool) {
  uint64_t next = atomic_load(&pool->next);
  return task_of(next) < atomic_load(&pool->tasks);
}

// claims and runs tasks until none is left
static void work(Threads *pool, int worker) {
  for (;;) {
    uint64_t next = atomic_load(&pool->next);
    if (task_of(next) >= atomic_load(&pool->tasks)) return;
    void (*run)(void *, int64_t, int) = atomic_load(&pool->run);
    void *context = atomic_load(&pool->context);
    // fails if another thread was faster, or if what was just read belongs to an older job
    if (!atomic_compare_exchange_weak(&pool->next, &next, next + 1)) continue;
    run(context, task_of(next), worker);
    atomic_fetch_add(&pool->done, 1);
  }
}

static int is_needed(Threads *pool) { return has_task(pool) || atomic_load(&pool->stop); }

static void wait_for_task(Threads *pool) {
  for (int spin = 0; spin < SPINS; spin++) {
    if (is_needed(pool)) return;
    pause_briefly(spin);
  }
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->sleepers, 1);
  while (!is_needed(pool)) pthread_cond_wait(&pool->wake, &pool->mutex);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument) {
  Worker *worker = argument;
  for (;;) {
    wait_for_task(worker->pool);
    if (atomic_load(&worker->pool->stop)) return NULL;
    work(worker->pool, worker->index);
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

// closed: the task number is higher than any job's
static void open_job(Threads *pool, uint64_t tasks, void (*run)(void *, int64_t, int),
                     void *context) {
  uint64_t job = (atomic_load(&pool->next) >> 32) + 1;
  atomic_store(&pool->next, job << 32 | UINT32_MAX);
  atomic_store(&pool->run, run);
  atomic_store(&pool->context, context);
  atomic_store(&pool->tasks, tasks);
  atomic_store(&pool->done, 0);
  atomic_store(&pool->next, job << 32);
}

static void wake_sleepers(Threads *pool) {
  if (!atomic_load(&pool->sleepers)) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->mutex);
}

// one job has fewer than 2^32 - 1 tasks
static void run_job(Threads *pool, int64_t tasks, void (*run)(void *, int64_t, int),
                    void *context) {
  open_job(pool, (uint64_t)tasks, run, context);
  wake_sleepers(pool);
  work(pool, 0);
  for (int spin = 0; atomic_load(&pool->done) < (uint64_t)tasks; spin++) pause_briefly(spin);
}

void threads_run(Threads *pool, int64_t tasks, void (*run)(void *, int64_t, int), void *context) {
  if (pool->count == 1 || tasks <= 1) {
    for (int64_t i = 0; i < tasks; i++) run(context, i, 0);
    return;
  }
  run_job(pool, tasks, run, context);
}
