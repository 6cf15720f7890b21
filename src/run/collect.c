// Collecting. All environments step together on all cores; each one's rows wait in its own part of
// one buffer until the episode ends, so that a file's episodes are whole. A piece that waited for
// seconds is written nevertheless: a killed collector loses no more than that.

#include "run/collect.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bfm.h"
#include "core/progress.h"
#include "core/rng.h"
#include "data/hdf5.h"
#include "data/writer.h"

#define FLUSH_SECONDS 2.0
#define PIECE_SECONDS 4.0         // an unfinished episode waits no longer
#define BUFFER_BYTES (256 << 20)  // of all waiting rows together

const Option collect_options[] = {
    {"with", OPTION_CHOICE, offsetof(CollectOptions, with), "random", 0, 0, "random",
     "who acts; random: uniform actions"},
    {"steps", OPTION_INT, offsetof(CollectOptions, steps), "100k", 2, 1e12, NULL,
     "transitions in all"},
    {"envs", OPTION_INT, offsetof(CollectOptions, envs), "64", 1, 65536, NULL,
     "environments simulated side by side"},
    {"hold", OPTION_INT, offsetof(CollectOptions, hold), "1", 1, 1e6, NULL,
     "control steps a random action is held for"},
    {"task", OPTION_TEXT, offsetof(CollectOptions, task), "", 0, 0, NULL,
     "task or expression whose rewards are stored; without one they are 0"},
    {"seed", OPTION_INT, offsetof(CollectOptions, seed), "0", 0, INFINITY, NULL,
     "of initial states and actions"},
    {"threads", OPTION_INT, offsetof(CollectOptions, threads), "0", 0, 4096, NULL,
     "that simulate; 0: one per core"},
    {.name = NULL},
};

// the tables of the file; names and types are those of its rows below
enum {
  OBS,
  ACT,
  NEXT_OBS,
  REWARD,
  TERMINAL,
  TIMEOUT,
  QPOS,
  QVEL,
  SOURCE,
  TASK,
  STEP,
  EPISODE,
  ACT_STATE,  // last: most models have none
  TABLE_COUNT
};

struct Collection {
  CollectPlan plan;
  CollectOptions options;
  char env_name[64];
  bfm_env *env;
  bfm_env_sizes sizes;
  int n;
  void *explorer;

  Writer *writer;
  Table tables[TABLE_COUNT];
  int table_count;
  void *buffers[TABLE_COUNT];  // [n, capacity, ·] rows that wait
  int64_t capacity;
  int64_t *waiting;                   // [n] rows of each environment
  int64_t *episode;                   // [n] number of the transition the episode began with
  double *since;                      // [n] seconds when the first waiting row came
  int64_t rows, episodes, first, at;  // transitions in file and buffer; here; at start; steps done

  double *obs, *next_obs, *qpos, *qvel, *act_state, *actions, *rewards;  // [n, ·] of a step
  uint8_t *ended;                                                        // [n]
  int32_t task;  // index among the domain's tasks, -1: none or an expression
  double seconds;
};

// ---------------------------------- explorers ----------------------------------------------------

// who acts: fills c->actions [n, act_dim] from c->obs [n, obs_dim] of control step c->at
typedef struct {
  const char *name;
  int (*open)(Collection *c, void **self);
  int (*act)(Collection *c, void *self);
  void (*close)(void *self);
} Explorer;

typedef struct {
  double *low, *high;  // [act_dim]
} Random;

static void random_close(void *self) {
  Random *random = self;
  if (!random) return;
  free(random->low);
  free(random);
}

// no wider than a policy, whose actions end at ±1 (quadruped takes a little more)
static int random_open(Collection *c, void **self) {
  Random *random = calloc(1, sizeof *random);
  *self = random;
  if (random) random->low = calloc(2 * c->sizes.act_dim, sizeof *random->low);
  if (!random || !random->low) return bfm_fail(BFM_NO_MEMORY, "no memory for a range of actions");
  random->high = random->low + c->sizes.act_dim;
  bfm_env_action_range(c->env, random->low, random->high);
  for (int u = 0; u < c->sizes.act_dim; u++) {
    random->low[u] = fmax(random->low[u], -1);
    random->high[u] = fmin(random->high[u], 1);
  }
  return BFM_OK;
}

static int random_act(Collection *c, void *self) {
  const Random *random = self;
  int size = c->sizes.act_dim;
  uint64_t draw = (uint64_t)(c->at / c->options.hold);
  for (int64_t k = 0; k < (int64_t)c->n * size; k++) {
    double low = random->low[k % size], high = random->high[k % size];
    double u = random_uniform((uint64_t)c->options.seed, STREAM_EXPLORE, draw, k);
    c->actions[k] = low + u * (high - low);
  }
  return BFM_OK;
}

static const Explorer explorers[] = {{"random", random_open, random_act, random_close}};

// ---------------------------------- the buffer ---------------------------------------------------

static void set_tables(Collection *c) {
  const bfm_env_sizes *s = &c->sizes;
  const Table tables[TABLE_COUNT] = {
      [OBS] = {"observations", COLUMN_F32, s->obs_dim},
      [ACT] = {"actions", COLUMN_F32, s->act_dim},
      [NEXT_OBS] = {"next_observations", COLUMN_F32, s->obs_dim},
      [REWARD] = {"rewards", COLUMN_F32, 0},
      [TERMINAL] = {"terminals", COLUMN_BOOL, 0},
      [TIMEOUT] = {"timeouts", COLUMN_BOOL, 0},
      [QPOS] = {"infos/qpos", COLUMN_F64, s->nq},
      [QVEL] = {"infos/qvel", COLUMN_F64, s->nv},
      [SOURCE] = {"infos/source", COLUMN_I32, 0},
      [TASK] = {"infos/task", COLUMN_I32, 0},
      [STEP] = {"infos/step", COLUMN_I64, 0},
      [EPISODE] = {"infos/episode", COLUMN_I64, 0},
      [ACT_STATE] = {"infos/act", COLUMN_F64, s->na},
  };
  memcpy(c->tables, tables, sizeof tables);
  c->table_count = s->na ? TABLE_COUNT : ACT_STATE;
}

static int make_buffers(Collection *c) {
  const bfm_env_sizes *s = &c->sizes;
  size_t n = (size_t)c->n, row = 0;
  for (int i = 0; i < c->table_count; i++) row += table_row_bytes(&c->tables[i]);
  int64_t fits = (int64_t)(BUFFER_BYTES / (n * row));
  c->capacity = fits < 1 ? 1 : fits > s->episode_steps ? s->episode_steps : fits;

  int missing = 0;
  for (int i = 0; i < c->table_count; i++) {
    c->buffers[i] = calloc(n * (size_t)c->capacity, table_row_bytes(&c->tables[i]));
    missing |= !c->buffers[i];
  }
  const struct {
    void **array;
    size_t bytes;
  } arrays[] = {
      {(void **)&c->waiting, sizeof *c->waiting},
      {(void **)&c->episode, sizeof *c->episode},
      {(void **)&c->since, sizeof *c->since},
      {(void **)&c->obs, s->obs_dim * sizeof(double)},
      {(void **)&c->next_obs, s->obs_dim * sizeof(double)},
      {(void **)&c->qpos, s->nq * sizeof(double)},
      {(void **)&c->qvel, s->nv * sizeof(double)},
      {(void **)&c->act_state, (s->na + 1) * sizeof(double)},
      {(void **)&c->actions, s->act_dim * sizeof(double)},
      {(void **)&c->rewards, sizeof(double)},
      {(void **)&c->ended, sizeof *c->ended},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    *arrays[i].array = calloc(n, arrays[i].bytes);
    missing |= !*arrays[i].array;
  }
  return missing ? bfm_fail(BFM_NO_MEMORY, "no memory for %d environments", c->n) : BFM_OK;
}

// where the next row of environment i goes
static void *slot(Collection *c, int table, int i) {
  int64_t row = i * c->capacity + c->waiting[i];
  return (char *)c->buffers[table] + (size_t)row * table_row_bytes(&c->tables[table]);
}

static void put_floats(Collection *c, int table, int i, const double *values, int size) {
  float *out = slot(c, table, i);
  for (int k = 0; k < size; k++) out[k] = (float)values[(size_t)i * size + k];
}

static void put_doubles(Collection *c, int table, int i, const double *values, int size) {
  memcpy(slot(c, table, i), values + (size_t)i * size, size * sizeof *values);
}

static void put_row(Collection *c, int i, double now) {
  const bfm_env_sizes *s = &c->sizes;
  if (!c->waiting[i]) c->since[i] = now;
  put_floats(c, OBS, i, c->obs, s->obs_dim);
  put_floats(c, ACT, i, c->actions, s->act_dim);
  put_floats(c, NEXT_OBS, i, c->next_obs, s->obs_dim);
  put_floats(c, REWARD, i, c->rewards, 1);
  put_doubles(c, QPOS, i, c->qpos, s->nq);
  put_doubles(c, QVEL, i, c->qvel, s->nv);
  if (s->na) put_doubles(c, ACT_STATE, i, c->act_state, s->na);
  *(int8_t *)slot(c, TERMINAL, i) = (c->ended[i] & BFM_ENDED_TERMINATED) != 0;
  *(int8_t *)slot(c, TIMEOUT, i) = c->ended[i] == BFM_ENDED_TIME;
  *(int32_t *)slot(c, SOURCE, i) = 0;
  *(int32_t *)slot(c, TASK, i) = c->task;
  *(int64_t *)slot(c, STEP, i) = c->at * c->n + i;
  *(int64_t *)slot(c, EPISODE, i) = c->episode[i];
  c->waiting[i]++;
  c->rows++;
}

// rows that follow in the file are not the successors of these: where the episode did not end by
// itself, its last row says so
static int write_piece(Collection *c, int i) {
  if (!c->waiting[i]) return BFM_OK;
  int64_t last = i * c->capacity + c->waiting[i] - 1;
  int8_t *timeouts = c->buffers[TIMEOUT];
  const int8_t *terminals = c->buffers[TERMINAL];
  timeouts[last] = !terminals[last];

  const void *values[TABLE_COUNT];
  int64_t rows = c->waiting[i];
  c->waiting[i] = 0;
  for (int k = 0; k < c->table_count; k++) values[k] = slot(c, k, i);
  return writer_append(c->writer, rows, values);
}

// ---------------------------------- the run ------------------------------------------------------

static int step(Collection *c) {
  bfm_env_state(c->env, c->qpos, c->qvel, c->act_state);
  TRY(explorers[c->options.with].act(c, c->explorer));
  // the file has float32: what is stored is what was done
  for (int64_t k = 0; k < (int64_t)c->n * c->sizes.act_dim; k++) {
    c->actions[k] = (float)c->actions[k];
  }
  TRY(bfm_env_step(c->env, c->actions));
  bfm_env_obs(c->env, c->next_obs);
  bfm_env_ended(c->env, c->ended);
  if (*c->options.task) TRY(bfm_env_reward(c->env, c->options.task, c->rewards));

  double now = seconds_now();
  int any = 0;
  for (int i = 0; i < c->n; i++) {
    // a diverged step has no successor: the episode ends with the row before
    int diverged = c->ended[i] == BFM_ENDED_DIVERGED;
    if (!diverged && c->rows < c->options.steps) put_row(c, i, now);
    if (c->ended[i] || c->waiting[i] == c->capacity) TRY(write_piece(c, i));
    if (c->ended[i]) {
      any = 1;
      c->episodes++;
      c->episode[i] = (c->at + 1) * c->n + i;
    }
  }
  c->at++;
  if (any) TRY(bfm_env_reset(c->env, c->ended));
  bfm_env_obs(c->env, c->obs);
  return BFM_OK;
}

static int save(Collection *c, double until) {
  for (int i = 0; i < c->n; i++) {
    if (c->waiting[i] && c->since[i] <= until) TRY(write_piece(c, i));
  }
  return writer_flush(c->writer);
}

static int collect(Collection *c, Progress *progress) {
  const volatile sig_atomic_t *stop = c->plan.stop;
  double start = seconds_now(), saved = start;
  while (c->rows < c->options.steps && !(stop && *stop)) {
    TRY(step(c));
    double now = seconds_now();
    if (now - saved > FLUSH_SECONDS) {
      TRY(save(c, now - PIECE_SECONDS));
      saved = now;
    }
    progress_update(progress, c->rows, NULL);
  }
  TRY(save(c, INFINITY));
  c->seconds = seconds_now() - start;

  Writer *writer = c->writer;
  int done = c->rows >= c->options.steps;
  c->writer = NULL;
  TRY(writer_close(writer));
  if (done) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED,
                  "stopped at transition %" PRId64 " of %" PRId64
                  "; bfm collect --resume -o %s goes on",
                  c->rows, c->options.steps, c->plan.path);
}

int collection_run(Collection *c) {
  Progress progress;
  progress_start(&progress, "collect", "steps", c->rows, c->options.steps, c->plan.quiet);
  int status = collect(c, &progress);
  progress_end(&progress);
  return status;
}

// ---------------------------------- life ---------------------------------------------------------

static int make_env(Collection *c, uint64_t seed) {
  TRY(bfm_env_new(&c->env, c->env_name, (int)c->options.envs, seed, (int)c->options.threads));
  bfm_env_get_sizes(c->env, &c->sizes);
  c->n = c->sizes.count;
  set_tables(c);
  TRY(make_buffers(c));
  if (*c->options.task) TRY(bfm_env_reward(c->env, c->options.task, c->rewards));
  memset(c->rewards, 0, c->n * sizeof *c->rewards);

  const char *name;
  c->task = -1;
  for (int i = 0; (name = bfm_task_name(c->env_name, i, NULL, NULL)); i++) {
    if (!strcmp(name, c->options.task)) c->task = i;
  }
  return explorers[c->options.with].open(c, &c->explorer);
}

// ["stand", "walk", …]: what the numbers of infos/task mean
static char *task_names(const char *env) {
  cJSON *names = cJSON_CreateArray();
  const char *name;
  for (int i = 0; (name = bfm_task_name(env, i, NULL, NULL)); i++) {
    cJSON_AddItemToArray(names, cJSON_CreateString(name));
  }
  char *text = cJSON_PrintUnformatted(names);
  cJSON_Delete(names);
  return text;
}

static int create_file(Collection *c) {
  char *options = options_to_json(collect_options, &c->options), *tasks = task_names(c->env_name);
  char sources[64];
  snprintf(sources, sizeof sources, "[\"%s\"]", explorers[c->options.with].name);
  int status = options && tasks ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "no memory for the options");
  if (!status) {
    const Note notes[] = {{"env", c->env_name}, {"collector", explorers[c->options.with].name},
                          {"options", options}, {"task", c->options.task},
                          {"tasks", tasks},     {"sources", sources}};
    status = writer_create(&c->writer, c->plan.path, c->tables, c->table_count, c->options.steps,
                           notes, sizeof notes / sizeof *notes);
  }
  free(options);
  free(tasks);
  return status;
}

// what the file says of how it was made
static int read_notes(Collection *c, hid_t file) {
  char options[4096], env[sizeof c->env_name];
  hdf5_attribute(file, "options", options, sizeof options);
  hdf5_attribute(file, "env", env, sizeof env);
  if (!*options || !*env) {
    return bfm_fail(BFM_BAD_FILE, "%s was not made by bfm collect: it cannot be resumed",
                    c->plan.path);
  }
  if (options_from_json(collect_options, &c->options, options)) {
    return bfm_fail_prefix(BFM_BAD_FILE, "%s: its options are damaged: ", c->plan.path);
  }
  // the plan of the last resume
  c->options.steps = hdf5_attribute_number(file, "planned_rows", c->options.steps);
  if (c->plan.env && strcmp(c->plan.env, env)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is of %s, not of %s", c->plan.path, env, c->plan.env);
  }
  strcpy(c->env_name, env);
  return BFM_OK;
}

// numbers of transitions go on behind the last one that is in the file
static int read_last(Collection *c, hid_t file, int64_t *last) {
  int64_t rows = 0, columns;
  int axes;
  *last = -1;
  TRY(hdf5_shape(file, "infos/step", &rows, &columns, &axes));
  double *steps = malloc((size_t)(rows + 1) * sizeof *steps);
  if (!steps) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", rows);
  int status = hdf5_read_doubles(file, "infos/step", rows, columns, steps);
  for (int64_t i = 0; i < rows && !status; i++) {
    if (steps[i] > (double)*last) *last = (int64_t)steps[i];
  }
  free(steps);
  return status ? bfm_fail_prefix(status, "%s: ", c->plan.path) : BFM_OK;
}

static int look_into(Collection *c, int64_t *last) {
  hid_t file;
  TRY(hdf5_open(&file, c->plan.path));
  int status = read_notes(c, file);
  if (!status) status = read_last(c, file, last);
  H5Fclose(file);
  return status;
}

static int open_resumed(Collection *c) {
  int64_t last = -1;
  Hdf5Errors errors = hdf5_silence();
  int status = look_into(c, &last);
  hdf5_restore(errors);
  if (status) return status;
  TRY(options_from_json(collect_options, &c->options, c->plan.given));

  // initial states must not repeat those of the episodes that are there
  uint64_t seed = (uint64_t)c->options.seed + 0x9E3779B97F4A7C15u * (uint64_t)(last + 1);
  TRY(make_env(c, seed));
  TRY(writer_resume(&c->writer, c->plan.path, c->tables, c->table_count, c->options.steps));
  c->at = last / c->n + (last >= 0);
  return BFM_OK;
}

static int open_new(Collection *c) {
  if (!c->plan.env) return bfm_fail(BFM_BAD_ARGUMENT, "name an environment: bfm collect walker");
  if (strlen(c->plan.env) >= sizeof c->env_name) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no environment \"%.64s…\"", c->plan.env);
  }
  strcpy(c->env_name, c->plan.env);
  TRY(options_from_json(collect_options, &c->options, c->plan.given));
  TRY(make_env(c, (uint64_t)c->options.seed));
  return create_file(c);
}

int collection_open(Collection **out, const CollectPlan *plan) {
  *out = NULL;
  Collection *c = calloc(1, sizeof *c);
  if (!c) return bfm_fail(BFM_NO_MEMORY, "no memory to collect");
  c->plan = *plan;
  int status = options_default(collect_options, &c->options);
  if (!status) status = plan->resume ? open_resumed(c) : open_new(c);
  if (status) {
    collection_close(c);
    return status;
  }
  c->rows = c->first = writer_rows(c->writer);
  for (int i = 0; i < c->n; i++) c->episode[i] = c->at * c->n + i;
  bfm_env_obs(c->env, c->obs);
  *out = c;
  return BFM_OK;
}

void collection_summary(const Collection *c, CollectSummary *summary) {
  *summary = (CollectSummary){
      .env = c->env_name,
      .with = explorers[c->options.with].name,
      .first = c->first,
      .rows = c->rows,
      .episodes = c->episodes,
      .diverged = bfm_env_diverged(c->env),
      .envs = c->n,
      .seconds = c->seconds,
  };
}

void collection_close(Collection *c) {
  if (!c) return;
  writer_abandon(c->writer);
  explorers[c->options.with].close(c->explorer);
  bfm_env_free(c->env);
  for (int i = 0; i < TABLE_COUNT; i++) free(c->buffers[i]);
  free(c->waiting);
  free(c->episode);
  free(c->since);
  free(c->obs);
  free(c->next_obs);
  free(c->qpos);
  free(c->qvel);
  free(c->act_state);
  free(c->actions);
  free(c->rewards);
  free(c->ended);
  free(c);
}
