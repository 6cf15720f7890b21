// Who acts while data is collected: T agents, each in E environments of its own. They act at random,
// are learners trained side by side on their own transitions, or are policies read from files.

#ifndef BFM_COLLECT_CREW_H
#define BFM_COLLECT_CREW_H

#include "collect/episodes.h"
#include "collect/options.h"

#define CREW_MAX 16  // agents

// a row for each value of --with
typedef struct {
  const char *name;
  int levels;             // levels of D4RL that its agents are trained to; 0: not D4RL's
  double updates;         // default of --updates
  double updates_on_gpu;  // the same on a GPU; 0: as on a CPU
  int learners;           // the agents learn …
  int policies;           // … or are read from files; else their actions are random
  int every_task;         // an agent for each task of the datasets; else one
  ExplorerAlgo algo;      // of learners
} CrewKind;

extern const CrewKind crew_kinds[];

typedef struct {
  const CrewKind *kind;
  const char *env_name;
  CollectOptions *options;
  int agents, envs;                          // T, E
  char tasks[CREW_MAX][OPTION_TEXT_SIZE];    // whose rewards the agents get; empty: none
  char sources[CREW_MAX][OPTION_TEXT_SIZE];  // the agents' names in the file
  int32_t task_numbers[CREW_MAX];            // among the domain's tasks, -1: none or an expression

  bfm_env_sizes sizes;
  bfm_explorer *learner;             // all learners in one
  bfm_explorer *policies[CREW_MAX];  // or one policy for each agent
  int64_t slots;                     // control steps added to the learners' ring
  double due;                        // updates that are owed, with their fraction
  double *low, *high;                // [act] range of random actions
  double busy;                       // seconds spent simulating
  float *obs, *act, *rows;           // [T, E, ·]
} Crew;

// choose the agents and their number of environments; unless envs was given, options->envs is
// rounded down to a multiple of the agents
int crew_choose(Crew *crew, const char *env_name, CollectOptions *options, int envs_given);

// state: the file of the learners to continue, or NULL
int crew_open(Crew *crew, const bfm_env *env, const char *state);
void crew_close(Crew *crew);

// read the policies of --model, where policies act; those of D4RL's levels, which lie beside the
// dataset, are read by the second function, after they were trained
int crew_read_policies(Crew *crew);
int crew_read_levels(Crew *crew, const char *data);

// actions [T·E, act] for observations [T·E, obs] in control step `at`
int crew_act(Crew *crew, const double *obs, int explore, int64_t at, double *actions);

// the rewards of the crew's environments, each by its agent's task; without tasks they stay as
// they are
int crew_rewards(const Crew *crew, bfm_env *env, double *rewards);

// BFM_DIVERGED if a float32 cannot hold one of the rewards of [T, count / T] environments
int crew_check_rewards(const Crew *crew, const double *rewards, int count);

// one control step of the crew's environments, and its rewards
int crew_simulate(Crew *crew, bfm_env *env, const double *actions, double *rewards);

// learners: queue the updates that a control step is worth; on a GPU this returns at once
int crew_learn(Crew *crew, int64_t at);

// learners: add the transitions of a control step; a diverged environment repeats the row before
int crew_add(Crew *crew, const Moment *moment);

// learners: fill their ring with the transitions of the file
int crew_remember(Crew *crew, const char *path);

// learners: save an agent's policy beside the dataset: data.h5 → data.name.safetensors
int crew_save_policy(Crew *crew, int agent, const char *path, const char *name);

// learners: save their state and policies beside the dataset
int crew_save(Crew *crew, const char *path);

#endif
