// The curve and the bias of a run. The share of the return that was kept is bounded, unlike the bias
// relative to the return, which explodes where an agent earns nothing.

#include "paper/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "envs/domain.h"
#include "envs/tasklist.h"
#include "rollout/evaluate.h"

// ---------------------------------- the curve ----------------------------------------------------

static void add_point(cJSON *curve, const char *name, double value) {
  cJSON *values = cJSON_GetObjectItemCaseSensitive(curve, name);
  if (!values) values = cJSON_AddArrayToObject(curve, name);
  cJSON_AddItemToArray(values, cJSON_CreateNumber(round(10 * value) / 10));
}

cJSON *evidence_curve(const EvalLog *evals, int64_t seed, int64_t es) {
  cJSON *curve = cJSON_CreateObject();
  int64_t last = -1;
  for (int i = 0; i < evals->count; i++) {
    const EvalLine *line = &evals->lines[i];
    if (line->seed != seed || line->es != es) continue;
    if (line->step != last) add_point(curve, "steps", (double)line->step);
    last = line->step;
    add_point(curve, line->task, line->mean);
  }
  if (cJSON_GetArraySize(cJSON_GetObjectItem(curve, "steps")) > 1) return curve;
  cJSON_Delete(curve);
  return NULL;
}

// ---------------------------------- the bias -----------------------------------------------------

static cJSON *bias_json(const TaskList *tasks, int64_t episodes, int64_t steps,
                        const double *returns, const double *bias) {
  cJSON *all = cJSON_CreateObject();
  for (int t = 0; t < tasks->count; t++) {
    double earned = 0, last = 0;
    for (int64_t e = t * episodes; e < (t + 1) * episodes; e++) {
      earned += returns[e] / (double)episodes;
      last += bias[(e + 1) * steps - 1] / (double)episodes;
    }
    cJSON *task = cJSON_AddObjectToObject(all, tasks->text[t]);
    cJSON_AddNumberToObject(task, "earned", round(10 * earned) / 10);
    cJSON_AddNumberToObject(task, "predicted", round(10 * (earned - last)) / 10);
  }
  return all;
}

int evidence_bias(bfm_agent *agent, const char *domain, int64_t episodes, int64_t steps,
                  const bfm_evaluation *how, cJSON **out) {
  const Domain *world;
  TaskList tasks;
  *out = NULL;
  TRY(domain_find(&world, domain));
  TRY(tasklist_parse(&tasks, domain, "in"));
  if (!steps) steps = world->episode_steps;
  int replicas = bfm_agent_replicas(agent);
  size_t count = (size_t)(tasks.count * episodes);  // of a replica
  double *returns = calloc((size_t)replicas * count, sizeof *returns);
  double *bias = calloc((size_t)replicas * count * (size_t)steps, sizeof *bias);
  bfm_evaluation plan = *how;
  plan.tasks = (const char *const *)tasks.text;
  plan.task_count = tasks.count;
  plan.episodes = episodes;
  plan.steps = steps;
  int status = returns && bias ? evaluate_bias(agent, &plan, returns, bias)
                               : bfm_fail(BFM_NO_MEMORY, "out of memory for %zu episodes", count);
  if (!status) *out = cJSON_CreateArray();
  for (int r = 0; r < replicas && !status; r++) {
    cJSON_AddItemToArray(*out, bias_json(&tasks, episodes, steps, returns + r * count,
                                         bias + r * count * (size_t)steps));
  }
  free(returns);
  free(bias);
  tasklist_free(&tasks);
  return status;
}

double evidence_kept(const cJSON *bias) {
  double sum = 0;
  int count = 0;
  const cJSON *task;
  cJSON_ArrayForEach(task, bias) {
    double earned = cJSON_GetNumberValue(cJSON_GetObjectItem(task, "earned"));
    double predicted = cJSON_GetNumberValue(cJSON_GetObjectItem(task, "predicted"));
    sum += predicted <= earned ? 1 : fmax(earned, 0) / predicted;
    count++;
  }
  return count ? 100 * sum / count : NAN;
}
