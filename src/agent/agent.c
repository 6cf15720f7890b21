// Making an agent: networks, parameters, buffers. There are two allocations. The first holds the
// parameters. The second holds the buffers of training and is made before the first step, so an
// agent that only acts never has it. A step allocates nothing.

#include "agent/agent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/workspace.h"
#include "data/dataset.h"

#define OBS_LIMIT 1e15f  // the squares of larger values overflow in a layer norm

// ------------------------------- networks --------------------------------------------------------

static void define_networks(bfm_agent *a) {
  const Config *c = &a->config;
  int shared = c->ensemble == ENSEMBLE_SHARED;
  int64_t z_of_b = a->K > 1 ? a->d : 0;
  Net common = {.replicas = a->R, .body = 1, .heads = 1, .blocks = 1};

  Net *f = &a->net[NET_F], *b = &a->net[NET_B], *pi = &a->net[NET_PI];
  *f = common;
  f->name = a->laplacian ? "psi" : "F";
  f->branch[0] = "sa", f->branch[1] = "sz";
  f->in[0] = a->obs_dim + a->act_dim, f->in[1] = a->obs_dim + a->d;
  f->hidden = c->hidden, f->feat = c->feat, f->out = a->d, f->norm = c->f_norm;
  f->layers = shared ? 1 : 3;  // shared: the branches are one network, with shallow heads
  f->body = shared ? 1 : a->M, f->heads = a->M, f->has_target = 1;

  *b = common;
  b->name = a->laplacian ? "phi" : "B";
  b->branch[0] = "s", b->branch[1] = "sz";
  b->in[0] = a->goal_dim, b->in[1] = a->goal_dim + z_of_b;
  b->hidden = b->feat = c->b_hidden, b->layers = 2, b->out = a->d;
  b->z = z_of_b, b->blocks = a->K, b->has_target = !a->laplacian;

  *pi = common;
  pi->name = "pi";
  pi->branch[0] = "s", pi->branch[1] = "sz";
  pi->in[0] = a->obs_dim, pi->in[1] = a->obs_dim + a->d;
  pi->hidden = c->hidden, pi->feat = c->feat, pi->layers = 4, pi->out = a->act_dim;
  pi->norm = c->pi_norm, pi->pad_out = 1;

  if (!c->mbar) return;
  Net *u = &a->net[NET_U], *v = &a->net[NET_V];
  *u = *pi;
  u->name = "U", u->layers = 3, u->out = c->mbar, u->norm = c->f_norm, u->pad_out = 0;
  u->has_target = 1;
  *v = *b;
  v->name = "V", v->in[1] = a->goal_dim, v->z = 0, v->blocks = 1, v->out = c->mbar;
}

// ------------------------------- memory ----------------------------------------------------------

static void parameter_layout(void *agent, Arena *arena) {
  bfm_agent *a = agent;
  params_layout(&a->params, arena);
  a->step_device = arena_take(arena, sizeof *a->step_device);
  a->step_update = arena_take(arena, sizeof *a->step_update);
  if (a->goal_dim != a->obs_dim || a->config.goal[0]) {
    a->goal_columns = arena_take(arena, a->goal_dim * sizeof *a->goal_columns);
  }
}

static void batch_layout(bfm_agent *a, Arena *arena) {
  int64_t rows = a->R * a->N;
  a->obs = floats(arena, rows * a->obs_dim);
  a->act = floats(arena, rows * a->act_dim);
  a->next_obs = floats(arena, rows * a->obs_dim);
  a->discount = floats(arena, rows);
  a->noise_next = floats(arena, rows * a->act_dim);
  a->noise_pi = floats(arena, rows * a->act_dim);
  a->goal = a->goal_columns ? floats(arena, rows * a->goal_dim) : a->next_obs;
  a->goal_now = a->goal_columns && a->laplacian ? floats(arena, rows * a->goal_dim) : a->obs;
  a->z = floats(arena, rows * a->d);
  a->z_b = a->K > 1 ? floats(arena, rows * a->d) : NULL;
  if (a->config.z_whiten) {
    a->white = floats(arena, rows * a->d);
    a->gram = arena_take(arena, a->R * a->d * a->d * sizeof *a->gram);
  }
  if (!a->autoregressive) return;
  a->pool = floats(arena, a->R * a->pool_rows * a->d);
  a->pool_obs = floats(arena, a->R * a->pool_rows * a->obs_dim);
  a->pool_goal = a->goal_columns ? floats(arena, a->R * a->pool_rows * a->goal_dim) : a->pool_obs;
  a->pool_z = floats(arena, a->R * a->pool_rows * a->d);
  a->pool_zb = floats(arena, a->R * a->pool_rows * a->d);
}

static void network_layout(bfm_agent *a, Arena *arena) {
  Type type = a->ops->type;
  int64_t N = a->N, b_rows = a->laplacian ? 2 * N : N;
  tape_layout(&a->tape[NET_F], &a->net[NET_F], type, TAPE_TRAIN, a->R, 2 * N, arena);
  tape_layout(&a->tape_target[NET_F], &a->net[NET_F], type, TAPE_INFER, a->R, N, arena);
  tape_layout(&a->tape[NET_PI], &a->net[NET_PI], type, TAPE_TRAIN, a->R, 2 * N, arena);
  tape_layout(&a->tape[NET_B], &a->net[NET_B], type, TAPE_TRAIN, a->R, b_rows, arena);
  if (!a->laplacian) {
    tape_layout(&a->tape_target[NET_B], &a->net[NET_B], type, TAPE_INFER, a->R, N, arena);
  }
  if (a->autoregressive) {
    tape_layout(&a->tape_pool, &a->net[NET_B], type, TAPE_INFER, a->R, a->pool_rows, arena);
  }
  for (int i = NET_U; i <= NET_V && a->config.mbar; i++) {
    tape_layout(&a->tape[i], &a->net[i], type, TAPE_TRAIN, a->R, N, arena);
    tape_layout(&a->tape_target[i], &a->net[i], type, TAPE_INFER, a->R, N, arena);
  }
}

static void loss_layout(bfm_agent *a, Arena *arena) {
  int64_t rows = a->R * a->N, members = rows * a->M, matrix = a->R * a->I * a->J * a->J;
  int min_target = a->config.target == TARGET_MIN;
  a->mu = floats(arena, 2 * rows * a->act_dim);
  a->act_pi = floats(arena, rows * a->act_dim);
  a->act_next = floats(arena, rows * a->act_dim);
  a->b = floats(arena, (a->laplacian ? 2 : 1) * rows * a->d);
  a->db = floats(arena, (a->laplacian ? 2 : 1) * rows * a->d);
  a->b_target = floats(arena, rows * a->d);
  a->f_mean = floats(arena, rows * a->d);
  if (!a->laplacian) {
    a->m = floats(arena, matrix * a->M);
    a->t = floats(arena, matrix * (min_target ? a->M : 1));
  }
  a->c = floats(arena, matrix);
  a->df = floats(arena, members * a->d);
  a->df_pi = a->weighted ? NULL : floats(arena, members * a->d);
  if (a->config.mbar) {
    a->du = floats(arena, rows * a->config.mbar);
    a->dv = floats(arena, rows * a->config.mbar);
  }
  a->q = floats(arena, 2 * members);
  a->q_target = floats(arena, members);
  a->phi_z = floats(arena, rows);
  a->w = floats(arena, rows);
  a->advantage = floats(arena, rows);
  a->dx = floats(arena, rows * a->act_dim);
  a->partial = floats(arena, 2 * members);
  a->loss = floats(arena, a->R * a->loss_count);
}

static void training_layout(void *agent, Arena *arena) {
  bfm_agent *a = agent;
  params_training_layout(&a->params, arena);
  batch_layout(a, arena);
  network_layout(a, arena);
  loss_layout(a, arena);
}

int agent_ready(bfm_agent *a) {
  return a->memory ? BFM_OK : device_allocate(a->ops, training_layout, a, &a->memory);
}

// ------------------------------- making and freeing ----------------------------------------------

static void name_losses(bfm_agent *a) {
  static const char *fb[] = {"fb", "ortho", "actor"}, *lap[] = {"psi", "lap", "ortho", "actor"};
  a->loss_count = a->laplacian ? 4 : 3;
  memcpy(a->loss_names, a->laplacian ? lap : fb, a->loss_count * sizeof *lap);
}

static int setup(bfm_agent *a, int start) {
  int32_t *columns = NULL;
  int64_t column_count = 0;
  TRY(config_goal_columns(&a->config, a->obs_dim, &columns, &column_count));
  a->goal_dim = columns ? column_count : a->obs_dim;

  define_networks(a);
  name_losses(a);
  int status = device_open(&a->ops, a->config.device, a->config.precision, PRECISION_BF16,
                           a->config.threads);
  if (!status) {
    params_place(&a->params, a->ops, a->net, NET_COUNT);
    status = device_allocate(a->ops, parameter_layout, a, &a->parameter_memory);
  }
  if (!status && columns) {
    status = a->ops->upload(a->ops, a->goal_columns, columns, column_count * sizeof *columns);
  }
  free(columns);
  return status ? status : params_init(&a->params, (uint64_t)a->config.seed, start);
}

int agent_new(bfm_agent **out, int64_t obs_dim, int64_t act_dim, const Config *config, int start) {
  *out = NULL;
  TRY(check_size("obs_dim", obs_dim, OBS_MOST));
  TRY(check_size("act_dim", act_dim, ACT_MOST));
  bfm_agent *a = calloc(1, sizeof *a);
  if (!a) return bfm_fail(BFM_NO_MEMORY, "out of memory for an agent");
  lock_init(&a->lock);
  pthread_mutex_init(&a->workspaces.mutex, NULL);
  pthread_cond_init(&a->workspaces.given, NULL);
  a->config = *config;
  int status = config_complete(&a->config);
  const Config *c = &a->config;
  a->obs_dim = obs_dim;
  a->act_dim = act_dim;
  a->R = (int)c->seeds;
  a->M = (int)c->members;
  a->N = c->batch;
  a->d = c->d;
  a->K = c->blocks;
  a->autoregressive = algo_is_autoregressive(c->algo);
  a->weighted = algo_is_weighted(c->algo);
  a->laplacian = algo_is_laplacian(c->algo);
  a->I = a->autoregressive ? c->z_groups : 1;
  a->J = a->N / (a->I ? a->I : 1);
  a->pool_rows = c->z_pool > c->z_groups ? c->z_pool : c->z_groups;
  if (!status) status = setup(a, start);
  if (status) {
    bfm_agent_free(a);
    return status;
  }
  *out = a;
  return BFM_OK;
}

bfm_status bfm_agent_new(bfm_agent **out, int64_t obs_dim, int64_t act_dim, const char *options) {
  NEED("agent", out);
  Config config;
  *out = NULL;
  TRY(options_default(agent_options, &config));
  if (options) TRY(options_from_json(agent_options, &config, options));
  return agent_new(out, obs_dim, act_dim, &config, 1);
}

void prompt_states_free(PromptStates *p) {
  free(p->obs);
  free(p->qpos);
  free(p->qvel);
  free(p->act);
  *p = (PromptStates){.count = 0};
}

void bfm_agent_free(bfm_agent *a) {
  if (!a) return;
  if (a->ops) {
    workspaces_free(a);
    agent_free_data(a);
    if (a->memory) a->ops->release(a->ops, a->memory);
    if (a->parameter_memory) a->ops->release(a->ops, a->parameter_memory);
    a->ops->close(a->ops);
  }
  prompt_states_free(&a->prompt);
  signals_free(&a->signals);
  pthread_cond_destroy(&a->workspaces.given);
  pthread_mutex_destroy(&a->workspaces.mutex);
  lock_destroy(&a->lock);
  free(a);
}

// ------------------------------- looking inside --------------------------------------------------

int64_t bfm_agent_obs_dim(const bfm_agent *a) { return a->obs_dim; }
int64_t bfm_agent_act_dim(const bfm_agent *a) { return a->act_dim; }
int64_t bfm_agent_d(const bfm_agent *a) { return a->d; }
int64_t bfm_agent_batch(const bfm_agent *a) { return a->N; }
int bfm_agent_members(const bfm_agent *a) { return a->M; }
int bfm_agent_replicas(const bfm_agent *a) { return a->R; }
const char *bfm_agent_env(const bfm_agent *a) {
  SHARED_VOID(a);
  return a->prompt.env;
}

int64_t bfm_agent_prompt_count(const bfm_agent *a) {
  SHARED_VOID(a);
  return a->prompt.count;
}

const float *bfm_agent_prompt_obs(const bfm_agent *a) {
  SHARED_VOID(a);
  return a->prompt.obs;
}

int64_t bfm_agent_step(const bfm_agent *a) {
  SHARED_VOID(a);
  return a->step;
}

// a table of the prompt states, and the number of its columns
static const double *table(const double *values, int64_t has, int64_t *columns) {
  if (columns) *columns = has;
  return has ? values : NULL;
}

const double *bfm_agent_prompt_qpos(const bfm_agent *a, int64_t *nq) {
  SHARED_VOID(a);
  return table(a->prompt.qpos, a->prompt.nq, nq);
}

const double *bfm_agent_prompt_qvel(const bfm_agent *a, int64_t *nv) {
  SHARED_VOID(a);
  return table(a->prompt.qvel, a->prompt.nv, nv);
}

const double *bfm_agent_prompt_act(const bfm_agent *a, int64_t *na) {
  SHARED_VOID(a);
  return table(a->prompt.act, a->prompt.na, na);
}

char *bfm_agent_options(const bfm_agent *a) { return options_to_json(agent_options, &a->config); }
int bfm_agent_loss_count(const bfm_agent *a) { return a->loss_count; }

const char *bfm_agent_loss_name(const bfm_agent *a, int index) {
  return index >= 0 && index < a->loss_count ? a->loss_names[index] : NULL;
}

int agent_on_cpu(const bfm_agent *a) { return device_is_cpu(a->ops); }

int bfm_agent_tensor_count(const bfm_agent *a) { return a->params.tensor_count; }

bfm_status bfm_agent_tensor_info(const bfm_agent *a, int index, const char **name, int *dims,
                                 int64_t shape[4]) {
  NEED("agent, name, dims, shape", a, name, dims, shape);
  return params_info(&a->params, index, name, dims, shape);
}

int agent_check_replica(const bfm_agent *a, int replica) {
  if (replica >= 0 && replica < a->R) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "there is no replica %d: the agent has %d, counted from 0",
                  replica, a->R);
}

int agent_check_obs(const float *obs, int64_t rows, int64_t obs_dim) {
  for (int64_t i = 0; i < rows * obs_dim; i++) {
    if (!(fabsf(obs[i]) > OBS_LIMIT)) continue;  // NaN is reported elsewhere
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "observation %g (row %ld, column %ld) is beyond ±%g: check its units", obs[i],
                    (long)(i / obs_dim), (long)(i % obs_dim), (double)OBS_LIMIT);
  }
  return BFM_OK;
}

int agent_check_actions(const float *act, int replicas, int64_t rows, int64_t act_dim) {
  for (int64_t i = 0; i < replicas * rows * act_dim; i++) {
    if (fabsf(act[i]) <= 1 + ACTION_SLACK) continue;
    int64_t row = i / act_dim;
    char replica[32] = "";
    if (replicas > 1) snprintf(replica, sizeof replica, "replica %d, ", (int)(row / rows));
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "action %g of transition %ld (%scolumn %ld) is not within ±1: scale actions to "
                    "that range",
                    act[i], (long)(row % rows), replica, (long)(i % act_dim));
  }
  return BFM_OK;
}

bfm_status bfm_agent_get_tensor(bfm_agent *a, int replica, const char *name, float *out,
                                int64_t count) {
  NEED("agent, name, out", a, name, out);
  TRY(agent_check_replica(a, replica));
  EXCLUSIVE(a);
  return params_get(&a->params, replica, name, out, count);
}

bfm_status bfm_agent_set_tensor(bfm_agent *a, int replica, const char *name, const float *values,
                                int64_t count) {
  NEED("agent, name", a, name);
  TRY(agent_check_replica(a, replica));
  EXCLUSIVE(a);
  return params_set(&a->params, replica, name, values, count);
}
