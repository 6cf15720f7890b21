// Parameters by name, and their copies between the device, where a layer's matrices may be padded,
// and the host and files, where they are not.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nets/net.h"

// ------------------------------- names -----------------------------------------------------------

// appends a tensor; dims 2: matrices, 1: vectors
static void add_tensor(NetTensor *t, int *n, const char *net, const char *part, const char *kind,
                       int members, int dims, int64_t at, Padding padding) {
  t = &t[(*n)++];
  *t = (NetTensor){.at = at, .count = members * padding.rows * padding.cols,
                   .stride = members * padding.stride, .padding = padding};
  snprintf(t->name, sizeof t->name, "%s.%s.%s", net, part, kind);
  if (members > 1) t->shape[t->dims++] = members;
  if (dims > 1) t->shape[t->dims++] = padding.rows;
  t->shape[t->dims++] = padding.cols;
}

static void add_linear(NetTensor *t, int *n, const char *net, const char *part, const Linear *l) {
  add_tensor(t, n, net, part, "weight", l->members, 2, l->weight,
             (Padding){l->out, l->in, l->ld, l->rows * l->ld});
  add_tensor(t, n, net, part, "bias", l->members, 1, l->bias,
             (Padding){1, l->out, l->rows, l->rows});
}

static void add_norm(NetTensor *t, int *n, const char *net, const char *part,
                     const LayerNorm *norm) {
  Padding none = {1, norm->width, norm->width, norm->width};
  if (!norm->width) return;
  add_tensor(t, n, net, part, "weight", norm->members, 1, norm->gain, none);
  add_tensor(t, n, net, part, "bias", norm->members, 1, norm->shift, none);
}

int net_tensors(const Net *net, const char *name, NetTensor *t) {
  int n = 0;
  char part[32];
  for (int b = 0; b < net_branches(net); b++) {
    snprintf(part, sizeof part, "%s.in", net->branch[b]);
    add_linear(t, &n, name, part, &net->branch_in[b]);
    snprintf(part, sizeof part, "%s.norm", net->branch[b]);
    add_norm(t, &n, name, part, &net->branch_norm[b]);
    snprintf(part, sizeof part, "%s.out", net->branch[b]);
    add_linear(t, &n, name, part, &net->branch_out[b]);
  }
  snprintf(part, sizeof part, "%s.out.norm", net->branch[0]);
  add_norm(t, &n, name, part, &net->trunk_norm[0]);
  for (int i = 0; i <= net->layers; i++) {
    snprintf(part, sizeof part, "trunk.%d", i);
    add_linear(t, &n, name, part, &net->trunk[i]);
    if (i == net->layers) break;
    snprintf(part, sizeof part, "trunk.%d.norm", i);
    add_norm(t, &n, name, part, &net->trunk_norm[i + 1]);
  }
  return n;
}

// ------------------------------- padding ---------------------------------------------------------

static int is_tight(const Padding *p) { return p->stride == p->rows * p->cols; }

// a zeroed buffer for `count` values in the padded layout of the device
static int padded_room(const Padding *p, int64_t count, float **room, size_t *bytes) {
  *bytes = count / (p->rows * p->cols) * p->stride * sizeof **room;
  *room = calloc(1, *bytes);
  if (*room) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld parameters", (long)count);
}

// offset on the device of row i of the host
static int64_t row_at(const Padding *p, int64_t i) {
  return i / p->rows * p->stride + i % p->rows * p->ld;
}

int padding_download(Ops *ops, Padding p, float *to, const float *from, int64_t count) {
  if (is_tight(&p)) return ops->download(ops, to, from, count * sizeof *to);
  float *room;
  size_t bytes;
  TRY(padded_room(&p, count, &room, &bytes));
  int status = ops->download(ops, room, from, bytes);
  for (int64_t i = 0; i < count / p.cols && !status; i++) {
    memcpy(to + i * p.cols, room + row_at(&p, i), p.cols * sizeof *to);
  }
  free(room);
  return status;
}

int padding_upload(Ops *ops, Padding p, float *to, const float *from, int64_t count) {
  if (is_tight(&p)) return ops->upload(ops, to, from, count * sizeof *to);
  float *room;
  size_t bytes;
  TRY(padded_room(&p, count, &room, &bytes));
  for (int64_t i = 0; i < count / p.cols; i++) {
    memcpy(room + row_at(&p, i), from + i * p.cols, p.cols * sizeof *from);
  }
  int status = ops->upload(ops, to, room, bytes);
  free(room);
  return status;
}
