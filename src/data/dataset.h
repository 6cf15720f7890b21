// A dataset: transitions (s, a, s', discount) as float32 rows, ready to be sampled. Read from HDF5
// files in D4RL's or Minari's layout and from folders of npz episodes (ExORL); several are merged.

#ifndef BFM_DATA_DATASET_H
#define BFM_DATA_DATASET_H

#include <signal.h>
#include <stdint.h>

#include "core/status.h"
#include "data/block.h"
#include "data/writer.h"

struct cJSON;

enum {
  PART_OBS,
  PART_ACT,
  PART_NEXT_OBS,
  PART_REWARDS,
  PART_QPOS,
  PART_QVEL,
  PART_ACTIVATION,
  PART_PHYSICS,
  PART_SOURCE,
  PART_TASK,
  PART_STEP,
  PART_EPISODE,
  PART_DISCOUNT,  // from here on not in files as they are
  PART_ENDS,
  PART_COUNT
};

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
  int64_t physics_dim;               // ExORL's states, without a word of where qpos ends …
  double *physics;                   // [count, physics_dim] … and qvel and act begin
  int32_t *source, *task;            // [count] indices into the notes "sources" and "tasks"
  int64_t *step, *episode;           // [count]
  struct cJSON *notes;               // what the files say of themselves, as far as they agree

  int64_t capacity;          // rows there is room for
  int extras;                // whether more than a training needs is read
  int alone;                 // a single file: its tables are mapped where they can be
  uint32_t parts;            // bit k: it has part k
  Block blocks[PART_COUNT];  // where the parts are
} Dataset;

// the tables of a file that are parts as they are, of those the dataset has; returns their number
typedef struct {
  Table table;
  void *rows;
} Part;
int dataset_parts(const Dataset *data, Part *parts /* [PART_COUNT] */);

// refuses NaN, infinities, fewer than two transitions, sizes that disagree; without
// next_observations the next row of the episode stands in, and an episode's last row is dropped.
// Arrays of a single file are read-only where they are mapped
int dataset_read(Dataset *data, const char *const *paths, int path_count);
int dataset_read_all(Dataset *data, const char *const *paths, int path_count);
// a demonstration: of what is in it one transition is enough
int dataset_read_demo(Dataset *data, const char *path);
#define ACTION_SLACK 1e-3f  // what float32 and others' clipping leave beyond ±1
// refuses actions that no policy can take
int dataset_check_actions(const Dataset *data);
// transitions of n steps: from each row whose action was held for so many to the state after them.
// The other rows go; fewer than two windows are refused, and the data is then only to be freed
int dataset_stride(Dataset *data, int64_t n);
// zeros in the observations' columns from `first` on; the file stays as it is
int dataset_clear(Dataset *data, int64_t first);
// row i of a sample: one at random of each of so many equal shares of the data. At equal distances
// they could all be of one time of their episodes
int64_t dataset_sample_row(const Dataset *data, int64_t rows, int64_t i);
// let go of all but the transitions, which from now on are read in any order
void dataset_trim(Dataset *data);
void dataset_free(Dataset *data);

// write a new file in D4RL's layout, whole or not at all: the rows whose entry in keep [count]
// is not 0, NULL: all. stop (may be NULL): given up where it becomes other than 0
int dataset_write(const Dataset *data, const char *path, const uint8_t *keep,
                  const volatile sig_atomic_t *stop);

#endif
