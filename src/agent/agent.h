// Inside an agent: its networks, their parameters and the buffers of a training step.
// The paper's Algorithm 2 is in step.c; the networks' passes in passes.c; the losses in fb.c,
// laplacian.c and actor.c; z in z.c.

#ifndef BFM_AGENT_AGENT_H
#define BFM_AGENT_AGENT_H

#include "agent/config.h"
#include "bfm.h"
#include "core/lock.h"
#include "core/number.h"
#include "core/rng.h"
#include "envs/signals.h"
#include "nets/device.h"
#include "nets/params.h"

enum { NET_F, NET_B, NET_U, NET_V, NET_PI, NET_COUNT };  // lap: psi and phi for F and B

#define MAX_LOSSES 4

// The prompt states: states of the training data that a model carries. src/prompt computes rewards
// and goals on them; for the agent they are arrays to save and load.
typedef struct {
  char env[64];  // the domain's name, empty when unknown
  int64_t count, nq, nv, na;
  float *obs;                 // [count, obs]
  double *qpos, *qvel, *act;  // [count, ·]; act may be NULL
} PromptStates;

// the workspaces that no call is using; see workspace.h
typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t given;
  struct Workspace *idle;
  int count;  // of all, idle or not
  int first;  // whether there is the one with the agent's threads
} Workspaces;

struct bfm_agent {
  Lock lock;  // shared by calls that act and prompt, exclusive to calls that change the agent
  Config config;
  Ops *ops;
  int64_t obs_dim, act_dim, goal_dim;  // goal_dim: what B sees
  int R, M;
  int64_t N, d, K;
  int64_t I, J;  // pairs (j, k) of the FB loss are taken within I groups of J transitions
  int autoregressive, weighted, laplacian;

  Net net[NET_COUNT];  // without targets: pi, and phi of lap
  Params params;

  // counters on the device; the host's count of steps
  int64_t *step_device,
      *step_update;  // of the draws; of the updates, which may lag one step behind
  int64_t step;
  int64_t before;         // steps of the model that this agent was loaded from
  int stepped;            // the buffers below hold the results of a step
  int32_t *goal_columns;  // on the device, NULL without a goal space

  // the transitions to sample from
  int64_t data_count;
  const float *data_obs, *data_act, *data_next, *data_discount;
  void *data_memory;  // NULL when they are the caller's

  // a batch
  float *obs, *act, *next_obs, *discount;  // [R, N, ·]
  float *noise_next, *noise_pi;            // [R, N, act]
  float *goal, *goal_now;                  // [R, N, goal]: phi(s'), and phi(s) for lap
  float *z, *z_b;                          // [R, N, d]: for F and pi, for B
  float *white;                            // [R, N, d]: whitened phi(s'), with z-whiten
  double *gram;                            // [R, d, d]
  float *pool, *pool_obs, *pool_goal, *pool_z, *pool_zb;  // [R, P, ·]
  int64_t pool_rows;                                      // P

  // activations; F has rows (s, a), then (s, a_π); π has rows s, then s'
  Tape tape[NET_COUNT], tape_target[NET_COUNT], tape_pool;
  float *mu, *act_pi, *act_next;     // [R, 2N, act], [R, N, act]
  float *b, *b_target;               // [R, N, d] (lap: phi [R, 2N, d])
  float *f_mean;                     // [R, N, d]
  float *m, *t, *c;                  // the matrices F·B, target, B·B
  float *db, *df, *df_pi, *du, *dv;  // gradients of the losses by the networks' outputs
  float *q;                          // [R, M, 2N]: values of the data's actions, then of π's
  float *q_target, *phi_z;           // [R, M, N], [R, N]
  float *w, *advantage, *dx;         // [R, N], [R, N], [R, N, act]
  float *partial;                    // partial sums of the losses
  float *loss;                       // [R, loss_count]
  int loss_count;
  const char *loss_names[MAX_LOSSES];

  void *memory, *parameter_memory;
  OpsGraph *step_graph, *refresh_graph;
  Workspaces workspaces;  // for acting and prompting
  PromptStates prompt;
  Signals signals;  // what its numbers mean; obs_count 0: not known yet, agent_describe
};

// The lanes of a training step, as ops.h has them. Lane i + SIDE is for work that a network's pass
// on lane i does beside it.
enum {
  LANE_MAIN,    // π's forward pass, F's forward and backward pass
  LANE_TARGET,  // z of the pool, F⁻ and the target; later B's backward pass
  LANE_ACTOR,   // noise; later π's loss and backward pass
  LANE_B,       // B, B⁻ and what B learns from itself
  SIDE,
  LANE_UPDATE = 7,  // F's update, which runs on beside the next step's π: F has most parameters
};

// step.c
void agent_sample(bfm_agent *agent);  // a batch of the data, its noise and z
void agent_learn(bfm_agent *agent);   // losses, gradients and updates on the batch that is there
void agent_draw_noise_next(bfm_agent *agent);
void agent_draw_noise_pi(bfm_agent *agent);

// passes.c: the networks' forward and backward passes of a step
void pi_forward(bfm_agent *agent);
void pi_actions(bfm_agent *agent);
void pi_backward(bfm_agent *agent);
void f_forward(bfm_agent *agent);
void f_target_forward(bfm_agent *agent);
void f_values(bfm_agent *agent);
void f_backward_trunk(bfm_agent *agent);
void f_backward_branches(bfm_agent *agent);
void b_backward(bfm_agent *agent);
void mbar_forward(bfm_agent *agent);
void mbar_backward(bfm_agent *agent);

// update.c: download the losses, and BFM_DIVERGED when one is not finite; out may be NULL
int agent_check_losses(bfm_agent *agent, float *out);

// data.c
int agent_set_lr(bfm_agent *agent, double lr);  // from the next step on; B's own rate in proportion
// as bfm_agent_set_data, for arrays known to be finite. A CPU reads them in place, so they must stay
// there as long as the agent trains
bfm_status agent_lend_data(bfm_agent *agent, int64_t count, const float *obs, const float *act,
                           const float *next_obs, const float *discount);
void agent_free_data(bfm_agent *agent);

// z.c: z in training; B's inputs and outputs
void agent_draw_pool_states(bfm_agent *agent, const float *states, int64_t count, int64_t stride);
void agent_refresh_pool(bfm_agent *agent);     // from pool_obs
void agent_draw_z(bfm_agent *agent);           // needs B(s') unless auto-regressive
void agent_goals(bfm_agent *agent);            // the columns of the batch's states that B sees
void agent_features(bfm_agent *agent);         // B(s', z); lap: φ(s) and φ(s')
void agent_target_features(bfm_agent *agent);  // B⁻(s', z), after B(s', z)
// the columns of any states that B sees, where there is a goal space
void agent_select_goal(const bfm_agent *agent, Ops *ops, float *out, const float *obs,
                       int64_t rows);
// B from x, the output of its network: x itself, or x with each block scaled to its norm
void agent_b_output(const bfm_agent *agent, Ops *ops, float *out, const float *x, int64_t rows);

// fb.c, laplacian.c, actor.c: losses, and their gradients by the outputs of the networks
void fb_target(bfm_agent *agent);
void fb_products(bfm_agent *agent);  // m = F·B
void fb_loss(bfm_agent *agent);
void fb_features_grad(bfm_agent *agent);
void ortho_loss(bfm_agent *agent);
void laplacian_loss(bfm_agent *agent);
void psi_loss(bfm_agent *agent);
void aw_actor_loss(bfm_agent *agent);
void td3_actor_loss(bfm_agent *agent);

// agent.c
int agent_ready(bfm_agent *agent);  // makes the buffers of a training step at the first call
// start: initialize the parameters; else they are zero, to be read from a file
int agent_new(bfm_agent **out, int64_t obs_dim, int64_t act_dim, const Config *config, int start);
int agent_check_replica(const bfm_agent *agent, int replica);
int agent_on_cpu(const bfm_agent *agent);
int agent_check_obs(const float *obs, int64_t rows, int64_t obs_dim);  // refuses absurd values
// refuses actions that are not within ±1, as dataset_check_actions does
int agent_check_actions(const float *act, int replicas, int64_t rows, int64_t act_dim);

// encode.c
int agent_check_z(const float *z, int64_t d);  // refuses a z that cannot be normalized

void prompt_states_free(PromptStates *states);

// files.c
// bfm_agent_load, which also accepts a model of an earlier version's domain, to describe it
int agent_read(bfm_agent **out, const char *path, const char *options);
// Completes agent->signals as far as possible: names from the domain's robot, mean and deviation of
// the observations from the prompt states. What cannot be known stays empty, without an error.
int agent_describe(bfm_agent *agent);

#endif
