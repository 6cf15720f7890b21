// The CPU backend's losses of single-task agents that learn from a dataset: values by expectiles or
// Gumbel regression, and policies by cloning, weighted likelihood or TD3+BC. Sums over a batch are in
// the order of its rows, in double.

#include "ops/cpu.h"

// the minimum over members of q [R, M, N]
static float least_q(const float *q, int64_t r, int64_t members, int64_t rows, int64_t j) {
  float least = INFINITY;
  for (int64_t m = 0; m < members; m++) least = fminf(least, q[(r * members + m) * rows + j]);
  return least;
}

// ------------------------------- values ----------------------------------------------------------

static double expectile_loss(const ValueLoss *x, int64_t r) {
  double loss = 0;
  for (int64_t j = 0; j < x->rows; j++) {
    float e = least_q(x->q, r, x->members, x->rows, j) - x->v[r * x->rows + j];
    float weight = e > 0 ? x->level : 1 - x->level;
    x->dv[r * x->rows + j] = -2 * weight * e / x->rows;
    loss += weight * e * e;
  }
  return loss / x->rows;
}

static double gumbel_loss(const ValueLoss *x, int64_t r) {
  float *z = x->dv + r * x->rows, shift = -1;
  for (int64_t j = 0; j < x->rows; j++) {
    float e = least_q(x->q, r, x->members, x->rows, j) - x->v[r * x->rows + j];
    z[j] = e / x->level;
    shift = fmaxf(shift, fminf(z[j], x->clip));
  }
  float scale = expf(-shift);
  double loss = 0;
  for (int64_t j = 0; j < x->rows; j++) {
    float own = fminf(z[j], x->clip), grown = expf(own - shift);
    loss += grown - own * scale - scale;
    z[j] = z[j] > x->clip ? 0 : -(grown - scale) / (x->level * x->rows);
  }
  return loss / x->rows;
}

static void value_loss_task(void *job, int64_t task, int worker) {
  ARGS(ValueLoss);
  x->loss[task * x->loss_stride] = (float)(x->gumbel ? gumbel_loss : expectile_loss)(x, task);
}

static void value_loss(Ops *ops, const ValueLoss *x) {
  cpu_run(ops, x, x->replicas, value_loss_task);
}

static void exp_weights_task(void *job, int64_t task, int worker) {
  ARGS(ExpWeights);
  for (int64_t j = 0; j < x->rows; j++) {
    int64_t at = task * x->rows + j;
    float advantage = least_q(x->q, task, x->members, x->rows, j) - x->v[at];
    x->w[at] = fminf(expf(x->rate * advantage), x->clip) / x->rows;
  }
}

static void exp_weights(Ops *ops, const ExpWeights *x) {
  cpu_run(ops, x, x->replicas, exp_weights_task);
}

// ------------------------------- policies --------------------------------------------------------

#define HALF_LOG_2PI 0.9189385f

static void gaussian_loss_task(void *job, int64_t task, int worker) {
  ARGS(GaussianLoss);
  int64_t n = x->act_dim;
  double loss = 0;
  for (int64_t k = 0; k < n; k++) {
    float own = x->log_sigma[task * n + k];
    float log_sigma = fmaxf(LOG_SIGMA_LEAST, fminf(own, LOG_SIGMA_MOST));
    float precision = expf(-2 * log_sigma);
    double sum = 0;
    for (int64_t j = 0; j < x->rows; j++) {
      int64_t row = task * x->rows + j, at = row * n + k;
      float w = x->w[row], mu = x->mu[at], e = mu - x->act[at], square = e * e * precision;
      x->dx[at] = w * e * precision * (1 - mu * mu);
      sum += w * (1 - square);
      loss += w * (0.5f * square + log_sigma + HALF_LOG_2PI);
    }
    float grad = own == log_sigma ? (float)sum : 0;
    row_put(x->dlog_sigma, type, task * n + k, 1, &grad);
  }
  x->loss[task * x->loss_stride] = (float)loss;
}

static void gaussian_loss(Ops *ops, const GaussianLoss *x) {
  cpu_run(ops, x, x->replicas, gaussian_loss_task);
}

static void clone_loss_task(void *job, int64_t task, int worker) {
  ARGS(CloneLoss);
  int64_t n = x->rows * x->act_dim;
  float scale = 2.0f / n;
  double loss = 0;
  for (int64_t i = task * n; i < (task + 1) * n; i++) {
    float mu = x->mu[i], e = mu - x->act[i], dx = scale * e * (1 - mu * mu);
    x->dx[i] = x->add ? x->dx[i] + dx : dx;
    loss += e * e;
  }
  x->loss[task * x->loss_stride] = (float)(loss / n);
}

static void clone_loss(Ops *ops, const CloneLoss *x) {
  cpu_run(ops, x, x->replicas, clone_loss_task);
}

static void td3bc_loss_task(void *job, int64_t task, int worker) {
  ARGS(Td3BcLoss);
  const float *q = x->q + task * x->members * x->rows;
  float *dq = x->dq + task * x->members * x->rows;
  double sum = 0, size = 0;
  for (int64_t j = 0; j < x->rows; j++) {
    sum += q[j];
    size += fabsf(q[j]);
  }
  float lambda = size > 0 ? (float)(x->alpha * x->rows / size) : 0;
  for (int64_t j = 0; j < x->rows * x->members; j++) dq[j] = j < x->rows ? -lambda / x->rows : 0;
  x->loss[task * x->loss_stride] = (float)(-lambda * sum / x->rows);
}

static void td3bc_loss(Ops *ops, const Td3BcLoss *x) {
  cpu_run(ops, x, x->replicas, td3bc_loss_task);
}

void cpu_offline(Ops *ops) {
  ops->value_loss = value_loss;
  ops->exp_weights = exp_weights;
  ops->gaussian_loss = gaussian_loss;
  ops->clone_loss = clone_loss;
  ops->td3bc_loss = td3bc_loss;
}
