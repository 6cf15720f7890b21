// The device that networks run on: opening it by option values, and its memory.

#include "nets/device.h"

#include <string.h>

int device_is_cpu(const Ops *ops) { return !strncmp(ops->name, "cpu", 3); }

// Computes one small product in bfloat16, because only a product tells whether the CPU can. Its cost is
// below a millisecond.
static int check_bf16(Ops *ops) {
  enum { SIDE = 16 };
  uint16_t a[SIDE * SIDE] = {0}, b[SIDE * SIDE] = {0}, c[SIDE * SIDE];
  int64_t flops = ops->flops;
  ops->gemm(ops, &(Gemm){.m = SIDE, .n = SIDE, .k = SIDE, .type = BF16, .type_c = BF16, .a = a,
                         .b = b, .c = c, .lda = SIDE, .ldb = SIDE, .ldc = SIDE, .batch = 1});
  ops->flops = flops;
  if (!ops->sync(ops)) return BFM_OK;
  return bfm_fail(BFM_UNAVAILABLE,
                  "precision is bf16, but this CPU has no bfloat16 products: use f32 or auto");
}

int device_open(Ops **ops, const char *device, int precision, Precision best, int64_t threads) {
  const Precision precisions[] = {[DEVICE_AUTO] = best, [DEVICE_F32] = PRECISION_F32,
                                  [DEVICE_TF32] = PRECISION_TF32, [DEVICE_BF16] = PRECISION_BF16};
  TRY(ops_open(ops, device, precisions[precision], (int)threads));
  if (!device_is_cpu(*ops)) return BFM_OK;
  if (precision == DEVICE_BF16) {
    int status = check_bf16(*ops);
    if (status) {
      (*ops)->close(*ops);
      *ops = NULL;
    }
    return status;
  }
  if (precision != DEVICE_AUTO) return BFM_OK;
  (*ops)->close(*ops);
  return ops_open(ops, "cpu", PRECISION_F32, (int)threads);
}

int device_allocate(Ops *ops, void (*layout)(void *, Arena *), void *owner, void **memory) {
  Arena count = {0};
  layout(owner, &count);
  TRY(ops->alloc(ops, memory, count.used));
  Arena place = {.base = *memory};
  layout(owner, &place);
  return BFM_OK;
}

int device_upload_ones(Ops *ops, float *to, int64_t count) {
  float ones[1024];
  for (int i = 0; i < 1024; i++) ones[i] = 1;
  for (int64_t i = 0; i < count; i += 1024) {
    int64_t n = count - i < 1024 ? count - i : 1024;
    TRY(ops->upload(ops, to + i, ones, n * sizeof *ones));
  }
  return BFM_OK;
}
