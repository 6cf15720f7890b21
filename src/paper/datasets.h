// How the data of the tables is made: for each kind of data the options of its collection, and those
// of the training that depend on it.

#ifndef BFM_PAPER_DATASETS_H
#define BFM_PAPER_DATASETS_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

// transitions of a kind of data
int64_t paper_data_steps(const char *kind);

// The options of bfm_collect as a JSON object, which the caller frees; steps 0: the kind's. NULL if out
// of memory.
cJSON *paper_data_options(const char *kind, int64_t steps);

// the options of bfm_train that a kind of data needs, as "name=value name=value"
const char *paper_data_training(const char *kind);

// Write the name of the file in which D4RL publishes a kind of data, such as hopper_medium_replay-v2.hdf5
// of d4rl-medium-replay; an empty one for data that is not D4RL's.
void paper_data_original(const char *domain, const char *kind, char *out, size_t size);

// write the command that makes the data of a domain
void paper_data_command(const char *domain, const char *kind, char *out, size_t size);

#endif
