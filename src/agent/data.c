// Training on data: who owns the transitions, the step recorded as a graph, and its replays.
//
// A GPU gets a copy of the transitions, and draws batches from it without the host. A CPU may read
// the caller's arrays in place, so that a mapped file is never copied.

#include "agent/agent.h"

// ------------------------------- graphs ----------------------------------------------------------

static void step_body(void *agent) {
  agent_sample(agent);
  agent_learn(agent);
}

static void refresh_body(void *agent) {
  bfm_agent *a = agent;
  agent_draw_pool_states(a, a->data_next, a->data_count, 0);
  agent_refresh_pool(a);
}

static void forget_graphs(bfm_agent *a) {
  if (a->step_graph) a->ops->forget(a->ops, a->step_graph);
  if (a->refresh_graph) a->ops->forget(a->ops, a->refresh_graph);
  a->step_graph = a->refresh_graph = NULL;
}

// an agent whose graphs cannot be recorded has no data either
static int record_graphs(bfm_agent *a) {
  Ops *ops = a->ops;
  int status = BFM_OK;
  if (a->autoregressive) status = ops->record(ops, &a->refresh_graph, refresh_body, a);
  if (!status) status = ops->record(ops, &a->step_graph, step_body, a);
  if (status) {
    forget_graphs(a);
    a->data_count = 0;
  }
  return status;
}

int agent_set_lr(bfm_agent *a, double lr) {
  if (a->config.lr > 0) a->config.b_lr *= lr / a->config.lr;
  a->config.lr = lr;
  forget_graphs(a);
  return a->data_count ? record_graphs(a) : BFM_OK;
}

// ------------------------------- the transitions -------------------------------------------------

enum { DATA_OBS, DATA_ACT, DATA_NEXT, DATA_DISCOUNT, DATA_ARRAYS };

static int check_count(int64_t count) {
  if (count >= 2 && count <= INT32_MAX) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "data must have 2 to %d transitions, not %ld", INT32_MAX,
                  (long)count);
}

void agent_free_data(bfm_agent *a) {
  forget_graphs(a);
  if (a->data_memory) a->ops->release(a->ops, a->data_memory);
  a->data_memory = NULL;
  a->data_count = 0;
}

static int use_data(bfm_agent *a, int64_t count, const float *const arrays[DATA_ARRAYS]) {
  a->data_obs = arrays[DATA_OBS];
  a->data_act = arrays[DATA_ACT];
  a->data_next = arrays[DATA_NEXT];
  a->data_discount = arrays[DATA_DISCOUNT];
  a->data_count = count;
  return record_graphs(a);
}

static int copy_data(bfm_agent *a, int64_t count, const float *const from[DATA_ARRAYS]) {
  Ops *ops = a->ops;
  const int64_t cols[DATA_ARRAYS] = {a->obs_dim, a->act_dim, a->obs_dim, 1};
  float *to[DATA_ARRAYS];
  TRY(agent_ready(a));
  agent_free_data(a);
  Arena size = {0};
  for (int i = 0; i < DATA_ARRAYS; i++) arena_take(&size, count * cols[i] * sizeof(float));
  TRY(ops->alloc(ops, &a->data_memory, size.used));
  Arena place = {.base = a->data_memory};
  for (int i = 0; i < DATA_ARRAYS; i++) {
    size_t bytes = count * cols[i] * sizeof(float);
    to[i] = arena_take(&place, bytes);
    TRY(from[i] ? ops->upload(ops, to[i], from[i], bytes) : device_upload_ones(ops, to[i], count));
  }
  return use_data(a, count, (const float *const *)to);
}

bfm_status bfm_agent_set_data(bfm_agent *a, int64_t count, const float *obs, const float *act,
                              const float *next_obs, const float *discount) {
  NEED("agent", a);
  EXCLUSIVE(a);
  TRY(check_count(count));
  if (!obs || !act || !next_obs) {
    return bfm_fail(BFM_BAD_ARGUMENT, "data needs obs, act and next_obs");
  }
  TRY(check_finite(obs, count, a->obs_dim, "obs"));
  TRY(check_finite(act, count, a->act_dim, "act"));
  TRY(agent_check_actions(act, 1, count, a->act_dim));
  TRY(check_finite(next_obs, count, a->obs_dim, "next_obs"));
  if (discount) TRY(check_finite(discount, count, 1, "discount"));
  return copy_data(a, count, (const float *const[]){obs, act, next_obs, discount});
}

bfm_status agent_lend_data(bfm_agent *a, int64_t count, const float *obs, const float *act,
                           const float *next_obs, const float *discount) {
  const float *const arrays[DATA_ARRAYS] = {obs, act, next_obs, discount};
  TRY(check_count(count));
  if (!agent_on_cpu(a)) return copy_data(a, count, arrays);
  TRY(agent_ready(a));
  agent_free_data(a);
  return use_data(a, count, arrays);
}

// ------------------------------- training --------------------------------------------------------

bfm_status bfm_agent_train(bfm_agent *a, int64_t steps, float *losses) {
  NEED("agent", a);
  EXCLUSIVE(a);
  if (!a->data_count) {
    return bfm_fail(BFM_BAD_ARGUMENT, "no data to train on: call bfm_agent_set_data first");
  }
  if (steps < 0) return bfm_fail(BFM_BAD_ARGUMENT, "steps must be 0 or more, not %ld", (long)steps);
  if (steps > INT64_MAX - a->step) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%ld more steps cannot be counted", (long)steps);
  }
  int64_t pool = a->config.z_pool;
  for (int64_t end = a->step + steps; a->step < end;) {
    int64_t run = end - a->step;
    if (a->autoregressive) {
      if (a->step % pool == 0) TRY(a->ops->replay(a->ops, a->refresh_graph, 1));
      int64_t left = pool - a->step % pool;
      run = run < left ? run : left;
    }
    TRY(a->ops->replay(a->ops, a->step_graph, run));
    a->step += run;
    a->stepped = 1;
  }
  return steps > 0 ? agent_check_losses(a, losses) : BFM_OK;
}
