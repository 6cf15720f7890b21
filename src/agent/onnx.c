// Networks of an agent as ONNX graphs, for runtimes other than bfm: pi(obs, z), B(obs, z) and F(obs,
// action, z), with everything that acting does around them: z on the sphere, goal columns, masks,
// layer norms of each block, and the scale of B's blocks.
//
// A block's mean is a ReduceMean if there is one block. Otherwise it is a product with a matrix whose
// columns are the blocks, and a product with its transpose that gives each unit its block's value.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/workspace.h"
#include "nets/onnx.h"

#define NORM_EPSILON 1e-5f  // of the layer norms in ops.h
#define LEAST_NORM 1e-12f   // keeps a row of zeros finite

typedef struct {
  Workspace *w;
  const bfm_agent *agent;
  Onnx onnx;
  int replica, members;  // members of F to write
  uint8_t *mask;         // of the network, NULL if it has one block
  int status;            // of the first download that failed
} Export;

#define NODE(op, ...) onnx_node(&x->onnx, NULL, &(OnnxNode){op, {__VA_ARGS__}, NULL, 0, 0})

static OnnxValue concat(Export *x, const char *a, const char *b) {
  return onnx_node(&x->onnx, NULL, &(OnnxNode){"Concat", {a, b}, "axis", 1, 0});
}

static OnnxValue constant(Export *x, float value) { return onnx_floats(&x->onnx, 0, NULL, &value); }

// ------------------------------- means of blocks -------------------------------------------------

// Matrices [width, K] and [K, width]: y·sum·spread gives each unit the mean of its block, or with
// prefix the mean of its block and those before.
static void block_matrices(Export *x, int64_t width, int64_t K, int prefix, OnnxValue *sum,
                           OnnxValue *spread) {
  float *a = calloc((size_t)(2 * width * K), sizeof *a), *b;
  if (!a) {
    x->status = bfm_fail(BFM_NO_MEMORY, "out of memory for %ld blocks", (long)K);
    return;
  }
  b = a + width * K;
  for (int64_t k = 0; k < K; k++) {
    int64_t own = block_start(k, width, K), end = block_start(k + 1, width, K);
    int64_t first = prefix ? 0 : own;
    for (int64_t i = first; i < end; i++) a[i * K + k] = 1.0f / (float)(end - first);
    for (int64_t i = own; i < end; i++) b[k * width + i] = 1;
  }
  *sum = onnx_floats(&x->onnx, 2, (int64_t[]){width, K}, a);
  *spread = onnx_floats(&x->onnx, 2, (int64_t[]){K, width}, b);
  free(a);
}

static OnnxValue block_mean(Export *x, const char *y, int64_t width, int64_t K, int prefix) {
  if (K == 1) return onnx_node(&x->onnx, NULL, &(OnnxNode){"ReduceMean", {y}, "axes", -1, 1});
  OnnxValue sum = {""}, spread = {""};
  block_matrices(x, width, K, prefix, &sum, &spread);
  OnnxValue means = NODE("MatMul", y, sum.name);
  return NODE("MatMul", means.name, spread.name);
}

// the mean of squares; runtimes know a layer norm by this Pow
static OnnxValue block_square(Export *x, const char *y, int64_t width, int64_t K, int prefix) {
  OnnxValue two = constant(x, 2), square = NODE("Pow", y, two.name);
  return block_mean(x, square.name, width, K, prefix);
}

// y scaled to a mean square of 1 in each block: a block of n values has norm √n
static OnnxValue unit_blocks(Export *x, const char *name, const char *y, int64_t width, int64_t K,
                             int prefix) {
  OnnxValue square = block_square(x, y, width, K, prefix), root = NODE("Sqrt", square.name);
  OnnxValue least = constant(x, LEAST_NORM), norm = NODE("Max", root.name, least.name);
  return onnx_node(&x->onnx, name, &(OnnxNode){.op = "Div", .inputs = {y, norm.name}});
}

static OnnxValue unit_z(Export *x) { return unit_blocks(x, "z_unit", "z", x->agent->d, 1, 0); }

// ------------------------------- layers ----------------------------------------------------------

// one layer of one member: "F.1.trunk.0"
typedef struct {
  char name[ONNX_NAME - 16];
} LayerName;

static LayerName layer_name(const Net *net, int members, int member, const char *part) {
  LayerName out;
  if (members > 1) snprintf(out.name, sizeof out.name, "%s.%d.%s", net->name, member, part);
  else snprintf(out.name, sizeof out.name, "%s.%s", net->name, part);
  return out;
}

// a matrix [rows, cols], or a vector [cols], that is stored as p says at this place of the network
static OnnxValue parameters(Export *x, const Net *net, const LayerName *layer, const char *kind,
                            Padding p, int64_t at, int is_matrix) {
  int64_t count = p.rows * p.cols;
  float *values = malloc((size_t)count * sizeof *values);
  char name[ONNX_NAME];
  snprintf(name, sizeof name, "%s.%s", layer->name, kind);
  int status = values ? padding_download(x->w->ops, p, values, net->online.value + at, count)
                      : bfm_fail(BFM_NO_MEMORY, "out of memory for %s", name);
  if (!status) status = x->w->ops->sync(x->w->ops);
  if (status) {
    x->status = status;
    free(values);
    return (OnnxValue){""};
  }
  for (int64_t i = 0; x->mask && i < count; i++) {
    if (!x->mask[at + i / p.cols * p.ld + i % p.cols]) values[i] = 0;
  }
  const int64_t shape[] = {p.rows, p.cols};
  OnnxValue out = onnx_parameters(&x->onnx, name, 1 + is_matrix, shape + !is_matrix, values);
  free(values);
  return out;
}

static OnnxValue linear(Export *x, const Net *net, const Linear *l, int member, const char *part,
                        const char *in) {
  LayerName name = layer_name(net, l->members, member, part);
  int64_t group = (int64_t)x->replica * l->members + member, size = l->rows * l->ld;
  OnnxValue weight = parameters(x, net, &name, "weight", (Padding){l->out, l->in, l->ld, size},
                                l->weight + group * size, 1);
  OnnxValue bias = parameters(x, net, &name, "bias", (Padding){1, l->out, l->rows, l->rows},
                              l->bias + group * l->rows, 0);
  return onnx_node(&x->onnx, name.name,
                   &(OnnxNode){"Gemm", {in, weight.name, bias.name}, "transB", 1, 0});
}

// a layer norm of each of K blocks; `in` itself if the network has none here
static OnnxValue layer_norm(Export *x, const Net *net, const LayerNorm *norm, int member,
                            const char *part, int64_t K, OnnxValue in) {
  int64_t width = norm->width, at = ((int64_t)x->replica * norm->members + member) * width;
  if (!width) return in;
  LayerName name = layer_name(net, norm->members, member, part);
  Padding tight = {1, width, width, width};
  OnnxValue gain = parameters(x, net, &name, "weight", tight, norm->gain + at, 0);
  OnnxValue shift = parameters(x, net, &name, "bias", tight, norm->shift + at, 0);
  OnnxValue epsilon = constant(x, NORM_EPSILON);

  OnnxValue mean = block_mean(x, in.name, width, K, 0);
  OnnxValue centered = NODE("Sub", in.name, mean.name);
  OnnxValue square = block_square(x, centered.name, width, K, 0);
  OnnxValue safe = NODE("Add", square.name, epsilon.name), deviation = NODE("Sqrt", safe.name);
  OnnxValue unit = NODE("Div", centered.name, deviation.name);
  OnnxValue scaled = NODE("Mul", unit.name, gain.name);
  return NODE("Add", scaled.name, shift.name);
}

// ------------------------------- networks --------------------------------------------------------

// input → linear, layer norm, tanh, linear, relu
static OnnxValue branch(Export *x, const Net *net, int b, int member, const char *in) {
  int64_t K = b == 1 ? net->blocks : 1;
  char part[32];
  snprintf(part, sizeof part, "%s.in", net->branch[b]);
  OnnxValue h = linear(x, net, &net->branch_in[b], member, part, in);
  snprintf(part, sizeof part, "%s.norm", net->branch[b]);
  h = layer_norm(x, net, &net->branch_norm[b], member, part, K, h);
  h = NODE("Tanh", h.name);
  snprintf(part, sizeof part, "%s.out", net->branch[b]);
  h = linear(x, net, &net->branch_out[b], member, part, h.name);
  return NODE("Relu", h.name);
}

static OnnxValue branches(Export *x, const Net *net, int member, const char *in0, const char *in1) {
  OnnxValue a = branch(x, net, 0, member, in0), b = branch(x, net, 1, member, in1);
  return concat(x, a.name, b.name);
}

// layers × (linear, layer norm, relu) → linear
static OnnxValue trunk(Export *x, const Net *net, int member, OnnxValue h) {
  char part[32];
  for (int i = 0; i < net->layers; i++) {
    snprintf(part, sizeof part, "trunk.%d", i);
    h = linear(x, net, &net->trunk[i], member, part, h.name);
    snprintf(part, sizeof part, "trunk.%d.norm", i);
    h = layer_norm(x, net, &net->trunk_norm[i + 1], member, part, net->blocks, h);
    h = NODE("Relu", h.name);
  }
  snprintf(part, sizeof part, "trunk.%d", net->layers);
  return linear(x, net, &net->trunk[net->layers], member, part, h.name);
}

// ------------------------------- parts -----------------------------------------------------------

static void input(Export *x, const char *name, int64_t width) {
  onnx_input(&x->onnx, name, 2, (int64_t[]){0, width});
}

// action = tanh(pi(obs, z))
static void pi_graph(Export *x) {
  const bfm_agent *a = x->agent;
  input(x, "obs", a->obs_dim);
  input(x, "z", a->d);
  onnx_output(&x->onnx, "action", 2, (int64_t[]){0, a->act_dim});
  OnnxValue z = unit_z(x), obs_z = concat(x, "obs", z.name);
  OnnxValue h = branches(x, &a->net[NET_PI], 0, "obs", obs_z.name);
  h = trunk(x, &a->net[NET_PI], 0, h);
  onnx_node(&x->onnx, "action", &(OnnxNode){.op = "Tanh", .inputs = {h.name}});
}

// the columns of the observation that B sees
static OnnxValue goal(Export *x) {
  int32_t *columns;
  int64_t count, wide[OBS_MOST];
  OnnxValue obs = {"obs"};
  int status = config_goal_columns(&x->agent->config, x->agent->obs_dim, &columns, &count);
  if (status) x->status = status;
  if (status || !columns) return obs;
  for (int64_t i = 0; i < count; i++) wide[i] = columns[i];
  free(columns);
  OnnxValue list = onnx_integers(&x->onnx, count, wide);
  return onnx_node(&x->onnx, NULL, &(OnnxNode){"Gather", {"obs", list.name}, "axis", 1, 0});
}

// B(obs, z): block i of z is scaled by the norm of blocks 1 … i and seen by later blocks alone
static void b_graph(Export *x) {
  const bfm_agent *a = x->agent;
  const Net *net = &a->net[NET_B];
  input(x, "obs", a->obs_dim);
  if (a->K > 1) input(x, "z", a->d);
  onnx_output(&x->onnx, "B", 2, (int64_t[]){0, a->d});
  OnnxValue s = goal(x), sz = s;
  if (a->K > 1) {
    OnnxValue z = unit_blocks(x, "z_blocks", "z", a->d, a->K, 1);
    sz = concat(x, s.name, z.name);
  }
  OnnxValue h = trunk(x, net, 0, branches(x, net, 0, s.name, sz.name));
  if (a->config.b_norm) unit_blocks(x, "B", h.name, a->d, a->K, 0);
  else onnx_node(&x->onnx, "B", &(OnnxNode){.op = "Identity", .inputs = {h.name}});
}

// F(obs, action, z) of every member, and Q = F·z
static void f_graph(Export *x) {
  const bfm_agent *a = x->agent;
  const Net *net = &a->net[NET_F];
  const int64_t first = 0, last = -1;
  input(x, "obs", a->obs_dim);
  input(x, "action", a->act_dim);
  input(x, "z", a->d);
  onnx_output(&x->onnx, "F", 3, (int64_t[]){x->members, 0, a->d});
  onnx_output(&x->onnx, "Q", 2, (int64_t[]){x->members, 0});
  OnnxValue z = unit_z(x), sa = concat(x, "obs", "action"), sz = concat(x, "obs", z.name);
  OnnxValue axis = onnx_integers(&x->onnx, 1, &first), own[8], h = {""};
  OnnxNode stack = {.op = "Concat", .attribute = "axis", .value = 0};
  for (int m = 0; m < x->members; m++) {
    if (m < net->body) h = branches(x, net, m, sa.name, sz.name);
    own[m] = trunk(x, net, m, h);
    own[m] = NODE("Unsqueeze", own[m].name, axis.name);
    stack.inputs[m] = own[m].name;
  }
  onnx_node(&x->onnx, "F", &stack);
  OnnxValue product = NODE("Mul", "F", z.name), d_axis = onnx_integers(&x->onnx, 1, &last);
  onnx_node(&x->onnx, "Q", &(OnnxNode){"ReduceSum", {product.name, d_axis.name}, "keepdims", 0, 0});
}

static const struct Part {
  const char *name, *help;
  int net;
  void (*graph)(Export *x);
} parts[] = {
    {"pi", "pi(obs, z): the action, between -1 and 1", NET_PI, pi_graph},
    {"B", "B(obs, z): features, whose mean, weighted with rewards, is z", NET_B, b_graph},
    {"F", "F(obs, action, z) of each member, and Q = F z: the value of an action", NET_F, f_graph},
};

// ------------------------------- metadata --------------------------------------------------------

static void put_number(Onnx *o, const char *key, double value) {
  char text[32];
  number_write(text, sizeof text, 9, value);
  onnx_metadata(o, key, text);
}

// names and units of observations and actions, and the control period: what models carry, too
static void put_signals(Onnx *o, const Signals *signals) {
  char *text = signals->obs_count ? signals_to_json(signals) : NULL;
  if (text) onnx_metadata(o, SIGNALS_KEY, text);
  free(text);
}

static void put_metadata(Export *x, const struct Part *part, const char *fingerprint) {
  const bfm_agent *a = x->agent;
  Onnx *o = &x->onnx;
  char algo[OPTION_TEXT_SIZE];
  options_get(options_find(agent_options, "algo"), &a->config, algo, sizeof algo);
  const struct {
    const char *key;
    int64_t value;
  } numbers[] = {{"obs_dim", a->obs_dim}, {"act_dim", a->act_dim}, {"d", a->d},
                 {"blocks", a->K},        {"members", x->members}, {"step", a->before + a->step}};
  onnx_metadata(o, "part", part->name);
  onnx_metadata(o, "algo", algo);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    put_number(o, numbers[i].key, (double)numbers[i].value);
  }
  if (a->config.goal[0]) onnx_metadata(o, "goal", a->config.goal);
  onnx_metadata(o, "fingerprint", fingerprint);
  onnx_metadata(o, "normalization", "observations: none; z: in the graph; actions: -1 to 1");
  if (*a->prompt.env) onnx_metadata(o, "env", a->prompt.env);
  put_signals(o, &a->signals);
}

// ------------------------------- public ----------------------------------------------------------

static int find_part(const struct Part **part, const char *name) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    *part = &parts[i];
    if (!strcmp(name ? name : "pi", parts[i].name)) return BFM_OK;
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "a model has the parts pi, B and F, not \"%s\"", name);
}

static int prepare_mask(Export *x, const Net *net) {
  if (net->blocks == 1) return BFM_OK;
  x->mask = malloc((size_t)net->count);
  if (!x->mask) return bfm_fail(BFM_NO_MEMORY, "out of memory for the masks of %s", net->name);
  net_masks(net, x->mask);
  return BFM_OK;
}

static int export(Export *x, const struct Part *part, const char *fingerprint, int half,
                  const char *path) {
  TRY(prepare_mask(x, &x->agent->net[part->net]));
  onnx_begin(&x->onnx, part->help, half);
  put_metadata(x, part, fingerprint);
  onnx_graph(&x->onnx, part->name);
  part->graph(x);
  return x->status ? x->status : onnx_write(&x->onnx, path);
}

bfm_status bfm_agent_export_onnx(bfm_agent *a, int replica, const char *path, const char *part_name,
                                 int members, int weights) {
  NEED("agent, path", a, path);
  const struct Part *part;
  char fingerprint[9];
  TRY(find_part(&part, part_name));
  TRY(agent_check_replica(a, replica));
  if (members < 0 || members > a->M) {
    return bfm_fail(BFM_BAD_ARGUMENT, "members must be 1 to the model's %d, not %d", a->M, members);
  }
  if (weights < BFM_WEIGHTS_KEEP || weights > BFM_WEIGHTS_F32 || weights == BFM_WEIGHTS_INT8) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the weights of an ONNX file are f32 or bf16, not %s",
                    weights == BFM_WEIGHTS_INT8 ? "int8" : "of an unknown type");
  }
  TRY(bfm_agent_fingerprint(a, replica, fingerprint));
  EXCLUSIVE(a);
  TRY(agent_describe(a));
  WORKSPACE(w, a);
  Export x = {.w = w, .agent = a, .replica = replica, .members = members ? members : a->M};
  int status = export(&x, part, fingerprint, weights == BFM_WEIGHTS_BF16, path);
  onnx_free(&x.onnx);
  free(x.mask);
  return status;
}
