// The reward language: one arithmetic expression over named quantities of a MuJoCo model.
// Built-in tasks, the paper's prompts and what a user types are all compiled here. An expression is
// checked and its names are resolved once, against a model; muParser evaluates it state by state.
// docs/rewards.md describes the language.

#ifndef BFM_ENVS_REWARD_H
#define BFM_ENVS_REWARD_H

#include <stdint.h>
#include <stdio.h>

#include <mujoco/mujoco.h>

#include "core/status.h"

typedef struct Reward Reward;

// a domain's own name for an expression ("speed" for "com.vx"); a table ends with a NULL name
typedef struct {
  const char *name, *expression, *help;
} Alias;

// how far the model must be computed before an expression can be read
enum {
  REWARD_POSITION,  // places and orientations: mj_kinematics, mj_comPos
  REWARD_VELOCITY,  // and velocities: mj_comVel; sensors of velocity: mj_fwdVelocity, mj_sensorVel
  REWARD_FORCE,     // and accelerations, forces, contacts: mj_forward
};

#define REWARD_MAX_LENGTH 4096  // characters of an expression

#define REWARD_UNKNOWN "the model has nothing called"  // how the refusal of a name begins

// compile an expression; aliases may be NULL. An error names the place and what is close to it.
int reward_new(Reward **reward, const mjModel *model, const Alias *aliases, const char *expression);

// the same expression for another thread: a Reward is used by one thread at a time
int reward_copy(Reward **copy, const Reward *reward);
void reward_free(Reward *reward);

int reward_stage(const Reward *reward);

// the reward of the state in data, computed up to reward_stage. Always finite: where the expression
// gives no finite number (0/0, log(-1)) the value is 0 and reward_faults counts it.
double reward_value(Reward *reward, const mjModel *model, const mjData *data);
int64_t reward_faults(const Reward *reward);

// compute in data what the expression needs of the state (qpos, qvel, act) set there, nothing more.
// For REWARD_FORCE this is mj_forward: actuation is as model->opt says.
void reward_forward(const Reward *reward, const mjModel *model, mjData *data);

// one aligned line for each function and constant of the language
void reward_help(FILE *out);

#endif
