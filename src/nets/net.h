// The one shape of network, for F, B, pi (and U, V of the advantage-only model):
//
//   input 0 → linear, layer norm, tanh, linear, relu ┐
//                                                    ├→ layers × (linear, relu) → linear → output
//   input 1 → linear, layer norm, tanh, linear, relu ┘
//
// With K > 1 blocks the input-1 branch and the trunk are masked: block i of a layer sees blocks j ≤
// i of the layer before (of z: j < i), and layer norms normalize each block by itself.
// norm puts a layer norm before the relus of the trunk. Without input 1 the trunk sees branch 0
// alone; there feat_norm puts one before the branch's relu, and with no layers the output follows
// it. plain branches have a relu in the place of layer norm and tanh.
// Leading axes of every tensor: replicas, members. Backward is by hand.
//
// Tensor cores want rows of 16 bytes: what the networks see, and the last layer's units, are padded
// with zeros to a multiple of NET_PAD. Zeros in inputs and gradients keep the parameters there 0.

#ifndef BFM_NETS_NET_H
#define BFM_NETS_NET_H

#include "core/arena.h"
#include "core/status.h"
#include "ops/ops.h"

#define NET_MAX_LAYERS 8
#define NET_PAD 8

static inline int64_t net_padded(int64_t n) { return (n + NET_PAD - 1) / NET_PAD * NET_PAD; }

enum { OBS_MOST = 4096, ACT_MOST = 1024 };  // largest observations and actions, in numbers

// where a network's parameters are: values (float32), working copies and gradients (T)
typedef struct {
  const float *value;
  const void *work;
  void *grad;
} NetParams;

typedef struct {
  int64_t in, out;
  int64_t ld, rows;      // the weight is [rows, ld], the bias [rows]: zero beyond [out, in]
  int members;           // of each replica
  int64_t weight, bias;  // where in the network's parameters, in floats
} Linear;

typedef struct {
  int64_t width;  // 0: there is none
  int64_t gain, shift;
} LayerNorm;

typedef struct {
  const char *name;       // "F"
  const char *branch[2];  // "sa", "sz"
  int64_t in[2];          // width of the inputs; of input 1 0: there is none
  int64_t z;              // the last z columns of input 1 are z (masked when K > 1)
  int64_t hidden, feat, out;
  int layers;
  int replicas;
  int body, heads;  // members of all layers but the last; of the last
  int64_t blocks;   // K
  int norm, feat_norm, plain;
  int pad_out;       // rows of the output are padded too
  int has_target;    // there is a slow copy
  int frozen;        // it keeps its initial parameters
  float last_scale;  // factor on the last layer's initial weights; 0 counts as 1

  // set by net_layout
  Linear branch_in[2], branch_out[2], trunk[NET_MAX_LAYERS + 1];
  LayerNorm branch_norm[2];
  LayerNorm trunk_norm[NET_MAX_LAYERS + 1];  // of the branch's output, of each layer's
  int64_t count;                             // floats of all parameters

  // set by params.c
  int64_t first;           // where the parameters begin in the set's array
  NetParams online, slow;  // slow: of a network with targets
} Net;

// matrices [rows, cols] on the device: floats from a row to the next, from a matrix to the next.
// All 0: without padding
typedef struct {
  int64_t rows, cols, ld, stride;
} Padding;

// a parameter tensor by its name, without the replica axis
typedef struct {
  char name[64];
  int dims;
  int64_t shape[3];
  int64_t count;   // floats a replica, without padding
  int64_t at;      // of replica 0, in floats from the network's first
  int64_t stride;  // floats from a replica to the next
  Padding padding;
} NetTensor;

#define NET_MAX_TENSORS (12 + 4 * (NET_MAX_LAYERS + 1))

static inline int net_branches(const Net *net) { return net->in[1] ? 2 : 1; }

// place the parameters of a network whose fields above `branch_in` are given
void net_layout(Net *net);
// orthogonal weights; number tells networks of one agent apart
int net_init(const Net *net, const uint64_t *seeds, uint64_t number, float *values);
void net_masks(const Net *net, uint8_t *mask);  // [count]: 1 where a weight may be used

// tensors.c: the parameters by name, and `count` of them between device and host, there without
// padding
int net_tensors(const Net *net, const char *name, NetTensor *tensors);  // returns how many
int padding_download(Ops *ops, Padding padding, float *to, const float *from, int64_t count);
int padding_upload(Ops *ops, Padding padding, float *to, const float *from, int64_t count);

// activations of a pass, and the gradients going back
typedef struct {
  int replicas;              // how many the buffers hold
  int64_t rows;              // of each group
  int64_t ld_in[2], ld_out;  // floats or T of a row
  void *in[2];
  void *pre[2], *act[2];  // around layer norm and tanh
  float *stats[2];
  void *x[NET_MAX_LAYERS + 1];      // into each layer of the trunk: first the branches' outputs
  void *x_pre[NET_MAX_LAYERS + 1];  // before the layer norm, where there is one; else x
  float *x_stats[NET_MAX_LAYERS + 1];
  float *out;  // [replicas·heads, rows, ld_out]

  void *dout, *dx[NET_MAX_LAYERS + 1], *dact[2], *din;  // din: rows of ld_in[0]
  float *scratch[2];
} Tape;

typedef enum { TAPE_INFER, TAPE_TRAIN } TapeKind;

// in memory that is zero: the padding of inputs stays so
void tape_layout(Tape *tape, const Net *net, Type type, TapeKind kind, int replicas, int64_t rows,
                 Arena *arena);

// which part of a pass: rows row0 … row0+rows-1, blocks first … end-1, replicas from `replica` on.
// repeat > 1: input 1 has rows/repeat rows, used again for each further part of input 0's rows
typedef struct {
  int64_t row0, rows;
  int64_t repeat;                  // 0 counts as 1
  int replica;                     // parameters of tape->replicas replicas from here
  int64_t first_block, end_block;  // 0, 0: all
  int lane, side;  // the lane it runs on, and one for what can go beside it; 0: none
} Pass;

void net_forward(Ops *ops, const Net *net, NetParams params, const Tape *tape, Pass pass);

// dout: [replicas·heads, rows, out] float32, tight. With params.grad: the parameters' gradients
// (set, not added). With want_din: tape->din, the gradient by input 0, and nothing of branch 1.
void net_backward(Ops *ops, const Net *net, NetParams params, const Tape *tape, const float *dout,
                  Pass pass, int want_din);
// its two halves: after the first, the trunk's gradients are there and its weights no longer needed
void net_backward_trunk(Ops *ops, const Net *net, NetParams params, const Tape *tape,
                        const float *dout, Pass pass);
void net_backward_branches(Ops *ops, const Net *net, NetParams params, const Tape *tape, Pass pass,
                           int want_din);

#endif
