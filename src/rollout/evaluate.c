// Evaluation. Rows are simulated as tasks × replicas × episodes, so that a task's rewards are those
// of a group, and acted on as replicas × tasks × episodes, a batch a replica. A row that ended by
// termination or by a failed simulation earns nothing more. With a GPU the episodes are cut in two
// halves that take turns: one is simulated while the other is acted on.

#include "rollout/evaluate.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "core/sized.h"
#include "prompt/prompt.h"

#define DEFAULT_EPISODES 100  // of a task

// ---------------------------------- a half -------------------------------------------------------

typedef struct {
  bfm_env *env;
  int64_t first, episodes;  // of each task
  int64_t rows;
  int replicas, task_count;
  int64_t obs_dim;
  const char *const *tasks;
  float *obs, *act, *z;          // [replicas, tasks, episodes, ·]
  double *wide;                  // [tasks, replicas, episodes, ·]: observations, then actions
  double *rewards, *returns;     // [tasks, replicas, episodes], as all below
  uint8_t *live, *over, *ended;  // live: the last step counted
  float *predicted;              // [replicas, tasks, episodes], of the last step
  int status;                    // of the simulation, which may be another thread's
  char error[512];
} Half;

static void half_free(Half *h) {
  bfm_env_free(h->env);
  free(h->wide);
  free(h->obs);
  free(h->act);
  free(h->z);
  free(h->rewards);
  free(h->returns);
  free(h->live);
  free(h->over);
  free(h->ended);
  free(h->predicted);
}

static int half_alloc(Half *h, const Actor *actor) {
  size_t rows = (size_t)h->rows;
  size_t wide = (size_t)(actor->obs_dim > actor->act_dim ? actor->obs_dim : actor->act_dim);
  h->wide = calloc(rows, wide * sizeof *h->wide);
  h->obs = calloc(rows, actor->obs_dim * sizeof *h->obs);
  h->act = calloc(rows, actor->act_dim * sizeof *h->act);
  h->z = calloc(rows, (actor->d + 1) * sizeof *h->z);
  h->rewards = calloc(rows, sizeof *h->rewards);
  h->returns = calloc(rows, sizeof *h->returns);
  h->live = calloc(rows, 1);
  h->over = calloc(rows, 1);
  h->ended = calloc(rows, 1);
  h->predicted = calloc(rows, sizeof *h->predicted);
  if (h->wide && h->obs && h->act && h->z && h->rewards && h->returns && h->live && h->over &&
      h->ended && h->predicted) {
    return BFM_OK;
  }
  return bfm_fail(BFM_NO_MEMORY, "no memory for %ld episodes", (long)h->rows);
}

// count rows of columns values, those of the episodes from `first` on, once for every group
static double *repeat_states(const Half *h, const double *states, int64_t columns) {
  int64_t size = h->episodes * columns, groups = h->rows / h->episodes;
  double *out = malloc((size_t)(groups * size + 1) * sizeof *out);
  for (int64_t g = 0; g < groups && out; g++) {
    memcpy(out + g * size, states + h->first * columns, (size_t)size * sizeof *out);
  }
  return out;
}

// the initial states of all episodes, drawn once: they depend on nothing but the seed
typedef struct {
  bfm_env_sizes sizes;
  double *qpos, *qvel, *act;
} Starts;

static void starts_free(Starts *s) {
  free(s->qpos);
  free(s->qvel);
  free(s->act);
}

static int starts_draw(Starts *s, const char *name, int64_t episodes, uint64_t seed, int threads) {
  bfm_env *env;
  TRY(bfm_env_new(&env, name, (int)episodes, seed, threads));
  bfm_env_get_sizes(env, &s->sizes);
  s->qpos = malloc((size_t)(episodes * s->sizes.nq) * sizeof *s->qpos);
  s->qvel = malloc((size_t)(episodes * s->sizes.nv) * sizeof *s->qvel);
  s->act = malloc((size_t)(episodes * s->sizes.na + 1) * sizeof *s->act);
  int good = s->qpos && s->qvel && s->act;
  if (good) bfm_env_state(env, s->qpos, s->qvel, s->act);
  bfm_env_free(env);
  return good ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "no memory for %ld states", (long)episodes);
}

static int half_begin(Half *h, const Starts *s) {
  double *qpos = repeat_states(h, s->qpos, s->sizes.nq);
  double *qvel = repeat_states(h, s->qvel, s->sizes.nv);
  double *act = repeat_states(h, s->act, s->sizes.na);
  int status = BFM_OK;
  if (!qpos || !qvel || !act) status = bfm_fail(BFM_NO_MEMORY, "no memory for initial states");
  if (!status) status = bfm_env_set_state(h->env, qpos, qvel, act);
  free(qpos);
  free(qvel);
  free(act);
  return status;
}

// where the episodes of replica r and task t begin among the rows that are simulated
static int64_t simulated_row(const Half *h, int r, int t) {
  return ((int64_t)t * h->replicas + r) * h->episodes;
}

// the present observations, as those who act see them
static void half_observe(Half *h) {
  int64_t size = h->episodes * h->obs_dim;
  bfm_env_obs(h->env, h->wide);
  for (int r = 0; r < h->replicas; r++) {
    for (int t = 0; t < h->task_count; t++) {
      const double *from = h->wide + simulated_row(h, r, t) * h->obs_dim;
      float *to = h->obs + (r * h->task_count + t) * size;
      for (int64_t i = 0; i < size; i++) to[i] = (float)from[i];
    }
  }
}

static int half_new(Half *h, const Actor *actor, const bfm_evaluation *plan, const Starts *starts,
                    int64_t first, int64_t end) {
  *h = (Half){.first = first, .episodes = end - first, .replicas = actor->replicas,
              .task_count = plan->task_count, .obs_dim = actor->obs_dim, .tasks = plan->tasks};
  h->rows = h->replicas * h->task_count * h->episodes;
  if (h->rows > 1 << 20) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%ld episodes side by side are too many", (long)h->rows);
  }
  TRY(half_alloc(h, actor));
  for (int64_t row = 0; row < h->rows && actor->d; row++) {
    memcpy(h->z + row * actor->d, plan->z + row / h->episodes * actor->d, actor->d * sizeof *h->z);
  }
  TRY(bfm_env_new(&h->env, actor->env, (int)h->rows, plan->seed, plan->threads));
  TRY(half_begin(h, starts));
  half_observe(h);
  return bfm_env_group_rewards(h->env, h->tasks, h->task_count,
                               h->rewards);  // also checks the tasks
}

// ---------------------------------- a step -------------------------------------------------------

static int half_act(Half *h, const Actor *actor, uint64_t seed, uint64_t step) {
  int64_t o = actor->obs_dim, a = actor->act_dim, d = actor->d, n = h->episodes;
  int64_t rows = h->task_count * n;  // of a replica
  for (int r = 0; r < h->replicas; r++) {
    TRY(actor->act(actor->actor, r, rows, h->obs + r * rows * o, d ? h->z + r * rows * d : NULL,
                   seed, step, h->act + r * rows * a));
  }
  for (int r = 0; r < h->replicas; r++) {
    for (int t = 0; t < h->task_count; t++) {
      const float *from = h->act + (r * rows + t * n) * a;
      double *to = h->wide + simulated_row(h, r, t) * a;
      for (int64_t i = 0; i < n * a; i++) to[i] = from[i];
    }
  }
  return BFM_OK;
}

static int half_simulate(Half *h) {
  TRY(bfm_env_step(h->env, h->wide));
  TRY(bfm_env_group_rewards(h->env, h->tasks, h->task_count, h->rewards));
  bfm_env_end_reasons(h->env, h->ended);
  for (int64_t i = 0; i < h->rows; i++) {
    h->over[i] |= (h->ended[i] & BFM_END_DIVERGED) != 0;
    h->live[i] = !h->over[i];
    if (h->live[i]) h->returns[i] += h->rewards[i];
    h->over[i] |= (h->ended[i] & BFM_END_TERMINATED) != 0;
  }
  half_observe(h);
  return BFM_OK;
}

// the bias after this step of all episodes and steps
static int half_predict(Half *h, const Actor *actor, int64_t episodes, int64_t steps,
                        int64_t step) {
  int64_t n = h->episodes, rows = h->task_count * n;  // of a replica
  for (int r = 0; r < h->replicas; r++) {
    float *predicted = h->predicted + r * rows;
    TRY(actor->predict(actor->actor, r, rows, h->obs + r * rows * h->obs_dim,
                       h->z + r * rows * actor->d, predicted));
    for (int64_t i = 0; i < rows; i++) {
      int64_t t = i / n, row = simulated_row(h, r, (int)t) + i % n;
      int64_t episode = (r * h->task_count + t) * episodes + h->first + i % n;
      double *at = actor->bias + episode * steps + step;
      *at = (step ? at[-1] : 0) + (h->live[row] ? h->rewards[row] - predicted[i] : 0);
    }
  }
  return BFM_OK;
}

static void *simulate_thread(void *context) {
  Half *h = context;
  h->status = half_simulate(h);
  if (h->status) snprintf(h->error, sizeof h->error, "%s", bfm_error());
  return NULL;
}

// simulate one half while the other is acted on
static int step_both(Half *simulated, Half *acted, const Actor *actor, uint64_t seed,
                     uint64_t step) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, simulate_thread, simulated)) {
    return bfm_fail(BFM_UNAVAILABLE, "cannot start a thread to simulate in");
  }
  int status = acted ? half_act(acted, actor, seed, step) : BFM_OK;
  pthread_join(thread, NULL);
  if (simulated->status) return bfm_fail(simulated->status, "%s", simulated->error);
  return status;
}

// ---------------------------------- all steps ----------------------------------------------------

static int is_over(const Half *halves, int count) {
  for (int i = 0; i < count; i++) {
    for (int64_t row = 0; row < halves[i].rows; row++) {
      if (!halves[i].over[row]) return 0;
    }
  }
  return 1;
}

// turn k acts on half k mod count, after or while the half before it is simulated
static int run(Half *halves, int count, const Actor *actor, const bfm_evaluation *plan,
               int64_t episodes, int64_t steps) {
  for (int64_t k = 0; k <= count * steps; k++) {
    Half *acted = k < count * steps ? &halves[k % count] : NULL;
    Half *simulated = k ? &halves[(k - 1) % count] : NULL;
    uint64_t seed = plan->seed * count + (uint64_t)(k % count), step = (uint64_t)(k / count);
    if (simulated && count > 1) {
      TRY(step_both(simulated, acted, actor, seed, step));
    } else {
      if (simulated) TRY(half_simulate(simulated));
      if (acted) TRY(half_act(acted, actor, seed, step));
    }
    if (simulated && actor->bias) {
      TRY(half_predict(simulated, actor, episodes, steps, (k - 1) / count));
    }
    if (k % count || !k) continue;
    if (plan->each && plan->each(plan->context, k / count, steps)) {
      return bfm_fail(BFM_INTERRUPTED, "stopped after %ld of %ld steps of the episodes",
                      (long)(k / count), (long)steps);
    }
    if (!actor->bias && is_over(halves, count)) break;  // a bias has a value at every step
  }
  return BFM_OK;
}

static void collect_returns(const Half *h, int64_t episodes, double *returns) {
  for (int r = 0; r < h->replicas; r++) {
    for (int t = 0; t < h->task_count; t++) {
      memcpy(returns + (r * h->task_count + t) * episodes + h->first,
             h->returns + simulated_row(h, r, t), (size_t)h->episodes * sizeof *returns);
    }
  }
}

static int check_plan(const bfm_evaluation *plan) {
  if (plan->task_count < 1 || !plan->tasks) {
    return bfm_fail(BFM_BAD_ARGUMENT, "an evaluation needs a task");
  }
  if (plan->episodes < 0 || plan->episodes > 100000) {
    return bfm_fail(BFM_BAD_ARGUMENT, "episodes must be 1 to 100000, not %ld",
                    (long)plan->episodes);
  }
  if (plan->steps < 0) {
    return bfm_fail(BFM_BAD_ARGUMENT, "an episode cannot have %ld steps", (long)plan->steps);
  }
  return BFM_OK;
}

int evaluate(const Actor *actor, const bfm_evaluation *plan, double *returns) {
  TRY(check_plan(plan));
  int64_t episodes = plan->episodes ? plan->episodes : DEFAULT_EPISODES;
  int count = actor->overlap && episodes > 1 ? 2 : 1;
  int64_t cut = count == 2 ? (episodes + 1) / 2 : episodes;
  Half halves[2] = {{0}};
  Starts starts = {.qpos = NULL};

  int status = starts_draw(&starts, actor->env, episodes, plan->seed, plan->threads);
  if (!status) status = half_new(&halves[0], actor, plan, &starts, 0, cut);
  if (!status && count == 2) status = half_new(&halves[1], actor, plan, &starts, cut, episodes);
  int64_t steps = plan->steps ? plan->steps : starts.sizes.episode_steps;
  if (!status) status = run(halves, count, actor, plan, episodes, steps);
  for (int i = 0; i < count; i++) {
    if (!status) collect_returns(&halves[i], episodes, returns);
    half_free(&halves[i]);
  }
  starts_free(&starts);
  return status;
}

// ---------------------------------- who acts -----------------------------------------------------

static int agent_act(void *context, int replica, int64_t rows, const float *obs, const float *z,
                     uint64_t seed, uint64_t step, float *act) {
  const AgentActor *a = context;
  return bfm_agent_act(a->agent, replica, rows, obs, z, a->es, seed, step, act);
}

// B(s, z)ᵀz: z as it was prompted, whose norm carries the scale of the reward
static int agent_predict(void *context, int replica, int64_t rows, const float *obs, const float *z,
                         float *rewards) {
  const AgentActor *a = context;
  int64_t d = a->agent->d;
  TRY(bfm_agent_B(a->agent, replica, rows, obs, z, a->b));
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t k = i * d; k < (i + 1) * d; k++) sum += (double)a->b[k] * z[k];
    rewards[i] = (float)sum;
  }
  return BFM_OK;
}

Actor agent_actor(AgentActor *a) {
  return (Actor){.act = agent_act, .actor = a, .env = bfm_agent_env(a->agent),
                 .obs_dim = a->agent->obs_dim, .act_dim = a->agent->act_dim,
                 .replicas = a->agent->R, .d = a->agent->d, .overlap = !agent_on_cpu(a->agent),
                 .predict = agent_predict};
}

// z [R, tasks, d] of the tasks; their rewards are computed once for all replicas
static int prompt_tasks(bfm_agent *agent, const bfm_evaluation *plan, float *z) {
  int64_t n = bfm_agent_prompt_count(agent), d = bfm_agent_d(agent);
  float *rewards = malloc((size_t)(n + 1) * sizeof *rewards);
  int status = rewards ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "no memory for %ld rewards", (long)n);
  for (int t = 0; t < plan->task_count && !status; t++) {
    status = prompt_rewards(agent, plan->tasks[t], rewards);
    for (int r = 0; r < agent->R && !status; r++) {
      status = bfm_agent_prompt_reward(agent, r, n, agent->prompt.obs, rewards, plan->softmax,
                                       z + (r * plan->task_count + t) * d);
    }
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
               : bfm_fail(BFM_NO_MEMORY, "no memory for %d prompts", plan.task_count);
    plan.z = z;
  }
  AgentActor actor = {.agent = agent, .es = plan.es};
  if (!status && bias) {
    int64_t rows = plan.task_count * (plan.episodes ? plan.episodes : DEFAULT_EPISODES);
    actor.b = malloc((size_t)(rows * agent->d) * sizeof *actor.b);
    if (!actor.b) status = bfm_fail(BFM_NO_MEMORY, "no memory for B of %ld episodes", (long)rows);
  }
  Actor who = agent_actor(&actor);
  who.bias = bias;
  if (!status) status = evaluate(&who, &plan, returns);
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

static int random_act(void *context, int replica, int64_t rows, const float *obs, const float *z,
                      uint64_t seed, uint64_t step, float *act) {
  const Actor *who = context;
  (void)replica, (void)obs, (void)z;
  for (int64_t i = 0; i < rows * who->act_dim; i++) {
    act[i] = 2 * random_uniform(seed, STREAM_EXPLORE, step, i) - 1;
  }
  return BFM_OK;
}

int evaluate_random(const char *env, const bfm_evaluation *plan, double *returns) {
  bfm_env *one;
  bfm_env_sizes sizes = {.size = sizeof sizes};
  TRY(bfm_env_new(&one, env, 1, 0, 1));
  bfm_env_get_sizes(one, &sizes);
  bfm_env_free(one);
  Actor who = {.act = random_act, .env = env, .obs_dim = sizes.obs_dim, .act_dim = sizes.act_dim,
               .replicas = 1};
  who.actor = &who;
  return evaluate(&who, plan, returns);
}

void mean_std(const double *values, int64_t count, double *mean, double *std) {
  double sum = 0, square = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  *mean = sum / (double)count;
  for (int64_t i = 0; i < count; i++) square += (values[i] - *mean) * (values[i] - *mean);
  *std = sqrt(square / (double)count);
}
