// Arrays of counter-based random numbers.

#include "core/rng.h"

#include "bfm.h"

void bfm_random_uniform(uint64_t seed, uint32_t stream, uint64_t step, int64_t count, float *out) {
  for (int64_t i = 0; i < count; i++) out[i] = random_uniform(seed, stream, step, i);
}

void bfm_random_normal(uint64_t seed, uint32_t stream, uint64_t step, int64_t count, float *out) {
  for (int64_t i = 0; i < count; i++) out[i] = random_normal(seed, stream, step, i);
}

void random_permutation(uint64_t seed, uint32_t stream, uint64_t step, int64_t n, int64_t *out) {
  for (int64_t i = 0; i < n; i++) {
    int64_t j = (int64_t)random_below(seed, stream, step, i, (uint64_t)i + 1);
    out[i] = out[j];
    out[j] = i;
  }
}
