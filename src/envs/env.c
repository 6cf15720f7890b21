// The public interface of environments: a domain's model, its simulations, and the rewards that were
// requested, each compiled once.

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bfm.h"
#include "core/lock.h"
#include "core/sized.h"
#include "core/threads.h"
#include "envs/bulk.h"
#include "envs/quantities.h"
#include "envs/reward_pool.h"
#include "envs/sim.h"
#include "envs/tasks.h"

// One compiled expression. A thread takes a copy from the pool while it evaluates the expression.
typedef struct {
  char *text;
  int of_step;  // whether it is the reward of a step
  RewardPool *pool;
} Compiled;

#define COMPILED_MAX 128
#define GROUPS_MAX 64

// The rewards of one call: the environments form equal groups, and each group has an expression or a
// task of the domain's step_reward.
typedef struct {
  int groups;  // 0: no rewards
  struct {
    Compiled *compiled;
    const Task *task;  // NULL: use `compiled`
  } of[GROUPS_MAX];
} RewardSet;

struct bfm_env {
  Lock lock;
  const World *world;
  Sim *sim;
  int n;
  Compiled compiled[COMPILED_MAX];
  int compiled_count;

  // A caller that requests rewards after one step will probably request them after the next one, so
  // bfm_env_step computes them together with the step.
  RewardSet requested;  // the last request since the last step
  RewardSet computed;   // the request whose rewards of the current states are in `rewards`
  double *rewards;      // [n]
};

// ---------------------------------- creating and freeing -----------------------------------------

bfm_status bfm_env_new(bfm_env **out, const char *name, int count, uint64_t seed, int threads) {
  NEED("env", out);
  *out = NULL;
  const Domain *domain;
  TRY(domain_find(&domain, name));
  bfm_env *env = calloc(1, sizeof *env);
  if (!env) return bfm_fail(BFM_NO_MEMORY, "out of memory for an environment");
  lock_init(&env->lock);
  env->n = count;

  int status = world_acquire(&env->world, domain);
  if (!status) status = sim_new(&env->sim, env->world, count, seed, threads);
  if (!status) status = sim_reset(env->sim, NULL);
  if (!status && !(env->rewards = malloc(count * sizeof *env->rewards))) {
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for %d environments", count);
  }
  if (status) {
    bfm_env_free(env);
    return status;
  }
  *out = env;
  return BFM_OK;
}

static void compiled_free(Compiled *c) {
  reward_pool_free(c->pool);
  free(c->text);
}

void bfm_env_free(bfm_env *env) {
  if (!env) return;
  for (int i = 0; i < env->compiled_count; i++) compiled_free(env->compiled + i);
  sim_free(env->sim);
  world_release(env->world);
  lock_destroy(&env->lock);
  free(env->rewards);
  free(env);
}

void bfm_env_get_sizes(const bfm_env *env, bfm_env_sizes *sizes) {
  const mjModel *model = env->world->model;
  const Domain *domain = env->world->domain;
  bfm_env_sizes own = {
      .count = env->n,
      .obs_dim = domain->obs_dim,
      .act_dim = model->nu,
      .nq = model->nq,
      .nv = model->nv,
      .na = model->na,
      .episode_steps = domain->episode_steps,
      .control_dt = domain->substeps * model->opt.timestep,
  };
  sized_write(sizes, SIZE_TO(bfm_env_sizes, control_dt), &own, sizeof own);
}

void bfm_env_action_range(const bfm_env *env, double *low, double *high) {
  const mjModel *model = env->world->model;
  for (int u = 0; u < model->nu; u++) {
    low[u] = env->world->domain->scaled ? -1 : model->actuator_ctrlrange[2 * u];
    high[u] = env->world->domain->scaled ? 1 : model->actuator_ctrlrange[2 * u + 1];
  }
}

// ---------------------------------- reading rewards ----------------------------------------------

static int compile(bfm_env *env, const char *text, int of_step, Compiled **out) {
  for (int i = 0; i < env->compiled_count; i++) {
    *out = env->compiled + i;
    if ((*out)->of_step == of_step && !strcmp((*out)->text, text)) return BFM_OK;
  }

  const mjModel *model = env->world->model;
  const Domain *domain = env->world->domain;
  Compiled new = {.of_step = of_step};
  double dt = domain->substeps * model->opt.timestep;
  Reward *reward;
  TRY(of_step ? reward_new_step(&reward, model, domain->aliases, dt, text)
              : reward_new(&reward, model, domain->aliases, text));
  TRY(reward_pool_new(&new.pool, reward));
  new.text = strdup(text);
  if (!new.text) {
    compiled_free(&new);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a reward");
  }
  *out = env->compiled + env->compiled_count++;
  **out = new;
  return BFM_OK;
}

static int same(const RewardSet *a, const RewardSet *b) {
  return a->groups == b->groups && !memcmp(a->of, b->of, a->groups * sizeof *a->of);
}

static int parse_tasks(bfm_env *env, const char *const *texts, int groups, RewardSet *set) {
  if (groups < 1 || groups > GROUPS_MAX || env->n % groups) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "cannot split %d environments into %d equal groups (of at most %d)", env->n,
                    groups, GROUPS_MAX);
  }
  if (env->compiled_count + groups > COMPILED_MAX) {  // free all old expressions
    env->requested.groups = env->computed.groups = 0;
    while (env->compiled_count) compiled_free(&env->compiled[--env->compiled_count]);
  }
  const Domain *domain = env->world->domain;
  set->groups = groups;
  for (int g = 0; g < groups; g++) {
    NEED("task", texts[g]);
    const Task *task = task_find(domain->name, texts[g]);
    int of_step = task && task_needs_step(domain, task);
    int by_code = of_step && !task->step;
    set->of[g].compiled = NULL;
    set->of[g].task = by_code ? task : NULL;
    if (by_code) continue;
    const char *text = !task ? texts[g] : of_step ? task->step : task->expression;
    int status = compile(env, text, of_step, &set->of[g].compiled);
    TRY(task ? status : task_suggest(env->world, texts[g], status));
  }
  return BFM_OK;
}

// the latest stage that the expressions need
static int stage_of(const RewardSet *set) {
  int latest = 0;
  for (int g = 0; g < set->groups; g++) {
    const Compiled *compiled = set->of[g].compiled;
    int stage = compiled ? reward_stage(reward_pool_original(compiled->pool)) : 0;
    if (stage > latest) latest = stage;
  }
  return latest;
}

typedef struct {
  bfm_env *env;
  RewardSet set;
  double *out;
  atomic_int failed;
} Request;

static void read_reward(const World *world, mjData *data, int i, const double *qpos,
                        void *context) {
  Request *request = context;
  int group = i / (request->env->n / request->set.groups);
  Compiled *compiled = request->set.of[group].compiled;
  const Task *task = request->set.of[group].task;
  if (task) {
    request->out[i] = world->domain->step_reward(world, data, qpos, task->name);
    return;
  }
  Reward *reward = reward_pool_take(compiled->pool);
  if (!reward) {
    request->failed = 1;
    return;
  }
  if (reward_stage(reward) < REWARD_FORCE) reward_forward(reward, world->model, data);
  request->out[i] = compiled->of_step ? reward_step_value(reward, world->model, data, qpos)
                                      : reward_value(reward, world->model, data);
  reward_pool_give(compiled->pool, reward);
}

// ---------------------------------- simulation ---------------------------------------------------

void bfm_env_seed(bfm_env *env, uint64_t seed) {
  EXCLUSIVE_VOID(env);
  sim_seed(env->sim, seed);
}

bfm_status bfm_env_reset(bfm_env *env, const uint8_t *which) {
  NEED("env", env);
  EXCLUSIVE(env);
  env->computed.groups = 0;
  return sim_reset(env->sim, which);
}

bfm_status bfm_env_step(bfm_env *env, const double *actions) {
  NEED("env, actions", env, actions);
  EXCLUSIVE(env);
  Request request = {.env = env, .set = env->requested, .out = env->rewards};
  int64_t diverged = sim_diverged(env->sim);
  if (stage_of(&request.set) >= REWARD_FORCE) request.set.groups = 0;
  env->requested.groups = env->computed.groups = 0;

  TRY(sim_step(env->sim, actions, request.set.groups ? read_reward : NULL, &request));
  if (!request.failed && diverged == sim_diverged(env->sim)) env->computed = request.set;
  return BFM_OK;
}

void bfm_env_obs(const bfm_env *env, double *obs) {
  SHARED_VOID(env);
  size_t count = (size_t)env->n * env->world->domain->obs_dim;
  memcpy(obs, sim_obs(env->sim), count * sizeof *obs);
}

void bfm_env_end_reasons(const bfm_env *env, uint8_t *ended) {
  SHARED_VOID(env);
  memcpy(ended, sim_ended(env->sim), env->n * sizeof *ended);
}

int64_t bfm_env_diverged(const bfm_env *env) {
  SHARED_VOID(env);
  return sim_diverged(env->sim);
}

bfm_status bfm_env_set_state(bfm_env *env, const double *qpos, const double *qvel,
                             const double *act) {
  NEED("env", env);
  EXCLUSIVE(env);
  env->computed.groups = 0;
  return sim_set_state(env->sim, qpos, qvel, act);
}

void bfm_env_state(bfm_env *env, double *qpos, double *qvel, double *act) {
  EXCLUSIVE_VOID(env);
  sim_state(env->sim, qpos, qvel, act);
}

// ---------------------------------- rewards ------------------------------------------------------

bfm_status bfm_env_group_rewards(bfm_env *env, const char *const *tasks, int groups,
                                 double *rewards) {
  NEED("env, tasks, rewards", env, tasks, rewards);
  EXCLUSIVE(env);
  Request request = {.env = env, .out = rewards};
  TRY(parse_tasks(env, tasks, groups, &request.set));
  env->requested = request.set;
  if (same(&env->computed, &request.set)) {
    memcpy(rewards, env->rewards, env->n * sizeof *rewards);
    return BFM_OK;
  }
  SimNeed need = stage_of(&request.set) < REWARD_FORCE ? SIM_STATE : SIM_FORCES;
  TRY(sim_read(env->sim, need, read_reward, &request));
  return request.failed ? bfm_fail(BFM_NO_MEMORY, "out of memory for copies of a reward") : BFM_OK;
}

bfm_status bfm_env_reward(bfm_env *env, const char *task, double *rewards) {
  return bfm_env_group_rewards(env, &task, 1, rewards);
}

bfm_status bfm_domain_rewards(const char *name, const char *text, int64_t count, const double *qpos,
                              const double *qvel, const double *act, int threads, double *rewards) {
  NEED("task", text);
  if (count) NEED("qpos, rewards", qpos, rewards);
  const Domain *domain;
  const World *world = NULL;
  Threads *pool = NULL;
  TRY(domain_find(&domain, name));
  const Task *task = task_find(domain->name, text);
  if (task && !task->expression) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the task %s of %s rewards steps, not states", text, name);
  }

  int status = world_acquire(&world, domain);
  if (!status) status = threads_new(&pool, threads);
  if (!status) {
    status = rewards_bulk(world->model, domain->aliases, task ? task->expression : text, count,
                          qpos, qvel, act, pool, rewards);
    if (!task) status = task_suggest(world, text, status);
  }
  threads_free(pool);
  world_release(world);
  return status;
}

// ---------------------------------- names --------------------------------------------------------

const char *bfm_domain_name(int index, const char **help) {
  const Domain *domain = domain_at(index);
  if (domain && help) *help = domain->help;
  return domain ? domain->name : NULL;
}

const char *bfm_domain_task(const char *domain, int index, const char **help,
                            const char **expression) {
  const Task *task = task_at(domain, index);
  if (task && help) *help = task->help;
  if (task && expression) *expression = task->expression;
  return task ? task->name : NULL;
}

void bfm_env_names(const bfm_env *env, bfm_env_name_callback *each, void *context) {
  for (const Alias *alias = env->world->domain->aliases; alias && alias->name; alias++) {
    each(context, "alias", alias->name, alias->help);
  }
  quantities_each(env->world->model, each, context);
}
