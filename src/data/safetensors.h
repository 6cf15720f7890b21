// safetensors files: an 8-byte header length, a JSON header, raw little-endian tensors. Files are
// written atomically (core/files.h). The reader trusts nothing: it checks sizes, offsets, names,
// overlaps and types.

#ifndef BFM_DATA_SAFETENSORS_H
#define BFM_DATA_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef enum {
  TENSOR_F32,
  TENSOR_F64,
  TENSOR_I64,
  TENSOR_I32,
  TENSOR_U8,
  TENSOR_BF16,
  TENSOR_F16,
  TENSOR_I8
} TensorType;

#define TENSOR_MAX_DIMS 4

typedef struct {
  char name[128];
  TensorType type;
  int dims;
  int64_t shape[TENSOR_MAX_DIMS];
  const void *data;  // when read: points into the file in memory, aligned to the type
} Tensor;

size_t tensor_bytes(const Tensor *t);
int64_t tensor_count(const Tensor *t);
const char *tensor_type_name(TensorType type);  // "F32"

// metadata: keys and values alternate, and a NULL ends them; may be NULL. Tensors are written in the
// given order, except that those with larger elements come first so that all are aligned.
int safetensors_write(const char *path, const Tensor *tensors, int count,
                      const char *const *metadata);

typedef struct SafeTensors SafeTensors;
int safetensors_open(SafeTensors **file, const char *path);
// the same with a copy in memory. Another program may overwrite the file meanwhile, which would end a
// process that reads it through a mapping
int safetensors_read(SafeTensors **file, const char *path);
// the same from memory; bytes must be 8-byte aligned and outlive the handle
int safetensors_parse(SafeTensors **file, const void *bytes, size_t size);
void safetensors_close(SafeTensors *file);

int safetensors_count(const SafeTensors *file);
const Tensor *safetensors_at(const SafeTensors *file, int index);
const Tensor *safetensors_find(const SafeTensors *file, const char *name);   // or NULL
const char *safetensors_metadata(const SafeTensors *file, const char *key);  // or NULL

// metadata pair number `index`; returns 0 after the last
int safetensors_metadata_at(const SafeTensors *file, int index, const char **key,
                            const char **value);

#endif
