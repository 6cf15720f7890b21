// A dataset in memory: transitions (s, a, s', discount) as float32 rows, ready to be sampled.
// Read from HDF5 files in D4RL's layout; several files are merged.

#ifndef BFM_DATA_DATASET_H
#define BFM_DATA_DATASET_H

#include <stdint.h>

#include "core/status.h"

typedef struct {
  int64_t count;  // transitions
  int64_t obs_dim, act_dim;
  float *obs, *act, *next_obs;  // [count, ·]
  float *discount;              // [count]: 0 where the episode terminated, 1 elsewhere
  int64_t episodes;
  char env[64];  // attribute "env" of the file, or empty
} Dataset;

// refuses NaN, infinities, fewer than two transitions, files whose sizes disagree; without
// next_observations the next row of the episode stands in, and an episode's last row is dropped
int dataset_read(Dataset *data, const char *const *paths, int path_count);
void dataset_free(Dataset *data);

#endif
