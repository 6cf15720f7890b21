// bfm info: describe a file and check it. The first bytes of a file tell its kind; then it is read in
// full and checked as training or loading would check it. The exit status of a bad file is not 0.

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "cli/cli.h"
#include "data/coverage.h"
#include "cli/pictures.h"
#include "cli/records.h"
#include "cli/robot_info.h"
#include "core/files.h"
#include "data/dataset.h"
#include "data/episode_index.h"
#include "data/hdf5.h"
#include "envs/robot_bundle.h"
#include "explore/explorer.h"
#include "nets/checkpoint.h"

// ---------------------------------- ranges -------------------------------------------------------

typedef struct {
  double lo, hi, mean;
} Range;

static const Range empty = {INFINITY, -INFINITY, 0};

// add a value; `mean` holds the sum until the caller divides it
static void extend(Range *range, double value) {
  range->lo = fmin(range->lo, value);
  range->hi = fmax(range->hi, value);
  range->mean += value;
}

static Range range_of(const float *values, int64_t count) {
  Range range = empty;
  for (int64_t i = 0; i < count; i++) extend(&range, values[i]);
  if (count) range.mean /= (double)count;
  return range;
}

static cJSON *range_item(Range range) {
  cJSON *item = cJSON_CreateObject();
  cJSON_AddNumberToObject(item, "min", range.lo);
  cJSON_AddNumberToObject(item, "max", range.hi);
  cJSON_AddNumberToObject(item, "mean", range.mean);
  return item;
}

// ---------------------------------- datasets -----------------------------------------------------

// number, lengths and returns of the episodes
static int episodes_info(const Dataset *data, cJSON *info, cJSON *ranges) {
  Piece *pieces;
  int64_t count, episode = -1, length = 0;
  TRY(episode_index(data, &pieces, &count));
  Range lengths = empty, returns = empty;
  double sum = 0;
  int rewarded = 0;
  for (int64_t k = 0; k < data->episodes; k++) {
    const Piece *piece = &pieces[k];
    if (piece->episode != episode) length = 0, sum = 0;
    episode = piece->episode;
    length += piece->rows;
    for (int64_t i = piece->first; data->rewards && i < piece->first + piece->rows; i++) {
      sum += data->rewards[i];
      rewarded |= data->rewards[i] != 0;
    }
    if (k + 1 < data->episodes && pieces[k + 1].episode == episode) continue;
    extend(&lengths, (double)length);
    extend(&returns, sum);
  }
  free(pieces);
  lengths.mean /= (double)count;  // not 0: there are rows
  returns.mean /= (double)count;
  cJSON_AddNumberToObject(info, "episodes", (double)count);
  cJSON_AddItemToObject(ranges, "lengths", range_item(lengths));
  // datasets without rewards often store zeros
  if (rewarded) cJSON_AddItemToObject(ranges, "returns", range_item(returns));
  return BFM_OK;
}

// who acted, and the updates of a learner per transition
static int collector_info(hid_t file, void *context) {
  cJSON *info = context;
  char collector[64], text[4096];
  hdf5_attribute(file, "collector", collector, sizeof collector);
  hdf5_attribute(file, "options", text, sizeof text);
  if (*collector) cJSON_AddStringToObject(info, "collector", collector);
  cJSON *options = cJSON_Parse(text);
  const cJSON *updates = cJSON_GetObjectItem(options, "updates");
  if (cJSON_IsNumber(updates) && updates->valuedouble > 0) {
    cJSON_AddNumberToObject(info, "updates", updates->valuedouble);
  }
  cJSON_Delete(options);
  return BFM_OK;
}

// a file that is being collected has no rows before the first flush: it is sound, but has no ranges
static int dataset_info(const char *path, cJSON *info) {
  Dataset data;
  TRY(dataset_read_to_describe(&data, path));
  int64_t ended = 0;
  for (int64_t i = 0; i < data.count; i++) ended += data.discount[i] == 0;
  cJSON *ranges = cJSON_CreateObject();
  cJSON_AddItemToObject(ranges, "observations",
                        range_item(range_of(data.obs, data.count * data.obs_dim)));
  cJSON_AddItemToObject(ranges, "actions",
                        range_item(range_of(data.act, data.count * data.act_dim)));
  if (data.rewards) {
    cJSON_AddItemToObject(ranges, "rewards", range_item(range_of(data.rewards, data.count)));
  }
  cJSON_AddStringToObject(info, "kind", "dataset");
  if (*data.env) cJSON_AddStringToObject(info, "env", data.env);
  hdf5_use(path, collector_info, info);  // files of other programs do not say
  if (data.incomplete) cJSON_AddFalseToObject(info, "complete");
  cJSON_AddNumberToObject(info, "transitions", (double)data.count);
  int status = BFM_OK;
  if (data.count) status = episodes_info(&data, info, ranges);
  else cJSON_AddNumberToObject(info, "episodes", 0);
  cJSON_AddNumberToObject(info, "terminations", (double)ended);
  cJSON_AddNumberToObject(info, "obs_dim", (double)data.obs_dim);
  cJSON_AddNumberToObject(info, "act_dim", (double)data.act_dim);
  if (data.nq) {
    cJSON *states = cJSON_AddObjectToObject(info, "states");
    cJSON_AddNumberToObject(states, "qpos", (double)data.nq);
    cJSON_AddNumberToObject(states, "qvel", (double)data.nv);
    if (data.na) cJSON_AddNumberToObject(states, "act", (double)data.na);
  } else if (data.physics) {
    cJSON *states = cJSON_AddObjectToObject(info, "states");
    cJSON_AddNumberToObject(states, "physics", (double)data.physics_dim);
  }
  if (data.count) cJSON_AddItemToObject(info, "ranges", ranges);
  else cJSON_Delete(ranges);
  if (!status && data.count) status = coverage_info(&data, info);
  dataset_free(&data);
  return status;
}

// ---------------------------------- models, policies, states -------------------------------------

static int tensor_info(const Tensor *t, cJSON *tensors) {
  int64_t count = tensor_count(t);
  cJSON *item = cJSON_AddObjectToObject(tensors, t->name), *shape;
  cJSON_AddStringToObject(item, "dtype", tensor_type_name(t->type));
  shape = cJSON_AddArrayToObject(item, "shape");
  for (int i = 0; i < t->dims; i++) {
    cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->shape[i]));
  }
  if (t->type != TENSOR_F32 || count == 0) return BFM_OK;

  const float *values = t->data;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(values[i])) {
      return bfm_fail(BFM_BAD_FILE, "tensor %s has %s at position %" PRId64, t->name,
                      isnan(values[i]) ? "NaN" : "an infinity", i);
    }
  }
  cJSON_AddItemToObject(item, "range", range_item(range_of(values, count)));
  return BFM_OK;
}

static int tensors_info(const SafeTensors *file, cJSON *info) {
  cJSON *tensors = cJSON_CreateObject();
  int64_t parameters = 0;
  int status = BFM_OK;
  for (int i = 0; i < safetensors_count(file) && !status; i++) {
    status = tensor_info(safetensors_at(file, i), tensors);
    parameters += tensor_count(safetensors_at(file, i));
  }
  cJSON_AddNumberToObject(info, "numbers", (double)parameters);
  cJSON_AddItemToObject(info, "tensors", tensors);
  return status;
}

// float32, because not every CPU has bfloat16 products
#define CHECKED_ON "{\"device\": \"cpu\", \"precision\": \"f32\"}"

static int check_agent(const char *path, cJSON *info) {
  bfm_agent *agent;
  TRY(agent_read(&agent, path, CHECKED_ON));
  int64_t states = bfm_agent_prompt_count(agent);
  if (states) cJSON_AddNumberToObject(info, "prompt_states", (double)states);
  char fingerprint[9];
  int status = bfm_agent_fingerprint(agent, 0, fingerprint);
  if (!status) cJSON_AddStringToObject(info, "fingerprint", fingerprint);
  bfm_agent_free(agent);
  return status;
}

static int check_explorer(const char *path, cJSON *info) {
  bfm_explorer *explorer;
  (void)info;
  TRY(explorer_read(&explorer, path, 1, CHECKED_ON));
  bfm_explorer_free(explorer);
  return BFM_OK;
}

// how to check each kind of file: by loading it
static const struct {
  const char *kind;
  int (*check)(const char *path, cJSON *info);
} kinds[] = {
    {"model", check_agent},
    {"state", check_agent},
    {"policy", check_explorer},
    {"explorer", check_explorer},
};

static int check(const char *path, const SafeTensors *file, cJSON *info) {
  const char *kind = safetensors_metadata(file, "bfm");
  if (!kind) {
    return bfm_fail(BFM_BAD_FILE,
                    "%s was not written by bfm: the key \"bfm\" is missing in its metadata", path);
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!strcmp(kinds[i].kind, kind)) return kinds[i].check(path, info);
  }
  return bfm_fail(
      BFM_BAD_FILE,
      "%s is of the unknown kind \"%.64s\"; bfm reads model, state, policy and explorer", path,
      kind);
}

// the metadata that is shown first, in this order
static const char *const first_keys[] = {"bfm",   "env",  "task", "obs_dim", "act_dim",
                                         "tasks", "envs", "step", "config"};
enum { FIRST_KEYS = sizeof first_keys / sizeof *first_keys };

// adds a count as a number, the configuration as an object and everything else as text
static void add_metadata(cJSON *info, const char *key, const char *value) {
  if (!value) return;
  cJSON *item = cJSON_ParseWithOpts(value, NULL, 1);
  const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(info, "kind"));
  int learner = kind && (!strcmp(kind, "policy") || !strcmp(kind, "explorer"));
  if (learner && !strcmp(key, "config")) records_drop_unused(item);
  cJSON_AddItemToObject(info, strcmp(key, "bfm") ? key : "kind",
                        item ? item : cJSON_CreateString(value));
}

static int is_first(const char *key) {
  int i = 0;
  while (i < FIRST_KEYS && strcmp(key, first_keys[i])) i++;
  return i < FIRST_KEYS || !strcmp(key, "kind");
}

static void metadata_info(const SafeTensors *file, cJSON *info) {
  for (int i = 0; i < FIRST_KEYS; i++) {
    add_metadata(info, first_keys[i], safetensors_metadata(file, first_keys[i]));
  }
  const char *key, *value;
  for (int i = 0; safetensors_metadata_at(file, i, &key, &value); i++) {
    if (!is_first(key)) add_metadata(info, key, value);
  }
}

static int safetensors_info(const char *path, cJSON *info) {
  SafeTensors *file;
  TRY(checkpoint_open(&file, path));
  metadata_info(file, info);
  int status = check(path, file, info);
  if (!status && (status = tensors_info(file, info))) bfm_fail_prefix(status, "%s: ", path);
  safetensors_close(file);
  return status;
}

// ---------------------------------- any file -----------------------------------------------------

typedef int Info(const char *path, cJSON *info);

// the function for a regular file, by its first bytes, or else by its name
static Info *info_of(const char *path) {
  static const char hdf5[8] = "\x89HDF\r\n\x1a\n";
  static const char *const datasets[] = {".h5", ".hdf5", ".npz"};
  char head[8] = "";
  FILE *file;
  if (robot_is_path(path)) return robot_info;
  size_t n = input_stream(path, &file) ? 0 : fread(head, 1, sizeof head, file);
  if (file) fclose(file);
  if (!memcmp(head, hdf5, sizeof head)) return dataset_info;
  if (picture_of(head, n)) return picture_of(head, n);
  // A safetensors file begins with a number of eight bytes, the first of which may be a brace. Then
  // zeros follow, which JSON does not contain.
  if (*head == '{' && !memchr(head, 0, n)) return records_info;
  if (cli_has_suffix(path, ".json") || cli_has_suffix(path, ".jsonl")) return records_info;
  for (size_t i = 0; i < sizeof datasets / sizeof *datasets; i++) {
    if (cli_has_suffix(path, datasets[i])) return dataset_info;
  }
  return safetensors_info;
}

static int folder_info(const char *path, cJSON *info) {
  char record[PATH_MAX];
  snprintf(record, sizeof record, "%s/run.json", path);
  return (access(record, F_OK) ? dataset_info : run_info)(path, info);
}

static int file_info(const char *path, cJSON *info) {
  int is_folder = path_is_folder(path);
  if (!is_folder) TRY(input_check(path));
  cJSON_AddStringToObject(info, "file", path);
  return (is_folder ? folder_info : info_of(path))(path, info);
}

static void print_range(const char *name, Range range) {
  printf("  %-14s %.4g … %.4g, mean %.4g\n", name, range.lo, range.hi, range.mean);
}

static Range item_range(const cJSON *item) {
  return (Range){cJSON_GetObjectItem(item, "min")->valuedouble,
                 cJSON_GetObjectItem(item, "max")->valuedouble,
                 cJSON_GetObjectItem(item, "mean")->valuedouble};
}

static void print_ranges(const cJSON *ranges) {
  const cJSON *item;
  cJSON_ArrayForEach(item, ranges) print_range(item->string, item_range(item));
}

// the tensors whose names begin with the same word
typedef struct {
  const char *name;  // of the first one; the word is its first `length` characters
  int length, place, tensors;
  double numbers;
  Range range;
} Network;

static int by_word(const void *x, const void *y) {
  const Network *a = x, *b = y;
  int order = memcmp(a->name, b->name, a->length < b->length ? a->length : b->length);
  if (!order) order = a->length - b->length;
  return order ? order : a->place - b->place;
}

static int by_place(const void *x, const void *y) {
  return ((const Network *)x)->place - ((const Network *)y)->place;
}

static Network network_of(const cJSON *tensor, int place) {
  const cJSON *axis, *range = cJSON_GetObjectItem(tensor, "range");
  Network network = {tensor->string, (int)strcspn(tensor->string, "."), place, 1, 1, empty};
  cJSON_ArrayForEach(axis, cJSON_GetObjectItem(tensor, "shape")) {
    network.numbers *= axis->valuedouble;
  }
  if (range) network.range = item_range(range);
  return network;
}

// merges the tensors of each network and sorts the networks by their first tensors
static int merge_networks(Network *networks, int tensors) {
  int count = 0;
  qsort(networks, tensors, sizeof *networks, by_word);
  for (int i = 0; i < tensors; i++) {
    const Network *one = &networks[i];
    Network *last = count ? &networks[count - 1] : NULL;
    if (!last || last->length != one->length || memcmp(last->name, one->name, one->length)) {
      networks[count++] = *one;
      continue;
    }
    last->tensors++;
    last->numbers += one->numbers;
    last->range.lo = fmin(last->range.lo, one->range.lo);
    last->range.hi = fmax(last->range.hi, one->range.hi);
  }
  qsort(networks, count, sizeof *networks, by_place);
  return count;
}

static void print_networks(const cJSON *tensors) {
  int count = 0;
  const cJSON *item;
  Network *networks = malloc((size_t)(cJSON_GetArraySize(tensors) + 1) * sizeof *networks);
  if (!networks) return;
  cJSON_ArrayForEach(item, tensors) {
    networks[count] = network_of(item, count);
    count++;
  }
  count = merge_networks(networks, count);
  for (int i = 0; i < count; i++) {
    const Network *n = &networks[i];
    printf("  %-14.*s %d tensor%s, %.0f numbers", n->length, n->name, n->tensors,
           n->tensors > 1 ? "s" : "", n->numbers);
    if (n->range.lo <= n->range.hi) printf(", %.4g … %.4g", n->range.lo, n->range.hi);
    putchar('\n');
  }
  free(networks);
}

// A JSON value for people: a string as it is, a fraction with six digits, all else as JSON. The caller
// frees the text.
static char *text_of(const cJSON *item) {
  char digits[32];
  if (cJSON_IsString(item)) return strdup(item->valuestring);
  if (!cJSON_IsNumber(item) || item->valuedouble == floor(item->valuedouble)) {
    return cJSON_PrintUnformatted(item);
  }
  snprintf(digits, sizeof digits, "%.6g", item->valuedouble);
  return strdup(digits);
}

// "algo fb-aware, d 64, …" in lines of at most 79 columns
static void print_pairs(const cJSON *object) {
  int column = 17;
  const cJSON *item;
  cJSON_ArrayForEach(item, object) {
    char pair[OPTION_TEXT_SIZE + 64];
    char *value = text_of(item);
    int length = snprintf(pair, sizeof pair, "%s %s%s", item->string,
                          value && *value ? value : "none", item->next ? "," : "");
    free(value);
    if (column > 17 && column + 1 + length > 79) {
      printf("\n%17s", "");
      column = 17;
    }
    column += printf("%s%s", column > 17 ? " " : "", pair);
  }
  putchar('\n');
}

static void print_row(const char *name, const cJSON *item) {
  char *text = text_of(item);
  printf("  %-14s %s\n", name, text ? text : "");
  free(text);
}

static const char *text_in(const cJSON *object, const char *key) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
  return text ? text : "";
}

// names of neighbouring signals with one unit on a line: "velocity: right_hip.v right_knee.v (rad/s)"
static void print_signals(const char *title, const cJSON *array) {
  const cJSON *item, *before = NULL;
  int column = 0;
  cJSON_ArrayForEach(item, array) {
    const char *part = text_in(item, "part"), *unit = text_in(item, "unit");
    int first = !before || strcmp(part, text_in(before, "part"));
    if (before && (first || strcmp(unit, text_in(before, "unit")))) {
      printf(*text_in(before, "unit") ? " (%s)\n" : "%s\n", text_in(before, "unit"));
      column = 0;
    }
    const char *name = text_in(item, "name");
    if (column + 1 + (int)strlen(name) > 70) column = 0, putchar('\n');
    if (!column) column = printf("  %-14s", before ? "" : title) - 16;
    if (first && *part) column += printf(" %s:", part);
    column += printf(" %s", name);
    before = item;
  }
  if (before) printf(*text_in(before, "unit") ? " (%s)\n" : "%s\n", text_in(before, "unit"));
}

static void print_wiring(const cJSON *signals) {
  const cJSON *dt = cJSON_GetObjectItem(signals, "control_dt");
  if (dt) printf("  %-14s %g s\n", "control_dt", dt->valuedouble);
  print_signals("observations", cJSON_GetObjectItem(signals, "observations"));
  print_signals("actions", cJSON_GetObjectItem(signals, "actions"));
}

static void print_info(const cJSON *info) {
  const cJSON *item;
  if (!strcmp(cJSON_GetObjectItem(info, "kind")->valuestring, "robot")) {
    robot_print(info);
    return;
  }
  cJSON_ArrayForEach(item, info) {
    if (!strcmp(item->string, "file")) {
      printf("%s\n", item->valuestring);
    } else if (!strcmp(item->string, "tensors")) {
      print_networks(item);
    } else if (!strcmp(item->string, SIGNALS_KEY)) {
      print_wiring(item);
    } else if (!strcmp(item->string, "ranges")) {
      print_ranges(item);
    } else if (cJSON_IsObject(item)) {
      printf("  %-14s ", item->string);
      print_pairs(item);
    } else if (cJSON_IsArray(item)) {
      const cJSON *one;
      cJSON_ArrayForEach(one, item) print_row(one == item->child ? item->string : "", one);
    } else {
      print_row(item->string, item);
    }
  }
}

typedef struct {
  char **paths;
  int path_count, json;
} Arguments;

static const struct argp_option own_options[] = {
    {"json", 'j', NULL, 0, "print one JSON object per file, each on a line, with every tensor", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'j': a->json = 1; return 0;
    case ARGP_KEY_ARG: a->paths[a->path_count++] = arg; return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a file: bfm info models/walker.safetensors");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

int cli_info(int argc, char **argv) {
  const struct argp argp =
      {own_options,
       parse,
       "FILE...",
       "Describe files and check that they are intact. A file may be a model, "
       "a policy, a training state, a dataset, a robot's .xml, .urdf or "
       ".yaml with everything that bfm chooses for it, the folder of a run, a log, "
       "a ledger, measurements in JSON, a saved prompt, a goal, a picture or "
       "a film. If one is damaged, the exit status is not 0; a dataset "
       "that is still being collected is not damaged. Nothing is written.\v"
       "Examples:\n"
       "  bfm info models/walker.safetensors\n"
       "  bfm info results/ledger.jsonl --json\n"
       "  bfm collect point_mass --steps 5k -o info.h5\n"
       "  bfm info info.h5\n",
       NULL,
       NULL,
       NULL};
  Arguments a = {.paths = calloc(argc, sizeof *a.paths)};
  if (!a.paths) return cli_fail(bfm_fail(BFM_NO_MEMORY, "out of memory for %d arguments", argc));
  int worst = cli_parse(&argp, argc, argv, &a);
  if (worst) a.path_count = 0;
  for (int i = 0; i < a.path_count; i++) {
    cJSON *info = cJSON_CreateObject();
    int status = file_info(a.paths[i], info);
    if (status) {
      worst = cli_fail(status);
    } else if (a.json) {
      cli_print_json(info);
    } else {
      print_info(info);
    }
    cJSON_Delete(info);
  }
  free(a.paths);
  return worst;
}
