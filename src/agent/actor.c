// The actor's loss (lines 14–17 of Algorithm 2), and its gradient by the policy's output before tanh.
//
//   TD3: −mean_j min_m F_m(s_j, π(s_j,z), z)·z
//   AW:  A = mean_m F_m(s,a,z)·z − min_m F_m(s,a_π,z)·z,  w = softmax(A/β),  w' ∝ w/(1−w),
//        −Σ_j w'_j·log π(a_j | s_j, z)

#include "agent/agent.h"

// needs q; writes dx
void aw_actor_loss(bfm_agent *a) {
  Ops *ops = a->ops;
  const Config *c = &a->config;
  ops->aw_weights(ops, &(AwWeights){.w = a->w, .q = a->q, .q_pi = a->q + a->N,
                                    .advantage = a->advantage, .replicas = a->R, .members = a->M,
                                    .rows = a->N, .q_stride = 2 * a->N, .beta = (float)c->beta,
                                    .clip = (float)c->clip, .ess = (float)c->ess,
                                    .sum_members = c->adv == ADV_SUM,
                                    .mean_base = c->adv_base == ADV_BASE_MEAN,
                                    .iwis = c->weights == WEIGHTS_IWIS});
  ops->aw_loss(ops, &(AwLoss){.dx = a->dx, .w = a->w, .act = a->act, .mu = a->mu,
                              .loss = a->loss + a->loss_count - 1, .loss_stride = a->loss_count,
                              .replicas = a->R, .rows = a->N, .act_dim = a->act_dim,
                              .mu_stride = 2 * a->N, .sigma = (float)c->sigma});
}

// needs q; writes dx: the gradient goes back through F to the action, but not to F's parameters
void td3_actor_loss(bfm_agent *a) {
  Ops *ops = a->ops;
  const Net *f = &a->net[NET_F];
  const Tape *tape = &a->tape[NET_F];
  ops->td3_loss(ops, &(Td3Loss){.df = a->df_pi, .q_pi = a->q + a->N, .z = a->z,
                                .loss = a->loss + a->loss_count - 1, .loss_stride = a->loss_count,
                                .replicas = a->R, .members = a->M, .rows = a->N,
                                .q_stride = 2 * a->N, .df_stride = a->N, .d = a->d});
  NetParams frozen = a->net[NET_F].online;
  frozen.grad = NULL;
  net_backward(ops, f, frozen, tape, a->df_pi, (Pass){.row0 = a->N, .rows = a->N}, 1);
  int64_t ld = tape->ld_in[0];
  const char *din = tape->din;
  ops->td3_action_grad(ops, &(Td3ActionGrad){.dx = a->dx,
                                             .dxa = din + a->N * ld * type_size(ops->type),
                                             .mu = a->mu, .replicas = a->R, .copies = f->body,
                                             .rows = a->N, .row_stride = tape->rows, .ld = ld,
                                             .obs_dim = a->obs_dim, .act_dim = a->act_dim,
                                             .mu_stride = 2 * a->N});
}
