// A dataset: transitions (s, a, s', discount) as float32 rows in memory, ready to be sampled. It is
// read from one or more files of any format in dataset.c's table; several files become one dataset.

#ifndef BFM_DATA_DATASET_H
#define BFM_DATA_DATASET_H

#include <signal.h>
#include <stdint.h>

#include "core/status.h"
#include "data/row_buffer.h"

struct cJSON;

// the arrays of a dataset; all have one row per transition
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
  PART_STORED_COUNT,  // the parts above are stored in files as they are, those below are derived
  PART_DISCOUNT = PART_STORED_COUNT,
  PART_ENDS,
  PART_COUNT
};

typedef struct {
  int64_t count;  // transitions
  int64_t obs_dim, act_dim;
  float *obs, *act, *next_obs;  // [count, ·]
  float *discount;              // [count]: 0 where the episode terminated, 1 elsewhere
  uint8_t *ends;                // [count]: 1 in an episode's last row
  int64_t episodes;
  char env[64];    // attribute "env" of the files, or empty
  int incomplete;  // 1 when a file holds fewer rows than its writer planned

  // Only dataset_read_all reads these; NULL unless every file has them.
  float *rewards;                    // [count]
  int64_t nq, nv, na;                // sizes of a state, 0 without states
  double *qpos, *qvel, *activation;  // [count, ·]: the state of each observation
  int64_t physics_dim;               // ExORL's states: qpos, qvel and act in one row, …
  double *physics;                   // [count, physics_dim] … with unknown sizes
  int32_t *source, *task;            // [count]: indices into the notes "sources" and "tasks"
  int64_t *step, *episode;           // [count]: as numbered by the collector
  struct cJSON *notes;               // text attributes that all files agree on

  // bookkeeping
  int64_t capacity;               // rows the buffers have room for
  int with_extras;                // 1: read more than training needs
  const char *first_path;         // the first file, while reading
  int single_file;                // 1: map the file's tables where possible
  uint32_t parts;                 // bit k: the dataset has part k
  RowBuffer buffers[PART_COUNT];  // the memory of the parts
} Dataset;

// Read the transitions of all files. Fails on NaN, infinities, sizes that disagree between files and
// fewer than two transitions. A file without next_observations gets them from the next row of the
// episode, and loses the last row of each episode. The arrays of a single file may be mapped
// read-only.
int dataset_read(Dataset *data, const char *const *paths, int path_count);

// as dataset_read, with rewards, states and notes
int dataset_read_all(Dataset *data, const char *const *paths, int path_count);

// as dataset_read_all, but a file that its writer has only begun may have no or one transition
int dataset_read_to_describe(Dataset *data, const char *path);

// reads a demonstration, for which one transition is enough
int dataset_read_demo(Dataset *data, const char *path);

// fails if an action lies outside ±1, which no policy can reach
#define ACTION_SLACK 1e-3f  // float32 rounding and other programs' clipping may exceed ±1 by this
int dataset_check_actions(const Dataset *data);

// Replaces the transitions by transitions over n steps: each leads from a row whose action was held
// for n rows to the state after them. Other rows are dropped. Fails if fewer than two transitions
// remain; the caller must then free the dataset.
int dataset_stride(Dataset *data, int64_t n);

// sets the observations' columns from `first` on to 0 in memory, not in the file
int dataset_clear(Dataset *data, int64_t first);

// Row number i of a sample of `rows` rows. The data is cut into that many equal ranges, and one row
// of each is drawn at random, because rows at equal distances could all be at the same time of their
// episodes.
int64_t dataset_sample_row(const Dataset *data, int64_t rows, int64_t i);

// frees all parts but the transitions, which are read in random order from now on
void dataset_trim(Dataset *data);

void dataset_free(Dataset *data);

// Writes a new file in D4RL's layout atomically. keep [count] selects the rows to write (NULL: all).
// Setting *stop to non-zero interrupts the writing; stop may be NULL.
int dataset_write(const Dataset *data, const char *path, const uint8_t *keep,
                  const volatile sig_atomic_t *stop);

#endif
