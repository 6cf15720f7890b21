// Explorers: the agents that make data, T side by side as the replicas of one job. td3.c is the
// actor-critic that both kinds are; rnd.c puts a bonus for the unseen in the place of its reward.
// explorer.c has the rest: networks, the ring of transitions, acting. The functions to call are
// bfm_explorer_* of bfm.h; a loop calls act, update, (simulates while the GPU updates,) add.

#ifndef BFM_AGENTS_EXPLORER_H
#define BFM_AGENTS_EXPLORER_H

#include "bfm.h"
#include "core/arena.h"
#include "core/options.h"
#include "core/rng.h"
#include "nets/net.h"
#include "ops/ops.h"

typedef enum { EXPLORER_TD3, EXPLORER_RND } ExplorerAlgo;

typedef struct {
  int algo, precision;
  int64_t hidden, batch, nstep, critics, delay, replay, random_steps, rnd_dim, seed, threads;
  double gamma, lr, tau, sigma, target_sigma, noise_clip;
  char device[OPTION_TEXT_SIZE];
} ExplorerOptions;

extern const Option explorer_options[];

// bfm_explorer_new with options that have been read; those that are 0 for "as algo says" are filled in
int explorer_new(bfm_explorer **explorer, int64_t obs_dim, int64_t act_dim, int tasks, int envs,
                 const ExplorerOptions *options);
const ExplorerOptions *explorer_options_of(const bfm_explorer *explorer);

#endif
