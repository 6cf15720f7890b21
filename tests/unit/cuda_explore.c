// The operations of explorers and prompts, on a GPU against the CPU.

#include "cuda_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/rng.h"
#include "ops/cpu.h"

void test_exploring(void **state) {
  (void)state;
  enum { R = 3, N = 205, ENVS = 5, CAPACITY = 7, WIDE = 37, ACTS = 4, ROW = 2 * WIDE + ACTS + 3 };
  uint64_t seeds[R] = {1, 99, UINT64_MAX};
  int64_t step = 3;
  float *host = malloc(CAPACITY * R * ENVS * ROW * sizeof *host);
  assert_non_null(host);
  for (int i = 0; i < CAPACITY * R * ENVS * ROW; i++) {
    int column = i % ROW;
    float u = random_uniform(5, STREAM_USER, 0, i);
    host[i] = column == WIDE + ACTS + 1 ? u < 0.8f : column == ROW - 1 ? u < 0.3f : u;
  }
  Buffer *ring = raw(host, CAPACITY * R * ENVS * ROW * sizeof *host);
  free(host);
  Buffer *seed = raw(seeds, sizeof seeds), *at = raw(&step, sizeof step);
  Buffer *obs = f32(R * N * WIDE), *act = f32(R * N * ACTS), *next_obs = f32(R * N * WIDE);
  Buffer *reward = f32(R * N), *discount = f32(R * N);
  for (int64_t slots = 1; slots <= 3 * CAPACITY; slots += CAPACITY - 2) {
    Buffer *count = raw(&slots, sizeof slots);
    BOTH(replay_sample, ReplaySample, .obs = AT(obs), .act = AT(act), .reward = AT(reward),
         .discount = AT(discount), .next_obs = AT(next_obs), .ring = AT(ring), .slots = AT(count),
         .seeds = AT(seed), .step = AT(at), .stream = 1, .replicas = R, .rows = N, .envs = ENVS,
         .capacity = CAPACITY, .obs_dim = WIDE, .act_dim = ACTS, .nstep = 3, .gamma = 0.9f);
    check_equal("replay_sample obs", obs);
    check_equal("replay_sample act", act);
    check_equal("replay_sample next_obs", next_obs);
    check("replay_sample reward", reward, 1e-6);
    check("replay_sample discount", discount, 1e-6);
  }

  Buffer *stats = f32(R * 2 * WIDE), *errors = f32(R * 2), *bonus = f32(R * N), *loss = f32(R * 3);
  BOTH(running_norm, RunningNorm, .out = AT(next_obs), .in = AT(obs), .stats = AT(stats),
       .step = AT(at), .replicas = R, .rows = N, .cols = WIDE, .clip = 1.5f);
  check("running_norm", next_obs, 2e-5);
  check("running_norm statistics", stats, 2e-6);
  BOTH(running_norm, RunningNorm, .out = AT(obs), .in = AT(obs), .stats = AT(stats), .replicas = R,
       .rows = N, .cols = WIDE, .clip = 1.5f);
  check("running_norm in place", obs, 2e-5);
  check("running_norm statistics that stay", stats, 2e-6);
  Buffer *f = f32(R * N * WIDE), *df = f32(R * N * WIDE);
  for (int side = CPU; side <= GPU; side++) {
    machine[side]->zero(machine[side], at->at[side],
                        sizeof step);  // the first batch of the statistics
  }
  for (int i = 0; i < 2; i++) {
    BOTH(rnd_bonus, RndBonus, .df = AT(df), .bonus = AT(bonus), .f = AT(f), .g = AT(obs),
         .stats = AT(errors), .step = AT(at), .loss = AT(loss), .mean_bonus = (float *)AT(loss) + 1,
         .loss_stride = 3, .replicas = R, .rows = N, .cols = WIDE);
    check("rnd_bonus gradient", df, 2e-5);
    check("rnd_bonus", bonus, 2e-5);
    check("rnd_bonus loss", loss, 2e-5);
    check("rnd_bonus statistics", errors, 2e-5);
    for (int side = CPU; side <= GPU; side++) {
      machine[side]->increment(machine[side], at->at[side]);
    }
  }
  forget_buffers();
}

void test_weighted_sum(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{100000, 64, 64}, {1000, 8, 64}, {3, 512, 512}, {77, 33, 40}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int64_t rows = shapes[i][0], cols = shapes[i][1], ld = shapes[i][2];
    double zeros[512] = {0};
    Buffer *w = f32(rows), *x = f32(rows * ld), *out = raw(zeros, cols * sizeof(double));
    for (int again = 0; again < 2; again++) {
      BOTH(weighted_sum, WeightedSum, .out = AT(out), .w = AT(w), .x = AT(x), .rows = rows,
           .ld = ld, .cols = cols);
    }
    double *cpu = fetch(out, CPU), *gpu = fetch(out, GPU);
    for (int64_t j = 0; j < cols; j++) {
      if (!(fabs(cpu[j] - gpu[j]) <= 1e-9 * sqrt(rows))) {
        fail_msg("weighted_sum: %g on the CPU, %g on the GPU", cpu[j], gpu[j]);
      }
    }
    free(cpu);
    free(gpu);
    forget_buffers();
  }
}
