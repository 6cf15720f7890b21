// The interface between the library and the CUDA plugin. The plugin does not link against the
// library: it gets the function that reports failures as an argument, and it refuses a library of
// another version or with other operations.

#ifndef BFM_OPS_PLUGIN_H
#define BFM_OPS_PLUGIN_H

#include "bfm.h"
#include "ops/ops.h"

#define CUDA_PLUGIN "libbfm_cuda.so"
#define CUDA_ENTRY "bfm_cuda_open"

// bfm_fail: sets the message of bfm_error() and returns status
typedef int (*Fail)(int status, const char *format, ...);

// version: the caller's BFM_VERSION; sum: its OPS_SUM, a checksum of the text of ops.h by the
// Makefile (the sizes of structs would not reveal two swapped fields)
typedef int (*CudaOpen)(Ops **ops, int device, Precision precision, const char *version,
                        unsigned sum, Fail fail);

#endif
