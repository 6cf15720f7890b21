// The rewards of a dataset for a task. D4RL's tasks are rewards of steps, which the file has. All other
// rewards are functions of the state. The data has the state of each observation, so the reward of a
// transition is that of the row after it; the last row of an episode, whose next state is not in the
// data, gets the reward of its own state.

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "envs/bulk.h"
#include "envs/tasks.h"
#include "train/training.h"

static int stored_rewards(const Training *t, const char *task, float *rewards) {
  const Dataset *data = &t->data;
  int any = 0;
  for (int64_t i = 0; data->rewards && i < data->count; i++) any |= data->rewards[i] != 0;
  if (!any) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the task %s of %s needs rewards in the data, but %s", task,
                    t->env, data->rewards ? "they are all 0" : "there are none");
  }
  memcpy(rewards, data->rewards, data->count * sizeof *rewards);
  return BFM_OK;
}

// ---------------------------------- states -------------------------------------------------------

typedef struct {
  const double *part[3];  // qpos, qvel, act
  double *made;           // the same, taken from the table `physics`
} States;

static int split_physics(const Training *t, const int64_t columns[3], States *states) {
  const Dataset *data = &t->data;
  if (columns[0] + columns[1] + columns[2] != data->physics_dim) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "physics in the data has %" PRId64 " numbers, but a state of %s has %" PRId64,
                    data->physics_dim, t->env, columns[0] + columns[1] + columns[2]);
  }
  double *to = states->made = malloc((size_t)(data->count * data->physics_dim) * sizeof *to);
  if (!to) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " states", data->count);
  for (int64_t p = 0, first = 0; p < 3; first += columns[p++]) {
    states->part[p] = to;
    for (int64_t i = 0; i < data->count; i++, to += columns[p]) {
      memcpy(to, data->physics + i * data->physics_dim + first, columns[p] * sizeof *to);
    }
  }
  return BFM_OK;
}

static int find_states(const Training *t, const mjModel *model, States *states) {
  const Dataset *data = &t->data;
  const int64_t columns[3] = {model->nq, model->nv, model->na};
  *states = (States){{data->qpos, data->qvel, data->na ? data->activation : NULL}, NULL};
  if (data->physics) return split_physics(t, columns, states);
  if (!data->nq) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "rewards are computed from states, but the data, or a part of it, has no "
                    "infos/qpos and infos/qvel");
  }
  if (data->nq == columns[0] && data->nv == columns[1] && (!data->na || data->na == columns[2])) {
    return BFM_OK;
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "qpos, qvel and act of the data have %" PRId64 ", %" PRId64 " and %" PRId64
                  " numbers, but those of %s have %" PRId64 ", %" PRId64 " and %" PRId64,
                  data->nq, data->nv, data->na, t->env, columns[0], columns[1], columns[2]);
}

// ---------------------------------- rewards of states --------------------------------------------

static int values_of(const Training *t, const World *world, const char *expression,
                     double *values) {
  States states;
  Threads *threads = NULL;
  int status = find_states(t, world->model, &states);
  if (!status) status = threads_new(&threads, 0);
  if (!status) {
    status = rewards_bulk(world->model, world->domain->aliases, expression, t->data.count,
                          states.part[0], states.part[1], states.part[2], threads, values);
  }
  threads_free(threads);
  free(states.made);
  return status;
}

static int computed_rewards(const Training *t, const Domain *domain, const char *text,
                            const char *expression, float *rewards) {
  const Dataset *data = &t->data;
  const World *world;
  double *values = malloc((size_t)data->count * sizeof *values);
  if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rewards", data->count);
  int status = world_acquire(&world, domain);
  if (!status) {
    status = values_of(t, world, expression, values);
    if (expression == text) status = task_suggest(world, text, status);
    world_release(world);
  }
  for (int64_t i = 0; i < data->count && !status; i++) {
    rewards[i] = (float)values[data->ends[i] ? i : i + 1];
    if (!isfinite(rewards[i])) {
      status = bfm_fail(BFM_BAD_ARGUMENT, "the reward of row %" PRId64 " is %g", i, rewards[i]);
    }
  }
  free(values);
  return status;
}

int training_rewards(const Training *t, const char *text, float *rewards, int *stored) {
  const Domain *domain;
  if (!*t->env) return bfm_fail(BFM_BAD_ARGUMENT, "the data does not say its domain: give --env");
  TRY(domain_find(&domain, t->env));
  const Task *task = task_find(t->env, text);
  *stored = task && task_needs_step(domain, task);
  if (*stored) return stored_rewards(t, text, rewards);
  return computed_rewards(t, domain, text, task ? task->expression : text, rewards);
}
