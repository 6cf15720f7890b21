// The CUDA backend's operations for explorers: batches from the ring buffer of transitions, running
// statistics, the bonus of RND.

#include "core/rng.h"
#include "ops/cuda.cuh"

#define ROWS (THREADS / 32)  // of a block: one warp per row

static dim3 grid_warps(int64_t rows, int64_t replicas) {
  return dim3((unsigned)divide_up(rows, ROWS), (unsigned)replicas);
}

// ------------------------------- replay ----------------------------------------------------------

// One warp per row: all lanes walk through the n steps together, then share the copying.
__global__ void replay_sample_kernel(const ReplaySample x) {
  int64_t i = warp_index(), r = blockIdx.y;
  if (i >= x.rows) return;
  int64_t slots = *x.slots, filled = min(slots, x.capacity);
  int64_t obs = x.obs_dim, act = x.act_dim, width = 2 * obs + act + 3, to = r * x.rows + i;
  uint64_t draw =
      random_below(x.seeds[r], x.stream, (uint64_t)*x.step, i, (uint64_t)(filled * x.envs));
  int64_t order = (int64_t)draw / x.envs, env = (int64_t)draw % x.envs;
  const float *first = NULL, *tail = NULL;
  float reward = 0, discount = 1;
  for (int64_t k = 0; k < x.nstep && order + k < filled; k++) {
    const float *row =
        x.ring + width * replay_row(order + k, env, r, slots, x.capacity, x.replicas, x.envs);
    if (k == 0) first = row;
    tail = row + obs + act;  // reward, discount, next_obs, last
    reward += discount * tail[0];
    discount *= x.gamma * tail[1];
    if (tail[2 + obs] != 0) break;
  }
  if (!first) return;
  for (int64_t j = lane_index(); j < obs; j += 32) {
    x.obs[to * obs + j] = first[j];
    x.next_obs[to * obs + j] = tail[2 + j];
  }
  for (int64_t j = lane_index(); j < act; j += 32) x.act[to * act + j] = first[obs + j];
  if (lane_index() == 0) {
    x.reward[to] = reward;
    x.discount[to] = discount;
  }
}

static void replay_sample(Ops *ops, const ReplaySample *x) {
  launch(cuda_of(ops), replay_sample_kernel, grid_warps(x->rows, x->replicas), THREADS, *x);
}

// ------------------------------- running statistics ----------------------------------------------

// adds a batch to the mean and variance of the `step` batches before it
__device__ inline void add_batch(float *mean, float *variance, int64_t step, double new_mean,
                                 double new_variance) {
  double w = 1.0 / (double)(step + 1), difference = new_mean - *mean;
  *variance = (float)((1 - w) * (*variance + w * difference * difference) + w * new_variance);
  *mean = (float)(*mean + w * difference);
}

__device__ inline void update_column(const RunningNorm &x, const float *in, float *stats) {
  double sum = 0, square = 0;
  for (int64_t i = threadIdx.x; i < x.rows; i += blockDim.x) sum += in[i * x.cols];
  double mean = block_sum(sum) / x.rows;
  for (int64_t i = threadIdx.x; i < x.rows; i += blockDim.x) {
    double e = in[i * x.cols] - mean;
    square += e * e;
  }
  square = block_sum(square);
  if (threadIdx.x == 0) add_batch(&stats[0], &stats[x.cols], *x.step, mean, square / x.rows);
  __syncthreads();
}

// one block per column of each replica
__global__ void running_norm_kernel(const RunningNorm x) {
  int64_t j = blockIdx.x, r = blockIdx.y;
  const float *in = x.in + r * x.rows * x.cols + j;
  float *out = x.out + r * x.rows * x.cols + j, *stats = x.stats + r * 2 * x.cols + j;
  if (x.step) update_column(x, in, stats);
  float center = stats[0], scale = 1 / sqrtf(stats[x.cols] + 1e-5f);
  for (int64_t i = threadIdx.x; i < x.rows; i += blockDim.x) {
    out[i * x.cols] = fminf(fmaxf((in[i * x.cols] - center) * scale, -x.clip), x.clip);
  }
}

static void running_norm(Ops *ops, const RunningNorm *x) {
  launch(cuda_of(ops), running_norm_kernel, dim3((unsigned)x->cols, (unsigned)x->replicas), THREADS,
         *x);
}

// ------------------------------- the bonus -------------------------------------------------------

// One warp per row computes the error and stores it where the bonus will be. The last block of a
// replica to finish then turns the errors of all rows into bonuses.
__global__ void rnd_bonus_kernel(const RndBonus x, unsigned *counters) {
  int64_t i = warp_index(), r = blockIdx.y;
  float *bonus = x.bonus + r * x.rows, *stats = x.stats + r * 2;
  if (i < x.rows) {
    int64_t at = (r * x.rows + i) * x.cols;
    float scale = 2.0f / ((float)x.cols * x.rows), sum = 0;
    for (int64_t j = lane_index(); j < x.cols; j += 32) {
      float e = x.f[at + j] - x.g[at + j];
      sum += e * e;
      x.df[at + j] = scale * e;
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) bonus[i] = sum / x.cols;
  }
  if (!last_block(counters + r, gridDim.x)) return;
  double sum = 0, square = 0;
  for (int64_t k = threadIdx.x; k < x.rows; k += blockDim.x) sum += __ldcg(bonus + k);
  double mean = block_sum(sum) / x.rows;
  for (int64_t k = threadIdx.x; k < x.rows; k += blockDim.x) {
    double e = __ldcg(bonus + k) - mean;
    square += e * e;
  }
  square = block_sum(square);
  if (threadIdx.x == 0) add_batch(&stats[0], &stats[1], *x.step, mean, square / x.rows);
  __syncthreads();
  float scale = 1 / (sqrtf(stats[1]) + 1e-8f);
  for (int64_t k = threadIdx.x; k < x.rows; k += blockDim.x) bonus[k] = __ldcg(bonus + k) * scale;
  if (threadIdx.x) return;
  x.loss[r * x.loss_stride] = (float)mean;
  x.mean_bonus[r * x.loss_stride] = (float)mean * scale;
}

static void rnd_bonus(Ops *ops, const RndBonus *x) {
  Cuda *c = cuda_of(ops);
  launch(c, rnd_bonus_kernel, grid_warps(x->rows, x->replicas), THREADS, *x, c->counters[c->lane]);
}

void cuda_explore(Ops *ops) {
  ops->replay_sample = replay_sample;
  ops->running_norm = running_norm;
  ops->rnd_bonus = rnd_bonus;
}
