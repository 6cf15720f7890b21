// Explorers: the agents that make data, T side by side as the replicas of one job. td3.c is the
// actor-critic that both kinds are; rnd.c puts a bonus for the unseen in the place of its reward.
// explorer.c has networks, the ring of transitions and acting, explorer_files.c the files. What to
// call is bfm_explorer_* of bfm.h; a loop calls act, update, add, and simulates between the last
// two while the GPU updates.

#ifndef BFM_EXPLORE_EXPLORER_H
#define BFM_EXPLORE_EXPLORER_H

#include "bfm.h"
#include "core/number.h"
#include "core/options.h"
#include "core/rng.h"
#include "nets/device.h"
#include "nets/params.h"

typedef enum { EXPLORER_TD3, EXPLORER_RND } ExplorerAlgo;
typedef enum { CHOICE_AUTO, CHOICE_OFF, CHOICE_ON } ExplorerChoice;

typedef struct {
  int algo, precision, obs_norm, policy_norm;  // the last two ExplorerChoice
  int64_t hidden, batch, nstep, critics, delay, replay, random_steps, rnd_dim, seed, threads;
  double gamma, lr, tau, sigma, target_sigma, noise_clip;
  char device[OPTION_TEXT_SIZE];
} ExplorerOptions;

extern const Option explorer_options[];

// bfm_explorer_new with options that have been read; those left to algo are filled in.
// start: with initial parameters; else they are zero, to be filled from a file
int explorer_new(bfm_explorer **explorer, int64_t obs_dim, int64_t act_dim, int tasks, int envs,
                 const ExplorerOptions *options, int start);
const ExplorerOptions *explorer_options_of(const bfm_explorer *explorer);
// bfm_explorer_save_state, saying whose it is: domain and tasks, or NULL
int explorer_save_state(bfm_explorer *explorer, const char *env, const char *tasks,
                        const char *path);

// ------------------------------- inside ----------------------------------------------------------

enum { XNET_Q, XNET_PI, XNET_PREDICTOR, XNET_RANDOM, XNET_COUNT };  // the last two are rnd's
enum { LOSS_CRITIC, LOSS_ACTOR, LOSS_Q, LOSS_RND, LOSS_BONUS, EXPLORER_LOSSES };

#define TASKS_MOST 64
#define ENVS_MOST 65536
#define EXPLORER_AHEAD 2  // batches: the one learned from, and the next
#define EXPLORER_CLIP 5   // largest normalized observation, in standard deviations

// a batch, and what the targets make of it
typedef struct {
  float *obs, *act, *reward, *discount, *next_obs, *noise;  // [T, N, ·]
  float *mu_next, *act_next;                                // [T, N, act]
  Tape slow[XNET_PI + 1];                                   // of Q⁻(s', a') and π⁻(s')
} ExplorerBatch;

struct bfm_explorer {
  ExplorerOptions options;
  Ops *ops;
  int64_t obs_dim, act_dim, row;
  int T, E, M;  // tasks, environments of each, critics of each
  int64_t N;    // batch of each task
  int only_acts;

  Net net[XNET_COUNT];  // with targets: Q and pi
  Params params;
  float *input_stats;              // [T, 2, obs]: mean and variance, with obs_norm
  float *obs_stats, *error_stats;  // [T, 2, obs], [T, 2]: mean and variance, of rnd

  // counters on the device; the host's counts
  int64_t *step_device, *policy_step, *drawn_device, *slots_device;
  int64_t step, slots;  // updates, slots of the ring written so far; as many batches are drawn

  // acting: observations and, behind them, the step; one transfer
  float *seen, *noise_act, *mu_act, *act;
  int64_t *act_step;
  char *staged;  // the same on the host
  size_t staged_bytes;
  Tape tape_act;
  OpsGraph *act_graph[2];  // without noise, with

  // the ring of transitions
  float *ring;       // [capacity, T, E, row]
  int64_t capacity;  // slots

  // batches, update after update in turn, and what becomes of one
  ExplorerBatch batch[EXPLORER_AHEAD];
  float *mu_pi, *act_pi;          // [T, N, act]
  float *ones;                    // [T, N]
  float *dq, *dq_pi, *da;         // [T, M, N] twice, [T, N, act]
  float *seen_norm, *bonus, *df;  // [T, N, ·], of rnd
  Tape tape[XNET_COUNT], tape_q_pi;
  float *loss;  // [T, loss_count]
  int loss_count;

  void *memory, *work_memory;
  OpsGraph *round_graph;  // delay updates
};

// explorer.c
int explorer_ready(bfm_explorer *explorer);  // the buffers of an update, made at the first call
int explorer_upload_counters(bfm_explorer *explorer);
int explorer_check_task(const bfm_explorer *explorer, int task);

// td3.c: observations [T, rows, obs] in place, as the networks see them; step: of the batches, for
// those that the statistics take in, or NULL
void explorer_normalize(bfm_explorer *explorer, float *obs, int64_t rows, const int64_t *step);
// `updates` in a row from step `first` on, none but the last with the policy, each on a batch of its
// own, drawn or there already
void explorer_learn(bfm_explorer *explorer, int64_t first, int64_t updates, int draw);
void explorer_draw_noise(bfm_explorer *explorer, ExplorerBatch *batch);
// parameters of a network, and their targets when `slow`
void explorer_adam(bfm_explorer *explorer, int net, const int64_t *step, int slow);
// rnd.c: the bonus of the batch's states, then what it teaches the predictor
void rnd_bonus(bfm_explorer *explorer, const ExplorerBatch *batch);
void rnd_learn(bfm_explorer *explorer);

#endif
