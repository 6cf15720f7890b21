// Whether a run has diverged, judged by its last step alone. Nothing is kept between checks, so a
// resumed run is judged like an uninterrupted one.

#ifndef BFM_AGENT_GUARD_H
#define BFM_AGENT_GUARD_H

#include "bfm.h"

#define GUARD_STEPS 200  // steps between checks; earlier, the features are still too alike to judge
#define GUARD_MOST_F 2.0              // ‖F‖ as a multiple of the largest that a true one has
#define GUARD_FEWEST_DIRECTIONS 1.05  // that B must use

// Check after a step with losses [R, loss_count]; BFM_DIVERGED with the reason. This is cheap: it
// reads F and B of the batch.
int guard_check(bfm_agent *agent, const float *losses);

#endif
