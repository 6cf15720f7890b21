// A robot's description compiled against its model: what it observes, how its episodes start, and when
// they are over.

#ifndef BFM_ENVS_ROBOT_WORLD_H
#define BFM_ENVS_ROBOT_WORLD_H

#include "envs/observer.h"
#include "envs/reset.h"
#include "envs/reward_pool.h"

struct RobotWorld {
  Observer *observer;
  Resets *resets;
  RewardPool *terminated;  // NULL: episodes end only at their time limit
};

// Compiles the robot of world->domain against world->model into world->robot and world->needs.
int robot_world_new(World *world);
void robot_world_free(RobotWorld *robot);  // accepts NULL

// Draws initial states: fails if that has no end, or if all of them are terminated already.
int robot_check_starts(const World *world);

#endif
