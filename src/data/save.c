// A dataset as a file in D4RL's layout, under a temporary name until it is whole.

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/files.h"
#include "data/dataset.h"

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

// rows that are kept and follow each other are written together, so many at most
#define TOGETHER (1 << 16)

static int write_rows(Writer *writer, const Part *parts, int part_count, int64_t count,
                      const uint8_t *keep, const volatile sig_atomic_t *stop) {
  const void *values[WRITER_TABLES];
  for (int64_t begin = 0, end; begin < count; begin = end) {
    end = begin + 1;
    if (keep && !keep[begin]) continue;
    while (end < count && end - begin < TOGETHER && (!keep || keep[end])) end++;
    if (stop && *stop) {
      return bfm_fail(BFM_INTERRUPTED, "stopped at transition %" PRId64 " of %" PRId64, begin,
                      count);
    }
    for (int k = 0; k < part_count; k++) {
      values[k] = (const char *)parts[k].rows + (size_t)begin * table_row_bytes(&parts[k].table);
    }
    TRY(writer_append(writer, end - begin, values));
  }
  return BFM_OK;
}

static int create(Writer **writer, const Dataset *data, const char *path, const Part *parts,
                  int part_count, int64_t rows) {
  int count = cJSON_GetArraySize(data->notes);
  Table tables[WRITER_TABLES];
  Note *notes = malloc((size_t)(count + 1) * sizeof *notes);
  if (!notes) return bfm_fail(BFM_NO_MEMORY, "no memory for %d notes", count);
  for (int i = 0; i < part_count; i++) tables[i] = parts[i].table;
  for (int i = 0; i < count; i++) {
    const cJSON *note = cJSON_GetArrayItem(data->notes, i);
    notes[i] = (Note){note->string, note->valuestring};
  }
  notes[count] = (Note){"env", data->env};
  int status = writer_create(writer, path, tables, part_count, rows, notes, count + 1);
  free(notes);
  return status;
}

static int write_file(const Dataset *data, const char *path, const uint8_t *keep, uint8_t *flags,
                      const volatile sig_atomic_t *stop) {
  Part parts[PART_COUNT + 2];
  int count = dataset_parts(data, parts);
  set_flags(data, keep, flags, flags + data->count);
  parts[count++] = (Part){{"terminals", COLUMN_BOOL, 0}, flags};
  parts[count++] = (Part){{"timeouts", COLUMN_BOOL, 0}, flags + data->count};

  int64_t rows = 0;
  for (int64_t i = 0; i < data->count; i++) rows += !keep || keep[i];
  Writer *writer;
  TRY(create(&writer, data, path, parts, count, rows));
  int status = write_rows(writer, parts, count, data->count, keep, stop);
  if (!status) return writer_close(writer);
  writer_abandon(writer);
  return status;
}

int dataset_write(const Dataset *data, const char *path, const uint8_t *keep,
                  const volatile sig_atomic_t *stop) {
  if (!access(path, F_OK)) return bfm_fail(BFM_IO, "%s is there already", path);
  OutputFile file;
  TRY(output_open(&file, path));
  unlink(file.temporary);  // the writer makes its own
  uint8_t *flags = malloc(2 * (size_t)data->count + 1);
  int status = flags ? write_file(data, file.temporary, keep, flags, stop)
                     : bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", data->count);
  free(flags);
  if (!status) return output_commit_new(&file);
  output_discard(&file);
  return status;
}
