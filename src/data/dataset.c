// Datasets of the layouts the field uses. A file's tables are read straight into their final place,
// behind the rows of the files before it; rows without a successor are then squeezed out in place.

#include "data/dataset.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/hdf5.h"
#include "data/npz.h"

// ---------------------------------- rows in memory -----------------------------------------------

// an array of the dataset, and the bytes of a row
typedef struct {
  void **array;
  size_t bytes;
} Part;

#define PART_MAX 9

static int parts_of(Dataset *data, Part *parts) {
  const Part all[PART_MAX] = {
      {(void **)&data->obs, data->obs_dim * sizeof(float)},
      {(void **)&data->next_obs, data->obs_dim * sizeof(float)},
      {(void **)&data->act, data->act_dim * sizeof(float)},
      {(void **)&data->discount, sizeof(float)},
      {(void **)&data->ends, sizeof(uint8_t)},
      {(void **)&data->rewards, data->has_rewards ? sizeof(float) : 0},
      {(void **)&data->qpos, data->nq * sizeof(double)},
      {(void **)&data->qvel, data->nv * sizeof(double)},
      {(void **)&data->activation, data->na * sizeof(double)},
  };
  int count = 0;
  for (int i = 0; i < PART_MAX; i++) {
    if (all[i].bytes) parts[count++] = all[i];
  }
  return count;
}

static int grow(Dataset *data, int64_t rows) {
  if (rows <= data->capacity) return BFM_OK;
  Part parts[PART_MAX];
  int count = parts_of(data, parts);

  // ask the machine first: memory that is promised but not there ends the process, not the call
  double bytes = 0, memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < count; i++) bytes += (double)rows * (double)parts[i].bytes;
  if (bytes > memory) {
    return bfm_fail(BFM_NO_MEMORY,
                    "%" PRId64 " transitions need %.1f GB of memory, the machine has %.1f", rows,
                    bytes / 1e9, memory / 1e9);
  }
  for (int i = 0; i < count; i++) {
    void *larger = realloc(*parts[i].array, (size_t)rows * parts[i].bytes);
    if (!larger) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " transitions", rows);
    *parts[i].array = larger;
  }
  data->capacity = rows;
  return BFM_OK;
}

// room for an episode, with as much again so that many episodes do not move the rows many times
static int make_room(Dataset *data, int64_t rows) {
  if (data->count + rows <= data->capacity) return BFM_OK;
  return grow(data, 2 * data->count + rows);
}

// the first file decides sizes and environment, the others must agree
static int agree(Dataset *data, int64_t obs_dim, int64_t act_dim, const char *env,
                 const char *first) {
  if (!data->obs_dim) {
    data->obs_dim = obs_dim;
    data->act_dim = act_dim;
  }
  if (data->obs_dim != obs_dim || data->act_dim != act_dim) {
    return bfm_fail(BFM_BAD_FILE,
                    "observations and actions have %" PRId64 " and %" PRId64
                    " columns, but those of %s have %" PRId64 " and %" PRId64,
                    obs_dim, act_dim, first, data->obs_dim, data->act_dim);
  }
  if (*env && *data->env && strcmp(env, data->env)) {
    return bfm_fail(BFM_BAD_FILE, "the environment is %s, but that of the files before is %s", env,
                    data->env);
  }
  if (*env) strcpy(data->env, env);
  return BFM_OK;
}

static void drop_rewards(Dataset *data) {
  free(data->rewards);
  data->rewards = NULL;
  data->has_rewards = 0;
}

static void drop_states(Dataset *data) {
  free(data->qpos);
  free(data->qvel);
  free(data->activation);
  data->qpos = data->qvel = data->activation = NULL;
  data->nq = data->nv = data->na = 0;
}

// ---------------------------------- D4RL ---------------------------------------------------------

typedef struct {
  int64_t rows, obs_dim, act_dim;
  int64_t nq, nv, na;
  int64_t planned;  // -1: not written in a stream, where tables may differ in their last rows
  int has_next, has_timeouts, has_rewards;
} Layout;

static int check_rows(Layout *layout, const char *name, int64_t rows) {
  int loose = layout->planned >= 0;
  if (layout->rows < 0 || (loose && rows < layout->rows)) layout->rows = rows;
  if (loose || layout->rows == rows) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " rows, but observations has %" PRId64, name,
                  rows, layout->rows);
}

static int check_table(hid_t file, const char *name, Layout *layout, int64_t *columns) {
  int64_t rows = 0;
  int axes = 0;
  TRY(hdf5_shape(file, name, &rows, columns, &axes));
  if (axes != 2) return bfm_fail(BFM_BAD_FILE, "%s has %d axis, but must have 2", name, axes);
  if (*columns == 0) return bfm_fail(BFM_BAD_FILE, "%s has no columns", name);
  return check_rows(layout, name, rows);
}

// [rows] or [rows, 1]
static int check_column(hid_t file, const char *name, Layout *layout) {
  int64_t rows = 0, columns = 0;
  int axes;
  TRY(hdf5_shape(file, name, &rows, &columns, &axes));
  if (columns != 1) {
    return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " columns, but must have 1", name, columns);
  }
  return check_rows(layout, name, rows);
}

static int check_states(hid_t file, Layout *layout) {
  if (!hdf5_has(file, "infos") || !hdf5_has(file, "infos/qpos") || !hdf5_has(file, "infos/qvel")) {
    return BFM_OK;
  }
  TRY(check_table(file, "infos/qpos", layout, &layout->nq));
  TRY(check_table(file, "infos/qvel", layout, &layout->nv));
  return hdf5_has(file, "infos/act") ? check_table(file, "infos/act", layout, &layout->na) : BFM_OK;
}

static int read_layout(hid_t file, Layout *layout) {
  layout->rows = -1;
  layout->planned = hdf5_attribute_number(file, "planned_rows", -1);
  TRY(check_table(file, "observations", layout, &layout->obs_dim));
  TRY(check_table(file, "actions", layout, &layout->act_dim));
  TRY(check_column(file, "terminals", layout));

  layout->has_timeouts = hdf5_has(file, "timeouts");
  if (layout->has_timeouts) TRY(check_column(file, "timeouts", layout));
  layout->has_rewards = hdf5_has(file, "rewards");
  if (layout->has_rewards) TRY(check_column(file, "rewards", layout));

  layout->has_next = hdf5_has(file, "next_observations");
  if (layout->has_next) {
    int64_t columns = 0;
    TRY(check_table(file, "next_observations", layout, &columns));
    if (columns != layout->obs_dim) {
      return bfm_fail(BFM_BAD_FILE,
                      "next_observations has %" PRId64 " columns, but observations has %" PRId64,
                      columns, layout->obs_dim);
    }
  }
  return check_states(file, layout);
}

// the successor of a row is the next row of its episode; an episode's last row has none and goes
static void take_successors(Dataset *data, int64_t rows) {
  Part parts[PART_MAX];
  int count = parts_of(data, parts);
  int64_t o = data->obs_dim, to = data->count;
  for (int64_t i = 0; i < rows; i++) {
    int64_t from = data->count + i;
    if (data->ends[from]) continue;
    int last = data->ends[from + 1];
    for (int k = 0; k < count; k++) {
      char *array = *parts[k].array;
      memmove(array + to * parts[k].bytes, array + from * parts[k].bytes, parts[k].bytes);
    }
    memmove(data->next_obs + to * o, data->obs + (from + 1) * o, o * sizeof(float));
    data->ends[to++] = last;
  }
  data->count = to;
}

// what one file lacks, the dataset lacks
static int read_extras(Dataset *data, hid_t file, const Layout *layout) {
  int64_t at = data->count, rows = layout->rows;
  if (!layout->has_rewards) drop_rewards(data);
  if (data->rewards) TRY(hdf5_read(file, "rewards", rows, 1, data->rewards + at));
  if (data->nq != layout->nq || data->nv != layout->nv || data->na != layout->na) drop_states(data);
  if (!data->nq) return BFM_OK;
  TRY(hdf5_read_doubles(file, "infos/qpos", rows, data->nq, data->qpos + at * data->nq));
  TRY(hdf5_read_doubles(file, "infos/qvel", rows, data->nv, data->qvel + at * data->nv));
  if (!data->na) return BFM_OK;
  return hdf5_read_doubles(file, "infos/act", rows, data->na, data->activation + at * data->na);
}

static int read_rows(Dataset *data, hid_t file, const Layout *layout, uint8_t *terminals) {
  int64_t o = data->obs_dim, a = data->act_dim, at = data->count, rows = layout->rows;
  TRY(hdf5_read(file, "observations", rows, o, data->obs + at * o));
  TRY(hdf5_read(file, "actions", rows, a, data->act + at * a));
  if (data->extras) TRY(read_extras(data, file, layout));

  uint8_t *ends = data->ends + at;
  memset(ends, 0, rows);
  if (layout->has_timeouts) TRY(hdf5_read_flags(file, "timeouts", rows, ends));
  TRY(hdf5_read_flags(file, "terminals", rows, terminals));
  for (int64_t i = 0; i < rows; i++) {
    ends[i] |= terminals[i] | (i == rows - 1);
    data->episodes += ends[i];
    data->discount[at + i] = !terminals[i];
  }
  if (layout->has_next) {
    TRY(hdf5_read(file, "next_observations", rows, o, data->next_obs + at * o));
    data->count += rows;
  } else {
    take_successors(data, rows);
  }
  return BFM_OK;
}

static int read_d4rl(Dataset *data, hid_t file, const char *first) {
  Layout layout = {0};
  TRY(read_layout(file, &layout));
  char env[sizeof data->env];
  hdf5_attribute(file, "env", env, sizeof env);
  int is_first = !data->obs_dim;
  TRY(agree(data, layout.obs_dim, layout.act_dim, env, first));
  if (is_first && data->extras) {
    data->nq = layout.nq;
    data->nv = layout.nv;
    data->na = layout.na;
  }
  data->cut_short |= layout.rows < layout.planned;
  if (layout.rows == 0) return BFM_OK;

  TRY(grow(data, data->count + layout.rows));
  uint8_t *terminals = malloc(layout.rows);
  if (!terminals) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", layout.rows);
  int status = read_rows(data, file, &layout, terminals);
  free(terminals);
  return status;
}

// ---------------------------------- Minari -------------------------------------------------------

// an episode's observations have one row more than its actions
static int read_episode(Dataset *data, hid_t group, const char *env, const char *first) {
  int64_t n = 0, obs_dim = 0, act_dim = 0, rows = 0;
  int axes;
  TRY(hdf5_shape(group, "actions", &n, &act_dim, &axes));
  TRY(hdf5_shape(group, "observations", &rows, &obs_dim, &axes));
  if (rows != n + 1) {
    return bfm_fail(BFM_BAD_FILE,
                    "observations has %" PRId64
                    " rows, but must have one more than actions, %" PRId64,
                    rows, n);
  }
  TRY(agree(data, obs_dim, act_dim, env, first));
  TRY(make_room(data, rows));

  int64_t at = data->count;
  float *obs = data->obs + at * obs_dim, *act = data->act + at * act_dim;
  TRY(hdf5_read(group, "observations", rows, obs_dim, obs));
  TRY(hdf5_read(group, "actions", n, act_dim, act));
  if (data->rewards && !hdf5_has(group, "rewards")) drop_rewards(data);
  if (data->rewards) TRY(hdf5_read(group, "rewards", n, 1, data->rewards + at));
  TRY(hdf5_read_flags(group, "terminations", n, data->ends + at));
  if (n == 0) return BFM_OK;

  memcpy(data->next_obs + at * obs_dim, obs + obs_dim, n * obs_dim * sizeof(float));
  for (int64_t i = at; i < at + n; i++) {
    data->discount[i] = !data->ends[i];
    data->ends[i] |= i == at + n - 1;
    data->episodes += data->ends[i];
  }
  data->count += n;
  return BFM_OK;
}

static int read_minari(Dataset *data, hid_t file, const char *first) {
  char env[sizeof data->env], name[32];
  hdf5_attribute(file, "env", env, sizeof env);
  drop_states(data);
  H5G_info_t info;
  if (H5Gget_info(file, &info) < 0) return bfm_fail(BFM_BAD_FILE, "its episodes cannot be listed");
  for (hsize_t k = 0; k < info.nlinks; k++) {
    snprintf(name, sizeof name, "episode_%" PRIu64, (uint64_t)k);
    hid_t group = hdf5_has(file, name) ? H5Gopen2(file, name, H5P_DEFAULT) : H5I_INVALID_HID;
    if (group < 0) {
      return bfm_fail(BFM_BAD_FILE, "%s is missing among %" PRIu64 " episodes", name,
                      (uint64_t)info.nlinks);
    }
    int status = read_episode(data, group, env, first);
    H5Gclose(group);
    if (status) return bfm_fail_prefix(status, "%s: ", name);
  }
  return BFM_OK;
}

static int read_hdf5(Dataset *data, const char *path, const char *first) {
  hid_t file;
  TRY(hdf5_open(&file, path));
  int minari = hdf5_has(file, "episode_0") && !hdf5_has(file, "observations");
  int status = (minari ? read_minari : read_d4rl)(data, file, first);
  H5Fclose(file);
  return status ? bfm_fail_prefix(status, "%s: ", path) : BFM_OK;
}

// ---------------------------------- ExORL --------------------------------------------------------

// row t of an episode is the observation at t, and the action, reward and discount that led to it:
// those of row 0 are dummies
enum { NPZ_OBS, NPZ_ACT, NPZ_DISCOUNT, NPZ_REWARD, NPZ_COUNT };

typedef struct {
  double *values;
  int64_t rows, columns;
} Array;

static int read_arrays(const Npz *npz, Array *arrays, int extras) {
  static const struct {
    const char *name;
    int needed;
  } names[NPZ_COUNT] = {{"observation", 1}, {"action", 1}, {"discount", 0}, {"reward", 0}};
  for (int i = 0; i < NPZ_COUNT; i++) {
    if (i == NPZ_REWARD && !extras) continue;
    if (!names[i].needed && !npz_has(npz, names[i].name)) continue;
    Array *array = &arrays[i];
    TRY(npz_read(npz, names[i].name, &array->rows, &array->columns, &array->values));
    if (array->rows != arrays[NPZ_OBS].rows || (i >= NPZ_DISCOUNT && array->columns != 1)) {
      return bfm_fail(BFM_BAD_FILE,
                      "%s is %" PRId64 " x %" PRId64 ", but observation has %" PRId64 " rows",
                      names[i].name, array->rows, array->columns, arrays[NPZ_OBS].rows);
    }
    for (int64_t k = 0; k < array->rows * array->columns; k++) {
      if (isfinite((float)array->values[k])) continue;
      return bfm_fail(BFM_BAD_FILE, "%s has %s at row %" PRId64 ", column %" PRId64, names[i].name,
                      isnan(array->values[k]) ? "NaN" : "an infinity", k / array->columns,
                      k % array->columns);
    }
  }
  return arrays[NPZ_OBS].rows > 0 ? BFM_OK : bfm_fail(BFM_BAD_FILE, "the episode has no rows");
}

static void to_floats(const double *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; i++) to[i] = (float)from[i];
}

static int take_arrays(Dataset *data, const Array *arrays, const char *first) {
  int64_t n = arrays[NPZ_OBS].rows - 1, o = arrays[NPZ_OBS].columns, a = arrays[NPZ_ACT].columns;
  TRY(agree(data, o, a, "", first));
  TRY(make_room(data, n));
  int64_t at = data->count;
  const double *obs = arrays[NPZ_OBS].values, *discount = arrays[NPZ_DISCOUNT].values;
  to_floats(obs, n * o, data->obs + at * o);
  to_floats(obs + o, n * o, data->next_obs + at * o);
  to_floats(arrays[NPZ_ACT].values + a, n * a, data->act + at * a);
  if (data->rewards && !arrays[NPZ_REWARD].values) drop_rewards(data);
  if (data->rewards) to_floats(arrays[NPZ_REWARD].values + 1, n, data->rewards + at);
  for (int64_t i = 0; i < n; i++) {
    data->discount[at + i] = !discount || discount[i + 1] != 0;
    data->ends[at + i] = i == n - 1 || !data->discount[at + i];
    data->episodes += data->ends[at + i];
  }
  data->count += n;
  return BFM_OK;
}

static int read_npz(Dataset *data, const char *path, const char *first) {
  Npz *npz;
  Array arrays[NPZ_COUNT] = {{0}};
  TRY(npz_open(&npz, path));
  drop_states(data);
  int status = read_arrays(npz, arrays, data->extras);
  if (!status) status = take_arrays(data, arrays, first);
  for (int i = 0; i < NPZ_COUNT; i++) free(arrays[i].values);
  npz_close(npz);
  return status ? bfm_fail_prefix(status, "%s: ", path) : BFM_OK;
}

static int is_npz(const struct dirent *entry) {
  size_t n = strlen(entry->d_name);
  return n > 4 && !strcmp(entry->d_name + n - 4, ".npz");
}

// episodes in the order of their names; or Minari's folder, which has its file inside
static int read_folder(Dataset *data, const char *path, const char *first) {
  char name[PATH_MAX];
  snprintf(name, sizeof name, "%s/data/main_data.hdf5", path);
  if (!access(name, F_OK)) return read_hdf5(data, name, first);

  struct dirent **entries;
  int count = scandir(path, &entries, is_npz, alphasort), status = BFM_OK;
  if (count <= 0) {
    if (count == 0) free(entries);
    return bfm_fail(BFM_BAD_FILE, "%s is a folder without .npz episodes", path);
  }
  for (int i = 0; i < count; i++) {
    snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
    if (!status) status = read_npz(data, name, first);
    free(entries[i]);
  }
  free(entries);
  return status;
}

// ---------------------------------- any of them --------------------------------------------------

static int read_path(Dataset *data, const char *path, const char *first) {
  struct stat info;
  size_t n = strlen(path);
  if (!stat(path, &info) && S_ISDIR(info.st_mode)) return read_folder(data, path, first);
  if (n > 4 && !strcmp(path + n - 4, ".npz")) return read_npz(data, path, first);
  return read_hdf5(data, path, first);
}

static int read_files(Dataset *data, const char *const *paths, int path_count) {
  for (int i = 0; i < path_count; i++) TRY(read_path(data, paths[i], paths[0]));
  if (data->count < 2) {
    return bfm_fail(BFM_BAD_FILE, "%s%s: %" PRId64 " transitions are too few to learn from",
                    path_count ? paths[0] : "no files", path_count > 1 ? " and the others" : "",
                    data->count);
  }
  return BFM_OK;
}

static int read_with(Dataset *data, const char *const *paths, int path_count, int extras) {
  *data = (Dataset){.extras = extras, .has_rewards = extras};
  Hdf5Errors errors = hdf5_silence();
  int status = read_files(data, paths, path_count);
  hdf5_restore(errors);
  if (status) dataset_free(data);
  return status;
}

int dataset_read(Dataset *data, const char *const *paths, int path_count) {
  return read_with(data, paths, path_count, 0);
}

int dataset_read_all(Dataset *data, const char *const *paths, int path_count) {
  return read_with(data, paths, path_count, 1);
}

void dataset_free(Dataset *data) {
  free(data->obs);
  free(data->act);
  free(data->next_obs);
  free(data->discount);
  free(data->ends);
  drop_rewards(data);
  drop_states(data);
  memset(data, 0, sizeof *data);
}
