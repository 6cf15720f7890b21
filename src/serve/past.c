// A ring of rows, one array for each column.

#include "serve/past.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10 };

// one column of a row: the bytes of its numbers, and where its array is in Rows
typedef struct {
  size_t bytes, field;
} Column;

struct Past {
  double dt;  // seconds of a row
  Column columns[COLUMNS];
  int64_t room, count, next;  // rows: of the ring, filled, to be written
  Rows rows;
};

// the pointer to a column's array, of whatever type
static char *array_of(const Rows *rows, const Column *column) {
  char *array;
  memcpy(&array, (const char *)rows + column->field, sizeof array);
  return array;
}

static void set_array(Rows *rows, const Column *column, char *array) {
  memcpy((char *)rows + column->field, &array, sizeof array);
}

static void set_columns(Past *past, const World *world) {
  const mjModel *m = world->model;
  size_t obs = (size_t)world->domain->obs_dim, nu = (size_t)m->nu, nq = (size_t)m->nq;
  // numbers of eight bytes come first, so that all are aligned
  const Column columns[COLUMNS] = {
      {nq * sizeof(double), offsetof(Rows, qpos)},
      {(size_t)m->nv * sizeof(double), offsetof(Rows, qvel)},
      {(size_t)m->na * sizeof(double), offsetof(Rows, act_state)},
      {nq * sizeof(double), offsetof(Rows, next_qpos)},
      {obs * sizeof(float), offsetof(Rows, obs)},
      {nu * sizeof(float), offsetof(Rows, act)},
      {obs * sizeof(float), offsetof(Rows, next_obs)},
      {sizeof(float), offsetof(Rows, rewards)},
      {1, offsetof(Rows, terminals)},
      {1, offsetof(Rows, timeouts)},
  };
  memcpy(past->columns, columns, sizeof columns);
}

static int rows_new(const Past *past, int64_t count, Rows *rows) {
  size_t bytes = 0;
  for (int c = 0; c < COLUMNS; c++) bytes += past->columns[c].bytes;
  *rows = (Rows){.count = count, .memory = calloc((size_t)count, bytes)};
  if (!rows->memory) return bfm_fail(BFM_NO_MEMORY, "out of memory for a robot's past");
  char *at = rows->memory;
  for (int c = 0; c < COLUMNS; c++) {
    set_array(rows, &past->columns[c], at);
    at += past->columns[c].bytes * (size_t)count;
  }
  return BFM_OK;
}

void rows_free(Rows *rows) {
  free(rows->memory);
  *rows = (Rows){.count = 0};
}

int past_new(Past **out, const World *world) {
  Past *past = *out = calloc(1, sizeof *past);
  if (!past) return bfm_fail(BFM_NO_MEMORY, "out of memory for a robot's past");
  past->dt = world->domain->substeps * world->model->opt.timestep;
  past->room = (int64_t)ceil(PAST_SECONDS / past->dt) + 1;
  set_columns(past, world);
  return rows_new(past, past->room, &past->rows);
}

void past_free(Past *past) {
  if (!past) return;
  rows_free(&past->rows);
  free(past);
}

// the row at an index as rows of one
static Rows row_at(const Past *past, int64_t index) {
  Rows row = past->rows;
  for (int c = 0; c < COLUMNS; c++) {
    const Column *column = &past->columns[c];
    set_array(&row, column, array_of(&past->rows, column) + column->bytes * (size_t)index);
  }
  row.count = 1;
  row.memory = NULL;
  return row;
}

Rows past_next(Past *past) {
  Rows row = row_at(past, past->next);
  *row.terminals = *row.timeouts = 0;
  return row;
}

void past_add(Past *past) {
  past->next = (past->next + 1) % past->room;
  if (past->count < past->room) past->count++;
}

void past_cut(Past *past) {
  if (!past->count) return;
  Rows last = row_at(past, (past->next + past->room - 1) % past->room);
  *last.timeouts = !*last.terminals;
}

int past_copy(const Past *past, double seconds, Rows *rows) {
  int64_t count = (int64_t)fmin(fmax(round(seconds / past->dt), 1), (double)past->count);
  *rows = (Rows){.count = 0};
  if (!past->count) return bfm_fail(BFM_BAD_ARGUMENT, "the robot has not moved yet");
  TRY(rows_new(past, count, rows));
  for (int64_t i = 0; i < count; i++) {
    Rows from = row_at(past, (past->next + past->room - count + i) % past->room);
    for (int c = 0; c < COLUMNS; c++) {
      const Column *column = &past->columns[c];
      memcpy(array_of(rows, column) + column->bytes * (size_t)i, array_of(&from, column),
             column->bytes);
    }
  }
  rows->timeouts[count - 1] = !rows->terminals[count - 1];
  return BFM_OK;
}
