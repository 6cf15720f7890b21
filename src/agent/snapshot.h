// A training state kept on the agent's own device: taken and restored in a copy, without the host.

#ifndef BFM_AGENT_SNAPSHOT_H
#define BFM_AGENT_SNAPSHOT_H

#include "bfm.h"

typedef struct {
  float *memory;  // parameters, Adam's moments, targets, the pool of z; NULL: none was taken
  int64_t step;
} Snapshot;

int snapshot_take(Snapshot *snapshot, bfm_agent *agent);

// training goes on from there with the bits of the run that came by; learning rates are the agent's
int snapshot_restore(const Snapshot *snapshot, bfm_agent *agent);

void snapshot_free(Snapshot *snapshot, bfm_agent *agent);

#endif
