// Writing a dataset to a file in D4RL's layout, under a temporary name until it is complete.

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/parts.h"

#define ROWS_AT_ONCE (1 << 16)

// the tables of the file, and the rows in memory for each
typedef struct {
  Table tables[WRITER_TABLES];
  const void *rows[WRITER_TABLES];
  int count;
} Tables;

static void add_table(Tables *t, Table table, const void *rows) {
  t->tables[t->count] = table;
  t->rows[t->count++] = rows;
}

// sets the flags of the kept rows: an episode ends with its last kept row
static void set_flags(const Dataset *data, const uint8_t *keep, uint8_t *terminals,
                      uint8_t *timeouts) {
  int64_t last = -1;
  for (int64_t i = 0; i < data->count; i++) {
    if (!keep || keep[i]) last = i;
    terminals[i] = data->discount[i] == 0;
    timeouts[i] = 0;
    if (!data->ends[i]) continue;
    if (last >= 0) timeouts[last] = data->discount[last] != 0;
    last = -1;
  }
}

// writes each run of consecutive kept rows at once
static int write_rows(Writer *writer, const Tables *t, int64_t count, const uint8_t *keep,
                      const volatile sig_atomic_t *stop) {
  const void *values[WRITER_TABLES];
  for (int64_t begin = 0, end; begin < count; begin = end) {
    end = begin + 1;
    if (keep && !keep[begin]) continue;
    while (end < count && end - begin < ROWS_AT_ONCE && (!keep || keep[end])) end++;
    if (stop && *stop) {
      return bfm_fail(BFM_INTERRUPTED, "stopped at transition %" PRId64 " of %" PRId64, begin,
                      count);
    }
    for (int k = 0; k < t->count; k++) {
      values[k] = (const char *)t->rows[k] + (size_t)begin * table_row_bytes(&t->tables[k]);
    }
    TRY(writer_append(writer, end - begin, values));
  }
  return BFM_OK;
}

static int create(Writer **writer, const Dataset *data, const char *path, const Tables *t,
                  int64_t rows) {
  int count = cJSON_GetArraySize(data->notes);
  Note *notes = malloc((size_t)(count + 1) * sizeof *notes);
  if (!notes) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d notes", count);
  const cJSON *note;
  count = 0;
  cJSON_ArrayForEach(note, data->notes) notes[count++] = (Note){note->string, note->valuestring};
  notes[count] = (Note){"env", data->env};
  int status = writer_create_whole(writer, path, t->tables, t->count, rows, notes, count + 1);
  free(notes);
  return status;
}

static int write_file(const Dataset *data, const char *path, const uint8_t *keep, uint8_t *flags,
                      const volatile sig_atomic_t *stop) {
  uint8_t *terminals = flags, *timeouts = flags + data->count;
  Tables tables = {.count = 0};
  for (int k = 0; k < PART_STORED_COUNT; k++) {
    if (has_part(data, k)) add_table(&tables, part_table(data, k), *part_rows(data, k));
  }
  set_flags(data, keep, terminals, timeouts);
  add_table(&tables, (Table){"terminals", COLUMN_BOOL, 0}, terminals);
  add_table(&tables, (Table){"timeouts", COLUMN_BOOL, 0}, timeouts);

  int64_t rows = 0;
  for (int64_t i = 0; i < data->count; i++) rows += !keep || keep[i];
  Writer *writer;
  TRY(create(&writer, data, path, &tables, rows));
  int status = write_rows(writer, &tables, data->count, keep, stop);
  if (!status) return writer_close(writer);
  writer_abandon(writer);
  return status;
}

int dataset_write(const Dataset *data, const char *path, const uint8_t *keep,
                  const volatile sig_atomic_t *stop) {
  if (!access(path, F_OK)) {
    return bfm_fail(BFM_IO, "%s already exists: choose another name", path);
  }
  uint8_t *flags = malloc(2 * (size_t)data->count + 1);
  int status = flags ? write_file(data, path, keep, flags, stop)
                     : bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rows", data->count);
  free(flags);
  return status;
}
