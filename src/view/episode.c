// Recording: a rollout of one environment whose states are copied after every control step.

#include "view/episode.h"

#include <stdlib.h>

static int observe(void *context, const Rollout *rollout) {
  Episode *e = context;
  if (!(*rollout->ended & BFM_END_DIVERGED)) {
    bfm_env_state(rollout->env, e->qpos + e->count * e->sizes.nq, NULL, NULL);
    e->rewards[e->count++] = *rollout->rewards;
  }
  if (!e->each || !e->each(e->context, rollout->step, e->steps)) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED, "stopped at step %ld of %ld", (long)rollout->step,
                  (long)e->steps);
}

int episode_new(Episode *e, const Actor *actor) {
  bfm_evaluation plan = {.tasks = &e->score, .task_count = e->score != NULL, .z = e->z,
                         .episodes = 1, .seed = e->seed, .threads = 1};
  TRY(rollout_new(&e->rollout, actor, &plan));
  bfm_env_get_sizes(e->rollout.env, &e->sizes);
  if (!e->steps) e->steps = e->sizes.episode_steps;
  e->qpos = calloc(e->steps + 1, e->sizes.nq * sizeof *e->qpos);
  e->rewards = calloc(e->steps + 1, sizeof *e->rewards);
  if (e->qpos && e->rewards) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld steps", (long)e->steps);
}

int episode_record(Episode *e) {
  TRY(observe(e, &e->rollout));
  return rollout_run(&e->rollout, 1, e->steps, observe, e);
}

void episode_free(Episode *e) {
  rollout_free(&e->rollout);
  free(e->qpos);
  free(e->rewards);
}
