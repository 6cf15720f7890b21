// Measurements that have a file of their own.

#ifndef BFM_CLI_BENCH_H
#define BFM_CLI_BENCH_H

// control steps a second, beside MuJoCo's batch alone; seconds for each domain
int bench_sim(double seconds, int json);

// the rewards of 100,000 stored states; seconds for each domain
int bench_reward(double seconds, int json);

#endif
