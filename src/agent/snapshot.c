// Snapshots hold what a state file holds. They are copied on the device, array by array.

#include "agent/snapshot.h"

#include "agent/agent.h"

#define PART_COUNT 5

typedef struct {
  float *at;
  int64_t count;
} Part;

static int64_t list_parts(const bfm_agent *a, Part parts[PART_COUNT]) {
  const Part all[PART_COUNT] = {{a->params.value, a->params.count},
                                {a->params.adam_m, a->params.count},
                                {a->params.adam_v, a->params.count},
                                {a->params.target, a->params.target_count},
                                {a->pool, a->pool ? a->R * a->pool_rows * a->d : 0}};
  int64_t total = 0;
  for (int i = 0; i < PART_COUNT; i++) total += (parts[i] = all[i]).count;
  return total;
}

int snapshot_take(Snapshot *s, bfm_agent *a) {
  Ops *ops = a->ops;
  Part parts[PART_COUNT];
  TRY(agent_ready(a));
  int64_t total = list_parts(a, parts);
  if (!s->memory) TRY(ops->alloc(ops, (void **)&s->memory, total * sizeof *s->memory));
  float *to = s->memory;
  for (int i = 0; i < PART_COUNT; to += parts[i++].count) {
    if (parts[i].count) ops->copy(ops, to, parts[i].at, parts[i].count * sizeof *to);
  }
  s->step = a->step;
  return ops->sync(ops);
}

int snapshot_restore(const Snapshot *s, bfm_agent *a) {
  Ops *ops = a->ops;
  Part parts[PART_COUNT];
  list_parts(a, parts);
  const float *from = s->memory;
  for (int i = 0; i < PART_COUNT; from += parts[i++].count) {
    if (parts[i].count) ops->copy(ops, parts[i].at, from, parts[i].count * sizeof *from);
  }
  a->step = s->step;
  TRY(ops->upload(ops, a->step_device, &a->step, sizeof a->step));
  params_refresh(&a->params);
  return ops->sync(ops);
}

void snapshot_free(Snapshot *s, bfm_agent *a) {
  if (s->memory) a->ops->release(a->ops, s->memory);
  s->memory = NULL;
}
