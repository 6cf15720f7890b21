// bfm bench sim: control steps per second of bfm's environments, with observations and the rewards of
// one task, beside a bare mjBatch that only steps. Both start from the same states, take the same
// actions, and alternate in short turns, so that other load on the machine slows down both.

#include <stdio.h>
#include <stdlib.h>

#include <mujoco/mjbatch.h>

#include "cli/bench.h"
#include "core/units.h"
#include "core/rng.h"
#include "envs/domain.h"

enum { ENVS = 128, TURN = 10, TURNS_MAX = 10000, ACTIONS = 16 };

static const struct {
  const char *domain, *task;
} rows[] = {{"walker", "walk"},     {"humanoid", "walk"},  {"quadruped", "walk"},
            {"cheetah", "run"},     {"fish", "swim"},      {"finger", "spin"},
            {"acrobot", "swingup"}, {"dmc_hopper", "hop"}, {"ant", "walk"},
            {"hand", "pinch_fore"}};

typedef struct {
  const World *world;
  bfm_env *env;
  mjBatch *bare;
  bfm_env_sizes sizes;
  double *actions, *controls;  // [ACTIONS, ENVS, act_dim], used cyclically: bfm's, mjBatch's
  double *obs, *rewards;
} Pair;

static void pair_free(Pair *c) {
  bfm_env_free(c->env);
  if (c->bare) mjb_deleteBatch(c->bare);
  world_release(c->world);
  free(c->actions);
  free(c->controls);
  free(c->obs);
  free(c->rewards);
}

// the controls that an environment sets for its actions
static void set_controls(Pair *c, size_t count) {
  const mjModel *m = c->world->model;
  for (size_t i = 0; i < count; i++) {
    const double *range = m->actuator_ctrlrange + 2 * (i % (size_t)c->sizes.act_dim);
    double share = (c->actions[i] + 1) / 2;
    c->controls[i] =
        c->world->domain->scaled ? range[0] + share * (range[1] - range[0]) : c->actions[i];
  }
}

static int pair_new(Pair *c, const char *name) {
  const Domain *domain;
  TRY(domain_find(&domain, name));
  TRY(world_acquire(&c->world, domain));
  TRY(bfm_env_new(&c->env, name, ENVS, 0, 0));
  bfm_env_get_sizes(c->env, &c->sizes);

  size_t count = (size_t)ACTIONS * ENVS * c->sizes.act_dim;
  c->bare = mjb_makeBatch(c->world->model, ENVS, NULL, NULL, 0);
  c->actions = malloc(count * sizeof *c->actions);
  c->controls = malloc(count * sizeof *c->controls);
  c->obs = malloc((size_t)ENVS * c->sizes.obs_dim * sizeof *c->obs);
  c->rewards = malloc(ENVS * sizeof *c->rewards);
  if (!c->bare || !c->actions || !c->controls || !c->obs || !c->rewards) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %d environments", ENVS);
  }
  for (size_t i = 0; i < count; i++)
    c->actions[i] = 2 * random_uniform(0, STREAM_EXPLORE, 0, i) - 1;
  set_controls(c, count);
  return BFM_OK;
}

// reset both to the same initial states
static int restart(Pair *c) {
  TRY(bfm_env_reset(c->env, NULL));
  mjb_reset(c->bare, NULL, ENVS, NULL, mjSTAGE_NONE);

  const bfm_env_sizes *s = &c->sizes;
  double *state = malloc((size_t)ENVS * (s->nq + s->nv + s->na) * sizeof *state);
  if (!state) return bfm_fail(BFM_NO_MEMORY, "out of memory for states");
  double *parts[] = {state, state + ENVS * s->nq, state + ENVS * (s->nq + s->nv)};
  static const int components[] = {mjSTATE_QPOS, mjSTATE_QVEL, mjSTATE_ACT};
  bfm_env_state(c->env, parts[0], parts[1], parts[2]);
  for (int k = 0; k < 3; k++) {
    int size;
    double *row = mjb_stateComponent(c->bare, components[k], &size);
    for (int i = 0; i < ENVS; i++) {
      mju_copy(row + (size_t)i * mjb_nstate(c->bare), parts[k] + (size_t)i * size, size);
    }
  }
  free(state);
  return BFM_OK;
}

static size_t actions_at(const Pair *c, int step) {
  return (size_t)(step % ACTIONS) * ENVS * (size_t)c->sizes.act_dim;
}

static int step_env(Pair *c, const char *task, int step) {
  TRY(bfm_env_step(c->env, c->actions + actions_at(c, step)));
  bfm_env_obs(c->env, c->obs);
  return bfm_env_reward(c->env, task, c->rewards);
}

static void step_bare(Pair *c, int step) {
  int nu;
  const double *actions = c->controls + actions_at(c, step);
  double *control = mjb_stateComponent(c->bare, mjSTATE_CTRL, &nu);
  for (int i = 0; i < ENVS; i++) {
    mju_copy(control + (size_t)i * mjb_nstate(c->bare), actions + (size_t)i * nu, nu);
  }
  mjb_step(c->bare, NULL, ENVS, c->world->domain->substeps, mjSTAGE_NONE);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Measure both rates, as medians over turns, which a few disturbed turns do not change. rate[0] is the
// environments', rate[1] the bare mjBatch's.
static int measure(Pair *c, const char *task, double seconds, double rate[2]) {
  static double took[2][TURNS_MAX];
  double stop = seconds_now() + seconds;
  int turns = 0;
  for (int turn = 0; turns < TURNS_MAX && (turns < 3 || seconds_now() < stop); turn++) {
    if (turn % 20 == 0) TRY(restart(c));
    for (int bare = 0; bare < 2; bare++) {
      double start = seconds_now();
      for (int k = 0; k < TURN; k++) {
        if (bare) {
          step_bare(c, turn * TURN + k);
        } else {
          TRY(step_env(c, task, turn * TURN + k));
        }
      }
      took[bare][turns] = seconds_now() - start;
    }
    turns += turn > 0;  // the first turn warms up and does not count
  }
  for (int bare = 0; bare < 2; bare++) {
    qsort(took[bare], turns, sizeof **took, by_size);
    rate[bare] = TURN * ENVS / took[bare][turns / 2];
  }
  return BFM_OK;
}

int bench_sim(double seconds, int json) {
  if (!json) printf("%-10s %14s %14s %8s\n", "domain", "bfm", "bare mjBatch", "share");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    Pair c = {0};
    double rate[2] = {0, 0};
    int status = pair_new(&c, rows[i].domain);
    if (!status) status = measure(&c, rows[i].task, seconds, rate);
    pair_free(&c);
    if (status) return status;
    if (json) {
      printf(
          "{\"bench\": \"sim\", \"domain\": \"%s\", \"envs\": %d, \"steps_per_second\": %.1f, "
          "\"bare\": %.1f, \"share\": %.4f}\n",
          rows[i].domain, ENVS, rate[0], rate[1], rate[0] / rate[1]);
    } else {
      printf("%-10s %10.0f /s %12.0f /s %7.1f%%\n", rows[i].domain, rate[0], rate[1],
             100 * rate[0] / rate[1]);
    }
    fflush(stdout);
  }
  return BFM_OK;
}
