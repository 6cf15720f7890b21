// Buffers with the same numbers on CPU and GPU, and their comparison.

#include "cuda_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bfm.h"
#include "core/rng.h"
#include "ops/cpu.h"

static uint64_t draws;  // buffers created so far; each gets its own random numbers
static Buffer *made[256];
static int made_count;

static void *buffer_bytes(Buffer *b, const void *host, size_t bytes) {
  b->bytes = bytes;
  for (int i = CPU; i <= GPU; i++) {
    assert_int_equal(machine[i]->alloc(machine[i], &b->at[i], bytes), BFM_OK);
    assert_int_equal(machine[i]->upload(machine[i], b->at[i], host, bytes), BFM_OK);
  }
  return b;
}

Buffer *normals(int64_t count, Type type, float scale) {
  Buffer *b = calloc(1, sizeof *b);
  float *host = malloc(count * sizeof *host);
  uint16_t *half = malloc(count * sizeof *half);
  assert_true(b && host && half && made_count < 256);
  made[made_count++] = b;
  b->type = type;
  draws++;
  for (int64_t i = 0; i < count; i++) {
    host[i] = scale * random_normal(7, STREAM_USER, draws, i);
    half[i] = f32_to_bf16(host[i]);
  }
  buffer_bytes(b, type == F32 ? (void *)host : half, count * type_size(type));
  free(host);
  free(half);
  return b;
}

Buffer *raw(const void *host, size_t bytes) {
  Buffer *b = calloc(1, sizeof *b);
  assert_true(b && made_count < 256);
  made[made_count++] = b;
  return buffer_bytes(b, host, bytes);
}

Buffer *f32(int64_t count) { return normals(count, F32, 1); }
Buffer *activations(int64_t count) { return normals(count, machine[CPU]->type, 1); }

void forget_buffers(void) {
  for (int i = 0; i < made_count; i++) {
    for (int j = CPU; j <= GPU; j++) machine[j]->release(machine[j], made[i]->at[j]);
    free(made[i]);
  }
  made_count = 0;
}

void *fetch(const Buffer *b, int side) {
  void *host = malloc(b->bytes + 1);
  assert_non_null(host);
  assert_int_equal(machine[side]->download(machine[side], host, b->at[side], b->bytes), BFM_OK);
  return host;
}

static double value(const Buffer *b, const void *host, int64_t i) {
  return b->type == F32 ? ((const float *)host)[i] : bf16_to_f32(((const uint16_t *)host)[i]);
}

void check(const char *what, const Buffer *b, double tolerance) {
  void *cpu = fetch(b, CPU), *gpu = fetch(b, GPU);
  int64_t count = (int64_t)(b->bytes / type_size(b->type)), worst = 0;
  double largest = 1e-30, error = 0;
  for (int64_t i = 0; i < count; i++) {
    double x = value(b, cpu, i), y = value(b, gpu, i), e = fabs(x - y);
    if (fabs(x) > largest) largest = fabs(x);
    if (!(e <= error)) error = e, worst = i;
    if (!(e == e)) break;
  }
  double x = value(b, cpu, worst), y = value(b, gpu, worst);
  free(cpu);
  free(gpu);
  if (!(error <= tolerance * largest)) {
    fail_msg("%s: %g on the CPU, %g on the GPU at %ld (largest %g)", what, x, y, (long)worst,
             largest);
  }
}

void check_equal(const char *what, const Buffer *b) {
  void *cpu = fetch(b, CPU), *gpu = fetch(b, GPU);
  if (memcmp(cpu, gpu, b->bytes)) fail_msg("%s: bits differ", what);
  free(cpu);
  free(gpu);
}

double tolerance(double exact) { return machine[CPU]->type == F32 ? exact : 1.2e-2; }
