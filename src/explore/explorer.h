// Learners of one task each, with T tasks as the replicas of one job. Explorers collect data: both
// kinds are the actor-critic of td3.c; rnd.c replaces its reward by a bonus for new states. Offline
// agents learn from a dataset alone: td3bc is td3.c with another actor's loss; bc, iql and xql are in
// offline.c. explorer.c has the networks, the transitions and acting; explorer_files.c the files. The
// interface is bfm_explorer_* of bfm.h. A loop that collects calls act, update and add, and simulates
// between update and add, while the GPU works.

#ifndef BFM_EXPLORE_EXPLORER_H
#define BFM_EXPLORE_EXPLORER_H

#include "core/lock.h"
#include "bfm.h"
#include "core/number.h"
#include "core/options.h"
#include "core/rng.h"
#include "nets/device.h"
#include "nets/params.h"

typedef enum {
  EXPLORER_TD3,
  EXPLORER_RND,
  EXPLORER_BC,
  EXPLORER_TD3BC,
  EXPLORER_IQL,
  EXPLORER_XQL
} ExplorerAlgo;
typedef enum { CHOICE_AUTO, CHOICE_OFF, CHOICE_ON } ExplorerChoice;

typedef struct {
  int algo, precision, obs_norm, policy_norm;  // the last two ExplorerChoice
  int64_t hidden, batch, nstep, critics, delay, replay, random_steps, rnd_dim, seed, seeds, threads;
  int64_t anneal;
  double gamma, lr, tau, sigma, target_sigma, noise_clip;
  double alpha, expectile, inverse_temperature, weight_clip, loss_temperature, exp_clip;
  char device[OPTION_TEXT_SIZE];
} ExplorerOptions;

extern const Option explorer_options[];

// whether the learners of this algorithm read an option
int explorer_takes(int algo, const char *option);
// give the options that are left to the algorithm its values
void explorer_complete(ExplorerOptions *options);
// whether the algorithm learns from a dataset alone
static inline int explorer_is_offline(int algo) { return algo >= EXPLORER_BC; }

// bfm_explorer_new with parsed options; those that depend on algo are filled in.
// start: set initial parameters; else they are zero until they are read from a file
int explorer_new(bfm_explorer **explorer, int64_t obs_dim, int64_t act_dim, int tasks, int envs,
                 const ExplorerOptions *options, int start);
// bfm_explorer_load, which also accepts a file of an earlier version's domain, to describe it
int explorer_read(bfm_explorer **explorer, const char *path, int envs, const char *options);
const ExplorerOptions *explorer_options_of(const bfm_explorer *explorer);
// bfm_explorer_save_state, with the domain and the tasks in the metadata unless they are NULL
int explorer_save_state(bfm_explorer *explorer, const char *env, const char *tasks,
                        const char *path);

// The data of offline agents. The T tasks of the explorer are policies: `seeds` (an option) for each
// of the tasks of the data, those of a task side by side.
typedef struct {
  int64_t count;
  const float *obs, *act, *next_obs;  // [count, ·]
  const float *discount;              // [count]: 0 where the episode terminated, else 1
  const float *rewards;               // [tasks, count]
} ExplorerData;

// Learn from this data from now on. On a CPU the first three arrays are read in place and must outlive
// the explorer, all others are copied. Also sets the statistics of observations, with obs-norm.
int explorer_set_data(bfm_explorer *explorer, const ExplorerData *data);
int explorer_on_cpu(const bfm_explorer *explorer);
const char *explorer_device(const bfm_explorer *explorer);

// ------------------------------- internals -------------------------------------------------------

// predictor and random are rnd's; V is of iql and xql. Their order determines initial parameters
enum { XNET_Q, XNET_PI, XNET_PREDICTOR, XNET_RANDOM, XNET_V, XNET_COUNT };
// the losses of an algorithm, in this order; the last rows share a number. bc has but one, its actor's
enum { LOSS_CRITIC, LOSS_ACTOR, LOSS_Q, LOSS_RND, LOSS_BONUS, EXPLORER_LOSSES };
enum { LOSS_CLONE = LOSS_RND, LOSS_VALUE = LOSS_RND, LOSS_BC = LOSS_CRITIC };

#define TASKS_MOST 64
#define ENVS_MOST 65536
#define EXPLORER_AHEAD 2  // batches in memory: the current one and the next
#define EXPLORER_CLIP 5   // largest normalized observation of explorers, in standard deviations

// a batch, and what the target networks compute from it
typedef struct {
  float *obs, *act, *reward, *discount, *next_obs, *noise;  // [T, N, ·]
  float *mu_next, *act_next;                                // [T, N, act]
  Tape slow[XNET_PI + 1];  // the tapes of Q⁻(s', a') and π⁻(s')
} ExplorerBatch;

struct bfm_explorer {
  Lock lock;
  ExplorerOptions options;
  Ops *ops;
  int64_t obs_dim, act_dim, row;
  int T, E, M;  // tasks, environments of each, critics of each
  int64_t N;    // batch of each task
  int only_acts;

  Net net[XNET_COUNT];  // with targets: Q and, of td3, rnd and td3bc, pi
  Params params;
  float *input_stats;              // [T, 2, obs]: mean and variance, with obs_norm
  float *obs_stats, *error_stats;  // [T, 2, obs], [T, 2]: mean and variance, of rnd
  float *log_sigma;                // [T, act] of iql and xql, with Adam's moments [2, T, act]
  float *log_sigma_moments;

  // counters on the device, and the same on the host
  int64_t *step_device, *policy_step, *drawn_device, *slots_device;
  int64_t step, slots;  // updates so far (each draws one batch); slots of the ring written so far

  // acting: observations with the step behind them, so that one transfer uploads both
  float *seen, *noise_act, *mu_act, *act;
  int64_t *act_step;
  char *staged;  // the same on the host
  size_t staged_bytes;
  Tape tape_act;
  OpsGraph *act_graph[2];  // without and with noise

  // the ring buffer of transitions
  float *ring;       // [capacity, T, E, row]
  int64_t capacity;  // slots

  ExplorerData data;  // of offline agents, on the device
  void *data_memory;
  int data_tasks;

  // the batches, used in turn, and the buffers of one update
  ExplorerBatch batch[EXPLORER_AHEAD];
  float *mu_pi, *act_pi;          // [T, N, act]
  float *ones;                    // [T, N]
  float *dq, *dq_pi, *da;         // [T, M, N] twice, [T, N, act]
  float *seen_norm, *bonus, *df;  // [T, N, ·], of rnd
  float *dv, *weights;            // [T, N], of iql and xql
  void *dlog_sigma;               // T [T, act]
  Tape tape_v_next;               // of V(s')
  Tape tape[XNET_COUNT], tape_q_pi;
  float *loss;  // [T, loss_count]
  int loss_count;

  void *memory, *work_memory;
  OpsGraph *round_graph;  // `delay` updates
};

// explorer.c
int explorer_ready(bfm_explorer *explorer);  // allocates the buffers of an update at the first call
int explorer_upload_counters(bfm_explorer *explorer);
int explorer_check_task(const bfm_explorer *explorer, int task);

// td3.c: the parts of an update that offline.c uses too. Draws a batch; runs a network's forward pass;
// mu = tanh(x) of the policy's output, and the action that noise makes of it
void explorer_sample(bfm_explorer *explorer, ExplorerBatch *batch);
void explorer_forward(bfm_explorer *explorer, int net, NetParams params, const Tape *tape,
                      const float *obs, const float *act);
void explorer_policy_action(bfm_explorer *explorer, const Tape *tape, float *mu, float *act,
                            const float *noise);
// The target of Q is the minimum of t_members rows of q_target [T, t_members, N].
void explorer_critic_loss(bfm_explorer *explorer, const ExplorerBatch *batch, const float *q_target,
                          int t_members, float huber);

// td3.c: normalizes observations [T, rows, obs] in place, as the networks see them. step: number of
// the batch, if the statistics shall include it, else NULL
void explorer_normalize(bfm_explorer *explorer, float *obs, int64_t rows, const int64_t *step);
// `updates` consecutive updates from step `first` on; only the last may be one of the policy. Each
// has its own batch, which is drawn, or already uploaded if draw is 0.
void explorer_learn(bfm_explorer *explorer, int64_t first, int64_t updates, int draw);
void explorer_draw_noise(bfm_explorer *explorer, ExplorerBatch *batch);
// updates the parameters of a network, and with `slow` also their targets
void explorer_adam(bfm_explorer *explorer, int net, const int64_t *step, int slow);
// offline.c: one update of bc, iql or xql, number `step`
void explorer_learn_offline(bfm_explorer *explorer, int64_t step, int draw);
// rnd.c: the bonus of the batch's states, and then an update of the predictor
void rnd_bonus(bfm_explorer *explorer, const ExplorerBatch *batch);
void rnd_learn(bfm_explorer *explorer);

#endif
