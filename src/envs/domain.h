// Domains: a robot, its floor, its observations, its tasks, and how episodes start and end. Each is one
// row of the table in domain.c: a text file in robots/, or a struct where a robot needs C.

#ifndef BFM_ENVS_DOMAIN_H
#define BFM_ENVS_DOMAIN_H

#include <mujoco/mujoco.h>

#include "core/status.h"
#include "envs/draw.h"
#include "envs/reward.h"

enum {
  DOMAIN_NAMES = 16,  // limits of a domain: elements that it looks up,
  OBS_MAX = 1024,     // numbers of an observation, its parts, controls
  OBS_PARTS = 12,
  CTRL_MAX = 256,
};

typedef struct World World;
typedef struct Task Task;  // tasks.h
typedef struct RobotWorld RobotWorld;

// an element of the model whose id a domain needs
typedef struct {
  mjtObj type;
  const char *name;
} ModelName;

// a part of an observation, with dm_control's name
typedef struct {
  const char *name;
  int count;
} ObsPart;

typedef struct {
  const char *name, *help;
  const char *file;           // path below the folder of models
  const struct Robot *robot;  // what its text file says; NULL: the domain is written in C
  const struct Bundle
      *bundle;  // the files of a user's robot, which are not in the folder of models
  int obs_dim;
  int old_obs_dim;              // of an earlier version, whose files are refused; 0: never changed
  const char *old_obs;          // what the robot had then: "had a brick before version 0.2"
  ObsPart observed[OBS_PARTS];  // in order; of any domain: world_part
  // The last goal_dim numbers of an observation are a goal, which D4RL's files contain; in bfm's
  // observations they are zero, and the rest is qpos. 0: observations have no goal
  int goal_dim;
  int substeps;       // physics steps of one control step
  int episode_steps;  // control steps of an episode
  int scaled;         // actions in [-1, 1] are mapped to the controls' ranges, or by `control`
  const char *camera;
  const Alias *aliases;           // the domain's own names for rewards
  const Task *tasks;              // ends with a row without a name
  ModelName names[DOMAIN_NAMES];  // their ids become World.ids, in this order

  // changes the parsed model before it is compiled; folder: of the file. NULL: no changes
  int (*edit)(mjSpec *spec, const char *folder);
  // draws an initial state into data, which holds the model's default state after mj_forward
  void (*reset)(const World *world, mjData *data, Draws *draw);
  // fills the observation, after data is computed up to velocities
  void (*observe)(const World *world, const mjData *data, double *obs);
  // sets the controls for an action, before a step. NULL: the controls are the action
  void (*control)(const World *world, mjData *data, const double *action);
  // after a step, saves in data->userdata what step_reward needs later. NULL: nothing
  void (*remember)(const World *world, mjData *data);
  // whether the state terminates the episode. NULL: episodes end only at their time limit
  int (*terminated)(const World *world, const mjData *data);
  // reward of the step that led from qpos to data, for domains whose known tasks depend on more than
  // the state. NULL: all rewards are expressions
  double (*step_reward)(const World *world, const mjData *data, const double *qpos,
                        const char *task);
} Domain;

extern const Domain jaco_domain, kitchen_domain;  // the domains that are written in C

// The row with this name, or the user's robot whose model or description is at this path, or which a
// dataset or model brought along under this name (registry.h). The error for an unknown name suggests
// the nearest one. A path is read each time: keep domain->name, which finds the same robot again.
int domain_find(const Domain **domain, const char *name);
// row number i, NULL after the last
const Domain *domain_at(int i);
// Refuses a file whose observations are those of an earlier version's domain. name may be NULL, empty
// or no domain: such files are accepted
int domain_check_obs(const char *name, int64_t obs_dim, const char *path);
// replaces the names of parts in a list of the observation's columns: "height,20:24" → "14:15,20:24"
int domain_columns(const Domain *domain, const char *text, char *out, size_t size);

// ---------------------------------- a domain with its model --------------------------------------

struct World {
  const Domain *domain;
  mjModel *model;
  mjModel *resting;       // the same without actuation, to forward a state that was just set
  int ids[DOMAIN_NAMES];  // of Domain.names
  RobotWorld *robot;      // a robot's description, compiled; NULL: the domain is written in C
  int needs;              // stages that observations need beyond the usual ones: NEEDS_…

  char *path;   // the model's file
  int users;    // world_acquire without world_release so far
  World *next;  // in the list of all worlds
};

// The domain's world, compiled at the first call and shared by all callers on all threads, so nobody
// may change it. Pair with world_release, which accepts NULL.
int world_acquire(const World **world, const Domain *domain);
void world_release(const World *world);

// MuJoCo's compiler works for one thread at a time: who compiles a model holds this lock
void worlds_lock(void);
void worlds_unlock(void);
// makes a world of a model that was compiled already, for the first world_acquire; takes the model.
// The caller holds the lock
int world_keep(const Domain *domain, mjModel *model);

// part number i of the observation, without a name after the last
ObsPart world_part(const World *world, int i);

// a sensor's readings in sensordata; name: index into World.ids
static inline const double *world_sensor(const World *world, const mjData *data, int name) {
  return data->sensordata + world->model->sensor_adr[world->ids[name]];
}

// Computes positions, velocities and their sensors for the state in data. Forces, accelerations and
// their sensors keep the values of the last physics step, as after dm_control's legacy step.
void world_update(const World *world, mjData *data);

// dm_control's legacy step: the first substep uses what is already computed in data; at the end,
// everything but forces belongs to the new state
void world_step(const World *world, mjData *data, int substeps);

// ---------------------------------- shared by domains --------------------------------------------

// a reset by dm_control's randomize_limited_and_rotational_joints
void draw_joints(const World *world, mjData *data, Draws *draw);

// Counts a rejected draw of an initial state. After DRAWS_MAX of them it raises an error of MuJoCo,
// which ends the simulation's reset with a message.
void draw_again(int *rejected);

// copies `count` numbers and returns the end of the copy
static inline double *put(double *out, const double *values, int count) {
  for (int i = 0; i < count; i++) out[i] = values[i];
  return out + count;
}

#endif
