// Initial parameters: orthogonal weights, zero biases, layer norm gains of 1. Also the masks of B.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bfm.h"
#include "core/rng.h"
#include "nets/net.h"
#include "ops/onednn.h"

// ------------------------------- orthogonal ------------------------------------------------------

static double dot(const float *x, const float *y, int64_t n) {
  float sum[16] = {0};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int j = 0; j < 16; j++) sum[j] += x[i + j] * y[i + j];
  }
  double total = 0;
  for (int j = 0; j < 16; j++) total += sum[j];
  for (; i < n; i++) total += (double)x[i] * y[i];
  return total;
}

#define PANEL 64

// makes the rows of one panel orthonormal among themselves
static void orthonormalize_panel(float *v, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; i++) {
    float *row = v + i * n;
    for (int pass = 0; pass < 2; pass++) {
      for (int64_t j = 0; j < i; j++) {
        const float *other = v + j * n;
        float along = (float)dot(row, other, n);
        for (int64_t k = 0; k < n; k++) row[k] -= along * other[k];
      }
    }
    float scale = (float)(1 / sqrt(dot(row, row, n)));
    for (int64_t k = 0; k < n; k++) row[k] *= scale;
  }
}

// Gram-Schmidt on the rows of v [count, n], count ≤ n, one panel of rows at a time, so that most of
// the work is matrix products. Each panel is done twice, which is enough for float32.
// along: scratch, [PANEL, count]
static void orthonormalize(float *v, int64_t count, int64_t n, float *along) {
  for (int64_t i = 0; i < count; i += PANEL) {
    float *panel = v + i * n;
    int64_t rows = count - i < PANEL ? count - i : PANEL;
    for (int pass = 0; pass < 2; pass++) {
      if (i) {
        onednn_sgemm(rows, i, n, 1, panel, v, 1, 0, along);
        onednn_sgemm(rows, n, i, -1, along, v, 0, 1, panel);
      }
      orthonormalize_panel(panel, rows, n);
    }
  }
}

// Orthonormal rows if out ≤ in, else orthonormal columns. v: scratch_size() floats.
static void orthogonal(const Linear *l, float *weight, uint64_t seed, uint64_t number, float *v) {
  int wide = l->out <= l->in;
  int64_t count = wide ? l->out : l->in, n = wide ? l->in : l->out;
  bfm_random_normal(seed, STREAM_INIT, number, count * n, v);
  orthonormalize(v, count, n, v + count * n);
  for (int64_t i = 0; i < l->out; i++) {
    for (int64_t j = 0; j < l->in; j++) weight[i * l->ld + j] = v[wide ? i * n + j : j * n + i];
  }
}

// the weight, and PANEL times its shorter side
static int64_t scratch_size(const Linear *l) {
  return l->out * l->in + PANEL * (l->out < l->in ? l->out : l->in);
}

static void unit_gains(const Net *net, const LayerNorm *norm, float *values) {
  int64_t count = (int64_t)net->replicas * norm->members * norm->width;
  for (int64_t i = 0; i < count; i++) values[norm->gain + i] = 1;
}

static void scale_last(const Net *net, float *values) {
  const Linear *last = &net->trunk[net->layers];
  int64_t count = net->last_scale ? net->replicas * last->members * last->rows * last->ld : 0;
  for (int64_t i = 0; i < count; i++) values[last->weight + i] *= net->last_scale;
}

int net_init(const Net *net, const uint64_t *seeds, uint64_t number, float *values) {
  memset(values, 0, net->count * sizeof *values);
  const Linear *linears[4 + NET_MAX_LAYERS + 1];
  int count = 0;
  for (int b = 0; b < net_branches(net); b++) {
    linears[count++] = &net->branch_in[b];
    linears[count++] = &net->branch_out[b];
    unit_gains(net, &net->branch_norm[b], values);
  }
  for (int i = 0; i <= net->layers; i++) {
    linears[count++] = &net->trunk[i];
    unit_gains(net, &net->trunk_norm[i], values);
  }

  int64_t most = 0;
  for (int l = 0; l < count; l++)
    most = scratch_size(linears[l]) > most ? scratch_size(linears[l]) : most;
  float *scratch = malloc(most * sizeof *scratch);
  if (!scratch)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the initial parameters of %s", net->name);
  for (int l = 0; l < count; l++) {
    int64_t size = linears[l]->rows * linears[l]->ld;
    for (int g = 0; g < net->replicas * linears[l]->members; g++) {
      int r = g / linears[l]->members, m = g % linears[l]->members;
      orthogonal(linears[l], values + linears[l]->weight + g * size, seeds[r],
                 number * 1024 + l * 32 + m, scratch);
    }
  }
  free(scratch);
  scale_last(net, values);
  return BFM_OK;
}

// ------------------------------- masks -----------------------------------------------------------

static int64_t block_of(int64_t unit, int64_t n, int64_t K) { return unit * K / n; }

// The last `masked` inputs are in blocks. Block i of the outputs sees blocks j < i if strict, else
// j ≤ i.
static void mask_linear(const Net *net, const Linear *l, int64_t masked, int strict,
                        uint8_t *mask) {
  int64_t free_inputs = l->in - masked, K = net->blocks;
  for (int64_t g = 0; g < net->replicas * l->members; g++) {
    for (int64_t i = 0; i < l->out; i++) {
      int64_t out_block = block_of(i, l->out, K);
      uint8_t *row = mask + l->weight + (g * l->rows + i) * l->ld;
      for (int64_t j = 0; j < masked; j++) {
        int64_t in_block = block_of(j, masked, K);
        row[free_inputs + j] = strict ? in_block < out_block : in_block <= out_block;
      }
    }
  }
}

void net_masks(const Net *net, uint8_t *mask) {
  memset(mask, 1, net->count);
  mask_linear(net, &net->branch_in[1], net->z, 1, mask);
  mask_linear(net, &net->branch_out[1], net->hidden, 0, mask);
  mask_linear(net, &net->trunk[0], net->feat, 0, mask);
  for (int i = 1; i <= net->layers; i++) mask_linear(net, &net->trunk[i], net->hidden, 0, mask);
}
