// A robot and its files: from a path to a bundle, and from a bundle to a robot with its model.

#ifndef BFM_ENVS_ROBOT_BUNDLE_H
#define BFM_ENVS_ROBOT_BUNDLE_H

#include "envs/bundle.h"
#include "envs/robot.h"

// whether a path can be a robot's: a model, ".xml" or ".urdf", or a description, ".yaml" or ".yml"
int robot_is_path(const char *path);

// Reads all files of the robot at a path, on the disk.
int robot_gather(Bundle **bundle, const char *path);

// Finds out all that is wrong with the robot at a path, as far as one problem does not hide others. Fails
// only without memory.
int robot_examine(const char *path, RobotProblems *problems);

// Makes a robot of its files: with its description if it has one, with defaults for what that leaves out,
// and with all expressions checked. file: what messages call it. The caller frees robot and model.
int robot_load(Robot **robot, mjModel **model, const Bundle *bundle, const char *file);

// the model of such a robot once more
int robot_compile(mjModel **model, const Bundle *bundle, const Robot *robot);

#endif
