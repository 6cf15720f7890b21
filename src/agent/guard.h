// Whether a run has diverged, from its last step alone: nothing to keep, so a resumed run is judged
// as one that never stopped.

#ifndef BFM_AGENT_GUARD_H
#define BFM_AGENT_GUARD_H

#include "bfm.h"

#define GUARD_STEPS 200  // before, features have had no time to come apart

// BFM_DIVERGED with the reason, after a step whose losses [R, loss_count] are given. Cheap: it
// reads F and B of the batch
int guard_check(bfm_agent *agent, const float *losses);

#endif
