// Copies of one reward for threads that evaluate it at the same time: a thread takes a copy, and puts
// it back. There are as many copies as threads that ever were there together.

#ifndef BFM_ENVS_REWARD_POOL_H
#define BFM_ENVS_REWARD_POOL_H

#include "envs/reward.h"

typedef struct RewardPool RewardPool;

// takes over the reward, also when it fails
int reward_pool_new(RewardPool **pool, Reward *reward);
void reward_pool_free(RewardPool *pool);

// a copy, which the caller gives back; NULL without memory
Reward *reward_pool_take(RewardPool *pool);
void reward_pool_give(RewardPool *pool, Reward *copy);
const Reward *reward_pool_original(const RewardPool *pool);

// the value in a state that is computed; without memory for a copy, an error of MuJoCo
double reward_pool_value(RewardPool *pool, const mjModel *model, const mjData *data);

#endif
