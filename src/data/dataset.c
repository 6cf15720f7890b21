// Datasets in D4RL's layout. Each file's tables are read straight into their final place, behind the
// rows of the files before it; rows without a successor are then squeezed out in place.

#include "data/dataset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/hdf5.h"

// ---------------------------------- one file's layout --------------------------------------------

typedef struct {
  int64_t rows, obs_dim, act_dim;
  int has_next, has_timeouts;
} Layout;

static int check_rows(const char *name, int64_t has_rows, int64_t rows) {
  if (has_rows == rows) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " rows, but observations has %" PRId64, name,
                  has_rows, rows);
}

// [rows, columns]; rows < 0: whatever the table has
static int check_table(hid_t file, const char *name, int64_t *rows, int64_t *columns) {
  int64_t has_rows = 0;
  int axes = 0;
  TRY(hdf5_shape(file, name, &has_rows, columns, &axes));
  if (axes != 2) return bfm_fail(BFM_BAD_FILE, "%s has %d axis, but must have 2", name, axes);
  if (*columns == 0) return bfm_fail(BFM_BAD_FILE, "%s has no columns", name);
  if (*rows < 0) *rows = has_rows;
  return check_rows(name, has_rows, *rows);
}

// [rows] or [rows, 1]
static int check_column(hid_t file, const char *name, int64_t rows) {
  int64_t has_rows = 0, columns = 0;
  int axes;
  TRY(hdf5_shape(file, name, &has_rows, &columns, &axes));
  if (columns != 1) {
    return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " columns, but must have 1", name, columns);
  }
  return check_rows(name, has_rows, rows);
}

static int read_layout(hid_t file, Layout *layout) {
  layout->rows = -1;
  TRY(check_table(file, "observations", &layout->rows, &layout->obs_dim));
  TRY(check_table(file, "actions", &layout->rows, &layout->act_dim));
  TRY(check_column(file, "terminals", layout->rows));

  layout->has_timeouts = hdf5_has(file, "timeouts");
  if (layout->has_timeouts) TRY(check_column(file, "timeouts", layout->rows));
  if (hdf5_has(file, "rewards")) TRY(check_column(file, "rewards", layout->rows));

  layout->has_next = hdf5_has(file, "next_observations");
  if (layout->has_next) {
    int64_t columns = 0;
    TRY(check_table(file, "next_observations", &layout->rows, &columns));
    if (columns != layout->obs_dim) {
      return bfm_fail(BFM_BAD_FILE,
                      "next_observations has %" PRId64 " columns, but observations has %" PRId64,
                      columns, layout->obs_dim);
    }
  }
  return BFM_OK;
}

// ---------------------------------- into memory --------------------------------------------------

static int grow_array(float **array, int64_t rows, int64_t columns) {
  float *larger = realloc(*array, (size_t)rows * columns * sizeof(float));
  if (!larger) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " transitions", rows);
  *array = larger;
  return BFM_OK;
}

static int grow(Dataset *data, int64_t rows) {
  // ask the machine first: memory that is promised but not there ends the process, not the call
  double bytes = 4.0 * (double)rows * (double)(2 * data->obs_dim + data->act_dim + 1);
  double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (bytes > memory) {
    return bfm_fail(BFM_NO_MEMORY,
                    "%" PRId64 " transitions need %.1f GB of memory, the machine has %.1f", rows,
                    bytes / 1e9, memory / 1e9);
  }
  TRY(grow_array(&data->obs, rows, data->obs_dim));
  TRY(grow_array(&data->act, rows, data->act_dim));
  TRY(grow_array(&data->next_obs, rows, data->obs_dim));
  return grow_array(&data->discount, rows, 1);
}

// fill ends [rows]: whether an episode ends with this row; discount becomes 0 at terminals
static int read_flags(hid_t file, const Layout *layout, float *discount, float *ends) {
  memset(ends, 0, layout->rows * sizeof *ends);
  if (layout->has_timeouts) TRY(hdf5_read(file, "timeouts", layout->rows, 1, ends));
  TRY(hdf5_read(file, "terminals", layout->rows, 1, discount));
  for (int64_t i = 0; i < layout->rows; i++) {
    ends[i] = ends[i] != 0 || discount[i] != 0 || i == layout->rows - 1;
    discount[i] = discount[i] == 0;
  }
  return BFM_OK;
}

// the successor of a row is the next row of its episode; an episode's last row has none and goes
static void take_successors(Dataset *data, int64_t rows, const float *ends) {
  int64_t o = data->obs_dim, a = data->act_dim, to = data->count;
  for (int64_t i = 0; i < rows; i++) {
    if (ends[i]) continue;
    int64_t from = data->count + i;
    memmove(data->next_obs + to * o, data->obs + (from + 1) * o, o * sizeof(float));
    memmove(data->obs + to * o, data->obs + from * o, o * sizeof(float));
    memmove(data->act + to * a, data->act + from * a, a * sizeof(float));
    data->discount[to] = data->discount[from];
    to++;
  }
  data->count = to;
}

static int read_rows(Dataset *data, hid_t file, const Layout *layout, float *ends) {
  int64_t o = data->obs_dim, a = data->act_dim, at = data->count, rows = layout->rows;
  TRY(hdf5_read(file, "observations", rows, o, data->obs + at * o));
  TRY(hdf5_read(file, "actions", rows, a, data->act + at * a));
  TRY(read_flags(file, layout, data->discount + at, ends));
  for (int64_t i = 0; i < rows; i++) data->episodes += ends[i] != 0;
  if (layout->has_next) {
    TRY(hdf5_read(file, "next_observations", rows, o, data->next_obs + at * o));
    data->count += rows;
  } else {
    take_successors(data, rows, ends);
  }
  return BFM_OK;
}

// the first file decides sizes and environment, the others must agree
static int agree(Dataset *data, const Layout *layout, const char *env, const char *first) {
  if (!data->obs_dim) {
    data->obs_dim = layout->obs_dim;
    data->act_dim = layout->act_dim;
  }
  if (data->obs_dim != layout->obs_dim || data->act_dim != layout->act_dim) {
    return bfm_fail(BFM_BAD_FILE,
                    "observations and actions have %" PRId64 " and %" PRId64
                    " columns, but those of %s"
                    " have %" PRId64 " and %" PRId64,
                    layout->obs_dim, layout->act_dim, first, data->obs_dim, data->act_dim);
  }
  if (*env && *data->env && strcmp(env, data->env)) {
    return bfm_fail(BFM_BAD_FILE, "the environment is %s, but that of the files before is %s", env,
                    data->env);
  }
  if (*env) strcpy(data->env, env);
  return BFM_OK;
}

static int read_file(Dataset *data, hid_t file, const char *first) {
  Layout layout = {0};
  TRY(read_layout(file, &layout));
  char env[sizeof data->env];
  hdf5_attribute(file, "env", env, sizeof env);
  TRY(agree(data, &layout, env, first));
  if (layout.rows == 0) return BFM_OK;

  TRY(grow(data, data->count + layout.rows));
  float *ends = malloc(layout.rows * sizeof *ends);
  if (!ends) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", layout.rows);
  int status = read_rows(data, file, &layout, ends);
  free(ends);
  return status;
}

static int read_files(Dataset *data, const char *const *paths, int path_count) {
  for (int i = 0; i < path_count; i++) {
    hid_t file;
    TRY(hdf5_open(&file, paths[i]));
    int status = read_file(data, file, paths[0]);
    H5Fclose(file);
    if (status) return bfm_fail_prefix(status, "%s: ", paths[i]);
  }
  if (data->count < 2) {
    return bfm_fail(BFM_BAD_FILE, "%s%s: %" PRId64 " transitions are too few to learn from",
                    path_count ? paths[0] : "no files", path_count > 1 ? " and the others" : "",
                    data->count);
  }
  return BFM_OK;
}

int dataset_read(Dataset *data, const char *const *paths, int path_count) {
  memset(data, 0, sizeof *data);
  Hdf5Errors errors = hdf5_silence();
  int status = read_files(data, paths, path_count);
  hdf5_restore(errors);
  if (status) dataset_free(data);
  return status;
}

void dataset_free(Dataset *data) {
  free(data->obs);
  free(data->act);
  free(data->next_obs);
  free(data->discount);
  memset(data, 0, sizeof *data);
}
