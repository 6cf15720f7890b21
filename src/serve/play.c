// The robots of a client. All control steps of a play begin together: so the robots stay comparable, and
// one call of the networks serves them all. Robots in the same state with the same prompt get the same
// numbers, also those of evaluation-based sampling.

#include "serve/play.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "core/units.h"
#include "serve/poses.h"
#include "serve/robots.h"
#include "serve/slot.h"

struct Play {
  const Model *model, *next_model;
  const World *world;
  int slots;
  uint64_t seed;
  Robots *robots;
  Slot slot[SLOTS_MAX];
  Poses poses;
  Reward *speed, *height;

  int es;
  double noise;
  double timestep, dt;  // seconds of a substep and of a control step
  int64_t substeps;     // simulated so far
  int phase;            // substeps done in the present control step
  double due;           // simulated seconds that are to be shown
  uint64_t random;      // resets to random states so far

  // scratch: the robots that think, and their observations, z, actions and F [members, slots, d]
  int thinking[SLOTS_MAX];
  float *obs, *z, *act, *f;
  void *memory;
};

// ---------------------------------- life ---------------------------------------------------------

static void layout(Play *p, Arena *arena) {
  const bfm_agent *a = p->model->agent;
  p->obs = floats(arena, SLOTS_MAX * a->obs_dim);
  p->z = floats(arena, SLOTS_MAX * a->d);
  p->act = floats(arena, SLOTS_MAX * a->act_dim);
  p->f = floats(arena, SLOTS_MAX * a->d * a->M);
}

// the domain's own measure if it has an alias of this name, else the general one
static int compile(Reward **reward, const World *world, const char *alias, const char *general) {
  for (const Alias *a = world->domain->aliases; a && a->name; a++) {
    if (!strcmp(a->name, alias)) general = alias;
  }
  return reward_new(reward, world->model, world->domain->aliases, general);
}

static int open_play(Play *p) {
  Arena arena = {.base = NULL};
  layout(p, &arena);
  p->memory = arena.base = calloc(1, arena.used);
  if (!p->memory) return bfm_fail(BFM_NO_MEMORY, "out of memory for robots");
  arena.used = 0;
  layout(p, &arena);
  TRY(compile(&p->speed, p->world, "speed", "norm(com.vel)"));
  TRY(compile(&p->height, p->world, "height", "com.z"));
  TRY(poses_new(&p->poses, p->world));
  for (int i = 0; i < p->slots; i++) TRY(slot_new(&p->slot[i], p->model));
  return robots_new(&p->robots, p->world, p->slots, p->seed);
}

int play_new(Play **out, const Model *model, int slots, uint64_t seed) {
  Play *p = *out = calloc(1, sizeof *p);
  if (!p) return bfm_fail(BFM_NO_MEMORY, "out of memory for robots");
  p->model = model;
  p->world = model->world;
  p->slots = slots;
  p->seed = seed;
  p->timestep = p->world->model->opt.timestep;
  p->dt = p->world->domain->substeps * p->timestep;
  int status = open_play(p);
  if (!status) return BFM_OK;
  play_free(p);
  *out = NULL;
  return status;
}

void play_free(Play *p) {
  if (!p) return;
  for (int i = 0; i < p->slots; i++) slot_free(&p->slot[i]);
  robots_free(p->robots);
  poses_free(&p->poses);
  reward_free(p->speed);
  reward_free(p->height);
  free(p->memory);
  free(p);
}

int play_slots(const Play *p) { return p->slots; }
const Model *play_model(const Play *p) { return p->model; }
const double *play_qpos(const Play *p, int slot) { return robots_qpos(p->robots, slot); }
const Past *play_past(const Play *p, int slot) { return p->slot[slot].past; }
double play_time(const Play *p) { return (double)p->substeps * p->timestep; }
double play_stepped(const Play *p) { return (double)(p->substeps - p->phase) * p->timestep; }

// ---------------------------------- what they are told -------------------------------------------

void play_ask(Play *p, int slot, Ask *ask, double ramp) {
  Slot *s = &p->slot[slot];
  ask_release(s->next);
  s->next = ask;
  s->next_ramp = ramp;
}

const Ask *play_asked(const Play *p, int slot) {
  return p->slot[slot].next ? p->slot[slot].next : p->slot[slot].ask;
}

void play_model_set(Play *p, const Model *model) { p->next_model = model; }

void play_act(Play *p, int es, double noise) {
  p->es = es;
  p->noise = noise;
}

void play_drag(Play *p, int slot, const Drag *drag) {
  if (!drag->body || touch_moves(p->world->model, drag->body)) p->slot[slot].drag = *drag;
}

void play_push(Play *p, int slot, const Push *push) {
  if (touch_moves(p->world->model, push->body)) p->slot[slot].push = *push;
}

static void restart(Play *p, int i) {
  robots_reset(p->robots, i);
  slot_restart(&p->slot[i]);
}

void play_reset(Play *p, ResetKind how) {
  const PromptStates *states = &p->model->agent->prompt;
  int64_t at = 0;
  if (how == RESET_RANDOM && states->count) {
    at = (int64_t)random_below(p->seed, STREAM_USER, p->random++, 0, (uint64_t)states->count);
  }
  for (int i = 0; i < p->slots; i++) {
    restart(p, i);
    if (how != RESET_RANDOM || !states->count) continue;
    // a state that the simulator refuses leaves the robot at the start
    if (robots_set(p->robots, i, states->qpos + at * states->nq, states->qvel + at * states->nv,
                   states->act ? states->act + at * states->na : NULL)) {
      robots_reset(p->robots, i);
    }
  }
  p->phase = 0;
}

// ---------------------------------- thinking -----------------------------------------------------

// whether two robots see the same and want the same
static int alike(const Play *p, int i, int k) {
  const bfm_agent *a = p->model->agent;
  return !memcmp(p->slot[i].obs, p->slot[k].obs, (size_t)a->obs_dim * sizeof(float)) &&
         !memcmp(p->slot[i].z, p->slot[k].z, (size_t)a->d * sizeof(float));
}

// the robot among those that think which is like this one, or -1
static int twin_of(const Play *p, int i, int count) {
  for (int n = 0; n < count; n++) {
    if (alike(p, i, p->thinking[n])) return n;
  }
  return -1;
}

// list the robots that differ and have a prompt
static int gather(Play *p) {
  const bfm_agent *a = p->model->agent;
  int count = 0;
  for (int i = 0; i < p->slots; i++) {
    Slot *s = &p->slot[i];
    const double *obs = robots_obs(p->robots, i);
    for (int64_t k = 0; k < a->obs_dim; k++) s->obs[k] = (float)obs[k];
    if (!s->ask || twin_of(p, i, count) >= 0) continue;
    memcpy(p->obs + count * a->obs_dim, s->obs, (size_t)a->obs_dim * sizeof(float));
    memcpy(p->z + count * a->d, s->z, (size_t)a->d * sizeof(float));
    p->thinking[count++] = i;
  }
  return count;
}

// The draws of evaluation-based sampling depend on the row, so that each robot gets a call of its own.
static int choose(Play *p, int first, int count) {
  bfm_agent *a = p->model->agent;
  uint64_t step = p->slot[p->thinking[first]].step;
  float *act = p->act + first * a->act_dim;
  TRY(bfm_agent_act(a, 0, count, p->obs + first * a->obs_dim, p->z + first * a->d, p->es, p->seed,
                    step, act));
  for (int n = 0; n < count && p->noise > 0; n++) {
    step = p->slot[p->thinking[first + n]].step;
    for (int64_t u = 0; u < a->act_dim; u++) {
      float noise = (float)p->noise * random_normal(p->seed, STREAM_EXPLORE, step, u);
      act[n * a->act_dim + u] = fminf(fmaxf(act[n * a->act_dim + u] + noise, -1), 1);
    }
  }
  return bfm_agent_F(a, 0, count, p->obs + first * a->obs_dim, act, p->z + first * a->d, p->f);
}

// The predicted return F(s, a, z)·z of row n of `rows`: its mean over F's members, and their standard
// deviation. The norm of z carries the scale of the reward.
static void predict(const Play *p, int n, int rows, const float *z, Measure *measure) {
  const bfm_agent *a = p->model->agent;
  double sum = 0, square = 0;
  for (int m = 0; m < a->M; m++) {
    const float *f = p->f + ((int64_t)m * rows + n) * a->d;
    double q = 0;
    for (int64_t k = 0; k < a->d; k++) q += (double)f[k] * z[k];
    sum += q;
    square += q * q;
  }
  measure->value = sum / a->M;
  if (a->M < 2) return;
  measure->spread = sqrt(fmax(square - sum * sum / a->M, 0) / (a->M - 1));
}

static void think_in_one(Play *p, int first, int count) {
  const bfm_agent *a = p->model->agent;
  int failed = choose(p, first, count);
  for (int n = 0; n < count; n++) {
    Slot *s = &p->slot[p->thinking[first + n]];
    s->lost = failed;
    if (!failed) predict(p, n, count, p->z + (first + n) * a->d, &s->now);
  }
}

static void think(Play *p) {
  const bfm_agent *a = p->model->agent;
  int count = gather(p), each = p->es > 0;
  if (count && !each) think_in_one(p, 0, count);
  // one robot beyond what the networks accept must not fail the others
  each |= count > 1 && p->slot[p->thinking[0]].lost;
  for (int n = 0; n < count && each; n++) think_in_one(p, n, 1);

  for (int i = 0; i < p->slots; i++) {
    Slot *s = &p->slot[i];
    memset(s->wide, 0, (size_t)a->act_dim * sizeof *s->wide);
    memset(s->act, 0, (size_t)a->act_dim * sizeof *s->act);
    if (!s->ask) continue;
    int n = twin_of(p, i, count);
    const Slot *twin = &p->slot[p->thinking[n]];
    s->now = twin->now;
    s->lost = twin->lost;
    if (s->lost) continue;
    memcpy(s->act, p->act + n * a->act_dim, (size_t)a->act_dim * sizeof *s->act);
    for (int64_t u = 0; u < a->act_dim; u++) s->wide[u] = s->act[u];
  }
}

// ---------------------------------- a control step -----------------------------------------------

// note the state before the action; the row becomes part of the past when the step is done
static void note_before(Play *p, int i) {
  const mjModel *m = p->world->model;
  const Slot *s = &p->slot[i];
  Rows row = past_next(s->past);
  memcpy(row.obs, s->obs, (size_t)p->world->domain->obs_dim * sizeof *row.obs);
  memcpy(row.act, s->act, (size_t)m->nu * sizeof *row.act);
  mju_copy(row.qpos, robots_qpos(p->robots, i), m->nq);
  mju_copy(row.qvel, robots_qvel(p->robots, i), m->nv);
  if (m->na) mju_copy(row.act_state, robots_act(p->robots, i), m->na);
}

static void note_after(Play *p, int i) {
  const Slot *s = &p->slot[i];
  const double *obs = robots_obs(p->robots, i);
  Rows row = past_next(s->past);
  for (int k = 0; k < p->world->domain->obs_dim; k++) row.next_obs[k] = (float)obs[k];
  mju_copy(row.next_qpos, robots_qpos(p->robots, i), p->world->model->nq);
  *row.rewards = (float)s->now.reward;
  *row.terminals = robots_ended(p->robots, i) == BFM_END_TERMINATED;
  past_add(s->past);
}

// qpos: the positions before the step, if the reward is that of a step, or NULL
static double value_of(const World *world, mjData *data, Reward *reward, const double *qpos) {
  if (reward_stage(reward) == REWARD_FORCE) mj_step1(world->model, data);
  else reward_forward(reward, world->model, data);
  return qpos ? reward_step_value(reward, world->model, data, qpos)
              : reward_value(reward, world->model, data);
}

// measure a robot in its new state, as bfm_env_reward does
static void measure(const World *world, mjData *data, int i, const double *qpos, void *context) {
  Play *p = context;
  Slot *s = &p->slot[i];
  if (s->ask && s->ask->task) {
    s->now.reward = world->domain->step_reward(world, data, qpos, s->ask->task->name);
  } else if (s->ask && s->ask->reward) {
    s->now.reward = value_of(world, data, s->ask->reward, s->ask->of_step ? qpos : NULL);
  }
  s->speed = value_of(world, data, p->speed, NULL);
  s->height = value_of(world, data, p->height, NULL);
}

// without a reward, what the model takes for one in the new state: B(s, z)·z
static void resemble(Play *p, int i) {
  bfm_agent *a = p->model->agent;
  Slot *s = &p->slot[i];
  const double *obs = robots_obs(p->robots, i);
  double sum = 0;
  if (!s->ask || s->ask->task || s->ask->reward) return;
  for (int64_t k = 0; k < a->obs_dim; k++) p->obs[k] = (float)obs[k];
  if (bfm_agent_B(a, 0, 1, p->obs, s->z, p->f)) return;
  for (int64_t k = 0; k < a->d; k++) sum += (double)p->f[k] * s->z[k];
  s->now.reward = sum;
}

static void begin_step(Play *p) {
  if (p->next_model) p->model = p->next_model;
  p->next_model = NULL;
  for (int i = 0; i < p->slots; i++) slot_begin(&p->slot[i], p->model->agent->d, p->dt);
  think(p);
  for (int i = 0; i < p->slots; i++) {
    note_before(p, i);
    robots_begin(p->robots, i, p->slot[i].wide);
  }
}

static void end_step(Play *p) {
  for (int i = 0; i < p->slots; i++) {
    Slot *s = &p->slot[i];
    int ended = robots_ended(p->robots, i), failed = ended & BFM_END_DIVERGED || s->lost;
    if (!failed) {
      resemble(p, i);
      note_after(p, i);
      slot_end(s);
    }
    if (!failed && !ended) continue;
    restart(p, i);
    s->drag = (Drag){.body = 0};
    s->resets++;
  }
}

static void substep(Play *p) {
  if (!p->phase) begin_step(p);
  for (int i = 0; i < p->slots; i++) {
    Slot *s = &p->slot[i];
    robots_substep(p->robots, i, s->drag.body ? &s->drag : NULL,
                   s->pushing.body ? &s->pushing : NULL, measure, p);
  }
  p->substeps++;
  if (++p->phase < p->world->domain->substeps) return;
  p->phase = 0;
  end_step(p);
}

// ---------------------------------- time ---------------------------------------------------------

void play_advance(Play *p, double seconds, double limit) {
  double start = seconds_now();
  p->due += seconds;
  while (play_time(p) < p->due) {
    if (seconds_now() - start > limit) {
      p->due = play_time(p);
      return;
    }
    substep(p);
  }
}

void play_step(Play *p) {
  do substep(p);
  while (p->phase);
  p->due = play_time(p);
}

// ---------------------------------- what is seen of them -----------------------------------------

enum { FRAME_HEAD = 16 };

size_t play_frame_bytes(const Play *p) {
  size_t slot = 8 + poses_bytes(p->world) + (size_t)p->world->model->nq * sizeof(float);
  return FRAME_HEAD + (size_t)p->slots * slot;
}

size_t play_frame(Play *p, unsigned char *out) {
  unsigned char *at = out;
  double share = fmin(fmax((p->due - play_time(p)) / p->timestep + 1, 0), 1);
  memset(at, 0, FRAME_HEAD);
  at[0] = 1;
  at[1] = (unsigned char)p->slots;
  memcpy(at + 8, &p->due, sizeof p->due);
  at += FRAME_HEAD;
  for (int i = 0; i < p->slots; i++) {
    const Slot *s = &p->slot[i];
    poses_between(&p->poses, robots_last_qpos(p->robots, i), robots_qpos(p->robots, i), share);
    at = put_u32(put_f32(at, s->reward), s->step);
    at = poses_put_bodies(&p->poses, at);
    for (int k = 0; k < p->world->model->nq; k++) at = put_f32(at, p->poses.qpos[k]);
    at = poses_put_tendons(&p->poses, at);
  }
  return (size_t)(at - out);
}

cJSON *play_stats(Play *p) {
  cJSON *slots = cJSON_CreateArray();
  for (int i = 0; i < p->slots; i++) {
    cJSON_AddItemToArray(slots, slot_stats(&p->slot[i], p->model->agent->M));
  }
  return slots;
}
