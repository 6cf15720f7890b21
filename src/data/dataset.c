// Datasets of the layouts the field uses. A file's tables are read straight into their final place,
// behind the rows of the files before it; rows without a successor are then squeezed out in place.
// The tables of a single file that need no conversion are mapped instead.

#include "data/dataset.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/rng.h"
#include "data/hdf5.h"
#include "data/npz.h"
#include "data/hdf5_probe.h"

// ---------------------------------- rows in memory -----------------------------------------------

#define AT(field) offsetof(Dataset, field)

static const struct {
  const char *name;  // of the table in files
  ColumnType type;
  size_t rows, columns;  // where the dataset has them; columns 0: one
} part_table[PART_COUNT] = {
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

#define BIT(part) (1u << (part))
#define PARTS_ALL (BIT(PART_COUNT) - 1)
#define PARTS_STATES (BIT(PART_QPOS) | BIT(PART_QVEL) | BIT(PART_ACTIVATION))
#define PARTS_INFOS \
  (BIT(PART_PHYSICS) | BIT(PART_SOURCE) | BIT(PART_TASK) | BIT(PART_STEP) | BIT(PART_EPISODE))
#define PARTS_NEEDED \
  (BIT(PART_OBS) | BIT(PART_ACT) | BIT(PART_NEXT_OBS) | BIT(PART_DISCOUNT) | BIT(PART_ENDS))

static void **part_rows(const Dataset *data, int part) {
  return (void **)((char *)data + part_table[part].rows);
}

static int64_t *part_columns(const Dataset *data, int part) {
  size_t at = part_table[part].columns;
  return at ? (int64_t *)((char *)data + at) : NULL;
}

static int has_part(const Dataset *data, int part) { return data->parts >> part & 1; }

static Table table_of(const Dataset *data, int part) {
  const int64_t *columns = part_columns(data, part);
  return (Table){part_table[part].name, part_table[part].type, columns ? *columns : 0};
}

static size_t part_bytes(const Dataset *data, int part) {
  Table table = table_of(data, part);
  return table_row_bytes(&table);
}

// where row i of a part is
static void *part_at(const Dataset *data, int part, int64_t i) {
  return (char *)*part_rows(data, part) + (size_t)i * part_bytes(data, part);
}

int dataset_parts(const Dataset *data, Part *parts) {
  int count = 0;
  for (int k = 0; k < PART_DISCOUNT; k++) {
    if (has_part(data, k)) parts[count++] = (Part){table_of(data, k), *part_rows(data, k)};
  }
  return count;
}

static void drop(Dataset *data, uint32_t parts) {
  for (int k = 0; k < PART_COUNT; k++) {
    if (!(parts & data->parts & BIT(k))) continue;
    block_free(&data->blocks[k]);
    *part_rows(data, k) = NULL;
    data->parts &= ~BIT(k);
  }
  if (parts & BIT(PART_QPOS)) data->nq = data->nv = data->na = 0;
}

static int is_mapped(const Dataset *data, int part) {
  return data->blocks[part].mapped && !data->blocks[part].file;
}

// what takes more than half of the memory goes into files
static int grow(Dataset *data, int64_t rows) {
  if (rows <= data->capacity) return BFM_OK;
  double bytes = 0, memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  for (int k = 0; k < PART_COUNT; k++) {
    if (has_part(data, k) && !is_mapped(data, k)) {
      bytes += (double)rows * (double)part_bytes(data, k);
    }
  }
  if (bytes >= 0x1p62) {
    return bfm_fail(BFM_NO_MEMORY, "%" PRId64 " transitions of %.0f bytes fit no machine", rows,
                    bytes / (double)rows);
  }
  hdf5_probe_rest();  // the rows before may move into files
  for (int k = 0; k < PART_COUNT; k++) {
    if (!has_part(data, k) || is_mapped(data, k)) continue;
    TRY(block_grow(&data->blocks[k], part_rows(data, k), (size_t)rows * part_bytes(data, k),
                   bytes > memory / 2));
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
  if (!obs_dim || !act_dim) {
    return bfm_fail(BFM_BAD_FILE, "%s have no columns", obs_dim ? "actions" : "observations");
  }
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

// ---------------------------------- notes --------------------------------------------------------

// notes that are a JSON list of names, and the part that has indices into it
static const struct {
  const char *note;
  int part;
} lists[] = {{"sources", PART_SOURCE}, {"tasks", PART_TASK}};
#define LIST_COUNT ((int)(sizeof lists / sizeof *lists))

static int is_list(const char *note) {
  for (int i = 0; i < LIST_COUNT; i++) {
    if (!strcmp(note, lists[i].note)) return 1;
  }
  return 0;
}

static const char *find_note(const Note *notes, int count, const char *name) {
  for (int i = 0; i < count; i++) {
    if (!strcmp(notes[i].name, name)) return notes[i].text;
  }
  return NULL;
}

// the first file's notes; of another file's those that say the same remain
static void take_notes(Dataset *data, const Note *notes, int count) {
  if (!data->notes) {
    data->notes = cJSON_CreateObject();
    for (int i = 0; i < count; i++) {
      if (strcmp(notes[i].name, "env") && strcmp(notes[i].name, "bfm")) {
        cJSON_AddStringToObject(data->notes, notes[i].name, notes[i].text);
      }
    }
    return;
  }
  for (cJSON *item = data->notes->child, *next; item; item = next) {
    next = item->next;
    const char *text = find_note(notes, count, item->string);
    if (text && (is_list(item->string) || !strcmp(text, item->valuestring))) continue;
    cJSON_Delete(cJSON_DetachItemViaPointer(data->notes, item));
  }
}

static int index_of(const cJSON *names, const cJSON *name) {
  int i = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, names) {
    if (cJSON_Compare(item, name, 1)) return i;
    i++;
  }
  return -1;
}

// give the indices of a file's rows, from the first on, into its list the meaning they have in the
// common one, to which its names are added
static int join_lists(Dataset *data, int part, cJSON *common, const cJSON *names, int64_t first) {
  int32_t *indices = part_at(data, part, first);
  int64_t rows = data->count - first;
  int size = cJSON_GetArraySize(names), changed = 0, same = cJSON_Compare(common, names, 1);
  int32_t *to = malloc((size_t)(size + 1) * sizeof *to);
  if (!to) return bfm_fail(BFM_NO_MEMORY, "no memory for %d names", size);
  for (int i = 0; i < size; i++) {
    const cJSON *name = cJSON_GetArrayItem(names, i);
    to[i] = same ? i : index_of(common, name);
    if (to[i] < 0) {
      to[i] = cJSON_GetArraySize(common);
      cJSON_AddItemToArray(common, cJSON_Duplicate(name, 1));
    }
    changed |= to[i] != i;
  }
  int status = BFM_OK;
  for (int64_t i = 0; i < rows && !status; i++) {
    if (indices[i] < -1 || indices[i] >= size) {
      status =
          bfm_fail(BFM_BAD_FILE, "%s has %" PRId32 " at row %" PRId64 ", but its list has %d names",
                   part_table[part].name, indices[i], i, size);
    } else if (changed && indices[i] >= 0) {
      indices[i] = to[indices[i]];
    }
  }
  free(to);
  return status;
}

static int take_lists(Dataset *data, const Note *notes, int count, int64_t first) {
  for (int k = 0; k < LIST_COUNT; k++) {
    const char *name = lists[k].note, *text = find_note(notes, count, name);
    const cJSON *note = cJSON_GetObjectItem(data->notes, name);
    if (!note || !has_part(data, lists[k].part)) continue;
    cJSON *names = cJSON_Parse(text), *common = cJSON_Parse(note->valuestring);
    int good = cJSON_IsArray(names) && cJSON_IsArray(common);
    int status = good ? join_lists(data, lists[k].part, common, names, first)
                      : bfm_fail(BFM_BAD_FILE, "its note \"%s\" is no list: %.64s", name, text);
    char *joined = good ? cJSON_PrintUnformatted(common) : NULL;
    if (joined) cJSON_ReplaceItemInObject(data->notes, name, cJSON_CreateString(joined));
    free(joined);
    cJSON_Delete(names);
    cJSON_Delete(common);
    TRY(status);
  }
  return BFM_OK;
}

static int take_all_notes(Dataset *data, hid_t file, int64_t first) {
  Note *notes;
  int count;
  TRY(hdf5_notes(file, &notes, &count));
  take_notes(data, notes, count);
  int status = take_lists(data, notes, count, first);
  free(notes);
  return status;
}

// ---------------------------------- D4RL ---------------------------------------------------------

typedef struct {
  int64_t rows;
  int64_t columns[PART_COUNT];  // 0: the table is not there
  int64_t planned;  // -1: not written in a stream, where tables may differ in their last rows
  int has_timeouts;
} Layout;

static int check_rows(Layout *layout, const char *name, int64_t rows) {
  int loose = layout->planned >= 0;
  if (layout->rows < 0 || (loose && rows < layout->rows)) layout->rows = rows;
  if (loose || layout->rows == rows) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " rows, but observations has %" PRId64, name,
                  rows, layout->rows);
}

// [rows, columns]; the states of most domains have no activations, [rows, 0]
static int check_table(hid_t file, const char *name, Layout *layout, int64_t *columns) {
  int64_t rows = 0;
  int axes = 0;
  TRY(hdf5_shape(file, name, &rows, columns, &axes));
  if (axes != 2) return bfm_fail(BFM_BAD_FILE, "%s has %d axis, but must have 2", name, axes);
  if (*columns == 0 && strcmp(name, part_table[PART_ACTIVATION].name)) {
    return bfm_fail(BFM_BAD_FILE, "%s has no columns", name);
  }
  return check_rows(layout, name, rows);
}

// [rows] or [rows, 1]
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
  for (int k = 0; k < PART_DISCOUNT; k++) {
    const char *name = part_table[k].name;
    int needed = k == PART_OBS || k == PART_ACT;
    if (!needed && !hdf5_has(file, name)) continue;
    TRY((part_table[k].columns ? check_table : check_column)(file, name, layout, &columns[k]));
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

// what one file lacks, the dataset lacks
static void agree_extras(Dataset *data, const Layout *layout, int is_first) {
  int64_t nq = layout->columns[PART_QPOS], nv = layout->columns[PART_QVEL];
  int64_t na = layout->columns[PART_ACTIVATION];
  if (is_first && data->extras) {
    data->nq = nq;
    data->nv = nv;
    data->na = na;
    if (!na) drop(data, BIT(PART_ACTIVATION));
    data->physics_dim = layout->columns[PART_PHYSICS];
  }
  if (data->physics_dim != layout->columns[PART_PHYSICS]) drop(data, BIT(PART_PHYSICS));
  if (!nq || data->nq != nq || data->nv != nv || data->na != na) drop(data, PARTS_STATES);
  for (int k = 0; k < PART_DISCOUNT; k++) {
    if (!(PARTS_NEEDED & BIT(k)) && !layout->columns[k]) drop(data, BIT(k));
  }
}

// the successor of a row is the next row of its episode; an episode's last row has none and goes,
// and with it an episode that has no other
static void take_successors(Dataset *data, int64_t rows) {
  int64_t o = data->obs_dim, to = data->count;
  for (int64_t i = 0; i < rows; i++) {
    int64_t from = data->count + i;
    data->episodes -= data->ends[from];
    if (data->ends[from]) continue;
    int last = data->ends[from + 1];
    data->episodes += last;
    for (int k = 0; k < PART_COUNT; k++) {
      if (!has_part(data, k)) continue;
      memmove(part_at(data, k, to), part_at(data, k, from), part_bytes(data, k));
    }
    memmove(data->next_obs + to * o, data->obs + (from + 1) * o, o * sizeof(float));
    data->ends[to++] = last;
  }
  data->count = to;
}

// in the file that HDF5 has open
static int map_part(Dataset *data, hid_t file, int part, int64_t rows) {
  int fd;
  off_t offset;
  Table table = table_of(data, part);
  size_t bytes = (size_t)rows * table_row_bytes(&table);
  if (!hdf5_place(file, table.name, table.type, bytes, &fd, &offset)) return BFM_OK;
  return block_map(&data->blocks[part], part_rows(data, part), fd, offset, bytes);
}

static int read_part(Dataset *data, hid_t file, int part, int64_t rows) {
  Table table = table_of(data, part);
  int64_t columns = table.columns ? table.columns : 1;
  void *out = part_at(data, part, data->count);
  if (!is_mapped(data, part)) {
    TRY(hdf5_read_as(file, table.name, table.type, rows, columns, out));
  }
  return hdf5_check(table.name, table.type, rows, columns, data->ends + data->count, out);
}

static int read_flags(Dataset *data, hid_t file, const Layout *layout) {
  int64_t rows = layout->rows;
  uint8_t *ends = data->ends + data->count, *terminals = malloc(rows);
  if (!terminals) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", rows);
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
  for (int k = 0; k < PART_DISCOUNT && data->alone && has_next; k++) {
    if (has_part(data, k)) TRY(map_part(data, file, k, rows));
  }
  TRY(grow(data, data->count + rows));
  TRY(read_flags(data, file, layout));
  for (int k = 0; k < PART_DISCOUNT; k++) {
    if (has_part(data, k) && layout->columns[k]) TRY(read_part(data, file, k, rows));
  }
  if (has_next || hdf5_probing())  // where rows go in memory harms nobody
    data->count += rows;
  else take_successors(data, rows);
  return BFM_OK;
}

static int read_d4rl(Dataset *data, hid_t file, const char *first) {
  Layout layout = {0};
  TRY(read_layout(file, &layout));
  char env[sizeof data->env];
  hdf5_attribute(file, "env", env, sizeof env);
  int is_first = !data->obs_dim;
  TRY(agree(data, layout.columns[PART_OBS], layout.columns[PART_ACT], env, first));
  data->cut_short |= layout.rows < layout.planned;
  agree_extras(data, &layout, is_first);
  return layout.rows ? read_rows(data, file, &layout) : BFM_OK;
}

// ---------------------------------- Minari -------------------------------------------------------

// an episode's observations have one row more than its actions; of a dictionary with goals beside
// it, the observation alone is read: what is wanted, z says
static int read_episode(Dataset *data, hid_t group, const char *env, const char *first) {
  static const char entry[] = "observations/observation";
  const char *name = hdf5_has(group, entry) ? entry : "observations";
  int64_t n = 0, obs_dim = 0, act_dim = 0, rows = 0;
  int axes;
  TRY(hdf5_shape(group, "actions", &n, &act_dim, &axes));
  TRY(hdf5_shape(group, name, &rows, &obs_dim, &axes));
  if (rows != n + 1) {
    return bfm_fail(BFM_BAD_FILE,
                    "%s has %" PRId64 " rows, but must have one more than actions, %" PRId64, name,
                    rows, n);
  }
  TRY(agree(data, obs_dim, act_dim, env, first));
  TRY(make_room(data, rows));

  int64_t at = data->count;
  float *obs = data->obs + at * obs_dim, *act = data->act + at * act_dim;
  TRY(hdf5_read(group, name, rows, obs_dim, obs));
  TRY(hdf5_read(group, "actions", n, act_dim, act));
  if (!hdf5_has(group, "rewards")) drop(data, BIT(PART_REWARDS));
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
  drop(data, PARTS_STATES | PARTS_INFOS);
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

typedef struct {
  Dataset *data;
  const char *path, *first;
} Hdf5Path;

static int read_open(hid_t file, void *context) {
  const Hdf5Path *p = context;
  int minari = hdf5_has(file, "episode_0") && !hdf5_has(file, "observations");
  int64_t before = p->data->count;
  int status = (minari ? read_minari : read_d4rl)(p->data, file, p->first);
  if (!status && p->data->extras) status = take_all_notes(p->data, file, before);
  return status ? bfm_fail_prefix(status, "%s: ", p->path) : BFM_OK;
}

static int read_hdf5(Dataset *data, const char *path, const char *first) {
  return hdf5_use(path, read_open, &(Hdf5Path){data, path, first});
}

// ---------------------------------- ExORL --------------------------------------------------------

// row t of an episode is the observation at t, and the action, reward and discount that led to it:
// those of row 0 are dummies
enum { NPZ_OBS, NPZ_ACT, NPZ_DISCOUNT, NPZ_REWARD, NPZ_PHYSICS, NPZ_COUNT };

typedef struct {
  double *values;
  int64_t rows, columns;
} Array;

static int read_arrays(const Npz *npz, Array *arrays, int extras) {
  static const struct {
    const char *name;
    int needed, column;
  } names[NPZ_COUNT] = {{"observation", 1, 0},
                        {"action", 1, 0},
                        {"discount", 0, 1},
                        {"reward", 0, 1},
                        {"physics", 0, 0}};
  for (int i = 0; i < NPZ_COUNT; i++) {
    if (i >= NPZ_REWARD && !extras) continue;
    if (!names[i].needed && !npz_has(npz, names[i].name)) continue;
    Array *array = &arrays[i];
    TRY(npz_read(npz, names[i].name, &array->rows, &array->columns, &array->values));
    if (array->rows != arrays[NPZ_OBS].rows || (names[i].column && array->columns != 1)) {
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
  const Array *physics = &arrays[NPZ_PHYSICS];
  if (!data->obs_dim) data->physics_dim = physics->columns;
  if (!physics->columns || physics->columns != data->physics_dim) drop(data, BIT(PART_PHYSICS));
  TRY(agree(data, o, a, "", first));
  TRY(make_room(data, n));
  int64_t at = data->count;
  const double *obs = arrays[NPZ_OBS].values, *discount = arrays[NPZ_DISCOUNT].values;
  to_floats(obs, n * o, data->obs + at * o);
  to_floats(obs + o, n * o, data->next_obs + at * o);
  to_floats(arrays[NPZ_ACT].values + a, n * a, data->act + at * a);
  if (!arrays[NPZ_REWARD].values) drop(data, BIT(PART_REWARDS));
  if (data->rewards) to_floats(arrays[NPZ_REWARD].values + 1, n, data->rewards + at);
  if (data->physics) {
    memcpy(part_at(data, PART_PHYSICS, at), physics->values, n * part_bytes(data, PART_PHYSICS));
  }
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
  drop(data, PARTS_STATES | (PARTS_INFOS & ~BIT(PART_PHYSICS)));
  take_notes(data, NULL, 0);
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

// ---------------------------------- coarser time -------------------------------------------------

// the last rows of the windows of n rows with one action, and whether an episode has no later one
static int64_t find_windows(Dataset *data, int64_t n, int64_t *last) {
  int64_t begin = 0, count = 0;  // of the action's rows; windows
  size_t bytes = part_bytes(data, PART_ACT);
  data->episodes = 0;
  for (int64_t i = 0; i < data->count; i++) {
    const char *act = part_at(data, PART_ACT, i);
    if (i > begin && memcmp(act - bytes, act, bytes)) begin = i;
    int over = data->ends[i];
    if (i - begin + 1 >= n) {
      data->ends[count] = 0;
      last[count++] = i;
    }
    if (!over) continue;
    begin = i + 1;
    if (!count || data->ends[count - 1]) continue;
    data->ends[count - 1] = 1;
    data->episodes++;
  }
  return count;
}

// a window is its first row with the successor, and what belongs to that, of its last
static void take_windows(const Dataset *from, Dataset *to, int64_t n, const int64_t *last) {
  const uint32_t of_last = BIT(PART_NEXT_OBS) | BIT(PART_REWARDS) | BIT(PART_DISCOUNT);
  for (int k = 0; k < PART_COUNT; k++) {
    if (!has_part(from, k)) continue;
    for (int64_t i = 0; i < to->count; i++) {
      int64_t row = k == PART_ENDS ? i : of_last & BIT(k) ? last[i] : last[i] - n + 1;
      memcpy(part_at(to, k, i), part_at(from, k, row), part_bytes(from, k));
    }
  }
}

int dataset_check_actions(const Dataset *data) {
  int64_t row = 0, episode = 0, column = 0;
  for (; row < data->count; row++) {
    const float *act = data->act + row * data->act_dim;
    column = 0;
    while (column < data->act_dim && fabsf(act[column]) <= 1 + ACTION_SLACK) column++;
    if (column < data->act_dim) break;
    episode += data->ends[row];
  }
  if (row == data->count) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "action %g of transition %" PRId64 " (episode %" PRId64 ", column %" PRId64
                  ") is not within ±1: scale actions to that range",
                  data->act[row * data->act_dim + column], row, episode, column);
}

int dataset_stride(Dataset *data, int64_t n) {
  if (n == 1) return BFM_OK;
  int64_t *last = malloc((size_t)data->count * sizeof *last);
  if (!last) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", data->count);
  Dataset to = *data;
  to.capacity = 0;
  memset(to.blocks, 0, sizeof to.blocks);
  to.count = find_windows(data, n, last);
  to.episodes = data->episodes;
  int status = BFM_OK;
  if (to.count < 2) {
    status = bfm_fail(BFM_BAD_ARGUMENT,
                      "stride is %" PRId64
                      ", but actions of the data that were held for so many "
                      "steps are too few: %" PRId64,
                      n, to.count);
  }
  if (!status) status = grow(&to, to.count);
  if (!status) take_windows(data, &to, n, last);
  for (int k = 0; k < PART_COUNT; k++) block_free(status ? &to.blocks[k] : &data->blocks[k]);
  if (!status) *data = to;
  free(last);
  return status;
}

// ---------------------------------- what is not observed -----------------------------------------

// only where there is something else: of mapped rows, those that are written get a copy
int dataset_clear(Dataset *data, int64_t first) {
  static const int parts[] = {PART_OBS, PART_NEXT_OBS};
  for (int k = 0; k < 2; k++) {
    TRY(block_own(&data->blocks[parts[k]]));
    for (int64_t i = 0; i < data->count; i++) {
      float *row = part_at(data, parts[k], i);
      for (int64_t c = first; c < data->obs_dim; c++) {
        if (row[c] != 0) row[c] = 0;
      }
    }
  }
  return BFM_OK;
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
  return BFM_OK;
}

static int check_count(const Dataset *data, const char *const *paths, int path_count) {
  if (data->count >= 2) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "%s%s: %" PRId64 " transitions are too few to learn from",
                  path_count ? paths[0] : "no files", path_count > 1 ? " and the others" : "",
                  data->count);
}

static int read_with(Dataset *data, const char *const *paths, int path_count, int extras) {
  *data = (Dataset){.extras = extras, .alone = path_count == 1,
                    .parts = extras ? PARTS_ALL : PARTS_NEEDED};
  int status = read_files(data, paths, path_count);
  if (!status) status = check_count(data, paths, path_count);
  if (status) dataset_free(data);
  return status;
}

int dataset_read(Dataset *data, const char *const *paths, int path_count) {
  return read_with(data, paths, path_count, 0);
}

int dataset_read_all(Dataset *data, const char *const *paths, int path_count) {
  return read_with(data, paths, path_count, 1);
}

int dataset_read_demo(Dataset *data, const char *path) {
  *data = (Dataset){.alone = 1, .parts = PARTS_NEEDED};
  int status = read_files(data, &path, 1);
  if (!status && !data->count) {
    status =
        bfm_fail(BFM_BAD_FILE, "%s has no transition: a demonstration needs one or more", path);
  }
  if (status) dataset_free(data);
  return status;
}

int64_t dataset_sample_row(const Dataset *data, int64_t rows, int64_t i) {
  int64_t begin = i * data->count / rows, end = (i + 1) * data->count / rows;
  return begin + (int64_t)random_below(0, STREAM_USER, 0, i, (uint64_t)(end - begin));
}

void dataset_trim(Dataset *data) {
  drop(data, ~(BIT(PART_OBS) | BIT(PART_ACT) | BIT(PART_NEXT_OBS) | BIT(PART_DISCOUNT)));
  for (int k = 0; k < PART_COUNT; k++) block_at_random(&data->blocks[k]);
}

void dataset_free(Dataset *data) {
  for (int k = 0; k < PART_COUNT; k++) block_free(&data->blocks[k]);
  cJSON_Delete(data->notes);
  memset(data, 0, sizeof *data);
}
