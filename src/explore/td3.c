// One update of an explorer by TD3, or of an offline agent by TD3+BC: twin critics, whose target is
// their minimum, and a policy and targets that are updated every delay-th time.
//
//   y = R + γⁿ·min_m Q⁻_m(s', a'),  a' = clip(π⁻(s') + clip(σ·noise))
//   Q_m:  ½·mean (Q_m(s, a) − y)², summed over m        π: −mean min_m Q_m(s, π(s))
//   TD3+BC, π:  −λ·mean Q_1(s, π(s)) + mean (π(s) − a)²,  λ = alpha/mean |Q_1(s, π(s))|
//
// A critic is an F of length 1 with z = 1, so the losses are those of ψ and of the TD3 actor.
// Schedule: the target networks change only together with the policy. In between, the targets of
// the next batch are computed on other lanes while the current batch is learned.

#include "explore/explorer.h"

#include <math.h>

// Lanes: the targets of two batches (LANE_TARGET and the next), drawing, RND, the policy's forward
// pass, and the side lane of backward passes.
enum { LANE_MAIN, LANE_TARGET, LANE_DRAW = LANE_TARGET + EXPLORER_AHEAD, LANE_RND, LANE_PI, SIDE };

void explorer_normalize(bfm_explorer *e, float *obs, int64_t rows, const int64_t *step) {
  if (!e->input_stats) return;
  float clip = explorer_is_offline(e->options.algo) ? INFINITY : EXPLORER_CLIP;
  e->ops->running_norm(e->ops, &(RunningNorm){.out = obs, .in = obs, .stats = e->input_stats,
                                              .step = step, .replicas = e->T, .rows = rows,
                                              .cols = e->obs_dim, .clip = clip});
}

static Pack input(const bfm_explorer *e, int net, const Tape *tape, const float *obs,
                  const float *act) {
  return (Pack){.out = tape->in[0], .ld = tape->ld_in[0], .a = obs, .a_cols = e->obs_dim, .b = act,
                .b_cols = act ? e->act_dim : 0, .groups = e->T, .copies = e->net[net].body,
                .rows = e->N, .row_stride = e->N};
}

void explorer_forward(bfm_explorer *e, int net, NetParams params, const Tape *tape,
                      const float *obs, const float *act) {
  Pack in = input(e, net, tape, obs, act);
  e->ops->pack(e->ops, &in);
  net_forward(e->ops, &e->net[net], params, tape, (Pass){.rows = e->N});
}

void explorer_policy_action(bfm_explorer *e, const Tape *tape, float *mu, float *act,
                            const float *noise) {
  const ExplorerOptions *o = &e->options;
  e->ops->policy_action(e->ops, &(PolicyAction){.mu = mu, .x = tape->out, .act = act,
                                                .noise = noise, .groups = e->T, .rows = e->N,
                                                .row_stride = e->N, .act_dim = e->act_dim,
                                                .ld = tape->ld_out, .sigma = (float)o->target_sigma,
                                                .noise_clip = (float)o->noise_clip});
}

void explorer_adam(bfm_explorer *e, int net, const int64_t *step, int slow) {
  int64_t first = e->net[net].first;
  params_update(&e->params, &(ParamsUpdate){.first = first, .end = first + e->net[net].count,
                                            .step = step, .lr = e->options.lr,
                                            .tau = e->options.tau, .targets = slow});
}

void explorer_critic_loss(bfm_explorer *e, const ExplorerBatch *b, const float *q_target,
                          int t_members, float huber) {
  const float *reward = e->options.algo == EXPLORER_RND ? e->bonus : b->reward;
  e->ops->psi_loss(e->ops, &(PsiLoss){.dpsi = e->dq, .q = e->tape[XNET_Q].out, .q_target = q_target,
                                      .phi_z = reward, .z = e->ones, .discount = b->discount,
                                      .gamma = 1, .loss = e->loss + LOSS_CRITIC,
                                      .loss_stride = e->loss_count, .replicas = e->T,
                                      .members = e->M, .t_members = t_members, .rows = e->N,
                                      .q_stride = e->N, .dpsi_stride = e->N, .d = 1,
                                      .min_target = 1, .huber = huber});
}

// the gradient of the actor's loss with respect to Q(s, π(s)): TD3's, or that of TD3+BC
static void actor_loss(bfm_explorer *e) {
  Ops *ops = e->ops;
  const float *q = e->tape_q_pi.out;
  if (e->options.algo == EXPLORER_TD3BC) {
    ops->td3bc_loss(ops, &(Td3BcLoss){.dq = e->dq_pi, .q = q, .loss = e->loss + LOSS_ACTOR,
                                      .loss_stride = e->loss_count, .replicas = e->T,
                                      .members = e->M, .rows = e->N,
                                      .alpha = (float)e->options.alpha});
    return;
  }
  ops->td3_loss(ops, &(Td3Loss){.df = e->dq_pi, .q_pi = q, .z = e->ones,
                                .loss = e->loss + LOSS_ACTOR, .loss_stride = e->loss_count,
                                .replicas = e->T, .members = e->M, .rows = e->N, .q_stride = e->N,
                                .df_stride = e->N, .d = 1});
}

// from the actor's loss back through the critics, whose parameters get no gradient, to the policy
static void policy_backward(bfm_explorer *e, const ExplorerBatch *b) {
  Ops *ops = e->ops;
  const Tape *tape = &e->tape_q_pi;
  actor_loss(e);
  NetParams frozen = e->net[XNET_Q].online;
  frozen.grad = NULL;
  net_backward(ops, &e->net[XNET_Q], frozen, tape, e->dq_pi, (Pass){.rows = e->N}, 1);
  ops->td3_action_grad(ops, &(Td3ActionGrad){.dx = e->da, .dxa = tape->din, .mu = e->mu_pi,
                                             .replicas = e->T, .copies = e->net[XNET_Q].body,
                                             .rows = e->N, .row_stride = e->N, .ld = tape->ld_in[0],
                                             .obs_dim = e->obs_dim, .act_dim = e->act_dim,
                                             .mu_stride = e->N});
  if (e->options.algo == EXPLORER_TD3BC) {
    ops->clone_loss(ops, &(CloneLoss){.dx = e->da, .act = b->act, .mu = e->mu_pi,
                                      .loss = e->loss + LOSS_CLONE, .loss_stride = e->loss_count,
                                      .replicas = e->T, .rows = e->N, .act_dim = e->act_dim,
                                      .add = 1});
  }
  net_backward(ops, &e->net[XNET_PI], e->net[XNET_PI].online, &e->tape[XNET_PI], e->da,
               (Pass){.rows = e->N, .side = SIDE}, 0);
}

// ------------------------------- a batch and its targets -----------------------------------------

void explorer_draw_noise(bfm_explorer *e, ExplorerBatch *b) {
  e->ops->draw_normal(e->ops, &(Draw){.out = b->noise, .seeds = e->params.seeds,
                                      .step = e->drawn_device, .stream = STREAM_NOISE_NEXT,
                                      .replicas = e->T, .count = e->N * e->act_dim});
}

static void sample_ring(bfm_explorer *e, ExplorerBatch *b) {
  Ops *ops = e->ops;
  ops->replay_sample(ops, &(ReplaySample){.obs = b->obs, .act = b->act, .reward = b->reward,
                                          .discount = b->discount, .next_obs = b->next_obs,
                                          .ring = e->ring, .slots = e->slots_device,
                                          .seeds = e->params.seeds, .step = e->drawn_device,
                                          .stream = STREAM_BATCH, .replicas = e->T, .rows = e->N,
                                          .envs = e->E, .capacity = e->capacity,
                                          .obs_dim = e->obs_dim, .act_dim = e->act_dim,
                                          .nstep = e->options.nstep,
                                          .gamma = (float)e->options.gamma});
}

// All arrays are sampled with one key, so that they give the same rows. Policies of different tasks
// with the same seed draw the same rows, each with the rewards of its own task.
static void sample_data(bfm_explorer *e, ExplorerBatch *b) {
  const ExplorerData *data = &e->data;
  int64_t seeds = e->options.seeds;
  const SampleRows rows = {.seeds = e->params.seeds, .step = e->drawn_device,
                           .stream = STREAM_BATCH, .replicas = e->T, .rows = e->N, .cols = 1,
                           .below = data->count};
  SampleRows obs = rows, act = rows, next = rows, discount = rows;
  obs.out = b->obs, obs.in = data->obs, obs.cols = e->obs_dim, obs.next = &act;
  act.out = b->act, act.in = data->act, act.cols = e->act_dim, act.next = &next;
  next.out = b->next_obs, next.in = data->next_obs, next.cols = e->obs_dim, next.next = &discount;
  discount.out = b->discount, discount.in = data->discount;
  e->ops->sample_rows(e->ops, &obs);
  for (int t = 0; t < e->data_tasks; t++) {
    SampleRows reward = rows;
    reward.replicas = seeds;
    reward.seeds += t * seeds;
    reward.out = b->reward + t * seeds * e->N;
    reward.in = data->rewards + t * data->count;
    e->ops->sample_rows(e->ops, &reward);
  }
}

void explorer_sample(bfm_explorer *e, ExplorerBatch *b) {
  (e->data.count ? sample_data : sample_ring)(e, b);
}

// a' and Q⁻(s', a')
static void targets(bfm_explorer *e, ExplorerBatch *b) {
  explorer_forward(e, XNET_PI, e->net[XNET_PI].slow, &b->slow[XNET_PI], b->next_obs, NULL);
  explorer_policy_action(e, &b->slow[XNET_PI], b->mu_next, b->act_next, b->noise);
  explorer_forward(e, XNET_Q, e->net[XNET_Q].slow, &b->slow[XNET_Q], b->next_obs, b->act_next);
}

// Starts drawing the batch of an update on LANE_DRAW, and its targets on one of the target lanes.
static void begin(bfm_explorer *e, int64_t step, int draw) {
  Ops *ops = e->ops;
  ExplorerBatch *b = &e->batch[step % EXPLORER_AHEAD];
  int lane = LANE_TARGET + (int)(step % EXPLORER_AHEAD);
  ops->fork(ops, LANE_DRAW);
  ops->lane(ops, LANE_DRAW);
  if (draw) {
    ops->fork(ops, lane);
    ops->lane(ops, lane);
    explorer_draw_noise(e, b);
    ops->lane(ops, LANE_DRAW);
    explorer_sample(e, b);
    ops->join(ops, lane);
  }
  int running = !explorer_is_offline(e->options.algo);
  explorer_normalize(e, b->obs, e->N, running ? e->drawn_device : NULL);
  explorer_normalize(e, b->next_obs, e->N, NULL);
  ops->increment(ops, e->drawn_device);
  ops->fork(ops, lane);
  ops->lane(ops, lane);
  targets(e, b);
  ops->lane(ops, LANE_MAIN);
}

// ------------------------------- updates ---------------------------------------------------------

static void update(bfm_explorer *e, int64_t step, int with_policy) {
  Ops *ops = e->ops;
  const ExplorerBatch *b = &e->batch[step % EXPLORER_AHEAD];
  int rnd = e->options.algo == EXPLORER_RND;

  // the bonus, π(s) and Q(s, a), in parallel with the targets
  if (rnd) {
    ops->fork(ops, LANE_RND);
    ops->lane(ops, LANE_RND);
    rnd_bonus(e, b);
    ops->lane(ops, LANE_MAIN);
  }
  if (with_policy) {
    ops->fork(ops, LANE_PI);
    ops->lane(ops, LANE_PI);
    explorer_forward(e, XNET_PI, e->net[XNET_PI].online, &e->tape[XNET_PI], b->obs, NULL);
    explorer_policy_action(e, &e->tape[XNET_PI], e->mu_pi, e->act_pi, NULL);
    ops->lane(ops, LANE_MAIN);
  }
  explorer_forward(e, XNET_Q, e->net[XNET_Q].online, &e->tape[XNET_Q], b->obs, b->act);

  // the critics
  ops->join(ops, LANE_TARGET + (int)(step % EXPLORER_AHEAD));
  if (rnd) {
    ops->join(ops, LANE_RND);
    ops->lane(ops, LANE_RND);
    rnd_learn(e);
    ops->lane(ops, LANE_MAIN);
  }
  explorer_critic_loss(e, b, b->slow[XNET_Q].out, e->M, 0);
  net_backward(ops, &e->net[XNET_Q], e->net[XNET_Q].online, &e->tape[XNET_Q], e->dq,
               (Pass){.rows = e->N, .side = SIDE}, 0);
  explorer_adam(e, XNET_Q, e->step_device, with_policy);

  // the policy, with the new critics
  if (with_policy) {
    ops->join(ops, LANE_PI);
    explorer_forward(e, XNET_Q, e->net[XNET_Q].online, &e->tape_q_pi, b->obs, e->act_pi);
    policy_backward(e, b);
    explorer_adam(e, XNET_PI, e->policy_step, 1);
    ops->increment(ops, e->policy_step);
  }
  if (rnd) ops->join(ops, LANE_RND);
  ops->increment(ops, e->step_device);
}

void explorer_learn(bfm_explorer *e, int64_t first, int64_t updates, int draw) {
  int64_t end = first + updates;
  if (explorer_is_offline(e->options.algo) && e->options.algo != EXPLORER_TD3BC) {
    for (int64_t i = 0; i < updates; i++) explorer_learn_offline(e, first + i, draw);
    return;
  }
  begin(e, first, draw);
  for (int64_t step = first; step < end; step++) {
    e->ops->join(e->ops, LANE_DRAW);
    if (step + 1 < end) begin(e, step + 1, draw);
    update(e, step, (step + 1) % e->options.delay == 0);
  }
}
