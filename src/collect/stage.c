// Where learners are evaluated. They see the stage's K environments as the first of their E.

#include "collect/stage.h"

#include <stdlib.h>
#include <string.h>

#define STAGE_SEED 0x5EED

struct Stage {
  bfm_env *env;
  int agents, K;
  double *obs, *actions, *rewards;  // [T, K, ·]
  uint8_t *ended, *over;            // [T, K]
  double *seen, *acted;             // [T, E, ·]
};

int stage_new(Stage **out, const Crew *crew, int64_t episodes) {
  Stage *s = *out = calloc(1, sizeof *s);
  if (!s) return bfm_fail(BFM_NO_MEMORY, "no memory for evaluations");
  size_t n = (size_t)crew->sizes.count, o = crew->sizes.obs_dim, a = crew->sizes.act_dim;
  s->agents = crew->agents;
  s->K = (int)(episodes < crew->envs ? episodes : crew->envs);
  size_t rows = (size_t)s->agents * s->K;
  s->obs = calloc(rows * o, sizeof *s->obs);
  s->actions = calloc(rows * a, sizeof *s->actions);
  s->rewards = calloc(rows, sizeof *s->rewards);
  s->ended = calloc(rows, sizeof *s->ended);
  s->over = calloc(rows, sizeof *s->over);
  s->seen = calloc(n * o, sizeof *s->seen);
  s->acted = calloc(n * a, sizeof *s->acted);
  if (!s->obs || !s->actions || !s->rewards || !s->ended || !s->over || !s->seen || !s->acted) {
    return bfm_fail(BFM_NO_MEMORY, "no memory for evaluations");
  }
  return bfm_env_new(&s->env, crew->env_name, (int)rows, STAGE_SEED, (int)crew->options->threads);
}

void stage_free(Stage *s) {
  if (!s) return;
  bfm_env_free(s->env);
  free(s->obs);
  free(s->actions);
  free(s->rewards);
  free(s->ended);
  free(s->over);
  free(s->seen);
  free(s->acted);
  free(s);
}

static int act(Stage *s, Crew *crew, int64_t at) {
  int64_t K = s->K, E = crew->envs, o = crew->sizes.obs_dim, a = crew->sizes.act_dim;
  bfm_env_obs(s->env, s->obs);
  for (int t = 0; t < s->agents; t++) {
    memcpy(s->seen + t * E * o, s->obs + t * K * o, K * o * sizeof *s->seen);
  }
  TRY(crew_act(crew, s->seen, 0, at, s->acted));
  for (int t = 0; t < s->agents; t++) {
    memcpy(s->actions + t * K * a, s->acted + t * E * a, K * a * sizeof *s->acted);
  }
  return BFM_OK;
}

int stage_evaluate(Stage *s, Crew *crew, int64_t at, const volatile sig_atomic_t *stop,
                   double *returns) {
  int rows = s->agents * s->K;
  double sums[CREW_MAX] = {0};
  bfm_env_seed(s->env, STAGE_SEED);
  TRY(bfm_env_reset(s->env, NULL));
  memset(s->over, 0, rows * sizeof *s->over);
  for (int left = rows; left;) {
    if (stop && *stop) return BFM_OK;
    TRY(act(s, crew, at));
    TRY(crew_simulate(crew, s->env, s->actions, s->rewards));
    bfm_env_end_reasons(s->env, s->ended);
    for (int i = 0; i < rows; i++) {
      if (s->over[i]) continue;
      sums[i / s->K] += s->rewards[i];
      s->over[i] = s->ended[i] != 0;
      left -= s->over[i];
    }
  }
  for (int t = 0; t < s->agents; t++) returns[t] = sums[t] / s->K;
  return BFM_OK;
}
