// A limit on long computations of one thread.

#include "core/deadline.h"

#include <stddef.h>

#include "core/units.h"

static _Thread_local const Deadline *current;

void deadline_set(Deadline *deadline) {
  if (deadline) deadline->until = seconds_now() + deadline->seconds;
  current = deadline;
}

const Deadline *deadline_now(void) { return current; }

static int cancelled(const Deadline *d) { return d && d->cancel && atomic_load(d->cancel); }

int deadline_passed(const Deadline *d) { return d && (cancelled(d) || seconds_now() > d->until); }

int deadline_check(void) {
  if (!deadline_passed(current)) return BFM_OK;
  if (cancelled(current)) return bfm_fail(BFM_INTERRUPTED, "cancelled");
  return bfm_fail(BFM_INTERRUPTED, "stopped after %g seconds", current->seconds);
}
