// The networks at work in a training step: which rows each of them sees, forward and backward.
//
// F sees the rows (s, a, z) and (s, a_π, z) in one pass, and π the rows (s, z) and (s', z): one wide
// product is faster than two narrow ones. A pass on lane i may use lane i + SIDE beside it: for the
// second input branch, and for the weights' gradients, which no later layer waits for.

#include "agent/agent.h"

// ------------------------------- inputs ----------------------------------------------------------

// the rows from row0 on of a network's input branch: [x, y]
static Pack input(bfm_agent *a, int net, const Tape *tape, int branch, const float *x,
                  int64_t x_cols, const float *y, int64_t y_cols, int64_t row0) {
  return (Pack){.out = tape->in[branch], .ld = tape->ld_in[branch], .a = x, .a_cols = x_cols,
                .b = y, .b_cols = y ? y_cols : 0, .groups = a->R, .copies = a->net[net].body,
                .rows = a->N, .row0 = row0, .row_stride = tape->rows};
}

static void pack_inputs(bfm_agent *a, Pack *inputs, int count) {
  for (int i = 1; i < count; i++) inputs[i - 1].next = &inputs[i];
  a->ops->pack(a->ops, inputs);
}

// ------------------------------- π ---------------------------------------------------------------

// π's output at (s, z) and (s', z)
void pi_forward(bfm_agent *a) {
  const Tape *tape = &a->tape[NET_PI];
  pack_inputs(a,
              (Pack[]){input(a, NET_PI, tape, 0, a->obs, a->obs_dim, NULL, 0, 0),
                       input(a, NET_PI, tape, 0, a->next_obs, a->obs_dim, NULL, 0, a->N),
                       input(a, NET_PI, tape, 1, a->obs, a->obs_dim, a->z, a->d, 0),
                       input(a, NET_PI, tape, 1, a->next_obs, a->obs_dim, a->z, a->d, a->N)},
              4);
  net_forward(a->ops, &a->net[NET_PI], a->net[NET_PI].online, tape,
              (Pass){.rows = 2 * a->N, .side = LANE_MAIN + SIDE});
}

// the actions a_π ~ π(s, z) and a' ~ π(s', z): the mean plus clipped noise
void pi_actions(bfm_agent *a) {
  const Tape *tape = &a->tape[NET_PI];
  PolicyAction now = {.mu = a->mu, .x = tape->out, .act = a->act_pi, .noise = a->noise_pi,
                      .groups = a->R, .rows = a->N, .row_stride = 2 * a->N, .act_dim = a->act_dim,
                      .ld = tape->ld_out, .sigma = (float)a->config.sigma,
                      .noise_clip = (float)a->config.noise_clip};
  PolicyAction next = now;
  next.mu += a->N * a->act_dim, next.x += a->N * tape->ld_out;
  next.act = a->act_next, next.noise = a->noise_next;
  now.next = &next;
  a->ops->policy_action(a->ops, &now);
}

// the gradient of the actor's loss, through the rows (s, z) alone
void pi_backward(bfm_agent *a) {
  net_backward(a->ops, &a->net[NET_PI], a->net[NET_PI].online, &a->tape[NET_PI], a->dx,
               (Pass){.rows = a->N, .lane = LANE_ACTOR, .side = LANE_ACTOR + SIDE}, 0);
}

// ------------------------------- F ---------------------------------------------------------------

// F⁻(s', a', z)
void f_target_forward(bfm_agent *a) {
  const Tape *tape = &a->tape_target[NET_F];
  const float *obs = a->next_obs;
  pack_inputs(a,
              (Pack[]){input(a, NET_F, tape, 0, obs, a->obs_dim, a->act_next, a->act_dim, 0),
                       input(a, NET_F, tape, 1, obs, a->obs_dim, a->z, a->d, 0)},
              2);
  net_forward(a->ops, &a->net[NET_F], a->net[NET_F].slow, tape,
              (Pass){.rows = a->N, .lane = LANE_TARGET, .side = LANE_TARGET + SIDE});
}

// F(s, a, z) and F(s, a_π, z)
void f_forward(bfm_agent *a) {
  const Tape *tape = &a->tape[NET_F];
  pack_inputs(a,
              (Pack[]){input(a, NET_F, tape, 0, a->obs, a->obs_dim, a->act, a->act_dim, 0),
                       input(a, NET_F, tape, 0, a->obs, a->obs_dim, a->act_pi, a->act_dim, a->N),
                       input(a, NET_F, tape, 1, a->obs, a->obs_dim, a->z, a->d, 0)},
              3);
  net_forward(a->ops, &a->net[NET_F], a->net[NET_F].online, tape,
              (Pass){.rows = 2 * a->N, .repeat = 2, .side = LANE_MAIN + SIDE});
}

// the values of both actions, F(s, a, z)·z and F(s, a_π, z)·z
void f_values(bfm_agent *a) {
  a->ops->row_dot(a->ops, &(RowDot){.out = a->q, .a = a->tape[NET_F].out, .z = a->z,
                                    .replicas = a->R, .members = a->M, .rows = 2 * a->N,
                                    .row_stride = 2 * a->N, .d = a->d, .z_rows = a->N});
}

static Pass f_rows(const bfm_agent *a) { return (Pass){.rows = a->N, .side = LANE_MAIN + SIDE}; }

void f_backward_trunk(bfm_agent *a) {
  net_backward_trunk(a->ops, &a->net[NET_F], a->net[NET_F].online, &a->tape[NET_F], a->df,
                     f_rows(a));
}

void f_backward_branches(bfm_agent *a) {
  net_backward_branches(a->ops, &a->net[NET_F], a->net[NET_F].online, &a->tape[NET_F], f_rows(a),
                        0);
}

// ------------------------------- B; U and V of the advantage-only model --------------------------

void b_backward(bfm_agent *a) {
  Ops *ops = a->ops;
  const Tape *tape = &a->tape[NET_B];
  if (a->config.b_norm) {
    ops->block_norm_grad(ops, &(BlockNormGrad){.dx = a->db, .dy = a->db, .x = tape->out,
                                               .rows = a->R * tape->rows, .d = a->d,
                                               .blocks = a->K});
  }
  net_backward(ops, &a->net[NET_B], a->net[NET_B].online, tape, a->db,
               (Pass){.rows = tape->rows, .lane = LANE_TARGET, .side = LANE_TARGET + SIDE}, 0);
}

// m̄ = U(s, z)·V(s'), and the same of the targets at s': the part that no action changes
void mbar_forward(bfm_agent *a) {
  for (int slow = 0; slow < 2; slow++) {
    const Tape *u = slow ? &a->tape_target[NET_U] : &a->tape[NET_U];
    const Tape *v = slow ? &a->tape_target[NET_V] : &a->tape[NET_V];
    const float *obs = slow ? a->next_obs : a->obs;
    pack_inputs(a,
                (Pack[]){input(a, NET_U, u, 0, obs, a->obs_dim, NULL, 0, 0),
                         input(a, NET_U, u, 1, obs, a->obs_dim, a->z, a->d, 0),
                         input(a, NET_V, v, 0, a->goal, a->goal_dim, NULL, 0, 0),
                         input(a, NET_V, v, 1, a->goal, a->goal_dim, NULL, 0, 0)},
                4);
    net_forward(a->ops, &a->net[NET_U], slow ? a->net[NET_U].slow : a->net[NET_U].online, u,
                (Pass){.rows = a->N});
    net_forward(a->ops, &a->net[NET_V], slow ? a->net[NET_V].slow : a->net[NET_V].online, v,
                (Pass){.rows = a->N});
  }
}

void mbar_backward(bfm_agent *a) {
  const Pass rows = {.rows = a->N, .lane = LANE_TARGET, .side = LANE_TARGET + SIDE};
  net_backward(a->ops, &a->net[NET_U], a->net[NET_U].online, &a->tape[NET_U], a->du, rows, 0);
  net_backward(a->ops, &a->net[NET_V], a->net[NET_V].online, &a->tape[NET_V], a->dv, rows, 0);
}
