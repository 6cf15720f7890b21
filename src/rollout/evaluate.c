// Evaluation: draws the initial states, runs one rollout or two, and orders their returns. The bias
// is a sum that grows along an episode, so its observer adds to the value of the step before.

#include "rollout/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "core/sized.h"
#include "prompt/prompt.h"
#include "rollout/rollout.h"

#define DEFAULT_EPISODES 100  // of a task

typedef struct {
  const bfm_evaluation *plan;
  int64_t episodes, steps;
  Rollout halves[2];
  int count;         // of halves
  int64_t first[3];  // the first episode of each half; after the last: episodes
  float *predicted;  // [task_count, episodes] of a replica of a half
  double *bias;      // NULL: not wanted
} Evaluation;

// ---------------------------------- initial states -----------------------------------------------

// every group of a half begins in the states of the episodes `first` onwards
static int begin(Rollout *half, bfm_env *drawn, int64_t first) {
  bfm_env_sizes sizes = {.size = sizeof sizes};
  bfm_env_get_sizes(drawn, &sizes);
  const int64_t columns[3] = {sizes.nq, sizes.nv, sizes.na};
  int64_t room = half->rows > sizes.count ? half->rows : sizes.count;
  double *part[3];
  int status = BFM_OK;
  for (int p = 0; p < 3; p++) {
    part[p] = malloc((size_t)(room * columns[p] + 1) * sizeof **part);
    if (!part[p]) status = bfm_fail(BFM_NO_MEMORY, "out of memory for %ld states", (long)room);
  }
  if (!status) bfm_env_state(drawn, part[0], part[1], part[2]);
  for (int p = 0; p < 3 && !status; p++) {
    int64_t size = half->episodes * columns[p];
    memmove(part[p], part[p] + first * columns[p], (size_t)size * sizeof **part);
    for (int64_t at = size; at < half->rows * columns[p]; at += size) {
      memcpy(part[p] + at, part[p], (size_t)size * sizeof **part);
    }
  }
  if (!status) status = bfm_env_set_state(half->env, part[0], part[1], part[2]);
  for (int p = 0; p < 3; p++) free(part[p]);
  return status ? status : rollout_begin(half);
}

// ---------------------------------- observing ----------------------------------------------------

static int add_bias(Evaluation *e, const Rollout *h, int64_t first) {
  const Actor *actor = &h->actor;
  int64_t n = h->episodes, rows = h->groups * n;  // of a replica
  for (int r = 0; r < actor->replicas; r++) {
    TRY(actor->predict(actor->actor, r, rows, h->obs + r * rows * actor->obs_dim,
                       h->z + r * rows * actor->d, e->predicted));
    for (int64_t i = 0; i < rows; i++) {
      int64_t t = i / n, row = rollout_row(h, r, (int)t) + i % n;
      int64_t episode = (r * h->groups + t) * e->episodes + first + i % n;
      double *at = e->bias + episode * e->steps + h->step - 1;
      *at = h->step > 1 ? at[-1] : 0;
      if (rollout_earned(h, row)) *at += h->rewards[row] - e->predicted[i];
    }
  }
  return BFM_OK;
}

static int observe(void *context, const Rollout *half) {
  Evaluation *e = context;
  int64_t h = half - e->halves;
  if (e->bias) TRY(add_bias(e, half, e->first[h]));
  if (h + 1 < e->count || !e->plan->each) return BFM_OK;
  if (!e->plan->each(e->plan->context, half->step, e->steps)) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED, "stopped after %ld of %ld steps of the episodes",
                  (long)half->step, (long)e->steps);
}

// ---------------------------------- all episodes -------------------------------------------------

static void take_results(const Evaluation *e, const Rollout *h, int64_t first, double *returns) {
  for (int r = 0; r < h->actor.replicas; r++) {
    for (int t = 0; t < h->groups; t++) {
      int64_t to = (r * h->groups + t) * e->episodes + first;
      memcpy(returns + to, h->returns + rollout_row(h, r, t), h->episodes * sizeof *returns);
      // the bias stays what it was when the last episode ended
      for (int64_t i = to; i < to + h->episodes && e->bias; i++) {
        double *bias = e->bias + i * e->steps;
        for (int64_t step = h->step; step < e->steps; step++) bias[step] = bias[step - 1];
      }
    }
  }
}

// drawn: the initial states of all episodes, which depend on the seed only
static int run(Evaluation *e, const Actor *actor, bfm_env *drawn) {
  bfm_evaluation part = *e->plan;
  for (int h = 0; h < e->count; h++) {
    part.episodes = e->first[h + 1] - e->first[h];
    TRY(rollout_new(&e->halves[h], actor, &part));
    e->halves[h].seed = e->plan->seed * e->count + h;  // halves draw different actions
    TRY(begin(&e->halves[h], drawn, e->first[h]));
  }
  return rollout_run(e->halves, e->count, e->steps, observe, e);
}

static int check_plan(const bfm_evaluation *plan) {
  if (plan->task_count < 1 || !plan->tasks) {
    return bfm_fail(BFM_BAD_ARGUMENT, "an evaluation needs at least one task");
  }
  if (plan->episodes < 0 || plan->episodes > 100000) {
    return bfm_fail(BFM_BAD_ARGUMENT, "episodes must be 1 to 100000, not %ld",
                    (long)plan->episodes);
  }
  if (plan->steps < 0) {
    return bfm_fail(BFM_BAD_ARGUMENT, "steps is %ld, but must be at least 0", (long)plan->steps);
  }
  return BFM_OK;
}

int evaluate(const Actor *actor, const bfm_evaluation *plan, double *returns, double *bias) {
  TRY(check_plan(plan));
  int64_t n = plan->episodes ? plan->episodes : DEFAULT_EPISODES;
  Evaluation e = {.plan = plan, .episodes = n, .count = 1, .first = {0, n}, .bias = bias};
  if (actor->overlap && n > 1) {
    e.count = 2;
    e.first[1] = (n + 1) / 2;
    e.first[2] = n;
  }
  bfm_env *drawn;
  bfm_env_sizes sizes = {.size = sizeof sizes};
  TRY(bfm_env_new(&drawn, actor->env, (int)n, plan->seed, plan->threads));
  bfm_env_get_sizes(drawn, &sizes);
  e.steps = plan->steps ? plan->steps : sizes.episode_steps;
  int status = BFM_OK;
  if (!status && bias) {
    e.predicted = malloc((size_t)(plan->task_count * n) * sizeof *e.predicted);
    if (!e.predicted) status = bfm_fail(BFM_NO_MEMORY, "out of memory for %ld episodes", (long)n);
  }
  if (!status) status = run(&e, actor, drawn);
  for (int h = 0; h < e.count; h++) {
    if (!status) take_results(&e, &e.halves[h], e.first[h], returns);
    rollout_free(&e.halves[h]);
  }
  free(e.predicted);
  bfm_env_free(drawn);
  return status;
}

// ---------------------------------- agents, random actions ---------------------------------------

// z [R, tasks, d] of the tasks; their rewards are computed once for all replicas
static int prompt_tasks(bfm_agent *agent, const bfm_evaluation *plan, float *z) {
  int64_t n = bfm_agent_prompt_count(agent), d = bfm_agent_d(agent);
  float *rewards = malloc((size_t)(n + 1) * sizeof *rewards);
  int status = rewards ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %ld rewards", (long)n);
  for (int t = 0; t < plan->task_count && !status; t++) {
    status = prompt_rewards(agent, plan->tasks[t], rewards);
    for (int r = 0; r < agent->R && !status; r++) {
      status = bfm_agent_prompt_reward(agent, r, n, agent->prompt.obs, rewards, plan->softmax,
                                       z + (r * plan->task_count + t) * d);
    }
    if (status && plan->task_count > 1) bfm_fail_prefix(status, "task \"%s\": ", plan->tasks[t]);
  }
  free(rewards);
  return status;
}

int evaluate_bias(bfm_agent *agent, const bfm_evaluation *given, double *returns, double *bias) {
  TRY(check_plan(given));
  StateSizes sizes;
  TRY(prompt_state_sizes(agent, &sizes));
  bfm_evaluation plan = *given;
  float *z = NULL;
  int status = BFM_OK;
  if (!plan.z) {
    z = malloc((size_t)(agent->R * plan.task_count * agent->d) * sizeof *z);
    status = z ? prompt_tasks(agent, &plan, z)
               : bfm_fail(BFM_NO_MEMORY, "out of memory for %d prompts", plan.task_count);
    plan.z = z;
  }
  AgentActor actor = {.agent = agent, .es = plan.es};
  if (!status && bias) {
    int64_t rows = plan.task_count * (plan.episodes ? plan.episodes : DEFAULT_EPISODES);
    actor.b = malloc((size_t)(rows * agent->d) * sizeof *actor.b);
    if (!actor.b)
      status = bfm_fail(BFM_NO_MEMORY, "out of memory for B of %ld episodes", (long)rows);
  }
  Actor who = agent_actor(&actor);
  if (!status) status = evaluate(&who, &plan, returns, bias);
  free(z);
  free(actor.b);
  return status;
}

bfm_status bfm_agent_evaluate(bfm_agent *agent, const bfm_evaluation *plan, double *returns) {
  NEED("agent, evaluation, returns", agent, plan, returns);
  bfm_evaluation own;
  TRY(sized_read(&own, sizeof own, plan, SIZE_TO(bfm_evaluation, context), "bfm_evaluation"));
  SHARED(agent);
  return evaluate_bias(agent, &own, returns, NULL);
}

int evaluate_random(const char *env, const bfm_evaluation *plan, double *returns) {
  bfm_env *one;
  bfm_env_sizes sizes = {.size = sizeof sizes};
  TRY(bfm_env_new(&one, env, 1, 0, 1));
  bfm_env_get_sizes(one, &sizes);
  bfm_env_free(one);
  Actor actor = random_actor(env, &sizes);
  return evaluate(&actor, plan, returns, NULL);
}

void mean_std(const double *values, int64_t count, double *mean, double *std) {
  double sum = 0, square = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  *mean = sum / (double)count;
  for (int64_t i = 0; i < count; i++) square += (values[i] - *mean) * (values[i] - *mean);
  *std = count > 1 ? sqrt(square / (double)(count - 1)) : 0;
}
