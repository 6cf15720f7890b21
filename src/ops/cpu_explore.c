// The CPU backend's operations for explorers: batches from the ring buffer of transitions, running
// statistics, the bonus of RND.

#include "core/rng.h"
#include "ops/cpu.h"

// ------------------------------- replay ----------------------------------------------------------

static void replay_sample_row(const ReplaySample *x, int64_t r, int64_t i) {
  int64_t slots = *x->slots, filled = min64(slots, x->capacity);
  int64_t obs = x->obs_dim, act = x->act_dim, width = 2 * obs + act + 3, to = r * x->rows + i;
  uint64_t draw =
      random_below(x->seeds[r], x->stream, (uint64_t)*x->step, i, (uint64_t)(filled * x->envs));
  int64_t order = (int64_t)draw / x->envs, env = (int64_t)draw % x->envs;
  float reward = 0, discount = 1;
  for (int64_t k = 0; k < x->nstep && order + k < filled; k++) {
    const float *row =
        x->ring + width * replay_row(order + k, env, r, slots, x->capacity, x->replicas, x->envs);
    const float *tail = row + obs + act;  // reward, discount, next_obs, last
    if (k == 0) {
      memcpy(x->obs + to * obs, row, obs * sizeof *row);
      memcpy(x->act + to * act, row + obs, act * sizeof *row);
    }
    reward += discount * tail[0];
    discount *= x->gamma * tail[1];
    memcpy(x->next_obs + to * obs, tail + 2, obs * sizeof *row);
    if (tail[2 + obs] != 0) break;
  }
  x->reward[to] = reward;
  x->discount[to] = discount;
}

static void replay_sample_task(void *job, int64_t task, int worker) {
  ARGS(ReplaySample);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS), r = task / pieces;
  int64_t begin = task % pieces * CHUNK_ROWS, end = min64(begin + CHUNK_ROWS, x->rows);
  for (int64_t i = begin; i < end; i++) replay_sample_row(x, r, i);
}

static void replay_sample(Ops *ops, const ReplaySample *x) {
  cpu_run(ops, x, x->replicas * chunks(x->rows, CHUNK_ROWS), replay_sample_task);
}

// ------------------------------- running statistics ----------------------------------------------

// adds a batch to the mean and variance of the `step` batches before it
static void add_batch(float *mean, float *variance, int64_t step, double new_mean,
                      double new_variance) {
  double w = 1.0 / (double)(step + 1), difference = new_mean - *mean;
  *variance = (float)((1 - w) * (*variance + w * difference * difference) + w * new_variance);
  *mean = (float)(*mean + w * difference);
}

static void update_column(const RunningNorm *x, const float *in, float *stats) {
  double sum = 0, square = 0;
  for (int64_t i = 0; i < x->rows; i++) sum += in[i * x->cols];
  double mean = sum / x->rows;
  for (int64_t i = 0; i < x->rows; i++) {
    double e = in[i * x->cols] - mean;
    square += e * e;
  }
  add_batch(&stats[0], &stats[x->cols], *x->step, mean, square / x->rows);
}

// one column of one replica
static void running_norm_task(void *job, int64_t task, int worker) {
  ARGS(RunningNorm);
  int64_t r = task / x->cols, j = task % x->cols;
  const float *in = x->in + r * x->rows * x->cols + j;
  float *out = x->out + r * x->rows * x->cols + j, *stats = x->stats + r * 2 * x->cols + j;
  if (x->step) update_column(x, in, stats);
  float center = stats[0], scale = 1 / sqrtf(stats[x->cols] + 1e-5f);
  for (int64_t i = 0; i < x->rows; i++) {
    out[i * x->cols] = fminf(fmaxf((in[i * x->cols] - center) * scale, -x->clip), x->clip);
  }
}

static void running_norm(Ops *ops, const RunningNorm *x) {
  cpu_run(ops, x, x->replicas * x->cols, running_norm_task);
}

// ------------------------------- the bonus -------------------------------------------------------

// error and gradient of one row; the error is stored where the bonus will be
static void rnd_error_task(void *job, int64_t task, int worker) {
  ARGS(RndBonus);
  const float *f = x->f + task * x->cols, *g = x->g + task * x->cols;
  float *df = x->df + task * x->cols, scale = 2.0f / ((float)x->cols * x->rows), sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < x->cols; j++) {
    float e = f[j] - g[j];
    sum += e * e;
    df[j] = scale * e;
  }
  x->bonus[task] = sum / x->cols;
}

static void rnd_bonus_task(void *job, int64_t task, int worker) {
  ARGS(RndBonus);
  float *bonus = x->bonus + task * x->rows, *stats = x->stats + task * 2;
  double sum = 0, square = 0;
  for (int64_t i = 0; i < x->rows; i++) sum += bonus[i];
  double mean = sum / x->rows;
  for (int64_t i = 0; i < x->rows; i++) square += (bonus[i] - mean) * (bonus[i] - mean);
  add_batch(&stats[0], &stats[1], *x->step, mean, square / x->rows);
  float scale = 1 / (sqrtf(stats[1]) + 1e-8f);
  for (int64_t i = 0; i < x->rows; i++) bonus[i] *= scale;
  x->loss[task * x->loss_stride] = (float)mean;
  x->mean_bonus[task * x->loss_stride] = (float)mean * scale;
}

static void rnd_bonus(Ops *ops, const RndBonus *x) {
  cpu_run(ops, x, x->replicas * x->rows, rnd_error_task);
  cpu_run(ops, x, x->replicas, rnd_bonus_task);
}

void cpu_explore(Ops *ops) {
  ops->replay_sample = replay_sample;
  ops->running_norm = running_norm;
  ops->rnd_bonus = rnd_bonus;
}
