// The CUDA backend's losses of single-task agents that learn from a dataset. Batches are small: one
// block per replica computes a loss, its gradient and whatever the batch shares in one kernel.

#include "ops/cuda.cuh"

#define BATCH_THREADS 512

// the minimum over members of q [R, M, N]
__device__ inline float least_q(const float *q, int64_t r, int64_t members, int64_t rows,
                                int64_t j) {
  float least = INFINITY;
  for (int64_t m = 0; m < members; m++) least = fminf(least, q[(r * members + m) * rows + j]);
  return least;
}

// ------------------------------- values ----------------------------------------------------------

__device__ inline double expectile_loss(const ValueLoss &x, int64_t r) {
  double loss = 0;
  for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) {
    float e = least_q(x.q, r, x.members, x.rows, j) - x.v[r * x.rows + j];
    float weight = e > 0 ? x.level : 1 - x.level;
    x.dv[r * x.rows + j] = -2 * weight * e / x.rows;
    loss += weight * e * e;
  }
  return block_sum(loss) / x.rows;
}

__device__ inline double gumbel_loss(const ValueLoss &x, int64_t r) {
  float *z = x.dv + r * x.rows, shift = -1;
  for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) {
    float e = least_q(x.q, r, x.members, x.rows, j) - x.v[r * x.rows + j];
    z[j] = e / x.level;
    shift = fmaxf(shift, fminf(z[j], x.clip));
  }
  shift = block_max(shift);
  float scale = expf(-shift);
  double loss = 0;
  for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) {
    float own = fminf(z[j], x.clip), grown = expf(own - shift);
    loss += grown - own * scale - scale;
    z[j] = z[j] > x.clip ? 0 : -(grown - scale) / (x.level * x.rows);
  }
  return block_sum(loss) / x.rows;
}

__global__ void value_loss_kernel(const ValueLoss x) {
  int64_t r = blockIdx.x;
  double loss = x.gumbel ? gumbel_loss(x, r) : expectile_loss(x, r);
  if (threadIdx.x == 0) x.loss[r * x.loss_stride] = (float)loss;
}

static void value_loss(Ops *ops, const ValueLoss *x) {
  launch(cuda_of(ops), value_loss_kernel, (unsigned)x->replicas, BATCH_THREADS, *x);
}

__global__ void exp_weights_kernel(const ExpWeights x) {
  int64_t j = thread_index(), r = blockIdx.y;
  if (j >= x.rows) return;
  float advantage = least_q(x.q, r, x.members, x.rows, j) - x.v[r * x.rows + j];
  x.w[r * x.rows + j] = fminf(expf(x.rate * advantage), x.clip) / x.rows;
}

static void exp_weights(Ops *ops, const ExpWeights *x) {
  dim3 grid((unsigned)divide_up(x->rows, THREADS), (unsigned)x->replicas);
  launch(cuda_of(ops), exp_weights_kernel, grid, THREADS, *x);
}

// ------------------------------- policies --------------------------------------------------------

#define HALF_LOG_2PI 0.9189385f

template <typename T>
__global__ void gaussian_loss_kernel(const GaussianLoss x) {
  int64_t r = blockIdx.x, n = x.act_dim;
  double loss = 0;
  for (int64_t k = 0; k < n; k++) {
    float own = x.log_sigma[r * n + k];
    float log_sigma = fmaxf(LOG_SIGMA_LEAST, fminf(own, LOG_SIGMA_MOST));
    float precision = expf(-2 * log_sigma);
    double sum = 0;
    for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) {
      int64_t row = r * x.rows + j, at = row * n + k;
      float w = x.w[row], mu = x.mu[at], e = mu - x.act[at], square = e * e * precision;
      x.dx[at] = w * e * precision * (1 - mu * mu);
      sum += w * (1 - square);
      loss += w * (0.5f * square + log_sigma + HALF_LOG_2PI);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
      put((T *)x.dlog_sigma + r * n + k, own == log_sigma ? (float)sum : 0.0f);
    }
  }
  loss = block_sum(loss);
  if (threadIdx.x == 0) x.loss[r * x.loss_stride] = (float)loss;
}

static void gaussian_loss(Ops *ops, const GaussianLoss *x) {
  BY_TYPE(ops->type,
          launch(cuda_of(ops), gaussian_loss_kernel<T>, (unsigned)x->replicas, BATCH_THREADS, *x));
}

__global__ void clone_loss_kernel(const CloneLoss x) {
  int64_t r = blockIdx.x, n = x.rows * x.act_dim;
  float scale = 2.0f / n;
  double loss = 0;
  for (int64_t i = r * n + threadIdx.x; i < (r + 1) * n; i += blockDim.x) {
    float mu = x.mu[i], e = mu - x.act[i], dx = scale * e * (1 - mu * mu);
    x.dx[i] = x.add ? x.dx[i] + dx : dx;
    loss += e * e;
  }
  loss = block_sum(loss);
  if (threadIdx.x == 0) x.loss[r * x.loss_stride] = (float)(loss / n);
}

static void clone_loss(Ops *ops, const CloneLoss *x) {
  launch(cuda_of(ops), clone_loss_kernel, (unsigned)x->replicas, BATCH_THREADS, *x);
}

__global__ void td3bc_loss_kernel(const Td3BcLoss x) {
  int64_t r = blockIdx.x;
  const float *q = x.q + r * x.members * x.rows;
  float *dq = x.dq + r * x.members * x.rows;
  double sum = 0, size = 0;
  for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) {
    sum += q[j];
    size += fabsf(q[j]);
  }
  sum = block_sum(sum);
  size = block_sum(size);
  float lambda = size > 0 ? (float)(x.alpha * x.rows / size) : 0;
  for (int64_t j = threadIdx.x; j < x.rows * x.members; j += blockDim.x) {
    dq[j] = j < x.rows ? -lambda / x.rows : 0;
  }
  if (threadIdx.x == 0) x.loss[r * x.loss_stride] = (float)(-lambda * sum / x.rows);
}

static void td3bc_loss(Ops *ops, const Td3BcLoss *x) {
  launch(cuda_of(ops), td3bc_loss_kernel, (unsigned)x->replicas, BATCH_THREADS, *x);
}

void cuda_offline(Ops *ops) {
  ops->value_loss = value_loss;
  ops->exp_weights = exp_weights;
  ops->gaussian_loss = gaussian_loss;
  ops->clone_loss = clone_loss;
  ops->td3bc_loss = td3bc_loss;
}
