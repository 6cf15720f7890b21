// Whole collections: what bfm collect and bfm_collect run.

#ifndef BFM_COLLECT_DRIVER_H
#define BFM_COLLECT_DRIVER_H

#include "collect/collect.h"

// run an open collection by the protocol of its crew: D4RL's, or just collecting
int collection_drive(Collection *collection);

#endif
