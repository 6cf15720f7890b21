// A training state kept in the agent's own device memory: taking and restoring it is one copy there.

#ifndef BFM_AGENT_SNAPSHOT_H
#define BFM_AGENT_SNAPSHOT_H

#include "bfm.h"

typedef struct {
  float *memory;  // parameters, Adam's moments, targets, the pool of z; NULL: none was taken
  int64_t step;
} Snapshot;

int snapshot_take(Snapshot *snapshot, bfm_agent *agent);

// training then continues bit-identically from that step, but with the agent's present learning rate
int snapshot_restore(const Snapshot *snapshot, bfm_agent *agent);

void snapshot_free(Snapshot *snapshot, bfm_agent *agent);

#endif
