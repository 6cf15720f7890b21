// The CPU backend's losses and their gradients with respect to the networks' outputs. A sum over a
// batch adds up each row first, then the rows in order, in double.

#include "ops/cpu.h"

// loss[r] = the sum of each replica's n partial sums
static void sum_partials(const float *partial, int64_t replicas, int64_t n, float *loss,
                         int64_t stride) {
  for (int64_t r = 0; r < replicas; r++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += partial[r * n + i];
    loss[r * stride] = (float)sum;
  }
}

static void row_dot_task(void *job, int64_t task, int worker) {
  ARGS(RowDot);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS), g = task / pieces;
  int64_t begin = task % pieces * CHUNK_ROWS, end = min64(begin + CHUNK_ROWS, x->rows);
  int64_t z_rows = x->z_rows ? x->z_rows : x->rows;
  for (int64_t i = begin; i < end; i++) {
    x->out[g * x->rows + i] = dot_of(x->a + (g * x->row_stride + i) * x->d,
                                     x->z + (g / x->members * z_rows + i % z_rows) * x->d, x->d);
  }
}

static void row_dot(Ops *ops, const RowDot *x) {
  cpu_run(ops, x, x->replicas * x->members * chunks(x->rows, CHUNK_ROWS), row_dot_task);
}

static void mean_members_task(void *job, int64_t task, int worker) {
  ARGS(MeanMembers);
  int64_t pieces = chunks(x->count, CHUNK_VALUES), r = task / pieces;
  int64_t begin = task % pieces * CHUNK_VALUES, end = min64(begin + CHUNK_VALUES, x->count);
  for (int64_t i = begin; i < end; i++) {
    float sum = 0;
    for (int64_t m = 0; m < x->members; m++) sum += x->a[(r * x->members + m) * x->count + i];
    x->out[r * x->count + i] = sum / x->members;
  }
}

static void mean_members(Ops *ops, const MeanMembers *x) {
  cpu_run(ops, x, x->replicas * chunks(x->count, CHUNK_VALUES), mean_members_task);
}

// ------------------------------- forward-backward ------------------------------------------------

// one row j of one matrix; `task` is an index into [R, M, I, J]
static void fb_loss_task(void *job, int64_t task, int worker) {
  ARGS(FbLoss);
  int64_t J = x->rows, I = x->groups;
  int64_t j = task % J, i = task / J % I, r = task / (J * I * x->members);
  float *m = x->m + task * J;
  float gamma = x->gamma * x->discount[(r * I + i) * J + j];
  float pairs = 1.0f / ((float)I * J * (J - 1)), rows = 1.0f / ((float)I * J);
  float own = m[j], sum = 0;
  int64_t matrix = I * J * J;  // from one member's target to the next
  const float *t = x->t + ((r * x->t_members * I + i) * J + j) * J;
  if (x->t_members == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < J; k++) {
      float e = m[k] - gamma * t[k];
      sum += e * e;
      m[k] = e * pairs;
    }
  } else {
    for (int64_t k = 0; k < J; k++) {
      float target = t[k];
      for (int64_t n = 1; n < x->t_members; n++) target = fminf(target, t[n * matrix + k]);
      float e = m[k] - gamma * target;
      sum += e * e;
      m[k] = e * pairs;
    }
  }
  float diagonal = m[j] / pairs;
  x->scratch[task] = 0.5f * pairs * (sum - diagonal * diagonal) - rows * own;
  m[j] = -rows;
}

static void fb_loss(Ops *ops, const FbLoss *x) {
  int64_t rows = x->members * x->groups * x->rows;
  cpu_run(ops, x, x->replicas * rows, fb_loss_task);
  sum_partials(x->scratch, x->replicas, rows, x->loss, x->loss_stride);
}

static void ortho_loss_task(void *job, int64_t task, int worker) {
  ARGS(OrthoLoss);
  int64_t J = x->rows, I = x->groups, j = task % J;
  float *c = x->c + task * J;
  float pairs = 1.0f / ((float)I * J * (J - 1)), rows = 1.0f / ((float)I * J);
  float own = c[j], scale = 2 * x->scale, sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t k = 0; k < J; k++) {
    sum += c[k] * c[k];
    c[k] *= scale * pairs;
  }
  x->scratch[task] = 0.5f * pairs * (sum - own * own) - rows * own;
  c[j] = -scale * rows;
}

static void ortho_loss(Ops *ops, const OrthoLoss *x) {
  int64_t rows = x->groups * x->rows;
  cpu_run(ops, x, x->replicas * rows, ortho_loss_task);
  sum_partials(x->scratch, x->replicas, rows, x->loss, x->loss_stride);
}

// ------------------------------- actor -----------------------------------------------------------

// 1/β for the effective sample size ess·n of softmax(a/β)
static float ess_rate(const float *a, int64_t n, float highest, float ess) {
  float spread = highest - sum_of(a, n) / n;
  if (!(spread > 0)) return 0;
  float low = -ESS_RANGE, high = ESS_RANGE;
  for (int i = 0; i < ESS_HALVINGS; i++) {
    float middle = (low + high) / 2, rate = exp2f(middle) / spread, sum = 0, square = 0;
#pragma omp simd reduction(+ : sum, square)
    for (int64_t j = 0; j < n; j++) {
      float e = exp_fast(fmaxf(rate * (a[j] - highest), -87));
      sum += e;
      square += e * e;
    }
    if (sum * sum < ess * n * square) high = middle;
    else low = middle;
  }
  return exp2f((low + high) / 2) / spread;
}

static void aw_weights_task(void *job, int64_t task, int worker) {
  ARGS(AwWeights);
  float *w = x->w + task * x->rows;
  const float *q = x->q + task * x->members * x->q_stride;
  const float *q_pi = x->q_pi + task * x->members * x->q_stride;
  float highest = -INFINITY;
  for (int64_t j = 0; j < x->rows; j++) {
    float value = 0, sum = 0, lowest = INFINITY;
    for (int64_t m = 0; m < x->members; m++) {
      value += q[m * x->q_stride + j];
      sum += q_pi[m * x->q_stride + j];
      lowest = fminf(lowest, q_pi[m * x->q_stride + j]);
    }
    if (!x->sum_members) value /= x->members;
    float advantage = value - (x->mean_base ? sum / x->members : lowest);
    if (x->advantage) x->advantage[task * x->rows + j] = advantage;
    w[j] = x->ess > 0 ? advantage : fminf(advantage / x->beta, x->clip);
    highest = fmaxf(highest, w[j]);
  }
  float rate = x->ess > 0 ? ess_rate(w, x->rows, highest, x->ess) : 1;
  double sum = 0;
  for (int64_t j = 0; j < x->rows; j++) sum += w[j] = expf(rate * (w[j] - highest));
  for (int64_t j = 0; j < x->rows; j++) w[j] = (float)(w[j] / sum);
  if (!x->iwis) return;
  sum = 0;
  for (int64_t j = 0; j < x->rows; j++) sum += w[j] /= fmaxf(1 - w[j], 1e-6f);
  for (int64_t j = 0; j < x->rows; j++) w[j] = (float)(w[j] / sum);
}

static void aw_weights(Ops *ops, const AwWeights *x) {
  cpu_run(ops, x, x->replicas, aw_weights_task);
}

static void aw_loss_task(void *job, int64_t task, int worker) {
  ARGS(AwLoss);
  float scale = 1 / (x->sigma * x->sigma);
  double loss = 0;
  for (int64_t j = 0; j < x->rows; j++) {
    int64_t row = task * x->rows + j;
    const float *act = x->act + row * x->act_dim;
    const float *mu = x->mu + (task * x->mu_stride + j) * x->act_dim;
    float square = 0;
    for (int64_t k = 0; k < x->act_dim; k++) {
      float e = mu[k] - act[k];
      square += e * e;
      x->dx[row * x->act_dim + k] = x->w[row] * e * scale * (1 - mu[k] * mu[k]);
    }
    loss += x->w[row] * square * 0.5 * scale;
  }
  x->loss[task * x->loss_stride] = (float)loss;
}

static void aw_loss(Ops *ops, const AwLoss *x) { cpu_run(ops, x, x->replicas, aw_loss_task); }

static void td3_loss_task(void *job, int64_t task, int worker) {
  ARGS(Td3Loss);
  double loss = 0;
  for (int64_t j = 0; j < x->rows; j++) {
    int64_t least = 0;
    const float *q = x->q_pi + task * x->members * x->q_stride + j;
    for (int64_t m = 1; m < x->members; m++) {
      if (q[m * x->q_stride] < q[least * x->q_stride]) least = m;
    }
    loss -= q[least * x->q_stride];
    const float *z = x->z + (task * x->rows + j) * x->d;
    for (int64_t m = 0; m < x->members; m++) {
      float *df = x->df + ((task * x->members + m) * x->df_stride + j) * x->d;
      float scale = m == least ? -1.0f / x->rows : 0;
      for (int64_t k = 0; k < x->d; k++) df[k] = scale * z[k];
    }
  }
  x->loss[task * x->loss_stride] = (float)(loss / x->rows);
}

static void td3_loss(Ops *ops, const Td3Loss *x) { cpu_run(ops, x, x->replicas, td3_loss_task); }

static void td3_action_grad_task(void *job, int64_t task, int worker) {
  ARGS(Td3ActionGrad);
  float buffer[MAX_WIDTH];
  for (int64_t j = 0; j < x->rows; j++) {
    float *dx = x->dx + (task * x->rows + j) * x->act_dim;
    const float *mu = x->mu + (task * x->mu_stride + j) * x->act_dim;
    memset(dx, 0, x->act_dim * sizeof *dx);
    for (int64_t m = 0; m < x->copies; m++) {
      int64_t at = ((task * x->copies + m) * x->row_stride + j) * x->ld + x->obs_dim;
      const float *da = row_read(x->dxa, type, at, x->act_dim, buffer);
      for (int64_t k = 0; k < x->act_dim; k++) dx[k] += da[k];
    }
    for (int64_t k = 0; k < x->act_dim; k++) dx[k] *= 1 - mu[k] * mu[k];
  }
}

static void td3_action_grad(Ops *ops, const Td3ActionGrad *x) {
  cpu_run(ops, x, x->replicas, td3_action_grad_task);
}

// ------------------------------- Laplacian -------------------------------------------------------

static void lap_loss_task(void *job, int64_t task, int worker) {
  ARGS(LapLoss);
  int64_t r = task / x->rows, j = task % x->rows;
  int64_t now = (r * 2 * x->rows + j) * x->d, next = now + x->rows * x->d;
  float scale = 2.0f / x->rows, sum = 0;
  for (int64_t k = 0; k < x->d; k++) {
    float e = x->phi[now + k] - x->phi[next + k];
    sum += e * e;
    x->dphi[now + k] = scale * e;
    x->dphi[next + k] = -scale * e;
  }
  x->scratch[task] = sum / x->rows;
}

static void lap_loss(Ops *ops, const LapLoss *x) {
  cpu_run(ops, x, x->replicas * x->rows, lap_loss_task);
  sum_partials(x->scratch, x->replicas, x->rows, x->loss, x->loss_stride);
}

static void psi_loss_task(void *job, int64_t task, int worker) {
  ARGS(PsiLoss);
  double loss = 0;
  for (int64_t j = 0; j < x->rows; j++) {
    int64_t row = task * x->rows + j;
    float next = x->min_target ? INFINITY : 0;
    int64_t t_members = x->t_members ? x->t_members : x->members;
    for (int64_t m = 0; m < t_members; m++) {
      float q = x->q_target[(task * t_members + m) * x->rows + j];
      next = x->min_target ? fminf(next, q) : next + q / t_members;
    }
    float target = x->phi_z[row] + x->gamma * x->discount[row] * next;
    for (int64_t m = 0; m < x->members; m++) {
      float e = x->q[(task * x->members + m) * x->q_stride + j] - target, whole = e;
      float *dpsi = x->dpsi + ((task * x->members + m) * x->dpsi_stride + j) * x->d;
      if (x->huber > 0) e = fmaxf(-x->huber, fminf(e, x->huber));
      for (int64_t k = 0; k < x->d; k++) dpsi[k] = e / x->rows * x->z[row * x->d + k];
      loss += e * (whole - 0.5 * e);
    }
  }
  x->loss[task * x->loss_stride] = (float)(loss / x->rows);
}

static void psi_loss(Ops *ops, const PsiLoss *x) { cpu_run(ops, x, x->replicas, psi_loss_task); }

// ------------------------------- prompting -------------------------------------------------------

static void weighted_sum(Ops *ops, const WeightedSum *x) {
  (void)ops;
  for (int64_t i = 0; i < x->rows; i++) {
    double w = x->w[i];
    for (int64_t j = 0; j < x->cols; j++) x->out[j] += w * x->x[i * x->ld + j];
  }
}

void cpu_losses(Ops *ops) {
  ops->row_dot = row_dot;
  ops->mean_members = mean_members;
  ops->fb_loss = fb_loss;
  ops->ortho_loss = ortho_loss;
  ops->aw_weights = aw_weights;
  ops->aw_loss = aw_loss;
  ops->td3_loss = td3_loss;
  ops->td3_action_grad = td3_action_grad;
  ops->lap_loss = lap_loss;
  ops->psi_loss = psi_loss;
  ops->weighted_sum = weighted_sum;
}
