// Encoding: from many states and a weight for each (a reward, or 1/n for states to reach) to z.
//
//   z_i = E[r(s)·B_i(s, z_1 … z_i-1)], i = 1 … K
//
// Block i needs z_i-1, which is a sum over all states: K passes over the states. In pass i only the
// units of block i are new in each layer, so the activations of earlier blocks are kept and the K
// passes cost about as much as one. States beyond KEEP are computed anew in each pass.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/workspace.h"
#include "core/cholesky.h"
#include "core/deadline.h"

#define KEEP 131072  // states whose activations are kept between passes

static void encoder_layout(void *workspace, Arena *arena) {
  Workspace *w = workspace;
  Encoder *p = &w->encoder;
  const bfm_agent *a = w->agent;
  const Net *net = &a->net[NET_B];
  size_t size = type_size(w->ops->type);
  int64_t rows = p->apart ? p->kept + p->chunk : p->chunk;
  tape_layout(&p->tape, net, w->ops->type, TAPE_INFER, 1, p->chunk, arena);
  if (p->apart) {
    p->act = arena_take(arena, p->kept * net->hidden * size);
    p->cat = arena_take(arena, p->kept * 2 * net->feat * size);
    for (int i = 0; i < net->layers; i++)
      p->trunk[i] = arena_take(arena, p->kept * net->hidden * size);
  }
  p->states = floats(arena, rows * a->goal_dim);
  p->w = floats(arena, rows);
  if (a->goal_columns) p->whole = floats(arena, p->chunk * a->obs_dim);
  p->z_b = floats(arena, a->d);
  p->b = floats(arena, p->chunk * a->d);
  p->sum = arena_take(arena, a->d * sizeof(double));
}

// the tape of the chunk that begins at row `at`; it points to the kept activations, if there are any
static Tape chunk_tape(const Workspace *w, int64_t at) {
  const Encoder *p = &w->encoder;
  const Net *net = &w->agent->net[NET_B];
  int64_t size = type_size(w->ops->type), hidden = at * net->hidden * size;
  Tape tape = p->tape;
  if (at >= p->kept || !p->apart) return tape;
  tape.pre[1] = tape.act[1] = (char *)p->act + hidden;
  tape.x[0] = tape.x_pre[0] = (char *)p->cat + at * 2 * net->feat * size;
  for (int i = 0; i < net->layers; i++) {
    tape.x[i + 1] = tape.x_pre[i + 1] = (char *)p->trunk[i] + hidden;
  }
  return tape;
}

void encoder_free(Workspace *w) {
  if (w->encoder.memory) w->ops->release(w->ops, w->encoder.memory);
  w->encoder = (Encoder){.rows = 0};
}

// make the buffers large enough for `rows` states
static int reserve(Workspace *w, int64_t rows) {
  const bfm_agent *a = w->agent;
  Encoder *p = &w->encoder;
  int64_t most = agent_on_cpu(a) ? 2048 : KEEP, chunk = rows < most ? rows : most;
  int64_t kept = a->K == 1 ? 0 : rows < KEEP ? rows : KEEP;
  int apart = a->K > 1 && rows > chunk;
  kept = (kept + chunk - 1) / chunk * chunk;
  if (p->memory && p->chunk >= chunk && p->kept >= kept && p->apart >= apart) return BFM_OK;
  encoder_free(w);
  *p = (Encoder){.chunk = chunk, .kept = kept, .apart = apart};
  int status = device_allocate(w->ops, encoder_layout, w, &p->memory);
  if (status) encoder_free(w);
  return status;
}

// upload the states of a chunk, as B sees them, and their weights
static int put_states(Workspace *w, int64_t row, int64_t n, int64_t at) {
  const bfm_agent *a = w->agent;
  const Encoder *p = &w->encoder;
  Ops *ops = w->ops;
  float *to = p->states + at * a->goal_dim;
  TRY(ops->upload(ops, p->w + at, p->weight + row, n * sizeof *p->w));
  TRY(ops->upload(ops, p->whole ? p->whole : to, p->obs + row * a->obs_dim,
                  n * a->obs_dim * sizeof *p->obs));
  agent_select_goal(a, ops, to, p->whole, n);
  return BFM_OK;
}

// upload z, normalized as B expects it
static int put_z(Workspace *w, const float *z) {
  const bfm_agent *a = w->agent;
  float *z_b = w->encoder.z_b;
  TRY(w->ops->upload(w->ops, z_b, z, a->d * sizeof *z));
  w->ops->residual_norm(w->ops,
                        &(ResidualNorm){.y = z_b, .z = z_b, .rows = 1, .d = a->d, .blocks = a->K});
  return BFM_OK;
}

// compute blocks first … end-1 of B for the n states that begin at row `at`
static void run_b(Workspace *w, int64_t at, int64_t n, int64_t first, int64_t end) {
  const bfm_agent *a = w->agent;
  const Encoder *p = &w->encoder;
  Ops *ops = w->ops;
  Tape tape = chunk_tape(w, at);
  Pack pack = {.out = tape.in[0], .ld = tape.ld_in[0], .a = p->states + at * a->goal_dim,
               .a_cols = a->goal_dim, .groups = 1, .copies = 1, .rows = n, .row_stride = tape.rows};
  if (!first) ops->pack(ops, &pack);
  pack.out = tape.in[1], pack.ld = tape.ld_in[1];
  if (a->K > 1) {
    pack.b = p->z_b;
    pack.b_rows = 1;
    pack.b_cols = a->d;
  }
  ops->pack(ops, &pack);
  net_forward(ops, &a->net[NET_B], a->net[NET_B].online, &tape,
              (Pass){.rows = n, .replica = p->replica, .first_block = first, .end_block = end});
  agent_b_output(a, ops, p->b, tape.out, n);
}

// columns lo … hi-1 of Σ weight·B, given the blocks of z before k
static int sum_block(Workspace *w, int64_t k, int64_t lo, int64_t hi, double *sum) {
  const bfm_agent *a = w->agent;
  const Encoder *p = &w->encoder;
  Ops *ops = w->ops;
  ops->zero(ops, p->sum, a->d * sizeof *p->sum);
  for (int64_t row = 0, n; row < p->rows; row += n) {
    n = p->rows - row < p->chunk ? p->rows - row : p->chunk;
    int kept = row + n <= p->kept;
    int64_t at = kept ? row : p->kept;
    TRY(deadline_check());
    if (!kept || k == 0) TRY(put_states(w, row, n, at));
    run_b(w, at, n, kept ? k : 0, k + 1);
    ops->weighted_sum(ops, &(WeightedSum){.out = p->sum + lo, .w = p->w + at, .x = p->b + lo,
                                          .rows = n, .ld = a->d, .cols = hi - lo});
  }
  TRY(ops->download(ops, sum, p->sum + lo, (hi - lo) * sizeof *sum));
  return ops->sync(ops);
}

static int encode_blocks(Workspace *w, float *z) {
  const bfm_agent *a = w->agent;
  double sum[4096];
  memset(z, 0, a->d * sizeof *z);
  for (int64_t k = 0; k < a->K; k++) {
    int64_t lo = block_start(k, a->d, a->K), hi = block_start(k + 1, a->d, a->K);
    if (a->K > 1) TRY(put_z(w, z));
    TRY(sum_block(w, k, lo, hi, sum));
    for (int64_t i = lo; i < hi; i++) z[i] = (float)sum[i - lo];
  }
  return BFM_OK;
}

// ------------------------------- least squares ---------------------------------------------------

// z = (E φφᵀ)⁻¹·z for lap, whose features are only nearly orthonormal. A small ridge keeps z finite
// where the states do not span all features.
static int solve_least_squares(Workspace *w, float *z) {
  const Encoder *p = &w->encoder;
  int64_t d = w->agent->d;
  double *gram = calloc(d * d, sizeof *gram), *right = calloc(d, sizeof *right);
  float *phi = malloc(p->chunk * d * sizeof *phi);
  int status =
      gram && right && phi ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for least squares");
  for (int64_t row = 0, n; row < p->rows && !status; row += n) {
    n = p->rows - row < p->chunk ? p->rows - row : p->chunk;
    status = deadline_check();
    if (!status) status = put_states(w, row, n, 0);
    if (!status) run_b(w, 0, n, 0, 1);
    if (!status) status = w->ops->download(w->ops, phi, p->b, n * d * sizeof *phi);
    for (int64_t i = 0; i < n && !status; i++) {
      for (int64_t j = 0; j < d; j++) {
        for (int64_t k = 0; k <= j; k++) gram[j * d + k] += (double)phi[i * d + j] * phi[i * d + k];
      }
    }
  }
  if (!status) {
    double trace = 0;
    for (int64_t j = 0; j < d; j++) trace += gram[j * d + j];
    for (int64_t j = 0; j < d; j++) {
      gram[j * d + j] += GRAM_RIDGE * trace / d;
      for (int64_t k = 0; k <= j; k++) gram[j * d + k] /= p->rows;
      right[j] = z[j];
    }
    if (cholesky(gram, d)) {
      status =
          bfm_fail(BFM_BAD_ARGUMENT,
                   "the features of all these states are zero: no z can be computed from them");
    } else {
      cholesky_solve(gram, right, d);
    }
    for (int64_t j = 0; j < d && !status; j++) z[j] = (float)right[j];
  }
  free(gram);
  free(right);
  free(phi);
  return status;
}

// ------------------------------- from weights to z -----------------------------------------------

// The networks normalize z to the norm √d. They compute the norm in float32, where the square of one
// above 1e18 overflows, and that of one below 1e-18 is 0.
int agent_check_z(const float *z, int64_t d) {
  double square = 0;
  for (int64_t i = 0; i < d; i++) square += (double)z[i] * z[i];
  if (isnan(square)) return bfm_fail(BFM_BAD_ARGUMENT, "z is not finite: B overflows");
  if (square < 1e-36) {
    return bfm_fail(BFM_BAD_ARGUMENT, "z has the norm %.3g: it says nothing to the agent",
                    sqrt(square));
  }
  if (square <= 1e36) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "z has the norm %.3g, above 1e18: scale the reward down",
                  sqrt(square));
}

static int encode_in(Workspace *w, int replica, int64_t rows, const float *obs, const float *weight,
                     int least_squares, float *z) {
  Encoder *p = &w->encoder;
  TRY(reserve(w, rows));
  p->replica = replica, p->rows = rows, p->obs = obs, p->weight = weight;
  TRY(encode_blocks(w, z));
  if (least_squares) TRY(solve_least_squares(w, z));
  return agent_check_z(z, w->agent->d);
}

static int encode(bfm_agent *a, int replica, int64_t rows, const float *obs, const float *weight,
                  int least_squares, float *z) {
  TRY(agent_check_replica(a, replica));
  TRY(check_finite(obs, rows, a->obs_dim, "obs"));
  TRY(agent_check_obs(obs, rows, a->obs_dim));
  WORKSPACE(w, a);
  return encode_in(w, replica, rows, obs, weight, least_squares, z);
}

bfm_status bfm_agent_prompt_reward(bfm_agent *a, int replica, int64_t rows, const float *obs,
                                   const float *reward, double softmax, float *z) {
  NEED("agent, z", a, z);
  SHARED(a);
  if (softmax < 0 || !isfinite(softmax)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "softmax must be a temperature above 0, or 0 for plain rewards, not %g",
                    softmax);
  }
  if (rows < 1)
    return bfm_fail(BFM_BAD_ARGUMENT, "a prompt needs at least one state, not %ld", (long)rows);
  TRY(check_finite(reward, rows, 1, "reward"));
  float *weight = malloc(rows * sizeof *weight);
  if (!weight) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld rewards", (long)rows);
  double highest = -INFINITY, largest = 0, sum = 0;
  for (int64_t i = 0; i < rows; i++) {
    highest = fmax(highest, reward[i]);
    largest = fmax(largest, fabsf(reward[i]));
  }
  if (largest == 0 && softmax == 0) {
    free(weight);
    return bfm_fail(BFM_BAD_ARGUMENT, "the reward is 0 in all %ld states: no z follows from it",
                    (long)rows);
  }
  // only the direction of z matters, and in float32 a z that is too short has none
  double scale = largest > 0 && largest < 1e-6 ? 1 / largest : 1;
  for (int64_t i = 0; i < rows && softmax > 0; i++) sum += exp((reward[i] - highest) / softmax);
  for (int64_t i = 0; i < rows; i++) {
    weight[i] = (float)(softmax > 0 ? exp((reward[i] - highest) / softmax) / sum
                                    : reward[i] * scale / (double)rows);
  }
  int status = encode(a, replica, rows, obs, weight, a->laplacian, z);
  free(weight);
  return status;
}

bfm_status bfm_agent_prompt_states(bfm_agent *a, int replica, int64_t rows, const float *obs,
                                   float *z) {
  NEED("agent, obs, z", a, obs, z);
  SHARED(a);
  if (rows < 1 || rows > INT32_MAX) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a prompt needs 1 to %d states, not %ld", INT32_MAX,
                    (long)rows);
  }
  float *weight = malloc((size_t)rows * sizeof *weight);
  if (!weight) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld states", (long)rows);
  for (int64_t i = 0; i < rows; i++) weight[i] = (float)(1.0 / rows);
  int status = encode(a, replica, rows, obs, weight, 0, z);
  free(weight);
  return status;
}
