// D4RL's protocol for its locomotion domains: train an agent to a level of return, then record it.

#ifndef BFM_COLLECT_D4RL_H
#define BFM_COLLECT_D4RL_H

#include "collect/collect.h"

// train the policies of the collection's levels that are missing beside the dataset, then collect
// with all of them. A policy that exists is kept, and an interrupted training is resumed
int d4rl_run(Collection *collection);

#endif
