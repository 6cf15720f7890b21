// The lock of a handle. Calls that only read the handle share it and run side by side; a call that
// changes the handle has it alone. A call waits until it may run, so no number is ever computed from
// a handle that another thread is changing.
//
// A thread that already has the lock, in a callback, gets it again at once, except that it cannot
// turn a shared lock into an exclusive one: that is BFM_BAD_ARGUMENT, where others would wait
// for ever.

#ifndef BFM_CORE_LOCK_H
#define BFM_CORE_LOCK_H

#include <pthread.h>

#include "core/status.h"

typedef struct {
  pthread_rwlock_t rwlock;
} Lock;

void lock_init(Lock *lock);
void lock_destroy(Lock *lock);

// returns the lock, to be unlocked later, or NULL: bfm_error() says why
Lock *lock_shared(const Lock *lock);
Lock *lock_exclusive(const Lock *lock);
void unlock(Lock *lock);

// In a function of a handle, until the function returns: SHARED(agent) or EXCLUSIVE(agent). The forms
// with _VOID are for functions without a status, which go on where the others return an error.
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
