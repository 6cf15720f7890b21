// Inside the policy runtime: networks as pointers into a model's file, the kernels that compute them,
// and small readers. C99 that is also C++17, with libc and libm only. Nothing here allocates, locks,
// or keeps state: what changes lies in memory that the caller gave.
//
// The order of every sum is fixed: sixteen partial sums, which are then added as a tree. So one
// observation gives the same bits alone or among others, and with AVX2, AVX-512 and NEON.

#ifndef BFM_POLICY_POLICY_H
#define BFM_POLICY_POLICY_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bfm_policy.h"

#ifndef POLICY_INTERNAL
#define POLICY_INTERNAL
#endif

enum {
  POLICY_LAYERS = 4,    // most hidden layers of a trunk
  POLICY_MEMBERS = 8,   // networks F
  POLICY_WIDTH = 4096,  // units of a layer, and numbers of z
  POLICY_OBS = 4096,    // numbers of an observation, and of an action
  POLICY_ACT = 1024,
  POLICY_BLOCKS = 64,
  POLICY_SAMPLES = 4096,
};

// sizes in bytes, so that what follows is aligned
static inline size_t policy_rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// the caller's memory, in the order of the calls; without a base, it is only counted
typedef struct {
  char *base;
  size_t used;
} PolicyRoom;

static inline void *policy_take(PolicyRoom *room, size_t bytes) {
  void *at = room->base ? room->base + room->used : NULL;
  room->used += policy_rounded(bytes);
  return at;
}

// ------------------------------- networks --------------------------------------------------------

typedef enum { WEIGHTS_F32, WEIGHTS_BF16, WEIGHTS_I8 } PolicyWeights;

// y = W·x + b of each member; the weight of a member is [out, in] with rows of ld elements
typedef struct {
  const void *weight;
  const float *scale;  // of each row, for int8: W = scale · weight
  const float *bias;
  int type;  // PolicyWeights
  int in, out, members;
  size_t ld, stride, scale_stride, bias_stride;  // strides: from one member to the next
} PolicyLinear;

typedef struct {
  const float *gain, *shift;  // gain NULL: no layer norm
  size_t stride;
} PolicyNorm;

// the networks of nets/net.h, as far as acting and prompting need them
typedef struct {
  int in[2];  // width of the two inputs; the last z numbers of input 1 are z if there are blocks
  int z, hidden, feat, out, layers, blocks;
  int body, heads;  // members of the branches and of the trunk: a multiple
  PolicyLinear branch_in[2], branch_out[2], trunk[POLICY_LAYERS + 1];
  PolicyNorm branch_norm[2], trunk_norm[POLICY_LAYERS];
} PolicyNet;

// unit u of n is in block floor(u·K/n); this is the first unit of a block
static inline int policy_block(int block, int n, int K) {
  return (int)(((int64_t)block * n + K - 1) / K);
}

// ------------------------------- kernels ---------------------------------------------------------

enum { POLICY_RELU, POLICY_TANH };

// columns from … to-1 of y = W·x + b for each of the rows of x, from the first `inputs` numbers of x
typedef struct {
  const PolicyLinear *layer;
  int member;
  const float *x;
  size_t ldx;
  float *y;
  size_t ldy;
  int rows, inputs, from, to, relu;
} PolicyProduct;

typedef struct {
  const char *name;
  int (*works)(void);  // whether this machine has the instructions
  void (*product)(const PolicyProduct *product);
  // y = f(layer norm of x), in place; f: POLICY_RELU or POLICY_TANH
  void (*norm)(float *x, int n, const float *gain, const float *shift, int f);
  void (*tanh)(float *x, int n);
  float (*dot)(const float *x, const float *y, int n);
} PolicyKernels;

// the fastest that this machine runs, or those of a name ("plain", "avx2", "avx512", "neon"); NULL if
// they cannot run here
POLICY_INTERNAL const PolicyKernels *policy_kernels(const char *name);

// Rounding to nearest, no traps, and numbers below 1e-38 count as 0, which are slow on many CPUs. The
// result is what policy_float_end restores.
POLICY_INTERNAL uint64_t policy_float_begin(void);
POLICY_INTERNAL void policy_float_end(uint64_t before);

// ------------------------------- passes ----------------------------------------------------------

// The second input may have fewer rows, which repeat: row i of the first goes with row i % rows1.
typedef struct {
  const PolicyKernels *kernels;
  const PolicyNet *net;
  int head;  // member
  const float *in[2];
  size_t ld_in[2], ld_out;  // from one row to the next; 0: as wide as the network's
  int rows, rows1;
  int end_block;  // blocks 0 … end_block-1; 0: all
  float *scratch;
  float *out;  // [rows, net->out]
} PolicyPass;

// floats of scratch that a pass over `rows` rows needs
POLICY_INTERNAL size_t policy_scratch(const PolicyNet *net, int rows);
POLICY_INTERNAL void policy_forward(const PolicyPass *pass);

// out = z · √d / ‖z‖
POLICY_INTERNAL void policy_sphere(float *out, const float *z, int d);
// each block of x scaled to the norm √size, in place
POLICY_INTERNAL void policy_block_norm(float *x, int d, int K);
// z as B sees it: block k scaled by what makes z_1 … z_k of norm √(d_1 + … + d_k)
POLICY_INTERNAL void policy_residual_norm(float *out, const float *z, int d, int K);

// ------------------------------- sentences -------------------------------------------------------

// A message is built from words and numbers; it is cut off where the room ends.
typedef struct {
  char *text;
  size_t size, used;
} PolicyText;

POLICY_INTERNAL void policy_clear(bfm_policy_error *error);  // may be NULL
// begins a message; sets the status of error, which may be NULL
POLICY_INTERNAL PolicyText policy_text(bfm_policy_error *error, bfm_policy_status status);
POLICY_INTERNAL void say_text(PolicyText *text, const char *words);
POLICY_INTERNAL void say_count(PolicyText *text, long long number);
POLICY_INTERNAL void say_number(PolicyText *text, double number);  // six digits

// sets error, which may be NULL, to status and words, and returns status
POLICY_INTERNAL bfm_policy_status policy_fail(bfm_policy_error *error, bfm_policy_status status,
                                              const char *words);
// the same with a number after the words, and more words
POLICY_INTERNAL bfm_policy_status policy_fail_at(bfm_policy_error *error, bfm_policy_status status,
                                                 const char *words, double number,
                                                 const char *more);

// ------------------------------- JSON ------------------------------------------------------------

// A place in JSON text. escaped: the text is the inside of a JSON string, where every quotation mark
// has a backslash before it.
typedef struct {
  const char *at, *end;
  int escaped;
} PolicyJson;

POLICY_INTERNAL int json_peek(PolicyJson *json);              // next character after spaces, or -1
POLICY_INTERNAL int json_take(PolicyJson *json, int wanted);  // whether it was next; skips it
// reads a string, cut off after size-1 bytes; returns 0 if there is none
POLICY_INTERNAL int json_string(PolicyJson *json, char *out, size_t size);
POLICY_INTERNAL int json_number(PolicyJson *json, double *out);
POLICY_INTERNAL int json_skip(PolicyJson *json);  // any value; 0 if it is not valid
// The next key of an object or element of an array: call them after the opening bracket with *first
// = 1. They return 0 at the closing bracket, which they skip, and -1 if the text is not valid.
POLICY_INTERNAL int json_key(PolicyJson *json, int *first, char *key, size_t size);
POLICY_INTERNAL int json_element(PolicyJson *json, int *first);

// ------------------------------- a model ---------------------------------------------------------

struct bfm_policy {
  bfm_policy_info info;
  uint64_t id;  // a hash of the file's header, so of all sizes
  const PolicyKernels *kernels;
  PolicyNet f, b, pi;
  int b_norm, laplacian;
  int goal_dim;                  // numbers that B sees
  const int *goal;               // their columns; NULL: all
  bfm_policy_signal *obs, *act;  // [obs_dim], [act_dim]; NULL: unknown
  const float *mean, *inverse;   // of the observations and 1/deviation; NULL: unknown
  const float *prompt_obs;       // in the file, or NULL
  const void *map;               // of bfm_policy_open
  size_t map_size;
};

struct bfm_policy_work {
  const bfm_policy *policy;
  uint64_t id;  // of the policy: another one may be loaded to the same place
  int samples;  // at most
  int rows;     // that fit in the buffers
  int has_last;
  float *low, *high, *rate, *safe, *last;  // limits, and the action before
  float *unit_z, *in0, *in1, *out, *mu, *candidates, *q, *scratch;
};

#define POLICY_RIDGE 1e-6  // GRAM_RIDGE of the main library

// whether a workspace was made for this very model
POLICY_INTERNAL int policy_owns(const bfm_policy *policy, const bfm_policy_work *work);

// refuse observations and z that the networks cannot use
POLICY_INTERNAL bfm_policy_status policy_check_obs(const bfm_policy *policy, const float *obs,
                                                   bfm_policy_error *error);
POLICY_INTERNAL bfm_policy_status policy_check_z(const float *z, int d, bfm_policy_error *error);

// 0 unless x [n] has a number that is not finite or beyond ±most; then its place, counted from 1
POLICY_INTERNAL int policy_odd(const float *x, int n, float most);

#endif
