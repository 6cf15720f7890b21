// ExORL's format: one .npz file per episode, or a folder of them. Row t holds the observation at time
// t, and the action, reward and discount that led to it. Those of row 0 are placeholders.

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files.h"
#include "data/format.h"
#include "data/npz.h"

enum { NPZ_OBS, NPZ_ACT, NPZ_DISCOUNT, NPZ_REWARD, NPZ_PHYSICS, NPZ_COUNT };

typedef struct {
  double *values;  // [rows, columns], NULL when the file does not have the array
  int64_t rows, columns;
} Array;

static int check_array(const char *name, const Array *array) {
  for (int64_t k = 0; k < array->rows * array->columns; k++) {
    if (isfinite((float)array->values[k])) continue;
    return bfm_fail(BFM_BAD_FILE, "%s has %s at row %" PRId64 ", column %" PRId64, name,
                    isnan(array->values[k]) ? "NaN" : "an infinity", k / array->columns,
                    k % array->columns);
  }
  return BFM_OK;
}

static int read_arrays(const Npz *npz, Array *arrays, int with_extras) {
  static const struct {
    const char *name;
    int needed, single_column;
  } names[NPZ_COUNT] = {{"observation", 1, 0},
                        {"action", 1, 0},
                        {"discount", 0, 1},
                        {"reward", 0, 1},
                        {"physics", 0, 0}};
  for (int i = 0; i < NPZ_COUNT; i++) {
    if (i >= NPZ_REWARD && !with_extras) continue;
    if (!names[i].needed && !npz_has(npz, names[i].name)) continue;
    Array *array = &arrays[i];
    TRY(npz_read(npz, names[i].name, &array->rows, &array->columns, &array->values));
    if (array->rows != arrays[NPZ_OBS].rows || (names[i].single_column && array->columns != 1)) {
      return bfm_fail(BFM_BAD_FILE,
                      "%s is %" PRId64 " x %" PRId64 ", but observation has %" PRId64 " rows",
                      names[i].name, array->rows, array->columns, arrays[NPZ_OBS].rows);
    }
    TRY(check_array(names[i].name, array));
  }
  return arrays[NPZ_OBS].rows > 0 ? BFM_OK : bfm_fail(BFM_BAD_FILE, "the episode has no rows");
}

static void to_floats(const double *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; i++) to[i] = (float)from[i];
}

static int append_episode(Dataset *data, const Array *arrays) {
  int64_t n = arrays[NPZ_OBS].rows - 1, o = arrays[NPZ_OBS].columns, a = arrays[NPZ_ACT].columns;
  const Array *physics = &arrays[NPZ_PHYSICS];
  if (!data->obs_dim) data->physics_dim = physics->columns;
  if (!physics->columns || physics->columns != data->physics_dim) {
    parts_drop(data, BIT(PART_PHYSICS));
  }
  TRY(dataset_agree(data, o, a, ""));
  TRY(parts_reserve(data, n));
  int64_t at = data->count;
  const double *obs = arrays[NPZ_OBS].values, *discount = arrays[NPZ_DISCOUNT].values;
  to_floats(obs, n * o, data->obs + at * o);
  to_floats(obs + o, n * o, data->next_obs + at * o);
  to_floats(arrays[NPZ_ACT].values + a, n * a, data->act + at * a);
  const double *reward = arrays[NPZ_REWARD].values;
  if (!reward) parts_drop(data, BIT(PART_REWARDS));
  if (reward && data->rewards) to_floats(reward + 1, n, data->rewards + at);
  if (data->physics) {
    memcpy(part_at(data, PART_PHYSICS, at), physics->values,
           n * part_row_bytes(data, PART_PHYSICS));
  }
  for (int64_t i = 0; i < n; i++) {
    data->discount[at + i] = !discount || discount[i + 1] != 0;
    data->ends[at + i] = i == n - 1 || !data->discount[at + i];
    data->episodes += data->ends[at + i];
  }
  data->count += n;
  return BFM_OK;
}

static int read_episode(Dataset *data, const char *path) {
  Npz *npz;
  Array arrays[NPZ_COUNT] = {{0}};
  TRY(npz_open(&npz, path));
  parts_drop(data, PARTS_STATES | (PARTS_INFOS & ~BIT(PART_PHYSICS)));
  dataset_clear_notes(data);
  int status = read_arrays(npz, arrays, data->with_extras);
  if (!status) status = append_episode(data, arrays);
  for (int i = 0; i < NPZ_COUNT; i++) free(arrays[i].values);
  npz_close(npz);
  return status ? bfm_fail_prefix(status, "%s: ", path) : BFM_OK;
}

static int is_episode(const struct dirent *entry) { return path_is_npz(entry->d_name); }

// reads the episodes in the order of their names
static int read_folder(Dataset *data, const char *path) {
  char name[PATH_MAX];
  struct dirent **entries;
  int count = scandir(path, &entries, is_episode, alphasort), status = BFM_OK;
  if (count <= 0) {
    if (count == 0) free(entries);
    return bfm_fail(BFM_BAD_FILE, "%s is a folder without .npz episodes", path);
  }
  for (int i = 0; i < count; i++) {
    snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
    if (!status) status = read_episode(data, name);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static int matches(const char *path, hid_t file) {
  (void)path;
  return file < 0;
}

static int read_any(Dataset *data, const char *path, hid_t file) {
  (void)file;
  return path_is_folder(path) ? read_folder(data, path) : read_episode(data, path);
}

const Format format_exorl = {"ExORL", matches, read_any};
