// How a robot's episodes start: the steps of its description, compiled against its model.

#ifndef BFM_ENVS_RESET_H
#define BFM_ENVS_RESET_H

#include "envs/domain.h"
#include "envs/robot.h"

typedef struct Resets Resets;

int resets_new(Resets **resets, const Robot *robot, const mjModel *model);
void resets_free(Resets *resets);

// draws an initial state into data, which holds the model's default state after mj_forward
void resets_draw(const Resets *resets, const World *world, mjData *data, Draws *draw);

#endif
