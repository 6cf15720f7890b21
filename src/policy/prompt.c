// From observations to z: z_i = E[r·B_i(s, z_1 … z_i-1)], block by block. The sums are kept in double
// precision, so that observations may come one by one and in any number.

#include "policy/policy.h"

struct bfm_policy_prompt {
  const bfm_policy *policy;
  uint64_t id;  // of the policy: another one may be loaded to the same place
  int pass, over, least_squares;
  long long rows, first_rows;  // of this pass and of the first
  double largest;              // of the weights
  double *sum;                 // [d]
  double *gram;                // [d, d], lower triangle, for least squares
  double *right;               // [d]
  float *z, *z_b;              // [d]
};

static size_t lay_out_prompt(const bfm_policy *p, int least_squares, char *base,
                             bfm_policy_prompt *out) {
  PolicyRoom room = {base, 0};
  size_t d = (size_t)p->info.d;
  policy_take(&room, sizeof *out);
  out->sum = (double *)policy_take(&room, d * sizeof(double));
  out->right = (double *)policy_take(&room, d * sizeof(double));
  out->z = (float *)policy_take(&room, d * sizeof(float));
  out->z_b = (float *)policy_take(&room, d * sizeof(float));
  if (least_squares) out->gram = (double *)policy_take(&room, d * d * sizeof(double));
  return room.used;
}

// lap's features are only nearly orthonormal, so rewards are solved for by least squares
static int needs_squares(const bfm_policy *p, bfm_policy_prompt_kind kind) {
  return p->laplacian && kind == BFM_POLICY_REWARDS;
}

size_t bfm_policy_prompt_bytes(const bfm_policy *policy, bfm_policy_prompt_kind kind) {
  bfm_policy_prompt unused;
  return policy ? lay_out_prompt(policy, needs_squares(policy, kind), NULL, &unused) : 0;
}

bfm_policy_status bfm_policy_prompt_init(bfm_policy_prompt **prompt, const bfm_policy *policy,
                                         bfm_policy_prompt_kind kind, void *memory, size_t bytes,
                                         bfm_policy_error *error) {
  policy_clear(error);
  if (!prompt || !policy) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "prompt or policy is NULL");
  }
  *prompt = NULL;
  if (!memory || (uintptr_t)memory % 64) {
    return policy_fail(error, BFM_POLICY_BAD_MEMORY,
                       "the memory of a prompt must lie at a multiple of 64 bytes");
  }
  size_t needed = bfm_policy_prompt_bytes(policy, kind);
  if (bytes < needed) {
    return policy_fail_at(error, BFM_POLICY_BAD_MEMORY, "the prompt needs ", (double)needed,
                          " bytes of memory: ask bfm_policy_prompt_bytes");
  }
  bfm_policy_prompt *p = (bfm_policy_prompt *)memory;
  memset(memory, 0, needed);
  lay_out_prompt(policy, needs_squares(policy, kind), (char *)memory, p);
  p->policy = policy, p->id = policy->id;
  p->least_squares = needs_squares(policy, kind);
  *prompt = p;
  return BFM_POLICY_OK;
}

// ------------------------------- features --------------------------------------------------------

// B of up to w->rows observations, blocks 0 … end-1, to w->out. z_b: z as B sees it, with blocks
static void run_b(const bfm_policy *p, bfm_policy_work *w, const float *obs, int rows,
                  const float *z_b, int end) {
  int n = p->goal_dim, d = p->info.d, z = p->b.z;
  PolicyPass pass;
  memset(&pass, 0, sizeof pass);
  for (int i = 0; i < rows; i++) {
    float *in0 = w->in0 + (size_t)i * (size_t)n, *in1 = w->in1 + (size_t)i * (size_t)(n + z);
    const float *from = obs + (size_t)i * (size_t)p->info.obs_dim;
    for (int j = 0; j < n; j++) in0[j] = in1[j] = from[p->goal ? p->goal[j] : j];
    if (z) memcpy(in1 + n, z_b, (size_t)z * sizeof *in1);
  }
  pass.kernels = p->kernels, pass.net = &p->b;
  pass.in[0] = w->in0, pass.in[1] = w->in1;
  pass.rows = pass.rows1 = rows;
  pass.end_block = end;
  pass.scratch = w->scratch, pass.out = w->out;
  policy_forward(&pass);
  for (int i = 0; i < rows && p->b_norm; i++) {
    policy_block_norm(w->out + (size_t)i * (size_t)d, d, p->info.blocks);
  }
}

static bfm_policy_status check_rows(const bfm_policy *p, const bfm_policy_work *w, long long rows,
                                    const float *obs, bfm_policy_error *error) {
  bfm_policy_status status = BFM_POLICY_OK;
  if (!p || !w || !policy_owns(p, w) || !obs) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT,
                       "policy or obs is NULL, or the workspace is of another model");
  }
  if (rows < 1) {
    return policy_fail_at(error, BFM_POLICY_BAD_ARGUMENT,
                          "the number of observations must be 1 or more, not ", (double)rows, "");
  }
  for (long long i = 0; i < rows && !status; i++) {
    status = policy_check_obs(p, obs + i * p->info.obs_dim, error);
  }
  return status;
}

static bfm_policy_status features(const bfm_policy *policy, bfm_policy_work *work, long long rows,
                                  const float *obs, const float *z, float *out,
                                  bfm_policy_error *error) {
  bfm_policy_status status = check_rows(policy, work, rows, obs, error);
  if (status) return status;
  int d = policy->info.d, K = policy->info.blocks;
  if (!out || (K > 1 && !z)) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT,
                       "out is NULL, or B of several blocks has no z");
  }
  if (K > 1 && policy_odd(z, d, 1e18f)) {
    return policy_fail(error, BFM_POLICY_BAD_INPUT, "z is not finite");
  }
  if (K > 1) policy_residual_norm(work->unit_z, z, d, K);
  for (long long at = 0; at < rows; at += work->rows) {
    int n = rows - at < work->rows ? (int)(rows - at) : work->rows;
    run_b(policy, work, obs + at * policy->info.obs_dim, n, work->unit_z, 0);
    memcpy(out + at * d, work->out, (size_t)n * (size_t)d * sizeof *out);
    if (!status && policy_odd(work->out, n * d, 3e38f)) {
      status = policy_fail(error, BFM_POLICY_BAD_OUTPUT, "B is not finite");
    }
  }
  return status;
}

bfm_policy_status bfm_policy_B(const bfm_policy *policy, bfm_policy_work *work, long long rows,
                               const float *obs, const float *z, float *out,
                               bfm_policy_error *error) {
  policy_clear(error);
  uint64_t before = policy_float_begin();
  bfm_policy_status status = features(policy, work, rows, obs, z, out, error);
  policy_float_end(before);
  return status;
}

// ------------------------------- sums ------------------------------------------------------------

static void add_row(bfm_policy_prompt *p, const float *b, double weight) {
  int d = p->policy->info.d, K = p->policy->info.blocks;
  int from = policy_block(p->pass, d, K), to = policy_block(p->pass + 1, d, K);
  for (int i = from; i < to; i++) p->sum[i] += weight * b[i];
  for (int i = 0; i < d && p->least_squares; i++) {
    double *row = p->gram + (size_t)i * (size_t)d;
    for (int j = 0; j <= i; j++) row[j] += (double)b[i] * b[j];
  }
}

// whether a prompt can go on: of a model that is still loaded
static int is_open(const bfm_policy_prompt *prompt) {
  return prompt && !prompt->over && prompt->id == prompt->policy->id;
}

static bfm_policy_status add(bfm_policy_prompt *prompt, bfm_policy_work *work, long long rows,
                             const float *obs, const float *weight, bfm_policy_error *error) {
  if (!is_open(prompt)) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT,
                       "the prompt is NULL, over or of another model: begin another one");
  }
  const bfm_policy *p = prompt->policy;
  bfm_policy_status status = check_rows(p, work, rows, obs, error);
  for (long long i = 0; i < rows && weight && !status; i++) {
    if (fabsf(weight[i]) <= 1e15f) continue;
    status = policy_fail_at(error, BFM_POLICY_BAD_INPUT, "the weight of an observation is ",
                            weight[i], ", not within 1e15");
  }
  if (status) return status;
  for (long long at = 0; at < rows; at += work->rows) {
    int n = rows - at < work->rows ? (int)(rows - at) : work->rows;
    run_b(p, work, obs + at * p->info.obs_dim, n, prompt->z_b, prompt->pass + 1);
    for (int i = 0; i < n; i++) {
      double w = weight ? weight[at + i] : 1;
      if (fabs(w) > prompt->largest) prompt->largest = fabs(w);
      add_row(prompt, work->out + (size_t)i * (size_t)p->info.d, w);
    }
  }
  prompt->rows += rows;
  return BFM_POLICY_OK;
}

bfm_policy_status bfm_policy_prompt_add(bfm_policy_prompt *prompt, bfm_policy_work *work,
                                        long long rows, const float *obs, const float *weight,
                                        bfm_policy_error *error) {
  policy_clear(error);
  uint64_t before = policy_float_begin();
  bfm_policy_status status = add(prompt, work, rows, obs, weight, error);
  policy_float_end(before);
  return status;
}

// ------------------------------- least squares ---------------------------------------------------

// gram = L·Lᵀ in place, lower triangle; 0 unless it is positive definite
static int cholesky(double *gram, int d) {
  for (int j = 0; j < d; j++) {
    double *own = gram + (size_t)j * (size_t)d, square = own[j];
    for (int k = 0; k < j; k++) square -= own[k] * own[k];
    if (!(square > 0)) return 0;
    own[j] = sqrt(square);
    for (int i = j + 1; i < d; i++) {
      double *row = gram + (size_t)i * (size_t)d, sum = row[j];
      for (int k = 0; k < j; k++) sum -= row[k] * own[k];
      row[j] = sum / own[j];
    }
  }
  return 1;
}

static void solve(const double *L, double *x, int d) {
  for (int i = 0; i < d; i++) {
    for (int k = 0; k < i; k++) x[i] -= L[(size_t)i * (size_t)d + (size_t)k] * x[k];
    x[i] /= L[(size_t)i * (size_t)d + (size_t)i];
  }
  for (int i = d - 1; i >= 0; i--) {
    for (int k = i + 1; k < d; k++) x[i] -= L[(size_t)k * (size_t)d + (size_t)i] * x[k];
    x[i] /= L[(size_t)i * (size_t)d + (size_t)i];
  }
}

// z = (E φφᵀ)⁻¹·z, with a small ridge, as in agent/encode.c
static int least_squares(bfm_policy_prompt *p) {
  int d = p->policy->info.d;
  double trace = 0, n = (double)p->rows;
  for (int i = 0; i < d; i++) trace += p->gram[(size_t)i * (size_t)d + (size_t)i];
  for (int i = 0; i < d; i++) {
    double *row = p->gram + (size_t)i * (size_t)d;
    row[i] += POLICY_RIDGE * trace / d;
    for (int j = 0; j <= i; j++) row[j] /= n;
    p->right[i] = p->z[i];
  }
  if (!cholesky(p->gram, d)) return 0;
  solve(p->gram, p->right, d);
  for (int i = 0; i < d; i++) p->z[i] = (float)p->right[i];
  return 1;
}

// ------------------------------- passes ----------------------------------------------------------

static int finish(bfm_policy_prompt *p, float *z, bfm_policy_error *error) {
  int d = p->policy->info.d;
  p->over = 1;
  if (p->least_squares && !least_squares(p)) {
    policy_fail(error, BFM_POLICY_BAD_INPUT,
                "the features of all these observations are zero: no z follows from them");
    return BFM_POLICY_FAILED;
  }
  if (policy_check_z(p->z, d, error)) return BFM_POLICY_FAILED;
  memcpy(z, p->z, (size_t)d * sizeof *z);
  return BFM_POLICY_DONE;
}

static int end_pass(bfm_policy_prompt *p, float *z, bfm_policy_error *error) {
  if (!is_open(p) || !z) {
    policy_fail(error, BFM_POLICY_BAD_ARGUMENT,
                "prompt or z is NULL, or the prompt is over or of another model");
    return BFM_POLICY_FAILED;
  }
  int d = p->policy->info.d, K = p->policy->info.blocks;
  int from = policy_block(p->pass, d, K), to = policy_block(p->pass + 1, d, K);
  memset(z, 0, (size_t)d * sizeof *z);
  if (!p->pass) p->first_rows = p->rows;
  if (!p->rows || p->rows != p->first_rows || p->largest == 0) {
    const char *why =
        !p->rows ? "the prompt has no observations"
        : p->rows != p->first_rows
            ? "this pass over the observations had another number of them than the first"
            : "the weights of all observations are 0: no z follows from them";
    p->over = 1;
    policy_fail(error, BFM_POLICY_BAD_INPUT, why);
    return BFM_POLICY_FAILED;
  }
  // only the direction of z matters, and in float32 one that is too short has none
  double scale = (p->largest < 1e-6 ? 1 / p->largest : 1) / (double)p->rows;
  for (int i = from; i < to; i++) p->z[i] = (float)(p->sum[i] * scale);
  if (++p->pass == K) return finish(p, z, error);
  policy_residual_norm(p->z_b, p->z, d, K);
  p->rows = 0;
  return BFM_POLICY_MORE;
}

int bfm_policy_prompt_pass(bfm_policy_prompt *prompt, float *z, bfm_policy_error *error) {
  policy_clear(error);
  uint64_t before = policy_float_begin();
  int again = end_pass(prompt, z, error);
  policy_float_end(before);
  return again;
}

// ------------------------------- goals, demonstrations, tracking ---------------------------------

// The memory of such a prompt is the workspace's: z of earlier blocks is kept in z, the sums are added
// up in double on the stack, a block of at most 64 numbers at a time.
static bfm_policy_status encode(const bfm_policy *policy, bfm_policy_work *work, long long rows,
                                const float *obs, float *z, bfm_policy_error *error) {
  if (!z) return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "z is NULL");
  if (policy) memset(z, 0, (size_t)policy->info.d * sizeof *z);
  bfm_policy_status status = check_rows(policy, work, rows, obs, error);
  if (status) return status;
  int d = policy->info.d, K = policy->info.blocks;
  enum { PIECE = 64 };
  for (int k = 0; k < K; k++) {
    int from = policy_block(k, d, K), to = policy_block(k + 1, d, K);
    if (K > 1) policy_residual_norm(work->unit_z, z, d, K);
    for (int piece = from; piece < to; piece += PIECE) {
      double sum[PIECE] = {0};
      int width = to - piece < PIECE ? to - piece : PIECE;
      for (long long at = 0; at < rows; at += work->rows) {
        int n = rows - at < work->rows ? (int)(rows - at) : work->rows;
        run_b(policy, work, obs + at * policy->info.obs_dim, n, work->unit_z, k + 1);
        for (int i = 0; i < n; i++) {
          for (int j = 0; j < width; j++)
            sum[j] += work->out[(size_t)i * (size_t)d + (size_t)(piece + j)];
        }
      }
      for (int j = 0; j < width; j++) z[piece + j] = (float)(sum[j] / (double)rows);
    }
  }
  status = policy_check_z(z, d, error);
  if (status) memset(z, 0, (size_t)d * sizeof *z);
  return status;
}

bfm_policy_status bfm_policy_prompt_states(const bfm_policy *policy, bfm_policy_work *work,
                                           long long rows, const float *obs, float *z,
                                           bfm_policy_error *error) {
  policy_clear(error);
  uint64_t before = policy_float_begin();
  bfm_policy_status status = encode(policy, work, rows, obs, z, error);
  policy_float_end(before);
  return status;
}

bfm_policy_status bfm_policy_prompt_track(const bfm_policy *policy, bfm_policy_work *work,
                                          long long rows, const float *obs, long long now,
                                          long long window, float *z, bfm_policy_error *error) {
  policy_clear(error);
  if (!policy || !obs || rows < 1 || now < 0 || window < 1) {
    return policy_fail(
        error, BFM_POLICY_BAD_ARGUMENT,
        "tracking needs a policy, observations, a time of 0 or more and a window of 1 "
        "or more");
  }
  long long from = now + 1 < rows ? now + 1 : rows - 1;
  long long count = rows - from < window ? rows - from : window;
  return bfm_policy_prompt_states(policy, work, count, obs + from * policy->info.obs_dim, z, error);
}
