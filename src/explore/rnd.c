// Random network distillation (RND): a predictor learns the output of a random network. Its error is
// large at states that the agent has rarely visited, and serves as the reward.

#include "explore/explorer.h"

static Pack input(const bfm_explorer *e, int net) {
  return (Pack){.out = e->tape[net].in[0], .ld = e->tape[net].ld_in[0], .a = e->seen_norm,
                .a_cols = e->obs_dim, .groups = e->T, .copies = 1, .rows = e->N,
                .row_stride = e->N};
}

void rnd_bonus(bfm_explorer *e, const ExplorerBatch *b) {
  Ops *ops = e->ops;
  ops->running_norm(ops, &(RunningNorm){.out = e->seen_norm, .in = b->obs, .stats = e->obs_stats,
                                        .step = e->step_device, .replicas = e->T, .rows = e->N,
                                        .cols = e->obs_dim, .clip = EXPLORER_CLIP});
  Pack predictor = input(e, XNET_PREDICTOR), random = input(e, XNET_RANDOM);
  predictor.next = &random;
  ops->pack(ops, &predictor);
  for (int net = XNET_PREDICTOR; net <= XNET_RANDOM; net++) {
    net_forward(ops, &e->net[net], e->net[net].online, &e->tape[net], (Pass){.rows = e->N});
  }
  ops->rnd_bonus(ops, &(RndBonus){.df = e->df, .bonus = e->bonus, .f = e->tape[XNET_PREDICTOR].out,
                                  .g = e->tape[XNET_RANDOM].out, .stats = e->error_stats,
                                  .step = e->step_device, .loss = e->loss + LOSS_RND,
                                  .mean_bonus = e->loss + LOSS_BONUS, .loss_stride = e->loss_count,
                                  .replicas = e->T, .rows = e->N, .cols = e->options.rnd_dim});
}

void rnd_learn(bfm_explorer *e) {
  net_backward(e->ops, &e->net[XNET_PREDICTOR], e->net[XNET_PREDICTOR].online,
               &e->tape[XNET_PREDICTOR], e->df, (Pass){.rows = e->N}, 0);
  explorer_adam(e, XNET_PREDICTOR, e->step_device, 0);
}
