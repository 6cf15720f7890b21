// The evaluation of learners: a few episodes of each, side by side, without noise and always from
// the same initial states.

#ifndef BFM_COLLECT_STAGE_H
#define BFM_COLLECT_STAGE_H

#include <signal.h>

#include "collect/crew.h"

// Write each learner's mean return [T] over so many episodes, at most as many as it has
// environments. `at` is the control step of the collection. If *stop becomes nonzero (stop may be
// NULL), the returns stay as they are.
int stage_evaluate(Crew *crew, int64_t episodes, int64_t at, const volatile sig_atomic_t *stop,
                   double *returns);

#endif
