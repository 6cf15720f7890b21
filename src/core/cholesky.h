// Symmetric positive definite systems in double, by Cholesky: A = L·Lᵀ. Rows are contiguous in every
// inner loop.

#ifndef BFM_CORE_CHOLESKY_H
#define BFM_CORE_CHOLESKY_H

#include <math.h>
#include <stdint.h>

// The lower triangle of A [n, n] becomes L; the upper one is not read. Returns nonzero if A is not
// positive definite.
static inline int cholesky(double *A, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double *row = A + i * n;
    for (int64_t j = 0; j <= i; j++) {
      const double *other = A + j * n;
      double sum = row[j];
      for (int64_t k = 0; k < j; k++) sum -= row[k] * other[k];
      if (i == j && !(sum > 0)) return 1;
      row[j] = i == j ? sqrt(sum) : sum / other[j];
    }
  }
  return 0;
}

// b = A⁻¹·b with the L of A
static inline void cholesky_solve(const double *L, double *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < i; k++) b[i] -= L[i * n + k] * b[k];
    b[i] /= L[i * n + i];
  }
  for (int64_t i = n - 1; i >= 0; i--) {
    b[i] /= L[i * n + i];
    for (int64_t k = 0; k < i; k++) b[k] -= L[i * n + k] * b[i];
  }
}

#endif
