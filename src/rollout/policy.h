// A policy of one task that bfm collect has trained, read from its file to act in evaluations and
// films. It does its task whatever is measured.

#ifndef BFM_ROLLOUT_POLICY_H
#define BFM_ROLLOUT_POLICY_H

#include "core/options.h"
#include "envs/domain.h"
#include "rollout/evaluate.h"

typedef struct {
  const char *path;
  char env[64];
  char task[OPTION_TEXT_SIZE];  // empty: it was trained without one
  bfm_explorer *explorer;
  const World *world;
} Policy;

// what the file says of itself; *found: it is a policy, and no other kind of file
int policy_find(Policy *policy, const char *path, int *found);

// read what was found, to act on so many rows at once; options: those of bfm_explorer_load
int policy_load(Policy *policy, int rows, const char *options, Actor *actor);

void policy_free(Policy *policy);

#endif
