// The table of models. An entry is checked when the server starts and loaded when someone opens it.

#include "serve/models.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"

enum { MODELS_MOST = 256 };

typedef struct {
  char *label, *path;
} Entry;

struct Models {
  Entry entries[MODELS_MOST];
  int count;
};

int models_new(Models **out, const char *const *paths, int count, const char *device, int threads) {
  (void)paths, (void)count, (void)device, (void)threads;
  Models *m = *out = calloc(1, sizeof *m);
  return m ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for the table of models");
}

void models_free(Models *m) { free(m); }

int models_count(const Models *m) { return m->count; }
const char *models_label(const Models *m, int index) { return m->entries[index].label; }
const char *models_path(const Models *m, int index) { return m->entries[index].path; }

int models_find(const Models *m, const char *label) {
  int i = m->count - 1;
  while (i >= 0 && strcmp(m->entries[i].label, label)) i--;
  return i;
}

int models_acquire(Models *m, int index, const Model **model) {
  *model = NULL;
  return bfm_fail(BFM_UNAVAILABLE, "%s cannot be loaded yet", models_label(m, index));
}

void models_release(Models *m, const Model *model) { (void)m, (void)model; }

int64_t models_version(Models *m, int index) {
  (void)m, (void)index;
  return 0;
}

int models_describe(Models *m, cJSON *hello) {
  (void)m;
  cJSON_AddArrayToObject(hello, "models");
  cJSON_AddArrayToObject(hello, "runs");
  return BFM_OK;
}

int models_watch(Models *m, double period, void (*tell)(void *context, cJSON *message),
                 void *context) {
  (void)m, (void)period, (void)tell, (void)context;
  return BFM_OK;
}

void models_tell(Models *m, void (*tell)(void *context, cJSON *message), void *context) {
  (void)m, (void)tell, (void)context;
}
