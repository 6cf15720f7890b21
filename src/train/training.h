// A training run from the inside, shared by the files that open it: open.c, record.c, data.c and
// prompt_states.c.

#ifndef BFM_TRAIN_TRAINING_H
#define BFM_TRAIN_TRAINING_H

#include <cjson/cJSON.h>

#include "envs/domain.h"
#include "train/train.h"

// record.c: whether the folder fits the plan. A new run must not overwrite another, a resume must
// find one
int training_check_folder(const Training *t);
// write what this start of the run was given into run.json
int training_write_record(const Training *t, cJSON *record, uint32_t checksum);

// data.c: read the data files of the plan or, when it names none, of run.json; choose the domain
int training_read_data(Training *t, const cJSON *record);
uint32_t training_checksum(const Dataset *data);
// the data's domain if its observations are positions and a goal, else NULL
const Domain *training_goal_domain(const Training *t);

// rewards.c: the reward of each transition of the data for a task, which belongs to the state after the
// action. *stored: they are those in the file
int training_rewards(const Training *t, const char *task, float *rewards, int *stored);

// offline.c: the run of single-task agents, in the place of those of an agent. make: after the data is
// read. resume: after the folder is locked
int offline_make(Training *t, const cJSON *record);
int offline_resume(Training *t);
int offline_run(Training *t);
void offline_close(Training *t);
void offline_path(const Training *t, const char *name, int replica, char *out, size_t size);

// prompt_states.c: give the agent its prompt states, and keep a sample of the data's rewards. Without
// a known domain a model can be trained, but neither prompted in words nor evaluated
int training_set_prompt(Training *t);

#endif
