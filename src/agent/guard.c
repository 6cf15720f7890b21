// The guard's three rules.
//
// F_j = E_k[M_jk B_k] where E[BBᵀ] = 1. A true M is never negative and E_k[M_jk] = 1/(1−γ): so
// ‖F‖ ≤ √d/(1−γ), as successor features of lap are too. Learned ones reach it; what is well beyond
// it is bootstrapped from itself.
//
// (tr C)²/tr C² with C = E[BBᵀ] is the number of directions that B uses, d when it is orthonormal.
// When it is 1, B no longer tells states apart. The orthonormality loss has tr C² in it.
//
// F that is the same for all rows of a batch is a network whose units have all died.

#include "agent/guard.h"

#include <math.h>
#include <stdlib.h>

#include "agent/agent.h"

#define MOST_F 2.0  // times the bound
#define FEWEST_DIRECTIONS 1.05
#define LEAST_SPREAD 1e-9  // of F's rows around their mean, as a share of their square

static double mean_square(const float *x, int64_t rows, int64_t d) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < rows * d; i++) sum += (double)x[i] * x[i];
  return sum / rows;
}

// the part of the mean square that is the square of the mean row
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
  if (!(share <= MOST_F)) {
    return bfm_fail(BFM_DIVERGED,
                    "%s of replica %d is %.3g times as large as it can be at step %ld", f_name,
                    replica, share, (long)a->step);
  }
  if (a->step < GUARD_STEPS) return BFM_OK;
  double directions = b_square * b_square / (2 * (ortho + b_square));
  if (a->d > 1 && a->config.ortho > 0 && !(directions >= FEWEST_DIRECTIONS)) {
    return bfm_fail(BFM_DIVERGED, "%s of replica %d has %.3g of %ld directions left at step %ld",
                    b_name, replica, directions, (long)a->d, (long)a->step);
  }
  if (f_square - square_of_mean(f, a->N, a->d) <= LEAST_SPREAD * f_square) {
    return bfm_fail(BFM_DIVERGED, "%s of replica %d is the same for all of a batch at step %ld",
                    f_name, replica, (long)a->step);
  }
  return BFM_OK;
}

int guard_check(bfm_agent *a, const float *losses) {
  if (!a->stepped) return BFM_OK;
  int64_t f_rows = a->tape[NET_F].rows, b_rows = a->laplacian ? 2 * a->N : a->N, n = a->N * a->d;
  float *f = malloc(2 * n * sizeof *f), *b = f + n;
  if (!f) return bfm_fail(BFM_NO_MEMORY, "out of memory to look at F and B");
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
