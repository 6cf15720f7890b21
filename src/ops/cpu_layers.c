// The CPU backend's layers and parameter updates. Sums over rows are computed in chunks of fixed
// size and then added in the order of the chunks, so results are bit-identical for any number of
// threads.

#include "ops/cpu.h"

// ------------------------------- bias ------------------------------------------------------------

#define BIAS_COLUMNS 64

static void bias_grad_task(void *job, int64_t task, int worker) {
  ARGS(BiasGrad);
  int64_t pieces = chunks(x->cols, BIAS_COLUMNS);
  int64_t group = task / pieces, col = task % pieces * BIAS_COLUMNS;
  int64_t n = min64(BIAS_COLUMNS, x->cols - col);
  float sum[BIAS_COLUMNS] = {0}, buffer[BIAS_COLUMNS];
  for (int64_t i = 0; i < x->rows; i++) {
    const float *dy = row_read(x->dy, type, group * x->stride + i * x->ld + col, n, buffer);
    for (int64_t j = 0; j < n; j++) sum[j] += dy[j];
  }
  row_put(x->db, type, group * x->cols + col, n, sum);
}

static void bias_grad(Ops *ops, const BiasGrad *x) {
  cpu_run(ops, x, x->groups * chunks(x->cols, BIAS_COLUMNS), bias_grad_task);
}

// ------------------------------- layer norm and activation ---------------------------------------

// f(gain·x̂ + bias) before f. fmaf rounds once, here and in the gradient, so that both see the same
// sign at a ReLU.
static inline float shifted(float hat, float gain, float bias) { return fmaf(hat, gain, bias); }

// The loops below are compiled for each f: f is known where they are inlined.
INLINE float activated(Activation f, float value) {
  return f == TANH ? tanh_fast(value) : value > 0 ? value : 0;
}

INLINE float slope_of(Activation f, float y) { return f == TANH ? 1 - y * y : y > 0 ? 1 : 0; }

// one block of a row: n values, whose gain and bias begin at the same column
INLINE void norm_block(Activation f, float *y, const float *x, const float *gain, const float *bias,
                       int64_t n, float *stats) {
  float mean = sum_of(x, n) / n, square = 0;
#pragma omp simd reduction(+ : square)
  for (int64_t j = 0; j < n; j++) square += (x[j] - mean) * (x[j] - mean);
  float scale = 1.0f / sqrtf(square / n + 1e-5f);
#pragma omp simd
  for (int64_t j = 0; j < n; j++) y[j] = shifted((x[j] - mean) * scale, gain[j], bias[j]);
#pragma omp simd
  for (int64_t j = 0; j < n; j++) y[j] = activated(f, y[j]);
  stats[0] = mean;
  stats[1] = scale;
}

static void norm_task(void *job, int64_t task, int worker) {
  ARGS(Norm);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS);
  int64_t group = task / pieces, row = task % pieces * CHUNK_ROWS;
  int64_t end = min64(row + CHUNK_ROWS, x->rows);
  const float *gain = x->gain + group * x->width, *bias = x->bias + group * x->width;
  float in_buffer[MAX_WIDTH], out_buffer[MAX_WIDTH];
  for (; row < end; row++) {
    int64_t at = (group * x->row_stride + row) * x->width;
    const float *in = row_read(x->x, type, at, x->width, in_buffer);
    float *out = row_target(x->y, type, at, out_buffer);
    int64_t end_block = x->end_block ? x->end_block : x->blocks;
    for (int64_t k = x->first_block; k < end_block; k++) {
      int64_t lo = block_start(k, x->width, x->blocks),
              n = block_start(k + 1, x->width, x->blocks) - lo;
      float *stats = x->stats + ((group * x->row_stride + row) * x->blocks + k) * 2;
      if (x->activation == TANH)
        norm_block(TANH, out + lo, in + lo, gain + lo, bias + lo, n, stats);
      else norm_block(RELU, out + lo, in + lo, gain + lo, bias + lo, n, stats);
    }
    int64_t lo = block_start(x->first_block, x->width, x->blocks);
    int64_t hi = block_start(end_block, x->width, x->blocks);
    row_write(x->y, type, at + lo, hi - lo, out + lo);
  }
}

static void norm(Ops *ops, const Norm *x) {
  cpu_run(ops, x, x->groups * chunks(x->rows, CHUNK_ROWS), norm_task);
}

// one block of a row in the gradient; the pointers begin at its first column
typedef struct {
  float *dx;
  const float *dy, *x, *y;  // y: NULL if it must be computed again
  const float *stats, *gain, *bias;
  float *dgain, *dbias, *sums;  // sums over rows so far; NULL: not wanted
} GradBlock;

INLINE void norm_grad_block(Activation f, int has_y, int has_sums, GradBlock b, int64_t n) {
  float mean = b.stats[0], scale = b.stats[1], sum = 0, sum_hat = 0;
#pragma omp simd reduction(+ : sum, sum_hat)
  for (int64_t j = 0; j < n; j++) {
    float hat = (b.x[j] - mean) * scale;
    float y = has_y ? b.y[j] : activated(f, shifted(hat, b.gain[j], b.bias[j]));
    float g = b.dy[j] * slope_of(f, y);
    if (has_sums) {
      b.dgain[j] += g * hat;
      b.dbias[j] += g;
    }
    g *= b.gain[j];
    sum += g;
    sum_hat += g * hat;
    b.dx[j] = g;
  }
  sum /= n;
  sum_hat /= n;
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    float dx = scale * (b.dx[j] - sum - (b.x[j] - mean) * scale * sum_hat);
    b.dx[j] = dx;
    if (has_sums) b.sums[j] += dx;
  }
}

static void norm_grad_any(Activation f, GradBlock b, int64_t n) {
  if (f == RELU && b.sums) norm_grad_block(RELU, 0, 1, b, n);
  else if (f == RELU) norm_grad_block(RELU, 0, 0, b, n);
  else if (b.y && b.sums) norm_grad_block(TANH, 1, 1, b, n);
  else if (b.y) norm_grad_block(TANH, 1, 0, b, n);
  else if (b.sums) norm_grad_block(TANH, 0, 1, b, n);
  else norm_grad_block(TANH, 0, 0, b, n);
}

static void norm_grad_task(void *job, int64_t task, int worker) {
  ARGS(NormGrad);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS), width = x->width;
  int64_t group = task / pieces, piece = task % pieces, row = piece * CHUNK_ROWS;
  int64_t end = min64(row + CHUNK_ROWS, x->rows);
  float *sums = x->dgain ? x->scratch + (group * pieces + piece) * width * 3 : NULL;
  if (sums) memset(sums, 0, width * 3 * sizeof *sums);
  float in_buffer[MAX_WIDTH], dy_buffer[MAX_WIDTH], out_buffer[MAX_WIDTH];
  for (; row < end; row++) {
    int64_t at = (group * x->row_stride + row) * width;
    const float *in = row_read(x->x, type, at, width, in_buffer);
    const float *dy = row_read(x->dy, type, at, width, dy_buffer);
    const float *y = type == F32 && x->y ? (const float *)x->y + at : NULL;  // bf16 has rounded it
    float *dx = row_target(x->dx, type, at, out_buffer);
    for (int64_t k = 0; k < x->blocks; k++) {
      int64_t lo = block_start(k, width, x->blocks), n = block_start(k + 1, width, x->blocks) - lo;
      GradBlock block = {.dx = dx + lo, .dy = dy + lo, .x = in + lo, .y = y ? y + lo : NULL,
                         .stats = x->stats + ((group * x->row_stride + row) * x->blocks + k) * 2,
                         .gain = x->gain + group * width + lo,
                         .bias = x->bias + group * width + lo};
      if (sums) {
        block.dgain = sums + lo;
        block.dbias = block.dgain + width;
        block.sums = block.dbias + width;
      }
      norm_grad_any(x->activation, block, n);
    }
    row_write(x->dx, type, at, width, dx);
  }
}

static void norm_sums_task(void *job, int64_t task, int worker) {
  ARGS(NormGrad);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS);
  void *const outs[] = {x->dgain, x->dbias, x->sums};
  for (int i = 0; i < 3; i++) {
    float total[MAX_WIDTH] = {0};
    for (int64_t piece = 0; piece < pieces; piece++) {
      const float *sums = x->scratch + ((task * pieces + piece) * 3 + i) * x->width;
      for (int64_t j = 0; j < x->width; j++) total[j] += sums[j];
    }
    row_put(outs[i], type, task * x->width, x->width, total);
  }
}

static void norm_grad(Ops *ops, const NormGrad *x) {
  cpu_run(ops, x, x->groups * chunks(x->rows, CHUNK_ROWS), norm_grad_task);
  if (x->dgain) cpu_run(ops, x, x->groups, norm_sums_task);
}

// ------------------------------- moving ----------------------------------------------------------

static void pack_task(void *job, int64_t task, int worker) {
  ARGS(Pack);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS);
  int64_t copy = task / pieces, row = task % pieces * CHUNK_ROWS;
  int64_t end = min64(row + CHUNK_ROWS, x->rows), width = x->a_cols + x->b_cols;
  int64_t group = copy / x->copies, a_rows = x->a_rows ? x->a_rows : x->rows;
  int64_t b_rows = x->b_rows ? x->b_rows : x->rows;
  float buffer[MAX_WIDTH];
  for (; row < end; row++) {
    int64_t at = (copy * x->row_stride + x->row0 + row) * x->ld;
    float *out = row_target(x->out, type, at, buffer);
    memcpy(out, x->a + (group * a_rows + row % a_rows) * x->a_cols, x->a_cols * sizeof *out);
    if (x->b) {
      memcpy(out + x->a_cols, x->b + (group * b_rows + row % b_rows) * x->b_cols,
             x->b_cols * sizeof *out);
    }
    row_write(x->out, type, at, width, out);
  }
}

static void pack(Ops *ops, const Pack *x) {
  for (; x; x = x->next)
    cpu_run(ops, x, x->groups * x->copies * chunks(x->rows, CHUNK_ROWS), pack_task);
}

static void copy_columns_task(void *job, int64_t task, int worker) {
  ARGS(CopyColumns);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS);
  int64_t group = task / pieces, row = task % pieces * CHUNK_ROWS;
  int64_t end = min64(row + CHUNK_ROWS, x->rows);
  size_t size = type_size(type);
  for (; row < end; row++) {
    memcpy((char *)x->out + (group * x->stride_out + row * x->ld_out) * size,
           (const char *)x->in + (group * x->stride_in + row * x->ld_in) * size, x->cols * size);
  }
}

static void copy_columns(Ops *ops, const CopyColumns *x) {
  cpu_run(ops, x, x->groups * chunks(x->rows, CHUNK_ROWS), copy_columns_task);
}

static void select_columns_task(void *job, int64_t task, int worker) {
  ARGS(SelectColumns);
  int64_t end = min64((task + 1) * CHUNK_ROWS, x->rows);
  for (int64_t i = task * CHUNK_ROWS; i < end; i++) {
    for (int64_t j = 0; j < x->out_cols; j++) {
      x->out[i * x->out_cols + j] = x->in[i * x->in_cols + x->columns[j]];
    }
  }
}

static void select_columns(Ops *ops, const SelectColumns *x) {
  cpu_run(ops, x, chunks(x->rows, CHUNK_ROWS), select_columns_task);
}

// ------------------------------- outputs of the networks -----------------------------------------

static float clip(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

static void policy_action_task(void *job, int64_t task, int worker) {
  ARGS(PolicyAction);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS), g = task / pieces;
  int64_t begin = task % pieces * CHUNK_ROWS, end = min64(begin + CHUNK_ROWS, x->rows);
  for (int64_t row = begin; row < end; row++) {
    int64_t at = g * x->row_stride + row, to = (g * x->rows + row) * x->act_dim;
    for (int64_t i = 0; i < x->act_dim; i++) {
      float mu = tanh_fast(x->x[at * x->ld + i]);
      x->mu[at * x->act_dim + i] = mu;
      if (!x->act) continue;
      float noise = x->noise ? clip(x->sigma * x->noise[to + i], x->noise_clip) : 0;
      x->act[to + i] = clip(mu + noise, 1);
    }
  }
}

static void policy_action(Ops *ops, const PolicyAction *x) {
  for (; x; x = x->next)
    cpu_run(ops, x, x->groups * chunks(x->rows, CHUNK_ROWS), policy_action_task);
}

#define MIN_NORM 1e-12f  // keeps a zero row finite

static void block_norm_task(void *job, int64_t task, int worker) {
  ARGS(BlockNorm);
  int64_t end = min64((task + 1) * CHUNK_ROWS, x->rows);
  for (int64_t i = task * CHUNK_ROWS; i < end; i++) {
    for (int64_t k = 0; k < x->blocks; k++) {
      int64_t lo = block_start(k, x->d, x->blocks), n = block_start(k + 1, x->d, x->blocks) - lo;
      const float *in = x->x + i * x->d + lo;
      float scale = sqrtf(n) / fmaxf(sqrtf(dot_of(in, in, n)), MIN_NORM);
      for (int64_t j = 0; j < n; j++) x->y[i * x->d + lo + j] = in[j] * scale;
    }
  }
}

static void block_norm(Ops *ops, const BlockNorm *x) {
  cpu_run(ops, x, chunks(x->rows, CHUNK_ROWS), block_norm_task);
}

static void block_norm_grad_task(void *job, int64_t task, int worker) {
  ARGS(BlockNormGrad);
  int64_t end = min64((task + 1) * CHUNK_ROWS, x->rows);
  for (int64_t i = task * CHUNK_ROWS; i < end; i++) {
    for (int64_t k = 0; k < x->blocks; k++) {
      int64_t lo = block_start(k, x->d, x->blocks), n = block_start(k + 1, x->d, x->blocks) - lo;
      const float *in = x->x + i * x->d + lo, *dy = x->dy + i * x->d + lo;
      float norm = fmaxf(sqrtf(dot_of(in, in, n)), MIN_NORM);
      // A block of one value is only its sign, whose gradient is zero. Computing it would leave
      // rounding errors, which Adam would amplify.
      float scale = n > 1 ? sqrtf(n) / norm : 0;
      float along = dot_of(in, dy, n) / (norm * norm);
      for (int64_t j = 0; j < n; j++) x->dx[i * x->d + lo + j] = scale * (dy[j] - in[j] * along);
    }
  }
}

static void block_norm_grad(Ops *ops, const BlockNormGrad *x) {
  cpu_run(ops, x, chunks(x->rows, CHUNK_ROWS), block_norm_grad_task);
}

static void residual_norm_task(void *job, int64_t task, int worker) {
  ARGS(ResidualNorm);
  int64_t end = min64((task + 1) * CHUNK_ROWS, x->rows);
  for (int64_t i = task * CHUNK_ROWS; i < end; i++) {
    float square = 0;
    for (int64_t k = 0; k < x->blocks; k++) {
      int64_t lo = block_start(k, x->d, x->blocks), hi = block_start(k + 1, x->d, x->blocks);
      const float *z = x->z + i * x->d + lo;
      square += dot_of(z, z, hi - lo);
      float scale = sqrtf(hi) / fmaxf(sqrtf(square), MIN_NORM);
      for (int64_t j = 0; j < hi - lo; j++) x->y[i * x->d + lo + j] = z[j] * scale;
    }
  }
}

static void residual_norm(Ops *ops, const ResidualNorm *x) {
  cpu_run(ops, x, chunks(x->rows, CHUNK_ROWS), residual_norm_task);
}

// ------------------------------- parameters ------------------------------------------------------

// stores n values as T, with 0 where the mask is 0; mask NULL: no mask
static void put_masked(void *x, Type type, int64_t at, int64_t n, const float *values,
                       const uint8_t *mask) {
  float buffer[CHUNK_VALUES];
  for (int64_t i = 0; mask && i < n; i++) buffer[i] = mask[at + i] ? values[i] : 0;
  row_put(x, type, at, n, mask ? buffer : values);
}

static void adam_task(void *job, int64_t task, int worker) {
  ARGS(Adam);
  int64_t begin = task * CHUNK_VALUES, n = min64(CHUNK_VALUES, x->count - begin);
  double t = (double)*x->step + 1;
  float lr = x->lr * adam_anneal(x->anneal, *x->step);
  float rate = (float)(lr / (1 - pow(x->beta1, t)));
  float root = (float)(1 / sqrt(1 - pow(x->beta2, t)));
  float beta1 = x->beta1, beta2 = x->beta2, epsilon = x->epsilon;
  float *param = x->param + begin, *m = x->m + begin, *v = x->v + begin;
  float buffer[CHUNK_VALUES];
  const float *grad = row_read(x->grad, type, begin, n, buffer);
  if (x->mask) {
    for (int64_t i = 0; i < n; i++) buffer[i] = x->mask[begin + i] ? grad[i] : 0;
    grad = buffer;
  }
  for (int64_t i = 0; i < n; i++) {
    float g = grad[i];
    m[i] += (1 - beta1) * (g - m[i]);
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    param[i] -= rate * m[i] / (sqrtf(v[i]) * root + epsilon);
  }
  if (x->copy) put_masked(x->copy, type, begin, n, param, x->mask);
  if (!x->target) return;
  float *target = x->target + begin, tau = x->tau;
  for (int64_t i = 0; i < n; i++) target[i] += tau * (param[i] - target[i]);
  if (x->target_copy) put_masked(x->target_copy, type, begin, n, target, x->mask);
}

static void adam(Ops *ops, const Adam *x) {
  cpu_run(ops, x, chunks(x->count, CHUNK_VALUES), adam_task);
}

static void masked_copy_task(void *job, int64_t task, int worker) {
  ARGS(MaskedCopy);
  int64_t begin = task * CHUNK_VALUES, n = min64(CHUNK_VALUES, x->count - begin);
  put_masked(x->out, type, begin, n, x->in + begin, x->mask);
}

static void masked_copy(Ops *ops, const MaskedCopy *x) {
  cpu_run(ops, x, chunks(x->count, CHUNK_VALUES), masked_copy_task);
}

static void increment(Ops *ops, int64_t *counter) {
  (void)ops;
  ++*counter;
}

void cpu_layers(Ops *ops) {
  ops->bias_grad = bias_grad;
  ops->norm = norm;
  ops->norm_grad = norm_grad;
  ops->pack = pack;
  ops->copy_columns = copy_columns;
  ops->select_columns = select_columns;
  ops->policy_action = policy_action;
  ops->block_norm = block_norm;
  ops->block_norm_grad = block_norm_grad;
  ops->residual_norm = residual_norm;
  ops->adam = adam;
  ops->masked_copy = masked_copy;
  ops->increment = increment;
}
