// The task vector z in training, and the features B(s', z) that go with it.
//
// Without blocks B does not depend on z: B(s') is computed first and serves both as features and as
// the source of z. With blocks z comes from a pool of z computed block by block every few steps,
// z_i = B_i(s, z_1 … z_i-1), and then B(s', z) is computed for the batch.

#include "agent/agent.h"

static void pack_b(bfm_agent *a, const Tape *tape, const float *states, const float *z,
                   int64_t rows, int64_t row0) {
  Ops *ops = a->ops;
  Pack in_0 = {.out = tape->in[0], .ld = tape->ld_in[0], .a = states, .a_cols = a->goal_dim,
               .groups = a->R, .copies = 1, .rows = rows, .row0 = row0, .row_stride = tape->rows};
  Pack in_1 = in_0;
  in_1.out = tape->in[1], in_1.ld = tape->ld_in[1];
  if (a->K > 1) {
    in_1.b = z;
    in_1.b_cols = a->d;
  }
  in_1.next = &in_0;
  ops->pack(ops, &in_1);
}

// block k of every row of out into z
static void take_block(bfm_agent *a, const float *out, float *z, int64_t rows, int64_t k) {
  int64_t lo = block_start(k, a->d, a->K), hi = block_start(k + 1, a->d, a->K);
  // copy_columns counts in elements of T, and these columns are float32
  size_t words = a->ops->type == F32 ? 1 : 2;
  a->ops->copy_columns(a->ops, &(CopyColumns){.out = z + lo, .in = out + lo, .groups = 1,
                                              .rows = rows, .cols = (hi - lo) * words,
                                              .ld_out = a->d * words, .ld_in = a->d * words});
}

// Draw the states of the pool from `states`, the data's or the batch's: `count` rows a replica, each
// replica's `stride` rows after the one before.
void agent_draw_pool_states(bfm_agent *a, const float *states, int64_t count, int64_t stride) {
  a->ops->sample_rows(a->ops, &(SampleRows){.out = a->pool_obs, .in = states,
                                            .seeds = a->params.seeds, .step = a->step_device,
                                            .stream = STREAM_Z_STATE, .replicas = a->R,
                                            .rows = a->pool_rows, .cols = a->obs_dim,
                                            .below = count, .in_stride = stride});
}

// Each z of the pool is B of a state of pool_obs, block by block, or Gaussian; then its norm is √d.
void agent_refresh_pool(bfm_agent *a) {
  Ops *ops = a->ops;
  int64_t P = a->pool_rows, rows = a->R * P;
  const Tape *tape = &a->tape_pool;
  agent_select_goal(a, a->ops, a->pool_goal, a->pool_obs, rows);
  ops->zero(ops, a->pool_z, rows * a->d * sizeof *a->pool_z);
  for (int64_t k = 0; k < a->K; k++) {
    if (a->K > 1) {
      ops->residual_norm(ops, &(ResidualNorm){.y = a->pool_zb, .z = a->pool_z, .rows = rows,
                                              .d = a->d, .blocks = a->K});
    }
    pack_b(a, tape, a->pool_goal, a->pool_zb, P, 0);
    net_forward(ops, &a->net[NET_B], a->net[NET_B].online, tape,
                (Pass){.rows = P, .first_block = k, .end_block = k + 1});
    if (a->config.b_norm) {
      ops->block_norm(ops, &(BlockNorm){.y = a->pool_zb, .x = tape->out, .rows = rows, .d = a->d,
                                        .blocks = a->K});
    }
    take_block(a, a->config.b_norm ? a->pool_zb : tape->out, a->pool_z, rows, k);
  }

  ops->mix_z(ops, &(MixZ){.z = a->pool, .states = a->pool_z, .seeds = a->params.seeds,
                          .step = a->step_device, .replicas = a->R, .rows = P, .draws = P,
                          .d = a->d, .state_rows = P, .mix = (float)a->config.z_mix});
}

void agent_draw_z(bfm_agent *a) {
  Ops *ops = a->ops;
  int64_t draws = a->config.z_groups;
  if (a->autoregressive) {
    ops->pool_z(ops, &(PoolZ){.z = a->z, .pool = a->pool, .step = a->step_device, .replicas = a->R,
                              .rows = a->N, .draws = draws, .d = a->d, .pool_rows = a->pool_rows});
    return;
  }
  int64_t rows = a->laplacian ? 2 * a->N : a->N;  // lap: phi(s), then phi(s')
  const float *states = a->b + (rows - a->N) * a->d;
  if (a->config.z_whiten) {
    ops->whiten(ops, &(Whiten){.out = a->white, .phi = states, .gram = a->gram, .replicas = a->R,
                               .rows = a->N, .row_stride = rows, .d = a->d});
    states = a->white;
    rows = a->N;
  }
  ops->mix_z(ops, &(MixZ){.z = a->z, .states = states, .seeds = a->params.seeds,
                          .step = a->step_device, .replicas = a->R, .rows = a->N, .draws = draws,
                          .d = a->d, .state_rows = rows, .below = a->N,
                          .mix = (float)a->config.z_mix});
}

// ------------------------------- features --------------------------------------------------------

void agent_select_goal(const bfm_agent *a, Ops *ops, float *out, const float *obs, int64_t rows) {
  if (!a->goal_columns) return;
  ops->select_columns(ops, &(SelectColumns){.out = out, .in = obs, .columns = a->goal_columns,
                                            .rows = rows, .in_cols = a->obs_dim,
                                            .out_cols = a->goal_dim});
}

void agent_b_output(const bfm_agent *a, Ops *ops, float *out, const float *x, int64_t rows) {
  if (a->config.b_norm) {
    ops->block_norm(ops, &(BlockNorm){.y = out, .x = x, .rows = rows, .d = a->d, .blocks = a->K});
  } else {
    ops->copy(ops, out, x, rows * a->d * sizeof *out);
  }
}

// the goal columns of s' and, for lap, of s
void agent_goals(bfm_agent *a) {
  agent_select_goal(a, a->ops, a->goal, a->next_obs, a->R * a->N);
  if (a->laplacian) agent_select_goal(a, a->ops, a->goal_now, a->obs, a->R * a->N);
}

// B(s', z); lap: phi(s) and phi(s')
void agent_features(bfm_agent *a) {
  Ops *ops = a->ops;
  const Tape *tape = &a->tape[NET_B];
  if (a->K > 1) {
    ops->residual_norm(ops, &(ResidualNorm){.y = a->z_b, .z = a->z, .rows = a->R * a->N, .d = a->d,
                                            .blocks = a->K});
  }
  if (a->laplacian) pack_b(a, tape, a->goal_now, NULL, a->N, 0);
  pack_b(a, tape, a->goal, a->z_b, a->N, a->laplacian ? a->N : 0);
  net_forward(ops, &a->net[NET_B], a->net[NET_B].online, tape, (Pass){.rows = tape->rows});
  agent_b_output(a, a->ops, a->b, tape->out, a->R * tape->rows);
}

// B⁻(s', z), after B(s', z)
void agent_target_features(bfm_agent *a) {
  Ops *ops = a->ops;
  const Tape *target = &a->tape_target[NET_B];
  pack_b(a, target, a->goal, a->z_b, a->N, 0);
  net_forward(ops, &a->net[NET_B], a->net[NET_B].slow, target, (Pass){.rows = a->N});
  agent_b_output(a, a->ops, a->b_target, target->out, a->R * target->rows);
}
