// Networks of every shape against a plain implementation in double precision: outputs, and gradients
// by parameters and input against central differences. Two replicas, two members (three on shared
// branches), some rows. Widths are odd, so that inputs and last layers are padded; the padding must
// stay zero.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "bfm.h"
#include "nets/net.h"

enum { R = 2, ROWS = 9, FIRST = 2, USED = 5, WIDE = 64 };

// ------------------------------- the plain implementation ----------------------------------------

static void linear(const Linear *l, const double *p, int64_t g, const double *x, double *y) {
  for (int64_t i = 0; i < l->out; i++) {
    y[i] = p[l->bias + g * l->rows + i];
    for (int64_t j = 0; j < l->in; j++) y[i] += p[l->weight + (g * l->rows + i) * l->ld + j] * x[j];
  }
}

static void norm(const LayerNorm *n, const double *p, int64_t g, double *x) {
  double mean = 0, square = 0;
  for (int64_t i = 0; i < n->width; i++) mean += x[i] / n->width;
  for (int64_t i = 0; i < n->width; i++) square += (x[i] - mean) * (x[i] - mean) / n->width;
  for (int64_t i = 0; i < n->width; i++) {
    double hat = (x[i] - mean) / sqrt(square + 1e-5);
    x[i] = hat * p[n->gain + g * n->width + i] + p[n->shift + g * n->width + i];
  }
}

static void relu(double *x, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] = x[i] > 0 ? x[i] : 0;
}

// out [net->out] of one row, for group g = replica · heads + head
static void plain(const Net *net, const double *p, int64_t g, const double *const in[2],
                  double *out) {
  double a[WIDE], x[WIDE], y[WIDE];
  int64_t body = g * net->body / net->heads;
  for (int b = 0; b < 2 && net->in[b]; b++) {
    linear(&net->branch_in[b], p, body, in[b], a);
    if (!net->plain) norm(&net->branch_norm[b], p, body, a);
    for (int64_t i = 0; i < net->hidden; i++) a[i] = net->plain ? fmax(a[i], 0) : tanh(a[i]);
    linear(&net->branch_out[b], p, body, a, x + b * net->feat);
  }
  if (net->feat_norm) norm(&net->trunk_norm[0], p, body, x);
  relu(x, net_branches(net) * net->feat);
  for (int i = 0; i < net->layers; i++) {
    linear(&net->trunk[i], p, g, x, y);
    if (net->norm) norm(&net->trunk_norm[i + 1], p, g, y);
    relu(y, net->hidden);
    memcpy(x, y, sizeof x);
  }
  linear(&net->trunk[net->layers], p, g, x, out);
}

// ------------------------------- the comparison --------------------------------------------------

typedef struct {
  const Net *net;
  double *p, *in[2];  // in: [R·body, USED, ·]
  float *dout;        // [R·heads, USED, out]
} Problem;

// Σ dout·out, the function whose gradients are compared
static double value(const Problem *x, float *outs) {
  double sum = 0, out[WIDE];
  const Net *net = x->net;
  for (int64_t row = 0; row < R * net->heads * USED; row++) {
    int64_t from = row / USED * net->body / net->heads * USED + row % USED;
    const double *const in[2] = {x->in[0] + from * net->in[0], x->in[1] + from * net->in[1]};
    plain(net, x->p, row / USED, in, out);
    for (int64_t i = 0; i < net->out; i++) {
      if (outs) outs[row * net->out + i] = (float)out[i];
      sum += x->dout[row * net->out + i] * out[i];
    }
  }
  return sum;
}

static double slope(const Problem *x, double *at) {
  double before = *at, step = 1e-6;
  *at = before + step;
  double high = value(x, NULL);
  *at = before - step;
  double low = value(x, NULL);
  *at = before;
  return (high - low) / (2 * step);
}

static void close_to(const char *what, double found, double expected, double largest) {
  if (!(fabs(found - expected) <= 2e-5 * largest)) {
    fail_msg("%s is %g, not %g", what, found, expected);
  }
}

static float *normals(uint32_t stream, int64_t count) {
  float *x = malloc((count + 1) * sizeof *x);
  assert_non_null(x);
  bfm_random_normal(3, stream, 0, count, x);
  return x;
}

// 1 where a network's parameters are not padding; freed by the caller
static uint8_t *real_parameters(const Net *net, const NetTensor *tensors, int count) {
  uint8_t *real = calloc(net->count, 1);
  assert_non_null(real);
  for (int t = 0; t < count; t++) {
    const Padding *p = &tensors[t].padding;
    for (int64_t i = 0; i < R * tensors[t].count; i++) {
      int64_t row = i / p->cols;
      real[tensors[t].at + row / p->rows * p->stride + row % p->rows * p->ld + i % p->cols] = 1;
    }
  }
  return real;
}

// rows FIRST … FIRST+USED-1 of the tape are the problem's
static void check(void **state) {
  Net net = *(const Net *)*state;
  net.replicas = R, net.blocks = 1;
  if (!net.heads) net.body = net.heads = 2;
  int64_t bodies = R * net.body, heads = R * net.heads;
  net.branch[0] = "s", net.branch[1] = "sz";
  net_layout(&net);

  // parameters away from their initial values, inputs, gradients by the outputs
  float *params = malloc(net.count * sizeof *params), *noise = normals(1, net.count);
  uint64_t seeds[R] = {4, 5};
  assert_int_equal(net_init(&net, seeds, 0, params), BFM_OK);
  NetTensor tensors[NET_MAX_TENSORS];
  int count = net_tensors(&net, "net", tensors);
  uint8_t *real = real_parameters(&net, tensors, count);
  for (int64_t i = 0; i < net.count; i++) {
    if (!real[i]) assert_true(params[i] == 0);
    else params[i] += 0.3f * noise[i];
  }
  Problem x = {&net,
               malloc(net.count * sizeof *x.p),
               {NULL, NULL},
               normals(2, heads * USED * net.out)};
  for (int64_t i = 0; i < net.count; i++) x.p[i] = params[i];

  Ops *ops;
  assert_int_equal(ops_open(&ops, "cpu", PRECISION_F32, 1), BFM_OK);
  Arena size = {0};
  Tape tape;
  tape_layout(&tape, &net, F32, TAPE_TRAIN, R, ROWS, &size);
  void *memory;
  assert_int_equal(ops->alloc(ops, &memory, size.used), BFM_OK);
  Arena place = {.base = memory};
  tape_layout(&tape, &net, F32, TAPE_TRAIN, R, ROWS, &place);
  for (int b = 0; b < 2; b++) {
    float *in = normals(3 + b, bodies * USED * net.in[b]);
    x.in[b] = malloc((bodies * USED * net.in[b] + 1) * sizeof *x.in[b]);
    for (int64_t i = 0; i < bodies * USED * net.in[b]; i++) {
      int64_t row = i / net.in[b];
      x.in[b][i] = in[i];
      int64_t at = row / USED * ROWS + FIRST + row % USED;
      ((float *)tape.in[b])[at * tape.ld_in[b] + i % net.in[b]] = in[i];
    }
    free(in);
  }

  float *grad = malloc(net.count * sizeof *grad);
  NetParams online = {params, params, grad};
  Pass pass = {.row0 = FIRST, .rows = USED};
  net_forward(ops, &net, online, &tape, pass);
  float *outs = malloc(heads * USED * net.out * sizeof *outs);
  value(&x, outs);
  for (int64_t i = 0; i < heads * USED * net.out; i++) {
    int64_t row = i / net.out, at = row / USED * ROWS + FIRST + row % USED;
    close_to("an output", tape.out[at * tape.ld_out + i % net.out], outs[i], 5);
  }

  net_backward(ops, &net, online, &tape, x.dout, pass, 1);
  double *slopes = malloc(net.count * sizeof *slopes), largest = 0;
  for (int64_t i = 0; i < net.count; i++) {
    slopes[i] = slope(&x, x.p + i);
    largest = fmax(largest, fabs(slopes[i]));
  }
  int64_t seen = 0;
  for (int t = 0; t < count; t++) {
    for (int64_t i = tensors[t].at; i < tensors[t].at + R * tensors[t].stride; i++, seen++) {
      if (!real[i]) assert_true(grad[i] == 0);
      close_to(tensors[t].name, grad[i], slopes[i], largest);
    }
  }
  assert_int_equal(seen, net.count);

  // the gradient by input 0, with and without those by parameters
  for (int alone = 0; alone < 2; alone++) {
    for (int64_t i = 0; i < bodies * USED * net.in[0]; i++) {
      int64_t row = i / net.in[0], at = row / USED * ROWS + FIRST + row % USED;
      close_to("the gradient by the input", ((float *)tape.din)[at * tape.ld_in[0] + i % net.in[0]],
               slope(&x, x.in[0] + i), largest);
    }
    memset(tape.din, 0, bodies * ROWS * tape.ld_in[0] * sizeof(float));
    online.grad = NULL;
    net_backward(ops, &net, online, &tape, x.dout, pass, 1);
  }

  // a tape for inference: the layer norms work in place
  memset(memory, 0, size.used);
  Arena infer = {.base = memory};
  tape_layout(&tape, &net, F32, TAPE_INFER, R, USED, &infer);
  for (int b = 0; b < 2; b++) {
    for (int64_t i = 0; i < bodies * USED * net.in[b]; i++) {
      ((float *)tape.in[b])[i / net.in[b] * tape.ld_in[b] + i % net.in[b]] = (float)x.in[b][i];
    }
  }
  net_forward(ops, &net, online, &tape, (Pass){.rows = USED});
  for (int64_t i = 0; i < heads * USED * net.out; i++) {
    close_to("an output", tape.out[i / net.out * tape.ld_out + i % net.out], outs[i], 5);
  }

  ops->release(ops, memory);
  ops->close(ops);
  void *arrays[] = {params, noise, real, x.p, x.in[0], x.in[1], x.dout, grad, outs, slopes};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

#define NET(what, ...)                                             \
  {                                                                \
    what, check, NULL, NULL, &(Net) { .name = "net", __VA_ARGS__ } \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      NET("two inputs", .in = {5, 4}, .hidden = 8, .feat = 6, .layers = 2, .out = 3),
      NET("norm in the trunk", .in = {5, 4}, .hidden = 8, .feat = 6, .layers = 2, .out = 3,
          .norm = 1, .pad_out = 1),
      NET("wide inputs and outputs", .in = {17, 9}, .hidden = 8, .feat = 6, .layers = 1, .out = 11,
          .pad_out = 1),
      NET("an explorer's critic", .in = {6}, .hidden = 8, .feat = 8, .out = 1, .feat_norm = 1),
      NET("an explorer's actor", .in = {5}, .hidden = 8, .feat = 8, .out = 2, .pad_out = 1),
      NET("an explorer's predictor", .in = {5}, .hidden = 8, .feat = 8, .out = 3, .plain = 1),
      NET("one input, norms, layers", .in = {5}, .hidden = 7, .feat = 9, .layers = 2, .out = 2,
          .norm = 1, .feat_norm = 1),
      NET("heads on shared branches", .in = {5, 4}, .hidden = 8, .feat = 6, .layers = 1, .out = 3,
          .body = 1, .heads = 3),
      NET("deep heads with norms", .in = {5, 4}, .hidden = 7, .feat = 6, .layers = 2, .out = 3,
          .norm = 1, .body = 1, .heads = 3),
      NET("heads on one input", .in = {6}, .hidden = 8, .feat = 9, .layers = 1, .out = 2,
          .feat_norm = 1, .norm = 1, .body = 1, .heads = 2),
      NET("no layers after two inputs", .in = {5, 4}, .hidden = 8, .feat = 6, .out = 3),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
