// A training step on transitions that the caller gives. Whatever the caller leaves out, the agent
// draws as it does when it trains on data.

#include <math.h>
#include <string.h>

#include "agent/agent.h"
#include "core/sized.h"

int agent_check_losses(bfm_agent *a, float *out) {
  float host[64 * MAX_LOSSES];
  int64_t n = (int64_t)a->R * a->loss_count;
  TRY(a->ops->download(a->ops, host, a->loss, n * sizeof *host));
  TRY(a->ops->sync(a->ops));
  if (out) memcpy(out, host, n * sizeof *host);
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(host[i])) {
      return bfm_fail(BFM_DIVERGED, "the %s loss of replica %ld is %s after step %ld",
                      a->loss_names[i % a->loss_count], (long)(i / a->loss_count),
                      isnan(host[i]) ? "NaN" : "infinite", (long)a->step);
    }
  }
  return BFM_OK;
}

static int upload(bfm_agent *a, float *to, const float *from, int64_t cols, const char *what) {
  int64_t rows = a->R * a->N;
  TRY(check_finite(from, rows, cols, what));
  return a->ops->upload(a->ops, to, from, rows * cols * sizeof *to);
}

static int upload_transitions(bfm_agent *a, const bfm_batch *batch) {
  if (!batch->obs || !batch->act || !batch->next_obs) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a batch needs obs, act and next_obs");
  }
  TRY(upload(a, a->obs, batch->obs, a->obs_dim, "obs"));
  TRY(upload(a, a->act, batch->act, a->act_dim, "act"));
  TRY(agent_check_actions(batch->act, a->R, a->N, a->act_dim));
  TRY(upload(a, a->next_obs, batch->next_obs, a->obs_dim, "next_obs"));
  if (batch->discount) return upload(a, a->discount, batch->discount, 1, "discount");
  return device_upload_ones(a->ops, a->discount, a->R * a->N);
}

static int noise(bfm_agent *a, const bfm_batch *batch) {
  if (batch->noise_next) TRY(upload(a, a->noise_next, batch->noise_next, a->act_dim, "noise_next"));
  else agent_draw_noise_next(a);
  if (batch->noise_pi) return upload(a, a->noise_pi, batch->noise_pi, a->act_dim, "noise_pi");
  agent_draw_noise_pi(a);
  return BFM_OK;
}

// z, and before it what it is drawn from
static int task_vectors(bfm_agent *a, const float *given) {
  agent_goals(a);
  if (!a->autoregressive) agent_features(a);
  // a given z does not use the pool, but the next step may draw from it
  if (a->autoregressive && a->step % a->config.z_pool == 0) {
    agent_draw_pool_states(a, a->next_obs, a->N, a->N);
    agent_refresh_pool(a);
  }
  if (given) {
    TRY(upload(a, a->z, given, a->d, "z"));
    for (int64_t i = 0; i < a->R * a->N; i++) TRY(agent_check_z(given + i * a->d, a->d));
    a->ops->normalize_z(a->ops, &(NormalizeZ){.z = a->z, .rows = a->R * a->N, .d = a->d});
  } else {
    agent_draw_z(a);
  }
  return BFM_OK;
}

bfm_status bfm_agent_update(bfm_agent *a, const bfm_batch *given, float *losses) {
  NEED("agent", a);
  bfm_batch batch = {0};
  if (given) {
    TRY(sized_read(&batch, sizeof batch, given, SIZE_TO(bfm_batch, noise_pi), "bfm_batch"));
  }
  EXCLUSIVE(a);
  TRY(agent_ready(a));
  TRY(upload_transitions(a, &batch));
  TRY(noise(a, &batch));
  TRY(task_vectors(a, batch.z));
  agent_learn(a);
  a->step++;
  a->stepped = 1;
  return agent_check_losses(a, losses);
}
