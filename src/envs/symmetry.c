// What observations do not show. Whether a move is seen is decided by the domain's own function of
// observation, at a few random states; whether it changes a reward, at states of the caller. Without
// constraints both are smooth functions of the state: two states with equal observations must have
// equal rewards, up to rounding.

#include "envs/symmetry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "envs/quantities.h"
#include "envs/tasks.h"

enum {
  MOVES = 5,
  PROBES = 8,            // random states at which observations are compared
  BLOCKS = 64,           // stored states are divided into so many parts; each gives two
  RANDOM_STATES = 2048,  // states at which a reward is compared if there are none stored
  CHANGES_MIN = 2,       // states that must change; a single one may be an accident of rounding
};

#define SHOWN 1e-6     // a relative change of an observation that is no rounding
#define JITTER 1e-4    // of stored states
#define CHANGED 1e-4   // a change of a reward, relative to its range
#define ROUNDING 1e-9  // … which is larger than rounding

// the joints that move the whole robot through the world
typedef struct {
  int at[3];   // index in qpos of the position along x, y and z; -1: the robot cannot move there
  int free;    // index in qpos of a free joint's position, -1: there is none
  int free_v;  // … and in qvel
} Root;

typedef struct {
  const World *world;
  mjModel model;  // without actuation and constraints
  mjData *data;
  Root root;
  int moves;  // that the robot can make
  Draws draw;
  double *qpos, *qvel, *act;  // the state that is moved: one array
  double *start;              // qpos and qvel before a move
  double *before, *after;     // [OBS_MAX] observations
} Probe;

// ---------------------------------- the robot ----------------------------------------------------

static void add_joint(Root *root, const mjModel *model, const mjData *data, int joint) {
  int at = model->jnt_qposadr[joint];
  if (model->jnt_type[joint] == mjJNT_FREE) {
    root->free = at;
    root->free_v = model->jnt_dofadr[joint];
    for (int i = 0; i < 3; i++) root->at[i] = at + i;
  }
  for (int i = 0; i < 3 && model->jnt_type[joint] == mjJNT_SLIDE; i++) {
    if (fabs(data->xaxis[3 * joint + i]) > 0.99) root->at[i] = at;
  }
}

static void find_root(Probe *p) {
  static const int moves[3] = {MOVE_X, MOVE_Y, MOVE_HEIGHT};
  const mjModel *model = &p->model;
  p->root = (Root){{-1, -1, -1}, -1, -1};
  mj_kinematics(model, p->data);
  for (int j = 0; j < model->njnt; j++) {
    if (model->jnt_bodyid[j] == quantities_robot(model)) add_joint(&p->root, model, p->data, j);
  }
  p->moves = MOVE_SPEED;
  for (int i = 0; i < 3; i++) p->moves |= p->root.at[i] >= 0 ? moves[i] : 0;
  if (p->root.free >= 0) p->moves |= MOVE_TURN;
}

static void probe_free(Probe *p) {
  if (p->data) mj_deleteData(p->data);
  free(p->qpos);
}

static int probe_new(Probe *p, const World *world) {
  const mjModel *model = world->resting;
  *p = (Probe){.world = world, .model = *model, .draw = draw_new(0, 0, 0)};
  // the copy shares all arrays with the original
  p->model.opt.disableflags |= mjDSBL_CONSTRAINT;
  p->data = mj_makeData(&p->model);
  int state = model->nq + model->nv;
  size_t count = 2 * (size_t)state + model->na + 2 * OBS_MAX;
  p->qpos = calloc(count, sizeof *p->qpos);
  if (!p->data || !p->qpos) {
    probe_free(p);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the check of a reward");
  }
  p->qvel = p->qpos + model->nq;
  p->act = p->qvel + model->nv;
  p->start = p->act + model->na;
  p->before = p->start + state;
  p->after = p->before + OBS_MAX;
  find_root(p);
  return BFM_OK;
}

// ---------------------------------- states -------------------------------------------------------

// A stored state, moved a little: a state at rest may lie exactly at a threshold of the reward, where
// rounding decides.
static void take_state(Probe *p, const SymmetryStates *states, int64_t i) {
  const mjModel *model = &p->model;
  put(p->qpos, states->qpos + i * model->nq, model->nq);
  for (int k = 0; k < model->nv; k++) p->qvel[k] = draw_normal(&p->draw);
  mj_integratePos(model, p->qpos, p->qvel, JITTER);
  for (int k = 0; k < model->nv; k++) {
    p->qvel[k] =
        (states->qvel ? states->qvel[i * model->nv + k] : 0) + JITTER * draw_normal(&p->draw);
  }
  for (int k = 0; k < model->na; k++) p->act[k] = states->act ? states->act[i * model->na + k] : 0;
}

static void turn(Probe *p, double angle) {
  const double axis[3] = {0, 0, 1};
  double by[4], *orientation = p->qpos + p->root.free + 3, *velocity = p->qvel + p->root.free_v;
  mju_axisAngle2Quat(by, axis, angle);
  mju_mulQuat(orientation, by, orientation);
  mju_rotVecQuat(velocity, velocity, by);  // a free joint's angular velocity is the body's own
}

// moves of all sizes, from a step to hundreds of metres, because rewards may have thresholds
static void move_state(Probe *p, int move) {
  double distance = pow(10, draw_uniform(&p->draw, -1, 2.5));
  if (draw_uniform(&p->draw, -1, 1) < 0) distance = -distance;
  switch (move) {
    case MOVE_X: p->qpos[p->root.at[0]] += distance; return;
    case MOVE_Y: p->qpos[p->root.at[1]] += distance; return;
    case MOVE_HEIGHT: p->qpos[p->root.at[2]] += distance; return;
    case MOVE_TURN: turn(p, draw_uniform(&p->draw, -mjPI, mjPI)); return;
    default: mju_scl(p->qvel, p->qvel, draw_uniform(&p->draw, 0, 2), p->model.nv);
  }
}

// joints anywhere in their range, velocities from slow to fast, half of the robots where the model has them
static void draw_state(Probe *p) {
  const mjModel *model = &p->model;
  mj_resetData(model, p->data);
  draw_joints(p->world, p->data, &p->draw);
  double speed = pow(10, draw_uniform(&p->draw, -1, 1));
  put(p->qpos, p->data->qpos, model->nq);
  for (int i = 0; i < model->nv; i++) p->qvel[i] = speed * draw_normal(&p->draw);
  for (int i = 0; i < model->na; i++) p->act[i] = draw_normal(&p->draw);
  for (int move = MOVE_X; move <= MOVE_HEIGHT; move <<= 1) {
    int place = move & p->moves & (MOVE_X | MOVE_Y | MOVE_HEIGHT);
    if (place && draw_uniform(&p->draw, -1, 1) > 0) move_state(p, move);
  }
}

static void load_state(Probe *p) {
  put(p->data->qpos, p->qpos, p->model.nq);
  put(p->data->qvel, p->qvel, p->model.nv);
  put(p->data->act, p->act, p->model.na);
}

// ---------------------------------- observations -------------------------------------------------

static void observe(Probe *p, double *obs) {
  load_state(p);
  mj_forward(&p->model, p->data);
  p->world->domain->observe(p->world, p->data, obs);
}

static int shows(Probe *p, int move) {
  draw_state(p);
  observe(p, p->before);
  move_state(p, move);
  observe(p, p->after);
  for (int i = 0; i < p->world->domain->obs_dim; i++) {
    if (fabs(p->after[i] - p->before[i]) > SHOWN * (1 + fabs(p->before[i]))) return 1;
  }
  return 0;
}

static int unseen(Probe *p) {
  int moves = 0;
  for (int move = 1; move <= p->moves; move <<= 1) {
    int shown = !(p->moves & move);
    for (int i = 0; i < PROBES && !shown; i++) shown = shows(p, move);
    if (!shown) moves |= move;
  }
  return moves;
}

int symmetry_unseen(const World *world, int *moves) {
  Probe probe;
  TRY(probe_new(&probe, world));
  *moves = unseen(&probe);
  probe_free(&probe);
  return BFM_OK;
}

// ---------------------------------- rewards ------------------------------------------------------

// number k of the states at which a reward is compared
static int64_t choose(const SymmetryStates *s, int k) {
  if (s->count <= 2 * BLOCKS) return k;
  int64_t best = k / 2 * s->count / BLOCKS, end = (k / 2 + 1) * s->count / BLOCKS;
  if (!s->rewards) return k % 2 ? (best + end) / 2 : best;
  for (int64_t i = best; i < end; i++) {
    if (k % 2 ? s->rewards[i] > s->rewards[best] : s->rewards[i] < s->rewards[best]) best = i;
  }
  return best;
}

static double reward_of(Probe *p, Reward *reward) {
  load_state(p);
  reward_forward(reward, &p->model, p->data);
  return reward_value(reward, &p->model, p->data);
}

// values [1 + MOVES]: the reward of the probe's state, and after each of the moves
static void measure(Probe *p, Reward *reward, int moves, double *values) {
  int state = p->model.nq + p->model.nv;  // qvel follows qpos
  put(p->start, p->qpos, state);
  values[0] = reward_of(p, reward);
  for (int m = 0; m < MOVES; m++) {
    values[1 + m] = values[0];
    if (!(moves & 1 << m)) continue;
    move_state(p, 1 << m);
    values[1 + m] = reward_of(p, reward);
    put(p->qpos, p->start, state);
  }
}

// the moves that change the reward; values [count, 1 + MOVES]
static int compare(const double *values, int count) {
  double lo = INFINITY, hi = -INFINITY;
  int changes[MOVES] = {0}, moves = 0;
  for (int i = 0; i < count * (1 + MOVES); i++) {
    lo = fmin(lo, values[i]);
    hi = fmax(hi, values[i]);
  }
  double rounding = ROUNDING * fmax(fabs(lo), fabs(hi));
  for (int i = 0; i < count * (1 + MOVES); i += 1 + MOVES) {
    for (int m = 0; m < MOVES; m++) {
      changes[m] += fabs(values[i + 1 + m] - values[i]) > CHANGED * (hi - lo) + rounding;
    }
  }
  for (int m = 0; m < MOVES; m++) moves |= changes[m] >= CHANGES_MIN ? 1 << m : 0;
  return moves;
}

static int changes(Probe *p, Reward *reward, const SymmetryStates *states, int *moves) {
  int count = states->count ? 2 * BLOCKS : RANDOM_STATES;
  if (states->count && states->count < count) count = (int)states->count;
  double *values = malloc((size_t)count * (1 + MOVES) * sizeof *values);
  if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for the check of a reward");
  for (int i = 0; i < count; i++) {
    if (states->count) take_state(p, states, choose(states, i));
    else draw_state(p);
    measure(p, reward, *moves, values + (ptrdiff_t)i * (1 + MOVES));
  }
  *moves &= compare(values, count);
  free(values);
  return BFM_OK;
}

int symmetry_changes(const World *world, const char *expression, const SymmetryStates *states,
                     int *moves) {
  Probe probe;
  Reward *reward;
  *moves = 0;
  TRY(reward_new(&reward, world->model, world->domain->aliases, expression));
  int status = probe_new(&probe, world);
  if (!status) {
    *moves = unseen(&probe);
    if (*moves) status = changes(&probe, reward, states, moves);
    probe_free(&probe);
  }
  reward_free(reward);
  return status;
}

// ---------------------------------- the sentence -------------------------------------------------

static const struct {
  const char *does, *knows;
} words[MOVES] = {
    {"moves along x", "its x"},
    {"moves along y", "its y"},
    {"turns about the vertical axis", "its heading"},
    {"moves faster or slower", "its velocities"},
};

// "a", "a or b", "a, b or c": of a column of the table
static void list(int moves, int knows, char *out, size_t size) {
  size_t used = 0;
  *out = 0;
  for (int m = 0; m < MOVES; m++) {
    if (!(moves & 1 << m)) continue;
    const char *between = !used ? "" : moves >> (m + 1) ? ", " : " or ";
    used += (size_t)snprintf(out + used, size - used, "%s%s", between,
                             knows ? words[m].knows : words[m].does);
  }
}

void symmetry_say(int moves, char *out, size_t size) {
  char does[SYMMETRY_TEXT / 3], knows[SYMMETRY_TEXT / 6];
  int hidden = moves & ~MOVE_HEIGHT;
  list(hidden, 0, does, sizeof does);
  list(hidden, 1, knows, sizeof knows);
  if (size) *out = 0;
  if (hidden) {
    snprintf(out, size,
             "the reward changes when the robot %s, which the observations do not show: the agent "
             "cannot know %s%s",
             does, knows,
             moves & MOVE_HEIGHT ? ", and has to infer its height from posture and contacts" : "");
  } else if (moves) {
    snprintf(out, size,
             "the reward changes with the robot's height, which the observations do not show: the "
             "agent has to infer it from posture and contacts");
  }
}

int symmetry_warning(const char *domain, const char *text, const SymmetryStates *states, char *out,
                     size_t size) {
  static const SymmetryStates random_states = {.count = 0};
  const Domain *found;
  const World *world;
  int moves;
  if (size) *out = 0;
  if (task_find(domain, text)) return BFM_OK;
  TRY(domain_find(&found, domain));
  TRY(world_acquire(&world, found));
  int status = symmetry_changes(world, text, states ? states : &random_states, &moves);
  world_release(world);
  if (!status) symmetry_say(moves, out, size);
  return status;
}
