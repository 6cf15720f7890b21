// Random draws, which must be equal on CPU and GPU, and the choice of evaluation-based sampling.

#include "cuda_tests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/rng.h"
#include "ops/cpu.h"

void test_draws(void **state) {
  (void)state;
  enum { R = 3, N = 205 };
  uint64_t seeds[R] = {1, 99, UINT64_MAX};
  int64_t step = 123456789012;
  Buffer *seed = raw(seeds, sizeof seeds), *at = raw(&step, sizeof step);
  Buffer *normal = f32(R * N);
  BOTH(draw_normal, Draw, .out = AT(normal), .seeds = AT(seed), .step = AT(at), .stream = 2,
       .replicas = R, .count = N);
  check("draw_normal", normal, 2e-6);

  for (int cols = 5; cols <= 24; cols += 19) {
    Buffer *from = f32(R * 50 * cols), *out = f32(R * N * cols);
    BOTH(sample_rows, SampleRows, .out = AT(out), .in = AT(from), .seeds = AT(seed), .step = AT(at),
         .stream = 4, .replicas = R, .rows = N, .cols = cols, .below = 50,
         .in_stride = cols == 5 ? 50 : 0);
    check_equal("sample_rows", out);
  }

  int64_t d = 50, draw = 41;
  Buffer *states = f32(R * 60 * d), *z = f32(R * N * d);
  BOTH(mix_z, MixZ, .z = AT(z), .states = AT(states), .seeds = AT(seed), .step = AT(at),
       .replicas = R, .rows = N, .draws = draw, .d = d, .state_rows = 60, .below = 60, .mix = 0.5f);
  check("mix_z", z, 2e-5);
  BOTH(mix_z, MixZ, .z = AT(z), .states = AT(states), .seeds = AT(seed), .step = AT(at),
       .replicas = R, .rows = draw, .draws = draw, .d = d, .state_rows = 60, .mix = 0.5f);
  check("mix_z of state i", z, 2e-5);
  BOTH(mix_z, MixZ, .z = AT(z), .seeds = AT(seed), .step = AT(at), .replicas = R, .rows = N,
       .draws = N, .d = d, .mix = 0.5f);
  check("mix_z without states", z, 2e-5);
  Buffer *gram = f32(2 * R * d * d), *white = f32(R * 55 * d);  // gram: doubles, only scratch
  BOTH(whiten, Whiten, .out = AT(white), .phi = AT(states), .gram = AT(gram), .replicas = R,
       .rows = 55, .row_stride = 60, .d = d);
  check("whiten", white, 2e-5);
  BOTH(whiten, Whiten, .out = AT(white), .phi = AT(states), .gram = AT(gram), .replicas = R,
       .rows = 30, .row_stride = 60, .d = d);  // fewer rows than directions
  check("whiten with few rows", white, 2e-5);
  BOTH(pool_z, PoolZ, .z = AT(z), .pool = AT(states), .step = AT(at), .replicas = R, .rows = N,
       .draws = 5, .d = d, .pool_rows = 60);
  check_equal("pool_z", z);
  BOTH(normalize_z, NormalizeZ, .z = AT(z), .rows = R * N, .d = d);
  check("normalize_z", z, 2e-5);

  for (int side = CPU; side <= GPU; side++) {
    machine[side]->increment(machine[side], at->at[side]);
  }
  check_equal("increment", at);
  forget_buffers();
}

void test_es(void **state) {
  (void)state;
  int64_t N = 19, samples = 70, act = 5, M = 3;
  Buffer *mu = normals(N * act, F32, 0.5f), *out = f32(N * samples * act);
  Buffer *q = f32(M * N * samples), *picked = f32(N * act);
  BOTH(es_sample, EsSample, .out = AT(out), .mu = AT(mu), .seed = 5, .step = 7, .rows = N,
       .samples = samples, .act_dim = act, .first_row = 1000, .sigma = 0.2f);
  check("es_sample", out, 2e-5);
  for (int base = 0; base < 4; base++) {
    BOTH(es_pick, EsPick, .act = AT(picked), .candidates = AT(out), .q = AT(q), .rows = N,
         .samples = samples, .act_dim = act, .members = M, .q_stride = N * samples,
         .min_members = base & 1, .gain = base / 2);
    check("es_pick", picked, 2e-5);
  }
  BOTH(es_sample, EsSample, .out = AT(out), .mu = AT(mu), .seed = 5, .step = 7, .rows = N,
       .samples = samples, .act_dim = act, .sigma = 0.2f, .mean_first = 1);
  check("es_sample with the mean first", out, 2e-5);
  forget_buffers();
}
