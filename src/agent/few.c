// Passes over few rows, as acting on one robot or in few environments needs them, through the kernels
// of the policy runtime: they read the weights once and in place, on this thread, without the cost of
// setting up a matrix product. An observation gets the same bits alone or among a few others.

#include "agent/workspace.h"
#include "policy/policy.h"

#define FEW 32  // beyond, oneDNN is as fast on one thread and can use several

int few_are(const Workspace *w, int64_t rows) {
  return rows <= FEW && w->ops->type == F32 && agent_on_cpu(w->agent);
}

// ------------------------------- the network as the runtime sees it ------------------------------

static PolicyLinear linear_of(const Net *net, const Linear *l, int replica) {
  const float *value = net->online.value;
  int64_t g0 = (int64_t)replica * l->members;
  return (PolicyLinear){.weight = value + l->weight + g0 * l->rows * l->ld,
                        .bias = value + l->bias + g0 * l->rows, .type = WEIGHTS_F32,
                        .in = (int)l->in, .out = (int)l->out, .members = l->members,
                        .ld = (size_t)l->ld, .stride = (size_t)(l->rows * l->ld),
                        .bias_stride = (size_t)l->rows};
}

static PolicyNorm norm_of(const Net *net, const LayerNorm *norm, int replica) {
  const float *value = net->online.value + (int64_t)replica * norm->members * norm->width;
  if (!norm->width) return (PolicyNorm){0};
  return (PolicyNorm){.gain = value + norm->gain, .shift = value + norm->shift,
                      .stride = (size_t)norm->width};
}

static PolicyNet sizes_of(const Net *net) {
  return (PolicyNet){.in = {(int)net->in[0], (int)net->in[1]},
                     .z = (int)net->z, .hidden = (int)net->hidden, .feat = (int)net->feat,
                     .out = (int)net->out, .layers = net->layers, .blocks = (int)net->blocks,
                     .body = net->body, .heads = net->heads};
}

static PolicyNet net_of(const Net *net, int replica) {
  PolicyNet p = sizes_of(net);
  for (int b = 0; b < 2; b++) {
    p.branch_in[b] = linear_of(net, &net->branch_in[b], replica);
    p.branch_norm[b] = norm_of(net, &net->branch_norm[b], replica);
    p.branch_out[b] = linear_of(net, &net->branch_out[b], replica);
  }
  for (int i = 0; i <= net->layers; i++) {
    p.trunk[i] = linear_of(net, &net->trunk[i], replica);
    if (i < net->layers) p.trunk_norm[i] = norm_of(net, &net->trunk_norm[i + 1], replica);
  }
  return p;
}

// ------------------------------- passes ----------------------------------------------------------

int64_t few_scratch(const bfm_agent *a) {
  static const int nets[] = {NET_F, NET_B, NET_PI};
  size_t most = 0;
  for (int i = 0; i < 3; i++) {
    PolicyNet net = sizes_of(&a->net[nets[i]]);
    size_t size = policy_scratch(&net, FEW);
    most = size > most ? size : most;
  }
  return (int64_t)most;
}

void few_forward(Workspace *w, int net, const Tape *tape, int replica, int64_t rows,
                 int64_t repeat) {
  const Net *own = &w->agent->net[net];
  PolicyNet p = net_of(own, replica);
  uint64_t before = policy_float_begin();
  for (int head = 0; head < own->heads; head++) {
    PolicyPass pass = {.kernels = policy_kernels(NULL), .net = &p, .head = head,
                       .in = {tape->in[0], tape->in[1]},
                       .ld_in = {(size_t)tape->ld_in[0], (size_t)tape->ld_in[1]},
                       .ld_out = (size_t)tape->ld_out, .rows = (int)(rows * repeat),
                       .rows1 = (int)rows, .scratch = w->infer.few,
                       .out = tape->out + head * tape->rows * tape->ld_out};
    policy_forward(&pass);
  }
  policy_float_end(before);
}
