// The messages of onnx.proto. A model is built in one buffer: nodes and constants may stand in any
// order among the fields of a graph, so each is written as soon as it is known.

#include "nets/onnx.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/bf16.h"
#include "core/files.h"

enum { OPSET = 13, IR_VERSION = 7 };

// numbers of fields in onnx.proto, by message
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_PRODUCER_VERSION = 3, MODEL_HELP = 6 };
enum { MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14 };
enum { OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { CONSTANT_DIMS = 1, CONSTANT_TYPE = 2, CONSTANT_NAME = 8, CONSTANT_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_SIZE = 1, DIM_NAME = 2 };

enum { TYPE_INT = 2, TYPE_INTS = 7 };            // values of ATTRIBUTE_TYPE
enum { FLOAT32 = 1, INT64 = 7, BFLOAT16 = 16 };  // types of elements

// ------------------------------- the model -------------------------------------------------------

void onnx_begin(Onnx *o, const char *help, int half) {
  *o = (Onnx){.half = half};
  Proto *p = &o->proto;
  proto_int(p, MODEL_IR, IR_VERSION);
  proto_text(p, MODEL_PRODUCER, "bfm");
  proto_text(p, MODEL_PRODUCER_VERSION, BFM_VERSION);
  proto_text(p, MODEL_HELP, help);
  size_t opset = proto_begin(p, MODEL_OPSET);
  proto_int(p, OPSET_VERSION, OPSET);
  proto_end(p, opset);
}

void onnx_metadata(Onnx *o, const char *key, const char *value) {
  size_t entry = proto_begin(&o->proto, MODEL_METADATA);
  proto_text(&o->proto, ENTRY_KEY, key);
  proto_text(&o->proto, ENTRY_VALUE, value);
  proto_end(&o->proto, entry);
}

void onnx_graph(Onnx *o, const char *name) {
  o->graph = proto_begin(&o->proto, MODEL_GRAPH);
  proto_text(&o->proto, GRAPH_NAME, name);
}

int onnx_write(Onnx *o, const char *path) {
  proto_end(&o->proto, o->graph);
  TRY(proto_check(&o->proto));
  if (o->proto.size > INT_MAX) {
    return bfm_fail(
        BFM_BAD_ARGUMENT,
        "%s would have %zu MiB, but an ONNX file has at most 2048: export fewer members "
        "or half",
        path, o->proto.size >> 20);
  }
  OutputFile file;
  TRY(output_open(&file, path));
  TRY(output_write(&file, o->proto.bytes, o->proto.size));
  return output_commit(&file);
}

void onnx_free(Onnx *o) { proto_free(&o->proto); }

// ------------------------------- inputs and outputs ----------------------------------------------

static void put_dimension(Proto *p, int64_t size) {
  size_t dim = proto_begin(p, SHAPE_DIM);
  if (size) proto_int(p, DIM_SIZE, size);
  else proto_text(p, DIM_NAME, "N");
  proto_end(p, dim);
}

static void put_value(Onnx *o, int field, const char *name, int dims, const int64_t *shape) {
  Proto *p = &o->proto;
  size_t value = proto_begin(p, field);
  proto_text(p, VALUE_NAME, name);
  size_t type = proto_begin(p, VALUE_TYPE), tensor = proto_begin(p, TYPE_TENSOR);
  proto_int(p, TENSOR_ELEMENT, FLOAT32);
  size_t list = proto_begin(p, TENSOR_SHAPE);
  for (int i = 0; i < dims; i++) put_dimension(p, shape[i]);
  proto_end(p, list);
  proto_end(p, tensor);
  proto_end(p, type);
  proto_end(p, value);
}

void onnx_input(Onnx *o, const char *name, int dims, const int64_t *shape) {
  put_value(o, GRAPH_INPUT, name, dims, shape);
}

void onnx_output(Onnx *o, const char *name, int dims, const int64_t *shape) {
  put_value(o, GRAPH_OUTPUT, name, dims, shape);
}

// ------------------------------- nodes -----------------------------------------------------------

static void put_attribute(Proto *p, const OnnxNode *node) {
  size_t attribute = proto_begin(p, NODE_ATTRIBUTE);
  proto_text(p, ATTRIBUTE_NAME, node->attribute);
  proto_int(p, node->list ? ATTRIBUTE_INTS : ATTRIBUTE_INT, node->value);
  proto_int(p, ATTRIBUTE_TYPE, node->list ? TYPE_INTS : TYPE_INT);
  proto_end(p, attribute);
}

// the name of a new value: of a node or constant, numbered if it has none of its own
static OnnxValue new_value(Onnx *o, const char *name, const char *kind) {
  OnnxValue out;
  o->nodes++;
  if (name) snprintf(out.name, sizeof out.name, "%s", name);
  else snprintf(out.name, sizeof out.name, "%s_%d", kind, o->nodes);
  return out;
}

OnnxValue onnx_node(Onnx *o, const char *name, const OnnxNode *node) {
  Proto *p = &o->proto;
  OnnxValue out = new_value(o, name, node->op);
  size_t begun = proto_begin(p, GRAPH_NODE);
  for (int i = 0; i < 8 && node->inputs[i]; i++) proto_text(p, NODE_INPUT, node->inputs[i]);
  proto_text(p, NODE_OUTPUT, out.name);
  proto_text(p, NODE_NAME, out.name);
  proto_text(p, NODE_OP, node->op);
  if (node->attribute) put_attribute(p, node);
  proto_end(p, begun);
  return out;
}

// ------------------------------- constants -------------------------------------------------------

// A little-endian CPU is assumed, as everywhere in bfm.
static void put_tensor(Onnx *o, const char *name, int dims, const int64_t *shape, int type,
                       const void *values) {
  Proto *p = &o->proto;
  size_t tensor = proto_begin(p, GRAPH_CONSTANT), count = 1;
  for (int i = 0; i < dims; i++) {
    proto_int(p, CONSTANT_DIMS, shape[i]);
    count *= (size_t)shape[i];
  }
  proto_int(p, CONSTANT_TYPE, type);
  proto_text(p, CONSTANT_NAME, name);
  size_t bytes = count * (type == BFLOAT16 ? 2 : type == FLOAT32 ? 4 : 8);
  void *to = proto_bytes(p, CONSTANT_RAW, bytes);
  const float *from = values;
  if (to && type == BFLOAT16) {
    for (size_t i = 0; i < count; i++) {
      uint16_t half = f32_to_bf16(from[i]);
      memcpy((char *)to + 2 * i, &half, 2);
    }
  } else if (to) {
    memcpy(to, values, bytes);
  }
  proto_end(p, tensor);
}

OnnxValue onnx_floats(Onnx *o, int dims, const int64_t *shape, const float *values) {
  OnnxValue out = new_value(o, NULL, "constant");
  put_tensor(o, out.name, dims, shape, FLOAT32, values);
  return out;
}

OnnxValue onnx_integers(Onnx *o, int64_t count, const int64_t *values) {
  OnnxValue out = new_value(o, NULL, "constant");
  put_tensor(o, out.name, 1, &count, INT64, values);
  return out;
}

OnnxValue onnx_parameters(Onnx *o, const char *name, int dims, const int64_t *shape,
                          const float *values) {
  OnnxValue out = new_value(o, name, "parameters");
  put_tensor(o, out.name, dims, shape, o->half ? BFLOAT16 : FLOAT32, values);
  if (!o->half) return out;
  return onnx_node(o, NULL, &(OnnxNode){"Cast", {out.name}, "to", FLOAT32, 0});
}
