// The evaluation of learners is a rollout of K episodes for each of T tasks, in which task t is
// acted on by learner t. The learners' networks take [T, E] rows, of which the first K are used.

#include "collect/stage.h"

#include <stdlib.h>

#include "core/units.h"
#include "rollout/rollout.h"

#define STAGE_SEED 0x5EED

typedef struct {
  Crew *crew;
  int64_t K, at;
  int (*each)(void *context);
  void *context;
  double *obs, *actions;  // [T, E, ·]
  double acted;           // when the learners had acted last
  double sums[CREW_MAX];  // of the rewards
} Learners;

static int act(void *context, int replica, int64_t rows, const float *obs, const float *z,
               uint64_t seed, uint64_t step, float *out) {
  Learners *l = context;
  (void)replica, (void)z, (void)seed, (void)step;
  int64_t E = l->crew->envs, o = l->crew->sizes.obs_dim, a = l->crew->sizes.act_dim;
  for (int64_t i = 0; i < rows; i++) {
    double *to = l->obs + (i / l->K * E + i % l->K) * o;
    for (int64_t k = 0; k < o; k++) to[k] = obs[i * o + k];
  }
  TRY(crew_act(l->crew, l->obs, 0, l->at, l->actions));
  for (int64_t i = 0; i < rows; i++) {
    const double *from = l->actions + (i / l->K * E + i % l->K) * a;
    for (int64_t k = 0; k < a; k++) out[i * a + k] = (float)from[k];
  }
  l->acted = seconds_now();
  return BFM_OK;
}

static int observe(void *context, const Rollout *rollout) {
  Learners *l = context;
  l->crew->busy += seconds_now() - l->acted;
  TRY(crew_check_rewards(l->crew, rollout->rewards, (int)rollout->rows));
  for (int64_t i = 0; i < rollout->rows; i++) {
    if (!rollout->past[i]) l->sums[i / l->K] += rollout->rewards[i];
  }
  return l->each(l->context) ? bfm_fail(BFM_INTERRUPTED, "stopped in an evaluation") : BFM_OK;
}

static int run(Learners *l) {
  const Crew *c = l->crew;
  const char *tasks[CREW_MAX];
  for (int t = 0; t < c->agents; t++) tasks[t] = c->tasks[t];
  Actor actor = {.act = act, .actor = l, .env = c->env_name, .obs_dim = c->sizes.obs_dim,
                 .act_dim = c->sizes.act_dim, .replicas = 1};
  bfm_evaluation plan = {.tasks = tasks, .task_count = c->agents, .episodes = l->K,
                         .seed = STAGE_SEED, .threads = (int)c->options->threads};
  Rollout rollout;
  int status = rollout_new(&rollout, &actor, &plan);
  if (!status) status = rollout_run(&rollout, 1, c->sizes.episode_steps, observe, l);
  rollout_free(&rollout);
  return status;
}

int stage_evaluate(Crew *crew, int64_t episodes, int64_t at, int (*each)(void *context),
                   void *context, double *returns) {
  size_t n = (size_t)crew->sizes.count;
  Learners l = {.crew = crew, .K = episodes < crew->envs ? episodes : crew->envs, .at = at,
                .each = each, .context = context};
  l.obs = calloc(n * crew->sizes.obs_dim, sizeof *l.obs);
  l.actions = calloc(n * crew->sizes.act_dim, sizeof *l.actions);
  int status =
      l.obs && l.actions ? run(&l) : bfm_fail(BFM_NO_MEMORY, "out of memory for evaluations");
  for (int t = 0; t < crew->agents && !status; t++) returns[t] = l.sums[t] / (double)l.K;
  free(l.obs);
  free(l.actions);
  return status == BFM_INTERRUPTED ? BFM_OK : status;
}
