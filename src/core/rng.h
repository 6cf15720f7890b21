// Counter-based random numbers (Philox4x32-10). A draw is a function of (seed, stream, step,
// index). There is no state, so the order of evaluation, the number of threads, and stopping and
// resuming leave the results bit-identical. C and CUDA share this header.

#ifndef BFM_CORE_RNG_H
#define BFM_CORE_RNG_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define RNG_INLINE static __host__ __device__ __forceinline__
#else
#define RNG_INLINE static inline
#endif

// one stream per purpose, so that draws for different purposes are independent
typedef enum {
  STREAM_INIT,        // initial parameters; step is the index of the tensor
  STREAM_BATCH,       // which transitions
  STREAM_Z_NORMAL,    // Gaussian z
  STREAM_Z_CHOICE,    // Gaussian z or z of a state
  STREAM_Z_STATE,     // which state
  STREAM_NOISE_NEXT,  // a' ~ pi(s', z)
  STREAM_NOISE_PI,    // a ~ pi(s, z)
  STREAM_ES,          // evaluation-based sampling
  STREAM_RESET,       // initial states of environments
  STREAM_EXPLORE,     // exploration noise
  STREAM_USER = 1000,
} Stream;

typedef struct {
  uint32_t v[4];
} Philox;

// four random words: block `index` of (seed, stream, step)
RNG_INLINE Philox philox(uint64_t seed, uint32_t stream, uint64_t step, uint32_t index) {
  uint32_t c0 = index, c1 = stream, c2 = (uint32_t)step, c3 = (uint32_t)(step >> 32);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  Philox out = {{c0, c1, c2, c3}};
  return out;
}

// uniform in (0, 1), never 0 or 1
RNG_INLINE float philox_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f + 0x1p-25f; }

// two standard normals from two words (Box-Muller)
RNG_INLINE void philox_normal(uint32_t a, uint32_t b, float *x, float *y) {
  float radius = sqrtf(-2.0f * logf(philox_uniform(a)));
  float angle = 6.28318530717958648f * philox_uniform(b);
  *x = radius * cosf(angle);
  *y = radius * sinf(angle);
}

// integer in [0, n) from 64 random bits, n ≤ 2^32
RNG_INLINE uint64_t philox_below(uint32_t high, uint32_t low, uint64_t n) {
  return ((uint64_t)high * n + (((uint64_t)low * n) >> 32)) >> 32;
}

// ------------------------------- single values ---------------------------------------------------

RNG_INLINE float random_uniform(uint64_t seed, uint32_t stream, uint64_t step, int64_t i) {
  return philox_uniform(philox(seed, stream, step, (uint32_t)(i / 4)).v[i % 4]);
}

RNG_INLINE float random_normal(uint64_t seed, uint32_t stream, uint64_t step, int64_t i) {
  Philox p = philox(seed, stream, step, (uint32_t)(i / 4));
  float x, y;
  int pair = (i % 4) & 2;
  philox_normal(p.v[pair], p.v[pair + 1], &x, &y);
  return i % 2 ? y : x;
}

RNG_INLINE uint64_t random_below(uint64_t seed, uint32_t stream, uint64_t step, int64_t i,
                                 uint64_t n) {
  Philox p = philox(seed, stream, step, (uint32_t)(i / 2));
  int pair = (int)(i % 2) * 2;
  return philox_below(p.v[pair], p.v[pair + 1], n);
}

#ifdef __cplusplus
extern "C" {
#endif

// a permutation of 0 … n-1, n ≤ 2^32
void random_permutation(uint64_t seed, uint32_t stream, uint64_t step, int64_t n, int64_t *out);

#ifdef __cplusplus
}
#endif

#endif
