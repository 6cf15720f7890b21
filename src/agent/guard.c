// The guard's three rules.
//
// 1. F_j = E_k[M_jk B_k] where E[BBᵀ] = 1. A true M is never negative and E_k[M_jk] = 1/(1−γ), so
// ‖F‖ ≤ √d/(1−γ); the same holds for the successor features of lap. Learned F reach this bound. An F
// far beyond it feeds on its own targets.
//
// 2. (tr C)²/tr C² with C = E[BBᵀ] is the number of directions that B uses: d if it is orthonormal.
// At 1, B no longer tells states apart. tr C² is taken from the orthonormality loss.
//
// 3. If F is the same for all rows of a batch, all units of one of its layers have died.

#include "agent/guard.h"

#include <math.h>
#include <stdlib.h>

#include "agent/agent.h"

#define LEAST_SPREAD 1e-9  // variance of F's rows as a share of their mean square

static double mean_square(const float *x, int64_t rows, int64_t d) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < rows * d; i++) sum += (double)x[i] * x[i];
  return sum / rows;
}

// the square of the mean row, a part of mean_square
static double square_of_mean(const float *x, int64_t rows, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; j++) {
    double mean = 0;
    for (int64_t i = 0; i < rows; i++) mean += x[i * d + j];
    sum += mean * mean;
  }
  return sum / ((double)rows * rows);
}

// f: one member's rows, b the batch's
static int check_member(const bfm_agent *a, int replica, const float *f, const float *b,
                        double ortho) {
  const char *f_name = a->net[NET_F].name, *b_name = a->net[NET_B].name;
  double f_square = mean_square(f, a->N, a->d), b_square = mean_square(b, a->N, a->d);
  double share = sqrt(f_square * b_square) * fmax(1 - a->config.gamma, 1e-3) / a->d;
  if (!(share <= GUARD_MOST_F)) {
    return bfm_fail(BFM_DIVERGED,
                    "at step %ld, %s of replica %d is %.3g times as large as theory allows",
                    (long)a->step, f_name, replica, share);
  }
  if (a->step < GUARD_STEPS) return BFM_OK;
  double directions = b_square * b_square / (2 * (ortho + b_square));
  if (a->d > 1 && a->config.ortho > 0 && !(directions >= GUARD_FEWEST_DIRECTIONS)) {
    return bfm_fail(BFM_DIVERGED,
                    "at step %ld, %s of replica %d uses only %.3g of its %ld directions",
                    (long)a->step, b_name, replica, directions, (long)a->d);
  }
  if (f_square - square_of_mean(f, a->N, a->d) <= LEAST_SPREAD * f_square) {
    return bfm_fail(BFM_DIVERGED,
                    "at step %ld, %s of replica %d is the same for all rows of the batch",
                    (long)a->step, f_name, replica);
  }
  return BFM_OK;
}

int guard_check(bfm_agent *a, const float *losses) {
  if (!a->stepped) return BFM_OK;
  int64_t f_rows = a->tape[NET_F].rows, b_rows = a->laplacian ? 2 * a->N : a->N, n = a->N * a->d;
  float *f = malloc(2 * n * sizeof *f);
  if (!f) return bfm_fail(BFM_NO_MEMORY, "out of memory for a check of F and B");
  float *b = f + n;
  int status = BFM_OK;
  for (int g = 0; g < a->R * a->M && !status; g++) {
    int r = g / a->M;
    const float *from_b = a->b + ((r + 1) * b_rows - a->N) * a->d;  // lap: phi(s'), the second half
    status = a->ops->download(a->ops, f, a->tape[NET_F].out + g * f_rows * a->d, n * sizeof *f);
    if (!status) status = a->ops->download(a->ops, b, from_b, n * sizeof *b);
    float ortho = losses[(r + 1) * a->loss_count - 2];  // the loss before the actor's
    if (!status) status = check_member(a, r, f, b, ortho);
  }
  free(f);
  return status;
}
