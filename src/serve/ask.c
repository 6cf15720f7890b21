// Prompts. The rewards of the prompt states are computed once and serve the histogram, the warning and z.

#include "serve/ask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "core/units.h"
#include "envs/symmetry.h"
#include "prompt/prompt.h"

const char *ask_kind(const Ask *ask) {
  static const char *const kinds[] = {"reward", "goal", "pose", "demo", "z"};
  return kinds[ask->said.kind];
}

const char *ask_words(const Ask *ask) { return *ask->said.text ? ask->said.text : ask->report; }

// ---------------------------------- life ---------------------------------------------------------

Ask *ask_share(Ask *ask) {
  if (ask) atomic_fetch_add(&ask->users, 1);
  return ask;
}

void ask_release(Ask *ask) {
  if (!ask || atomic_fetch_sub(&ask->users, 1) > 1) return;
  reward_free(ask->reward);
  free(ask->demo);
  free(ask->ghost);
  free(ask->z);
  free(ask);
}

// ---------------------------------- values -------------------------------------------------------

static Histogram histogram_of(const float *values, int64_t count) {
  Histogram h = {.count = count, .lo = INFINITY, .hi = -INFINITY};
  for (int64_t i = 0; i < count; i++) {
    h.lo = fmin(h.lo, values[i]);
    h.hi = fmax(h.hi, values[i]);
    h.mean += values[i] / (double)count;
  }
  double width = h.hi > h.lo ? (h.hi - h.lo) / HISTOGRAM_BINS : 1;
  for (int64_t i = 0; i < count; i++) {
    int bin = (int)((values[i] - h.lo) / width);
    h.counts[bin < HISTOGRAM_BINS ? bin : HISTOGRAM_BINS - 1]++;
  }
  return h;
}

// six digits are enough for a picture
static void add_short(cJSON *to, const char *name, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.6g", value);
  cJSON_AddItemToObject(to, name, cJSON_CreateRaw(text));
}

static void add_histogram(cJSON *to, const Histogram *h) {
  if (!h->count) return;
  add_short(to, "lo", h->lo);
  add_short(to, "hi", h->hi);
  add_short(to, "mean", h->mean);
  cJSON_AddItemToObject(to, "counts", cJSON_CreateIntArray(h->counts, HISTOGRAM_BINS));
}

// what the agent cannot know of a reward; empty for a task
static int warn(const Model *model, const char *text, const float *rewards, char *out,
                size_t size) {
  const PromptStates *p = &model->agent->prompt;
  SymmetryStates states = {.count = p->count, .qpos = p->qpos, .qvel = p->qvel, .act = p->act,
                           .rewards = rewards};
  return symmetry_warning(model->world->domain->name, text, &states, out, size);
}

// the rewards of the prompt states, and what a client is told about them; the caller frees *rewards
static int value(const Model *model, const char *text, float **rewards, Histogram *histogram,
                 char *warning, size_t size) {
  int64_t count = bfm_agent_prompt_count(model->agent);
  *rewards = malloc((size_t)(count + 1) * sizeof **rewards);
  if (!*rewards) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld rewards", (long)count);
  TRY(prompt_rewards(model->agent, text, *rewards));
  *histogram = histogram_of(*rewards, count);
  return warn(model, text, *rewards, warning, size);
}

// ---------------------------------- kinds of prompts ---------------------------------------------

// how the reward is measured while the robot moves: of a step, where the domain does so, else of a state
static int measure(Ask *ask, const World *world) {
  const char *text = ask->said.text;
  const Domain *domain = world->domain;
  const Task *task = task_find(domain->name, text);
  ask->of_step = task && task_needs_step(domain, task);
  if (ask->of_step && !task->step) {
    ask->task = task;
    return BFM_OK;
  }
  if (ask->of_step) {
    double dt = domain->substeps * world->model->opt.timestep;
    return reward_new_step(&ask->reward, world->model, domain->aliases, dt, task->step);
  }
  return reward_new(&ask->reward, world->model, domain->aliases, task ? task->expression : text);
}

static int by_reward(Ask *ask, const Model *model) {
  float *rewards = NULL;
  Histogram *h = &ask->values;
  int status = value(model, ask->said.text, &rewards, h, ask->warning, sizeof ask->warning);
  if (!status) status = measure(ask, model->world);
  if (!status) {
    snprintf(ask->report, sizeof ask->report,
             "mean reward %.4g at the %ld prompt states, from %.4g to %.4g", h->mean,
             (long)h->count, h->lo, h->hi);
    status = bfm_agent_prompt_reward(model->agent, 0, h->count, model->agent->prompt.obs, rewards,
                                     ask->said.softmax, ask->z);
  }
  free(rewards);
  return status;
}

static int keep_ghost(Ask *ask, const double *qpos, int64_t nq) {
  ask->ghost = malloc((size_t)nq * sizeof *qpos);
  if (!ask->ghost) return bfm_fail(BFM_NO_MEMORY, "out of memory for a goal");
  memcpy(ask->ghost, qpos, (size_t)nq * sizeof *qpos);
  return BFM_OK;
}

static int by_goal(Ask *ask, const Model *model) {
  bfm_agent *agent = model->agent;
  const PromptStates *p = &agent->prompt;
  int64_t state;
  TRY(prompt_goal_state(agent, ask->said.text, &state, ask->report, sizeof ask->report));
  TRY(keep_ghost(ask, p->qpos + state * p->nq, p->nq));
  return bfm_agent_prompt_states(agent, 0, 1, p->obs + state * agent->obs_dim, ask->z);
}

static int check_count(const Message *said, const char *what, int64_t need) {
  if (said->count == need) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s has %d numbers, but this model needs %ld", what,
                  said->count, (long)need);
}

static int by_pose(Ask *ask, const Model *model) {
  int64_t nq = model->world->model->nq;
  TRY(check_count(&ask->said, "qpos", nq));
  TRY(keep_ghost(ask, ask->said.numbers, nq));
  snprintf(ask->report, sizeof ask->report, "a pose, at rest");
  return bfm_agent_prompt_state(model->agent, 0, ask->said.numbers, NULL, NULL, ask->z);
}

static int by_demo(Ask *ask, const Model *model) {
  const Domain *domain = model->world->domain;
  double dt = domain->substeps * model->world->model->opt.timestep;
  if (!ask->demo_count) return bfm_fail(BFM_BAD_ARGUMENT, "the robot has not moved yet");
  snprintf(ask->report, sizeof ask->report, "mean of B over %.1f s", (double)ask->demo_count * dt);
  return bfm_agent_prompt_states(model->agent, 0, ask->demo_count, ask->demo, ask->z);
}

static int by_z(Ask *ask, const Model *model) {
  int64_t d = model->agent->d;
  TRY(check_count(&ask->said, "z", d));
  for (int64_t i = 0; i < d; i++) ask->z[i] = (float)ask->said.numbers[i];
  snprintf(ask->report, sizeof ask->report, "a given z");
  return agent_check_z(ask->z, d);
}

static int keep_demo(Ask *ask, const float *demo, int64_t count, int64_t obs_dim) {
  size_t bytes = (size_t)(count * obs_dim) * sizeof *demo;
  ask->demo = malloc(bytes + 1);
  if (!ask->demo) return bfm_fail(BFM_NO_MEMORY, "out of memory for a demonstration");
  memcpy(ask->demo, demo, bytes);
  ask->demo_count = count;
  return BFM_OK;
}

static int work_out(Ask *ask, const Model *model, const float *demo, int64_t demo_count) {
  static int (*const by[])(Ask *ask, const Model *model) = {by_reward, by_goal, by_pose, by_demo,
                                                            by_z};
  ask->z = calloc((size_t)model->agent->d, sizeof *ask->z);
  if (!ask->z) return bfm_fail(BFM_NO_MEMORY, "out of memory for a prompt");
  if (demo) TRY(keep_demo(ask, demo, demo_count, model->agent->obs_dim));
  return by[ask->said.kind](ask, model);
}

int ask_new(Ask **out, const Model *model, const Message *said, const float *demo,
            int64_t demo_count) {
  double start = seconds_now();
  Ask *ask = *out = calloc(1, sizeof *ask);
  if (!ask) return bfm_fail(BFM_NO_MEMORY, "out of memory for a prompt");
  atomic_init(&ask->users, 1);
  ask->said = *said;
  reward_error_set((RewardPlace){.at = -1});
  int status = work_out(ask, model, demo, demo_count);
  ask->seconds = seconds_now() - start;
  if (!status) return BFM_OK;
  ask_release(ask);
  *out = NULL;
  return status;
}

int ask_again(Ask **ask, const Model *model, const Ask *before) {
  TRY(ask_new(ask, model, &before->said, before->demo, before->demo_count));
  if (before->said.kind != PROMPT_Z) return BFM_OK;
  snprintf((*ask)->warning, sizeof(*ask)->warning,
           "this z is of an earlier model of the run: prompt again");
  return BFM_OK;
}

// ---------------------------------- answers ------------------------------------------------------

static cJSON *answer_new(const char *type, const Message *said) {
  cJSON *answer = cJSON_CreateObject();
  cJSON_AddStringToObject(answer, "type", type);
  cJSON_AddNumberToObject(answer, "id", (double)said->id);
  return answer;
}

// so many digits that float32 numbers can be told apart
static cJSON *float_array(const float *x, int64_t count) {
  cJSON *array = cJSON_CreateArray();
  char number[32];
  for (int64_t i = 0; i < count; i++) {
    snprintf(number, sizeof number, "%.9g", x[i]);
    cJSON_AddItemToArray(array, cJSON_CreateRaw(number));
  }
  return array;
}

cJSON *ask_prompted(const Ask *ask, int64_t d, int64_t nq) {
  cJSON *answer = answer_new("prompted", &ask->said);
  cJSON_AddNumberToObject(answer, "slot", ask->said.slot);
  cJSON_AddStringToObject(answer, "kind", ask_kind(ask));
  cJSON_AddStringToObject(answer, "text", ask->said.text);
  cJSON_AddItemToObject(answer, "z", float_array(ask->z, d));
  cJSON_AddStringToObject(answer, "score", ask->reward || ask->task ? "reward" : "similarity");
  cJSON_AddStringToObject(answer, "report", ask->report);
  if (*ask->warning) cJSON_AddStringToObject(answer, "warning", ask->warning);
  add_short(answer, "seconds", ask->seconds);
  add_histogram(answer, &ask->values);
  if (ask->ghost) {
    cJSON_AddItemToObject(answer, "ghost_qpos", cJSON_CreateDoubleArray(ask->ghost, (int)nq));
  }
  return answer;
}

void ask_add_error(cJSON *answer, int kind) {
  char sentence[ASK_TEXT];
  snprintf(sentence, sizeof sentence, "%.*s", (int)strcspn(bfm_error(), "\n"), bfm_error());
  cJSON_AddStringToObject(answer, "error", sentence);
  RewardPlace place = reward_error_place();
  if ((kind != PROMPT_REWARD && kind != PROMPT_GOAL) || place.at < 0) return;
  cJSON_AddNumberToObject(answer, "at", place.at);
  cJSON_AddNumberToObject(answer, "length", place.length);
  if (*place.meant) cJSON_AddStringToObject(answer, "suggestion", place.meant);
}

// ---------------------------------- checks -------------------------------------------------------

static int check_reward(const Model *model, const char *text, cJSON *answer) {
  Histogram histogram = {.count = 0};
  char warning[ASK_TEXT] = "";
  float *rewards = NULL;
  int status = value(model, text, &rewards, &histogram, warning, sizeof warning);
  free(rewards);
  TRY(status);
  add_histogram(answer, &histogram);
  if (*warning) cJSON_AddStringToObject(answer, "warning", warning);
  return BFM_OK;
}

static int check_goal(const Model *model, const char *text, cJSON *answer) {
  char report[ASK_TEXT];
  int64_t state;
  TRY(prompt_goal_state(model->agent, text, &state, report, sizeof report));
  cJSON_AddStringToObject(answer, "report", report);
  return BFM_OK;
}

int ask_check(const Model *model, const Message *said, cJSON **checked) {
  cJSON *answer = *checked = answer_new("checked", said);
  reward_error_set((RewardPlace){.at = -1});
  int status = said->kind == PROMPT_GOAL ? check_goal(model, said->text, answer)
                                         : check_reward(model, said->text, answer);
  if (status == BFM_INTERRUPTED) {
    cJSON_Delete(answer);
    *checked = NULL;
    return status;
  }
  cJSON_AddBoolToObject(answer, "ok", !status);
  if (status) ask_add_error(answer, said->kind);
  return BFM_OK;
}
