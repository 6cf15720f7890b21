// Metrics of the last training step: how large F and B are, how far B is from orthonormal, what the
// policy learns from. They are computed on request from the buffers that the step has filled.

#include <math.h>
#include <stdlib.h>

#include "agent/agent.h"

// a metric a row: its name for fb and for lap (NULL: none); whether it needs advantage weighting
static const struct {
  const char *fb, *lap;
  int weighted;
} metrics[] = {
    {"F", "psi.norm", 0},             // mean norm of F(s,a,z); psi is a loss
    {"F.target", "psi.target", 0},    // … of F⁻(s',a',z)
    {"B", "phi", 0},                  // … of B(s',z)
    {"B.eig.min", "phi.eig.min", 0},  // smallest eigenvalue of E[BBᵀ] over the batch
    {"B.eig.max", "phi.eig.max", 0},
    {"M.max", NULL, 0},         // largest |F_j·B_k|
    {"Q.data", "Q.data", 0},    // mean F(s,a,z)·z at the data's actions
    {"Q.pi", "Q.pi", 0},        // … at the policy's
    {"pi.dist", "pi.dist", 0},  // mean ‖a − μ(s,z)‖
    {"adv", "adv", 1},          // mean advantage
    {"adv.std", "adv.std", 1},  // its standard deviation
    {"ess", "ess", 1},          // effective sample size of the weights, over N
    {"w.max", "w.max", 1},      // the largest weight; the weights of a batch sum to 1
};

enum {
  F_NORM,
  TARGET_NORM,
  B_NORM,
  EIG_MIN,
  EIG_MAX,
  M_MAX,
  Q_DATA,
  Q_PI,
  PI_DIST,
  ADV,
  ADV_STD,
  ESS,
  W_MAX,
  METRICS
};

static const char *name_of(const bfm_agent *a, int metric) {
  if (metrics[metric].weighted && !a->weighted) return NULL;
  return a->laplacian ? metrics[metric].lap : metrics[metric].fb;
}

int bfm_agent_metric_count(const bfm_agent *a) {
  int count = 0;
  for (int i = 0; i < METRICS; i++) count += name_of(a, i) != NULL;
  return count;
}

const char *bfm_agent_metric_name(const bfm_agent *a, int index) {
  for (int i = 0; i < METRICS; i++) {
    if (name_of(a, i) && index-- == 0) return name_of(a, i);
  }
  return NULL;
}

// ------------------------------- eigenvalues -----------------------------------------------------

// Reduce the symmetric c [n, n] to tridiagonal form by Householder reflections; c is overwritten.
// `beside` is the off-diagonal.
static void tridiagonal(double *c, int64_t n, double *diagonal, double *beside, double *p) {
  for (int64_t k = 0; k < n; k++) {
    double *v = c + k * n;  // row k: what is right of the diagonal becomes the reflection's vector
    double square = 0, along = 0;
    for (int64_t j = k + 1; j < n; j++) square += v[j] * v[j];
    diagonal[k] = v[k];
    beside[k] = k + 1 < n ? -copysign(sqrt(square), v[k + 1]) : 0;
    if (square == 0) continue;
    double half = square - beside[k] * v[k + 1];  // half the square of the vector
    v[k + 1] -= beside[k];
    for (int64_t i = k + 1; i < n; i++) {
      double dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t j = k + 1; j < n; j++) dot += c[i * n + j] * v[j];
      p[i] = dot / half;
      along += p[i] * v[i];
    }
    for (int64_t i = k + 1; i < n; i++) p[i] -= along / (2 * half) * v[i];
    for (int64_t i = k + 1; i < n; i++) {
      for (int64_t j = k + 1; j < n; j++) c[i * n + j] -= v[i] * p[j] + p[i] * v[j];
    }
  }
}

// the number of eigenvalues below x, by Sturm's sequence
static int64_t count_below(const double *diagonal, const double *beside, int64_t n, double x) {
  int64_t count = 0;
  double pivot = 1;
  for (int64_t i = 0; i < n; i++) {
    pivot = diagonal[i] - x - (i ? beside[i - 1] * beside[i - 1] / pivot : 0);
    if (fabs(pivot) < 1e-300) pivot = -1e-300;
    count += pivot < 0;
  }
  return count;
}

// the smallest x with more than `rank` eigenvalues below it
static double eigenvalue(const double *diagonal, const double *beside, int64_t n, int64_t rank,
                         double low, double high) {
  for (int i = 0; i < 60; i++) {
    double x = (low + high) / 2;
    if (count_below(diagonal, beside, n, x) > rank) high = x;
    else low = x;
  }
  return (low + high) / 2;
}

// the extreme eigenvalues of E[bbᵀ], b [rows, d]; work: d·(d + 3) doubles
static void eigenvalues(const float *b, int64_t rows, int64_t d, double *work, float *out) {
  double *c = work, *diagonal = c + d * d, *beside = diagonal + d, *p = beside + d, trace = 0;
  for (int64_t i = 0; i < d * d; i++) c[i] = 0;
  for (int64_t r = 0; r < rows; r++) {
    const float *row = b + r * d;
    for (int64_t i = 0; i < d; i++) {
      double x = (double)row[i] / rows;
      for (int64_t j = 0; j < d; j++) c[i * d + j] += x * row[j];
    }
  }
  for (int64_t i = 0; i < d; i++) trace += c[i * d + i];  // no eigenvalue is larger, none below 0
  tridiagonal(c, d, diagonal, beside, p);
  out[EIG_MIN] = (float)eigenvalue(diagonal, beside, d, 0, 0, trace);
  out[EIG_MAX] = (float)eigenvalue(diagonal, beside, d, d - 1, 0, trace);
}

// ------------------------------- buffers of the step ---------------------------------------------

// download `count` floats into a new array
static int fetch(bfm_agent *a, const float *from, int64_t count, float **out) {
  *out = malloc(count * sizeof **out);
  if (!*out) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld values of a step", (long)count);
  return a->ops->download(a->ops, *out, from, count * sizeof **out);
}

static double mean_norm(const float *x, int64_t groups, int64_t group_rows, int64_t rows,
                        int64_t d) {
  double sum = 0;
  for (int64_t g = 0; g < groups; g++) {
    for (int64_t i = 0; i < rows; i++) {
      double square = 0;
      const float *row = x + (g * group_rows + i) * d;
#pragma omp simd reduction(+ : square)
      for (int64_t j = 0; j < d; j++) square += (double)row[j] * row[j];
      sum += sqrt(square);
    }
  }
  return sum / (groups * rows);
}

static double mean(const float *x, int64_t groups, int64_t stride, int64_t count) {
  double sum = 0;
  for (int64_t g = 0; g < groups; g++) {
    for (int64_t i = 0; i < count; i++) sum += x[g * stride + i];
  }
  return sum / (groups * count);
}

// each function reads one buffer and writes its metrics for all replicas, out [R, METRICS]

static void of_f(const bfm_agent *a, const float *f, float *out) {
  int64_t rows = a->tape[NET_F].rows, all = a->M * rows * a->d;
  for (int r = 0; r < a->R; r++) {
    out[r * METRICS + F_NORM] = (float)mean_norm(f + r * all, a->M, rows, a->N, a->d);
  }
}

static void of_target(const bfm_agent *a, const float *f, float *out) {
  int64_t all = a->M * a->N * a->d;
  for (int r = 0; r < a->R; r++) {
    out[r * METRICS + TARGET_NORM] = (float)mean_norm(f + r * all, a->M, a->N, a->N, a->d);
  }
}

static void of_q(const bfm_agent *a, const float *q, float *out) {
  for (int r = 0; r < a->R; r++) {
    const float *own = q + r * a->M * 2 * a->N;
    out[r * METRICS + Q_DATA] = (float)mean(own, a->M, 2 * a->N, a->N);
    out[r * METRICS + Q_PI] = (float)mean(own + a->N, a->M, 2 * a->N, a->N);
  }
}

static void of_advantage(const bfm_agent *a, const float *advantage, float *out) {
  for (int r = 0; r < a->R; r++) {
    const float *own = advantage + r * a->N;
    double centre = mean(own, 1, 0, a->N), square = 0;
    for (int64_t i = 0; i < a->N; i++) square += (own[i] - centre) * (own[i] - centre);
    out[r * METRICS + ADV] = (float)centre;
    out[r * METRICS + ADV_STD] = (float)sqrt(square / a->N);
  }
}

static void of_weights(const bfm_agent *a, const float *w, float *out) {
  for (int r = 0; r < a->R; r++) {
    const float *own = w + r * a->N;
    double square = 0;
    float largest = 0;
    for (int64_t i = 0; i < a->N; i++) {
      square += (double)own[i] * own[i];
      largest = fmaxf(largest, own[i]);
    }
    out[r * METRICS + ESS] = (float)(1 / (square * a->N));
    out[r * METRICS + W_MAX] = largest;
  }
}

static int of_b(bfm_agent *a, float *out) {
  int64_t rows = a->laplacian ? 2 * a->N : a->N;  // lap: at phi(s'), the second half
  float *b;
  double *work = malloc(a->d * (a->d + 3) * sizeof *work);
  int status = fetch(a, a->b, a->R * rows * a->d, &b);
  if (!status && !work) status = bfm_fail(BFM_NO_MEMORY, "out of memory for E[BBᵀ]");
  for (int r = 0; r < a->R && !status; r++) {
    const float *own = b + (r * rows + rows - a->N) * a->d;
    out[r * METRICS + B_NORM] = (float)mean_norm(own, 1, 0, a->N, a->d);
    eigenvalues(own, a->N, a->d, work, out + r * METRICS);
  }
  free(work);
  free(b);
  return status;
}

static int of_policy(bfm_agent *a, float *out) {
  int64_t n = a->N * a->act_dim;
  float *mu, *act = NULL;
  int status = fetch(a, a->mu, 2 * a->R * n, &mu);
  if (!status) status = fetch(a, a->act, a->R * n, &act);
  for (int r = 0; r < a->R && !status; r++) {
    for (int64_t i = 0; i < n; i++) act[r * n + i] -= mu[r * 2 * n + i];
    out[r * METRICS + PI_DIST] = (float)mean_norm(act + r * n, 1, 0, a->N, a->act_dim);
  }
  free(mu);
  free(act);
  return status;
}

// Compute the products F·B again, as their gradient has overwritten them; download some rows at a
// time.
static int of_m(bfm_agent *a, float *out) {
  int64_t members = a->R * a->M, rows = a->N * a->J;
  fb_products(a);
  for (int64_t g = 0; g < members; g++) {
    float largest = out[g / a->M * METRICS + M_MAX];
    for (int64_t at = 0; at < rows; at += 1 << 18) {
      int64_t n = rows - at < 1 << 18 ? rows - at : 1 << 18;
      float *m;
      int status = fetch(a, a->m + g * rows + at, n, &m);
      if (status) n = 0;
#pragma omp simd reduction(max : largest)
      for (int64_t i = 0; i < n; i++) largest = fabsf(m[i]) > largest ? fabsf(m[i]) : largest;
      free(m);
      TRY(status);
    }
    out[g / a->M * METRICS + M_MAX] = largest;
  }
  return BFM_OK;
}

static int measure(bfm_agent *a, float *all) {
  const struct {
    const float *from;
    int64_t count;
    void (*read)(const bfm_agent *a, const float *values, float *out);
    int weighted;
  } buffers[] = {
      {a->tape[NET_F].out, a->R * a->M * a->tape[NET_F].rows * a->d, of_f, 0},
      {a->tape_target[NET_F].out, a->R * a->M * a->N * a->d, of_target, 0},
      {a->q, a->R * a->M * 2 * a->N, of_q, 0},
      {a->advantage, a->R * a->N, of_advantage, 1},
      {a->w, a->R * a->N, of_weights, 1},
  };
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
    if (buffers[i].weighted && !a->weighted) continue;
    float *values;
    int status = fetch(a, buffers[i].from, buffers[i].count, &values);
    if (!status) buffers[i].read(a, values, all);
    free(values);
    TRY(status);
  }
  TRY(of_b(a, all));
  TRY(of_policy(a, all));
  return a->laplacian ? BFM_OK : of_m(a, all);
}

bfm_status bfm_agent_metrics(bfm_agent *a, float *out) {
  NEED("agent, out", a, out);
  EXCLUSIVE(a);
  if (!a->stepped) return bfm_fail(BFM_BAD_ARGUMENT, "no metrics before a training step");
  float *all = calloc(a->R * METRICS, sizeof *all);
  int status = all ? measure(a, all) : bfm_fail(BFM_NO_MEMORY, "out of memory for metrics");
  for (int i = 0; i < a->R * METRICS && !status; i++) {
    if (name_of(a, i % METRICS)) *out++ = all[i];
  }
  free(all);
  return status;
}
