// One update of a single-task agent that learns from a dataset, one batch for each policy.
//
//   bc     π: mean (π(s) − a)²
//   iql    V: expectile regression on q = min_m Q⁻_m(s, a);   Q_m: ½·mean (Q_m(s, a) − r − γV(s'))²
//          π: −mean min(exp(β(q − V(s))), clip)·log N(a; π(s), σ²), σ learned for each number of a
//   xql    the same with Gumbel regression for V, and Huber's loss for Q_m
//
// As in the papers' own code, V is updated first; Q and π then see the new V, and Q⁻ follows last.
// π(s) and Q(s, a) do not depend on V, and are computed on lanes of their own meanwhile.

#include "explore/explorer.h"

enum { LANE_MAIN, LANE_Q, LANE_PI, SIDE };

#define HUBER 20  // of xql, as its authors' code has it

static void policy_forward(bfm_explorer *e, const ExplorerBatch *b) {
  explorer_forward(e, XNET_PI, e->net[XNET_PI].online, &e->tape[XNET_PI], b->obs, NULL);
  explorer_policy_action(e, &e->tape[XNET_PI], e->mu_pi, e->act_pi, NULL);
}

static void policy_backward(bfm_explorer *e) {
  net_backward(e->ops, &e->net[XNET_PI], e->net[XNET_PI].online, &e->tape[XNET_PI], e->da,
               (Pass){.rows = e->N}, 0);
  int64_t first = e->net[XNET_PI].first;
  params_update(&e->params, &(ParamsUpdate){.first = first, .end = first + e->net[XNET_PI].count,
                                            .step = e->policy_step, .lr = e->options.lr,
                                            .anneal = e->options.anneal});
}

// ------------------------------- cloning ---------------------------------------------------------

static void clone(bfm_explorer *e, const ExplorerBatch *b) {
  policy_forward(e, b);
  e->ops->clone_loss(e->ops, &(CloneLoss){.dx = e->da, .act = b->act, .mu = e->mu_pi,
                                          .loss = e->loss + LOSS_BC, .loss_stride = e->loss_count,
                                          .replicas = e->T, .rows = e->N, .act_dim = e->act_dim});
  policy_backward(e);
}

// ------------------------------- V, then π and Q -------------------------------------------------

// V(s), and what is learned from it
static void value_update(bfm_explorer *e, const ExplorerBatch *b) {
  const ExplorerOptions *o = &e->options;
  int gumbel = o->algo == EXPLORER_XQL;
  explorer_forward(e, XNET_V, e->net[XNET_V].online, &e->tape[XNET_V], b->obs, NULL);
  e->ops->value_loss(e->ops,
                     &(ValueLoss){.dv = e->dv, .q = b->slow[XNET_Q].out, .v = e->tape[XNET_V].out,
                                  .loss = e->loss + LOSS_VALUE, .loss_stride = e->loss_count,
                                  .replicas = e->T, .members = e->M, .rows = e->N, .gumbel = gumbel,
                                  .level = (float)(gumbel ? o->loss_temperature : o->expectile),
                                  .clip = (float)o->exp_clip});
  net_backward(e->ops, &e->net[XNET_V], e->net[XNET_V].online, &e->tape[XNET_V], e->dv,
               (Pass){.rows = e->N, .side = SIDE}, 0);
  explorer_adam(e, XNET_V, e->step_device, 0);
}

static void weighted_policy_update(bfm_explorer *e, const ExplorerBatch *b) {
  Ops *ops = e->ops;
  const ExplorerOptions *o = &e->options;
  int64_t sigmas = e->T * e->act_dim;
  ops->exp_weights(ops, &(ExpWeights){.w = e->weights, .q = b->slow[XNET_Q].out,
                                      .v = e->tape[XNET_V].out, .replicas = e->T, .members = e->M,
                                      .rows = e->N, .rate = (float)o->inverse_temperature,
                                      .clip = (float)o->weight_clip});
  ops->gaussian_loss(ops, &(GaussianLoss){.dx = e->da, .dlog_sigma = e->dlog_sigma, .w = e->weights,
                                          .act = b->act, .mu = e->mu_pi, .log_sigma = e->log_sigma,
                                          .loss = e->loss + LOSS_ACTOR,
                                          .loss_stride = e->loss_count, .replicas = e->T,
                                          .rows = e->N, .act_dim = e->act_dim});
  policy_backward(e);
  ops->adam(ops, &(Adam){.param = e->log_sigma, .m = e->log_sigma_moments,
                         .v = e->log_sigma_moments + sigmas, .grad = e->dlog_sigma,
                         .step = e->policy_step, .count = sigmas, .anneal = o->anneal,
                         .lr = (float)o->lr, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f});
}

static void critic_update(bfm_explorer *e, const ExplorerBatch *b) {
  explorer_critic_loss(e, b, e->tape_v_next.out, 1, e->options.algo == EXPLORER_XQL ? HUBER : 0);
  net_backward(e->ops, &e->net[XNET_Q], e->net[XNET_Q].online, &e->tape[XNET_Q], e->dq,
               (Pass){.rows = e->N, .side = SIDE}, 0);
  explorer_adam(e, XNET_Q, e->step_device, 1);
}

static void learn_values(bfm_explorer *e, const ExplorerBatch *b) {
  Ops *ops = e->ops;
  NetParams v = e->net[XNET_V].online;
  ops->fork(ops, LANE_PI);
  ops->lane(ops, LANE_PI);
  policy_forward(e, b);
  ops->lane(ops, LANE_MAIN);
  ops->fork(ops, LANE_Q);
  ops->lane(ops, LANE_Q);
  explorer_forward(e, XNET_Q, e->net[XNET_Q].online, &e->tape[XNET_Q], b->obs, b->act);
  ops->lane(ops, LANE_MAIN);

  explorer_forward(e, XNET_Q, e->net[XNET_Q].slow, &b->slow[XNET_Q], b->obs, b->act);
  value_update(e, b);

  // with the new V: the policy on its lane, the critics on the main one
  ops->join(ops, LANE_PI);
  ops->join(ops, LANE_Q);
  ops->fork(ops, LANE_PI);
  ops->lane(ops, LANE_PI);
  explorer_forward(e, XNET_V, v, &e->tape[XNET_V], b->obs, NULL);
  weighted_policy_update(e, b);
  ops->lane(ops, LANE_MAIN);
  explorer_forward(e, XNET_V, v, &e->tape_v_next, b->next_obs, NULL);
  critic_update(e, b);
  ops->join(ops, LANE_PI);
}

// ------------------------------- an update -------------------------------------------------------

void explorer_learn_offline(bfm_explorer *e, int64_t step, int draw) {
  Ops *ops = e->ops;
  ExplorerBatch *b = &e->batch[step % EXPLORER_AHEAD];
  if (draw) explorer_sample(e, b);
  ops->increment(ops, e->drawn_device);
  explorer_normalize(e, b->obs, e->N, NULL);
  explorer_normalize(e, b->next_obs, e->N, NULL);
  (e->options.algo == EXPLORER_BC ? clone : learn_values)(e, b);
  ops->increment(ops, e->policy_step);
  ops->increment(ops, e->step_device);
}
