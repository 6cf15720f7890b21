// One forward pass of F, B or π for some rows: the architecture of nets/net.h, layer by layer. With
// blocks, the units of block i are computed from the inputs that they may see, which are the first
// ones of a row.

#include "policy/policy.h"

typedef struct {
  const PolicyPass *pass;
  float *hidden;  // [rows, hidden]
  float *feat;    // [rows, 2 feat]
  float *x[2];    // [rows, hidden], in turns
} Buffers;

static size_t padded(size_t floats) { return policy_rounded(floats * 4) / 4; }

POLICY_INTERNAL size_t policy_scratch(const PolicyNet *net, int rows) {
  size_t n = (size_t)rows;
  return 3 * padded(n * (size_t)net->hidden) + padded(2 * n * (size_t)net->feat);
}

static Buffers buffers_of(const PolicyPass *pass) {
  const PolicyNet *net = pass->net;
  size_t hidden = padded((size_t)pass->rows * (size_t)net->hidden);
  Buffers b;
  b.pass = pass;
  b.hidden = pass->scratch;
  b.x[0] = b.hidden + hidden;
  b.x[1] = b.x[0] + hidden;
  b.feat = b.x[1] + hidden;
  return b;
}

// A layer whose last `masked` inputs are in K blocks, as are its outputs. strict: block i sees blocks
// j < i, not j ≤ i
typedef struct {
  const PolicyLinear *layer;
  int member, rows, relu, K, masked, strict;
  const float *x;
  size_t ldx;
  float *y;
  size_t ldy;
} Layer;

static void run_layer(const PolicyPass *pass, const Layer *layer) {
  const PolicyLinear *l = layer->layer;
  int K = layer->K, end = K > 1 && pass->end_block ? pass->end_block : K;
  PolicyProduct p;
  p.layer = l, p.member = layer->member, p.rows = layer->rows, p.relu = layer->relu;
  p.x = layer->x, p.ldx = layer->ldx, p.y = layer->y, p.ldy = layer->ldy;
  for (int k = 0; k < end; k++) {
    int visible = layer->strict ? k : k + 1;
    p.inputs = K > 1 ? l->in - layer->masked + policy_block(visible, layer->masked, K) : l->in;
    p.from = policy_block(k, l->out, K);
    p.to = policy_block(k + 1, l->out, K);
    pass->kernels->product(&p);
  }
}

static void run_norm(const PolicyPass *pass, const PolicyNorm *norm, int member, float *x, int rows,
                     int width, int K, int f) {
  int end = K > 1 && pass->end_block ? pass->end_block : K;
  const float *gain = norm->gain + (size_t)member * norm->stride;
  const float *shift = norm->shift + (size_t)member * norm->stride;
  for (int row = 0; row < rows; row++) {
    for (int k = 0; k < end; k++) {
      int from = policy_block(k, width, K), to = policy_block(k + 1, width, K);
      pass->kernels->norm(x + (size_t)row * (size_t)width + from, to - from, gain + from,
                          shift + from, f);
    }
  }
}

// input → linear, layer norm, tanh, linear, relu → its half of feat
static void run_branch(const Buffers *b, int branch, int rows) {
  const PolicyPass *pass = b->pass;
  const PolicyNet *net = pass->net;
  int member = pass->head / (net->heads / net->body), K = branch ? net->blocks : 1;
  Layer layer;
  layer.layer = &net->branch_in[branch], layer.member = member, layer.rows = rows, layer.relu = 0;
  layer.K = K, layer.masked = net->z, layer.strict = 1;
  layer.x = pass->in[branch], layer.y = b->hidden, layer.ldy = (size_t)net->hidden;
  layer.ldx = pass->ld_in[branch] ? pass->ld_in[branch] : (size_t)net->in[branch];
  run_layer(pass, &layer);
  run_norm(pass, &net->branch_norm[branch], member, b->hidden, rows, net->hidden, K, POLICY_TANH);
  layer.layer = &net->branch_out[branch], layer.relu = 1;
  layer.masked = net->hidden, layer.strict = 0;
  layer.x = b->hidden, layer.ldx = (size_t)net->hidden;
  layer.y = b->feat + (branch ? net->feat : 0), layer.ldy = 2 * (size_t)net->feat;
  run_layer(pass, &layer);
}

// branch 1 was computed for the first rows: copies its half to the others
static void repeat_branch(const Buffers *b) {
  size_t feat = (size_t)b->pass->net->feat;
  for (int row = b->pass->rows1; row < b->pass->rows; row++) {
    const float *from = b->feat + (size_t)(row % b->pass->rows1) * 2 * feat;
    memcpy(b->feat + (size_t)row * 2 * feat + feat, from + feat, feat * sizeof *from);
  }
}

POLICY_INTERNAL void policy_forward(const PolicyPass *pass) {
  const PolicyNet *net = pass->net;
  Buffers b = buffers_of(pass);
  run_branch(&b, 1, pass->rows1);
  repeat_branch(&b);
  run_branch(&b, 0, pass->rows);

  Layer layer;
  layer.rows = pass->rows, layer.member = pass->head, layer.K = net->blocks, layer.strict = 0;
  layer.x = b.feat, layer.ldx = 2 * (size_t)net->feat, layer.masked = net->feat;
  for (int i = 0; i <= net->layers; i++) {
    int last = i == net->layers, norm = !last && net->trunk_norm[i].gain != NULL;
    layer.layer = &net->trunk[i], layer.relu = !last && !norm;
    layer.y = last ? pass->out : b.x[i % 2];
    layer.ldy = (size_t)(last ? net->out : net->hidden);
    if (last && pass->ld_out) layer.ldy = pass->ld_out;
    run_layer(pass, &layer);
    if (norm) {
      run_norm(pass, &net->trunk_norm[i], pass->head, layer.y, pass->rows, net->hidden, net->blocks,
               POLICY_RELU);
    }
    layer.x = layer.y, layer.ldx = layer.ldy, layer.masked = net->hidden;
  }
}

// ------------------------------- z and features --------------------------------------------------

static float square_of(const float *x, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  return sum;
}

static float inverse_norm(float square, int n) {
  float norm = sqrtf(square);
  return sqrtf((float)n) / (norm > 1e-12f ? norm : 1e-12f);
}

POLICY_INTERNAL void policy_sphere(float *out, const float *z, int d) {
  float scale = inverse_norm(square_of(z, d), d);
  for (int i = 0; i < d; i++) out[i] = z[i] * scale;
}

POLICY_INTERNAL void policy_block_norm(float *x, int d, int K) {
  for (int k = 0; k < K; k++) {
    int from = policy_block(k, d, K), n = policy_block(k + 1, d, K) - from;
    policy_sphere(x + from, x + from, n);
  }
}

POLICY_INTERNAL void policy_residual_norm(float *out, const float *z, int d, int K) {
  float square = 0;
  for (int k = 0; k < K; k++) {
    int from = policy_block(k, d, K), to = policy_block(k + 1, d, K);
    square += square_of(z + from, to - from);
    float scale = inverse_norm(square, to);
    for (int i = from; i < to; i++) out[i] = z[i] * scale;
  }
}
