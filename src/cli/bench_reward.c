// bfm bench reward: the time to compute the rewards of 100,000 stored states on all cores. The
// expression is compiled each time, as when a user types a new reward.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "core/units.h"
#include "core/rng.h"
#include "envs/bulk.h"
#include "envs/domain.h"
#include "envs/tasks.h"

enum { STATES = 100000 };

static const struct {
  const char *domain, *task;
} rows[] = {{"walker", "run"}, {"humanoid", "run"}, {"quadruped", "run"}, {"cheetah", "run"}};

// random states near the model's initial one: the cost of a reward does not depend on the state
static double *states_new(const mjModel *model) {
  int64_t size = model->nq + model->nv + model->na;
  double *states = malloc((size_t)(STATES * size) * sizeof *states);
  if (!states) return NULL;
  for (int64_t i = 0; i < STATES * size; i++)
    states[i] = random_uniform(0, STREAM_EXPLORE, 0, i) - 0.5;
  for (int64_t i = 0; i < STATES * model->nq; i++) states[i] += model->qpos0[i % model->nq];
  return states;
}

static int measure(const World *world, const char *task, double seconds, Threads *threads,
                   double *best) {
  const mjModel *model = world->model;
  double *states = states_new(model), *rewards = malloc(STATES * sizeof *rewards);
  int status =
      states && rewards ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %d states", STATES);
  if (!status) {
    const double *qvel = states + STATES * model->nq, *act = qvel + STATES * model->nv;
    const char *expression = task_find(world->domain->name, task)->expression;
    double start = seconds_now();
    *best = INFINITY;
    do {
      double turn = seconds_now();
      status = rewards_bulk(model, world->domain->aliases, expression, STATES, states, qvel, act,
                            threads, rewards);
      double took = seconds_now() - turn;
      if (took < *best) *best = took;
    } while (!status && seconds_now() - start < seconds);
  }
  free(states);
  free(rewards);
  return status;
}

int bench_reward(double seconds, int json) {
  Threads *threads;
  TRY(threads_new(&threads, 0));
  if (!json) printf("%-10s %-8s %18s %14s\n", "domain", "task", "100,000 states", "states/s");
  int status = BFM_OK;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !status; i++) {
    const Domain *domain;
    const World *world = NULL;
    double best = 0;
    status = domain_find(&domain, rows[i].domain);
    if (!status) status = world_acquire(&world, domain);
    if (!status) status = measure(world, rows[i].task, seconds, threads, &best);
    world_release(world);
    if (status) break;
    if (json) {
      printf(
          "{\"bench\": \"reward\", \"domain\": \"%s\", \"task\": \"%s\", \"states\": %d, "
          "\"seconds\": %.4f}\n",
          rows[i].domain, rows[i].task, STATES, best);
    } else {
      printf("%-10s %-8s %16.3f s %14.0f\n", rows[i].domain, rows[i].task, best, STATES / best);
    }
    fflush(stdout);
  }
  threads_free(threads);
  return status;
}
