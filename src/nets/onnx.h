// An ONNX model under construction: https://onnx.ai. Values in the graph are known by name; a node
// computes one value from others. A model of opset 13 and IR version 7 is read by every
// onnxruntime since 1.6.

#ifndef BFM_NETS_ONNX_H
#define BFM_NETS_ONNX_H

#include "core/protobuf.h"

#define ONNX_NAME 96

typedef struct {
  Proto proto;
  size_t graph;  // where the graph begins
  int half;      // parameters are stored as bfloat16 and converted in the graph
  int nodes;     // how many there are, which numbers those without a name
} Onnx;

// a value in the graph
typedef struct {
  char name[ONNX_NAME];
} OnnxValue;

typedef struct {
  const char *op;         // "MatMul"
  const char *inputs[8];  // names of values; NULL after the last
  const char *attribute;  // or NULL
  int64_t value;          // of the attribute
  int list;               // 1: the attribute is a list, with this one value
} OnnxNode;

// The order of calls: begin, then metadata, graph, then the parts of the graph, and write.
void onnx_begin(Onnx *onnx, const char *help, int half);
void onnx_metadata(Onnx *onnx, const char *key, const char *value);
void onnx_graph(Onnx *onnx, const char *name);
int onnx_write(Onnx *onnx, const char *path);
void onnx_free(Onnx *onnx);

// Declares an input or output of float32. A dimension of 0 is the number of rows, which is free.
void onnx_input(Onnx *onnx, const char *name, int dims, const int64_t *shape);
void onnx_output(Onnx *onnx, const char *name, int dims, const int64_t *shape);

// appends a node whose value has this name; NULL: a name of its own
OnnxValue onnx_node(Onnx *onnx, const char *name, const OnnxNode *node);

// appends parameters, which are stored as bfloat16 with `half`
OnnxValue onnx_parameters(Onnx *onnx, const char *name, int dims, const int64_t *shape,
                          const float *values);
// appends constants, which are stored exactly
OnnxValue onnx_floats(Onnx *onnx, int dims, const int64_t *shape, const float *values);
OnnxValue onnx_integers(Onnx *onnx, int64_t count, const int64_t *values);

#endif
