// The measurements of bfm bench that have a file of their own. Each prints its results: a table for
// people, or one JSON object per line.

#ifndef BFM_CLI_BENCH_H
#define BFM_CLI_BENCH_H

#include <cjson/cJSON.h>

#include "bfm.h"

// time from the rewards of 100,000 states to z
int bench_prompt(bfm_agent *agent, double seconds, int json);

// time from observations to actions: one row and many, with the policy's mean and with
// evaluation-based sampling
int bench_act(bfm_agent *agent, double seconds, int json);

// control steps a second beside those of a bare mjBatch; `seconds` for each domain
int bench_sim(double seconds, int json);

// time to compute the rewards of 100,000 stored states; `seconds` for each domain
int bench_reward(double seconds, int json);

// transitions and updates a second of bfm collect walker; `given`: options typed, by name, of which
// those of bfm collect are used
int bench_collect(const cJSON *given, double seconds, int json);

#endif
