// The measurements of bfm bench that have a file of their own. Each prints its results as a table for
// people or as one JSON object per line.

#ifndef BFM_CLI_BENCH_H
#define BFM_CLI_BENCH_H

#include <cjson/cJSON.h>

#include "bfm.h"

// Measure the time to compute z from the rewards of 100,000 states.
int bench_prompt(bfm_agent *agent, double seconds, int json);

// Measure the time to compute actions from one and from many observations, with the policy's mean and
// with evaluation-based sampling.
int bench_act(bfm_agent *agent, double seconds, int json);

// Measure control steps per second beside a bare mjBatch, `seconds` for each domain.
int bench_sim(double seconds, int json);

// Measure the time to compute the rewards of 100,000 stored states, `seconds` for each domain.
int bench_reward(double seconds, int json);

// Measure transitions and updates per second of bfm collect walker. `given` has the options of the
// command line by name; options that bfm collect does not have are ignored.
int bench_collect(const cJSON *given, double seconds, int json);

#endif
