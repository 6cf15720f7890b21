// The buffer of unfinished episodes: for each table of the file an array [n, capacity, ·].

#include "collect/episodes.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (256 << 20)  // limit for all waiting rows together

// the tables of the file; set_tables has their names and types
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
  ACT_STATE,  // last, as most models have no activations
  TABLE_COUNT
};

struct Episodes {
  bfm_env_sizes sizes;
  Table tables[TABLE_COUNT];
  int table_count;
  void *buffers[TABLE_COUNT];
  int64_t capacity;
  int64_t *waiting;  // [n] rows that wait
  int64_t *episode;  // [n] number of the episode's first transition
  double *since;     // [n] when the first waiting row came, in seconds
};

// ---------------------------------- a moment -----------------------------------------------------

int moment_new(Moment *m, const bfm_env_sizes *s) {
  const struct {
    double **array;
    int columns;
  } arrays[] = {
      {&m->obs, s->obs_dim},      {&m->actions, s->act_dim}, {&m->rewards, 1},
      {&m->next_obs, s->obs_dim}, {&m->qpos, s->nq},         {&m->qvel, s->nv},
      {&m->act_state, s->na + 1},
  };
  *m = (Moment){.ended = calloc(s->count, sizeof *m->ended)};
  int missing = !m->ended;
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    *arrays[i].array = calloc((size_t)s->count * arrays[i].columns, sizeof(double));
    missing |= !*arrays[i].array;
  }
  return missing ? bfm_fail(BFM_NO_MEMORY, "out of memory for %d environments", s->count) : BFM_OK;
}

void moment_free(Moment *m) {
  double *arrays[] = {m->obs, m->actions, m->rewards, m->next_obs, m->qpos, m->qvel, m->act_state};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
  free(m->ended);
}

// ---------------------------------- life ---------------------------------------------------------

static void set_tables(Episodes *e) {
  const bfm_env_sizes *s = &e->sizes;
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
  memcpy(e->tables, tables, sizeof tables);
  e->table_count = s->na ? TABLE_COUNT : ACT_STATE;
}

int episodes_new(Episodes **out, const bfm_env_sizes *sizes) {
  Episodes *e = *out = calloc(1, sizeof *e);
  if (!e) return bfm_fail(BFM_NO_MEMORY, "out of memory for episodes");
  e->sizes = *sizes;
  set_tables(e);
  size_t n = (size_t)sizes->count, row = 0;
  for (int i = 0; i < e->table_count; i++) row += table_row_bytes(&e->tables[i]);
  int64_t fits = (int64_t)(BUFFER_BYTES / (n * row));
  e->capacity = fits < 1 ? 1 : fits > sizes->episode_steps ? sizes->episode_steps : fits;

  e->waiting = calloc(n, sizeof *e->waiting);
  e->episode = calloc(n, sizeof *e->episode);
  e->since = calloc(n, sizeof *e->since);
  int missing = !e->waiting || !e->episode || !e->since;
  for (int i = 0; i < e->table_count; i++) {
    e->buffers[i] = calloc(n * (size_t)e->capacity, table_row_bytes(&e->tables[i]));
    missing |= !e->buffers[i];
  }
  return missing ? bfm_fail(BFM_NO_MEMORY, "out of memory for %d environments", sizes->count)
                 : BFM_OK;
}

void episodes_free(Episodes *e) {
  if (!e) return;
  for (int i = 0; i < TABLE_COUNT; i++) free(e->buffers[i]);
  free(e->waiting);
  free(e->episode);
  free(e->since);
  free(e);
}

const Table *episodes_tables(const Episodes *e, int *count) {
  *count = e->table_count;
  return e->tables;
}

void episodes_begin(Episodes *e, int i, int64_t step) { e->episode[i] = step; }

// ---------------------------------- rows ---------------------------------------------------------

// where the next row of environment i goes
static void *slot(Episodes *e, int table, int i) {
  int64_t row = i * e->capacity + e->waiting[i];
  return (char *)e->buffers[table] + (size_t)row * table_row_bytes(&e->tables[table]);
}

static void put_floats(Episodes *e, int table, int i, const double *values, int size) {
  float *out = slot(e, table, i);
  for (int k = 0; k < size; k++) out[k] = (float)values[(size_t)i * size + k];
}

static void put_doubles(Episodes *e, int table, int i, const double *values, int size) {
  memcpy(slot(e, table, i), values + (size_t)i * size, size * sizeof *values);
}

int episodes_put(Episodes *e, Writer *writer, const Moment *m, int i, Label label, double now) {
  const bfm_env_sizes *s = &e->sizes;
  if (!e->waiting[i]) e->since[i] = now;
  put_floats(e, OBS, i, m->obs, s->obs_dim);
  put_floats(e, ACT, i, m->actions, s->act_dim);
  put_floats(e, NEXT_OBS, i, m->next_obs, s->obs_dim);
  put_floats(e, REWARD, i, m->rewards, 1);
  put_doubles(e, QPOS, i, m->qpos, s->nq);
  put_doubles(e, QVEL, i, m->qvel, s->nv);
  if (s->na) put_doubles(e, ACT_STATE, i, m->act_state, s->na);
  *(int8_t *)slot(e, TERMINAL, i) = (m->ended[i] & BFM_END_TERMINATED) != 0;
  *(int8_t *)slot(e, TIMEOUT, i) = m->ended[i] == BFM_END_TIME_LIMIT;
  *(int32_t *)slot(e, SOURCE, i) = label.source;
  *(int32_t *)slot(e, TASK, i) = label.task;
  *(int64_t *)slot(e, STEP, i) = label.step;
  *(int64_t *)slot(e, EPISODE, i) = e->episode[i];
  return ++e->waiting[i] == e->capacity ? episodes_write(e, writer, i) : BFM_OK;
}

// the last row of a piece is marked as a timeout, unless the episode terminated there
int episodes_write(Episodes *e, Writer *writer, int i) {
  if (!e->waiting[i]) return BFM_OK;
  int64_t last = i * e->capacity + e->waiting[i] - 1;
  int8_t *timeouts = e->buffers[TIMEOUT];
  const int8_t *terminals = e->buffers[TERMINAL];
  timeouts[last] = !terminals[last];

  const void *values[TABLE_COUNT];
  int64_t rows = e->waiting[i];
  e->waiting[i] = 0;
  for (int k = 0; k < e->table_count; k++) values[k] = slot(e, k, i);
  return writer_append(writer, rows, values);
}

int episodes_write_old(Episodes *e, Writer *writer, double since) {
  for (int i = 0; i < e->sizes.count; i++) {
    if (e->waiting[i] && e->since[i] <= since) TRY(episodes_write(e, writer, i));
  }
  return BFM_OK;
}
