// The CPU backend's draws: batches, z, noise, and the candidates of evaluation-based sampling.
// A value depends only on its seed, stream, step and index, never on the thread that computes it.

#include "core/cholesky.h"
#include "core/rng.h"
#include "ops/cpu.h"

#define CHUNK_DRAWS 1024  // a multiple of 4, so that no block of four random words is split

// normals begin … end - 1 of a key, one block of four random words at a time
static void normals(float *out, uint64_t seed, uint32_t stream, int64_t step, int64_t begin,
                    int64_t end) {
  for (int64_t block = begin / 4; block * 4 < end; block++) {
    Philox p = philox(seed, stream, (uint64_t)step, (uint32_t)block);
    float v[4];
    philox_normal(p.v[0], p.v[1], &v[0], &v[1]);
    philox_normal(p.v[2], p.v[3], &v[2], &v[3]);
    for (int j = 0; j < 4; j++) {
      int64_t i = block * 4 + j;
      if (i >= begin && i < end) out[i - begin] = v[j];
    }
  }
}

static void draw_normal_task(void *job, int64_t task, int worker) {
  ARGS(Draw);
  int64_t pieces = chunks(x->count, CHUNK_DRAWS), r = task / pieces;
  int64_t begin = task % pieces * CHUNK_DRAWS, end = min64(begin + CHUNK_DRAWS, x->count);
  normals(x->out + r * x->count + begin, x->seeds[r], x->stream, *x->step, begin, end);
}

static void draw_normal(Ops *ops, const Draw *x) {
  cpu_run(ops, x, x->replicas * chunks(x->count, CHUNK_DRAWS), draw_normal_task);
}

static void sample_rows_task(void *job, int64_t task, int worker) {
  ARGS(SampleRows);
  int64_t pieces = chunks(x->rows, CHUNK_ROWS), r = task / pieces;
  int64_t begin = task % pieces * CHUNK_ROWS, end = min64(begin + CHUNK_ROWS, x->rows);
  for (int64_t i = begin; i < end; i++) {
    uint64_t k = random_below(x->seeds[r], x->stream, (uint64_t)*x->step, i, (uint64_t)x->below);
    memcpy(x->out + (r * x->rows + i) * x->cols, x->in + (r * x->in_stride + (int64_t)k) * x->cols,
           x->cols * sizeof *x->out);
  }
}

static void sample_rows(Ops *ops, const SampleRows *x) {
  for (; x; x = x->next) {
    cpu_run(ops, x, x->replicas * chunks(x->rows, CHUNK_ROWS), sample_rows_task);
  }
}

// ------------------------------- z ---------------------------------------------------------------

// row j of the lower triangle of a replica's Σ φφᵀ
static void gram_task(void *job, int64_t task, int worker) {
  ARGS(Whiten);
  int64_t d = x->d, r = task / d, j = task % d;
  double *row = x->gram + task * d;
  memset(row, 0, d * sizeof *row);
  for (int64_t i = 0; i < x->rows; i++) {
    const float *phi = x->phi + (r * x->row_stride + i) * d;
    double factor = phi[j];
    for (int64_t k = 0; k <= j; k++) row[k] += factor * phi[k];
  }
}

// the L of a replica's E φφᵀ. If φ is not finite, so are L and z, which ends the training
static void gram_factor_task(void *job, int64_t task, int worker) {
  ARGS(Whiten);
  int64_t d = x->d;
  double *gram = x->gram + task * d * d, trace = 0;
  for (int64_t j = 0; j < d; j++) trace += gram[j * d + j];
  double ridge = fmax(GRAM_RIDGE * trace / (double)d, GRAM_RIDGE);
  for (int64_t j = 0; j < d; j++) gram[j * d + j] += ridge;
  for (int64_t j = 0; j < d * d; j++) gram[j] /= (double)x->rows;
  if (cholesky(gram, d)) gram[0] = NAN;
}

static void whiten_rows_task(void *job, int64_t task, int worker) {
  ARGS(Whiten);
  int64_t d = x->d, pieces = chunks(x->rows, CHUNK_ROWS), r = task / pieces;
  int64_t begin = task % pieces * CHUNK_ROWS, end = min64(begin + CHUNK_ROWS, x->rows);
  double row[WHITEN_MOST];
  for (int64_t i = begin; i < end; i++) {
    const float *phi = x->phi + (r * x->row_stride + i) * d;
    for (int64_t j = 0; j < d; j++) row[j] = phi[j];
    cholesky_solve(x->gram + r * d * d, row, d);
    float *out = x->out + (r * x->rows + i) * d;
    for (int64_t j = 0; j < d; j++) out[j] = (float)row[j];
  }
}

static void whiten(Ops *ops, const Whiten *x) {
  cpu_run(ops, x, x->replicas * x->d, gram_task);
  cpu_run(ops, x, x->replicas, gram_factor_task);
  cpu_run(ops, x, x->replicas * chunks(x->rows, CHUNK_ROWS), whiten_rows_task);
}

static void to_sphere(float *z, const float *v, int64_t d) {
  float scale = sqrtf(d) / fmaxf(sqrtf(dot_of(v, v, d)), 1e-12f);
  for (int64_t j = 0; j < d; j++) z[j] = v[j] * scale;
}

static void mix_z_task(void *job, int64_t task, int worker) {
  ARGS(MixZ);
  int64_t r = task / x->draws, i = task % x->draws, repeat = x->rows / x->draws;
  uint64_t seed = x->seeds[r], step = (uint64_t)*x->step;
  float *z = x->z + task * repeat * x->d;
  const float *v = z;
  if (x->states && random_uniform(seed, STREAM_Z_CHOICE, step, i) < x->mix) {
    int64_t state = i;
    if (x->below) state = (int64_t)random_below(seed, STREAM_Z_STATE, step, i, (uint64_t)x->below);
    v = x->states + (r * x->state_rows + state) * x->d;
  } else {
    normals(z, seed, STREAM_Z_NORMAL, *x->step, i * x->d, (i + 1) * x->d);
  }
  to_sphere(z, v, x->d);
  for (int64_t j = 1; j < repeat; j++) memcpy(z + j * x->d, z, x->d * sizeof *z);
}

static void mix_z(Ops *ops, const MixZ *x) { cpu_run(ops, x, x->replicas * x->draws, mix_z_task); }

static void pool_z_task(void *job, int64_t task, int worker) {
  ARGS(PoolZ);
  int64_t r = task / x->draws, i = task % x->draws, repeat = x->rows / x->draws;
  int64_t entry = (*x->step * x->draws + i) % x->pool_rows;
  for (int64_t j = 0; j < repeat; j++) {
    memcpy(x->z + (task * repeat + j) * x->d, x->pool + (r * x->pool_rows + entry) * x->d,
           x->d * sizeof *x->z);
  }
}

static void pool_z(Ops *ops, const PoolZ *x) {
  cpu_run(ops, x, x->replicas * x->draws, pool_z_task);
}

static void normalize_z_task(void *job, int64_t task, int worker) {
  ARGS(NormalizeZ);
  int64_t end = min64((task + 1) * CHUNK_ROWS, x->rows);
  for (int64_t i = task * CHUNK_ROWS; i < end; i++)
    to_sphere(x->z + i * x->d, x->z + i * x->d, x->d);
}

static void normalize_z(Ops *ops, const NormalizeZ *x) {
  cpu_run(ops, x, chunks(x->rows, CHUNK_ROWS), normalize_z_task);
}

// ------------------------------- evaluation-based sampling ---------------------------------------

static void es_sample_task(void *job, int64_t task, int worker) {
  ARGS(EsSample);
  const float *mu = x->mu + task * x->act_dim;
  for (int64_t k = 0; k < x->samples; k++) {
    int64_t first = ((x->first_row + task) * x->samples + k) * x->act_dim;
    float sigma = k || !x->mean_first ? x->sigma : 0;
    for (int64_t j = 0; j < x->act_dim; j++) {
      float a = mu[j] + sigma * random_normal(x->seed, STREAM_ES, x->step, first + j);
      x->out[(k * x->rows + task) * x->act_dim + j] = a > 1 ? 1 : a < -1 ? -1 : a;
    }
  }
}

static void es_sample(Ops *ops, const EsSample *x) { cpu_run(ops, x, x->rows, es_sample_task); }

static void es_pick_task(void *job, int64_t task, int worker) {
  ARGS(EsPick);
  int64_t best = 0;
  float best_q = -INFINITY;
  for (int64_t k = 0; k < x->samples; k++) {
    float q = x->min_members ? INFINITY : 0;
    for (int64_t m = 0; m < x->members; m++) {
      const float *own = x->q + m * x->q_stride + task;
      float value = own[k * x->rows] - (x->gain ? own[0] : 0);
      q = x->min_members ? fminf(q, value) : q + value;
    }
    if (q > best_q) {
      best_q = q;
      best = k;
    }
  }
  memcpy(x->act + task * x->act_dim, x->candidates + (best * x->rows + task) * x->act_dim,
         x->act_dim * sizeof *x->act);
}

static void es_pick(Ops *ops, const EsPick *x) { cpu_run(ops, x, x->rows, es_pick_task); }

void cpu_draws(Ops *ops) {
  ops->draw_normal = draw_normal;
  ops->sample_rows = sample_rows;
  ops->whiten = whiten;
  ops->mix_z = mix_z;
  ops->pool_z = pool_z;
  ops->normalize_z = normalize_z;
  ops->es_sample = es_sample;
  ops->es_pick = es_pick;
}
