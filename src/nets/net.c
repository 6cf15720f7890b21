// The network: layout, forward, backward. A product with a weight [out, in] is y = x·Wᵀ; with
// blocks, only the units of the blocks asked for are computed, from the inputs they may see.

#include "nets/net.h"

#include <stdio.h>
#include <string.h>

// ------------------------------- layout ----------------------------------------------------------

static void place(const Net *net, Linear *l, int64_t in, int64_t out, int members, int64_t *at) {
  *l = (Linear){.in = in, .out = out, .members = members};
  l->weight = *at;
  *at += (int64_t)net->replicas * members * out * in;
  l->bias = *at;
  *at += (int64_t)net->replicas * members * out;
}

void net_layout(Net *net) {
  int64_t at = 0;
  for (int b = 0; b < 2; b++) {
    place(net, &net->branch_in[b], net->in[b], net->hidden, net->body, &at);
    net->gain[b] = at;
    at += net->replicas * net->body * net->hidden;
    net->shift[b] = at;
    at += net->replicas * net->body * net->hidden;
    place(net, &net->branch_out[b], net->hidden, net->feat, net->body, &at);
  }
  for (int i = 0; i < net->layers; i++) {
    place(net, &net->trunk[i], i ? net->hidden : 2 * net->feat, net->hidden, net->body, &at);
  }
  place(net, &net->trunk[net->layers], net->hidden, net->out, net->heads, &at);
  net->count = at;
}

static void add_tensor(NetTensor *t, int *n, const char *net, const char *part, const char *kind,
                       int members, int64_t out, int64_t in, int64_t at) {
  t = &t[(*n)++];
  memset(t, 0, sizeof *t);
  snprintf(t->name, sizeof t->name, "%s.%s.%s", net, part, kind);
  if (members > 1) t->shape[t->dims++] = members;
  t->shape[t->dims++] = out;
  if (in) t->shape[t->dims++] = in;
  t->at = at;
  t->count = members * out * (in ? in : 1);
}

int net_tensors(const Net *net, const char *name, NetTensor *t) {
  int n = 0;
  char part[32];
  for (int b = 0; b < 2; b++) {
    const Linear *in = &net->branch_in[b], *out = &net->branch_out[b];
    snprintf(part, sizeof part, "%s.in", net->branch[b]);
    add_tensor(t, &n, name, part, "weight", net->body, in->out, in->in, in->weight);
    add_tensor(t, &n, name, part, "bias", net->body, in->out, 0, in->bias);
    snprintf(part, sizeof part, "%s.norm", net->branch[b]);
    add_tensor(t, &n, name, part, "weight", net->body, net->hidden, 0, net->gain[b]);
    add_tensor(t, &n, name, part, "bias", net->body, net->hidden, 0, net->shift[b]);
    snprintf(part, sizeof part, "%s.out", net->branch[b]);
    add_tensor(t, &n, name, part, "weight", net->body, out->out, out->in, out->weight);
    add_tensor(t, &n, name, part, "bias", net->body, out->out, 0, out->bias);
  }
  for (int i = 0; i <= net->layers; i++) {
    const Linear *l = &net->trunk[i];
    snprintf(part, sizeof part, "trunk.%d", i);
    add_tensor(t, &n, name, part, "weight", l->members, l->out, l->in, l->weight);
    add_tensor(t, &n, name, part, "bias", l->members, l->out, 0, l->bias);
  }
  return n;
}

void tape_layout(Tape *tape, const Net *net, Type type, TapeKind kind, int replicas, int64_t rows,
                 Arena *arena) {
  int64_t body = (int64_t)replicas * net->body * rows, heads = (int64_t)replicas * net->heads * rows;
  size_t size = type_size(type);
  int64_t wide = net->hidden;
  *tape = (Tape){.replicas = replicas, .rows = rows};
  for (int b = 0; b < 2; b++) {
    tape->in[b] = arena_take(arena, body * net->in[b] * size);
    tape->act[b] = arena_take(arena, body * net->hidden * size);
    tape->pre[b] = kind == TAPE_TRAIN ? arena_take(arena, body * net->hidden * size) : tape->act[b];
    tape->stats[b] = arena_take(arena, body * net->blocks * 2 * sizeof(float));
  }
  tape->cat = arena_take(arena, body * 2 * net->feat * size);
  for (int i = 0; i < net->layers; i++) tape->trunk[i] = arena_take(arena, body * wide * size);
  tape->out = arena_take(arena, heads * net->out * sizeof(float));
  if (kind == TAPE_INFER) return;

  tape->dout = arena_take(arena, heads * net->out * size);
  for (int i = 0; i < net->layers; i++) tape->dtrunk[i] = arena_take(arena, body * wide * size);
  tape->dcat = arena_take(arena, body * 2 * net->feat * size);
  for (int b = 0; b < 2; b++) tape->dact[b] = arena_take(arena, body * wide * size);
  tape->din = arena_take(arena, body * net->in[0] * size);
  int64_t scratch = norm_scratch(replicas * net->body, rows, wide) * sizeof(float);
  for (int b = 0; b < 2; b++) tape->scratch[b] = arena_take(arena, scratch);
}

// ------------------------------- pieces of a pass ------------------------------------------------

typedef struct {
  Ops *ops;
  const Net *net;
  NetParams params;
  const Tape *tape;
  Pass pass;
} Run;

// element offset in a buffer of the tape whose rows are `width` wide
static int64_t at_row(const Run *run, int64_t width) { return run->pass.row0 * width; }

static const void *plus(const void *base, int64_t elements, Type type) {
  return (const char *)base + elements * (int64_t)type_size(type);
}

static int64_t first_group(const Run *run, const Linear *l) {
  return (int64_t)run->pass.replica * l->members;
}

// what follows goes beside the pass, after what it has so far
static void side_begin(const Run *run) {
  if (!run->pass.side) return;
  run->ops->fork(run->ops, run->pass.side);
  run->ops->lane(run->ops, run->pass.side);
}

static void side_end(const Run *run) {
  if (run->pass.side) run->ops->lane(run->ops, run->pass.lane);
}

static void side_join(const Run *run) {
  if (run->pass.side) run->ops->join(run->ops, run->pass.side);
}

// columns [from, to) of y = x·Wᵀ + b from the first `see` columns of x
typedef struct {
  const void *x;
  int64_t ldx, see;
  void *y;
  int64_t ldy, y0;  // y0: first column of this layer's output in y
  int64_t from, to, rows;
  Type type_y;
  Epilogue epilogue;
} Forward;

static void linear_forward(const Run *run, const Linear *l, Forward f) {
  Type type = run->ops->type;
  int64_t g0 = first_group(run, l), share = l->members / run->net->body;
  run->ops->gemm(
      run->ops,
      &(Gemm){.m = f.rows, .n = f.to - f.from, .k = f.see, .transpose_b = 1, .type = type,
              .type_c = f.type_y, .epilogue = f.epilogue,
              .a = plus(f.x, at_row(run, f.ldx), type), .lda = f.ldx,
              .stride_a = run->tape->rows * f.ldx, .share_a = share,
              .b = plus(run->params.work, l->weight + g0 * l->out * l->in + f.from * l->in, type),
              .ldb = l->in, .stride_b = l->out * l->in,
              .c = (void *)plus(f.y, at_row(run, f.ldy) + f.y0 + f.from, f.type_y), .ldc = f.ldy,
              .stride_c = run->tape->rows * f.ldy,
              .batch = (int64_t)run->tape->replicas * l->members,
              .bias = run->params.value + l->bias + g0 * l->out + f.from, .stride_bias = l->out,
              .bias_copy = plus(run->params.work, l->bias + g0 * l->out + f.from, type)});
}

// the gradient of a linear layer's weights from dy (columns y0 …) and its input x
static void weight_grad(const Run *run, const Linear *l, const void *dy, int64_t ldy, int64_t y0,
                        const void *x, int64_t ldx) {
  Type type = run->ops->type;
  int64_t g0 = first_group(run, l), groups = (int64_t)run->tape->replicas * l->members;
  run->ops->gemm(run->ops,
                 &(Gemm){.m = l->out, .n = l->in, .k = run->pass.rows, .transpose_a = 1,
                         .type = type, .type_c = F32,
                         .a = plus(dy, at_row(run, ldy) + y0, type), .lda = ldy,
                         .stride_a = run->tape->rows * ldy,
                         .b = plus(x, at_row(run, ldx), type), .ldb = ldx,
                         .stride_b = run->tape->rows * ldx, .share_b = l->members / run->net->body,
                         .c = run->params.grad + l->weight + g0 * l->out * l->in, .ldc = l->in,
                         .stride_c = l->out * l->in, .batch = groups});
}

// where the gradient of a layer's bias goes, or NULL
static float *bias_grad(const Run *run, const Linear *l) {
  return run->params.grad ? run->params.grad + l->bias + first_group(run, l) * l->out : NULL;
}

// dx = dy·W, columns 0 … n-1 of it, where relu > 0 (relu NULL: everywhere); sums: dx's over rows
static void linear_back(const Run *run, const Linear *l, const void *dy, int64_t ldy, int64_t y0,
                        void *dx, int64_t ldx, int64_t n, const void *relu, float *const sums[2]) {
  Type type = run->ops->type;
  int64_t g0 = first_group(run, l);
  run->ops->gemm(run->ops,
                 &(Gemm){.m = run->pass.rows, .n = n, .k = l->out, .type = type, .type_c = type,
                         .epilogue = relu ? EPILOGUE_RELU_GRAD : EPILOGUE_NONE,
                         .a = plus(dy, at_row(run, ldy) + y0, type), .lda = ldy,
                         .stride_a = run->tape->rows * ldy,
                         .b = plus(run->params.work, l->weight + g0 * l->out * l->in, type),
                         .ldb = l->in, .stride_b = l->out * l->in,
                         .c = (void *)plus(dx, at_row(run, ldx), type), .ldc = ldx,
                         .stride_c = run->tape->rows * ldx, .share_c = l->members / run->net->body,
                         .relu = relu ? plus(relu, at_row(run, ldx), type) : NULL,
                         .sums = {sums ? sums[0] : NULL, sums ? sums[1] : NULL},
                         .batch = (int64_t)run->tape->replicas * l->members});
}

// ------------------------------- forward ---------------------------------------------------------

// input → linear, layer norm, tanh, linear, relu → its half of tape->cat
static void branch_forward(const Run *run, int b, int64_t rows) {
  const Net *net = run->net;
  const Tape *tape = run->tape;
  Ops *ops = run->ops;
  int masked = b == 1 && net->blocks > 1;
  int64_t K = masked ? net->blocks : 1;
  int64_t first = masked ? run->pass.first_block : 0, end = masked ? run->pass.end_block : 1;
  int64_t h0 = block_start(first, net->hidden, K), h1 = block_start(end, net->hidden, K);
  int64_t f0 = block_start(first, net->feat, K), f1 = block_start(end, net->feat, K);
  int64_t see = masked ? net->in[1] - net->z + block_start(end - 1, net->z, K) : net->in[b];

  linear_forward(run, &net->branch_in[b],
                 (Forward){.x = tape->in[b], .ldx = net->in[b], .see = see, .y = tape->pre[b],
                           .ldy = net->hidden, .from = h0, .to = h1, .rows = rows,
                           .type_y = ops->type, .epilogue = EPILOGUE_BIAS});
  int64_t norm = (int64_t)run->pass.replica * net->body * net->hidden;
  int64_t at = at_row(run, net->hidden);
  ops->norm_tanh(ops, &(NormTanh){.y = (void *)plus(tape->act[b], at, ops->type),
                                  .x = plus(tape->pre[b], at, ops->type),
                                  .stats = tape->stats[b] + run->pass.row0 * K * 2,
                                  .gain = run->params.value + net->gain[b] + norm,
                                  .bias = run->params.value + net->shift[b] + norm,
                                  .groups = (int64_t)tape->replicas * net->body, .rows = rows,
                                  .row_stride = tape->rows, .width = net->hidden, .blocks = K,
                                  .first_block = first, .end_block = end});
  linear_forward(run, &net->branch_out[b],
                 (Forward){.x = tape->act[b], .ldx = net->hidden, .see = h1, .y = tape->cat,
                           .ldy = 2 * net->feat, .y0 = b * net->feat, .from = f0, .to = f1,
                           .rows = rows, .type_y = ops->type, .epilogue = EPILOGUE_BIAS_RELU});
}

// branch 1 was computed for the first rows only: the same features for the other parts
static void repeat_branch(const Run *run, int64_t rows, int64_t repeat) {
  const Net *net = run->net;
  int64_t ld = 2 * net->feat;
  for (int64_t i = 1; i < repeat; i++) {
    Type type = run->ops->type;
    int64_t at = at_row(run, ld) + net->feat;
    run->ops->copy_columns(
        run->ops, &(CopyColumns){.out = (void *)plus(run->tape->cat, at + i * rows * ld, type),
                                 .in = plus(run->tape->cat, at, type),
                                 .groups = (int64_t)run->tape->replicas * net->body, .rows = rows,
                                 .cols = net->feat, .ld_out = ld, .ld_in = ld,
                                 .stride_out = run->tape->rows * ld,
                                 .stride_in = run->tape->rows * ld});
  }
}

void net_forward(Ops *ops, const Net *net, NetParams params, const Tape *tape, Pass pass) {
  if (!pass.end_block) pass.end_block = net->blocks;
  if (!pass.repeat) pass.repeat = 1;
  Run run = {ops, net, params, tape, pass};
  side_begin(&run);
  branch_forward(&run, 1, pass.rows / pass.repeat);
  repeat_branch(&run, pass.rows / pass.repeat, pass.repeat);
  side_end(&run);
  if (!pass.first_block) branch_forward(&run, 0, pass.rows);
  side_join(&run);

  const void *x = tape->cat;
  int64_t ldx = 2 * net->feat, K = net->blocks;
  int64_t see = net->feat + block_start(pass.end_block, net->feat, K);
  int64_t from = block_start(pass.first_block, net->hidden, K);
  int64_t to = block_start(pass.end_block, net->hidden, K);
  for (int i = 0; i < net->layers; i++) {
    linear_forward(&run, &net->trunk[i],
                   (Forward){.x = x, .ldx = ldx, .see = see, .y = tape->trunk[i],
                             .ldy = net->hidden, .from = from, .to = to, .rows = pass.rows,
                             .type_y = ops->type, .epilogue = EPILOGUE_BIAS_RELU});
    x = tape->trunk[i];
    ldx = net->hidden;
    see = to;
  }
  linear_forward(&run, &net->trunk[net->layers],
                 (Forward){.x = x, .ldx = ldx, .see = see, .y = tape->out, .ldy = net->out,
                           .from = block_start(pass.first_block, net->out, K),
                           .to = block_start(pass.end_block, net->out, K), .rows = pass.rows,
                           .type_y = F32, .epilogue = EPILOGUE_BIAS});
}

// ------------------------------- backward --------------------------------------------------------

static void branch_backward(const Run *run, int b, int want_din) {
  const Net *net = run->net;
  const Tape *tape = run->tape;
  Ops *ops = run->ops;
  int64_t ld = 2 * net->feat, y0 = b * net->feat;
  int64_t K = b == 1 ? net->blocks : 1, at = at_row(run, net->hidden);
  int64_t norm = (int64_t)run->pass.replica * net->body * net->hidden;
  float *grad = run->params.grad;

  if (grad) {
    weight_grad(run, &net->branch_out[b], tape->dcat, ld, y0, tape->act[b], net->hidden);
  }
  linear_back(run, &net->branch_out[b], tape->dcat, ld, y0, tape->dact[b], net->hidden, net->hidden,
              NULL, NULL);
  void *dact = (void *)plus(tape->dact[b], at, ops->type);
  ops->norm_tanh_grad(ops, &(NormTanhGrad){.dx = dact, .dy = dact,
                                           .y = plus(tape->act[b], at, ops->type),
                                           .x = plus(tape->pre[b], at, ops->type),
                                           .stats = tape->stats[b] + run->pass.row0 * K * 2,
                                           .gain = run->params.value + net->gain[b] + norm,
                                           .dgain = grad ? grad + net->gain[b] + norm : NULL,
                                           .dbias = grad ? grad + net->shift[b] + norm : NULL,
                                           .sums = bias_grad(run, &net->branch_in[b]),
                                           .scratch = tape->scratch[b],
                                           .groups = (int64_t)tape->replicas * net->body,
                                           .rows = run->pass.rows, .row_stride = tape->rows,
                                           .width = net->hidden, .blocks = K});
  if (grad) {
    weight_grad(run, &net->branch_in[b], tape->dact[b], net->hidden, 0, tape->in[b], net->in[b]);
  }
  if (want_din) {
    linear_back(run, &net->branch_in[b], tape->dact[b], net->hidden, 0, tape->din, net->in[b],
                net->in[b], NULL, NULL);
  }
}

void net_backward_trunk(Ops *ops, const Net *net, NetParams params, const Tape *tape,
                        const float *dout, Pass pass) {
  Run run = {ops, net, params, tape, pass};
  int64_t heads = (int64_t)tape->replicas * net->heads;
  ops->pack(ops, &(Pack){.out = tape->dout, .a = dout, .a_cols = net->out, .groups = heads,
                         .copies = 1, .rows = pass.rows, .row0 = pass.row0,
                         .row_stride = tape->rows});

  const void *dy = tape->dout;
  int64_t ldy = net->out;
  if (params.grad) {
    side_begin(&run);
    ops->bias_grad(ops, &(BiasGrad){.db = bias_grad(&run, &net->trunk[net->layers]),
                                    .dy = plus(dy, at_row(&run, ldy), ops->type), .groups = heads,
                                    .rows = pass.rows, .cols = ldy, .ld = ldy,
                                    .stride = tape->rows * ldy});
    side_end(&run);
  }
  for (int i = net->layers; i >= 0; i--) {
    const Linear *l = &net->trunk[i];
    const void *x = i ? tape->trunk[i - 1] : tape->cat;
    int64_t ldx = i ? net->hidden : 2 * net->feat;
    if (params.grad) {
      side_begin(&run);
      weight_grad(&run, l, dy, ldy, 0, x, ldx);
      side_end(&run);
    }
    void *dx = i ? tape->dtrunk[i - 1] : tape->dcat;
    int64_t n = i || params.grad ? ldx : net->feat;  // for the input alone, branch 0 is enough
    // what dx sums to over rows is the gradient of the biases that x was made with
    float *const sums[2] = {bias_grad(&run, i ? &net->trunk[i - 1] : &net->branch_out[0]),
                            i ? NULL : bias_grad(&run, &net->branch_out[1])};
    linear_back(&run, l, dy, ldy, 0, dx, ldx, n, x, sums);
    dy = dx;
    ldy = ldx;
  }
}

void net_backward_branches(Ops *ops, const Net *net, NetParams params, const Tape *tape, Pass pass,
                           int want_din) {
  Run run = {ops, net, params, tape, pass};
  if (params.grad) {
    side_begin(&run);
    branch_backward(&run, 1, 0);
    side_end(&run);
  }
  branch_backward(&run, 0, want_din);
  if (params.grad) side_join(&run);
}

void net_backward(Ops *ops, const Net *net, NetParams params, const Tape *tape, const float *dout,
                  Pass pass, int want_din) {
  net_backward_trunk(ops, net, params, tape, dout, pass);
  net_backward_branches(ops, net, params, tape, pass, want_din);
}
