// The evaluation of learners: a few episodes of each, side by side, without noise and always from
// the same initial states.

#ifndef BFM_COLLECT_STAGE_H
#define BFM_COLLECT_STAGE_H

#include "collect/crew.h"

// Write each learner's mean return [T] over so many episodes, at most as many as it has
// environments. `at` is the control step of the collection. `each` is called after every control
// step; when its result is not 0, the evaluation stops and the returns stay as they are.
int stage_evaluate(Crew *crew, int64_t episodes, int64_t at, int (*each)(void *context),
                   void *context, double *returns);

#endif
