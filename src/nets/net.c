// The network: layout, forward, backward. A layer with the weight W [out, in] computes y = x·Wᵀ + b.
// With blocks, it computes only the units of the requested blocks, from the inputs they may see.

#include "nets/net.h"

// ------------------------------- layout ----------------------------------------------------------

// Reserves the parameters of a layer: weight [out, in] stored as [rows, ld], bias [out] as [rows].
// share: members that read the same input
static void place(const Net *net, Linear *l, int64_t in, int64_t ld, int64_t out, int64_t rows,
                  int members, int share, int64_t *at) {
  *l = (Linear){.in = in, .out = out, .ld = ld, .rows = rows, .members = members, .share = share};
  l->weight = *at;
  *at += (int64_t)net->replicas * members * rows * ld;
  l->bias = *at;
  *at += (int64_t)net->replicas * members * rows;
}

static void place_norm(const Net *net, LayerNorm *norm, int64_t width, int members, int64_t *at) {
  int64_t count = (int64_t)net->replicas * members * width;
  *norm = (LayerNorm){.width = width, .members = members, .gain = *at, .shift = *at + count};
  *at = norm->shift + count;
}

// width of the input of layer i of the trunk
static int64_t trunk_width(const Net *net, int i) {
  return i ? net->hidden : net_branches(net) * net->feat;
}

// members of that input: the branches' or the trunk's
static int trunk_members(const Net *net, int i) { return i ? net->heads : net->body; }

void net_layout(Net *net) {
  int64_t at = 0, hidden = net->hidden, feat = net->feat;
  for (int b = 0; b < net_branches(net); b++) {
    place(net, &net->branch_in[b], net->in[b], net_padded(net->in[b]), hidden, hidden, net->body, 1,
          &at);
    place_norm(net, &net->branch_norm[b], net->plain ? 0 : hidden, net->body, &at);
    place(net, &net->branch_out[b], hidden, hidden, feat, feat, net->body, 1, &at);
  }
  place_norm(net, &net->trunk_norm[0], net->feat_norm ? feat : 0, net->body, &at);
  for (int i = 0; i <= net->layers; i++) {
    int last = i == net->layers;
    int64_t width = trunk_width(net, i), out = last ? net->out : hidden;
    place(net, &net->trunk[i], width, width, out, last ? net_padded(out) : out, net->heads,
          net->heads / trunk_members(net, i), &at);
    if (!last) place_norm(net, &net->trunk_norm[i + 1], net->norm ? hidden : 0, net->heads, &at);
  }
  net->count = at;
}

void tape_layout(Tape *tape, const Net *net, Type type, TapeKind kind, int replicas, int64_t rows,
                 Arena *arena) {
  int64_t body = (int64_t)replicas * net->body * rows,
          heads = (int64_t)replicas * net->heads * rows;
  size_t size = type_size(type);
  int64_t ld_dout = net->trunk[net->layers].rows;
  *tape = (Tape){.replicas = replicas, .rows = rows, .ld_out = net->pad_out ? ld_dout : net->out};
  for (int b = 0; b < net_branches(net); b++) {
    tape->ld_in[b] = net->branch_in[b].ld;
    tape->in[b] = arena_take(arena, body * tape->ld_in[b] * size);
    tape->act[b] = arena_take(arena, body * net->hidden * size);
    tape->pre[b] = kind == TAPE_TRAIN ? arena_take(arena, body * net->hidden * size) : tape->act[b];
    tape->stats[b] = floats(arena, body * net->blocks * 2);
  }
  for (int i = 0; i <= net->layers; i++) {
    int own = kind == TAPE_TRAIN && net->trunk_norm[i].width;
    int64_t groups = i ? heads : body, count = groups * trunk_width(net, i);
    tape->x[i] = arena_take(arena, count * size);
    tape->x_pre[i] = own ? arena_take(arena, count * size) : tape->x[i];
    if (net->trunk_norm[i].width) tape->x_stats[i] = floats(arena, groups * net->blocks * 2);
  }
  tape->out = floats(arena, heads * tape->ld_out);
  if (kind == TAPE_INFER) return;

  tape->dout = arena_take(arena, heads * ld_dout * size);
  for (int i = 0; i <= net->layers; i++) {
    tape->dx[i] = arena_take(arena, (i ? heads : body) * trunk_width(net, i) * size);
  }
  int64_t wide = net->hidden > net->feat ? net->hidden : net->feat;
  int64_t scratch = norm_scratch(replicas * net->heads, rows, wide);
  for (int b = 0; b < net_branches(net); b++) {
    tape->dact[b] = arena_take(arena, body * net->hidden * size);
    tape->scratch[b] = floats(arena, scratch);
  }
  tape->din = arena_take(arena, body * tape->ld_in[0] * size);
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

// The following operations run on the side lane, after everything that the pass has so far.
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

// columns [from, to) of y = x·Wᵀ + b, from the first `inputs` columns of x
typedef struct {
  const void *x;
  int64_t ldx, inputs;
  void *y;
  int64_t ldy, y0;  // y0: first column of this layer's output in y
  int64_t from, to, rows;
  Type type_y;
  Epilogue epilogue;
} Forward;

static void linear_forward(const Run *run, const Linear *l, Forward f) {
  Type type = run->ops->type;
  int64_t g0 = first_group(run, l);
  run->ops->gemm(run->ops,
                 &(Gemm){.m = f.rows, .n = f.to - f.from, .k = f.inputs, .transpose_b = 1,
                         .type = type, .type_c = f.type_y, .epilogue = f.epilogue,
                         .a = plus(f.x, at_row(run, f.ldx), type), .lda = f.ldx,
                         .stride_a = run->tape->rows * f.ldx, .share_a = l->share,
                         .b = plus(run->params.work, l->weight + (g0 * l->rows + f.from) * l->ld,
                                   type),
                         .ldb = l->ld, .stride_b = l->rows * l->ld,
                         .c = (void *)plus(f.y, at_row(run, f.ldy) + f.y0 + f.from, f.type_y),
                         .ldc = f.ldy, .stride_c = run->tape->rows * f.ldy,
                         .batch = (int64_t)run->tape->replicas * l->members,
                         .bias = run->params.value + l->bias + g0 * l->rows + f.from,
                         .stride_bias = l->rows,
                         .bias_copy =
                             plus(run->params.work, l->bias + g0 * l->rows + f.from, type)});
}

// address of the gradient of parameter `at`; NULL if the pass computes no gradients of parameters
static void *grad_at(const Run *run, int64_t at) {
  return run->params.grad ? (void *)plus(run->params.grad, at, run->ops->type) : NULL;
}

// the gradient of a linear layer's weights from dy (columns y0 …) and its input x
static void weight_grad(const Run *run, const Linear *l, const void *dy, int64_t ldy, int64_t y0,
                        const void *x, int64_t ldx) {
  Type type = run->ops->type;
  int64_t g0 = first_group(run, l), groups = (int64_t)run->tape->replicas * l->members;
  run->ops->gemm(run->ops, &(Gemm){.m = l->rows, .n = l->ld, .k = run->pass.rows, .transpose_a = 1,
                                   .type = type, .type_c = type,
                                   .a = plus(dy, at_row(run, ldy) + y0, type), .lda = ldy,
                                   .stride_a = run->tape->rows * ldy,
                                   .b = plus(x, at_row(run, ldx), type), .ldb = ldx,
                                   .stride_b = run->tape->rows * ldx, .share_b = l->share,
                                   .c = grad_at(run, l->weight + g0 * l->rows * l->ld),
                                   .ldc = l->ld, .stride_c = l->rows * l->ld, .batch = groups});
}

static void *bias_grad(const Run *run, const Linear *l) {
  return grad_at(run, l->bias + first_group(run, l) * l->rows);
}

// Columns 0 … n-1 of dx = dy·W, set to 0 where relu ≤ 0 (relu NULL: nowhere). sums: see Gemm.sums
static void linear_back(const Run *run, const Linear *l, const void *dy, int64_t ldy, int64_t y0,
                        void *dx, int64_t ldx, int64_t n, const void *relu, void *const sums[2]) {
  Type type = run->ops->type;
  int64_t g0 = first_group(run, l);
  run->ops->gemm(run->ops,
                 &(Gemm){.m = run->pass.rows, .n = n, .k = l->rows, .type = type, .type_c = type,
                         .epilogue = relu ? EPILOGUE_RELU_GRAD : EPILOGUE_NONE,
                         .a = plus(dy, at_row(run, ldy) + y0, type), .lda = ldy,
                         .stride_a = run->tape->rows * ldy,
                         .b = plus(run->params.work, l->weight + g0 * l->rows * l->ld, type),
                         .ldb = l->ld, .stride_b = l->rows * l->ld,
                         .c = (void *)plus(dx, at_row(run, ldx), type), .ldc = ldx,
                         .stride_c = run->tape->rows * ldx, .share_c = l->share,
                         .relu = relu ? plus(relu, at_row(run, ldx), type) : NULL,
                         .sums = {sums ? sums[0] : NULL, sums ? sums[1] : NULL},
                         .batch = (int64_t)run->tape->replicas * l->members});
}

// y = f(norm of x), for blocks first … end-1 of K
static void norm_forward(const Run *run, const LayerNorm *norm, Activation f, void *y,
                         const void *x, float *stats, int64_t rows, int64_t K, int64_t first,
                         int64_t end) {
  Ops *ops = run->ops;
  int64_t g0 = (int64_t)run->pass.replica * norm->members, at = at_row(run, norm->width);
  ops->norm(ops, &(Norm){.activation = f, .y = (void *)plus(y, at, ops->type),
                         .x = plus(x, at, ops->type), .stats = stats + run->pass.row0 * K * 2,
                         .gain = run->params.value + norm->gain + g0 * norm->width,
                         .bias = run->params.value + norm->shift + g0 * norm->width,
                         .groups = (int64_t)run->tape->replicas * norm->members, .rows = rows,
                         .row_stride = run->tape->rows, .width = norm->width, .blocks = K,
                         .first_block = first, .end_block = end});
}

// Turns the gradient with respect to y into that with respect to x, in place. sums: its column sums
static void norm_backward(const Run *run, const LayerNorm *norm, Activation f, void *dy,
                          const void *x, const void *y, const float *stats, void *sums,
                          float *scratch, int64_t K) {
  Ops *ops = run->ops;
  int64_t g0 = (int64_t)run->pass.replica * norm->members, at = at_row(run, norm->width);
  void *dx = (void *)plus(dy, at, ops->type);
  ops->norm_grad(ops, &(NormGrad){.activation = f, .dx = dx, .dy = dx, .x = plus(x, at, ops->type),
                                  .y = plus(y, at, ops->type),
                                  .stats = stats + run->pass.row0 * K * 2,
                                  .gain = run->params.value + norm->gain + g0 * norm->width,
                                  .bias = run->params.value + norm->shift + g0 * norm->width,
                                  .dgain = grad_at(run, norm->gain + g0 * norm->width),
                                  .dbias = grad_at(run, norm->shift + g0 * norm->width),
                                  .sums = sums, .scratch = scratch,
                                  .groups = (int64_t)run->tape->replicas * norm->members,
                                  .rows = run->pass.rows, .row_stride = run->tape->rows,
                                  .width = norm->width, .blocks = K});
}

// ------------------------------- forward ---------------------------------------------------------

// The epilogue of the linear layer before x[i]. If a layer norm follows, x_norm computes the relu.
static Epilogue x_epilogue(const Net *net, int i) {
  return net->trunk_norm[i].width ? EPILOGUE_BIAS : EPILOGUE_BIAS_RELU;
}

static void x_norm(const Run *run, int i, int64_t rows) {
  const Tape *tape = run->tape;
  if (!run->net->trunk_norm[i].width) return;
  norm_forward(run, &run->net->trunk_norm[i], RELU, tape->x[i], tape->x_pre[i], tape->x_stats[i],
               rows, run->net->blocks, run->pass.first_block, run->pass.end_block);
}

// input → linear, layer norm, tanh, linear, relu → its part of x[0]
static void branch_forward(const Run *run, int b, int64_t rows) {
  const Net *net = run->net;
  const Tape *tape = run->tape;
  Ops *ops = run->ops;
  int masked = b == 1 && net->blocks > 1;
  int64_t K = masked ? net->blocks : 1;
  int64_t first = masked ? run->pass.first_block : 0, end = masked ? run->pass.end_block : 1;
  int64_t h0 = block_start(first, net->hidden, K), h1 = block_start(end, net->hidden, K);
  int64_t f0 = block_start(first, net->feat, K), f1 = block_start(end, net->feat, K);
  // rounding up to NET_PAD adds only inputs with zero weights: masked ones or padding
  int64_t inputs =
      net_padded(masked ? net->in[1] - net->z + block_start(end - 1, net->z, K) : net->in[b]);

  linear_forward(run, &net->branch_in[b],
                 (Forward){.x = tape->in[b], .ldx = tape->ld_in[b], .inputs = inputs,
                           .y = net->plain ? tape->act[b] : tape->pre[b], .ldy = net->hidden,
                           .from = h0, .to = h1, .rows = rows, .type_y = ops->type,
                           .epilogue = net->plain ? EPILOGUE_BIAS_RELU : EPILOGUE_BIAS});
  if (!net->plain) {
    norm_forward(run, &net->branch_norm[b], TANH, tape->act[b], tape->pre[b], tape->stats[b], rows,
                 K, first, end);
  }
  linear_forward(run, &net->branch_out[b],
                 (Forward){.x = tape->act[b], .ldx = net->hidden, .inputs = h1, .y = tape->x_pre[0],
                           .ldy = trunk_width(net, 0), .y0 = b * net->feat, .from = f0, .to = f1,
                           .rows = rows, .type_y = ops->type, .epilogue = x_epilogue(net, 0)});
}

// Branch 1 was computed for the first `rows` rows only: copies its features to the other parts.
static void repeat_branch(const Run *run, int64_t rows, int64_t repeat) {
  const Net *net = run->net;
  int64_t ld = 2 * net->feat;
  for (int64_t i = 1; i < repeat; i++) {
    Type type = run->ops->type;
    int64_t at = at_row(run, ld) + net->feat;
    run->ops->copy_columns(run->ops,
                           &(CopyColumns){.out = (void *)plus(run->tape->x[0], at + i * rows * ld,
                                                              type),
                                          .in = plus(run->tape->x[0], at, type),
                                          .groups = (int64_t)run->tape->replicas * net->body,
                                          .rows = rows, .cols = net->feat, .ld_out = ld,
                                          .ld_in = ld, .stride_out = run->tape->rows * ld,
                                          .stride_in = run->tape->rows * ld});
  }
}

void net_forward(Ops *ops, const Net *net, NetParams params, const Tape *tape, Pass pass) {
  if (!pass.end_block) pass.end_block = net->blocks;
  if (!pass.repeat) pass.repeat = 1;
  Run run = {ops, net, params, tape, pass};
  if (net->in[1]) {
    side_begin(&run);
    branch_forward(&run, 1, pass.rows / pass.repeat);
    repeat_branch(&run, pass.rows / pass.repeat, pass.repeat);
    side_end(&run);
  }
  if (!pass.first_block) branch_forward(&run, 0, pass.rows);
  if (net->in[1]) side_join(&run);
  x_norm(&run, 0, pass.rows);

  int64_t K = net->blocks;
  int64_t inputs = trunk_width(net, 0) - net->feat + block_start(pass.end_block, net->feat, K);
  int64_t from = block_start(pass.first_block, net->hidden, K);
  int64_t to = block_start(pass.end_block, net->hidden, K);
  for (int i = 0; i < net->layers; i++) {
    linear_forward(&run, &net->trunk[i],
                   (Forward){.x = tape->x[i], .ldx = trunk_width(net, i), .inputs = inputs,
                             .y = tape->x_pre[i + 1], .ldy = net->hidden, .from = from, .to = to,
                             .rows = pass.rows, .type_y = ops->type,
                             .epilogue = x_epilogue(net, i + 1)});
    x_norm(&run, i + 1, pass.rows);
    inputs = to;
  }
  from = block_start(pass.first_block, net->out, K);
  to = pass.end_block == K ? tape->ld_out : block_start(pass.end_block, net->out, K);
  linear_forward(&run, &net->trunk[net->layers],
                 (Forward){.x = tape->x[net->layers], .ldx = trunk_width(net, net->layers),
                           .inputs = inputs, .y = tape->out, .ldy = tape->ld_out, .from = from,
                           .to = to, .rows = pass.rows, .type_y = F32, .epilogue = EPILOGUE_BIAS});
}

// ------------------------------- backward --------------------------------------------------------

static void branch_backward(const Run *run, int b, int want_din) {
  const Net *net = run->net;
  const Tape *tape = run->tape;
  int64_t ld = trunk_width(net, 0), y0 = b * net->feat;

  if (run->params.grad) {
    weight_grad(run, &net->branch_out[b], tape->dx[0], ld, y0, tape->act[b], net->hidden);
  }
  void *const sums[2] = {bias_grad(run, &net->branch_in[b]), NULL};
  linear_back(run, &net->branch_out[b], tape->dx[0], ld, y0, tape->dact[b], net->hidden,
              net->hidden, net->plain ? tape->act[b] : NULL, net->plain ? sums : NULL);
  if (!net->plain) {
    norm_backward(run, &net->branch_norm[b], TANH, tape->dact[b], tape->pre[b], tape->act[b],
                  tape->stats[b], sums[0], tape->scratch[b], b == 1 ? net->blocks : 1);
  }
  if (run->params.grad) {
    weight_grad(run, &net->branch_in[b], tape->dact[b], net->hidden, 0, tape->in[b],
                tape->ld_in[b]);
  }
  if (want_din) {
    linear_back(run, &net->branch_in[b], tape->dact[b], net->hidden, 0, tape->din, tape->ld_in[b],
                tape->ld_in[b], NULL, NULL);
  }
}

void net_backward_trunk(Ops *ops, const Net *net, NetParams params, const Tape *tape,
                        const float *dout, Pass pass) {
  Run run = {ops, net, params, tape, pass};
  int64_t heads = (int64_t)tape->replicas * net->heads, ldy = net->trunk[net->layers].rows;
  ops->pack(ops, &(Pack){.out = tape->dout, .ld = ldy, .a = dout, .a_cols = net->out,
                         .groups = heads, .copies = 1, .rows = pass.rows, .row0 = pass.row0,
                         .row_stride = tape->rows});

  const void *dy = tape->dout;
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
    const void *x = tape->x[i];
    void *dx = tape->dx[i];
    int64_t ldx = trunk_width(net, i);
    if (params.grad) {
      side_begin(&run);
      weight_grad(&run, l, dy, ldy, 0, x, ldx);
      side_end(&run);
    }
    int64_t n = i || params.grad ? ldx : net->feat;  // the gradient by input 0 needs only branch 0
    // the column sums of dx are the gradient of the biases of the layer before
    void *const sums[2] = {bias_grad(&run, i ? &net->trunk[i - 1] : &net->branch_out[0]),
                           i || !net->in[1] ? NULL : bias_grad(&run, &net->branch_out[1])};
    if (net->trunk_norm[i].width) {
      linear_back(&run, l, dy, ldy, 0, dx, ldx, n, NULL, NULL);
      norm_backward(&run, &net->trunk_norm[i], RELU, dx, tape->x_pre[i], x, tape->x_stats[i],
                    sums[0], tape->scratch[0], net->blocks);
    } else {
      linear_back(&run, l, dy, ldy, 0, dx, ldx, n, x, sums);
    }
    dy = dx;
    ldy = ldx;
  }
}

void net_backward_branches(Ops *ops, const Net *net, NetParams params, const Tape *tape, Pass pass,
                           int want_din) {
  Run run = {ops, net, params, tape, pass};
  if (params.grad && net->in[1]) {
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
