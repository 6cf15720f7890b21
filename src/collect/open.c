// Opening and closing a collection: a new file, or a file to continue. Everything that a user can get wrong is
// found here, before the first step.

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/collection.h"
#include "data/hdf5.h"
#include "data/robot_files.h"
#include "envs/domain.h"
#include "envs/robot_bundle.h"

// environments and agents; state: the file of the learners to continue, or NULL
static int make_crew(Collection *c, uint64_t seed, const char *state) {
  TRY(bfm_env_new(&c->env, c->env_name, (int)c->options.envs, seed, (int)c->options.threads));
  bfm_env_get_sizes(c->env, &c->sizes);
  c->n = c->sizes.count;
  TRY(moment_new(&c->moment, &c->sizes));
  TRY(episodes_new(&c->waiting, &c->sizes));
  TRY(crew_rewards(&c->crew, c->env, c->moment.rewards));  // rejects invalid tasks
  TRY(crew_open(&c->crew, c->env, state));
  return crew_read_policies(&c->crew);
}

// ---------------------------------- a new file ---------------------------------------------------

static char *print_and_delete(cJSON *value) {
  char *text = cJSON_PrintUnformatted(value);
  cJSON_Delete(value);
  return text;
}

// ["stand", "walk", …]: what the numbers of infos/task mean
static char *task_names(const char *env) {
  cJSON *names = cJSON_CreateArray();
  const char *name;
  for (int i = 0; (name = bfm_domain_task(env, i, NULL, NULL)); i++) {
    cJSON_AddItemToArray(names, cJSON_CreateString(name));
  }
  return print_and_delete(names);
}

// ["td3 stand", …]: what the numbers of infos/source mean
static char *source_names(const Crew *crew) {
  cJSON *names = cJSON_CreateArray();
  for (int t = 0; t < crew->agents; t++) {
    cJSON_AddItemToArray(names, cJSON_CreateString(crew->sources[t]));
  }
  return print_and_delete(names);
}

static int create_file(Collection *c) {
  char *options = options_to_json(collect_options(), &c->options);
  char *tasks = task_names(c->env_name), *sources = source_names(&c->crew);
  int count, status = BFM_OK;
  const Table *tables = episodes_tables(c->waiting, &count);
  if (!options || !tasks || !sources) {
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  }
  if (!status) {
    const Note notes[] = {{"env", c->env_name}, {"collector", c->crew.kind->name},
                          {"options", options}, {"task", c->options.task},
                          {"tasks", tasks},     {"sources", sources}};
    status = writer_create(&c->writer, c->plan.path, tables, count, c->options.steps, notes,
                           sizeof notes / sizeof *notes);
  }
  free(options);
  free(tasks);
  free(sources);
  return status;
}

static int open_new(Collection *c) {
  if (!c->plan.env) return bfm_fail(BFM_BAD_ARGUMENT, "name an environment: bfm collect walker");
  const Domain *domain;
  TRY(domain_find(&domain, c->plan.env));
  snprintf(c->env_name, sizeof c->env_name, "%s", domain->name);
  TRY(options_from_json(collect_options(), &c->options, c->plan.given));
  cJSON *given = cJSON_Parse(c->plan.given);
  int envs_given = cJSON_HasObjectItem(given, "envs");
  cJSON_Delete(given);
  TRY(crew_choose(&c->crew, c->env_name, &c->options, envs_given));
  TRY(make_crew(c, (uint64_t)c->options.seed, NULL));
  return create_file(c);
}

// ---------------------------------- a file to continue -------------------------------------------

// what the file says about its making
typedef struct {
  Collection *collection;
  int64_t rows;             // of infos/step
  int64_t last;             // the largest transition number in the file, -1: none
  int64_t source_rows;      // of infos/source
  double *steps, *sources;  // infos/step, infos/source
} Resumed;

static int read_notes(Collection *c, hid_t file) {
  char options[4096], env[sizeof c->env_name];
  hdf5_attribute(file, "options", options, sizeof options);
  hdf5_attribute(file, "env", env, sizeof env);
  if (!*options || !*env) {
    return bfm_fail(BFM_BAD_FILE, "%s was not made by bfm collect: it cannot be resumed",
                    c->plan.path);
  }
  if (options_from_json(collect_options(), &c->options, options)) {
    return bfm_fail_prefix(BFM_BAD_FILE, "%s: its options are damaged: ", c->plan.path);
  }
  // an earlier resume may have changed the number of transitions
  c->options.steps = hdf5_attribute_number(file, "planned_rows", c->options.steps);
  strcpy(c->env_name, env);
  return robot_files_read(file);
}

static int read_numbers(hid_t file, const char *name, int64_t *rows, double **out) {
  int64_t columns;
  int axes;
  TRY(hdf5_shape(file, name, rows, &columns, &axes));
  if (columns != 1) {
    return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " columns, but must have 1", name, columns);
  }
  *out = malloc((size_t)(*rows + 1) * sizeof **out);
  if (!*out) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rows", *rows);
  return hdf5_read_doubles(file, name, *rows, 1, *out);
}

// the environment may be named again, and must then be the same
static int check_env(const Collection *c) {
  const Domain *domain;
  if (!c->plan.env || !strcmp(c->plan.env, c->env_name)) return BFM_OK;
  if (!robot_is_path(c->plan.env)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s holds data of %s, not of %s", c->plan.path, c->env_name,
                    c->plan.env);
  }
  TRY(domain_find(&domain, c->plan.env));
  if (!strcmp(domain->name, c->env_name)) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s holds data of %s, but %s is now %s: collect a new file",
                  c->plan.path, c->env_name, c->plan.env, domain->name);
}

// observations of an earlier version's domain cannot be continued
static int check_observations(const Collection *c, hid_t file) {
  int64_t rows, columns;
  int axes, status = hdf5_shape(file, "observations", &rows, &columns, &axes);
  if (status) return bfm_fail_prefix(status, "%s: ", c->plan.path);
  return domain_check_obs(c->env_name, columns, c->plan.path);
}

static int read_resumed(hid_t file, void *context) {
  Resumed *r = context;
  TRY(read_notes(r->collection, file));
  TRY(check_observations(r->collection, file));
  int status = read_numbers(file, "infos/step", &r->rows, &r->steps);
  if (!status) status = read_numbers(file, "infos/source", &r->source_rows, &r->sources);
  if (status) return bfm_fail_prefix(status, "%s: ", r->collection->plan.path);
  for (int64_t i = 0; i < r->rows; i++) {
    if (r->steps[i] > (double)r->last) r->last = (int64_t)r->steps[i];
  }
  return BFM_OK;
}

// the notes of the file describe all of its rows, so that a resume must keep what they say
static int check_same(const Collection *c, const CollectOptions *before) {
  static const char *const names[] = {"with", "task", "model"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const Option *option = options_find(collect_options(), names[i]);
    char now[OPTION_TEXT_SIZE], then[OPTION_TEXT_SIZE];
    options_get(option, &c->options, now, sizeof now);
    options_get(option, before, then, sizeof then);
    if (!strcmp(now, then)) continue;
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s is \"%s\", but %s was started with \"%s\": a resume keeps --with, --task "
                    "and --model",
                    names[i], now, c->plan.path, then);
  }
  if (!crew_kinds[before->with].learners || before->envs == c->options.envs) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "envs is %" PRId64 ", but %s was started with %" PRId64
                  ": learners keep their number of environments",
                  c->options.envs, c->plan.path, before->envs);
}

// envs: the number of environments before
static int continue_file(Collection *c, const Resumed *r, int64_t envs) {
  TRY(crew_choose(&c->crew, c->env_name, &c->options, 1));

  // another seed, so that initial states do not repeat those of the episodes in the file
  uint64_t seed = (uint64_t)c->options.seed + 0x9E3779B97F4A7C15u * (uint64_t)(r->last + 1);
  char state[PATH_MAX];
  collect_path_beside(c->plan.path, "state.safetensors", state, sizeof state);
  c->restarted = c->crew.kind->learners && access(state, F_OK);
  TRY(make_crew(c, seed, c->restarted ? NULL : state));
  if (r->rows > 1) TRY(crew_remember(&c->crew, c->plan.path));
  int count;
  const Table *tables = episodes_tables(c->waiting, &count);
  TRY(writer_resume(&c->writer, c->plan.path, tables, count, c->options.steps));
  // control steps beyond those in the file, so that draws of actions do not repeat, even when there
  // were fewer environments before
  int64_t fewest = envs < c->n ? envs : c->n;
  c->at = r->last / fewest + (r->last >= 0);
  for (int64_t i = 0; i < r->source_rows && i < writer_rows(c->writer); i++) {
    int agent = (int)r->sources[i];
    if (agent >= 0 && agent < c->crew.agents) c->rows_of[agent]++;
  }
  return BFM_OK;
}

static int open_resumed(Collection *c) {
  Resumed r = {.collection = c, .last = -1};
  int status = hdf5_use(c->plan.path, read_resumed, &r);
  if (!status) status = check_env(c);
  CollectOptions before = c->options;
  if (!status) status = options_from_json(collect_options(), &c->options, c->plan.given);
  if (!status) status = check_same(c, &before);
  if (!status) status = continue_file(c, &r, before.envs);
  free(r.steps);
  free(r.sources);
  return status;
}

// ---------------------------------- either -------------------------------------------------------

static int open_collection(Collection *c) {
  TRY(options_default(collect_options(), &c->options));
  TRY(c->plan.resume ? open_resumed(c) : open_new(c));
  c->rows = c->first = writer_rows(c->writer);
  // earlier returns are not known: when --until waits for one, a resume starts with an evaluation
  c->reported = isinf(c->options.until) ? c->rows : -1;
  c->began = c->at;
  c->updates = c->crew.learner ? bfm_explorer_step(c->crew.learner) : 0;
  for (int i = 0; i < c->n; i++) episodes_begin(c->waiting, i, c->at * c->n + i);
  bfm_env_obs(c->env, c->moment.obs);
  return BFM_OK;
}

int collection_open(Collection **out, const CollectPlan *plan) {
  Collection *c = *out = calloc(1, sizeof *c);
  if (!c) return bfm_fail(BFM_NO_MEMORY, "out of memory to collect");
  c->plan = *plan;
  c->monitor = (Monitor){.call = plan->progress, .context = plan->context};
  int status = open_collection(c);
  if (!status) return BFM_OK;
  collection_close(c);
  *out = NULL;
  return status;
}

void collection_close(Collection *c) {
  if (!c) return;
  writer_abandon(c->writer);
  crew_close(&c->crew);
  episodes_free(c->waiting);
  moment_free(&c->moment);
  bfm_env_free(c->env);
  if (c->log) fclose(c->log);
  free(c);
}
