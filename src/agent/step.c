// One training step: the paper's Algorithm 2, as a table in the order of its lines.
//
// A line names a function, the lane that runs it and the lanes it waits for. Lanes are streams of a
// GPU: lines on different lanes run side by side unless one waits for the other. A CPU runs the
// lines one after the other. All losses are taken at the same parameters; each network is updated
// as soon as its gradients are there and no other loss needs it any more in this step.

#include "agent/agent.h"

// ------------------------------- sampling --------------------------------------------------------

// N transitions (s, a, s') of the data
static void draw_batch(bfm_agent *a) {
  SampleRows obs = {.out = a->obs, .in = a->data_obs, .seeds = a->params.seeds,
                    .step = a->step_device, .stream = STREAM_BATCH, .replicas = a->R, .rows = a->N,
                    .cols = a->obs_dim, .below = a->data_count};
  SampleRows act = obs, next_obs = obs, discount = obs;
  act.out = a->act, act.in = a->data_act, act.cols = a->act_dim;
  next_obs.out = a->next_obs, next_obs.in = a->data_next;
  discount.out = a->discount, discount.in = a->data_discount, discount.cols = 1;
  obs.next = &act, act.next = &next_obs, next_obs.next = &discount;
  a->ops->sample_rows(a->ops, &obs);
}

static void draw_noise(bfm_agent *a, float *out, Stream stream) {
  a->ops->draw_normal(a->ops, &(Draw){.out = out, .seeds = a->params.seeds, .step = a->step_device,
                                      .stream = stream, .replicas = a->R,
                                      .count = a->N * a->act_dim});
}

void agent_draw_noise_next(bfm_agent *a) { draw_noise(a, a->noise_next, STREAM_NOISE_NEXT); }
void agent_draw_noise_pi(bfm_agent *a) { draw_noise(a, a->noise_pi, STREAM_NOISE_PI); }

// the updates below run on into the next step, so they get a count of their own
static void count_step(bfm_agent *a) {
  a->ops->copy(a->ops, a->step_update, a->step_device, sizeof *a->step_update);
  a->ops->increment(a->ops, a->step_device);
}

// ------------------------------- updates ---------------------------------------------------------

// Adam on the parameters first … end-1, then their targets
static void update(bfm_agent *a, int64_t first, int64_t end) {
  int of_b = first == a->net[NET_B].first;
  double lr = of_b && a->config.b_lr > 0 ? a->config.b_lr : a->config.lr;
  params_update(&a->params, &(ParamsUpdate){.first = first, .end = end, .step = a->step_update,
                                            .lr = lr, .tau = a->config.polyak, .targets = 1});
}

static int64_t trunk_of_f(const bfm_agent *a) {
  return a->net[NET_F].first + a->net[NET_F].trunk[0].weight;
}

static void update_f_trunk(bfm_agent *a) { update(a, trunk_of_f(a), a->net[NET_B].first); }
static void update_f_branches(bfm_agent *a) { update(a, a->net[NET_F].first, trunk_of_f(a)); }
static void update_mbar(bfm_agent *a) { update(a, a->net[NET_U].first, a->params.target_count); }
static void update_pi(bfm_agent *a) { update(a, a->net[NET_PI].first, a->params.count); }

static void update_b(bfm_agent *a) {
  update(a, a->net[NET_B].first, a->net[NET_B].first + a->net[NET_B].count);
}

// ------------------------------- Algorithm 2 -----------------------------------------------------

// the algorithms that have a line; 0: all
enum { AUTO = 1, ONE_BLOCK = 2, FB = 4, LAP = 8, AW = 16, TD3 = 32, MBAR = 64 };

static int kind_of(const bfm_agent *a) {
  return (a->autoregressive ? AUTO : ONE_BLOCK) | (a->laplacian ? LAP : FB) |
         (a->weighted ? AW : TD3) | (a->config.mbar ? MBAR : 0);
}

// lanes as bits, to wait for
enum {
  MAIN = 1 << LANE_MAIN,
  MAIN_SIDE = 1 << (LANE_MAIN + SIDE),
  TARGET = 1 << LANE_TARGET,
  ACTOR = 1 << LANE_ACTOR,
  B = 1 << LANE_B,
  UPDATE = 1 << LANE_UPDATE,
};

typedef struct {
  void (*compute)(bfm_agent *agent);  // NULL: only wait
  int kind;                           // what an agent must be to have this line
  int lane;
  int after;  // the lanes it waits for: for what they have been given up to this line
} Line;

// clang-format off
static const Line sample[] = {
  {agent_draw_noise_next, 0,         LANE_ACTOR,  MAIN},            // noise of a'
  {agent_draw_noise_pi,   0,         LANE_ACTOR,  0},               // noise of a_π
  {agent_draw_z,          AUTO,      LANE_TARGET, MAIN},            // z, of the pool
  {draw_batch,            0,         LANE_MAIN,   0},               // (s, a, s')
  {agent_goals,           0,         LANE_MAIN,   0},               // what B sees of s'
  {agent_features,        ONE_BLOCK, LANE_MAIN,   0},               // B(s')
  {agent_draw_z,          ONE_BLOCK, LANE_MAIN,   0},               // z, of B(s')
  {NULL,                  AUTO,      LANE_MAIN,   TARGET},
};

static const Line learn[] = {
  {count_step,            0,         LANE_UPDATE, MAIN | ACTOR},
  {NULL,                  0,         LANE_B,      MAIN},
  {agent_features,        AUTO,      LANE_B,      0},               // B(s', z)
  {agent_target_features, FB,        LANE_B,      0},               // B⁻(s', z)

  {pi_forward,            0,         LANE_MAIN,   0},
  {pi_actions,            0,         LANE_MAIN,   ACTOR},           // a_π ~ π(s, z), a' ~ π(s', z)

  {f_target_forward,      0,         LANE_TARGET, MAIN | UPDATE},   // F⁻(s', a', z)
  {mbar_forward,          MBAR,      LANE_TARGET, 0},
  {fb_target,             FB,        LANE_TARGET, B},               // F⁻(s', a', z)·B⁻(s', z)
  {laplacian_loss,        LAP,       LANE_B,      0},               // L_lap
  {ortho_loss,            0,         LANE_B,      0},               // L_ortho
  {f_forward,             0,         LANE_MAIN,   UPDATE},          // F(s, a, z), F(s, a_π, z)
  {f_values,              LAP,       LANE_MAIN,   0},

  {NULL,                  0,         LANE_ACTOR,  MAIN},
  {f_values,              FB,        LANE_ACTOR,  0},               // F(s, a, z)·z, F(s, a_π, z)·z
  {aw_actor_loss,         AW,        LANE_ACTOR,  0},               // L_actor
  {td3_actor_loss,        TD3,       LANE_ACTOR,  0},
  {NULL,                  0,         LANE_UPDATE, ACTOR},           // F stays as it is until here
  {pi_backward,           0,         LANE_ACTOR,  0},
  {update_pi,             0,         LANE_ACTOR,  0},               // π

  {fb_loss,               FB,        LANE_MAIN,   TARGET},          // L_FB and its gradient by F
  {psi_loss,              LAP,       LANE_MAIN,   TARGET},
  {NULL,                  0,         LANE_TARGET, MAIN | B},
  {fb_features_grad,      FB,        LANE_TARGET, 0},               // its gradient by B
  {b_backward,            0,         LANE_TARGET, 0},
  {mbar_backward,         MBAR,      LANE_TARGET, 0},
  {update_b,              0,         LANE_TARGET, 0},               // B, B⁻
  {update_mbar,           MBAR,      LANE_TARGET, 0},

  {f_backward_trunk,      0,         LANE_MAIN,   0},
  {update_f_trunk,        0,         LANE_UPDATE, MAIN | MAIN_SIDE},
  {f_backward_branches,   0,         LANE_MAIN,   0},
  {update_f_branches,     0,         LANE_UPDATE, MAIN},            // F, F⁻, beside the next step
  {NULL,                  0,         LANE_MAIN,   TARGET | ACTOR},  // which needs π and B
};
// clang-format on

static void run_lines(bfm_agent *a, const Line *lines, size_t count) {
  Ops *ops = a->ops;
  int kind = kind_of(a);
  for (const Line *line = lines; line < lines + count; line++) {
    if ((kind & line->kind) != line->kind) continue;
    for (int other = LANE_MAIN; other <= LANE_UPDATE; other++) {
      if (!(line->after & 1 << other)) continue;
      ops->lane(ops, other);
      ops->fork(ops, line->lane);
    }
    ops->lane(ops, line->lane);
    if (line->compute) line->compute(a);
  }
  ops->lane(ops, LANE_MAIN);
}

void agent_sample(bfm_agent *a) { run_lines(a, sample, sizeof sample / sizeof *sample); }
void agent_learn(bfm_agent *a) { run_lines(a, learn, sizeof learn / sizeof *learn); }
