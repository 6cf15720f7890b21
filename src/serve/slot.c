// One of the robots of a play.

#include "serve/slot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"

static void layout(Slot *slot, const Model *model, Arena *arena) {
  const bfm_agent *a = model->agent;
  slot->from = floats(arena, a->d);
  slot->z = floats(arena, a->d);
  slot->obs = floats(arena, a->obs_dim);
  slot->act = floats(arena, a->act_dim);
  slot->wide = arena_take(arena, a->act_dim * sizeof *slot->wide);
  slot->window = arena_take(arena, slot->second * sizeof *slot->window);
}

int slot_new(Slot *slot, const Model *model) {
  const Domain *domain = model->world->domain;
  double dt = domain->substeps * model->world->model->opt.timestep;
  *slot = (Slot){.second = (int)fmax(1, round(1 / dt))};
  Arena arena = {.base = NULL};
  layout(slot, model, &arena);
  slot->memory = arena.base = calloc(1, arena.used);
  if (!slot->memory) return bfm_fail(BFM_NO_MEMORY, "out of memory for a robot");
  arena.used = 0;
  layout(slot, model, &arena);
  return past_new(&slot->past, model->world);
}

void slot_free(Slot *slot) {
  ask_release(slot->ask);
  ask_release(slot->next);
  past_free(slot->past);
  free(slot->memory);
}

// ---------------------------------- prompts ------------------------------------------------------

static double norm_of(const float *z, int64_t d) {
  double square = 0;
  for (int64_t i = 0; i < d; i++) square += (double)z[i] * z[i];
  return sqrt(square);
}

static void take_next(Slot *slot, int64_t d) {
  size_t bytes = (size_t)d * sizeof *slot->z;
  int first = !slot->ask;
  ask_release(slot->ask);
  slot->ask = slot->next;
  slot->next = NULL;
  slot->ramp = first ? 0 : slot->next_ramp;
  slot->ramped = 0;
  memcpy(slot->from, slot->z, bytes);
  memcpy(slot->z, slot->ask->z, bytes);
  slot->count = slot->at = 0;  // the rewards of the last prompt are of another kind
}

// Only the direction of z matters to the policy, and prompts differ in their norms: the way leads along
// directions, at the norm of where it ends.
static void ramp(Slot *slot, int64_t d) {
  const float *to = slot->ask->z;
  double share = slot->ramped / slot->ramp, norm = norm_of(to, d);
  double scale = norm / norm_of(slot->from, d);
  for (int64_t i = 0; i < d; i++) {
    slot->z[i] = (float)((1 - share) * scale * slot->from[i] + share * to[i]);
  }
  if (norm_of(slot->z, d) < 1e-3 * norm) memcpy(slot->z, to, (size_t)d * sizeof *to);
}

void slot_begin(Slot *slot, int64_t d, double dt) {
  if (slot->next) take_next(slot, d);
  if (slot->ramped < slot->ramp) {
    slot->ramped += dt;
    if (slot->ramped < slot->ramp) ramp(slot, d);
    else memcpy(slot->z, slot->ask->z, (size_t)d * sizeof *slot->z);
  }
  slot->pushing = slot->push;
  slot->push = (Push){.body = 0};
  slot->now = (Measure){.reward = 0, .value = NAN, .spread = NAN};
  slot->lost = 0;
}

// ---------------------------------- measurements -------------------------------------------------

void slot_end(Slot *slot) {
  slot->step++;
  slot->reward = slot->now.reward;
  slot->window[slot->at] = slot->now.reward;
  slot->at = (slot->at + 1) % slot->second;
  if (slot->count < slot->second) slot->count++;
  if (slot->fresh_count == SLOT_FRESH) {
    memmove(slot->fresh, slot->fresh + 1, (SLOT_FRESH - 1) * sizeof *slot->fresh);
    slot->fresh_count--;
  }
  slot->fresh[slot->fresh_count++] = slot->now;
}

void slot_restart(Slot *slot) {
  slot->step = 0;
  slot->pushing = slot->push = (Push){.body = 0};
  past_cut(slot->past);
}

// six digits are enough for a picture; what is not finite becomes null
static cJSON *number(double value) {
  char text[32];
  if (!isfinite(value)) return cJSON_CreateNull();
  snprintf(text, sizeof text, "%.6g", value);
  return cJSON_CreateRaw(text);
}

static cJSON *column(const Slot *slot, size_t field) {
  cJSON *array = cJSON_CreateArray();
  for (int i = 0; i < slot->fresh_count; i++) {
    const double *value = (const double *)((const char *)&slot->fresh[i] + field);
    cJSON_AddItemToArray(array, number(*value));
  }
  return array;
}

static double score(const Slot *slot) {
  double sum = 0;
  for (int i = 0; i < slot->count; i++) sum += slot->window[i];
  return slot->count ? sum / slot->count : NAN;
}

cJSON *slot_stats(Slot *slot, int members) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddItemToObject(json, "rewards", column(slot, offsetof(Measure, reward)));
  cJSON_AddItemToObject(json, "values", column(slot, offsetof(Measure, value)));
  cJSON_AddItemToObject(json, "spread",
                        members > 1 ? column(slot, offsetof(Measure, spread)) : cJSON_CreateNull());
  cJSON_AddItemToObject(json, "score", number(slot->ask ? score(slot) : NAN));
  cJSON_AddItemToObject(json, "speed", number(slot->speed));
  cJSON_AddItemToObject(json, "height", number(slot->height));
  cJSON_AddNumberToObject(json, "reset", slot->resets);
  slot->fresh_count = 0;
  return json;
}
