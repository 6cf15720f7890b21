// The networks outside training, for any number of rows: F, B, π, and acting. Rows are computed in
// chunks. The buffers of a chunk are allocated at the first call and kept.

#include <math.h>
#include <stdlib.h>

#include "agent/workspace.h"

#define CHUNK 2048      // rows at once
#define CHUNK_GPU 4096  // fewer chunks: beside a training run, each waits for the GPU

// ------------------------------- buffers ---------------------------------------------------------

static void infer_layout(void *workspace, Arena *arena) {
  Workspace *w = workspace;
  const bfm_agent *a = w->agent;
  Infer *x = &w->infer;
  Type type = w->ops->type;
  int64_t rows = x->rows;
  tape_layout(&x->f, &a->net[NET_F], type, TAPE_INFER, 1, rows, arena);
  tape_layout(&x->b, &a->net[NET_B], type, TAPE_INFER, 1, rows, arena);
  tape_layout(&x->pi, &a->net[NET_PI], type, TAPE_INFER, 1, rows, arena);
  x->obs = floats(arena, rows * a->obs_dim);
  x->goal = a->goal_columns ? floats(arena, rows * a->goal_dim) : x->obs;
  x->act = floats(arena, rows * a->act_dim);
  x->z = floats(arena, rows * a->d);
  x->z_b = floats(arena, rows * a->d);
  x->mu = floats(arena, rows * a->act_dim);
  x->out = floats(arena, rows * a->d);
  x->q = floats(arena, rows * a->M);
  x->candidates = floats(arena, rows * a->act_dim);
  if (agent_on_cpu(a) && type == F32) x->few = floats(arena, few_scratch(a));
}

void infer_free(Workspace *w) {
  if (w->infer.memory) w->ops->release(w->ops, w->infer.memory);
  w->infer = (Infer){.rows = 0};
}

// make buffers for `rows` rows, a chunk at most, but never for fewer than `least`
static int reserve(Workspace *w, int64_t rows, int64_t least) {
  int64_t chunk = agent_on_cpu(w->agent) ? CHUNK : CHUNK_GPU, want = rows < chunk ? rows : chunk;
  want = (want > least ? want : least) + 15;
  want -= want % 16;
  if (w->infer.rows >= want) return BFM_OK;
  infer_free(w);
  w->infer.rows = want;
  int status = device_allocate(w->ops, infer_layout, w, &w->infer.memory);
  if (status) infer_free(w);
  return status;
}

// ------------------------------- inputs ----------------------------------------------------------

static int check(const bfm_agent *a, int replica, int64_t rows) {
  TRY(agent_check_replica(a, replica));
  if (rows >= 1) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "the number of rows must be 1 or more, not %ld", (long)rows);
}

static int put(Workspace *w, float *to, const float *from, int64_t row, int64_t rows, int64_t cols,
               const char *what) {
  if (from) from += row * cols;  // NULL is an error of check_finite
  TRY(check_finite(from, rows, cols, what));
  return w->ops->upload(w->ops, to, from, rows * cols * sizeof *to);
}

static int put_obs(Workspace *w, const float *obs, int64_t row, int64_t n) {
  int64_t cols = w->agent->obs_dim;
  TRY(put(w, w->infer.obs, obs, row, n, cols, "obs"));
  return agent_check_obs(obs + row * cols, n, cols);
}

// upload the z of n rows: rows row … row+n-1 of z or, if all rows share one z, copies of it
static int put_z(Workspace *w, const float *z, int shared, int64_t row, int64_t n) {
  Ops *ops = w->ops;
  int64_t d = w->agent->d;
  float *to = w->infer.z;
  TRY(put(w, to, z, shared ? 0 : row, shared ? 1 : n, d, "z"));
  for (int64_t have = 1, more; shared && have < n; have += more) {
    more = have < n - have ? have : n - have;
    ops->copy(ops, to + have * d, to, more * d * sizeof *to);
  }
  return BFM_OK;
}

// F and π see z on the sphere of radius √d, where a z of zeros has no place
static int put_unit_z(Workspace *w, const float *z, int shared, int64_t row, int64_t n) {
  int64_t d = w->agent->d;
  TRY(put_z(w, z, shared, row, n));
  for (int64_t i = shared ? 0 : row; i < (shared ? 1 : row + n); i++) {
    TRY(agent_check_z(z + i * d, d));
  }
  w->ops->normalize_z(w->ops, &(NormalizeZ){.z = w->infer.z, .rows = n, .d = d});
  return BFM_OK;
}

// input branch `which` = [x, y], where x has x_rows rows that are repeated
static void pack(Workspace *w, int net, const Tape *tape, int which, const float *x, int64_t x_cols,
                 int64_t x_rows, const float *y, int64_t y_cols, int64_t rows) {
  w->ops->pack(w->ops, &(Pack){.out = tape->in[which], .ld = tape->ld_in[which], .a = x,
                               .a_cols = x_cols, .a_rows = x_rows, .b = y, .b_cols = y ? y_cols : 0,
                               .groups = 1, .copies = w->agent->net[net].body, .rows = rows,
                               .row_stride = tape->rows});
}

// ------------------------------- networks --------------------------------------------------------

// the network on the inputs in its tape: rows·repeat rows, and `rows` rows of input 1
static void run(Workspace *w, int net, const Tape *tape, int replica, int64_t rows,
                int64_t repeat) {
  if (few_are(w, rows * repeat)) {
    few_forward(w, net, tape, replica, rows, repeat);
  } else {
    net_forward(w->ops, &w->agent->net[net], w->agent->net[net].online, tape,
                (Pass){.rows = rows * repeat, .repeat = repeat, .replica = replica});
  }
}

// F(obs, act, z): obs and z have `rows` rows, act has rows·repeat
static void run_f(Workspace *w, int replica, const float *act, int64_t rows, int64_t repeat) {
  const bfm_agent *a = w->agent;
  Infer *x = &w->infer;
  pack(w, NET_F, &x->f, 0, x->obs, a->obs_dim, rows, act, a->act_dim, rows * repeat);
  pack(w, NET_F, &x->f, 1, x->obs, a->obs_dim, rows, x->z, a->d, rows);
  run(w, NET_F, &x->f, replica, rows, repeat);
}

static void run_pi(Workspace *w, int replica, int64_t rows) {
  const bfm_agent *a = w->agent;
  Infer *x = &w->infer;
  pack(w, NET_PI, &x->pi, 0, x->obs, a->obs_dim, rows, NULL, 0, rows);
  pack(w, NET_PI, &x->pi, 1, x->obs, a->obs_dim, rows, x->z, a->d, rows);
  run(w, NET_PI, &x->pi, replica, rows, 1);
  w->ops->policy_action(w->ops, &(PolicyAction){.mu = x->mu, .x = x->pi.out, .groups = 1,
                                                .rows = rows, .row_stride = rows,
                                                .act_dim = a->act_dim, .ld = x->pi.ld_out});
}

static int forward(Workspace *w, int replica, int64_t rows, const float *obs, const float *act,
                   const float *z, int shared, float *out) {
  const bfm_agent *a = w->agent;
  Infer *x = &w->infer;
  TRY(reserve(w, rows, 1));
  for (int64_t row = 0, n; row < rows; row += n) {
    n = rows - row < x->rows ? rows - row : x->rows;
    TRY(put_obs(w, obs, row, n));
    TRY(put(w, x->act, act, row, n, a->act_dim, "act"));
    TRY(put_unit_z(w, z, shared, row, n));
    run_f(w, replica, x->act, n, 1);
    for (int m = 0; m < a->M; m++) {
      TRY(w->ops->download(w->ops, out + (m * rows + row) * a->d, x->f.out + m * x->rows * a->d,
                           n * a->d * sizeof *out));
    }
  }
  return w->ops->sync(w->ops);
}

static int backward(Workspace *w, int replica, int64_t rows, const float *obs, const float *z,
                    int shared, float *out) {
  const bfm_agent *a = w->agent;
  Ops *ops = w->ops;
  Infer *x = &w->infer;
  TRY(reserve(w, rows, 1));
  for (int64_t row = 0, n; row < rows; row += n) {
    n = rows - row < x->rows ? rows - row : x->rows;
    TRY(put_obs(w, obs, row, n));
    agent_select_goal(a, ops, x->goal, x->obs, n);
    if (a->K > 1) {
      TRY(put_z(w, z, shared, row, n));
      ops->residual_norm(
          ops, &(ResidualNorm){.y = x->z_b, .z = x->z, .rows = n, .d = a->d, .blocks = a->K});
    }
    pack(w, NET_B, &x->b, 0, x->goal, a->goal_dim, n, NULL, 0, n);
    pack(w, NET_B, &x->b, 1, x->goal, a->goal_dim, n, a->K > 1 ? x->z_b : NULL, a->d, n);
    run(w, NET_B, &x->b, replica, n, 1);
    agent_b_output(a, ops, x->out, x->b.out, n);
    TRY(ops->download(ops, out + row * a->d, x->out, n * a->d * sizeof *out));
  }
  return ops->sync(ops);
}

// for each of the n rows in the buffers, take the best of `samples` actions around mu: the one with
// the highest F·z, or, with es-base gain, the one whose gain over mu no member of F doubts most
static void best_of(Workspace *w, int replica, int64_t n, int64_t samples, uint64_t seed,
                    uint64_t step, int64_t first_row) {
  const bfm_agent *a = w->agent;
  Ops *ops = w->ops;
  Infer *x = &w->infer;
  int base = a->config.es_base, gain = base == ES_BASE_GAIN;
  ops->es_sample(ops, &(EsSample){.out = x->candidates, .mu = x->mu, .seed = seed, .step = step,
                                  .rows = n, .samples = samples, .act_dim = a->act_dim,
                                  .first_row = first_row, .sigma = (float)a->config.sigma,
                                  .mean_first = gain});
  run_f(w, replica, x->candidates, n, samples);
  ops->row_dot(ops, &(RowDot){.out = x->q, .a = x->f.out, .z = x->z, .replicas = 1, .members = a->M,
                              .rows = n * samples, .row_stride = x->rows, .d = a->d, .z_rows = n});
  ops->es_pick(ops, &(EsPick){.act = x->act, .candidates = x->candidates, .q = x->q, .rows = n,
                              .samples = samples, .act_dim = a->act_dim, .members = a->M,
                              .q_stride = n * samples, .min_members = base != ES_BASE_MEAN,
                              .gain = gain});
}

// no robot is ever sent a NaN: finite observations can be so large that the networks overflow
static int check_actions(const float *act, int64_t row, int64_t rows, int64_t act_dim) {
  for (int64_t i = row * act_dim; i < (row + rows) * act_dim; i++) {
    if (isfinite(act[i])) continue;
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "the action of row %ld is not finite: its observation is far beyond those of "
                    "the training data",
                    (long)(i / act_dim));
  }
  return BFM_OK;
}

static int choose_actions(Workspace *w, int replica, int64_t rows, const float *obs, const float *z,
                          int shared, int es, uint64_t seed, uint64_t step, float *act) {
  const bfm_agent *a = w->agent;
  Infer *x = &w->infer;
  int64_t each = es ? es : 1;
  TRY(reserve(w, rows * each, each));
  int64_t most = x->rows / each;
  for (int64_t row = 0, n; row < rows; row += n) {
    n = rows - row < most ? rows - row : most;
    TRY(put_obs(w, obs, row, n));
    TRY(put_unit_z(w, z, shared, row, n));
    run_pi(w, replica, n);
    if (es) best_of(w, replica, n, es, seed, step, row);
    TRY(w->ops->download(w->ops, act + row * a->act_dim, es ? x->act : x->mu,
                         n * a->act_dim * sizeof *act));
    TRY(w->ops->sync(w->ops));
    TRY(check_actions(act, row, n, a->act_dim));
  }
  return BFM_OK;
}

// ------------------------------- public ----------------------------------------------------------

static int f(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *act,
             const float *z, int shared, float *out) {
  TRY(check(a, replica, rows));
  WORKSPACE(w, a);
  return forward(w, replica, rows, obs, act, z, shared, out);
}

static int b(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z, int shared,
             float *out) {
  TRY(check(a, replica, rows));
  if (a->K > 1 && !z) return bfm_fail(BFM_BAD_ARGUMENT, "B of %ld blocks needs z", (long)a->K);
  WORKSPACE(w, a);
  return backward(w, replica, rows, obs, z, shared, out);
}

static int act(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
               int shared, int es, uint64_t seed, uint64_t step, float *out) {
  TRY(check(a, replica, rows));
  if (es < 0 || es > 4096) return bfm_fail(BFM_BAD_ARGUMENT, "es must be 0 to 4096, not %d", es);
  WORKSPACE(w, a);
  return choose_actions(w, replica, rows, obs, z, shared, es, seed, step, out);
}

bfm_status bfm_agent_F(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *act,
                       const float *z, float *out) {
  NEED("agent, out", a, out);
  SHARED(a);
  return f(a, replica, rows, obs, act, z, 0, out);
}

bfm_status bfm_agent_F_one_z(bfm_agent *a, int replica, int64_t rows, const float *obs,
                             const float *act, const float *z, float *out) {
  NEED("agent, out", a, out);
  SHARED(a);
  return f(a, replica, rows, obs, act, z, 1, out);
}

bfm_status bfm_agent_B(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
                       float *out) {
  NEED("agent, out", a, out);
  SHARED(a);
  return b(a, replica, rows, obs, z, 0, out);
}

bfm_status bfm_agent_B_one_z(bfm_agent *a, int replica, int64_t rows, const float *obs,
                             const float *z, float *out) {
  NEED("agent, out", a, out);
  SHARED(a);
  return b(a, replica, rows, obs, z, 1, out);
}

bfm_status bfm_agent_act(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
                         int es, uint64_t seed, uint64_t step, float *out) {
  NEED("agent, act", a, out);
  SHARED(a);
  return act(a, replica, rows, obs, z, 0, es, seed, step, out);
}

bfm_status bfm_agent_act_one_z(bfm_agent *a, int replica, int64_t rows, const float *obs,
                               const float *z, int es, uint64_t seed, uint64_t step, float *out) {
  NEED("agent, act", a, out);
  SHARED(a);
  return act(a, replica, rows, obs, z, 1, es, seed, step, out);
}

bfm_status bfm_agent_pi(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
                        float *out) {
  NEED("agent, out", a, out);
  SHARED(a);
  return act(a, replica, rows, obs, z, 0, 0, 0, 0, out);
}

bfm_status bfm_agent_pi_one_z(bfm_agent *a, int replica, int64_t rows, const float *obs,
                              const float *z, float *out) {
  NEED("agent, out", a, out);
  SHARED(a);
  return act(a, replica, rows, obs, z, 1, 0, 0, 0, out);
}
