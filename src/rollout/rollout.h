// Rollouts: the one loop in which an actor acts in environments. All episodes of a rollout are
// simulated side by side; each control step asks the actor for one batch of actions per replica.
// A rollout can also be stepped by hand: between two steps its z may change, and new episodes may
// begin. It uses nothing but its actor, so another agent may train in another thread.

#ifndef BFM_ROLLOUT_ROLLOUT_H
#define BFM_ROLLOUT_ROLLOUT_H

#include "rollout/actor.h"

typedef struct {
  Actor actor;
  bfm_env *env;
  const char *const *tasks;  // their rewards are computed
  int task_count, groups;    // groups of rows: one per task, or a single one without tasks
  int64_t episodes, rows;    // of a replica's group; of all: replicas × groups × episodes
  uint64_t seed;             // of the actor's random draws
  int64_t step;              // steps done

  // [replicas, groups, episodes, ·], in the actor's order
  float *obs, *act;  // the present observations; the last actions
  float *z;          // may be changed between steps

  // [groups, replicas, episodes], in the environments' order
  double *rewards;  // of the present states; without tasks they are 0
  double *returns;  // sums of rewards. Steps that diverge, or that follow an episode's end, earn 0
  uint8_t *ended;   // bfm_env_end bits of the last step
  uint8_t *past;    // the episode had ended before the last step; time limits do not count

  double *wide;  // observations or actions on their way, in the environments' order
  void *memory;  // holds all arrays
} Rollout;

// Of the plan, a rollout uses tasks, task_count (0: no rewards), z, episodes, seed and threads; the
// tasks must outlive it. Its env is freshly reset. Free the rollout after an error, too.
int rollout_new(Rollout *rollout, const Actor *actor, const bfm_evaluation *plan);
void rollout_free(Rollout *rollout);

// begin the episodes in the present states of env, once the caller has reset or set them
int rollout_begin(Rollout *rollout);

// one control step: act, then simulate
int rollout_step(Rollout *rollout);

// the row in the environments' order at which the episodes of a replica and group begin
int64_t rollout_row(const Rollout *rollout, int replica, int group);

// whether the last step's reward was added to the row's return
int rollout_earned(const Rollout *rollout, int64_t row);

// called after each step; a result other than BFM_OK ends the loop, which returns it
typedef int RolloutObserver(void *context, const Rollout *rollout);

// Step each of `count` rollouts so many times, or until all episodes have ended. Two or more take
// turns: one is simulated, in a thread, while the actor acts on the next.
int rollout_run(Rollout *rollouts, int count, int64_t steps, RolloutObserver *observer,
                void *context);

#endif
