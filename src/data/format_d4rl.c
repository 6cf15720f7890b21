// D4RL's format, in which bfm also writes datasets: one HDF5 table per part, with all episodes one
// after another. Tables are read directly into their place behind the rows of earlier files. If
// there is only one file, tables that need no conversion are mapped instead.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/format.h"
#include "data/hdf5_probe.h"

typedef struct {
  int64_t rows;
  int64_t columns[PART_COUNT];  // 0: the file does not have the table
  int64_t planned;              // rows that bfm's writer planned, -1 in files of other programs
  int has_timeouts;
} Layout;

// All tables must have equally many rows. Only an interrupted bfm writer may leave some of them
// longer; then the shortest table determines the number of rows.
static int check_rows(Layout *layout, const char *name, int64_t rows) {
  int streamed = layout->planned >= 0;
  if (layout->rows < 0 || (streamed && rows < layout->rows)) layout->rows = rows;
  if (streamed || layout->rows == rows) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " rows, but observations has %" PRId64, name,
                  rows, layout->rows);
}

// checks a table [rows, columns]; only infos/act may have no columns, as most robots lack activations
static int check_table(hid_t file, const char *name, Layout *layout, int64_t *columns) {
  int64_t rows = 0;
  int axes = 0;
  TRY(hdf5_shape(file, name, &rows, columns, &axes));
  if (axes != 2)
    return bfm_fail(BFM_BAD_FILE, "%s must have 2 axes, rows and columns, not %d", name, axes);
  if (*columns == 0 && strcmp(name, "infos/act")) {
    return bfm_fail(BFM_BAD_FILE, "%s has no columns", name);
  }
  return check_rows(layout, name, rows);
}

// checks a table [rows] or [rows, 1]
static int check_column(hid_t file, const char *name, Layout *layout, int64_t *columns) {
  int64_t rows = 0;
  int axes;
  TRY(hdf5_shape(file, name, &rows, columns, &axes));
  if (*columns != 1) {
    return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " columns, but must have 1", name, *columns);
  }
  return check_rows(layout, name, rows);
}

static int read_layout(hid_t file, Layout *layout) {
  int64_t one;
  int64_t *columns = layout->columns;
  layout->rows = -1;
  layout->planned = hdf5_attribute_number(file, "planned_rows", -1);
  for (int k = 0; k < PART_STORED_COUNT; k++) {
    const char *name = part_name(k);
    int needed = k == PART_OBS || k == PART_ACT;
    if (!needed && !hdf5_has(file, name)) continue;
    TRY((part_axes(k) == 2 ? check_table : check_column)(file, name, layout, &columns[k]));
  }
  TRY(check_column(file, "terminals", layout, &one));
  layout->has_timeouts = hdf5_has(file, "timeouts");
  if (layout->has_timeouts) TRY(check_column(file, "timeouts", layout, &one));
  if (columns[PART_NEXT_OBS] && columns[PART_NEXT_OBS] != columns[PART_OBS]) {
    return bfm_fail(BFM_BAD_FILE,
                    "next_observations has %" PRId64 " columns, but observations has %" PRId64,
                    columns[PART_NEXT_OBS], columns[PART_OBS]);
  }
  if (!columns[PART_QPOS] || !columns[PART_QVEL]) {
    columns[PART_QPOS] = columns[PART_QVEL] = columns[PART_ACTIVATION] = 0;
  }
  return BFM_OK;
}

// keeps only the optional parts that every file has in the same size
static void agree_on_extras(Dataset *data, const Layout *layout, int is_first) {
  int64_t nq = layout->columns[PART_QPOS], nv = layout->columns[PART_QVEL];
  int64_t na = layout->columns[PART_ACTIVATION];
  if (is_first && data->with_extras) {
    data->nq = nq;
    data->nv = nv;
    data->na = na;
    if (!na) parts_drop(data, BIT(PART_ACTIVATION));
    data->physics_dim = layout->columns[PART_PHYSICS];
  }
  if (data->physics_dim != layout->columns[PART_PHYSICS]) parts_drop(data, BIT(PART_PHYSICS));
  if (!nq || data->nq != nq || data->nv != nv || data->na != na) parts_drop(data, PARTS_STATES);
  for (int k = 0; k < PART_STORED_COUNT; k++) {
    if (!(PARTS_NEEDED & BIT(k)) && !layout->columns[k]) parts_drop(data, BIT(k));
  }
}

// The next observation of a row is the observation of the row after it. An episode's last row has no
// successor and is dropped, so an episode of one row disappears.
static void derive_next_obs(Dataset *data, int64_t rows) {
  int64_t o = data->obs_dim, to = data->count;
  for (int64_t i = 0; i < rows; i++) {
    int64_t from = data->count + i;
    data->episodes -= data->ends[from];
    if (data->ends[from]) continue;
    int last = data->ends[from + 1];
    data->episodes += last;
    for (int k = 0; k < PART_COUNT; k++) {
      if (!has_part(data, k)) continue;
      memmove(part_at(data, k, to), part_at(data, k, from), part_row_bytes(data, k));
    }
    memmove(data->next_obs + to * o, data->obs + (from + 1) * o, o * sizeof(float));
    data->ends[to++] = last;
  }
  data->count = to;
}

// maps a part from the file that HDF5 has open, if its table is stored contiguously and in our type
static int map_part(Dataset *data, hid_t file, int part, int64_t rows) {
  int fd;
  off_t offset;
  Table table = part_table(data, part);
  size_t bytes = (size_t)rows * table_row_bytes(&table);
  if (!hdf5_place(file, table.name, table.type, bytes, &fd, &offset)) return BFM_OK;
  return row_buffer_map(&data->buffers[part], part_rows(data, part), fd, offset, bytes);
}

static int read_part(Dataset *data, hid_t file, int part, int64_t rows) {
  Table table = part_table(data, part);
  int64_t columns = table.columns ? table.columns : 1;
  void *out = part_at(data, part, data->count);
  if (!part_is_mapped(data, part)) {
    TRY(hdf5_read_as(file, table.name, table.type, rows, columns, out));
  }
  return hdf5_check(table.name, table.type, rows, columns, data->ends + data->count, out);
}

static int read_flags(Dataset *data, hid_t file, const Layout *layout) {
  int64_t rows = layout->rows;
  uint8_t *ends = data->ends + data->count, *terminals = malloc(rows);
  if (!terminals) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rows", rows);
  memset(ends, 0, rows);
  int status = layout->has_timeouts ? hdf5_read_flags(file, "timeouts", rows, ends) : BFM_OK;
  if (!status) status = hdf5_read_flags(file, "terminals", rows, terminals);
  for (int64_t i = 0; i < rows && !status; i++) {
    ends[i] |= terminals[i] | (i == rows - 1);
    data->episodes += ends[i];
    data->discount[data->count + i] = !terminals[i];
  }
  free(terminals);
  return status;
}

static int read_rows(Dataset *data, hid_t file, const Layout *layout) {
  int64_t rows = layout->rows;
  int has_next = layout->columns[PART_NEXT_OBS] > 0;
  for (int k = 0; k < PART_STORED_COUNT && data->single_file && has_next; k++) {
    if (has_part(data, k)) TRY(map_part(data, file, k, rows));
  }
  TRY(parts_grow(data, data->count + rows));
  TRY(read_flags(data, file, layout));
  for (int k = 0; k < PART_STORED_COUNT; k++) {
    if (has_part(data, k) && layout->columns[k]) TRY(read_part(data, file, k, rows));
  }
  if (has_next || hdf5_is_probe()) data->count += rows;  // the probe does not need the rows
  else derive_next_obs(data, rows);
  return BFM_OK;
}

static int read_file(Dataset *data, const char *path, hid_t file) {
  (void)path;
  Layout layout = {0};
  TRY(read_layout(file, &layout));
  char env[sizeof data->env];
  hdf5_attribute(file, "env", env, sizeof env);
  int is_first = !data->obs_dim;
  TRY(dataset_agree(data, layout.columns[PART_OBS], layout.columns[PART_ACT], env));
  data->incomplete |= layout.rows < layout.planned;
  agree_on_extras(data, &layout, is_first);
  return layout.rows ? read_rows(data, file, &layout) : BFM_OK;
}

// matches every HDF5 file that is left; the errors then name the tables that are missing
static int matches(const char *path, hid_t file) {
  (void)path;
  return file >= 0;
}

const Format format_d4rl = {"D4RL", matches, read_file};
