// Locks of handles: a read-write lock, and a list of the locks that the calling thread holds.

#define _GNU_SOURCE
#include "core/lock.h"

#define NESTED 16  // most handles that one thread can hold locked at once, through callbacks

typedef struct {
  const Lock *lock;
  int depth, exclusive;
} Held;

static _Thread_local Held held[NESTED];

void lock_init(Lock *lock) {
  pthread_rwlockattr_t attributes;
  pthread_rwlockattr_init(&attributes);
  // otherwise threads that keep reading could make a writer wait forever
  pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&lock->rwlock, &attributes);
  pthread_rwlockattr_destroy(&attributes);
}

void lock_destroy(Lock *lock) { pthread_rwlock_destroy(&lock->rwlock); }

// the entry of this lock, or an empty one if the thread does not hold it; NULL if all are in use
static Held *find(const Lock *lock) {
  Held *empty = NULL;
  for (Held *h = held; h < held + NESTED; h++) {
    if (h->depth && h->lock == lock) return h;
    if (!h->depth && !empty) empty = h;
  }
  return empty;
}

static Lock *acquire(Lock *lock, int exclusive) {
  Held *h = find(lock);
  if (!h) {
    bfm_fail(BFM_BAD_ARGUMENT, "callbacks are nested too deeply: at most %d are supported", NESTED);
  } else if (!h->depth) {
    if (exclusive) pthread_rwlock_wrlock(&lock->rwlock);
    else pthread_rwlock_rdlock(&lock->rwlock);
    *h = (Held){lock, 1, exclusive};
    return lock;
  } else if (exclusive && !h->exclusive) {
    bfm_fail(BFM_BAD_ARGUMENT,
             "a callback cannot change the handle that is calling it: return first");
  } else {
    h->depth++;
    return lock;
  }
  return NULL;
}

// functions that only read a handle take it as const, but must still change its lock
Lock *lock_shared(const Lock *lock) { return acquire((Lock *)lock, 0); }
Lock *lock_exclusive(const Lock *lock) { return acquire((Lock *)lock, 1); }

void unlock(Lock *lock) {
  Held *h = find(lock);
  if (!h || !h->depth || --h->depth) return;
  pthread_rwlock_unlock(&lock->rwlock);
}
