// Rows on their way to a dataset file. Each environment's wait in its own part of one buffer until
// the episode ends, so that a file's episodes are whole and in order. A piece that waited for
// seconds is written nevertheless: a killed collector loses no more than that.

#ifndef BFM_COLLECT_EPISODES_H
#define BFM_COLLECT_EPISODES_H

#include <stdint.h>

#include "bfm.h"
#include "data/writer.h"

// one control step of n environments, arrays [n, ·]; the states are those of obs
typedef struct {
  double *obs, *actions, *rewards, *next_obs, *qpos, *qvel, *act_state;
  uint8_t *ended;  // bfm_ended bits
} Moment;

int moment_new(Moment *moment, const bfm_env_sizes *sizes);
void moment_free(Moment *moment);

// who acted in an environment, and when
typedef struct {
  int32_t source, task;
  int64_t step;
} Label;

typedef struct Episodes Episodes;

int episodes_new(Episodes **episodes, const bfm_env_sizes *sizes);
void episodes_free(Episodes *episodes);

// the tables of the file
const Table *episodes_tables(const Episodes *episodes, int *count);

// environment i begins an episode with the transition of this number
void episodes_begin(Episodes *episodes, int i, int64_t step);

// take environment i's row of the moment; it is written when there is no room for another
int episodes_put(Episodes *episodes, Writer *writer, const Moment *moment, int i, Label label,
                 double now);

// write what waits of environment i: the rows that follow in the file are not its successors
int episodes_write(Episodes *episodes, Writer *writer, int i);

// write all that waits since this time or longer
int episodes_write_old(Episodes *episodes, Writer *writer, double since);

#endif
