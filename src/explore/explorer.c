// Creating learners, acting, their transitions (a ring buffer or a dataset), and the loop of updates
// around td3.c and offline.c. Buffers are allocated once: those of acting together with the
// parameters, those of learning and the ring before the first transition.

#include "explore/explorer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/sized.h"

// ------------------------------- options ---------------------------------------------------------

#define AT(field) offsetof(ExplorerOptions, field)
#define CHOICES "auto|off|on"

const Option explorer_options[] = {
    {"algo", OPTION_CHOICE, AT(algo), "td3", 0, 0, "td3|rnd|bc|td3bc|iql|xql",
     "td3 maximizes the task's reward, rnd seeks new states; the others learn from a dataset"},
    {"hidden", OPTION_INT, AT(hidden), "0", 0, 4096, NULL,
     "width of the networks; 0: td3 512, rnd 1024, offline 256"},
    {"batch", OPTION_INT, AT(batch), "0", 0, 65536, NULL,
     "transitions per update; 0: td3 512, rnd 1024, offline 256"},
    {"nstep", OPTION_INT, AT(nstep), "3", 1, 100, NULL, "steps of the n-step returns"},
    {"gamma", OPTION_REAL, AT(gamma), "0.99", 0, 1, NULL, "discount"},
    {"lr", OPTION_REAL, AT(lr), "0", 0, 10, NULL, "Adam's learning rate; 0: td3 3e-4, rnd 1e-4"},
    {"tau", OPTION_REAL, AT(tau), "0", 0, 1, NULL,
     "step of the targets towards the networks; 0: td3 and rnd 0.01, offline 0.005"},
    {"critics", OPTION_INT, AT(critics), "2", 1, 8, NULL,
     "number of critics; the target is their minimum"},
    {"delay", OPTION_INT, AT(delay), "0", 0, 100, NULL,
     "updates of the critics per update of policy and targets; 0: td3 and td3bc 2, else 1"},
    {"sigma", OPTION_REAL, AT(sigma), "0.2", 0, 10, NULL,
     "standard deviation of the noise on actions"},
    {"target-sigma", OPTION_REAL, AT(target_sigma), "0.2", 0, 10, NULL,
     "standard deviation of the noise on the targets' actions"},
    {"noise-clip", OPTION_REAL, AT(noise_clip), "0", 0, 10, NULL,
     "largest noise on the targets' actions; 0: td3 and td3bc 0.5, rnd 0.3"},
    {"random-steps", OPTION_INT, AT(random_steps), "5000", 0, 1e12, NULL,
     "uniformly random actions at the start, for each task"},
    {"replay", OPTION_INT, AT(replay), "1M", 1, 1e10, NULL,
     "size of each task's replay buffer, in transitions"},
    {"obs-norm", OPTION_CHOICE, AT(obs_norm), "auto", 0, 0, CHOICES,
     "normalize observations, by running statistics or those of the dataset; auto: td3 and td3bc "
     "on, "
     "else off"},
    {"policy-norm", OPTION_CHOICE, AT(policy_norm), "auto", 0, 0, CHOICES,
     "also a layer norm before the policy's last layer; auto: td3 on, else off"},
    {"rnd-dim", OPTION_INT, AT(rnd_dim), "512", 1, 4096, NULL,
     "number of outputs of rnd's random network"},
    {"alpha", OPTION_REAL, AT(alpha), "2.5", 0, 1e6, NULL,
     "td3bc: weight of the critic against cloning, as a multiple of 1/mean |Q|"},
    {"expectile", OPTION_REAL, AT(expectile), "0.7", 0, 1, NULL, "iql: the expectile of V"},
    {"inverse-temperature", OPTION_REAL, AT(inverse_temperature), "3", 0, 1e6, NULL,
     "iql, xql: the policy's weights are exp(inverse-temperature * advantage)"},
    {"weight-clip", OPTION_REAL, AT(weight_clip), "100", 0, INFINITY, NULL,
     "iql, xql: largest weight"},
    {"loss-temperature", OPTION_REAL, AT(loss_temperature), "2", 1e-6, 1e6, NULL,
     "xql: temperature of the Gumbel regression of V"},
    {"exp-clip", OPTION_REAL, AT(exp_clip), "7", 0, INFINITY, NULL,
     "xql: largest exponent in the Gumbel regression"},
    {"anneal", OPTION_INT, AT(anneal), "0", 0, 1e12, NULL,
     "iql, xql: updates in which the policy's learning rate falls to 0 as a cosine; 0: never"},
    {"device", OPTION_TEXT, AT(device), "auto", 0, 0, NULL, "auto, cpu, cuda or cuda:N"},
    {"precision", OPTION_CHOICE, AT(precision), "auto", 0, 0, DEVICE_PRECISIONS,
     "precision of products; auto: f32 on a CPU, on a GPU bf16 for td3, else tf32"},
    {"seed", OPTION_INT, AT(seed), "0", 0, INFINITY, NULL, "seed of every random draw"},
    {"seeds", OPTION_INT, AT(seeds), "1", 1, TASKS_MOST, NULL,
     "offline: policies for each task, with the seeds seed, seed+1, …"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "CPU threads; 0: one per core"},
    {0},
};

// Options that not every algorithm reads. "collecting" are td3 and rnd
#define COLLECTING (1u << EXPLORER_TD3 | 1u << EXPLORER_RND)
#define CRITICS (~(1u << EXPLORER_BC))
#define TD3S (COLLECTING | 1u << EXPLORER_TD3BC)
#define GAUSSIANS (1u << EXPLORER_IQL | 1u << EXPLORER_XQL)

static const struct {
  const char *option;
  unsigned algos;  // a bit for each
} takers[] = {
    {"nstep", COLLECTING},
    {"sigma", COLLECTING},
    {"random-steps", COLLECTING},
    {"replay", COLLECTING},
    {"policy-norm", COLLECTING},
    {"rnd-dim", COLLECTING},
    {"gamma", CRITICS},
    {"tau", CRITICS},
    {"critics", CRITICS},
    {"delay", TD3S},
    {"target-sigma", TD3S},
    {"noise-clip", TD3S},
    {"alpha", 1u << EXPLORER_TD3BC},
    {"expectile", 1u << EXPLORER_IQL},
    {"inverse-temperature", GAUSSIANS},
    {"weight-clip", GAUSSIANS},
    {"anneal", GAUSSIANS},
    {"loss-temperature", 1u << EXPLORER_XQL},
    {"exp-clip", 1u << EXPLORER_XQL},
    {"seeds", ~COLLECTING},
};

int explorer_takes(int algo, const char *option) {
  for (size_t i = 0; i < sizeof takers / sizeof *takers; i++) {
    if (!strcmp(takers[i].option, option)) return takers[i].algos >> algo & 1;
  }
  return 1;
}

void explorer_complete(ExplorerOptions *o) {
  int rnd = o->algo == EXPLORER_RND, td3 = o->algo == EXPLORER_TD3;
  int offline = explorer_is_offline(o->algo), td3bc = o->algo == EXPLORER_TD3BC;
  if (!o->hidden) o->hidden = offline ? 256 : rnd ? 1024 : 512;
  if (!o->batch) o->batch = offline ? 256 : rnd ? 1024 : 512;
  if (!o->delay) o->delay = td3 || td3bc ? 2 : 1;
  if (o->lr == 0) o->lr = rnd ? 1e-4 : 3e-4;
  if (o->tau == 0) o->tau = offline ? 0.005 : 0.01;
  if (o->noise_clip == 0) o->noise_clip = rnd ? 0.3 : 0.5;
  if (o->obs_norm == CHOICE_AUTO) o->obs_norm = td3 || td3bc ? CHOICE_ON : CHOICE_OFF;
  if (o->policy_norm == CHOICE_AUTO) o->policy_norm = td3 ? CHOICE_ON : CHOICE_OFF;
}

static int has_value(const bfm_explorer *e) {
  return e->options.algo == EXPLORER_IQL || e->options.algo == EXPLORER_XQL;
}

static const char *const loss_names[][EXPLORER_LOSSES + 1] = {
    [EXPLORER_TD3] = {"critic", "actor", "q"},
    [EXPLORER_RND] = {"critic", "actor", "q", "rnd", "bonus"},
    [EXPLORER_BC] = {"actor"},
    [EXPLORER_TD3BC] = {"critic", "actor", "q", "clone"},
    [EXPLORER_IQL] = {"critic", "actor", "q", "value"},
    [EXPLORER_XQL] = {"critic", "actor", "q", "value"},
};

// ------------------------------- networks --------------------------------------------------------

static void define_networks(bfm_explorer *e) {
  const ExplorerOptions *o = &e->options;
  Net common = {.replicas = e->T, .body = 1, .heads = 1, .blocks = 1, .hidden = o->hidden,
                .feat = o->hidden};
  // The policy starts near the middle of its range, because a saturated tanh does not learn. Critics
  // start near 0, because large initial values would drive the policy into saturation.
  const float near_zero = 0.1f;

  // the papers of the offline algorithms have two layers of ReLUs
  int offline = explorer_is_offline(o->algo);

  Net *q = &e->net[XNET_Q], *pi = &e->net[XNET_PI], *v = &e->net[XNET_V];
  *q = common;
  q->name = o->algo == EXPLORER_BC ? NULL : "Q";
  q->branch[0] = "sa", q->in[0] = e->obs_dim + e->act_dim, q->out = 1;
  q->body = q->heads = e->M, q->feat_norm = !offline, q->plain = offline;
  q->has_target = 1, q->last_scale = near_zero;

  *pi = common;
  pi->name = "pi", pi->branch[0] = "s", pi->in[0] = e->obs_dim;
  pi->out = e->act_dim, pi->pad_out = 1, pi->feat_norm = o->policy_norm == CHOICE_ON;
  pi->plain = offline, pi->last_scale = near_zero;
  pi->has_target = !offline || o->algo == EXPLORER_TD3BC;

  if (has_value(e)) {
    *v = common;
    v->name = "V", v->branch[0] = "s", v->in[0] = e->obs_dim, v->out = 1;
    // Gumbel regression needs layer norms: the authors' own configuration of xql has them too
    v->plain = o->algo == EXPLORER_IQL, v->feat_norm = o->algo == EXPLORER_XQL;
    v->last_scale = near_zero;
  }

  if (o->algo != EXPLORER_RND) return;
  Net *predictor = &e->net[XNET_PREDICTOR], *random = &e->net[XNET_RANDOM];
  *predictor = *pi;
  predictor->name = "predictor", predictor->plain = 1;
  predictor->out = o->rnd_dim, predictor->pad_out = predictor->feat_norm = 0;
  predictor->has_target = 0, predictor->last_scale = 0;
  *random = *predictor;
  random->name = "random", random->frozen = 1;
}

// ------------------------------- memory ----------------------------------------------------------

// even, so that the step behind the observations is aligned to 8 bytes
static int64_t seen_count(const bfm_explorer *e) {
  return ((int64_t)e->T * e->E * e->obs_dim + 1) / 2 * 2;
}

static void parameter_layout(void *explorer, Arena *arena) {
  bfm_explorer *e = explorer;
  int64_t rows = (int64_t)e->T * e->E;
  params_layout(&e->params, arena);
  if (e->options.obs_norm == CHOICE_ON) e->input_stats = floats(arena, e->T * 2 * e->obs_dim);
  if (has_value(e)) e->log_sigma = floats(arena, e->T * e->act_dim);
  e->seen = arena_take(arena, e->staged_bytes);
  e->act_step = e->seen ? (int64_t *)(e->seen + seen_count(e)) : NULL;
  e->noise_act = floats(arena, rows * e->act_dim);
  e->mu_act = floats(arena, rows * e->act_dim);
  e->act = floats(arena, rows * e->act_dim);
  tape_layout(&e->tape_act, &e->net[XNET_PI], e->ops->type, TAPE_INFER, e->T, e->E, arena);
}

static void batch_layout(const bfm_explorer *e, ExplorerBatch *b, Arena *arena) {
  int64_t rows = e->T * e->N;
  b->obs = floats(arena, rows * e->obs_dim);
  b->act = floats(arena, rows * e->act_dim);
  b->reward = floats(arena, rows);
  b->discount = floats(arena, rows);
  b->next_obs = floats(arena, rows * e->obs_dim);
  b->noise = floats(arena, rows * e->act_dim);
  b->mu_next = floats(arena, rows * e->act_dim);
  b->act_next = floats(arena, rows * e->act_dim);
  for (int i = XNET_Q; i <= XNET_PI; i++) {
    if (!e->net[i].name || !e->net[i].has_target) continue;
    tape_layout(&b->slow[i], &e->net[i], e->ops->type, TAPE_INFER, e->T, e->N, arena);
  }
}

static void value_layout(bfm_explorer *e, Arena *arena) {
  int64_t rows = e->T * e->N, sigmas = e->T * e->act_dim;
  e->dv = floats(arena, rows);
  e->weights = floats(arena, rows);
  e->log_sigma_moments = floats(arena, 2 * sigmas);
  e->dlog_sigma = arena_take(arena, sigmas * type_size(e->ops->type));
  tape_layout(&e->tape[XNET_V], &e->net[XNET_V], e->ops->type, TAPE_TRAIN, e->T, e->N, arena);
  tape_layout(&e->tape_v_next, &e->net[XNET_V], e->ops->type, TAPE_INFER, e->T, e->N, arena);
}

static void work_layout(void *explorer, Arena *arena) {
  bfm_explorer *e = explorer;
  Type type = e->ops->type;
  int64_t N = e->N, rows = e->T * N;
  params_training_layout(&e->params, arena);
  e->step_device = arena_take(arena, sizeof *e->step_device);
  e->policy_step = arena_take(arena, sizeof *e->policy_step);
  e->drawn_device = arena_take(arena, sizeof *e->drawn_device);
  e->slots_device = arena_take(arena, sizeof *e->slots_device);
  e->loss = floats(arena, e->T * e->loss_count);

  for (int i = 0; i < EXPLORER_AHEAD; i++) batch_layout(e, &e->batch[i], arena);
  e->ones = floats(arena, rows);
  e->mu_pi = floats(arena, rows * e->act_dim);
  e->act_pi = floats(arena, rows * e->act_dim);
  e->da = floats(arena, rows * e->act_dim);
  e->dq = floats(arena, rows * e->M);
  e->dq_pi = floats(arena, rows * e->M);
  for (int i = XNET_Q; i <= XNET_PI; i++) {
    if (e->net[i].name) tape_layout(&e->tape[i], &e->net[i], type, TAPE_TRAIN, e->T, N, arena);
  }
  if (e->net[XNET_Q].name) {
    tape_layout(&e->tape_q_pi, &e->net[XNET_Q], type, TAPE_TRAIN, e->T, N, arena);
  }
  if (has_value(e)) value_layout(e, arena);

  if (e->options.algo != EXPLORER_RND) return;
  e->obs_stats = floats(arena, e->T * 2 * e->obs_dim);
  e->error_stats = floats(arena, e->T * 2);
  e->seen_norm = floats(arena, rows * e->obs_dim);
  e->bonus = floats(arena, rows);
  e->df = floats(arena, rows * e->options.rnd_dim);
  for (int i = XNET_PREDICTOR; i <= XNET_RANDOM; i++) {
    TapeKind kind = i == XNET_PREDICTOR ? TAPE_TRAIN : TAPE_INFER;
    tape_layout(&e->tape[i], &e->net[i], type, kind, e->T, N, arena);
  }
}

int explorer_upload_counters(bfm_explorer *e) {
  int64_t policy_steps = e->step / e->options.delay;
  TRY(e->ops->upload(e->ops, e->step_device, &e->step, sizeof e->step));
  TRY(e->ops->upload(e->ops, e->drawn_device, &e->step, sizeof e->step));
  return e->ops->upload(e->ops, e->policy_step, &policy_steps, sizeof policy_steps);
}

int explorer_ready(bfm_explorer *e) {
  if (e->only_acts) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "this explorer was loaded from a policy, which can act but not learn");
  }
  if (e->work_memory) return BFM_OK;
  TRY(device_allocate(e->ops, work_layout, e, &e->work_memory));
  TRY(device_upload_ones(e->ops, e->ones, e->T * e->N));
  return explorer_upload_counters(e);
}

// ------------------------------- parameters ------------------------------------------------------

// sets the statistics of observations to mean 0 and variance 1; log σ begins at 0
static int start_input_stats(bfm_explorer *e) {
  int64_t count = 2 * e->obs_dim;
  if (e->log_sigma) {
    NetTensor sigma = {.name = "pi.log_sigma", .dims = 1, .shape = {e->act_dim},
                       .count = e->act_dim, .stride = e->act_dim};
    params_add(&e->params, &sigma, e->log_sigma);
  }
  if (!e->input_stats) return BFM_OK;
  for (int t = 0; t < e->T; t++) {
    TRY(device_upload_ones(e->ops, e->input_stats + (2 * t + 1) * e->obs_dim, e->obs_dim));
  }
  NetTensor stats = {.name = "input.stats", .dims = 2, .shape = {2, e->obs_dim}, .count = count,
                     .stride = count};
  params_add(&e->params, &stats, e->input_stats);
  return BFM_OK;
}

// ------------------------------- creating and freeing --------------------------------------------

static int setup(bfm_explorer *e, int start) {
  Precision best = e->options.algo == EXPLORER_TD3 ? PRECISION_BF16 : PRECISION_TF32;
  TRY(device_open(&e->ops, e->options.device, e->options.precision, best, e->options.threads));
  define_networks(e);
  params_place(&e->params, e->ops, e->net, XNET_COUNT);
  if (explorer_is_offline(e->options.algo)) e->params.seed_count = (int)e->options.seeds;
  e->staged_bytes = seen_count(e) * sizeof *e->seen + sizeof *e->act_step;
  e->staged = calloc(1, e->staged_bytes);
  if (!e->staged) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d environments", e->T * e->E);
  TRY(device_allocate(e->ops, parameter_layout, e, &e->memory));
  TRY(params_init(&e->params, (uint64_t)e->options.seed, start));
  return start_input_stats(e);
}

int explorer_new(bfm_explorer **out, int64_t obs_dim, int64_t act_dim, int tasks, int envs,
                 const ExplorerOptions *options, int start) {
  *out = NULL;
  TRY(check_size("obs_dim", obs_dim, OBS_MOST));
  TRY(check_size("act_dim", act_dim, ACT_MOST));
  TRY(check_size("tasks", tasks, TASKS_MOST));
  TRY(check_size("envs", envs, ENVS_MOST));
  bfm_explorer *e = calloc(1, sizeof *e);
  if (!e) return bfm_fail(BFM_NO_MEMORY, "out of memory for an explorer");
  lock_init(&e->lock);
  e->options = *options;
  explorer_complete(&e->options);
  e->obs_dim = obs_dim;
  e->act_dim = act_dim;
  e->row = 2 * obs_dim + act_dim + 3;
  e->T = tasks;
  e->E = envs;
  e->M = (int)e->options.critics;
  e->N = e->options.batch;
  e->capacity = (e->options.replay + envs - 1) / envs;
  while (loss_names[e->options.algo][e->loss_count]) e->loss_count++;
  int status = e->capacity * envs >= INT32_MAX
                   ? bfm_fail(BFM_BAD_ARGUMENT, "replay must be below %d, not %ld", INT32_MAX,
                              (long)e->options.replay)
                   : setup(e, start);
  if (status) {
    bfm_explorer_free(e);
    return status;
  }
  *out = e;
  return BFM_OK;
}

bfm_status bfm_explorer_new(bfm_explorer **out, int64_t obs_dim, int64_t act_dim, int tasks,
                            int envs, const char *options) {
  NEED("explorer", out);
  ExplorerOptions o;
  *out = NULL;
  TRY(options_default(explorer_options, &o));
  if (options) TRY(options_from_json(explorer_options, &o, options));
  return explorer_new(out, obs_dim, act_dim, tasks, envs, &o, 1);
}

void bfm_explorer_free(bfm_explorer *e) {
  if (!e) return;
  Ops *ops = e->ops;
  if (ops) {
    for (int i = 0; i < 2; i++) {
      if (e->act_graph[i]) ops->forget(ops, e->act_graph[i]);
    }
    if (e->round_graph) ops->forget(ops, e->round_graph);
    if (e->ring) ops->release(ops, e->ring);
    if (e->data_memory) ops->release(ops, e->data_memory);
    if (e->work_memory) ops->release(ops, e->work_memory);
    if (e->memory) ops->release(ops, e->memory);
    ops->close(ops);
  }
  free(e->staged);
  lock_destroy(&e->lock);
  free(e);
}

// ------------------------------- looking inside --------------------------------------------------

const ExplorerOptions *explorer_options_of(const bfm_explorer *e) { return &e->options; }
int explorer_on_cpu(const bfm_explorer *e) { return device_is_cpu(e->ops); }
const char *explorer_device(const bfm_explorer *e) { return e->ops->name; }
int64_t bfm_explorer_row_size(const bfm_explorer *e) { return e->row; }
int bfm_explorer_tensor_count(const bfm_explorer *e) { return e->params.tensor_count; }

int64_t bfm_explorer_step(const bfm_explorer *e) {
  SHARED_VOID(e);
  return e->step;
}

void bfm_explorer_get_sizes(const bfm_explorer *e, bfm_explorer_sizes *sizes) {
  bfm_explorer_sizes own = {.obs_dim = e->obs_dim, .act_dim = e->act_dim, .batch = e->N,
                            .tasks = e->T, .envs = e->E};
  sized_write(sizes, SIZE_TO(bfm_explorer_sizes, envs), &own, sizeof own);
}

bfm_status bfm_explorer_tensor_info(const bfm_explorer *e, int index, const char **name, int *dims,
                                    int64_t shape[4]) {
  NEED("explorer, name, dims, shape", e, name, dims, shape);
  return params_info(&e->params, index, name, dims, shape);
}

int explorer_check_task(const bfm_explorer *e, int task) {
  if (task >= 0 && task < e->T) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "task must be 0 to %d, not %d", e->T - 1, task);
}

bfm_status bfm_explorer_get_tensor(bfm_explorer *e, int task, const char *name, float *out,
                                   int64_t count) {
  NEED("explorer, name, out", e, name, out);
  EXCLUSIVE(e);
  TRY(explorer_check_task(e, task));
  return params_get(&e->params, task, name, out, count);
}

bfm_status bfm_explorer_set_tensor(bfm_explorer *e, int task, const char *name, const float *values,
                                   int64_t count) {
  NEED("explorer, name", e, name);
  EXCLUSIVE(e);
  TRY(explorer_check_task(e, task));
  return params_set(&e->params, task, name, values, count);
}

// ------------------------------- acting ----------------------------------------------------------

static void act_body(bfm_explorer *e, int explore) {
  Ops *ops = e->ops;
  const Tape *tape = &e->tape_act;
  if (explore) {
    ops->draw_normal(ops, &(Draw){.out = e->noise_act, .seeds = e->params.seeds,
                                  .step = e->act_step, .stream = STREAM_EXPLORE, .replicas = e->T,
                                  .count = e->E * e->act_dim});
  }
  explorer_normalize(e, e->seen, e->E, NULL);
  ops->pack(ops, &(Pack){.out = tape->in[0], .ld = tape->ld_in[0], .a = e->seen,
                         .a_cols = e->obs_dim, .groups = e->T, .copies = 1, .rows = e->E,
                         .row_stride = e->E});
  net_forward(ops, &e->net[XNET_PI], e->net[XNET_PI].online, tape, (Pass){.rows = e->E});
  ops->policy_action(ops, &(PolicyAction){.mu = e->mu_act, .x = tape->out, .act = e->act,
                                          .noise = explore ? e->noise_act : NULL, .groups = e->T,
                                          .rows = e->E, .row_stride = e->E, .act_dim = e->act_dim,
                                          .ld = tape->ld_out, .sigma = (float)e->options.sigma,
                                          .noise_clip = INFINITY});
}

static void act_mean(void *explorer) { act_body(explorer, 0); }
static void act_explore(void *explorer) { act_body(explorer, 1); }

bfm_status bfm_explorer_act(bfm_explorer *e, const float *obs, int explore, uint64_t step,
                            float *act) {
  NEED("explorer, act", e, act);
  EXCLUSIVE(e);
  Ops *ops = e->ops;
  int64_t rows = (int64_t)e->T * e->E, count = e->E * e->act_dim;
  explore = explore != 0;
  if (explore && step < (uint64_t)e->options.random_steps / e->E) {
    for (int t = 0; t < e->T; t++) {
      float *to = act + t * count;
      bfm_random_uniform((uint64_t)e->options.seed + t, STREAM_EXPLORE, step, count, to);
      for (int64_t i = 0; i < count; i++) to[i] = 2 * to[i] - 1;
    }
    return BFM_OK;
  }
  TRY(check_finite(obs, rows, e->obs_dim, "obs"));
  memcpy(e->staged, obs, rows * e->obs_dim * sizeof *obs);
  memcpy(e->staged + seen_count(e) * sizeof *obs, &step, sizeof step);
  TRY(ops->upload(ops, e->seen, e->staged, e->staged_bytes));
  OpsGraph **graph = &e->act_graph[explore];
  if (!*graph) TRY(ops->record(ops, graph, explore ? act_explore : act_mean, e));
  TRY(ops->replay(ops, *graph, 1));
  TRY(ops->download(ops, act, e->act, rows * e->act_dim * sizeof *act));
  return ops->sync(ops);
}

// ------------------------------- learning --------------------------------------------------------

bfm_status bfm_explorer_add(bfm_explorer *e, const float *rows) {
  NEED("explorer", e);
  EXCLUSIVE(e);
  Ops *ops = e->ops;
  int64_t slot = (int64_t)e->T * e->E * e->row;
  TRY(explorer_ready(e));
  TRY(check_finite(rows, (int64_t)e->T * e->E, e->row, "rows"));
  if (!e->ring) {
    void *ring;
    TRY(ops->alloc(ops, &ring, e->capacity * slot * sizeof *rows));
    e->ring = ring;
  }
  TRY(ops->upload(ops, e->ring + e->slots % e->capacity * slot, rows, slot * sizeof *rows));
  ops->increment(ops, e->slots_device);
  e->slots++;
  return BFM_OK;
}

// `delay` updates, of which only the last updates the policy
static void round_body(void *explorer) {
  bfm_explorer *e = explorer;
  explorer_learn(e, 0, e->options.delay, 1);
}

bfm_status bfm_explorer_update(bfm_explorer *e, int64_t updates) {
  NEED("explorer", e);
  EXCLUSIVE(e);
  Ops *ops = e->ops;
  int64_t delay = e->options.delay;
  TRY(explorer_ready(e));
  if (updates < 0) {
    return bfm_fail(BFM_BAD_ARGUMENT, "updates must be 0 or more, not %ld", (long)updates);
  }
  if (!e->slots && !e->data.count) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "there are no transitions to learn from: call bfm_explorer_add first");
  }
  if (!e->round_graph) TRY(ops->record(ops, &e->round_graph, round_body, e));
  while (updates > 0) {
    int64_t rounds = e->step % delay ? 0 : updates / delay, done = rounds ? rounds * delay : 1;
    if (rounds) TRY(ops->replay(ops, e->round_graph, rounds));
    else explorer_learn(e, e->step, 1, 1);
    e->step += done;
    updates -= done;
  }
  return BFM_OK;
}

// ------------------------------- data ------------------------------------------------------------

// TD3+BC divides by the standard deviation plus 1e-3, the operation by √(variance + 1e-5)
static int upload_stats(bfm_explorer *e, const ExplorerData *data) {
  int64_t n = e->obs_dim;
  double *sums = calloc(2 * n, sizeof *sums);
  float *stats = malloc(2 * n * sizeof *stats);
  int status = sums && stats ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for statistics");
  for (int64_t i = 0; i < data->count && !status; i++) {
    for (int64_t k = 0; k < n; k++) sums[k] += data->obs[i * n + k];
  }
  for (int64_t k = 0; k < n && !status; k++) sums[k] /= (double)data->count;
  for (int64_t i = 0; i < data->count && !status; i++) {
    for (int64_t k = 0; k < n; k++) {
      double difference = data->obs[i * n + k] - sums[k];
      sums[n + k] += difference * difference;
    }
  }
  for (int64_t k = 0; k < n && !status; k++) {
    double deviation = sqrt(sums[n + k] / (double)data->count) + 1e-3;
    stats[k] = (float)sums[k];
    stats[n + k] = (float)(deviation * deviation - 1e-5);
  }
  for (int t = 0; t < e->T && !status; t++) {
    status = e->ops->upload(e->ops, e->input_stats + 2 * t * n, stats, 2 * n * sizeof *stats);
  }
  free(sums);
  free(stats);
  return status;
}

// on a GPU all arrays are copied, on a CPU only those that the caller need not keep
static void data_layout(void *explorer, Arena *arena) {
  bfm_explorer *e = explorer;
  int64_t count = e->data.count;
  e->data.discount = floats(arena, count);
  e->data.rewards = floats(arena, e->data_tasks * count);
  if (device_is_cpu(e->ops)) return;
  e->data.obs = floats(arena, count * e->obs_dim);
  e->data.act = floats(arena, count * e->act_dim);
  e->data.next_obs = floats(arena, count * e->obs_dim);
}

static int upload_data(bfm_explorer *e, const ExplorerData *data, float *discount) {
  Ops *ops = e->ops;
  int64_t count = data->count;
  size_t row = count * sizeof(float);
  for (int64_t i = 0; i < count; i++) { discount[i] = data->discount[i] * (float)e->options.gamma; }
  TRY(ops->upload(ops, (float *)e->data.discount, discount, row));
  TRY(ops->upload(ops, (float *)e->data.rewards, data->rewards, e->data_tasks * row));
  if (device_is_cpu(ops)) return BFM_OK;
  TRY(ops->upload(ops, (float *)e->data.obs, data->obs, row * e->obs_dim));
  TRY(ops->upload(ops, (float *)e->data.act, data->act, row * e->act_dim));
  return ops->upload(ops, (float *)e->data.next_obs, data->next_obs, row * e->obs_dim);
}

int explorer_set_data(bfm_explorer *e, const ExplorerData *data) {
  TRY(explorer_ready(e));
  e->data = *data;
  e->data_tasks = e->T / (int)e->options.seeds;
  TRY(device_allocate(e->ops, data_layout, e, &e->data_memory));
  float *discount = malloc(data->count * sizeof *discount);
  int status = discount ? upload_data(e, data, discount)
                        : bfm_fail(BFM_NO_MEMORY, "out of memory for the discounts");
  free(discount);
  return status || !e->input_stats ? status : upload_stats(e, data);
}

// ------------------------------- given batches ---------------------------------------------------

static int upload(bfm_explorer *e, float *to, const float *from, int64_t cols, const char *what) {
  int64_t rows = e->T * e->N;
  if (!from) return bfm_fail(BFM_BAD_ARGUMENT, "a batch needs %s", what);
  TRY(check_finite(from, rows, cols, what));
  return e->ops->upload(e->ops, to, from, rows * cols * sizeof *to);
}

bfm_status bfm_explorer_learn(bfm_explorer *e, const bfm_explorer_batch *given) {
  NEED("explorer, batch", e, given);
  EXCLUSIVE(e);
  bfm_explorer_batch own, *batch = &own;
  TRY(sized_read(&own, sizeof own, given, SIZE_TO(bfm_explorer_batch, noise),
                 "bfm_explorer_batch"));
  ExplorerBatch *b = &e->batch[e->step % EXPLORER_AHEAD];
  TRY(explorer_ready(e));
  TRY(upload(e, b->obs, batch->obs, e->obs_dim, "obs"));
  TRY(upload(e, b->act, batch->act, e->act_dim, "act"));
  TRY(upload(e, b->reward, batch->reward, 1, "reward"));
  TRY(upload(e, b->discount, batch->discount, 1, "discount"));
  TRY(upload(e, b->next_obs, batch->next_obs, e->obs_dim, "next_obs"));
  if (batch->noise) TRY(upload(e, b->noise, batch->noise, e->act_dim, "noise"));
  else explorer_draw_noise(e, b);
  explorer_learn(e, e->step, 1, 0);
  e->step++;
  return e->ops->sync(e->ops);
}

// ------------------------------- losses ----------------------------------------------------------

int bfm_explorer_loss_count(const bfm_explorer *e) { return e->loss_count; }

const char *bfm_explorer_loss_name(const bfm_explorer *e, int index) {
  return index >= 0 && index < e->loss_count ? loss_names[e->options.algo][index] : NULL;
}

bfm_status bfm_explorer_losses(bfm_explorer *e, float *out) {
  NEED("explorer, losses", e, out);
  EXCLUSIVE(e);
  TRY(explorer_ready(e));
  int64_t n = e->net[XNET_Q].name ? e->M * e->N : 0;
  float *q = malloc((size_t)(e->T * n + 1) * sizeof *q);
  if (!q) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld values", (long)(e->T * n));
  int status = BFM_OK;
  if (n) status = e->ops->download(e->ops, q, e->tape[XNET_Q].out, e->T * n * sizeof *q);
  if (!status) status = e->ops->download(e->ops, out, e->loss, e->T * e->loss_count * sizeof *out);
  if (!status) status = e->ops->sync(e->ops);
  for (int t = 0; t < e->T && !status && n; t++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += q[t * n + i];
    out[t * e->loss_count + LOSS_Q] = (float)(sum / n);
  }
  free(q);
  TRY(status);
  for (int i = 0; i < e->T * e->loss_count; i++) {
    if (isfinite(out[i])) continue;
    return bfm_fail(BFM_DIVERGED, "%s of task %d is %s after update %ld",
                    bfm_explorer_loss_name(e, i % e->loss_count), i / e->loss_count,
                    isnan(out[i]) ? "NaN" : "infinite", (long)e->step);
  }
  return BFM_OK;
}
