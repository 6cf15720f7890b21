// The networks outside training, for any number of rows: F, B, π, and acting. Rows are computed in
// chunks. The buffers of a chunk are allocated at the first call and kept.

#include <stdlib.h>

#include "agent/agent.h"

#define CHUNK 2048      // rows at once
#define CHUNK_GPU 4096  // fewer chunks: beside a training run, each waits for the GPU

typedef struct Infer {
  int64_t rows;
  void *memory;
  Tape f, b, pi;
  float *obs, *goal, *act, *z, *z_b, *mu, *out, *q, *candidates;
} Infer;

static void infer_layout(void *agent, Arena *arena) {
  bfm_agent *a = agent;
  Infer *x = a->infer;
  Type type = a->ops->type;
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
}

void agent_free_infer(bfm_agent *a) {
  if (!a->infer) return;
  if (a->infer->memory) a->ops->release(a->ops, a->infer->memory);
  free(a->infer);
  a->infer = NULL;
}

// make buffers for `rows` rows, a chunk at most, but never for fewer than `least`
static int reserve(bfm_agent *a, int64_t rows, int64_t least) {
  int64_t chunk = agent_on_cpu(a) ? CHUNK : CHUNK_GPU, want = rows < chunk ? rows : chunk;
  want = (want > least ? want : least) + 15;
  want -= want % 16;
  if (a->infer && a->infer->rows >= want) return BFM_OK;
  agent_free_infer(a);
  Infer *x = a->infer = calloc(1, sizeof *x);
  if (!x) return bfm_fail(BFM_NO_MEMORY, "out of memory for inference");
  x->rows = want;
  int status = device_allocate(a->ops, infer_layout, a, &x->memory);
  if (status) agent_free_infer(a);
  return status;
}

static int check(bfm_agent *a, int replica, int64_t rows) {
  TRY(agent_check_replica(a, replica));
  if (rows < 1)
    return bfm_fail(BFM_BAD_ARGUMENT, "the number of rows must be 1 or more, not %ld", (long)rows);
  return BFM_OK;
}

static int put(bfm_agent *a, float *to, const float *from, int64_t row, int64_t rows, int64_t cols,
               const char *what) {
  TRY(check_finite(from + row * cols, rows, cols, what));
  return a->ops->upload(a->ops, to, from + row * cols, rows * cols * sizeof *to);
}

// upload the z of n rows: rows row … row+n-1 of z or, if all rows share one z, copies of it
static int put_z(bfm_agent *a, const float *z, int shared, int64_t row, int64_t n) {
  Ops *ops = a->ops;
  float *to = a->infer->z;
  TRY(put(a, to, z, shared ? 0 : row, shared ? 1 : n, a->d, "z"));
  for (int64_t have = 1, more; shared && have < n; have += more) {
    more = have < n - have ? have : n - have;
    ops->copy(ops, to + have * a->d, to, more * a->d * sizeof *to);
  }
  return BFM_OK;
}

// input branch `which` = [x, y], where x has x_rows rows that are repeated
static void pack(bfm_agent *a, int net, const Tape *tape, int which, const float *x, int64_t x_cols,
                 int64_t x_rows, const float *y, int64_t y_cols, int64_t rows) {
  a->ops->pack(a->ops, &(Pack){.out = tape->in[which], .ld = tape->ld_in[which], .a = x,
                               .a_cols = x_cols, .a_rows = x_rows, .b = y, .b_cols = y ? y_cols : 0,
                               .groups = 1, .copies = a->net[net].body, .rows = rows,
                               .row_stride = tape->rows});
}

static void normalize(bfm_agent *a, float *z, int64_t rows) {
  a->ops->normalize_z(a->ops, &(NormalizeZ){.z = z, .rows = rows, .d = a->d});
}

// F(obs, act, z): obs and z have `rows` rows, act has rows·repeat
static void run_f(bfm_agent *a, int replica, const float *act, int64_t rows, int64_t repeat) {
  Infer *x = a->infer;
  pack(a, NET_F, &x->f, 0, x->obs, a->obs_dim, rows, act, a->act_dim, rows * repeat);
  pack(a, NET_F, &x->f, 1, x->obs, a->obs_dim, rows, x->z, a->d, rows);
  net_forward(a->ops, &a->net[NET_F], a->net[NET_F].online, &x->f,
              (Pass){.rows = rows * repeat, .repeat = repeat, .replica = replica});
}

static void run_pi(bfm_agent *a, int replica, int64_t rows) {
  Infer *x = a->infer;
  pack(a, NET_PI, &x->pi, 0, x->obs, a->obs_dim, rows, NULL, 0, rows);
  pack(a, NET_PI, &x->pi, 1, x->obs, a->obs_dim, rows, x->z, a->d, rows);
  net_forward(a->ops, &a->net[NET_PI], a->net[NET_PI].online, &x->pi,
              (Pass){.rows = rows, .replica = replica});
  a->ops->policy_action(a->ops, &(PolicyAction){.mu = x->mu, .x = x->pi.out, .groups = 1,
                                                .rows = rows, .row_stride = rows,
                                                .act_dim = a->act_dim, .ld = x->pi.ld_out});
}

static int forward(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *act,
                   const float *z, int shared, float *out) {
  NEED("agent, out", a, out);
  TRY(check(a, replica, rows));
  TRY(reserve(a, rows, 1));
  Infer *x = a->infer;
  for (int64_t row = 0, n; row < rows; row += n) {
    n = rows - row < x->rows ? rows - row : x->rows;
    TRY(put(a, x->obs, obs, row, n, a->obs_dim, "obs"));
    TRY(put(a, x->act, act, row, n, a->act_dim, "act"));
    TRY(put_z(a, z, shared, row, n));
    normalize(a, x->z, n);
    run_f(a, replica, x->act, n, 1);
    for (int m = 0; m < a->M; m++) {
      TRY(a->ops->download(a->ops, out + (m * rows + row) * a->d, x->f.out + m * x->rows * a->d,
                           n * a->d * sizeof *out));
    }
  }
  return a->ops->sync(a->ops);
}

bfm_status bfm_agent_F(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *act,
                       const float *z, float *out) {
  return forward(a, replica, rows, obs, act, z, 0, out);
}

bfm_status bfm_agent_F_one_z(bfm_agent *a, int replica, int64_t rows, const float *obs,
                             const float *act, const float *z, float *out) {
  return forward(a, replica, rows, obs, act, z, 1, out);
}

static int backward(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
                    int shared, float *out) {
  NEED("agent, out", a, out);
  Ops *ops = a->ops;
  TRY(check(a, replica, rows));
  TRY(reserve(a, rows, 1));
  Infer *x = a->infer;
  if (a->K > 1 && !z) return bfm_fail(BFM_BAD_ARGUMENT, "B of %ld blocks needs z", (long)a->K);
  for (int64_t row = 0, n; row < rows; row += n) {
    n = rows - row < x->rows ? rows - row : x->rows;
    TRY(put(a, x->obs, obs, row, n, a->obs_dim, "obs"));
    agent_select_goal(a, x->goal, x->obs, n);
    if (a->K > 1) {
      TRY(put_z(a, z, shared, row, n));
      ops->residual_norm(
          ops, &(ResidualNorm){.y = x->z_b, .z = x->z, .rows = n, .d = a->d, .blocks = a->K});
    }
    pack(a, NET_B, &x->b, 0, x->goal, a->goal_dim, n, NULL, 0, n);
    pack(a, NET_B, &x->b, 1, x->goal, a->goal_dim, n, a->K > 1 ? x->z_b : NULL, a->d, n);
    net_forward(ops, &a->net[NET_B], a->net[NET_B].online, &x->b,
                (Pass){.rows = n, .replica = replica});
    if (a->config.b_norm) {
      ops->block_norm(
          ops, &(BlockNorm){.y = x->out, .x = x->b.out, .rows = n, .d = a->d, .blocks = a->K});
    }
    TRY(ops->download(ops, out + row * a->d, a->config.b_norm ? x->out : x->b.out,
                      n * a->d * sizeof *out));
  }
  return ops->sync(ops);
}

bfm_status bfm_agent_B(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
                       float *out) {
  return backward(a, replica, rows, obs, z, 0, out);
}

bfm_status bfm_agent_B_one_z(bfm_agent *a, int replica, int64_t rows, const float *obs,
                             const float *z, float *out) {
  return backward(a, replica, rows, obs, z, 1, out);
}

// ------------------------------- acting ----------------------------------------------------------

// for each of the n rows in the buffers, take the best by F·z of `samples` actions around mu
static void best_of(bfm_agent *a, int replica, int64_t n, int64_t samples, uint64_t seed,
                    uint64_t step, int64_t first_row) {
  Ops *ops = a->ops;
  Infer *x = a->infer;
  ops->es_sample(ops, &(EsSample){.out = x->candidates, .mu = x->mu, .seed = seed, .step = step,
                                  .rows = n, .samples = samples, .act_dim = a->act_dim,
                                  .first_row = first_row, .sigma = (float)a->config.sigma});
  run_f(a, replica, x->candidates, n, samples);
  ops->row_dot(ops, &(RowDot){.out = x->q, .a = x->f.out, .z = x->z, .replicas = 1, .members = a->M,
                              .rows = n * samples, .row_stride = x->rows, .d = a->d, .z_rows = n});
  ops->es_pick(ops, &(EsPick){.act = x->act, .candidates = x->candidates, .q = x->q, .rows = n,
                              .samples = samples, .act_dim = a->act_dim, .members = a->M,
                              .q_stride = n * samples});
}

static int choose_actions(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
                          int shared, int es, uint64_t seed, uint64_t step, float *act) {
  TRY(check(a, replica, rows));
  if (es < 0 || es > 4096) return bfm_fail(BFM_BAD_ARGUMENT, "es must be 0 to 4096, not %d", es);
  int64_t each = es ? es : 1;
  TRY(reserve(a, rows * each, each));
  Infer *x = a->infer;
  int64_t most = x->rows / each;
  for (int64_t row = 0, n; row < rows; row += n) {
    n = rows - row < most ? rows - row : most;
    TRY(put(a, x->obs, obs, row, n, a->obs_dim, "obs"));
    TRY(put_z(a, z, shared, row, n));
    normalize(a, x->z, n);
    run_pi(a, replica, n);
    if (es) best_of(a, replica, n, es, seed, step, row);
    TRY(a->ops->download(a->ops, act + row * a->act_dim, es ? x->act : x->mu,
                         n * a->act_dim * sizeof *act));
  }
  return a->ops->sync(a->ops);
}

bfm_status bfm_agent_act(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
                         int es, uint64_t seed, uint64_t step, float *act) {
  NEED("agent, act", a, act);
  return choose_actions(a, replica, rows, obs, z, 0, es, seed, step, act);
}

bfm_status bfm_agent_act_one_z(bfm_agent *a, int replica, int64_t rows, const float *obs,
                               const float *z, int es, uint64_t seed, uint64_t step, float *act) {
  NEED("agent, act", a, act);
  return choose_actions(a, replica, rows, obs, z, 1, es, seed, step, act);
}

bfm_status bfm_agent_pi(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *z,
                        float *out) {
  NEED("agent, out", a, out);
  return choose_actions(a, replica, rows, obs, z, 0, 0, 0, 0, out);
}

bfm_status bfm_agent_pi_one_z(bfm_agent *a, int replica, int64_t rows, const float *obs,
                              const float *z, float *out) {
  NEED("agent, out", a, out);
  return choose_actions(a, replica, rows, obs, z, 1, 0, 0, 0, out);
}
