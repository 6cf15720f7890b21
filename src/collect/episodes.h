// A buffer between the environments and the dataset file. Rows of an environment wait until its
// episode ends, so that the file holds whole episodes in order. Rows that have waited for some
// seconds are written before the end: a killed collector loses no more than those seconds.

#ifndef BFM_COLLECT_EPISODES_H
#define BFM_COLLECT_EPISODES_H

#include <stdint.h>

#include "bfm.h"
#include "data/writer.h"

// one control step of n environments, arrays [n, ·]; qpos, qvel and act_state belong to obs
typedef struct {
  double *obs, *actions, *rewards, *next_obs, *qpos, *qvel, *act_state;
  uint8_t *ended;  // bfm_env_end bits
} Moment;

int moment_new(Moment *moment, const bfm_env_sizes *sizes);
void moment_free(Moment *moment);

// the agent that acted, its task, and the number of the transition
typedef struct {
  int32_t source, task;
  int64_t step;
} Label;

typedef struct Episodes Episodes;

int episodes_new(Episodes **episodes, const bfm_env_sizes *sizes);
void episodes_free(Episodes *episodes);

// the tables of the dataset file
const Table *episodes_tables(const Episodes *episodes, int *count);

// environment i begins an episode with transition number `step`
void episodes_begin(Episodes *episodes, int i, int64_t step);

// buffer environment i's row of the moment; a full buffer is written. now: seconds, for write_old
int episodes_put(Episodes *episodes, Writer *writer, const Moment *moment, int i, Label label,
                 double now);

// write the waiting rows of environment i as one episode, or a piece of one
int episodes_write(Episodes *episodes, Writer *writer, int i);

// write the rows of every environment whose oldest row came at `since` or before
int episodes_write_old(Episodes *episodes, Writer *writer, double since);

#endif
