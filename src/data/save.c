// A dataset in memory as a file in D4RL's layout, written in blocks under a temporary name.

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/writer.h"

#define BLOCK_ROWS 4096

typedef struct {
  Table table;
  const void *rows;  // [count, ·] of the dataset
  void *block;       // [BLOCK_ROWS, ·] of those kept
} Part;

// the tables in the order of the file; those the dataset lacks are left out
static int parts_of(const Dataset *data, const uint8_t *terminals, const uint8_t *timeouts,
                    Part *parts) {
  const Part all[] = {
      {{"observations", COLUMN_F32, data->obs_dim}, data->obs, NULL},
      {{"actions", COLUMN_F32, data->act_dim}, data->act, NULL},
      {{"next_observations", COLUMN_F32, data->obs_dim}, data->next_obs, NULL},
      {{"rewards", COLUMN_F32, 0}, data->rewards, NULL},
      {{"terminals", COLUMN_BOOL, 0}, terminals, NULL},
      {{"timeouts", COLUMN_BOOL, 0}, timeouts, NULL},
      {{"infos/qpos", COLUMN_F64, data->nq}, data->qpos, NULL},
      {{"infos/qvel", COLUMN_F64, data->nv}, data->qvel, NULL},
      {{"infos/act", COLUMN_F64, data->na}, data->activation, NULL},
  };
  int count = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i].rows) parts[count++] = all[i];
  }
  return count;
}

static int append(Writer *writer, const Part *parts, int part_count, int64_t rows) {
  const void *values[WRITER_TABLES];
  for (int i = 0; i < part_count; i++) values[i] = parts[i].block;
  return writer_append(writer, rows, values);
}

static int write_rows(Writer *writer, const Dataset *data, const uint8_t *keep, const Part *parts,
                      int part_count) {
  int64_t filled = 0;
  for (int64_t i = 0; i < data->count; i++) {
    if (keep && !keep[i]) continue;
    for (int k = 0; k < part_count; k++) {
      size_t bytes = table_row_bytes(&parts[k].table);
      memcpy((char *)parts[k].block + filled * bytes, (const char *)parts[k].rows + i * bytes,
             bytes);
    }
    if (++filled < BLOCK_ROWS) continue;
    TRY(append(writer, parts, part_count, filled));
    filled = 0;
  }
  return append(writer, parts, part_count, filled);
}

static int write_file(const Dataset *data, const char *path, const uint8_t *keep, const Part *parts,
                      int part_count) {
  Table tables[WRITER_TABLES];
  for (int i = 0; i < part_count; i++) tables[i] = parts[i].table;
  int64_t rows = 0;
  for (int64_t i = 0; i < data->count; i++) rows += !keep || keep[i];
  Writer *writer;
  TRY(writer_create(&writer, path, tables, part_count, rows, (Note[]){{"env", data->env}}, 1));
  int status = write_rows(writer, data, keep, parts, part_count);
  if (status)
    writer_abandon(writer);
  else
    status = writer_close(writer);
  if (status) unlink(path);
  return status;
}

// an episode ends with the last of its rows that is kept
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

int dataset_write(const Dataset *data, const char *path, const uint8_t *keep) {
  char temporary[PATH_MAX];
  if (!access(path, F_OK)) return bfm_fail(BFM_IO, "%s is there already", path);
  if (snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid()) >=
      (int)sizeof temporary) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a file name of %zu characters is too long", strlen(path));
  }
  uint8_t *flags = malloc(2 * (size_t)data->count + 1);
  if (!flags) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", data->count);
  set_flags(data, keep, flags, flags + data->count);

  Part parts[WRITER_TABLES];
  int count = parts_of(data, flags, flags + data->count, parts), missing = 0;
  for (int i = 0; i < count; i++) {
    parts[i].block = malloc(BLOCK_ROWS * table_row_bytes(&parts[i].table));
    missing |= !parts[i].block;
  }
  int status = missing ? bfm_fail(BFM_NO_MEMORY, "no memory for a block of rows")
                       : write_file(data, temporary, keep, parts, count);
  if (!status && rename(temporary, path)) {
    status = bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(errno));
    unlink(temporary);
  }
  for (int i = 0; i < count; i++) free(parts[i].block);
  free(flags);
  return status;
}
