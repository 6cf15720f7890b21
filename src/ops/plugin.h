// The door between the library and the CUDA plugin. The plugin does not link the library: it is
// handed the way to report a failure, and refuses a library of another version or other operations.

#ifndef BFM_OPS_PLUGIN_H
#define BFM_OPS_PLUGIN_H

#include "bfm.h"
#include "ops/ops.h"

#define CUDA_PLUGIN "libbfm_cuda.so"
#define CUDA_ENTRY "bfm_cuda_open"

// bfm_fail: leaves the message behind bfm_error(), returns status
typedef int (*Fail)(int status, const char *format, ...);

// version: the caller's BFM_VERSION; sum: its OPS_SUM, which the Makefile makes of the text of
// ops.h: sizes of structs would not tell of two fields that changed places
typedef int (*CudaOpen)(Ops **ops, int device, Precision precision, const char *version,
                        unsigned sum, Fail fail);

#endif
