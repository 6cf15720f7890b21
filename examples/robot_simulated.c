// A robot that MuJoCo simulates, through bfm.h: each command moves it on by one control step.

#include <bfm.h>
#include <stdio.h>
#include <stdlib.h>

#include "robot.h"

struct Robot {
  bfm_env *env;
  int obs_dim, act_dim;
  double *sensors, *motors;
};

Robot *robot_open(const char *name, int obs_dim, int act_dim, double dt) {
  Robot *robot = calloc(1, sizeof *robot);
  (void)dt;  // the simulation has its own clock
  if (!robot) return NULL;
  robot->obs_dim = obs_dim;
  robot->act_dim = act_dim;
  robot->sensors = calloc((size_t)obs_dim, sizeof *robot->sensors);
  robot->motors = calloc((size_t)act_dim, sizeof *robot->motors);
  if (robot->sensors && robot->motors && !bfm_env_new(&robot->env, name, 1, 0, 1)) return robot;
  fprintf(stderr, "%s\n", bfm_error());
  robot_close(robot);
  return NULL;
}

void robot_read(Robot *robot, float *obs) {
  bfm_env_obs(robot->env, robot->sensors);
  for (int i = 0; i < robot->obs_dim; i++) obs[i] = (float)robot->sensors[i];
}

void robot_write(Robot *robot, const float *act) {
  for (int i = 0; i < robot->act_dim; i++) robot->motors[i] = act[i];
  bfm_env_step(robot->env, robot->motors);
}

void robot_close(Robot *robot) {
  bfm_env_free(robot->env);
  free(robot->sensors);
  free(robot->motors);
  free(robot);
}
