// Internals of the CPU backend: its state, jobs on its threads, rows of T as float32, fast
// mathematical functions.

#ifndef BFM_OPS_CPU_H
#define BFM_OPS_CPU_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/bf16.h"
#include "core/threads.h"
#include "ops/onednn.h"
#include "ops/ops.h"

typedef struct {
  Ops ops;  // the first member, so that this backend can cast Ops * to Cpu *
  Threads *threads;
  void (*product)(Ops *ops, const Gemm *x);  // of float32 operands, without sums
  OneDnn *dnn;
  int error;  // status of the first failure since the last sync
  char message[512];
} Cpu;

// one operation, as its threads see it
typedef struct {
  const Cpu *cpu;
  const void *x;  // the operation's arguments
} Job;

// for functions whose arguments the compiler knows at each call
#define INLINE static inline __attribute__((always_inline))

typedef void (*Task)(void *job, int64_t task, int worker);

static inline void cpu_run(Ops *ops, const void *x, int64_t tasks, Task task) {
  Cpu *cpu = (Cpu *)ops;
  Job job = {cpu, x};
  if (ops->products_only) return;
  threads_run(cpu->threads, tasks, task, &job);
}

// the beginning of a Task: declares the arguments x of its operation, and T as `type`
#define ARGS(Arguments)                                \
  const Arguments *x = ((const Job *)job)->x;          \
  const Type type = ((const Job *)job)->cpu->ops.type; \
  (void)type, (void)worker

#define CHUNK_ROWS 32  // rows of a task; a multiple of NORM_CHUNK; fixes the order of sums
#define CHUNK_VALUES 16384
#define MAX_WIDTH 8192  // the widest row of a layer

static inline int64_t chunks(int64_t count, int64_t size) { return (count + size - 1) / size; }
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

// ------------------------------- rows of T -------------------------------------------------------

// n values of T at element `at` as float32: in place, or converted into buffer
static inline const float *row_read(const void *x, Type type, int64_t at, int64_t n,
                                    float *buffer) {
  if (type == F32) return (const float *)x + at;
  const uint16_t *from = (const uint16_t *)x + at;
  for (int64_t i = 0; i < n; i++) buffer[i] = bf16_to_f32(from[i]);
  return buffer;
}

// where to compute n values of T: in place, or in the buffer that row_write then converts
static inline float *row_target(void *x, Type type, int64_t at, float *buffer) {
  return type == F32 ? (float *)x + at : buffer;
}

static inline void row_write(void *x, Type type, int64_t at, int64_t n, const float *buffer) {
  if (type == F32) return;
  uint16_t *to = (uint16_t *)x + at;
  for (int64_t i = 0; i < n; i++) to[i] = f32_to_bf16(buffer[i]);
}

// stores n float32 values as T
static inline void row_put(void *x, Type type, int64_t at, int64_t n, const float *values) {
  if (type == F32) memcpy((float *)x + at, values, n * sizeof *values);
  row_write(x, type, at, n, values);
}

// ------------------------------- mathematics -----------------------------------------------------

// exp for x in [-87, 87], within 2 ulp; has no branches, so that the compiler vectorizes loops
static inline float exp_fast(float x) {
  float n = rintf(x * 1.44269504088896341f);
  float r = fmaf(n, -0.693359375f, x);
  r = fmaf(n, 2.12194440e-4f, r);
  float p = 1.0f / 5040;
  p = fmaf(p, r, 1.0f / 720);
  p = fmaf(p, r, 1.0f / 120);
  p = fmaf(p, r, 1.0f / 24);
  p = fmaf(p, r, 1.0f / 6);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  int32_t bits = ((int32_t)n + 127) << 23;
  float scale;
  memcpy(&scale, &bits, 4);
  return p * scale;
}

// tanh within 3e-7 relative: Taylor's odd series near 0, exp elsewhere
static inline float tanh_fast(float x) {
  float a = fabsf(x);
  float s = x * x;
  float p = 21844.0f / 6081075;
  p = fmaf(p, s, -1382.0f / 155925);
  p = fmaf(p, s, 62.0f / 2835);
  p = fmaf(p, s, -17.0f / 315);
  p = fmaf(p, s, 2.0f / 15);
  p = fmaf(p, s, -1.0f / 3);
  float near = fmaf(p * s, x, x);
  float b = a < 9.0f ? a : 9.0f;
  float far = copysignf(1.0f - 2.0f / (exp_fast(2.0f * b) + 1.0f), x);
  float out = a < 0.4f ? near : far;
  return x == x ? out : x;
}

static inline float sum_of(const float *x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum;
}

static inline float dot_of(const float *x, const float *y, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

// cpu_gemm.c and cpu_layers.c are compiled twice, the second time for AVX-512
#ifdef CPU_WIDE
#define cpu_gemm cpu_gemm_wide
#define cpu_layers cpu_layers_wide
#endif

// put the operations of cpu_gemm.c, cpu_layers.c, cpu_draws.c, cpu_losses.c, cpu_offline.c and
// cpu_explore.c into the table
void cpu_gemm(Ops *ops);
void cpu_layers(Ops *ops);
void cpu_gemm_wide(Ops *ops);
void cpu_layers_wide(Ops *ops);
void cpu_draws(Ops *ops);
void cpu_losses(Ops *ops);
void cpu_offline(Ops *ops);
void cpu_explore(Ops *ops);

#endif
