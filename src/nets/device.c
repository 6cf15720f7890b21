// The device that networks run on: opening it by option values, and its memory.

#include "nets/device.h"

#include <string.h>

int device_is_cpu(const Ops *ops) { return !strncmp(ops->name, "cpu", 3); }

int device_open(Ops **ops, const char *device, int precision, Precision best, int64_t threads) {
  const Precision precisions[] = {[DEVICE_AUTO] = best, [DEVICE_F32] = PRECISION_F32,
                                  [DEVICE_TF32] = PRECISION_TF32, [DEVICE_BF16] = PRECISION_BF16};
  TRY(ops_open(ops, device, precisions[precision], (int)threads));
  if (precision != DEVICE_AUTO || !device_is_cpu(*ops)) return BFM_OK;
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
