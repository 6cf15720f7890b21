// The loop. Rows are simulated as groups × replicas × episodes, because an environment computes the
// rewards of a task for a contiguous group, and acted on as replicas × groups × episodes, one batch
// a replica. On a GPU, two rollouts hide the time of the simulation behind that of the actor.

#include "rollout/rollout.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/status.h"

#define ROWS_MAX (1 << 20)

// ---------------------------------- life ---------------------------------------------------------

static void layout(Rollout *r, Arena *arena) {
  int64_t n = r->rows, o = r->actor.obs_dim, a = r->actor.act_dim;
  r->obs = floats(arena, n * o);
  r->act = floats(arena, n * a);
  r->z = floats(arena, n * r->actor.d);
  r->rewards = arena_take(arena, n * sizeof *r->rewards);
  r->returns = arena_take(arena, n * sizeof *r->returns);
  r->ended = arena_take(arena, n);
  r->past = arena_take(arena, n);
  r->wide = arena_take(arena, n * (o > a ? o : a) * sizeof *r->wide);
}

int rollout_new(Rollout *r, const Actor *actor, const bfm_evaluation *plan) {
  int groups = plan->task_count ? plan->task_count : 1;
  *r = (Rollout){.actor = *actor, .tasks = plan->tasks, .task_count = plan->task_count,
                 .groups = groups, .episodes = plan->episodes, .seed = plan->seed,
                 .rows = actor->replicas * groups * plan->episodes};
  if (r->rows > ROWS_MAX) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%ld episodes side by side are too many, at most %d",
                    (long)r->rows, ROWS_MAX);
  }
  Arena arena = {.base = NULL};
  layout(r, &arena);
  r->memory = arena.base = calloc(1, arena.used);
  if (!r->memory) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld episodes", (long)r->rows);
  arena.used = 0;
  layout(r, &arena);
  int64_t d = actor->d;
  for (int64_t row = 0; row < r->rows && d; row++) {
    memcpy(r->z + row * d, plan->z + row / r->episodes * d, d * sizeof *r->z);
  }
  TRY(bfm_env_new(&r->env, actor->env, (int)r->rows, plan->seed, plan->threads));
  return rollout_begin(r);
}

void rollout_free(Rollout *r) {
  bfm_env_free(r->env);
  free(r->memory);
}

// ---------------------------------- a step -------------------------------------------------------

int64_t rollout_row(const Rollout *r, int replica, int group) {
  return ((int64_t)group * r->actor.replicas + replica) * r->episodes;
}

static int is_past(const Rollout *r, int64_t row) {
  return r->past[row] || (r->ended[row] & ~BFM_END_TIME_LIMIT);
}

int rollout_earned(const Rollout *r, int64_t row) {
  return !r->past[row] && !(r->ended[row] & BFM_END_DIVERGED);
}

// read the observations, in the actor's order, and the rewards of the present states
static int look(Rollout *r) {
  int64_t size = r->episodes * r->actor.obs_dim;
  float *to = r->obs;
  bfm_env_obs(r->env, r->wide);
  for (int replica = 0; replica < r->actor.replicas; replica++) {
    for (int g = 0; g < r->groups; g++) {
      const double *from = r->wide + rollout_row(r, replica, g) * r->actor.obs_dim;
      for (int64_t i = 0; i < size; i++) *to++ = (float)from[i];
    }
  }
  if (!r->task_count) return BFM_OK;
  return bfm_env_group_rewards(r->env, r->tasks, r->task_count, r->rewards);
}

int rollout_begin(Rollout *r) {
  r->step = 0;
  memset(r->returns, 0, r->rows * sizeof *r->returns);
  memset(r->ended, 0, r->rows);
  memset(r->past, 0, r->rows);
  return look(r);
}

static int act(Rollout *r) {
  const Actor *actor = &r->actor;
  int64_t rows = r->groups * r->episodes, size = r->episodes * actor->act_dim;
  const float *from = r->act;
  for (int replica = 0; replica < actor->replicas; replica++) {
    int64_t first = replica * rows;
    TRY(actor->act(actor->actor, replica, rows, r->obs + first * actor->obs_dim,
                   actor->d ? r->z + first * actor->d : NULL, r->seed, (uint64_t)r->step,
                   r->act + first * actor->act_dim));
  }
  for (int replica = 0; replica < actor->replicas; replica++) {
    for (int g = 0; g < r->groups; g++) {
      double *to = r->wide + rollout_row(r, replica, g) * actor->act_dim;
      for (int64_t i = 0; i < size; i++) to[i] = *from++;
    }
  }
  return BFM_OK;
}

static int simulate(Rollout *r) {
  for (int64_t row = 0; row < r->rows; row++) r->past[row] = (uint8_t)is_past(r, row);
  TRY(bfm_env_step(r->env, r->wide));
  bfm_env_end_reasons(r->env, r->ended);
  TRY(look(r));
  for (int64_t row = 0; row < r->rows; row++) {
    if (rollout_earned(r, row)) r->returns[row] += r->rewards[row];
  }
  r->step++;
  return BFM_OK;
}

int rollout_step(Rollout *r) {
  TRY(act(r));
  return simulate(r);
}

// ---------------------------------- the loop -----------------------------------------------------

typedef struct {
  Rollout *rollout;
  int status;
  char error[512];
} Simulation;

static void *simulate_thread(void *context) {
  Simulation *s = context;
  s->status = simulate(s->rollout);
  if (s->status) snprintf(s->error, sizeof s->error, "%s", bfm_error());
  return NULL;
}

// simulate one rollout while the actor acts on the other
static int simulate_and_act(Rollout *simulated, Rollout *acted) {
  Simulation s = {.rollout = simulated};
  pthread_t thread;
  if (pthread_create(&thread, NULL, simulate_thread, &s)) {
    return bfm_fail(BFM_UNAVAILABLE, "cannot start a thread to simulate in");
  }
  int status = act(acted);
  pthread_join(thread, NULL);
  return s.status ? bfm_fail(s.status, "%s", s.error) : status;
}

static int all_past(const Rollout *rollouts, int count) {
  for (int i = 0; i < count; i++) {
    for (int64_t row = 0; row < rollouts[i].rows; row++) {
      if (!is_past(&rollouts[i], row)) return 0;
    }
  }
  return 1;
}

int rollout_run(Rollout *rollouts, int count, int64_t steps, RolloutObserver *observer,
                void *context) {
  for (int64_t turn = 0; turn < count * steps; turn++) {
    Rollout *r = &rollouts[turn % count], *next = &rollouts[(turn + 1) % count];
    if (!turn || count == 1) TRY(act(r));
    TRY(count > 1 && turn + 1 < count * steps ? simulate_and_act(r, next) : simulate(r));
    TRY(observer(context, r));
    if (all_past(rollouts, count)) break;
  }
  return BFM_OK;
}
