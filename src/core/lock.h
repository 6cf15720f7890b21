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

int lock_shared(Lock *lock);
int lock_exclusive(Lock *lock);
void unlock(Lock *lock);

// the value of call, made while the handle is locked; returns from the calling function
#define SHARED(handle, call)         \
  do {                               \
    TRY(lock_shared(&(handle)->lock)); \
    int result_ = (call);            \
    unlock(&(handle)->lock);         \
    return result_;                  \
  } while (0)

#define EXCLUSIVE(handle, call)         \
  do {                                  \
    TRY(lock_exclusive(&(handle)->lock)); \
    int result_ = (call);               \
    unlock(&(handle)->lock);            \
    return result_;                     \
  } while (0)

#endif
