#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "envs/bundle_files.h"
#include "envs/robot_write.h"
int robot_write(const Robot *robot, const mjModel *model, const char *name, int comments,
                char **yaml) {
  (void)robot;
  (void)model;
  (void)comments;
  *yaml = malloc(2000);
  sprintf(*yaml, "model: %s\nsize: %d\n", name, robot->size);
  return 0;
}
