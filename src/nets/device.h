// The device that networks run on: opening it by option values, and its memory.

#ifndef BFM_NETS_DEVICE_H
#define BFM_NETS_DEVICE_H

#include "core/arena.h"
#include "core/status.h"
#include "ops/ops.h"

// values of the option `precision`
enum { DEVICE_AUTO, DEVICE_F32, DEVICE_TF32, DEVICE_BF16 };
#define DEVICE_PRECISIONS "auto|f32|tf32|bf16"

// precision: a value above; auto means `best` on a GPU, f32 on a CPU. BFM_UNAVAILABLE if it is bf16
// and the CPU lacks bfloat16 products.
int device_open(Ops **ops, const char *device, int precision, Precision best, int64_t threads);

int device_is_cpu(const Ops *ops);  // if so, its memory is the process's own

// one allocation for all buffers of a layout function, which runs twice (core/arena.h)
int device_allocate(Ops *ops, void (*layout)(void *, Arena *), void *owner, void **memory);

int device_upload_ones(Ops *ops, float *to, int64_t count);

#endif
