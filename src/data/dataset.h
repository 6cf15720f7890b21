// A dataset in memory: transitions (s, a, s', discount) as float32 rows, ready to be sampled. Read
// from HDF5 files in D4RL's or Minari's layout and from folders of npz episodes (ExORL); several
// are merged.

#ifndef BFM_DATA_DATASET_H
#define BFM_DATA_DATASET_H

#include <stdint.h>

#include "core/status.h"

typedef struct {
  int64_t count;  // transitions
  int64_t obs_dim, act_dim;
  float *obs, *act, *next_obs;  // [count, ·]
  float *discount;              // [count]: 0 where the episode terminated, 1 elsewhere
  uint8_t *ends;                // [count]: 1 where the next row is of another episode
  int64_t episodes;
  char env[64];   // attribute "env" of the file, or empty
  int cut_short;  // a file says that it is not complete

  // read by dataset_read_all only; NULL unless all files have them
  float *rewards;                    // [count]
  int64_t nq, nv, na;                // sizes of the states, 0 without them
  double *qpos, *qvel, *activation;  // [count, ·] of the observations

  int64_t capacity;         // rows there is room for
  int extras, has_rewards;  // whether rewards and states are read, and rewards are in all files
} Dataset;

// refuses NaN, infinities, actions beyond ±1, fewer than two transitions, sizes that disagree;
// without next_observations the next row of the episode stands in, and an episode's last row is
// dropped
int dataset_read(Dataset *data, const char *const *paths, int path_count);
int dataset_read_all(Dataset *data, const char *const *paths, int path_count);
void dataset_free(Dataset *data);

// write a new file in D4RL's layout, whole or not at all: the rows whose entry in keep [count]
// is not 0, NULL: all
int dataset_write(const Dataset *data, const char *path, const uint8_t *keep);

#endif
