// A robot for people: everything that its files say and that bfm chose.

#ifndef BFM_CLI_ROBOT_INFO_H
#define BFM_CLI_ROBOT_INFO_H

#include <cjson/cJSON.h>

#include "core/status.h"

// adds a description of the robot at a path
int robot_info(const char *path, cJSON *info);
// prints it
void robot_print(const cJSON *info);

#endif
