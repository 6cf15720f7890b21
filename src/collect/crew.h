// Who acts while data is collected: T agents, each in E environments of its own. Random ones,
// learners trained side by side from what they do, or policies from files.

#ifndef BFM_COLLECT_CREW_H
#define BFM_COLLECT_CREW_H

#include "collect/collect.h"
#include "collect/episodes.h"

#define CREW_MAX 16  // agents

typedef struct {
  const char *name;
  int levels;         // of D4RL that its agents are trained to; 0: none
  double updates;     // of the critics a step of an environment, unless told
  int learners;       // who acts learns …
  int policies;       // … or is read from files; else actions are random
  int every_task;     // an agent for each task of the datasets; else one
  ExplorerAlgo algo;  // of learners
} CrewKind;

extern const CrewKind crew_kinds[];
#define CREW_NAMES "random|rnd|mood|td3|policy|d4rl-medium|d4rl-medium-replay|d4rl-medium-expert"

typedef struct {
  const CrewKind *kind;
  const char *env_name;
  const CollectOptions *options;
  int agents, envs;                          // T, E
  char tasks[CREW_MAX][OPTION_TEXT_SIZE];    // whose rewards they get; empty: none
  char sources[CREW_MAX][OPTION_TEXT_SIZE];  // what they are called
  int32_t task_numbers[CREW_MAX];            // among the domain's tasks, -1: none or an expression

  bfm_env_sizes sizes;
  bfm_explorer *learner;             // all of them
  bfm_explorer *policies[CREW_MAX];  // or one each
  int64_t slots;                     // control steps that the learners were told of
  double due;                        // updates, the last of them begun
  double *low, *high;                // [act] of random actions
  double busy;                       // seconds that simulating took
  float *obs, *act, *rows;           // [T, E, ·]
} Crew;

// who belongs to it, and with how many environments; those may be adjusted unless they were given
int crew_choose(Crew *crew, const char *env_name, CollectOptions *options, int envs_given);

// state: the learners' file to go on with, or NULL
int crew_open(Crew *crew, const bfm_env *env, const char *state);
void crew_close(Crew *crew);

// policies: their files; those of D4RL's levels lie beside the dataset
int crew_read_policies(Crew *crew, const char *path);

// actions [T·E, act] for observations [T·E, obs] of control step `at`
int crew_act(Crew *crew, const double *obs, int explore, int64_t at, double *actions);

// the rewards of environments of the crew, each of its agent's task; without tasks they stay
int crew_rewards(const Crew *crew, bfm_env *env, double *rewards);

// one control step of such a world, and its rewards
int crew_simulate(Crew *crew, bfm_env *env, const double *actions, double *rewards);

// learners: queue the updates that a control step is worth; on a GPU this returns at once
int crew_learn(Crew *crew, int64_t at);

// learners: what the control step led to; diverged environments keep the row before
int crew_add(Crew *crew, const Moment *moment);

// learners: fill their ring with what the file has
int crew_remember(Crew *crew, const char *path);

// learners: an agent's policy beside the dataset: data.h5 → data.name.safetensors
int crew_save_policy(Crew *crew, int agent, const char *path, const char *name);

// learners: the state and policies beside the dataset
int crew_save(Crew *crew, const char *path);

#endif
