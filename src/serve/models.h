// The models that the playground offers: files named on the command line or found in folders, and the
// newest models of runs. A model is loaded when someone first opens it. A run that goes on replaces its
// model: clients then act with the newer one from their next step, and the older one is freed when
// nobody uses it.

#ifndef BFM_SERVE_MODELS_H
#define BFM_SERVE_MODELS_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "bfm.h"
#include "envs/domain.h"

typedef struct Models Models;

// One loaded model, never changed after loading. Prompting and acting with it are shared calls.
typedef struct {
  bfm_agent *agent;
  const World *world;
  int64_t version;  // grows with every replacement
  int users;        // of models.c
} Model;

// paths [count]: files of models, folders of models, folders of runs; none: the folder models/.
// threads: CPU threads of an agent, 0: one per core. A path that cannot be served is an error.
int models_new(Models **models, const char *const *paths, int count, const char *device,
               int threads);
void models_free(Models *models);

// The number of a label that a client named, or -1
int models_find(const Models *models, const char *label);
int models_count(const Models *models);
const char *models_label(const Models *models, int index);
const char *models_path(const Models *models, int index);  // as a command line would name it

// The newest version, loaded if need be; pair with models_release. Slow at the first call: only
// workers and the watch thread call it.
int models_acquire(Models *models, int index, const Model **model);
void models_release(Models *models, const Model *model);
int64_t models_version(Models *models, int index);  // of the newest version; cheap

// `models` and `runs` of the message hello (docs/playground.md)
int models_describe(Models *models, cJSON *hello);

// Look for progress of the runs, every `period` seconds, on a thread of its own, and load newer models.
// `tell` is called on that thread with a message `run` or `model`, which it takes.
int models_watch(Models *models, double period, void (*tell)(void *context, cJSON *message),
                 void *context);
// the last message `run` of every run, for a client that has just come
void models_tell(Models *models, void (*tell)(void *context, cJSON *message), void *context);

#endif
