// Many simulations of one domain on all cores.

#include "envs/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mujoco/mjbatch.h>

#include "envs/single.h"

struct Sim {
  const World *world;
  mjBatch *batch;
  int n;
  int nstate;   // numbers of MuJoCo's whole state: time, qpos, qvel, act, warm start, controls, …
  int qpos_at;  // offset of qpos in it
  uint64_t seed;

  uint32_t *episode;  // [n] resets so far, the counter of an environment's random numbers
  int *steps;         // [n] control steps of this episode
  uint8_t *stepped;   // [n] whether the current state is the result of a step from `before`
  uint8_t *first;     // [n] whether that step was the first after a state was set or drawn
  uint8_t *ended;     // [n] bfm_env_end bits
  double *obs;        // [n, obs_dim]
  double *before;     // [n, nstate] the state before the last step
  int *ids;           // [n] scratch: the simulations of a call
  int64_t diverged;

  // arguments of the current call
  const double *qpos, *qvel, *act, *actions;
  SimNeed need;
  SimRead read;
  void *context;
};

int sim_new(Sim **out, const World *world, int n, uint64_t seed, int threads) {
  *out = NULL;
  if (n < 1 || n > 1 << 20) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the number of environments must be 1 to 1048576, not %d", n);
  }
  if (threads < 0 || threads > 4096) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the number of threads must be 0 to 4096, not %d", threads);
  }
  Sim *sim = calloc(1, sizeof *sim);
  if (!sim) return bfm_fail(BFM_NO_MEMORY, "out of memory for a simulation");
  sim->world = world;
  sim->n = n;
  sim->seed = seed;

  char error[256] = "";
  mjBatchConfig config;
  mjb_defaultConfig(&config);
  config.nthread = threads;
  sim->batch = mjb_makeBatch(world->model, n, &config, error, sizeof error);
  if (!sim->batch) {
    sim_free(sim);
    return bfm_fail(BFM_NO_MEMORY, "cannot create %d environments: %s", n, error);
  }
  sim->nstate = mjb_nstate(sim->batch);
  sim->qpos_at = (int)(mjb_stateComponent(sim->batch, mjSTATE_QPOS, NULL) - mjb_state(sim->batch));

  sim->episode = calloc(n, sizeof *sim->episode);
  sim->steps = calloc(n, sizeof *sim->steps);
  sim->stepped = calloc(n, sizeof *sim->stepped);
  sim->first = calloc(n, sizeof *sim->first);
  sim->ended = calloc(n, sizeof *sim->ended);
  sim->obs = calloc((size_t)n * world->domain->obs_dim, sizeof *sim->obs);
  sim->before = calloc((size_t)n * sim->nstate, sizeof *sim->before);
  sim->ids = calloc(n, sizeof *sim->ids);
  if (!sim->episode || !sim->steps || !sim->stepped || !sim->first || !sim->ended || !sim->obs ||
      !sim->before || !sim->ids) {
    sim_free(sim);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %d environments", n);
  }
  *out = sim;
  return BFM_OK;
}

void sim_free(Sim *sim) {
  if (!sim) return;
  if (sim->batch) mjb_deleteBatch(sim->batch);
  free(sim->episode);
  free(sim->steps);
  free(sim->stepped);
  free(sim->first);
  free(sim->ended);
  free(sim->obs);
  free(sim->before);
  free(sim->ids);
  free(sim);
}

// ---------------------------------- one simulation -----------------------------------------------

static double *before_of(Sim *sim, int i) { return sim->before + (size_t)i * sim->nstate; }

static double *obs_of(Sim *sim, int i) {
  return sim->obs + (size_t)i * sim->world->domain->obs_dim;
}

static void reset_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  (void)model;
  Draws draw = draw_new(sim->seed, i, sim->episode[i]);
  single_reset(sim->world, data, &draw, obs_of(sim, i));
}

static void set_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  single_set(sim->world, data, sim->qpos + (size_t)i * model->nq,
             sim->qvel ? sim->qvel + (size_t)i * model->nv : NULL,
             sim->act ? sim->act + (size_t)i * model->na : NULL, obs_of(sim, i));
}

static void step_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  const World *world = sim->world;
  const Domain *domain = world->domain;
  double obs[OBS_MAX];

  single_begin(world, data, sim->actions + (size_t)i * model->nu);
  single_substeps(world, data, !sim->stepped[i]);
  if (!single_end(world, data, obs)) {
    mj_setState(model, data, before_of(sim, i), mjSTATE_INTEGRATION);
    sim->ended[i] = BFM_END_DIVERGED;
    sim->stepped[i] = 0;
    return;
  }
  if (domain->remember) domain->remember(world, data);
  mju_copy(obs_of(sim, i), obs, domain->obs_dim);
  sim->steps[i]++;
  sim->first[i] = !sim->stepped[i];
  sim->stepped[i] = 1;
  sim->ended[i] = (domain->terminated && domain->terminated(world, data) ? BFM_END_TERMINATED : 0) |
                  (sim->steps[i] >= domain->episode_steps ? BFM_END_TIME_LIMIT : 0);
  if (sim->read) sim->read(world, data, i, before_of(sim, i) + sim->qpos_at, sim->context);
}

static void read_one(const mjModel *model, mjData *data, int i, void *context) {
  Sim *sim = context;
  const World *world = sim->world;
  if (sim->need == SIM_FORCES && !sim->stepped[i]) {
    mj_forward(world->resting, data);
  } else if (sim->need == SIM_FORCES) {
    double control[CTRL_MAX];
    mju_copy(control, data->ctrl, model->nu);
    mj_setState(model, data, before_of(sim, i), mjSTATE_INTEGRATION);
    mju_copy(data->ctrl, control, model->nu);
    single_substeps(world, data, sim->first[i]);
    mj_step1(model, data);
    if (world->domain->remember) world->domain->remember(world, data);
  }
  sim->read(world, data, i, before_of(sim, i) + sim->qpos_at, sim->context);
}

// ---------------------------------- all of them --------------------------------------------------

// runs a function on the simulations ids [count]; returns the first error that MuJoCo raised
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

// begins the episode of environment i in the state that was just set
static void begin(Sim *sim, int i) {
  sim->steps[i] = 0;
  sim->stepped[i] = 0;
  sim->ended[i] = 0;
  memcpy(before_of(sim, i), mjb_state(sim->batch) + (size_t)i * sim->nstate,
         sim->nstate * sizeof *sim->before);
}

void sim_seed(Sim *sim, uint64_t seed) {
  sim->seed = seed;
  memset(sim->episode, 0, sim->n * sizeof *sim->episode);
}

int sim_reset(Sim *sim, const uint8_t *which) {
  int count = 0;
  for (int i = 0; i < sim->n; i++) {
    if (!which || which[i]) sim->ids[count++] = i;
  }
  if (!count) return BFM_OK;

  int status = apply(sim, sim->ids, count, reset_one, 1);
  for (int k = 0; k < count; k++) {
    sim->episode[sim->ids[k]]++;
    begin(sim, sim->ids[k]);
  }
  return status;
}

int sim_check_numbers(const char *what, const double *x, int64_t n, int size) {
  for (int64_t k = 0; x && k < n * size; k++) {
    if (!(fabs(x[k]) <= mjMAXVAL)) {
      return bfm_fail(BFM_BAD_ARGUMENT, "%s[%lld][%lld] is %g, not within ±%g", what,
                      (long long)(k / size), (long long)(k % size), x[k], mjMAXVAL);
    }
  }
  return BFM_OK;
}

int sim_set_state(Sim *sim, const double *qpos, const double *qvel, const double *act) {
  const mjModel *model = sim->world->model;
  if (!qpos) return bfm_fail(BFM_BAD_ARGUMENT, "a state needs qpos");
  TRY(sim_check_numbers("qpos", qpos, sim->n, model->nq));
  TRY(sim_check_numbers("qvel", qvel, sim->n, model->nv));
  TRY(sim_check_numbers("act", act, sim->n, model->na));

  sim->qpos = qpos;
  sim->qvel = qvel;
  sim->act = act;
  int status = apply(sim, NULL, sim->n, set_one, 1);
  for (int i = 0; i < sim->n; i++) begin(sim, i);
  return status;
}

void sim_state(Sim *sim, double *qpos, double *qvel, double *act) {
  struct {
    int component;
    double *out;
  } parts[] = {{mjSTATE_QPOS, qpos}, {mjSTATE_QVEL, qvel}, {mjSTATE_ACT, act}};

  for (int part = 0; part < 3; part++) {
    int size;
    const double *row = mjb_stateComponent(sim->batch, parts[part].component, &size);
    for (int i = 0; parts[part].out && i < sim->n; i++, row += sim->nstate) {
      mju_copy(parts[part].out + (size_t)i * size, row, size);
    }
  }
}

int sim_step(Sim *sim, const double *actions, SimRead read, void *context) {
  TRY(sim_check_numbers("action", actions, sim->n, sim->world->model->nu));
  sim->actions = actions;
  sim->read = read;
  sim->context = context;
  memcpy(sim->before, mjb_state(sim->batch), (size_t)sim->n * sim->nstate * sizeof *sim->before);

  // if MuJoCo raises an error, state and observation keep their values
  if (mjb_apply(sim->batch, NULL, sim->n, step_one, sim, 1)) {
    for (int i = 0; i < sim->n; i++) {
      if (!mjb_status(sim->batch)[i]) continue;
      sim->ended[i] = BFM_END_DIVERGED;
      sim->stepped[i] = 0;
    }
  }
  for (int i = 0; i < sim->n; i++) sim->diverged += sim->ended[i] == BFM_END_DIVERGED;
  return BFM_OK;
}

int sim_read(Sim *sim, SimNeed need, SimRead read, void *context) {
  sim->need = need;
  sim->read = read;
  sim->context = context;
  return apply(sim, NULL, sim->n, read_one, 0);
}

const double *sim_obs(const Sim *sim) { return sim->obs; }
const uint8_t *sim_ended(const Sim *sim) { return sim->ended; }
int64_t sim_diverged(const Sim *sim) { return sim->diverged; }
