// Where learners are evaluated: a few episodes of each, side by side, without noise and always from
// the same initial states.

#ifndef BFM_COLLECT_STAGE_H
#define BFM_COLLECT_STAGE_H

#include <signal.h>

#include "collect/crew.h"

typedef struct Stage Stage;

// episodes K of each agent, at most as many as it has environments
int stage_new(Stage **stage, const Crew *crew, int64_t episodes);
void stage_free(Stage *stage);

// mean returns [T]; told to stop (stop may be NULL) they stay what they were
int stage_evaluate(Stage *stage, Crew *crew, int64_t at, const volatile sig_atomic_t *stop,
                   double *returns);

#endif
