// The CUDA backend's losses and their gradients with respect to the networks' outputs. A loss is one
// kernel: its blocks store partial sums, and the block that finishes last adds them up in a fixed
// order.

#include "ops/cuda.cuh"

#define ROWS (THREADS / 32)  // of a block: one warp per row

// a grid with a block for every `rows` rows of each replica
static dim3 grid_batch(int64_t n, int64_t rows, int64_t replicas) {
  return dim3((unsigned)divide_up(n, rows), (unsigned)replicas);
}

// ------------------------------- rows and members ------------------------------------------------

__global__ void row_dot_kernel(const RowDot x) {
  unsigned row = thread_index32() / 32, rows = x.rows, members = x.members;
  if (row >= x.replicas * members * rows) return;
  unsigned g = row / rows, i = row % rows, z_rows = x.z_rows ? x.z_rows : rows;
  const float *a = x.a + (g * x.row_stride + i) * x.d;
  const float *z = x.z + ((int64_t)(g / members) * z_rows + i % z_rows) * x.d;
  float sum = 0;
  for (int64_t j = lane_index(); j < x.d; j += 32) sum += a[j] * z[j];
  sum = warp_sum(sum);
  if (lane_index() == 0) x.out[row] = sum;
}

static void row_dot(Ops *ops, const RowDot *x) {
  launch(cuda_of(ops), row_dot_kernel, grid_rows(x->replicas * x->members * x->rows), THREADS, *x);
}

__global__ void mean_members_kernel(const MeanMembers x) {
  int64_t i = thread_index(), r = blockIdx.y;
  if (i >= x.count) return;
  float sum = 0;
  for (int64_t m = 0; m < x.members; m++) sum += x.a[(r * x.members + m) * x.count + i];
  x.out[r * x.count + i] = sum / x.members;
}

static void mean_members(Ops *ops, const MeanMembers *x) {
  launch(cuda_of(ops), mean_members_kernel, grid_batch(x->count, THREADS, x->replicas), THREADS,
         *x);
}

// ------------------------------- forward-backward ------------------------------------------------

// One block per row j of group i of replica r, for all members, so that targets are read once.
template <int V>
__global__ void fb_loss_kernel(const FbLoss x, float *partial, unsigned *counters) {
  int64_t J = x.rows, I = x.groups, r = blockIdx.y;
  int64_t i = blockIdx.x / (unsigned)J, j = blockIdx.x % (unsigned)J;
  int64_t matrix = I * J * J;  // from one member to the next
  float *m = x.m + r * x.members * matrix + (i * J + j) * J;
  const float *t = x.t + r * x.t_members * matrix + (i * J + j) * J;
  float gamma = x.gamma * x.discount[(r * I + i) * J + j];
  float pairs = J > 1 ? 1.0f / ((float)I * J * (J - 1)) : 0, rows = 1.0f / ((float)I * J);
  float sum = 0;
  for (int64_t k = (int64_t)threadIdx.x * V; k < J; k += (int64_t)blockDim.x * V) {
    float target[V];
    load(t + k, target);
    for (int64_t n = 1; n < x.t_members; n++) {
      float other[V];
      load(t + n * matrix + k, other);
#pragma unroll
      for (int v = 0; v < V; v++) target[v] = fminf(target[v], other[v]);
    }
#pragma unroll 2
    for (int64_t n = 0; n < x.members; n++) {
      float e[V];
      load(m + n * matrix + k, e);
#pragma unroll
      for (int v = 0; v < V; v++) {
        float own = e[v], error = own - gamma * target[v];
        bool diagonal = k + v == j;
        sum += diagonal ? -rows * own : 0.5f * pairs * error * error;
        e[v] = diagonal ? -rows : error * pairs;
      }
      store(m + n * matrix + k, e);
    }
  }
  finish_loss(x.loss + r * x.loss_stride, partial, counters, block_sum(sum));
}

// whether rows of J floats can be read as vectors of four
static bool wide_rows(int64_t J, const void *a, const void *b) {
  return J % 4 == 0 && aligned(a, 16) && aligned(b, 16);
}

static void fb_loss(Ops *ops, const FbLoss *x) {
  Cuda *c = cuda_of(ops);
  auto kernel = wide_rows(x->rows, x->m, x->t) ? fb_loss_kernel<4> : fb_loss_kernel<1>;
  launch(c, kernel, grid_batch(x->groups * x->rows, 1, x->replicas), THREADS, *x,
         c->scratch[c->lane], c->counters[c->lane]);
}

template <int V>
__global__ void ortho_loss_kernel(const OrthoLoss x, float *partial, unsigned *counters) {
  int64_t J = x.rows, I = x.groups, r = blockIdx.y, j = blockIdx.x % (unsigned)J;
  float *c = x.c + (r * I * J + blockIdx.x) * J;
  float pairs = J > 1 ? 1.0f / ((float)I * J * (J - 1)) : 0, rows = 1.0f / ((float)I * J);
  float scale = 2 * x.scale, sum = 0;
  for (int64_t k = (int64_t)threadIdx.x * V; k < J; k += (int64_t)blockDim.x * V) {
    float e[V];
    load(c + k, e);
#pragma unroll
    for (int v = 0; v < V; v++) {
      float own = e[v];
      bool diagonal = k + v == j;
      sum += diagonal ? -rows * own : 0.5f * pairs * own * own;
      e[v] = scale * (diagonal ? -rows : own * pairs);
    }
    store(c + k, e);
  }
  finish_loss(x.loss + r * x.loss_stride, partial, counters, block_sum(sum));
}

static void ortho_loss(Ops *ops, const OrthoLoss *x) {
  Cuda *c = cuda_of(ops);
  auto kernel = wide_rows(x->rows, x->c, x->c) ? ortho_loss_kernel<4> : ortho_loss_kernel<1>;
  launch(c, kernel, grid_batch(x->groups * x->rows, 1, x->replicas), THREADS, *x,
         c->scratch[c->lane], c->counters[c->lane]);
}

// ------------------------------- actor -----------------------------------------------------------

#define WEIGHT_THREADS 1024

// 1/β for the effective sample size ess·n of softmax(a/β), computed by the whole block
__device__ float ess_rate(const float *a, int64_t n, float highest, float ess) {
  float mean = 0;
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) mean += a[j];
  float spread = highest - block_sum(mean) / n;
  if (!(spread > 0)) return 0;
  float low = -ESS_RANGE, high = ESS_RANGE;
  for (int i = 0; i < ESS_HALVINGS; i++) {
    float middle = (low + high) / 2, rate = exp2f(middle) / spread, sum = 0, square = 0;
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
      float e = expf(rate * (a[j] - highest));
      sum += e;
      square += e * e;
    }
    sum = block_sum(sum);
    square = block_sum(square);
    if (sum * sum < ess * n * square) high = middle;
    else low = middle;
  }
  return exp2f((low + high) / 2) / spread;
}

// one block per replica
__global__ void aw_weights_kernel(const AwWeights x) {
  int64_t r = blockIdx.x;
  float *w = x.w + r * x.rows;
  const float *q = x.q + r * x.members * x.q_stride, *q_pi = x.q_pi + r * x.members * x.q_stride;
  float highest = -INFINITY;
  for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) {
    float value = 0, base = 0, lowest = INFINITY;
    for (int64_t m = 0; m < x.members; m++) {
      float pi = q_pi[m * x.q_stride + j];
      value += q[m * x.q_stride + j];
      base += pi;
      lowest = fminf(lowest, pi);
    }
    if (!x.sum_members) value /= x.members;
    float advantage = value - (x.mean_base ? base / x.members : lowest);
    if (x.advantage) x.advantage[r * x.rows + j] = advantage;
    w[j] = x.ess > 0 ? advantage : fminf(advantage / x.beta, x.clip);
    highest = fmaxf(highest, w[j]);
  }
  highest = block_max(highest);
  float rate = x.ess > 0 ? ess_rate(w, x.rows, highest, x.ess) : 1;
  double sum = 0;
  for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) {
    sum += w[j] = expf(rate * (w[j] - highest));
  }
  sum = block_sum(sum);
  double sum_iwis = 0;
  for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) {
    w[j] = (float)(w[j] / sum);
    if (x.iwis) sum_iwis += w[j] /= fmaxf(1 - w[j], 1e-6f);
  }
  if (!x.iwis) return;
  sum_iwis = block_sum(sum_iwis);
  for (int64_t j = threadIdx.x; j < x.rows; j += blockDim.x) w[j] = (float)(w[j] / sum_iwis);
}

static void aw_weights(Ops *ops, const AwWeights *x) {
  launch(cuda_of(ops), aw_weights_kernel, (unsigned)x->replicas, WEIGHT_THREADS, *x);
}

// one thread per value of an action
__global__ void aw_loss_kernel(const AwLoss x, float *partial, unsigned *counters) {
  int64_t i = thread_index(), r = blockIdx.y, n = x.rows * x.act_dim;
  float scale = 1 / (x.sigma * x.sigma), loss = 0;
  if (i < n) {
    int64_t at = r * n + i;
    float mu = x.mu[r * x.mu_stride * x.act_dim + i];
    float w = x.w[r * x.rows + (unsigned)i / (unsigned)x.act_dim];
    float e = mu - x.act[at];
    x.dx[at] = w * e * scale * (1 - mu * mu);
    loss = w * e * e * 0.5f * scale;
  }
  finish_loss(x.loss + r * x.loss_stride, partial, counters, block_sum(loss));
}

static void aw_loss(Ops *ops, const AwLoss *x) {
  Cuda *c = cuda_of(ops);
  launch(c, aw_loss_kernel, grid_batch(x->rows * x->act_dim, THREADS, x->replicas), THREADS, *x,
         c->scratch[c->lane], c->counters[c->lane]);
}

// one warp per row
__global__ void td3_loss_kernel(const Td3Loss x, float *partial, unsigned *counters) {
  int64_t j = warp_index(), r = blockIdx.y;
  float loss = 0;
  if (j < x.rows) {
    const float *q = x.q_pi + r * x.members * x.q_stride + j;
    const float *z = x.z + (r * x.rows + j) * x.d;
    int64_t least = 0;
    for (int64_t m = 1; m < x.members; m++) {
      if (q[m * x.q_stride] < q[least * x.q_stride]) least = m;
    }
    if (lane_index() == 0) loss = -q[least * x.q_stride] / x.rows;
    for (int64_t m = 0; m < x.members; m++) {
      float *df = x.df + ((r * x.members + m) * x.df_stride + j) * x.d;
      float scale = m == least ? -1.0f / x.rows : 0;
      for (int64_t k = lane_index(); k < x.d; k += 32) df[k] = scale * z[k];
    }
  }
  finish_loss(x.loss + r * x.loss_stride, partial, counters, block_sum(loss));
}

static void td3_loss(Ops *ops, const Td3Loss *x) {
  Cuda *c = cuda_of(ops);
  launch(c, td3_loss_kernel, grid_batch(x->rows, ROWS, x->replicas), THREADS, *x,
         c->scratch[c->lane], c->counters[c->lane]);
}

template <typename T>
__global__ void td3_action_grad_kernel(const Td3ActionGrad x) {
  int64_t i = thread_index(), r = blockIdx.y;
  if (i >= x.rows * x.act_dim) return;
  int64_t j = (unsigned)i / (unsigned)x.act_dim, k = (unsigned)i % (unsigned)x.act_dim;
  float mu = x.mu[r * x.mu_stride * x.act_dim + i], sum = 0;
  for (int64_t m = 0; m < x.copies; m++) {
    sum += get((const T *)x.dxa + ((r * x.copies + m) * x.row_stride + j) * x.ld + x.obs_dim + k);
  }
  x.dx[r * x.rows * x.act_dim + i] = sum * (1 - mu * mu);
}

static void td3_action_grad(Ops *ops, const Td3ActionGrad *x) {
  BY_TYPE(ops->type, launch(cuda_of(ops), td3_action_grad_kernel<T>,
                            grid_batch(x->rows * x->act_dim, THREADS, x->replicas), THREADS, *x));
}

// ------------------------------- Laplacian -------------------------------------------------------

// one warp per row
__global__ void lap_loss_kernel(const LapLoss x, float *partial, unsigned *counters) {
  int64_t j = warp_index(), r = blockIdx.y;
  float sum = 0;
  if (j < x.rows) {
    int64_t now = (r * 2 * x.rows + j) * x.d, next = now + x.rows * x.d;
    float scale = 2.0f / x.rows;
    for (int64_t k = lane_index(); k < x.d; k += 32) {
      float e = x.phi[now + k] - x.phi[next + k];
      sum += e * e;
      x.dphi[now + k] = scale * e;
      x.dphi[next + k] = -scale * e;
    }
  }
  finish_loss(x.loss + r * x.loss_stride, partial, counters, block_sum(sum) / x.rows);
}

static void lap_loss(Ops *ops, const LapLoss *x) {
  Cuda *c = cuda_of(ops);
  launch(c, lap_loss_kernel, grid_batch(x->rows, ROWS, x->replicas), THREADS, *x,
         c->scratch[c->lane], c->counters[c->lane]);
}

// one warp per row
__global__ void psi_loss_kernel(const PsiLoss x, float *partial, unsigned *counters) {
  int64_t j = warp_index(), r = blockIdx.y;
  float loss = 0;
  if (j < x.rows) {
    int64_t row = r * x.rows + j;
    float next = x.min_target ? INFINITY : 0;
    int64_t t_members = x.t_members ? x.t_members : x.members;
    for (int64_t m = 0; m < t_members; m++) {
      float q = x.q_target[(r * t_members + m) * x.rows + j];
      next = x.min_target ? fminf(next, q) : next + q / t_members;
    }
    float target = x.phi_z[row] + x.gamma * x.discount[row] * next;
    for (int64_t m = 0; m < x.members; m++) {
      float e = x.q[(r * x.members + m) * x.q_stride + j] - target, whole = e;
      float *dpsi = x.dpsi + ((r * x.members + m) * x.dpsi_stride + j) * x.d;
      if (x.huber > 0) e = fmaxf(-x.huber, fminf(e, x.huber));
      for (int64_t k = lane_index(); k < x.d; k += 32) dpsi[k] = e / x.rows * x.z[row * x.d + k];
      if (lane_index() == 0) loss += e * (whole - 0.5f * e);
    }
  }
  finish_loss(x.loss + r * x.loss_stride, partial, counters, block_sum(loss) / x.rows);
}

static void psi_loss(Ops *ops, const PsiLoss *x) {
  Cuda *c = cuda_of(ops);
  launch(c, psi_loss_kernel, grid_batch(x->rows, ROWS, x->replicas), THREADS, *x,
         c->scratch[c->lane], c->counters[c->lane]);
}

// ------------------------------- prompting -------------------------------------------------------

#define SUM_CHUNKS 256  // at most this many chunks of rows are summed side by side

// one block per 32 columns of a chunk of rows
__global__ void weighted_sum_kernel(const WeightedSum x, int64_t chunk, double *partial,
                                    unsigned *counters) {
  __shared__ double part[ROWS][32];
  int64_t col = (int64_t)blockIdx.y * 32 + threadIdx.x;
  int64_t end = min((blockIdx.x + 1) * chunk, x.rows);
  double sum = 0;
  if (col < x.cols) {
#pragma unroll 4
    for (int64_t i = blockIdx.x * chunk + threadIdx.y; i < end; i += ROWS) {
      sum += (double)x.w[i] * x.x[i * x.ld + col];
    }
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  bool mine = threadIdx.y == 0 && col < x.cols;
  if (mine) {
    for (int i = 1; i < ROWS; i++) sum += part[i][threadIdx.x];
    partial[blockIdx.x * x.cols + col] = sum;
  }
  if (!last_block(counters + blockIdx.y, gridDim.x) || !mine) return;
  sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += __ldcg(partial + i * x.cols + col);
  x.out[col] += sum;
}

static void weighted_sum(Ops *ops, const WeightedSum *x) {
  Cuda *c = cuda_of(ops);
  int64_t room = SCRATCH / 2 / (x->cols > 0 ? x->cols : 1);
  int64_t chunks =
      min(min((int64_t)SUM_CHUNKS, divide_up(x->rows, 4 * ROWS)), max(room, (int64_t)1));
  if (chunks <= 0) return;
  int64_t chunk = divide_up(x->rows, chunks);
  dim3 grid((unsigned)divide_up(x->rows, chunk), (unsigned)divide_up(x->cols, 32));
  launch(c, weighted_sum_kernel, grid, dim3(32, ROWS), *x, chunk, (double *)c->scratch[c->lane],
         c->counters[c->lane]);
}

void cuda_losses(Ops *ops) {
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
