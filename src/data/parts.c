// The table of parts: for each, the field of Dataset that points to its rows and the field that holds
// the number of columns. If all parts together need more than half of the machine's memory, they are
// kept in temporary files.

#include "data/parts.h"

#include <inttypes.h>
#include <stddef.h>
#include <unistd.h>

#include "data/hdf5_probe.h"

#define AT(field) offsetof(Dataset, field)

static const struct {
  const char *name;  // of the table in files, or NULL
  ColumnType type;
  size_t rows, columns;  // offsets in Dataset; columns 0: a single column
} part_list[PART_COUNT] = {
    [PART_OBS] = {"observations", COLUMN_F32, AT(obs), AT(obs_dim)},
    [PART_ACT] = {"actions", COLUMN_F32, AT(act), AT(act_dim)},
    [PART_NEXT_OBS] = {"next_observations", COLUMN_F32, AT(next_obs), AT(obs_dim)},
    [PART_REWARDS] = {"rewards", COLUMN_F32, AT(rewards), 0},
    [PART_QPOS] = {"infos/qpos", COLUMN_F64, AT(qpos), AT(nq)},
    [PART_QVEL] = {"infos/qvel", COLUMN_F64, AT(qvel), AT(nv)},
    [PART_ACTIVATION] = {"infos/act", COLUMN_F64, AT(activation), AT(na)},
    [PART_PHYSICS] = {"infos/physics", COLUMN_F64, AT(physics), AT(physics_dim)},
    [PART_SOURCE] = {"infos/source", COLUMN_I32, AT(source), 0},
    [PART_TASK] = {"infos/task", COLUMN_I32, AT(task), 0},
    [PART_STEP] = {"infos/step", COLUMN_I64, AT(step), 0},
    [PART_EPISODE] = {"infos/episode", COLUMN_I64, AT(episode), 0},
    [PART_DISCOUNT] = {NULL, COLUMN_F32, AT(discount), 0},
    [PART_ENDS] = {NULL, COLUMN_BOOL, AT(ends), 0},
};

const char *part_name(int part) { return part_list[part].name; }

int part_axes(int part) { return part_list[part].columns ? 2 : 1; }

Table part_table(const Dataset *data, int part) {
  size_t at = part_list[part].columns;
  int64_t columns = at ? *(const int64_t *)((const char *)data + at) : 0;
  return (Table){part_list[part].name, part_list[part].type, columns};
}

size_t part_row_bytes(const Dataset *data, int part) {
  Table table = part_table(data, part);
  return table_row_bytes(&table);
}

void **part_rows(const Dataset *data, int part) {
  return (void **)((char *)data + part_list[part].rows);
}

void *part_at(const Dataset *data, int part, int64_t row) {
  return (char *)*part_rows(data, part) + (size_t)row * part_row_bytes(data, part);
}

int part_is_mapped(const Dataset *data, int part) {
  return data->buffers[part].mapped && !data->buffers[part].file;
}

void parts_drop(Dataset *data, uint32_t parts) {
  for (int k = 0; k < PART_COUNT; k++) {
    if (!(parts & data->parts & BIT(k))) continue;
    row_buffer_free(&data->buffers[k]);
    *part_rows(data, k) = NULL;
    data->parts &= ~BIT(k);
  }
  if (parts & BIT(PART_QPOS)) data->nq = data->nv = data->na = 0;
}

static int needs_buffer(const Dataset *data, int part) {
  return has_part(data, part) && !part_is_mapped(data, part);
}

int parts_grow(Dataset *data, int64_t rows) {
  if (rows <= data->capacity) return BFM_OK;
  double bytes = 0, memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  for (int k = 0; k < PART_COUNT; k++) {
    if (needs_buffer(data, k)) bytes += (double)rows * (double)part_row_bytes(data, k);
  }
  if (bytes >= 0x1p62) {
    return bfm_fail(BFM_NO_MEMORY,
                    "%" PRId64 " transitions of %.0f bytes each exceed the address space", rows,
                    bytes / (double)rows);
  }
  hdf5_probe_pause();  // moving earlier rows into files must not count as HDF5's time
  for (int k = 0; k < PART_COUNT; k++) {
    if (!needs_buffer(data, k)) continue;
    TRY(row_buffer_grow(&data->buffers[k], part_rows(data, k),
                        (size_t)rows * part_row_bytes(data, k), bytes > memory / 2));
  }
  data->capacity = rows;
  return BFM_OK;
}

int parts_reserve(Dataset *data, int64_t rows) {
  if (data->count + rows <= data->capacity) return BFM_OK;
  return parts_grow(data, 2 * data->count + rows);
}
