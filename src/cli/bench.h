// Measurements that have a file of their own.

#ifndef BFM_CLI_BENCH_H
#define BFM_CLI_BENCH_H

#include <cjson/cJSON.h>

#include "bfm.h"

// 100,000 states with rewards to z
int bench_prompt(bfm_agent *agent, double seconds, int json);

// observations to actions: one and many, by the mean and by evaluation-based sampling
int bench_act(bfm_agent *agent, double seconds, int json);

// control steps a second, beside MuJoCo's batch alone; seconds for each domain
int bench_sim(double seconds, int json);

// the rewards of 100,000 stored states; seconds for each domain
int bench_reward(double seconds, int json);

// transitions and updates a second while walker data is made; given: options of the learners
int bench_collect(const cJSON *given, double seconds, int json);

#endif
