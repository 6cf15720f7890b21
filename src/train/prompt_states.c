// Prompt states: the states of the data that a model carries, at which rewards in words are
// evaluated.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "prompt/prompt.h"
#include "train/training.h"

// a sample of an array: `rows` rows, one from each of so many equal parts; the first bytes of each
static void *sample_part(const Dataset *data, const void *from, size_t row_bytes, int64_t rows,
                         size_t bytes) {
  char *to = malloc((size_t)rows * bytes + 1);
  for (int64_t i = 0; to && bytes && i < rows; i++) {
    size_t row = (size_t)dataset_sample_row(data, rows, i);
    memcpy(to + (size_t)i * bytes, (const char *)from + row * row_bytes, bytes);
  }
  return to;
}

static void *sample(const Dataset *data, const void *from, int64_t rows, size_t row_bytes) {
  return sample_part(data, from, row_bytes, rows, row_bytes);
}

// where the states are: in tables of their own or, side by side, in one table `physics`
typedef struct {
  struct {
    const double *from;
    int64_t row, columns;
  } part[3];  // qpos, qvel, act
} States;

static int find_physics(const Training *t, const Dataset *data, const StateSizes *model,
                        States *states) {
  const int64_t columns[3] = {model->nq, model->nv, model->na}, row = data->physics_dim;
  int64_t at = 0;
  for (int i = 0; i < 3; at += columns[i++]) {
    states->part[i].from = data->physics + at;
    states->part[i].row = row;
    states->part[i].columns = columns[i];
  }
  if (at == row) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "physics in the data has %" PRId64 " numbers, but a state of %s has %" PRId64,
                  row, t->env, at);
}

// missing activations are zeros
static int find_states(const Training *t, const Dataset *data, States *states) {
  StateSizes model;
  TRY(prompt_state_sizes(t->agent, &model));
  if (data->physics) return find_physics(t, data, &model, states);
  *states = (States){{{data->qpos, data->nq, data->nq},
                      {data->qvel, data->nv, data->nv},
                      {data->activation, data->na, data->na}}};
  if (data->nq == model.nq && data->nv == model.nv && (!data->na || data->na == model.na)) {
    return BFM_OK;
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "qpos, qvel and act of the data have %" PRId64 ", %" PRId64 " and %" PRId64
                  " numbers, but those of %s have %d, %d and %d",
                  data->nq, data->nv, data->na, t->env, (int)model.nq, (int)model.nv,
                  (int)model.na);
}

static int64_t prompt_rows(const Training *t, const Dataset *data) {
  return t->settings.prompt_states < data->count ? t->settings.prompt_states : data->count;
}

// states at rest, with the positions that are in the observations
static int give_observed(Training *t, const Dataset *data, const Domain *domain) {
  int64_t rows = prompt_rows(t, data), nq = domain->obs_dim - domain->goal_dim;
  float *obs = sample(data, data->obs, rows, data->obs_dim * sizeof(float));
  double *qpos = malloc((size_t)(rows * nq) * sizeof *qpos);
  for (int64_t i = 0; obs && qpos && i < rows * nq; i++) {
    qpos[i] = obs[i / nq * data->obs_dim + i % nq];
  }
  int status = BFM_OK;
  if (!obs || !qpos) {
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " prompt states", rows);
  }
  if (!status) status = bfm_agent_set_prompt(t->agent, t->env, rows, obs, qpos, NULL, NULL);
  free(obs);
  free(qpos);
  return status;
}

static int give_prompt(Training *t, const Dataset *data) {
  if (!*t->env) return bfm_fail(BFM_BAD_ARGUMENT, "the data does not say its domain: give --env");
  TRY(bfm_agent_set_prompt(t->agent, t->env, 0, NULL, NULL, NULL, NULL));
  const Domain *domain = training_goal_domain(t);
  if (!data->nq && !data->physics) return domain ? give_observed(t, data, domain) : BFM_OK;
  States states;
  TRY(find_states(t, data, &states));
  int64_t rows = prompt_rows(t, data);
  float *obs = sample(data, data->obs, rows, data->obs_dim * sizeof(float));
  double *parts[3];
  int missing = !obs;
  for (int i = 0; i < 3; i++) {
    parts[i] = sample_part(data, states.part[i].from, states.part[i].row * sizeof(double), rows,
                           states.part[i].columns * sizeof(double));
    missing |= !parts[i];
  }
  int status = BFM_OK;
  if (missing)
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " prompt states", rows);
  if (!status) {
    status = bfm_agent_set_prompt(t->agent, t->env, rows, obs, parts[0], parts[1],
                                  states.part[2].columns ? parts[2] : NULL);
  }
  for (int i = 0; i < 3; i++) free(parts[i]);
  free(obs);
  return status;
}

// a reward of the data belongs to the state after the action
static int keep_rewards(Training *t, const Dataset *data) {
  if (!data->rewards) return BFM_OK;
  int64_t rows = prompt_rows(t, data);
  t->sample_obs = sample(data, data->next_obs, rows, data->obs_dim * sizeof(float));
  t->sample_rewards = sample(data, data->rewards, rows, sizeof(float));
  t->sample_rows = rows;
  if (t->sample_obs && t->sample_rewards) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rewards", rows);
}

int training_set_prompt(Training *t) {
  const Dataset *data = &t->data;
  if (!t->settings.prompt_states && t->settings.eval_every) {
    return bfm_fail(BFM_BAD_ARGUMENT, "evaluations need prompt states, but --prompt-states is 0");
  }
  if (!t->settings.prompt_states) return BFM_OK;
  int status = give_prompt(t, data);
  if (status == BFM_NO_MEMORY || (status && (t->settings.eval_every || *t->settings.env))) {
    return status;
  }
  if (!bfm_agent_prompt_count(t->agent)) {
    snprintf(t->prompt_note, sizeof t->prompt_note, "%s",
             status ? bfm_error() : "the data, or a part of it, has no infos/qpos and infos/qvel");
  }
  return t->settings.eval_every ? keep_rewards(t, data) : BFM_OK;
}
