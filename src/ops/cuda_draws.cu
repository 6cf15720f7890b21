// The CUDA backend's draws: batches, z, noise, and the candidates of evaluation-based sampling.
// A value depends only on its seed, stream, step and index. Integers and uniforms are bit-identical
// to the CPU's; normals differ by the rounding of logf, cosf and sinf.

#include "core/rng.h"
#include "ops/cuda.cuh"

// ------------------------------- random numbers --------------------------------------------------

// one thread per block of four random words; the replica is blockIdx.y
__global__ void draw_normal_kernel(const Draw x) {
  int64_t i = thread_index() * 4, r = blockIdx.y;
  if (i >= x.count) return;
  Philox p = philox(x.seeds[r], x.stream, (uint64_t)*x.step, (uint32_t)(i / 4));
  float v[4];
  philox_normal(p.v[0], p.v[1], &v[0], &v[1]);
  philox_normal(p.v[2], p.v[3], &v[2], &v[3]);
  float *out = x.out + r * x.count + i;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    if (i + j < x.count) out[j] = v[j];
  }
}

static void draw_normal(Ops *ops, const Draw *x) {
  dim3 grid((unsigned)divide_up(divide_up(x->count, 4), THREADS), (unsigned)x->replicas);
  launch(cuda_of(ops), draw_normal_kernel, grid, THREADS, *x);
}

// One thread per value. Each draws its row again, which is faster than a separate kernel for draws.
__global__ void sample_rows_kernel(const Several<SampleRows> several) {
  const SampleRows &x = several.x[blockIdx.z];
  unsigned i = thread_index32(), cols = x.cols, row = i / cols, col = i % cols;
  int64_t r = blockIdx.y;
  if (r >= x.replicas || row >= x.rows) return;
  uint64_t k = random_below(x.seeds[r], x.stream, (uint64_t)*x.step, row, (uint64_t)x.below);
  int64_t from = r * x.in_stride + (int64_t)k;
  x.out[r * x.rows * x.cols + i] = x.in[from * x.cols + col];
}

static int64_t sampled_values(const SampleRows *x) { return x->rows * x->cols; }
static int64_t sampled_groups(const SampleRows *x) { return x->replicas; }

static void sample_rows(Ops *ops, const SampleRows *x) {
  launch_several(cuda_of(ops), sample_rows_kernel, x, sampled_values, sampled_groups);
}

// ------------------------------- z ---------------------------------------------------------------

// one thread per entry of the lower triangle of a replica's Σ φφᵀ; the replica is blockIdx.y
__global__ void gram_kernel(const Whiten x) {
  int64_t at = thread_index(), d = x.d, j = at / d, k = at % d, r = blockIdx.y;
  if (j >= d || k > j) return;
  const float *phi = x.phi + r * x.row_stride * d;
  double sum = 0;
  for (int64_t i = 0; i < x.rows; i++) sum += (double)phi[i * d + j] * (double)phi[i * d + k];
  x.gram[r * d * d + at] = sum;
}

// The L of a replica's E φφᵀ, by one block: column j is complete, then it is subtracted from the
// rest. A pivot that is not positive becomes NaN, and with it all z.
__global__ void gram_factor_kernel(const Whiten x) {
  int64_t d = x.d;
  double *gram = x.gram + blockIdx.x * d * d, trace = 0;
  for (int64_t j = 0; j < d; j++) trace += gram[j * d + j];
  double ridge = fmax(GRAM_RIDGE * trace / (double)d, GRAM_RIDGE);
  __syncthreads();
  for (int64_t j = threadIdx.x; j < d * d; j += THREADS) {
    if (j % d <= j / d) gram[j] = (gram[j] + (j % d == j / d ? ridge : 0)) / (double)x.rows;
  }
  __syncthreads();
  for (int64_t j = 0; j < d; j++) {
    double pivot = sqrt(gram[j * d + j]);
    __syncthreads();
    for (int64_t i = j + threadIdx.x; i < d; i += THREADS) {
      gram[i * d + j] = i == j ? pivot : gram[i * d + j] / pivot;
    }
    __syncthreads();
    for (int64_t at = threadIdx.x; at < (d - j - 1) * (d - j - 1); at += THREADS) {
      int64_t i = j + 1 + at / (d - j - 1), k = j + 1 + at % (d - j - 1);
      if (k <= i) gram[i * d + k] -= gram[i * d + j] * gram[k * d + j];
    }
    __syncthreads();
  }
}

// one block of one warp per row
__global__ void whiten_rows_kernel(const Whiten x) {
  __shared__ double row[WHITEN_MOST];
  int64_t d = x.d, r = blockIdx.y, i = blockIdx.x;
  const float *phi = x.phi + (r * x.row_stride + i) * d;
  const double *L = x.gram + r * d * d;
  for (int64_t j = threadIdx.x; j < d; j += 32) row[j] = (double)phi[j];
  __syncwarp();
  for (int64_t j = 0; j < d; j++) {
    double sum = 0;
    for (int64_t k = threadIdx.x; k < j; k += 32) sum += L[j * d + k] * row[k];
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (threadIdx.x == 0) row[j] = (row[j] - sum) / L[j * d + j];
    __syncwarp();
  }
  for (int64_t j = d - 1; j >= 0; j--) {
    if (threadIdx.x == 0) row[j] /= L[j * d + j];
    __syncwarp();
    for (int64_t k = threadIdx.x; k < j; k += 32) row[k] -= L[j * d + k] * row[j];
    __syncwarp();
  }
  float *out = x.out + (r * x.rows + i) * d;
  for (int64_t j = threadIdx.x; j < d; j += 32) out[j] = (float)row[j];
}

static void whiten(Ops *ops, const Whiten *x) {
  Cuda *c = cuda_of(ops);
  unsigned replicas = (unsigned)x->replicas;
  launch(c, gram_kernel, dim3((unsigned)divide_up(x->d * x->d, THREADS), replicas), THREADS, *x);
  launch(c, gram_factor_kernel, replicas, THREADS, *x);
  launch(c, whiten_rows_kernel, dim3((unsigned)x->rows, replicas), 32, *x);
}

// z = √d·v/‖v‖, computed by one warp
__device__ inline void to_sphere(float *z, const float *v, int64_t d) {
  float square = 0;
  for (int64_t j = lane_index(); j < d; j += 32) square += v[j] * v[j];
  float scale = sqrtf((float)d) / fmaxf(sqrtf(warp_sum(square)), 1e-12f);
  for (int64_t j = lane_index(); j < d; j += 32) z[j] = v[j] * scale;
}

// One warp per row of z. The rows of a group all repeat its draw and norm instead of waiting for
// one of them.
__global__ void mix_z_kernel(const MixZ x) {
  unsigned row = thread_index32() / 32, rows = x.rows, draws = x.draws;
  if (row >= x.replicas * rows) return;
  int64_t r = row / rows, i = row % rows / (rows / draws);
  uint64_t seed = x.seeds[r], step = (uint64_t)*x.step;
  float *z = x.z + row * x.d;
  const float *v = z;
  if (x.states && random_uniform(seed, STREAM_Z_CHOICE, step, i) < x.mix) {
    int64_t state = i;
    if (x.below) state = (int64_t)random_below(seed, STREAM_Z_STATE, step, i, (uint64_t)x.below);
    v = x.states + (r * x.state_rows + state) * x.d;
  } else {
    for (int64_t j = lane_index(); j < x.d; j += 32) {
      z[j] = random_normal(seed, STREAM_Z_NORMAL, step, i * x.d + j);
    }
  }
  to_sphere(z, v, x.d);
}

static void mix_z(Ops *ops, const MixZ *x) {
  launch(cuda_of(ops), mix_z_kernel, grid_rows(x->replicas * x->rows), THREADS, *x);
}

__global__ void pool_z_kernel(const PoolZ x) {
  unsigned i = thread_index32(), d = x.d, rows = x.rows, row = i / d, r = row / rows;
  if (r >= x.replicas) return;
  int64_t draw = row % rows / (rows / (unsigned)x.draws);
  int64_t entry = (*x.step * x.draws + draw) % x.pool_rows;
  x.z[i] = x.pool[(r * x.pool_rows + entry) * d + i % d];
}

static void pool_z(Ops *ops, const PoolZ *x) {
  launch(cuda_of(ops), pool_z_kernel, grid_for(x->replicas * x->rows * x->d), THREADS, *x);
}

__global__ void normalize_z_kernel(const NormalizeZ x) {
  int64_t row = warp_index();
  if (row < x.rows) to_sphere(x.z + row * x.d, x.z + row * x.d, x.d);
}

static void normalize_z(Ops *ops, const NormalizeZ *x) {
  launch(cuda_of(ops), normalize_z_kernel, grid_rows(x->rows), THREADS, *x);
}

// ------------------------------- evaluation-based sampling ---------------------------------------

__global__ void es_sample_kernel(const EsSample x) {
  unsigned at = thread_index32(), act_dim = x.act_dim, rows = x.rows;
  unsigned j = at % act_dim, i = at / act_dim % rows, k = at / act_dim / rows;
  if (k >= x.samples) return;
  int64_t draw = ((x.first_row + i) * x.samples + k) * x.act_dim + j;
  float sigma = k || !x.mean_first ? x.sigma : 0;
  float a = x.mu[i * x.act_dim + j] + sigma * random_normal(x.seed, STREAM_ES, x.step, draw);
  x.out[at] = fminf(fmaxf(a, -1.0f), 1.0f);
}

static void es_sample(Ops *ops, const EsSample *x) {
  int64_t count = x->rows * x->samples * x->act_dim;
  launch(cuda_of(ops), es_sample_kernel, grid_for(count), THREADS, *x);
}

// one warp per row; ties: the first candidate
__global__ void es_pick_kernel(const EsPick x) {
  int64_t row = warp_index();
  if (row >= x.rows) return;
  float best = -INFINITY;
  int64_t winner = 0;
  for (int64_t k = lane_index(); k < x.samples; k += 32) {
    float q = x.min_members ? INFINITY : 0;
    for (int64_t m = 0; m < x.members; m++) {
      const float *own = x.q + m * x.q_stride + row;
      float value = own[k * x.rows] - (x.gain ? own[0] : 0);
      q = x.min_members ? fminf(q, value) : q + value;
    }
    if (q > best) best = q, winner = k;
  }
  for (int i = 16; i > 0; i /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, best, i);
    int64_t theirs = __shfl_xor_sync(0xffffffffu, winner, i);
    if (other > best || (other == best && theirs < winner)) best = other, winner = theirs;
  }
  const float *from = x.candidates + (winner * x.rows + row) * x.act_dim;
  for (int64_t j = lane_index(); j < x.act_dim; j += 32) x.act[row * x.act_dim + j] = from[j];
}

static void es_pick(Ops *ops, const EsPick *x) {
  launch(cuda_of(ops), es_pick_kernel, grid_rows(x->rows), THREADS, *x);
}

void cuda_draws(Ops *ops) {
  ops->draw_normal = draw_normal;
  ops->sample_rows = sample_rows;
  ops->whiten = whiten;
  ops->mix_z = mix_z;
  ops->pool_z = pool_z;
  ops->normalize_z = normalize_z;
  ops->es_sample = es_sample;
  ops->es_pick = es_pick;
}
