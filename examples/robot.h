// The robot of robot_loop.c and robot_loop.cpp: sensors and motors. robot_simulated.c is the walker in
// MuJoCo. On a robot, write these functions for your own sensors and motors.

#ifndef ROBOT_H
#define ROBOT_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Robot Robot;

// NULL, with a message printed, if there is no such robot. dt: seconds between commands.
Robot *robot_open(const char *name, int obs_dim, int act_dim, double dt);

// the newest measurement, in the order and units of the training data
void robot_read(Robot *robot, float *obs);

// what the motors do from now on, numbers from -1 to 1
void robot_write(Robot *robot, const float *act);

void robot_close(Robot *robot);

#ifdef __cplusplus
}
#endif

#endif
