// Robots, each a row of MuJoCo's batch of simulations, which keeps an error in one of them from ending
// the process. All run in the calling thread, in turns in one mjData.

#include "serve/robots.h"

#include <stdlib.h>
#include <string.h>

#include <mujoco/mjbatch.h>

#include "envs/single.h"
#include "serve/message.h"

typedef struct {
  double *state;   // MuJoCo's whole state
  double *before;  // … before the control step
  double *last;    // [nq] positions before the last substep
  double *obs;     // [obs_dim]
  int stepped;     // whether the state is the result of a step
  int substeps;    // done in this control step
  int ended;       // bfm_env_end bits of this control step
} Robot;

struct Robots {
  const World *world;
  mjBatch *batch;
  uint64_t seed;
  int nstate, qpos_at, qvel_at, act_at;  // size and offsets of a state
  Robot robot[SLOTS_MAX];
  double *memory;

  // arguments of the current call
  const double *qpos, *qvel, *act, *action;
  const Drag *drag;
  const Push *push;
  SimRead read;
  void *context;
};

static int offset_of(mjBatch *batch, int component) {
  return (int)(mjb_stateComponent(batch, component, NULL) - mjb_state(batch));
}

static int open_batch(Robots *r, int count) {
  char error[256] = "";
  mjBatchConfig config;
  mjb_defaultConfig(&config);
  config.nthread = 1;
  r->batch = mjb_makeBatch(r->world->model, count, &config, error, sizeof error);
  if (!r->batch) return bfm_fail(BFM_NO_MEMORY, "cannot create %d robots: %s", count, error);
  r->nstate = mjb_nstate(r->batch);
  r->qpos_at = offset_of(r->batch, mjSTATE_QPOS);
  r->qvel_at = offset_of(r->batch, mjSTATE_QVEL);
  r->act_at = r->world->model->na ? offset_of(r->batch, mjSTATE_ACT) : 0;

  size_t nq = (size_t)r->world->model->nq, obs = (size_t)r->world->domain->obs_dim;
  double *at = r->memory = calloc((size_t)count * (r->nstate + nq + obs), sizeof *r->memory);
  if (!r->memory) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d robots", count);
  for (int i = 0; i < count; i++) {
    r->robot[i].state = mjb_state(r->batch) + (size_t)i * r->nstate;
    r->robot[i].before = at;
    r->robot[i].last = at += r->nstate;
    r->robot[i].obs = at += nq;
    at += obs;
  }
  return BFM_OK;
}

int robots_new(Robots **out, const World *world, int count, uint64_t seed) {
  Robots *r = *out = calloc(1, sizeof *r);
  if (!r) return bfm_fail(BFM_NO_MEMORY, "out of memory for robots");
  r->world = world;
  r->seed = seed;
  int status = open_batch(r, count);
  for (int i = 0; i < count && !status; i++) status = robots_reset(r, i);
  if (!status) return BFM_OK;
  robots_free(r);
  *out = NULL;
  return status;
}

void robots_free(Robots *r) {
  if (!r) return;
  if (r->batch) mjb_deleteBatch(r->batch);
  free(r->memory);
  free(r);
}

// ---------------------------------- states -------------------------------------------------------

static int apply(Robots *r, int i, mjfBatchFunc work, int save) {
  if (!mjb_apply(r->batch, &i, 1, work, r, save)) return BFM_OK;
  return bfm_fail(BFM_DIVERGED, "robot %d: %s", i, mjb_error(r->batch, i));
}

static void note_last(Robots *r, int i) {
  mju_copy(r->robot[i].last, robots_qpos(r, i), r->world->model->nq);
}

static void draw(const mjModel *model, mjData *data, int i, void *context) {
  Robots *r = context;
  (void)model;
  Draws draws = draw_new(r->seed, 0, 0);
  single_reset(r->world, data, &draws, r->robot[i].obs);
}

static void set(const mjModel *model, mjData *data, int i, void *context) {
  Robots *r = context;
  (void)model;
  single_set(r->world, data, r->qpos, r->qvel, r->act, r->robot[i].obs);
}

// begin an episode in the state that `work` sets
static int start(Robots *r, int i, mjfBatchFunc work) {
  Robot *robot = &r->robot[i];
  TRY(apply(r, i, work, 1));
  robot->stepped = robot->substeps = robot->ended = 0;
  note_last(r, i);
  return BFM_OK;
}

int robots_reset(Robots *r, int i) { return start(r, i, draw); }

int robots_set(Robots *r, int i, const double *qpos, const double *qvel, const double *act) {
  const mjModel *model = r->world->model;
  TRY(sim_check_numbers("qpos", qpos, 1, model->nq));
  TRY(sim_check_numbers("qvel", qvel, 1, model->nv));
  TRY(sim_check_numbers("act", act, 1, model->na));
  r->qpos = qpos;
  r->qvel = qvel;
  r->act = act;
  return start(r, i, set);
}

// ---------------------------------- a control step -----------------------------------------------

static void begin(const mjModel *model, mjData *data, int i, void *context) {
  Robots *r = context;
  (void)model, (void)i;
  single_begin(r->world, data, r->action);
}

void robots_begin(Robots *r, int i, const double *action) {
  Robot *robot = &r->robot[i];
  r->action = action;
  mju_copy(robot->before, robot->state, r->nstate);
  robot->substeps = 0;
  robot->ended = apply(r, i, begin, 1) ? BFM_END_DIVERGED : 0;
}

// what the end of a step computes reads what the last substep left in data
static void end(Robots *r, mjData *data, int i) {
  Robot *robot = &r->robot[i];
  const World *world = r->world;
  if (!single_end(world, data, robot->obs)) {
    robot->ended = BFM_END_DIVERGED;
    return;
  }
  if (world->domain->remember) world->domain->remember(world, data);
  if (world->domain->terminated && world->domain->terminated(world, data)) {
    robot->ended = BFM_END_TERMINATED;
  }
  if (r->read) r->read(world, data, i, robot->before + r->qpos_at, r->context);
}

static void substep(const mjModel *model, mjData *data, int i, void *context) {
  Robots *r = context;
  Robot *robot = &r->robot[i];
  int substeps = r->world->domain->substeps, touched = r->drag || r->push;
  memset(data->warning, 0, sizeof data->warning);
  if (touched) touch_apply(model, data, r->drag, r->push, substeps * model->opt.timestep);
  single_substep(r->world, data, !robot->stepped && !robot->substeps);
  if (touched) touch_end(model, data);
  if (single_has_warning(data)) robot->ended = BFM_END_DIVERGED;
  else if (robot->substeps + 1 == substeps) end(r, data, i);
}

void robots_substep(Robots *r, int i, const Drag *drag, const Push *push, SimRead read,
                    void *context) {
  Robot *robot = &r->robot[i];
  r->drag = drag;
  r->push = push;
  r->read = read;
  r->context = context;
  note_last(r, i);
  if (robot->ended & BFM_END_DIVERGED) return;
  if (apply(r, i, substep, 1)) robot->ended = BFM_END_DIVERGED;
  if (robot->ended & BFM_END_DIVERGED) mju_copy(robot->state, robot->before, r->nstate);
  if (++robot->substeps == r->world->domain->substeps) robot->stepped = 1;
}

int robots_ended(const Robots *r, int i) { return r->robot[i].ended; }

// ---------------------------------- reading ------------------------------------------------------

const double *robots_qpos(const Robots *r, int i) { return r->robot[i].state + r->qpos_at; }
const double *robots_qvel(const Robots *r, int i) { return r->robot[i].state + r->qvel_at; }
const double *robots_act(const Robots *r, int i) { return r->robot[i].state + r->act_at; }
const double *robots_last_qpos(const Robots *r, int i) { return r->robot[i].last; }
const double *robots_obs(const Robots *r, int i) { return r->robot[i].obs; }
