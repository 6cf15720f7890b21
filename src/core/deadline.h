// A limit on long computations of one thread: a time, and a flag by which another thread cancels them.
// The thread sets it around its work; loops that may run for seconds ask between pieces of work whether
// they must give up. Without a limit, which is the default, nothing is ever given up.

#ifndef BFM_CORE_DEADLINE_H
#define BFM_CORE_DEADLINE_H

#include <stdatomic.h>

#include "core/status.h"

typedef struct {
  const atomic_int *cancel;  // not 0: give up; NULL: never
  double seconds;            // that the work may take
  double until;              // of deadline_set
} Deadline;

// Set the limit of the calling thread, from now on; NULL: none. It must stay valid until it is replaced.
void deadline_set(Deadline *deadline);

// the limit of the calling thread, to be handed to threads that help it, or NULL
const Deadline *deadline_now(void);

// whether it has passed; NULL: never. Any thread may ask
int deadline_passed(const Deadline *deadline);

// BFM_INTERRUPTED, with a message, if the limit of the calling thread has passed
int deadline_check(void);

#endif
