// The lock of a handle. Calls that only read the handle share the lock and run in parallel; a call
// that changes the handle holds it exclusively. A call waits for the lock, so nothing is ever
// computed from a handle that another thread is changing.
//
// A thread that already holds the lock, in a callback, gets it again at once. But it cannot turn a
// shared lock into an exclusive one: that would wait forever, so it is BFM_BAD_ARGUMENT.

#ifndef BFM_CORE_LOCK_H
#define BFM_CORE_LOCK_H

#include <pthread.h>

#include "core/status.h"

typedef struct {
  pthread_rwlock_t rwlock;
} Lock;

void lock_init(Lock *lock);
void lock_destroy(Lock *lock);

// Return the lock, which the caller unlocks later, or NULL, with a message in bfm_error().
Lock *lock_shared(const Lock *lock);
Lock *lock_exclusive(const Lock *lock);
void unlock(Lock *lock);

// Hold the lock until the calling function returns: SHARED(agent) or EXCLUSIVE(agent). The forms with
// _VOID are for functions without a status, which continue if the lock fails.
#define SHARED(handle) \
  SHARED_VOID(handle); \
  if (!held_lock_) return BFM_BAD_ARGUMENT
#define EXCLUSIVE(handle) \
  EXCLUSIVE_VOID(handle); \
  if (!held_lock_) return BFM_BAD_ARGUMENT
#define SHARED_VOID(handle) HELD_LOCK = lock_shared(&(handle)->lock)
#define EXCLUSIVE_VOID(handle) HELD_LOCK = lock_exclusive(&(handle)->lock)
#define HELD_LOCK __attribute__((cleanup(lock_leave), unused)) Lock *const held_lock_

static inline void lock_leave(Lock *const *lock) {
  if (*lock) unlock(*lock);
}

#endif
