// The kinds of data that are more than a collector's name. Those of `claims` are small, and on a CPU
// their commands write the same rows again: the device is fixed, and rows wait for the end of their
// episode (src/collect/episodes.h).

#include "paper/datasets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/units.h"
#include "train/recipes.h"

#define DATA_STEPS 5000000
#define AGAIN " device=cpu whole-episodes=on"

static const struct {
  const char *kind, *collect, *train;
  int64_t steps;
} kinds[] = {
    {"mood-small", "with=mood hidden=256 batch=256 envs=16" AGAIN, "", 500000},
    {"rnd-small", "with=rnd hidden=256 batch=256 rnd-dim=128 envs=16 updates=0.5" AGAIN, "",
     250000},
    {"random-hold20", "with=random hold=20 envs=100 whole-episodes=on", "stride=20", 400000},
};
#define KIND_COUNT ((int)(sizeof kinds / sizeof *kinds))

static int kind_find(const char *kind) {
  int i = 0;
  while (i < KIND_COUNT && strcmp(kinds[i].kind, kind)) i++;
  return i;
}

// any other kind is the name of a collector
static void collector_options(const char *kind, char *out, size_t size) {
  int i = kind_find(kind);
  if (i < KIND_COUNT) snprintf(out, size, "%s", kinds[i].collect);
  else snprintf(out, size, "with=%s", kind);
}

int64_t paper_data_steps(const char *kind) {
  int i = kind_find(kind);
  return i < KIND_COUNT ? kinds[i].steps : DATA_STEPS;
}

cJSON *paper_data_options(const char *kind, int64_t steps) {
  char text[256], number[32];
  collector_options(kind, text, sizeof text);
  snprintf(number, sizeof number, "%" PRId64, steps ? steps : paper_data_steps(kind));
  cJSON *options = cJSON_CreateObject();
  if (options && !recipe_add(text, options) && cJSON_AddStringToObject(options, "steps", number)) {
    return options;
  }
  cJSON_Delete(options);
  return NULL;
}

const char *paper_data_training(const char *kind) {
  int i = kind_find(kind);
  return i < KIND_COUNT ? kinds[i].train : "";
}

void paper_data_original(const char *domain, const char *kind, char *out, size_t size) {
  static const char *const kitchen[][2] = {
      {"d4rl-partial", "kitchen_microwave_kettle_light_slider-v0.hdf5"},
      {"d4rl-mixed", "kitchen_microwave_kettle_bottomburner_light-v0.hdf5"},
  };
  char name[32];
  *out = 0;
  for (int i = 0; i < 2; i++) {
    if (!strcmp(kind, kitchen[i][0])) snprintf(out, size, "%s", kitchen[i][1]);
  }
  if (*out || strncmp(kind, "d4rl-", 5)) return;
  snprintf(name, sizeof name, "%s", kind + 5);
  for (char *c = name; (c = strchr(c, '-'));) *c = '_';
  snprintf(out, size, "%s_%s-v2.hdf5", domain, name);
}

void paper_data_command(const char *domain, const char *kind, char *out, size_t size) {
  char text[256], steps[32];
  collector_options(kind, text, sizeof text);
  short_count((double)paper_data_steps(kind), steps, sizeof steps);
  size_t at = (size_t)snprintf(out, size, "bfm collect %s", domain);
  for (char *rest = text, *word; (word = strsep(&rest, " ")) && at < size;) {
    int name = (int)strcspn(word, "=");
    at += (size_t)snprintf(out + at, size - at, " --%.*s %s", name, word, word + name + 1);
  }
  if (at < size) snprintf(out + at, size - at, " --steps %s -o %s-%s.h5", steps, domain, kind);
}
