// One array for the parameters of all networks of an agent or explorer. Networks start at multiples
// of 64 floats. Networks with targets come first, so that the targets are one array too.

#include "nets/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"

// ------------------------------- layout ----------------------------------------------------------

static int64_t aligned(int64_t count) { return (count + 63) / 64 * 64; }

void params_place(Params *p, Ops *ops, Net *net, int nets) {
  *p = (Params){.ops = ops, .net = net, .nets = nets, .replicas = net[0].replicas};
  for (int i = 0; i < nets; i++) {
    if (!net[i].name) continue;
    net_layout(&net[i]);
    net[i].first = p->count;
    p->count += aligned(net[i].count);
    if (net[i].has_target) p->target_count = p->count;
    if (net[i].blocks > 1) p->masked = &net[i];
  }
}

static const void *copy_at(const void *base, int64_t at, size_t size) {
  return (const char *)base + at * (int64_t)size;
}

// sets the networks' pointers to their parameters
static void set_pointers(Params *p) {
  size_t size = type_size(p->ops->type);
  for (int i = 0; i < p->nets; i++) {
    Net *net = &p->net[i];
    if (!net->name) continue;
    int64_t at = net->first;
    net->online = (NetParams){p->value + at, copy_at(p->work, at, size),
                              p->grad ? (void *)copy_at(p->grad, at, size) : NULL};
    if (net->has_target) {
      net->slow = (NetParams){p->target + at, copy_at(p->target_work, at, size), NULL};
    }
    if (net == p->masked) {
      net->online.work = p->masked_work;
      net->slow.work = p->masked_target_work;
    }
  }
}

void params_layout(Params *p, Arena *arena) {
  size_t size = type_size(p->ops->type);
  int copies = p->ops->type != F32;
  p->value = floats(arena, p->count);
  p->target = floats(arena, p->target_count);
  p->work = copies ? arena_take(arena, p->count * size) : p->value;
  p->target_work = copies ? arena_take(arena, p->target_count * size) : p->target;
  if (p->masked) {
    p->mask = arena_take(arena, p->masked->count);
    p->masked_work = arena_take(arena, p->masked->count * size);
    p->masked_target_work = arena_take(arena, p->masked->count * size);
  }
  p->seeds = arena_take(arena, p->replicas * sizeof *p->seeds);
  if (arena->base) set_pointers(p);
}

void params_training_layout(Params *p, Arena *arena) {
  p->grad = arena_take(arena, p->count * type_size(p->ops->type));
  p->adam_m = floats(arena, p->count);
  p->adam_v = floats(arena, p->count);
  if (arena->base) set_pointers(p);
}

// ------------------------------- initial values --------------------------------------------------

static void list_net(Params *p, int index, int target) {
  const Net *net = &p->net[index];
  float *base = (target ? p->target : p->value) + net->first;
  NetTensor found[NET_MAX_TENSORS];
  char name[32];
  snprintf(name, sizeof name, "%s%s", net->name, target ? "_target" : "");
  int n = net_tensors(net, name, found);
  for (int i = 0; i < n; i++) {
    p->tensors[p->tensor_count++] = (Param){found[i], base + found[i].at, index, target};
  }
}

static void list_tensors(Params *p) {
  for (int i = 0; i < p->nets; i++) {
    if (p->net[i].name) list_net(p, i, 0);
  }
  for (int i = 0; i < p->nets; i++) {
    if (p->net[i].name && p->net[i].has_target) list_net(p, i, 1);
  }
}

void params_add(Params *p, const NetTensor *tensor, float *at) {
  p->tensors[p->tensor_count++] = (Param){*tensor, at, -1, 0};
}

static int upload_values(Params *p, uint64_t seed, int start) {
  Ops *ops = p->ops;
  float *values = calloc(p->count, sizeof *values);
  uint64_t *seeds = malloc(p->replicas * sizeof *seeds);
  int status = BFM_OK;
  if (!values || !seeds) {
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for %ld parameters", (long)p->count);
  }
  int different = p->seed_count ? p->seed_count : p->replicas;
  for (int r = 0; r < p->replicas && !status; r++) seeds[r] = seed + r % different;
  for (int i = 0; i < p->nets && !status && start; i++) {
    if (p->net[i].name) status = net_init(&p->net[i], seeds, i, values + p->net[i].first);
  }
  if (!status) status = ops->upload(ops, p->seeds, seeds, p->replicas * sizeof *seeds);
  if (!status) status = ops->upload(ops, p->value, values, p->count * sizeof *values);
  if (!status) status = ops->upload(ops, p->target, values, p->target_count * sizeof *values);
  free(values);
  free(seeds);
  return status;
}

static int upload_mask(Params *p) {
  if (!p->masked) return BFM_OK;
  uint8_t *mask = malloc(p->masked->count);
  if (!mask) return bfm_fail(BFM_NO_MEMORY, "out of memory for the masks of %s", p->masked->name);
  net_masks(p->masked, mask);
  int status = p->ops->upload(p->ops, p->mask, mask, p->masked->count);
  free(mask);
  return status;
}

int params_init(Params *p, uint64_t seed, int start) {
  list_tensors(p);
  TRY(upload_values(p, seed, start));
  TRY(upload_mask(p));
  params_refresh(p);
  return p->ops->sync(p->ops);
}

// ------------------------------- changes ---------------------------------------------------------

static void copy(Params *p, void *out, const float *in, const uint8_t *mask, int64_t count) {
  p->ops->masked_copy(p->ops, &(MaskedCopy){.out = out, .in = in, .mask = mask, .count = count});
}

void params_refresh(Params *p) {
  if (p->ops->type != F32) {
    copy(p, p->work, p->value, NULL, p->count);
    copy(p, p->target_work, p->target, NULL, p->target_count);
  }
  if (!p->masked) return;
  copy(p, p->masked_work, p->masked->online.value, p->mask, p->masked->count);
  copy(p, p->masked_target_work, p->masked->slow.value, p->mask, p->masked->count);
}

void params_update(Params *p, const ParamsUpdate *u) {
  Ops *ops = p->ops;
  size_t size = type_size(ops->type);
  int64_t at = u->first;
  int copies = ops->type != F32, targets = u->targets && at < p->target_count;
  int masked = p->masked && at == p->masked->first;
  char *work = copies ? (char *)p->work + at * size : NULL;
  char *target_work = copies && targets ? (char *)p->target_work + at * size : NULL;
  ops->adam(ops, &(Adam){.param = p->value + at, .m = p->adam_m + at, .v = p->adam_v + at,
                         .grad = (char *)p->grad + at * size, .mask = masked ? p->mask : NULL,
                         .copy = masked ? p->masked_work : work,
                         .target = targets ? p->target + at : NULL,
                         .target_copy = masked ? p->masked_target_work : target_work,
                         .step = u->step, .count = u->end - at, .anneal = u->anneal,
                         .lr = (float)u->lr, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f,
                         .tau = (float)u->tau});
}

// ------------------------------- tensors by name -------------------------------------------------

const Param *params_find(const Params *p, const char *name) {
  for (int i = 0; i < p->tensor_count; i++) {
    if (!strcmp(p->tensors[i].tensor.name, name)) return &p->tensors[i];
  }
  return NULL;
}

float *param_at(const Param *t, int replica) { return t->at + replica * t->tensor.stride; }

int params_info(const Params *p, int index, const char **name, int *dims, int64_t shape[4]) {
  if (index < 0 || index >= p->tensor_count) {
    return bfm_fail(BFM_BAD_ARGUMENT, "tensor index must be 0 to %d, not %d", p->tensor_count - 1,
                    index);
  }
  const NetTensor *t = &p->tensors[index].tensor;
  *name = t->name;
  *dims = t->dims;
  for (int i = 0; i < t->dims; i++) shape[i] = t->shape[i];
  return BFM_OK;
}

static int find_for_access(const Params *p, const char *name, int64_t count, const Param **t) {
  *t = params_find(p, name);
  if (!*t) return bfm_fail(BFM_BAD_ARGUMENT, "there is no tensor named \"%s\"", name);
  if ((*t)->tensor.count == count) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "tensor %s has %ld values, not %ld", name,
                  (long)(*t)->tensor.count, (long)count);
}

int params_get(Params *p, int replica, const char *name, float *out, int64_t count) {
  const Param *t;
  TRY(find_for_access(p, name, count, &t));
  return padding_download(p->ops, t->tensor.padding, out, param_at(t, replica), count);
}

int params_set(Params *p, int replica, const char *name, const float *values, int64_t count) {
  const Param *t;
  TRY(find_for_access(p, name, count, &t));
  TRY(check_finite(values, 1, count, name));
  TRY(padding_upload(p->ops, t->tensor.padding, param_at(t, replica), values, count));
  params_refresh(p);
  return p->ops->sync(p->ops);
}
