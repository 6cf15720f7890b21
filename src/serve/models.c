// The table of models. An entry is checked when the server starts, and loaded when someone opens it.
// Entries are never removed; the runs' thread adds those of new models. The table's lock is held for
// instants only. A file is read under the lock of its entry, so the thread of the connections, which
// describes the table, never waits for a file.

#include "serve/models.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/config.h"
#include "serve/run_log.h"
#include "serve/shelf.h"
#include "serve/watch.h"

enum {
  MODELS_MOST = 256,
  RUNS_MOST = 32,
  IDLE_MOST = 2,  // loaded models without users that wait for the next one
};

typedef struct Entry Entry;

typedef struct {
  Model model;  // first: users hold a pointer to it
  Entry *entry;
  struct stat file;  // that it was read from
  int64_t released;  // when its last user left, as a count of releases
} Loaded;

struct Entry {
  char label[LABEL_SIZE];
  char *path;
  int run;   // the number of its run, or -1
  int best;  // whether it is the best of its run so far, and not the newest
  pthread_mutex_t reading;
  struct stat file;  // of the runs' thread: as it was last seen
  // under the table's lock:
  ModelFacts facts;
  Loaded *newest;
  int64_t version;
};

typedef struct {
  char label[LABEL_SIZE];
  char *path;
  Watch *watch;
  struct stat folder;  // when it was last searched for models
  int changed;         // since the last message
  int64_t number;      // of messages; a client may hear two of them in the wrong order
  cJSON *message;      // the last one; under the table's lock
} Run;

struct Models {
  char options[MACHINE_SIZE];  // of every agent
  Entry entries[MODELS_MOST];
  int count;  // atomic: entries below it are complete
  Run runs[RUNS_MOST];
  int run_count;
  pthread_mutex_t lock;
  int64_t releases;

  pthread_t thread;
  int watching, stop;
  pthread_cond_t wake;
  double period;
  void (*tell)(void *context, cJSON *message);
  void *context;
};

// ---------------------------------- the table ----------------------------------------------------

int models_count(const Models *m) { return __atomic_load_n(&m->count, __ATOMIC_ACQUIRE); }
const char *models_label(const Models *m, int index) { return m->entries[index].label; }
const char *models_path(const Models *m, int index) { return m->entries[index].path; }

int models_find(const Models *m, const char *label) {
  int i = models_count(m) - 1;
  while (i >= 0 && strcmp(m->entries[i].label, label)) i--;
  return i;
}

static int find_path(const Models *m, const char *path) {
  int i = models_count(m) - 1;
  while (i >= 0 && strcmp(m->entries[i].path, path)) i--;
  return i;
}

static int is_taken(const Models *m, const char *label) {
  for (int r = 0; r < m->run_count; r++) {
    if (!strcmp(m->runs[r].label, label)) return 1;
  }
  return models_find(m, label) >= 0;
}

// a label that nothing else has: "walker", "walker-2", …
static void choose_label(const Models *m, const char *name, char out[LABEL_SIZE]) {
  char base[LABEL_SIZE];
  shelf_label(name, base);
  snprintf(out, LABEL_SIZE, "%s", base);
  for (int i = 2; is_taken(m, out); i++) snprintf(out, LABEL_SIZE, "%.36s-%d", base, i);
}

// `label` becomes the entry's as it is
static int add_entry(Models *m, const char *path, const char *label, int run, int best) {
  int i = models_count(m);
  Entry *e = &m->entries[i];
  if (i == MODELS_MOST) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there are more than %d models: name fewer", MODELS_MOST);
  }
  ModelFacts facts;
  TRY(shelf_facts(&facts, path));
  memset(e, 0, sizeof *e);
  e->path = strdup(path);
  if (!e->path) return bfm_fail(BFM_NO_MEMORY, "out of memory for the table of models");
  snprintf(e->label, sizeof e->label, "%s", label);
  e->run = run;
  e->best = best;
  e->facts = facts;
  stat(path, &e->file);
  pthread_mutex_init(&e->reading, NULL);
  __atomic_store_n(&m->count, i + 1, __ATOMIC_RELEASE);
  return BFM_OK;
}

static int add_model(void *context, const char *path, const char *name) {
  char label[LABEL_SIZE];
  if (find_path(context, path) >= 0) return BFM_OK;
  choose_label(context, name, label);
  return add_entry(context, path, label, -1, 0);
}

// ---------------------------------- models of runs -----------------------------------------------

typedef struct {
  Models *models;
  int run;
} OfRun;

// A file that is no model is left out: a run of single-task agents has policies.
static int add_model_of_run(void *context, const char *path, const char *stem) {
  const OfRun *of = context;
  const char *run = of->models->runs[of->run].label, *seed = strchr(stem, '.');
  int best = !strncmp(stem, "best", strlen("best"));
  char name[LABEL_SIZE], label[LABEL_SIZE];
  if (find_path(of->models, path) >= 0) return BFM_OK;
  snprintf(name, sizeof name, "%.27s%s%.7s", run, best ? ".best" : "", seed ? seed : "");
  if (best || seed) choose_label(of->models, name, label);
  else snprintf(label, sizeof label, "%s", run);
  (void)add_entry(of->models, path, label, of->run, best);
  return BFM_OK;
}

static void find_models_of_run(Models *m, int run) {
  OfRun of = {m, run};
  struct stat now;
  Run *r = &m->runs[run];
  // every new file changes the folder
  if (stat(r->path, &now) || same_file(&now, &r->folder)) return;
  const ShelfReader reader = {&of, add_model_of_run, NULL};
  if (shelf_search_run(r->path, &reader)) return;
  // a change within the same tick of the clock would have this time too
  if (time(NULL) - now.st_mtim.tv_sec > 1) r->folder = now;
}

static int add_run(void *context, const char *path, const char *name) {
  Models *m = context;
  if (m->run_count == RUNS_MOST) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there are more than %d runs: name fewer", RUNS_MOST);
  }
  Run *r = &m->runs[m->run_count];
  choose_label(m, name, r->label);
  r->path = strdup(path);
  if (!r->path) return bfm_fail(BFM_NO_MEMORY, "out of memory for the table of runs");
  m->run_count++;  // models_free frees it also after a failure
  TRY(watch_new(&r->watch, path, r->label));
  find_models_of_run(m, m->run_count - 1);
  return BFM_OK;
}

// ---------------------------------- loading ------------------------------------------------------

static void free_loaded(Loaded *l) {
  if (!l) return;
  bfm_agent_free(l->model.agent);
  world_release(l->model.world);
  free(l);
}

static int check_sizes(const Entry *e, const bfm_agent *agent, const World *world) {
  if (bfm_agent_obs_dim(agent) == world->domain->obs_dim &&
      bfm_agent_act_dim(agent) == world->model->nu) {
    return BFM_OK;
  }
  return bfm_fail(BFM_BAD_FILE,
                  "%s has %" PRId64 " observations and %" PRId64 " actions, but %s has %d and %d",
                  e->path, bfm_agent_obs_dim(agent), bfm_agent_act_dim(agent), world->domain->name,
                  world->domain->obs_dim, (int)world->model->nu);
}

static int load(const Models *m, Entry *e, Loaded **out) {
  ModelFacts facts;
  const Domain *domain;
  Loaded *l = *out = calloc(1, sizeof *l);
  if (!l) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", e->path);
  l->entry = e;
  // the file may be replaced meanwhile: then it is another one at the next look, and is loaded again
  if (stat(e->path, &l->file)) l->file.st_ino = 0;
  int status = shelf_facts(&facts, e->path);
  if (!status) status = bfm_agent_load(&l->model.agent, e->path, m->options);
  if (!status) status = domain_find(&domain, bfm_agent_env(l->model.agent));
  if (!status) status = world_acquire(&l->model.world, domain);
  if (!status) status = check_sizes(e, l->model.agent, l->model.world);
  if (!status) return BFM_OK;
  free_loaded(l);
  *out = NULL;
  return status;
}

static int is_current(const Loaded *l) {
  struct stat now;
  return stat(l->entry->path, &now) || same_file(&now, &l->file);
}

// the newest that is loaded, which gets one more user, or NULL
static Loaded *use_newest(Models *m, Entry *e) {
  pthread_mutex_lock(&m->lock);
  Loaded *l = e->newest;
  if (l) l->model.users++;
  pthread_mutex_unlock(&m->lock);
  return l;
}

static void replace(Models *m, Entry *e, Loaded *newer) {
  pthread_mutex_lock(&m->lock);
  newer->model.version = e->version + 1;
  newer->model.users = 1;
  e->newest = newer;
  __atomic_store_n(&e->version, newer->model.version, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&m->lock);
}

// A file that cannot be read any more leaves what is loaded in use.
static int acquire(Models *m, Entry *e, const Model **model) {
  Loaded *l = use_newest(m, e), *newer = NULL;
  int status = l && is_current(l) ? BFM_OK : load(m, e, &newer);
  if (newer) {
    replace(m, e, newer);
    if (l) models_release(m, &l->model);
    l = newer;
  }
  *model = l ? &l->model : NULL;
  return l ? BFM_OK : status;
}

int models_acquire(Models *m, int index, const Model **model) {
  Entry *e = &m->entries[index];
  pthread_mutex_lock(&e->reading);
  int status = acquire(m, e, model);
  pthread_mutex_unlock(&e->reading);
  return status;
}

// of more than IDLE_MOST models without users, the one that was used the longest ago
static Loaded *take_idle(Models *m) {
  Loaded *oldest = NULL;
  int idle = 0;
  for (int i = 0; i < models_count(m); i++) {
    Loaded *l = m->entries[i].newest;
    if (!l || l->model.users) continue;
    idle++;
    if (!oldest || l->released < oldest->released) oldest = l;
  }
  if (idle <= IDLE_MOST) return NULL;
  oldest->entry->newest = NULL;
  return oldest;
}

void models_release(Models *m, const Model *model) {
  if (!model) return;
  Loaded *l = (Loaded *)model, *unused = NULL;
  pthread_mutex_lock(&m->lock);
  l->released = ++m->releases;
  if (!--l->model.users) unused = l->entry->newest == l ? take_idle(m) : l;
  pthread_mutex_unlock(&m->lock);
  free_loaded(unused);
}

int64_t models_version(Models *m, int index) {
  return __atomic_load_n(&m->entries[index].version, __ATOMIC_ACQUIRE);
}

// ---------------------------------- describing ---------------------------------------------------

// fields of a model, as in the messages hello and model
static void describe(Models *m, int index, cJSON *item) {
  const Entry *e = &m->entries[index];
  char title[192], robot[64];
  pthread_mutex_lock(&m->lock);
  ModelFacts facts = e->facts;
  int loaded = e->newest != NULL;
  pthread_mutex_unlock(&m->lock);
  // without the checksum of a user's own robot
  snprintf(robot, sizeof robot, "%.*s", (int)strcspn(facts.env, "#"), facts.env);
  if (strstr(e->label, robot)) snprintf(title, sizeof title, "%s", e->label);
  else snprintf(title, sizeof title, "%s (%s)", e->label, robot);
  log_add_text(item, "label", e->label);
  log_add_text(item, "path", e->path);
  log_add_text(item, "domain", facts.env);
  log_add_text(item, "algo", facts.algo);
  log_add_text(item, "title", title);
  cJSON_AddNumberToObject(item, "step", (double)facts.step);
  cJSON_AddBoolToObject(item, "loaded", loaded);
  if (e->run >= 0) cJSON_AddStringToObject(item, "run", m->runs[e->run].label);
  else cJSON_AddNullToObject(item, "run");
}

int models_describe(Models *m, cJSON *hello) {
  cJSON *models = cJSON_AddArrayToObject(hello, "models");
  cJSON *runs = cJSON_AddArrayToObject(hello, "runs");
  for (int i = 0; i < models_count(m); i++) {
    cJSON *item = cJSON_CreateObject();
    describe(m, i, item);
    cJSON_AddItemToArray(models, item);
  }
  for (int r = 0; r < m->run_count; r++) {
    cJSON_AddItemToArray(runs, cJSON_CreateString(m->runs[r].label));
  }
  if (models && runs) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "out of memory for the list of models");
}

// ---------------------------------- watching runs ------------------------------------------------

static void tell_of_model(Models *m, int index) {
  cJSON *message = cJSON_CreateObject();
  cJSON_AddStringToObject(message, "type", "model");
  describe(m, index, message);
  m->tell(m->context, message);
}

static int is_used(Models *m, const Entry *e) {
  pthread_mutex_lock(&m->lock);
  int used = e->newest && e->newest->model.users;
  pthread_mutex_unlock(&m->lock);
  return used;
}

// whether the file of a run's model was replaced; if someone uses the model, the newer one is loaded
static int look_at_model(Models *m, int index) {
  Entry *e = &m->entries[index];
  struct stat now;
  ModelFacts facts;
  const Model *model;
  if (stat(e->path, &now) || same_file(&now, &e->file) || shelf_facts(&facts, e->path)) return 0;
  if (is_used(m, e) && !models_acquire(m, index, &model)) models_release(m, model);
  e->file = now;
  pthread_mutex_lock(&m->lock);
  e->facts = facts;
  pthread_mutex_unlock(&m->lock);
  tell_of_model(m, index);
  return 1;
}

static int look_at_models(Models *m, int run) {
  int known = models_count(m), changed = 0;
  for (int i = 0; i < known; i++) {
    if (m->entries[i].run == run) changed |= look_at_model(m, i);
  }
  find_models_of_run(m, run);
  for (int i = known; i < models_count(m); i++) tell_of_model(m, i);
  return changed || models_count(m) > known;
}

// of the newest model
static void add_model_step(Models *m, int run, cJSON *message) {
  int i = 0, count = models_count(m);
  while (i < count && (m->entries[i].run != run || m->entries[i].best)) i++;
  pthread_mutex_lock(&m->lock);
  double step = i < count ? (double)m->entries[i].facts.step : 0;
  pthread_mutex_unlock(&m->lock);
  if (i < count) cJSON_AddNumberToObject(message, "model_step", step);
  else cJSON_AddNullToObject(message, "model_step");
}

// Returns whether there is more to read; until then, nothing is told after the first message.
static int look_at_run(Models *m, int run) {
  Run *r = &m->runs[run];
  int more = 0;
  r->changed |= watch_look(r->watch, &more);
  r->changed |= look_at_models(m, run);
  cJSON *message = !r->message || (r->changed && !more) ? watch_message(r->watch) : NULL;
  if (!message) return more;
  r->changed = 0;
  add_model_step(m, run, message);
  cJSON_AddNumberToObject(message, "number", (double)++r->number);
  cJSON *copy = cJSON_Duplicate(message, 1);
  pthread_mutex_lock(&m->lock);
  cJSON_Delete(r->message);
  r->message = copy;
  pthread_mutex_unlock(&m->lock);
  m->tell(m->context, message);
  return more;
}

static void wait_for(Models *m, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t nanoseconds = until.tv_nsec + (int64_t)(1e9 * seconds);
  until.tv_sec += nanoseconds / 1000000000;
  until.tv_nsec = nanoseconds % 1000000000;
  pthread_mutex_lock(&m->lock);
  if (!m->stop) pthread_cond_timedwait(&m->wake, &m->lock, &until);
  pthread_mutex_unlock(&m->lock);
}

static int is_stopped(Models *m) {
  pthread_mutex_lock(&m->lock);
  int stop = m->stop;
  pthread_mutex_unlock(&m->lock);
  return stop;
}

static void *watch_runs(void *context) {
  Models *m = context;
  while (!is_stopped(m)) {
    int more = 0;
    for (int r = 0; r < m->run_count && !is_stopped(m); r++) more |= look_at_run(m, r);
    wait_for(m, more ? 0 : m->period);
  }
  return NULL;
}

int models_watch(Models *m, double period, void (*tell)(void *context, cJSON *message),
                 void *context) {
  if (!m->run_count) return BFM_OK;
  m->period = period;
  m->tell = tell;
  m->context = context;
  m->watching = !pthread_create(&m->thread, NULL, watch_runs, m);
  return m->watching ? BFM_OK
                     : bfm_fail(BFM_NO_MEMORY, "cannot start the thread that watches runs");
}

void models_tell(Models *m, void (*tell)(void *context, cJSON *message), void *context) {
  for (int r = 0; r < m->run_count; r++) {
    pthread_mutex_lock(&m->lock);
    cJSON *message = cJSON_Duplicate(m->runs[r].message, 1);
    pthread_mutex_unlock(&m->lock);
    if (message) tell(context, message);
  }
}

// ---------------------------------- making -------------------------------------------------------

// without paths, all shipped models; the page opens with the first
static int search(Models *m, const char *const *paths, int count) {
  const ShelfReader reader = {m, add_model, add_run};
  char folder[PATH_MAX], first[PATH_MAX];
  for (int i = 0; i < count; i++) TRY(shelf_search(paths[i], &reader));
  if (count) return BFM_OK;
  TRY(shelf_default(folder, first));
  if (*first) (void)shelf_search(first, &reader);  // a damaged file is left out
  return shelf_search(folder, &reader);
}

int models_new(Models **out, const char *const *paths, int count, const char *device, int threads) {
  pthread_condattr_t monotonic;
  *out = NULL;
  Models *m = calloc(1, sizeof *m);
  if (!m) return bfm_fail(BFM_NO_MEMORY, "out of memory for the table of models");
  pthread_mutex_init(&m->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&m->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  config_machine(device ? device : "auto", threads, m->options);
  int status = search(m, paths, count);
  if (status) models_free(m);
  else *out = m;
  return status;
}

static void stop_watching(Models *m) {
  pthread_mutex_lock(&m->lock);
  m->stop = 1;
  pthread_cond_signal(&m->wake);
  pthread_mutex_unlock(&m->lock);
  if (m->watching) pthread_join(m->thread, NULL);
}

void models_free(Models *m) {
  if (!m) return;
  stop_watching(m);
  for (int i = 0; i < m->count; i++) {
    free_loaded(m->entries[i].newest);
    pthread_mutex_destroy(&m->entries[i].reading);
    free(m->entries[i].path);
  }
  for (int r = 0; r < m->run_count; r++) {
    watch_free(m->runs[r].watch);
    cJSON_Delete(m->runs[r].message);
    free(m->runs[r].path);
  }
  pthread_cond_destroy(&m->wake);
  pthread_mutex_destroy(&m->lock);
  free(m);
}
