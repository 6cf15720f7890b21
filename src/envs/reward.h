// The reward language: one arithmetic expression over named quantities of a MuJoCo model. Built-in
// tasks, the paper's prompts and what users type are all compiled here. Compiling checks the
// expression and resolves its names against a model; then muParser evaluates it state by state.
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

// how far the model must be computed before an expression can be evaluated
enum {
  REWARD_POSITION,  // positions and orientations: mj_kinematics, mj_comPos
  REWARD_VELOCITY,  // also velocities: mj_comVel; velocity sensors: mj_fwdVelocity, mj_sensorVel
  REWARD_FORCE,     // also accelerations, forces, contacts: mj_forward
};

#define REWARD_MAX_LENGTH 4096  // characters of an expression

#define REWARD_UNKNOWN "the model has nothing called"  // begins the error for an unknown name

// Compiles an expression; aliases may be NULL. An error states its place and suggests a near name.
int reward_new(Reward **reward, const mjModel *model, const Alias *aliases, const char *expression);

// Compiles the reward of a step of dt seconds, which may also say dt, and moved(rootx): what a number of
// qpos has changed by. Only reward_step_value evaluates it.
int reward_new_step(Reward **reward, const mjModel *model, const Alias *aliases, double dt,
                    const char *expression);

// Compiles number `number` of an expression whose vectors are taken number by number: "2 * qvel" is as
// many expressions as qvel has numbers, which is *count; 1 for an expression without vectors.
int reward_new_number(Reward **reward, const mjModel *model, const Alias *aliases,
                      const char *expression, int number, int *count);

// Where the calling thread's last reward_new failed: `length` characters of the expression from `at` on,
// and the name that was probably meant, or an empty text. at is -1 if the error has no place.
typedef struct {
  int at, length;
  char meant[256];
} RewardPlace;

RewardPlace reward_error_place(void);
void reward_error_set(RewardPlace place);  // for callers who know more

// a copy for another thread, because only one thread at a time may use a Reward
int reward_copy(Reward **copy, const Reward *reward);
void reward_free(Reward *reward);

int reward_stage(const Reward *reward);

// The reward of the state in data, which must be computed up to reward_stage. The value is always
// finite: if the expression is not (0/0, log(-1)), it is 0 and reward_faults counts it.
double reward_value(Reward *reward, const mjModel *model, const mjData *data);
int64_t reward_faults(const Reward *reward);

// the same, of the step that led from the positions qpos to data
double reward_step_value(Reward *reward, const mjModel *model, const mjData *data,
                         const double *qpos);

// the stages that the expression reads, NEEDS_… of quantities.h
int reward_needs(const Reward *reward);

// Computes in data only what the expression needs of the state (qpos, qvel, act) in it. For
// REWARD_FORCE this is mj_forward, with actuation according to model->opt.
void reward_forward(const Reward *reward, const mjModel *model, mjData *data);

// prints one aligned line for each function and constant of the language
void reward_help(FILE *out);

#endif
