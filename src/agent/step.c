// One training step: the paper's Algorithm 2, in its order, and the loops around it. All losses are
// taken at the same parameters; then all networks are updated. F(s,a,z) and F(s,π(s),z) are one
// pass, so are π(s) and π(s').

#include <math.h>
#include <string.h>

#include "agent/agent.h"
#include "core/sized.h"

// lane i of a step has lane i + SIDE beside it: one input branch beside the other, the gradients of
// the weights beside the chain of gradients through the layers
#define SIDE 4
// F's update, beside the next step's policy: F has most of the parameters
#define UPDATE 7
// the noise of actions, wanted when the policy has spoken; later the actor's
#define NOISE 2

// ------------------------------- sampling --------------------------------------------------------

// N transitions of the data
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

// states for the pool of z, from the data or from the batch
static void draw_pool_states(bfm_agent *a, const float *states, int64_t count, int64_t stride) {
  a->ops->sample_rows(a->ops, &(SampleRows){.out = a->pool_obs, .in = states,
                                            .seeds = a->params.seeds, .step = a->step_device,
                                            .stream = STREAM_Z_STATE, .replicas = a->R,
                                            .rows = a->pool_rows, .cols = a->obs_dim,
                                            .below = count, .in_stride = stride});
}

static void draw_noise(bfm_agent *a, float *out, Stream stream) {
  a->ops->draw_normal(a->ops, &(Draw){.out = out, .seeds = a->params.seeds, .step = a->step_device,
                                      .stream = stream, .replicas = a->R,
                                      .count = a->N * a->act_dim});
}

// ------------------------------- networks --------------------------------------------------------

// rows row0 … of input `which`: [x, y]
static Pack input(bfm_agent *a, int net, const Tape *tape, int which, const float *x,
                  int64_t x_cols, const float *y, int64_t y_cols, int64_t row0) {
  return (Pack){.out = tape->in[which], .ld = tape->ld_in[which], .a = x, .a_cols = x_cols, .b = y,
                .b_cols = y ? y_cols : 0, .groups = a->R, .copies = a->net[net].body, .rows = a->N,
                .row0 = row0, .row_stride = tape->rows};
}

static void pack_inputs(bfm_agent *a, Pack *inputs, int count) {
  for (int i = 1; i < count; i++) inputs[i - 1].next = &inputs[i];
  a->ops->pack(a->ops, inputs);
}

// a_π ~ π(s, z) and a' ~ π(s', z)
static void policy_forward(bfm_agent *a) {
  const Tape *tape = &a->tape[NET_PI];
  pack_inputs(a,
              (Pack[]){input(a, NET_PI, tape, 0, a->obs, a->obs_dim, NULL, 0, 0),
                       input(a, NET_PI, tape, 0, a->next_obs, a->obs_dim, NULL, 0, a->N),
                       input(a, NET_PI, tape, 1, a->obs, a->obs_dim, a->z, a->d, 0),
                       input(a, NET_PI, tape, 1, a->next_obs, a->obs_dim, a->z, a->d, a->N)},
              4);
  net_forward(a->ops, &a->net[NET_PI], a->net[NET_PI].online, tape,
              (Pass){.rows = 2 * a->N, .side = SIDE});
  a->ops->join(a->ops, NOISE);
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

// F⁻(s', a', z)
static void target_forward(bfm_agent *a) {
  const Tape *tape = &a->tape_target[NET_F];
  const float *obs = a->next_obs;
  pack_inputs(a,
              (Pack[]){input(a, NET_F, tape, 0, obs, a->obs_dim, a->act_next, a->act_dim, 0),
                       input(a, NET_F, tape, 1, obs, a->obs_dim, a->z, a->d, 0)},
              2);
  net_forward(a->ops, &a->net[NET_F], a->net[NET_F].slow, tape,
              (Pass){.rows = a->N, .lane = 1, .side = 1 + SIDE});
}

// F(s, a, z) and F(s, a_π, z)
static void forward_forward(bfm_agent *a) {
  const Tape *tape = &a->tape[NET_F];
  pack_inputs(a,
              (Pack[]){input(a, NET_F, tape, 0, a->obs, a->obs_dim, a->act, a->act_dim, 0),
                       input(a, NET_F, tape, 0, a->obs, a->obs_dim, a->act_pi, a->act_dim, a->N),
                       input(a, NET_F, tape, 1, a->obs, a->obs_dim, a->z, a->d, 0)},
              3);
  net_forward(a->ops, &a->net[NET_F], a->net[NET_F].online, tape,
              (Pass){.rows = 2 * a->N, .repeat = 2, .side = SIDE});
}

// their products with z
static void action_values(bfm_agent *a) {
  a->ops->row_dot(a->ops, &(RowDot){.out = a->q, .a = a->tape[NET_F].out, .z = a->z,
                                    .replicas = a->R, .members = a->M, .rows = 2 * a->N,
                                    .row_stride = 2 * a->N, .d = a->d, .z_rows = a->N});
}

// U(s, z)·V(s'), the part of the model that does not depend on the action
static void baseline_forward(bfm_agent *a) {
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

static void baseline_backward(bfm_agent *a) {
  const Pass rows = {.rows = a->N, .lane = 1, .side = 1 + SIDE};
  net_backward(a->ops, &a->net[NET_U], a->net[NET_U].online, &a->tape[NET_U], a->du, rows, 0);
  net_backward(a->ops, &a->net[NET_V], a->net[NET_V].online, &a->tape[NET_V], a->dv, rows, 0);
}

static void b_backward(bfm_agent *a) {
  Ops *ops = a->ops;
  const Tape *tape = &a->tape[NET_B];
  if (a->config.b_norm) {
    ops->block_norm_grad(ops, &(BlockNormGrad){.dx = a->db, .dy = a->db, .x = tape->out,
                                               .rows = a->R * tape->rows, .d = a->d,
                                               .blocks = a->K});
  }
  net_backward(ops, &a->net[NET_B], a->net[NET_B].online, tape, a->db,
               (Pass){.rows = tape->rows, .lane = 1, .side = 1 + SIDE}, 0);
}

// ------------------------------- the step --------------------------------------------------------

// parameters first … end-1 and, where they have any, their targets
static void update(bfm_agent *a, int64_t first, int64_t end) {
  int of_b = first == a->net[NET_B].first;
  double lr = of_b && a->config.b_lr > 0 ? a->config.b_lr : a->config.lr;
  params_update(&a->params, &(ParamsUpdate){.first = first, .end = end, .step = a->step_update,
                                            .lr = lr, .tau = a->config.polyak, .targets = 1});
}

// F's gradients and its update: the trunk's parameters, then the branches'
static void forward_learn(bfm_agent *a) {
  Ops *ops = a->ops;
  const Net *f = &a->net[NET_F];
  const Tape *tape = &a->tape[NET_F];
  const Pass rows = {.rows = a->N, .side = SIDE};
  int64_t trunk = a->net[NET_F].first + f->trunk[0].weight;
  net_backward_trunk(ops, f, a->net[NET_F].online, tape, a->df, rows);
  ops->fork(ops, UPDATE);
  ops->lane(ops, SIDE);
  ops->fork(ops, UPDATE);  // the weights' gradients come from here, the biases' from lane 0
  ops->lane(ops, UPDATE);
  update(a, trunk, a->net[NET_B].first);
  ops->lane(ops, 0);
  net_backward_branches(ops, f, a->net[NET_F].online, tape, rows, 0);
  ops->fork(ops, UPDATE);
  ops->lane(ops, UPDATE);
  update(a, a->net[NET_F].first, trunk);
  ops->lane(ops, 0);
}

// losses, gradients, updates, on the batch that is there. A network is updated as soon as its
// gradients are: no loss looks at it again in this step
static void learn(bfm_agent *a) {
  Ops *ops = a->ops;
  const Pass pi_rows = {.rows = a->N, .lane = 2, .side = 2 + SIDE};

  // after F's last update: the updates' count is this step's, the draws' already the next one's
  ops->fork(ops, UPDATE);
  ops->lane(ops, UPDATE);
  ops->join(ops, NOISE);
  ops->copy(ops, a->step_update, a->step_device, sizeof *a->step_update);
  ops->increment(ops, a->step_device);
  ops->lane(ops, 0);

  // B(s', z), where it needs z, and B⁻(s', z) beside the policy
  ops->fork(ops, 3);
  ops->lane(ops, 3);
  if (a->autoregressive) agent_features(a);
  if (!a->laplacian) agent_target_features(a);
  ops->lane(ops, 0);

  // a' ~ π(s', z), and a_π ~ π(s, z)
  policy_forward(a);

  // F⁻(s', a', z) and the target beside F(s, a, z) and F(s, a_π, z)
  ops->join(ops, UPDATE);
  ops->fork(ops, 1);
  ops->lane(ops, 1);
  target_forward(a);
  if (a->config.mbar) baseline_forward(a);
  ops->join(ops, 3);
  if (!a->laplacian) fb_target(a);
  ops->lane(ops, 3);  // what B learns from itself
  if (a->laplacian) laplacian_loss(a);
  ortho_loss(a);
  ops->lane(ops, 0);
  forward_forward(a);
  if (a->laplacian) action_values(a);

  // actor loss and π's gradient
  ops->fork(ops, 2);
  ops->lane(ops, 2);
  if (!a->laplacian) action_values(a);
  if (a->weighted) aw_actor_loss(a);
  else td3_actor_loss(a);
  ops->fork(ops, UPDATE);  // F stays as it is until here
  net_backward(ops, &a->net[NET_PI], a->net[NET_PI].online, &a->tape[NET_PI], a->dx, pi_rows, 0);
  update(a, a->net[NET_PI].first, a->params.count);
  ops->lane(ops, 0);

  // FB loss (lap: that of successor features)
  ops->join(ops, 1);
  if (a->laplacian) psi_loss(a);
  else fb_loss(a);
  ops->fork(ops, 1);
  ops->lane(ops, 1);
  ops->join(ops, 3);
  if (!a->laplacian) fb_features_grad(a);
  b_backward(a);
  if (a->config.mbar) baseline_backward(a);
  update(a, a->net[NET_B].first, a->net[NET_B].first + a->net[NET_B].count);
  if (a->config.mbar) update(a, a->net[NET_U].first, a->params.target_count);
  ops->lane(ops, 0);

  forward_learn(a);

  // π and B are new before the next step, F perhaps later
  for (int lane = 1; lane <= 2; lane++) ops->join(ops, lane);
}

// ------------------------------- on given transitions --------------------------------------------

static int check_losses(bfm_agent *a, float *out) {
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

bfm_status bfm_agent_update(bfm_agent *a, const bfm_batch *given, float *losses) {
  NEED("agent", a);
  Ops *ops = a->ops;
  bfm_batch own = {0}, *batch = &own;
  if (given) {
    TRY(sized_read(&own, sizeof own, given, SIZE_TO(bfm_batch, noise_pi), "bfm_batch"));
  }
  if (!batch->obs || !batch->act || !batch->next_obs) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a batch needs obs, act and next_obs");
  }
  TRY(agent_ready(a));
  TRY(upload(a, a->obs, batch->obs, a->obs_dim, "obs"));
  TRY(upload(a, a->act, batch->act, a->act_dim, "act"));
  TRY(agent_check_actions(batch->act, a->R, a->N, a->act_dim));
  TRY(upload(a, a->next_obs, batch->next_obs, a->obs_dim, "next_obs"));
  if (batch->discount) TRY(upload(a, a->discount, batch->discount, 1, "discount"));
  else TRY(device_upload_ones(ops, a->discount, a->R * a->N));
  if (batch->noise_next) TRY(upload(a, a->noise_next, batch->noise_next, a->act_dim, "noise_next"));
  else draw_noise(a, a->noise_next, STREAM_NOISE_NEXT);
  if (batch->noise_pi) TRY(upload(a, a->noise_pi, batch->noise_pi, a->act_dim, "noise_pi"));
  else draw_noise(a, a->noise_pi, STREAM_NOISE_PI);

  agent_goals(a);
  if (!a->autoregressive) agent_features(a);
  // also where z is given: the next step may draw from it
  if (a->autoregressive && a->step % a->config.z_pool == 0) {
    draw_pool_states(a, a->next_obs, a->N, a->N);
    agent_refresh_pool(a);
  }
  if (batch->z) {
    TRY(upload(a, a->z, batch->z, a->d, "z"));
    ops->normalize_z(ops, &(NormalizeZ){.z = a->z, .rows = a->R * a->N, .d = a->d});
  } else {
    agent_draw_z(a);
  }
  learn(a);
  a->step++;
  a->stepped = 1;
  return check_losses(a, losses);
}

// ------------------------------- on data ---------------------------------------------------------

static void refresh_body(void *context) {
  bfm_agent *a = context;
  draw_pool_states(a, a->data_next, a->data_count, 0);
  agent_refresh_pool(a);
}

static void step_body(void *context) {
  bfm_agent *a = context;
  Ops *ops = a->ops;

  // noise, and z from the pool, beside the batch
  ops->fork(ops, 1);
  ops->fork(ops, NOISE);
  ops->lane(ops, NOISE);
  draw_noise(a, a->noise_next, STREAM_NOISE_NEXT);
  draw_noise(a, a->noise_pi, STREAM_NOISE_PI);
  ops->lane(ops, 1);
  if (a->autoregressive) agent_draw_z(a);
  ops->lane(ops, 0);
  draw_batch(a);
  agent_goals(a);
  ops->join(ops, 1);

  if (!a->autoregressive) {  // z of B(s')
    agent_features(a);
    agent_draw_z(a);
  }
  learn(a);
}

static void forget_graphs(bfm_agent *a) {
  if (a->step_graph) a->ops->forget(a->ops, a->step_graph);
  if (a->refresh_graph) a->ops->forget(a->ops, a->refresh_graph);
  a->step_graph = a->refresh_graph = NULL;
}

// without its graphs an agent has no data either
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

enum { DATA_OBS, DATA_ACT, DATA_NEXT, DATA_DISCOUNT, DATA_ARRAYS };

static int check_count(int64_t count) {
  if (count >= 2 && count <= INT32_MAX) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "data must have 2 to %d transitions, not %ld", INT32_MAX,
                  (long)count);
}

// let go of the data that was there
static int begin_data(bfm_agent *a) {
  TRY(agent_ready(a));
  forget_graphs(a);
  if (a->data_memory) a->ops->release(a->ops, a->data_memory);
  a->data_memory = NULL;
  a->data_count = 0;
  return BFM_OK;
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
  TRY(begin_data(a));
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
  TRY(begin_data(a));
  return use_data(a, count, arrays);
}

int agent_set_lr(bfm_agent *a, double lr) {
  if (a->config.lr > 0) a->config.b_lr *= lr / a->config.lr;
  a->config.lr = lr;
  forget_graphs(a);
  return a->data_count ? record_graphs(a) : BFM_OK;
}

bfm_status bfm_agent_train(bfm_agent *a, int64_t steps, float *losses) {
  NEED("agent", a);
  if (!a->data_count)
    return bfm_fail(BFM_BAD_ARGUMENT, "no data to train on: bfm_agent_set_data first");
  if (steps < 0) return bfm_fail(BFM_BAD_ARGUMENT, "steps must be 0 or more, not %ld", (long)steps);
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
  return steps > 0 ? check_losses(a, losses) : BFM_OK;
}
