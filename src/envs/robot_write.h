// A robot as the text of its description, in YAML.

#ifndef BFM_ENVS_ROBOT_WRITE_H
#define BFM_ENVS_ROBOT_WRITE_H

#include <stdio.h>

#include "envs/robot.h"

// Writes a completed robot. model_name: the model's file as the text shall call it. The caller frees *yaml,
// which is NULL after a failure.
//
// comments 0: every value, also those that robot_complete chose, always in the same bytes, so that a version
// with other defaults reads the same robot. The text belongs in a bundle: the file of states has its
// name in the bundle, and no folder of assets is named.
// comments 1: a start for people to change, with explanations and examples.
int robot_write(const Robot *robot, const mjModel *model, const char *model_name, int comments,
                char **yaml);

// writes a step of a reset, "joints: random", in one line; in_bundle: a file of states has its name there
int robot_write_reset(FILE *out, const RobotReset *reset, int in_bundle);

#endif
