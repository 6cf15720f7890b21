// Many simulations of one domain over all cores.

#include "envs/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mujoco/mjbatch.h>

struct Sim {
  const World *world;
  mjBatch *batch;
  int n;
  int size;  // of a state: nq + nv + na
  uint64_t seed;

  uint32_t *episode;  // [n] resets so far: the counter of an environment's random numbers
  int *steps;         // [n] control steps of this episode
  uint8_t *ended;     // [n] bfm_ended bits
  double *obs;        // [n, obs_dim]
  double *before;     // [n, size] the states the last step began with
  int *ids;           // [n] scratch: the simulations of a call
  int64_t diverged;

  // arguments of the call under way
  const double *qpos, *qvel, *act, *actions;
  SimRead read;
  void *context;
};

int sim_new(Sim **out, const World *world, int n, uint64_t seed, int threads) {
  *out = NULL;
  if (n < 1 || n > 1 << 20) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the number of environments must be 1 to 1048576, not %d", n);
  }
  const mjModel *model = world->model;
  Sim *sim = calloc(1, sizeof *sim);
  if (!sim) return bfm_fail(BFM_NO_MEMORY, "no memory for a simulation");
  sim->world = world;
  sim->n = n;
  sim->size = model->nq + model->nv + model->na;
  sim->seed = seed;
  sim->episode = calloc(n, sizeof *sim->episode);
  sim->steps = calloc(n, sizeof *sim->steps);
  sim->ended = calloc(n, sizeof *sim->ended);
  sim->obs = calloc((size_t)n * world->domain->obs_dim, sizeof *sim->obs);
  sim->before = calloc((size_t)n * sim->size, sizeof *sim->before);
  sim->ids = calloc(n, sizeof *sim->ids);

  char error[256] = "";
  mjBatchConfig config;
  mjb_defaultConfig(&config);
  config.nthread = threads;
  config.persistent = 1;
  sim->batch = mjb_makeBatch(model, n, &config, error, sizeof error);
  if (!sim->batch || !sim->episode || !sim->steps || !sim->ended || !sim->obs || !sim->before ||
      !sim->ids) {
    sim_free(sim);
    return bfm_fail(BFM_NO_MEMORY, "no memory for %d environments%s%s", n, *error ? ": " : "",
                    error);
  }
  *out = sim;
  return BFM_OK;
}

void sim_free(Sim *sim) {
  if (!sim) return;
  if (sim->batch) mjb_deleteBatch(sim->batch);
  free(sim->episode);
  free(sim->steps);
  free(sim->ended);
  free(sim->obs);
  free(sim->before);
  free(sim->ids);
  free(sim);
}

// ---------------------------------- one simulation -----------------------------------------------

static void load_state(const World *world, mjData *data, const double *qpos, const double *qvel,
                       const double *act) {
  const mjModel *model = world->model;
  mj_resetData(model, data);
  if (qpos) mju_copy(data->qpos, qpos, model->nq);
  if (qvel) mju_copy(data->qvel, qvel, model->nv);
  if (act) mju_copy(data->act, act, model->na);
  mj_forward(world->resting, data);
}

static double *save_before(Sim *sim, int i, const mjData *data) {
  const mjModel *model = sim->world->model;
  double *state = sim->before + (size_t)i * sim->size;
  mju_copy(state, data->qpos, model->nq);
  mju_copy(state + model->nq, data->qvel, model->nv);
  mju_copy(state + model->nq + model->nv, data->act, model->na);
  return state;
}

static void observe(Sim *sim, int i, const mjData *data) {
  const Domain *domain = sim->world->domain;
  domain->observe(sim->world, data, sim->obs + (size_t)i * domain->obs_dim);
}

static int has_warning(const mjData *data) {
  for (int w = 0; w < mjNWARNING; w++) {
    if (data->warning[w].number) return 1;
  }
  return 0;
}

static int all_finite(const double *x, int count) {
  for (int i = 0; i < count; i++) {
    if (!isfinite(x[i])) return 0;
  }
  return 1;
}

static void reset_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  (void)model;
  Draw draw = draw_new(sim->seed, i, sim->episode[i]);
  load_state(sim->world, data, NULL, NULL, NULL);
  sim->world->domain->reset(sim->world, data, &draw);
  data->time = 0;
  mj_forward(sim->world->resting, data);
  save_before(sim, i, data);
  observe(sim, i, data);
}

static void set_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  load_state(sim->world, data, sim->qpos + (size_t)i * model->nq,
             sim->qvel ? sim->qvel + (size_t)i * model->nv : NULL,
             sim->act ? sim->act + (size_t)i * model->na : NULL);
  save_before(sim, i, data);
  observe(sim, i, data);
}

static void set_controls(const World *world, mjData *data, const double *action) {
  const mjModel *model = world->model;
  for (int u = 0; u < model->nu; u++) {
    double lo = model->actuator_ctrlrange[2 * u], hi = model->actuator_ctrlrange[2 * u + 1];
    double control = world->domain->scaled ? lo + (action[u] + 1) / 2 * (hi - lo) : action[u];
    data->ctrl[u] = fmin(fmax(control, lo), hi);
  }
}

static void step_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  const World *world = sim->world;
  const Domain *domain = world->domain;
  const double *before = save_before(sim, i, data);

  memset(data->warning, 0, sizeof data->warning);
  set_controls(world, data, sim->actions + (size_t)i * model->nu);
  world_step(world, data, domain->substeps);

  observe(sim, i, data);
  if (has_warning(data) || !all_finite(sim->obs + (size_t)i * domain->obs_dim, domain->obs_dim)) {
    load_state(world, data, before, before + model->nq, before + model->nq + model->nv);
    observe(sim, i, data);
    sim->ended[i] = BFM_ENDED_DIVERGED;
    return;
  }

  sim->steps[i]++;
  sim->ended[i] = (domain->terminated && domain->terminated(world, data) ? BFM_ENDED_TERMINATED : 0) |
                  (sim->steps[i] >= domain->episode_steps ? BFM_ENDED_TIME : 0);
}

// after an error of MuJoCo: compute the old state anew, whatever the error left half done
static void recover_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  const double *before = sim->before + (size_t)i * sim->size;
  load_state(sim->world, data, before, before + model->nq, before + model->nq + model->nv);
  observe(sim, i, data);
}

static void read_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  (void)model;
  sim->read(sim->world, data, i, sim->before + (size_t)i * sim->size, sim->context);
}

// ---------------------------------- all of them --------------------------------------------------

// run a function on the simulations ids [count]; the first error MuJoCo raised becomes ours
static int apply(Sim *sim, const int *ids, int count, mjfBatchFunc func, int save) {
  if (!mjb_apply(sim->batch, ids, count, func, sim, save)) return BFM_OK;
  for (int k = 0; k < count; k++) {
    int i = ids ? ids[k] : k;
    if (mjb_status(sim->batch)[i]) {
      return bfm_fail(BFM_DIVERGED, "environment %d: %s", i, mjb_error(sim->batch, i));
    }
  }
  return bfm_fail(BFM_DIVERGED, "a simulation failed");
}

int sim_reset(Sim *sim, const uint8_t *which) {
  int count = 0;
  for (int i = 0; i < sim->n; i++) {
    if (which && !which[i]) continue;
    sim->ids[count++] = i;
    sim->steps[i] = 0;
    sim->ended[i] = 0;
  }
  if (!count) return BFM_OK;

  int status = apply(sim, sim->ids, count, reset_one, 1);
  for (int k = 0; k < count; k++) sim->episode[sim->ids[k]]++;
  return status;
}

// refuse what MuJoCo itself would call a bad state
static int check_state(const char *what, const double *x, int n, int size) {
  for (int64_t k = 0; x && k < (int64_t)n * size; k++) {
    if (!(fabs(x[k]) <= mjMAXVAL)) {
      return bfm_fail(BFM_BAD_ARGUMENT, "%s[%d][%d] is %g", what, (int)(k / size), (int)(k % size),
                      x[k]);
    }
  }
  return BFM_OK;
}

int sim_set_state(Sim *sim, const double *qpos, const double *qvel, const double *act) {
  const mjModel *model = sim->world->model;
  TRY(check_state("qpos", qpos, sim->n, model->nq));
  TRY(check_state("qvel", qvel, sim->n, model->nv));
  TRY(check_state("act", act, sim->n, model->na));

  sim->qpos = qpos;
  sim->qvel = qvel;
  sim->act = act;
  memset(sim->steps, 0, sim->n * sizeof *sim->steps);
  memset(sim->ended, 0, sim->n * sizeof *sim->ended);
  return apply(sim, NULL, sim->n, set_one, 1);
}

void sim_state(Sim *sim, double *qpos, double *qvel, double *act) {
  struct {
    int component;
    double *out;
  } parts[] = {{mjSTATE_QPOS, qpos}, {mjSTATE_QVEL, qvel}, {mjSTATE_ACT, act}};

  for (int part = 0; part < 3; part++) {
    int size;
    const double *row = mjb_stateComponent(sim->batch, parts[part].component, &size);
    for (int i = 0; parts[part].out && i < sim->n; i++, row += mjb_nstate(sim->batch)) {
      mju_copy(parts[part].out + (size_t)i * size, row, size);
    }
  }
}

int sim_step(Sim *sim, const double *actions) {
  int nu = sim->world->model->nu;
  TRY(check_state("action", actions, sim->n, nu));

  sim->actions = actions;
  int failed = 0;
  if (mjb_apply(sim->batch, NULL, sim->n, step_one, sim, 1)) {
    for (int i = 0; i < sim->n; i++) {
      if (!mjb_status(sim->batch)[i]) continue;
      sim->ended[i] = BFM_ENDED_DIVERGED;
      sim->ids[failed++] = i;
    }
  }
  for (int i = 0; i < sim->n; i++) sim->diverged += sim->ended[i] == BFM_ENDED_DIVERGED;
  return failed ? apply(sim, sim->ids, failed, recover_one, 1) : BFM_OK;
}

int sim_read(Sim *sim, SimRead read, void *context) {
  sim->read = read;
  sim->context = context;
  return apply(sim, NULL, sim->n, read_one, 0);
}

const double *sim_obs(const Sim *sim) { return sim->obs; }
const uint8_t *sim_ended(const Sim *sim) { return sim->ended; }
int64_t sim_diverged(const Sim *sim) { return sim->diverged; }
