// Domains: a robot, its floor, what is observed, how an episode starts and ends. One row of the
// table each; rewards live apart, in the table of tasks.

#ifndef BFM_ENVS_DOMAIN_H
#define BFM_ENVS_DOMAIN_H

#include <mujoco/mujoco.h>

#include "core/status.h"
#include "envs/draw.h"
#include "envs/reward.h"

enum {
  DOMAIN_NAMES = 16,  // a domain's limits: elements it looks up, numbers it observes and the parts
  OBS_MAX = 128,      // they come in, controls
  OBS_PARTS = 12,
  CTRL_MAX = 32,
};

typedef struct World World;

// an element of the model whose number a domain needs
typedef struct {
  mjtObj type;
  const char *name;
} ModelName;

// a part of an observation, under dm_control's name
typedef struct {
  const char *name;
  int count;
} ObsPart;

typedef struct {
  const char *name, *help;
  const char *file;  // below the folder of models
  int obs_dim;
  ObsPart observed[OBS_PARTS];  // one after the other, obs_dim in all
  // numbers of a goal, the last of an observation, which else is qpos: D4RL's files have one, here
  // it is zero. 0: observations are no such thing
  int goal_dim;
  int substeps;       // physics steps of one control step
  int episode_steps;  // control steps of an episode
  int scaled;         // actions in [-1, 1] stand for the controls' ranges, or for what control says
  const char *camera;
  const Alias *aliases;           // names of this domain for rewards
  ModelName names[DOMAIN_NAMES];  // become World.ids, in this order

  // change the parsed model before it is compiled; folder holds the file. NULL: as it is
  int (*edit)(mjSpec *spec, const char *folder);
  // draw an initial state into data, which holds the model's default one, forwarded
  void (*reset)(const World *world, mjData *data, Draws *draw);
  // after data is computed up to velocities
  void (*observe)(const World *world, const mjData *data, double *obs);
  // set the controls of an action, before a step. NULL: they are the action
  void (*control)(const World *world, mjData *data, const double *action);
  // note in data->userdata, after a step, what step_reward needs of the past. NULL: nothing
  void (*remember)(const World *world, mjData *data);
  // whether the state ends the episode. NULL: only time does
  int (*terminated)(const World *world, const mjData *data);
  // reward of the step that led from qpos to data, for domains whose known tasks pay for more than
  // a state. NULL: all rewards are expressions
  double (*step_reward)(const World *world, const mjData *data, const double *qpos,
                        const char *task);
} Domain;

extern const Domain walker_domain, cheetah_domain, quadruped_domain, humanoid_domain, jaco_domain,
    point_mass_domain, halfcheetah_domain, hopper_domain, walker2d_domain, kitchen_domain;

// the row with this name; an unknown name suggests the nearest one
int domain_find(const Domain **domain, const char *name);
// row number i, NULL after the last
const Domain *domain_at(int i);
// columns of the observation, some of them as names of its parts: "height,20:24" → "14:15,20:24"
int domain_columns(const Domain *domain, const char *text, char *out, size_t size);

// ---------------------------------- a domain with its model --------------------------------------

struct World {
  const Domain *domain;
  mjModel *model;
  mjModel *resting;       // the same without actuation: what a state that was just set is seen with
  int ids[DOMAIN_NAMES];  // of Domain.names

  char *path;   // the model's file
  int users;    // world_acquire without world_release so far
  World *next;  // in the list of all worlds
};

// The domain's world, compiled at the first call and shared by all callers of all threads: nobody
// may change it. Pair with world_release, which accepts NULL.
int world_acquire(const World **world, const Domain *domain);
void world_release(const World *world);

// first number of a sensor's reading in sensordata; id as in World.ids
static inline const double *world_sensor(const World *world, const mjData *data, int name) {
  return data->sensordata + world->model->sensor_adr[world->ids[name]];
}

// positions, velocities and their sensors of the state in data; forces, accelerations and their
// sensors stay what the last physics step made them, as after dm_control's legacy step
void world_update(const World *world, mjData *data);

// dm_control's legacy step: the first substep uses what is already computed in data, and in the end
// all but forces is that of the new state
void world_step(const World *world, mjData *data, int substeps);

// ---------------------------------- shared by domains --------------------------------------------

// dm_control's randomize_limited_and_rotational_joints, as a reset
void draw_joints(const World *world, mjData *data, Draws *draw);

// count a draw of an initial state that was rejected; one too many is an error of MuJoCo, which
// ends the simulation's reset with a sentence
void draw_again(int *rejected);

// copy count numbers, return the place after them
static inline double *put(double *out, const double *values, int count) {
  for (int i = 0; i < count; i++) out[i] = values[i];
  return out + count;
}

// a body's position in the frame of another
void body_in_frame(const mjData *data, int body, int frame, double out[3]);

#endif
