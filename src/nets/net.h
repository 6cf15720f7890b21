// The one network architecture, for F, B, pi (and U, V of the advantage-only model):
//
//   input 0 → linear, layer norm, tanh, linear, relu ┐
//                                                    ├→ layers × (linear, relu) → linear → output
//   input 1 → linear, layer norm, tanh, linear, relu ┘
//
// With K > 1 blocks, the branch of input 1 and the trunk are masked: block i of a layer sees blocks
// j ≤ i of the layer before (of z: j < i), and layer norms normalize each block separately.
// `norm` puts a layer norm before each relu of the trunk. Without input 1, the trunk sees only
// branch 0; then `feat_norm` puts a layer norm before the branch's last relu, and with no layers
// the output layer follows directly. `plain` replaces layer norm and tanh of the branches by a relu.
// The leading axes of every tensor are replicas and members. With `body` 1 and several `heads`, all
// members share the branches, and each has a trunk of its own. Backward is written by hand.
//
// Padding: tensor cores need rows that are multiples of 16 bytes, so inputs and the units of the
// last layer are padded with zeros to a multiple of NET_PAD. Because inputs and gradients are zero
// there, Adam keeps the padded parameters at 0.

#ifndef BFM_NETS_NET_H
#define BFM_NETS_NET_H

#include "core/arena.h"
#include "core/status.h"
#include "ops/ops.h"

#define NET_MAX_LAYERS 8
#define NET_PAD 8

static inline int64_t net_padded(int64_t n) { return (n + NET_PAD - 1) / NET_PAD * NET_PAD; }

enum { OBS_MOST = 4096, ACT_MOST = 1024 };  // most numbers in an observation and in an action

// pointers to a network's parameters: values (float32), working copies and gradients (T)
typedef struct {
  const float *value;
  const void *work;
  void *grad;
} NetParams;

typedef struct {
  int64_t in, out;
  int64_t ld, rows;  // the weight is stored as [rows, ld], the bias as [rows], with zero padding
  int members;       // of each replica
  int share;         // consecutive members that read the same input
  int64_t weight, bias;  // offsets in the network's parameters, in floats
} Linear;

typedef struct {
  int64_t width;  // 0: no layer norm
  int members;
  int64_t gain, shift;
} LayerNorm;

typedef struct {
  const char *name;       // "F"
  const char *branch[2];  // "sa", "sz"
  int64_t in[2];          // width of the inputs; in[1] = 0: no input 1
  int64_t z;              // the last z columns of input 1 are z (masked when K > 1)
  int64_t hidden, feat, out;
  int layers;
  int replicas;
  int body, heads;  // members of the branches, and of the trunk: a multiple
  int64_t blocks;   // K
  int norm, feat_norm, plain;
  int pad_out;       // rows of the output are padded too
  int has_target;    // a slow copy follows the parameters
  int frozen;        // the parameters keep their initial values
  float last_scale;  // factor on the last layer's initial weights; 0 counts as 1

  // set by net_layout
  Linear branch_in[2], branch_out[2], trunk[NET_MAX_LAYERS + 1];
  LayerNorm branch_norm[2];
  LayerNorm trunk_norm[NET_MAX_LAYERS + 1];  // before x[i] of the tape
  int64_t count;                             // floats of all parameters

  // set by params.c
  int64_t first;           // offset of the parameters in the set's array, in floats
  NetParams online, slow;  // slow: the targets, with has_target
} Net;

// Matrices [rows, cols] on the device, whose rows are ld floats and which are stride floats apart.
// All 0: no padding
typedef struct {
  int64_t rows, cols, ld, stride;
} Padding;

// a parameter tensor with its name, without the replica axis
typedef struct {
  char name[64];
  int dims;
  int64_t shape[3];
  int64_t count;   // floats per replica, without padding
  int64_t at;      // offset of replica 0 in the network's parameters, in floats
  int64_t stride;  // floats from one replica to the next
  Padding padding;
} NetTensor;

#define NET_MAX_TENSORS (12 + 4 * (NET_MAX_LAYERS + 1))

static inline int net_branches(const Net *net) { return net->in[1] ? 2 : 1; }

// places the parameters of a network whose fields above `branch_in` are set
void net_layout(Net *net);
// orthogonal weights; `number` differs between the networks of one agent
int net_init(const Net *net, const uint64_t *seeds, uint64_t number, float *values);
void net_masks(const Net *net, uint8_t *mask);  // [count]: 1 where a weight may be used

// tensors.c: the parameters by name, and copies of `count` values between the device (with padding)
// and the host (without)
int net_tensors(const Net *net, const char *name, NetTensor *tensors);  // returns how many
int padding_download(Ops *ops, Padding padding, float *to, const float *from, int64_t count);
int padding_upload(Ops *ops, Padding padding, float *to, const float *from, int64_t count);

// the activations of a pass, and the gradients of its backward pass
typedef struct {
  int replicas;              // number of replicas that the buffers hold
  int64_t rows;              // of each group
  int64_t ld_in[2], ld_out;  // length of a row, in elements
  void *in[2];
  void *pre[2], *act[2];  // before and after layer norm and tanh
  float *stats[2];
  // input of each layer of the trunk, [replicas·heads, rows, ·]; x[0] are the branches' outputs,
  // [replicas·body, rows, ·]
  void *x[NET_MAX_LAYERS + 1];
  void *x_pre[NET_MAX_LAYERS + 1];  // the same before its layer norm; x itself if there is none
  float *x_stats[NET_MAX_LAYERS + 1];
  float *out;  // [replicas·heads, rows, ld_out]

  void *dout, *dx[NET_MAX_LAYERS + 1], *dact[2], *din;  // din: rows of ld_in[0]
  float *scratch[2];
} Tape;

typedef enum { TAPE_INFER, TAPE_TRAIN } TapeKind;

// The arena's memory must be zero, because nothing ever writes the padding of inputs.
void tape_layout(Tape *tape, const Net *net, Type type, TapeKind kind, int replicas, int64_t rows,
                 Arena *arena);

// The part of a tape that a pass computes: rows row0 … row0+rows-1 and blocks first_block …
// end_block-1. With repeat > 1, input 1 has rows/repeat rows, which repeat for each part of input 0.
typedef struct {
  int64_t row0, rows;
  int64_t repeat;                  // 0 counts as 1
  int replica;                     // the parameters of tape->replicas replicas, beginning with this
  int64_t first_block, end_block;  // 0, 0: all
  int lane, side;  // the lane of the pass, and a lane for parallel work; side 0: none
} Pass;

void net_forward(Ops *ops, const Net *net, NetParams params, const Tape *tape, Pass pass);

// dout: [replicas·heads, rows, out] float32, without padding. With params.grad, computes the
// gradients of the parameters (overwrites, does not add). With want_din, computes tape->din, the
// gradient with respect to input 0, and nothing of branch 1.
void net_backward(Ops *ops, const Net *net, NetParams params, const Tape *tape, const float *dout,
                  Pass pass, int want_din);
// The two halves of net_backward. After the first one, the trunk's gradients are complete and its
// weights are no longer needed, so that they can be updated.
void net_backward_trunk(Ops *ops, const Net *net, NetParams params, const Tape *tape,
                        const float *dout, Pass pass);
void net_backward_branches(Ops *ops, const Net *net, NetParams params, const Tape *tape, Pass pass,
                           int want_din);

#endif
