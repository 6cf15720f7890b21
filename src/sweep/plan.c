// From a sweep's file, a YAML text, to its cells. A list of values varies an option, and the cells are
// all combinations; 0..4 stands for five whole numbers. Values are brought to one spelling by the tables
// of options, so that equal cells have equal texts; a checksum of that text is part of a cell's name.

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>
#include <zlib.h>

#include "agent/config.h"
#include "collect/options.h"
#include "core/files.h"
#include "core/paths.h"
#include "core/suggest.h"
#include "envs/domain.h"
#include "envs/robot_bundle.h"
#include "explore/explorer.h"
#include "sweep/sweep.h"
#include "train/settings.h"

#define DEFAULT_STEPS "1000000"  // of bfm train

typedef struct {
  Sweep *sweep;
  yaml_document_t document;
  int collections;   // cells that are collections
  char **names;      // [names_count] of the collections in the file, …
  int (*ranges)[2];  // … and the cells of each
  int names_count;
} Reader;

static int fail_at(const Reader *r, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fail_at(const Reader *r, const yaml_node_t *node, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return bfm_fail(BFM_BAD_FILE, "%s:%zu: %s", r->sweep->path, node->start_mark.line + 1, text);
}

// ---------------------------------- YAML ---------------------------------------------------------

static yaml_node_t *node_at(Reader *r, int index) {
  return yaml_document_get_node(&r->document, index);
}

static const char *text_of(const yaml_node_t *node) {
  return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static int need_mapping(const Reader *r, const yaml_node_t *node, const char *what) {
  if (node->type == YAML_MAPPING_NODE) return BFM_OK;
  return fail_at(r, node, "%s must be a mapping of names to values", what);
}

static int need_key(Reader *r, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
                    const char **key) {
  const yaml_node_t *node = node_at(r, pair->key);
  *key = text_of(node);
  if (!*key || !**key) return fail_at(r, node, "a key must be a text");
  for (const yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < pair; p++) {
    const yaml_node_t *other = node_at(r, p->key);
    if (strcmp(text_of(other), *key)) continue;
    return fail_at(r, node, "the key \"%s\" is here twice, first in line %zu", *key,
                   other->start_mark.line + 1);
  }
  return BFM_OK;
}

#define EACH_PAIR(pair, of)                                           \
  for (const yaml_node_pair_t *pair = (of)->data.mapping.pairs.start; \
       pair < (of)->data.mapping.pairs.top; pair++)
#define EACH_ITEM(item, of)                                            \
  for (const yaml_node_item_t *item = (of)->data.sequence.items.start; \
       item < (of)->data.sequence.items.top; item++)

// ---------------------------------- options ------------------------------------------------------

// room for the fields of every table
typedef union {
  TrainSettings settings;
  Config agent;
  ExplorerOptions offline;
  CollectOptions collection;
} Fields;

// the tables of bfm collect or of bfm train, NULL after the last
static const Option *table_at(int collect, int i) {
  if (collect) return i ? NULL : collect_options();
  switch (i) {
    case 0: return train_options;
    case 1: return settings_agent_options();
    case 2: return settings_offline_options();
    default: return NULL;
  }
}

// the keys that are arguments of the command, not options: the domain, the datasets
static const char *argument_of(int collect) { return collect ? "domain" : "data"; }

static int find_option(const Reader *r, int collect, const yaml_node_t *node, const char *name,
                       const Option **table, const Option **option) {
  Suggestion nearest = {.word = name};
  for (int i = 0; (*table = table_at(collect, i)); i++) {
    *option = options_find(*table, name);
    if (*option) return BFM_OK;
    for (const Option *o = *table; o->name; o++) suggest_try(&nearest, o->name);
  }
  suggest_try(&nearest, argument_of(collect));
  return fail_at(r, node, "bfm %s has no option \"%.64s\"%s", collect ? "collect" : "train", name,
                 suggest_say(&nearest, ""));
}

// ---------------------------------- a grid -------------------------------------------------------

// an option's values; a value of `data` is an array of names
typedef struct {
  const char *name;
  cJSON *values;
  int count, varies;
} Axis;

typedef struct {
  int collect, count;
  Axis axes[128];
} Grid;

#define AXES ((int)(sizeof((Grid *)NULL)->axes / sizeof(Axis)))

static void grid_free(Grid *g) {
  for (int i = 0; i < g->count; i++) cJSON_Delete(g->axes[i].values);
  g->count = 0;
}

static const Axis *axis_find(const Grid *g, const char *name) {
  for (int i = 0; i < g->count; i++) {
    if (!strcmp(g->axes[i].name, name)) return &g->axes[i];
  }
  return NULL;
}

static int add_value(const Reader *r, const yaml_node_t *node, Axis *axis, const Option *table,
                     const Option *option, const char *text) {
  Fields fields;
  char value[OPTION_TEXT_SIZE];
  if (options_set(table, &fields, option->name, text)) {
    return fail_at(r, node, "%s", bfm_error());
  }
  options_get(option, &fields, value, sizeof value);
  cJSON_AddItemToArray(axis->values, cJSON_CreateString(value));
  if (++axis->count <= SWEEP_CELLS) return BFM_OK;
  return fail_at(r, node, "%s has more than %d values", option->name, SWEEP_CELLS);
}

// "0..4"; returns 0 for other texts
static int is_range(const char *text, int64_t *first, int64_t *last) {
  char *dots, *end;
  *first = strtoll(text, &dots, 10);
  if (dots == text || strncmp(dots, "..", 2)) return 0;
  *last = strtoll(dots + 2, &end, 10);
  return end > dots + 2 && !*end;
}

static int add_values(Reader *r, const yaml_node_t *node, Axis *axis, const Option *table,
                      const Option *option) {
  const char *text = text_of(node);
  int64_t first, last;
  char number[32];
  if (!text) return fail_at(r, node, "a value of %s must be a text or a number", option->name);
  if (option->type != OPTION_INT || !is_range(text, &first, &last)) {
    return add_value(r, node, axis, table, option, text);
  }
  axis->varies = 1;
  if (last < first || (uint64_t)last - (uint64_t)first >= SWEEP_CELLS) {
    return fail_at(r, node, "%s is %s, but a range goes up, by at most %d numbers", option->name,
                   text, SWEEP_CELLS);
  }
  for (int64_t value = first; value <= last; value++) {
    snprintf(number, sizeof number, "%" PRId64, value);
    TRY(add_value(r, node, axis, table, option, number));
  }
  return BFM_OK;
}

// a list varies the option
static int read_values(Reader *r, const yaml_node_t *node, Axis *axis, const Option *table,
                       const Option *option) {
  if (node->type != YAML_SEQUENCE_NODE) return add_values(r, node, axis, table, option);
  axis->varies = 1;
  EACH_ITEM(item, node) TRY(add_values(r, node_at(r, *item), axis, table, option));
  return BFM_OK;
}

static int find_name(const Reader *r, const char *name) {
  int i = 0;
  while (i < r->names_count && strcmp(r->names[i], name)) i++;
  return i < r->names_count ? i : -1;
}

static int check_file(const Reader *r, const yaml_node_t *node, const char *name) {
  char path[PATH_MAX];
  Suggestion nearest = {.word = name};
  TRY(path_beside(path, r->sweep->path, name));
  if (!input_check(path)) return BFM_OK;
  for (int i = 0; i < r->names_count; i++) suggest_try(&nearest, r->names[i]);
  return fail_at(r, node, "data is \"%.200s\", which is neither a name under collect nor a file%s",
                 name, suggest_say(&nearest, ""));
}

// A dataset, or a list of them that belong together. The name of a collection with several cells stands
// for each of them in turn.
static int add_data(Reader *r, const yaml_node_t *node, Axis *axis) {
  const char *name = text_of(node);
  int at = name ? find_name(r, name) : -1;
  if (name && at < 0) TRY(check_file(r, node, name));
  if (at >= 0) {
    axis->varies |= r->ranges[at][1] - r->ranges[at][0] > 1;
    for (int i = r->ranges[at][0]; i < r->ranges[at][1]; i++) {
      const char *label = r->sweep->cells[i].label;
      cJSON_AddItemToArray(axis->values, cJSON_CreateStringArray(&label, 1));
    }
    return BFM_OK;
  }
  if (name) {
    cJSON_AddItemToArray(axis->values, cJSON_CreateStringArray(&name, 1));
    return BFM_OK;
  }
  if (node->type != YAML_SEQUENCE_NODE)
    return fail_at(r, node, "a dataset must be a name or a file");
  if (node->data.sequence.items.start == node->data.sequence.items.top) {
    return fail_at(r, node, "a list of datasets is empty: name one");
  }
  cJSON *together = cJSON_CreateArray();
  cJSON_AddItemToArray(axis->values, together);
  EACH_ITEM(item, node) {
    const yaml_node_t *one = node_at(r, *item);
    name = text_of(one);
    at = name ? find_name(r, name) : -1;
    if (!name) return fail_at(r, one, "a dataset must be a name or a file");
    if (at < 0) TRY(check_file(r, one, name));
    if (at >= 0 && r->ranges[at][1] - r->ranges[at][0] > 1) {
      return fail_at(r, one, "%s has %d cells, but only one dataset can be in a list with others",
                     name, r->ranges[at][1] - r->ranges[at][0]);
    }
    cJSON_AddItemToArray(together, cJSON_CreateString(
                                       at < 0 ? name : r->sweep->cells[r->ranges[at][0]].label));
  }
  return BFM_OK;
}

static int read_data(Reader *r, const yaml_node_t *node, Axis *axis) {
  if (node->type != YAML_SEQUENCE_NODE) return add_data(r, node, axis);
  axis->varies = 1;
  EACH_ITEM(item, node) TRY(add_data(r, node_at(r, *item), axis));
  return BFM_OK;
}

// the domains of collections
static int add_domain(const Reader *r, const yaml_node_t *node, Axis *axis) {
  const char *name = text_of(node);
  const Domain *domain;
  char path[PATH_MAX];
  if (!name) return fail_at(r, node, "a domain must be a name or a robot's file");
  snprintf(path, sizeof path, "%s", name);
  if (robot_is_path(name)) TRY(path_beside(path, r->sweep->path, name));
  if (domain_find(&domain, path)) return fail_at(r, node, "%s", bfm_error());
  cJSON_AddItemToArray(axis->values, cJSON_CreateString(name));
  return BFM_OK;
}

static int read_domain(Reader *r, const yaml_node_t *node, Axis *axis) {
  if (node->type != YAML_SEQUENCE_NODE) return add_domain(r, node, axis);
  axis->varies = 1;
  EACH_ITEM(item, node) TRY(add_domain(r, node_at(r, *item), axis));
  return BFM_OK;
}

static int read_axis(Reader *r, Grid *g, const yaml_node_t *key, const char *name,
                     const yaml_node_t *node) {
  const Option *table, *option = NULL;
  int argument = !strcmp(name, argument_of(g->collect));
  if (!argument) TRY(find_option(r, g->collect, key, name, &table, &option));
  if (option) name = option->name;        // z_mix is z-mix
  if (axis_find(g, name)) return BFM_OK;  // a grid's own option instead of the common one
  if (g->count == AXES) return fail_at(r, key, "more than %d options", AXES);
  Axis *axis = &g->axes[g->count++];
  *axis = (Axis){.name = name, .values = cJSON_CreateArray()};
  if (!axis->values) return bfm_fail(BFM_NO_MEMORY, "out of memory for the values of %s", name);
  if (option) TRY(read_values(r, node, axis, table, option));
  else TRY(g->collect ? read_domain(r, node, axis) : read_data(r, node, axis));
  axis->count = cJSON_GetArraySize(axis->values);
  if (axis->count) return BFM_OK;
  return fail_at(r, key, "%s has no values: the grid is empty", name);
}

static int read_grid(Reader *r, Grid *g, const yaml_node_t *node) {
  TRY(need_mapping(r, node, g->collect ? "a collection" : "a grid of trainings"));
  EACH_PAIR(pair, node) {
    const char *key;
    TRY(need_key(r, node, pair, &key));
    TRY(read_axis(r, g, node_at(r, pair->key), key, node_at(r, pair->value)));
  }
  return BFM_OK;
}

// ---------------------------------- cells --------------------------------------------------------

static int by_option(const void *x, const void *y) {
  return strcmp((*(const cJSON *const *)x)->string, (*(const cJSON *const *)y)->string);
}

// The text that tells cells apart: the domain or the datasets, and all options in the order of their
// names, so that lines of the file may change places.
static char *identity(const Sweep *sweep, const SweepCell *cell) {
  const cJSON *sorted[AXES], *item;
  char *text = NULL;
  size_t size;
  int count = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  fprintf(out, "%s\n", cell->collect ? "collect" : "train");
  for (int i = 0; i < cell->input_count; i++) {
    const SweepData *data = &cell->inputs[i];
    fprintf(out, "data=%s\n", data->path ? data->path : sweep->cells[data->cell].claim.name);
  }
  cJSON_ArrayForEach(item, cell->options) sorted[count++] = item;
  qsort(sorted, (size_t)count, sizeof *sorted, by_option);
  for (int i = 0; i < count; i++)
    fprintf(out, "%s=%s\n", sorted[i]->string, sorted[i]->valuestring);
  if (!fclose(out)) return text;
  free(text);
  return NULL;
}

static const char *option_of(const SweepCell *cell, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItem(cell->options, name));
}

// the name of a cell's data: of a collection its own, of a training its first dataset's
static const char *data_name(const SweepCell *cell) {
  if (cell->collect) return cell->label;
  return path_base(cJSON_GetArrayItem(cell->data, 0)->valuestring);
}

// without what varies, or the extension
static int data_length(const SweepCell *cell) {
  const char *name = data_name(cell), *dot = strrchr(name, '.');
  int length = (int)strcspn(name, " ");
  return !cell->collect && cell->inputs->path && dot && dot > name ? (int)(dot - name) : length;
}

// A name that depends on the cell alone, not on which options the file varies: the data, the algorithm,
// the seed and a checksum of 64 bits.
static int name_cell(const Sweep *sweep, SweepCell *cell) {
  char *text = identity(sweep, cell), words[112];
  if (!text) return bfm_fail(BFM_NO_MEMORY, "out of memory for the name of a cell");
  const unsigned char *bytes = (const unsigned char *)text;
  size_t length = strlen(text);
  unsigned sum = (unsigned)crc32_z(0, bytes, length);
  unsigned other =
      (unsigned)adler32_z(sum, bytes, length) ^ (unsigned)crc32_z(~sum, bytes, length / 2);
  free(text);
  const char *second = option_of(cell, cell->collect ? "domain" : "algo");
  const char *seed = option_of(cell, "seed");
  snprintf(words, sizeof words, "%.*s-%.32s-seed%.16s", data_length(cell), data_name(cell),
           second ? path_base(second) : options_find(agent_options, "algo")->fallback,
           seed ? seed : "0");
  for (char *c = words; *c; c++) {
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *c)) *c = '-';
  }
  if (*words == '.') *words = '-';
  snprintf(cell->claim.name, sizeof cell->claim.name, "%s-%08x%08x", words, sum, other);
  return BFM_OK;
}

// which of the agent's and the run's options belong together, and whether their values do
static int check_training(const SweepCell *cell) {
  char *given = cJSON_PrintUnformatted(cell->options), *settings = NULL, *agent = NULL;
  Fields fields;
  if (!given) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  int status = settings_split(given, &settings, &agent), offline = settings_offline_algo(agent);
  if (!status) status = settings_check(settings, agent, offline);
  if (!status && offline < 0) {
    status = options_default(agent_options, &fields.agent);
    if (!status) status = options_from_json(agent_options, &fields.agent, agent);
    if (!status) status = config_complete(&fields.agent);
  }
  free(given);
  free(settings);
  free(agent);
  return status;
}

// the combination number `index` of the grid's values, of which the last option's change fastest
static void choose(const Grid *g, int64_t index, const cJSON *values[AXES]) {
  for (int i = g->count - 1; i >= 0; i--) {
    values[i] = cJSON_GetArrayItem(g->axes[i].values, (int)(index % g->axes[i].count));
    index /= g->axes[i].count;
  }
}

static int find_inputs(const Reader *r, SweepCell *cell) {
  const cJSON *name;
  cell->inputs = calloc((size_t)cJSON_GetArraySize(cell->data) + 1, sizeof *cell->inputs);
  if (!cell->inputs) return bfm_fail(BFM_NO_MEMORY, "out of memory for datasets");
  cJSON_ArrayForEach(name, cell->data) {
    int at = 0;
    while (at < r->collections && strcmp(r->sweep->cells[at].label, name->valuestring)) at++;
    int made = at < r->collections;
    cell->inputs[cell->input_count++] =
        (SweepData){made ? at : -1, made ? NULL : name->valuestring};
  }
  return BFM_OK;
}

static int fill_cell(const Reader *r, const Grid *g, const char *name, const cJSON *values[AXES],
                     SweepCell *cell) {
  cell->collect = g->collect;
  cell->options = cJSON_CreateObject();
  snprintf(cell->label, sizeof cell->label, "%s", name);
  for (int i = 0; i < g->count; i++) {
    const Axis *axis = &g->axes[i];
    if (cJSON_IsArray(values[i])) {
      cell->data = cJSON_Duplicate(values[i], 1);
      continue;
    }
    cJSON_AddStringToObject(cell->options, axis->name, values[i]->valuestring);
    size_t at = strlen(cell->label);
    size_t room = sizeof cell->label - at;
    if (!g->collect || !axis->varies) continue;
    int n = snprintf(cell->label + at, room, " %s=%s", axis->name, values[i]->valuestring);
    if ((size_t)n >= room) {
      return bfm_fail(BFM_BAD_FILE,
                      "%s: the options that vary in %s are too long to tell its cells apart",
                      r->sweep->path, name);
    }
  }
  if (g->collect) return name_cell(r->sweep, cell);
  // a training without evaluations would have no results
  if (!option_of(cell, "eval-every")) {
    const char *steps = option_of(cell, "steps");
    cJSON_AddStringToObject(cell->options, "eval-every", steps ? steps : DEFAULT_STEPS);
  }
  TRY(find_inputs(r, cell));
  return name_cell(r->sweep, cell);
}

static void free_cell(SweepCell *cell) {
  cJSON_Delete(cell->options);
  cJSON_Delete(cell->data);
  free(cell->inputs);
}

// the cells of a grid, behind those that are there
static int expand(Reader *r, const Grid *g, const char *name, const yaml_node_t *node) {
  Sweep *s = r->sweep;
  int64_t count = 1;
  for (int i = 0; i < g->count && count <= SWEEP_CELLS; i++) { count *= g->axes[i].count; }
  if (s->count + count > SWEEP_CELLS) {
    return fail_at(r, node, "the sweep has more than %d cells", SWEEP_CELLS);
  }
  SweepCell *cells = realloc(s->cells, (size_t)(s->count + count) * sizeof *cells);
  if (!cells) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " cells", count);
  s->cells = cells;
  for (int64_t i = 0; i < count; i++) {
    const cJSON *values[AXES];
    SweepCell *cell = &s->cells[s->count++];
    *cell = (SweepCell){.collect = g->collect};
    choose(g, i, values);
    TRY(fill_cell(r, g, name, values, cell));
    if (!g->collect && check_training(cell)) return fail_at(r, node, "%s", bfm_error());
  }
  return BFM_OK;
}

// ---------------------------------- the file -----------------------------------------------------

static int read_collections(Reader *r, const yaml_node_t *node) {
  TRY(need_mapping(r, node, "collect"));
  size_t count = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
  r->names = calloc(count + 1, sizeof *r->names);
  r->ranges = calloc(count + 1, sizeof *r->ranges);
  if (!r->names || !r->ranges) return bfm_fail(BFM_NO_MEMORY, "out of memory for collections");
  EACH_PAIR(pair, node) {
    Grid grid = {.collect = 1};
    const yaml_node_t *key = node_at(r, pair->key);
    const char *name;
    int first = r->sweep->count;
    TRY(need_key(r, node, pair, &name));
    if (strlen(name) > 60 || strchr(name, ' ')) {
      return fail_at(r, key,
                     "\"%.64s\" cannot name a dataset: use up to 60 characters without spaces",
                     name);
    }
    int status = read_grid(r, &grid, node_at(r, pair->value));
    if (!status && !axis_find(&grid, "domain")) {
      status = fail_at(r, key, "%s needs a domain: {domain: walker, …}", name);
    }
    if (!status) status = expand(r, &grid, name, key);
    grid_free(&grid);
    TRY(status);
    r->names[r->names_count] = (char *)name;
    r->ranges[r->names_count][0] = first;
    r->ranges[r->names_count++][1] = r->sweep->count;
  }
  r->collections = r->sweep->count;
  return BFM_OK;
}

static int read_training(Reader *r, const yaml_node_t *node, const yaml_node_t *common) {
  Grid grid = {.collect = 0};
  int status = read_grid(r, &grid, node);
  if (!status && common) status = read_grid(r, &grid, common);
  if (!status && !axis_find(&grid, "data")) {
    status = fail_at(r, node, "these trainings need data: a name under collect, or a file");
  }
  if (!status) status = expand(r, &grid, "", node);
  grid_free(&grid);
  return status;
}

static int read_trainings(Reader *r, const yaml_node_t *node, const yaml_node_t *common) {
  if (node->type != YAML_SEQUENCE_NODE) return read_training(r, node, common);
  EACH_ITEM(item, node) TRY(read_training(r, node_at(r, *item), common));
  return BFM_OK;
}

static int by_name(const void *x, const void *y) {
  return strcmp((*(const SweepCell *const *)x)->claim.name,
                (*(const SweepCell *const *)y)->claim.name);
}

static int check_duplicates(const Sweep *s) {
  const SweepCell **sorted = malloc((size_t)s->count * sizeof *sorted);
  int status = sorted ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %d cells", s->count);
  for (int i = 0; i < s->count && sorted; i++) sorted[i] = &s->cells[i];
  if (sorted) qsort(sorted, (size_t)s->count, sizeof *sorted, by_name);
  for (int i = 1; i < s->count && !status; i++) {
    if (by_name(&sorted[i - 1], &sorted[i])) continue;
    char *options = cJSON_PrintUnformatted(sorted[i]->options);
    status = bfm_fail(BFM_BAD_FILE, "%s: two cells are the same, %s with %s: leave one of them out",
                      s->path, sorted[i]->collect ? "collect" : "train", options ? options : "");
    free(options);
  }
  free(sorted);
  return status;
}

static int read_document(Reader *r) {
  static const char *const keys[] = {"collect", "common", "train"};
  const yaml_node_t *parts[3] = {NULL};
  yaml_node_t *root = yaml_document_get_root_node(&r->document);
  if (!root)
    return bfm_fail(BFM_BAD_FILE, "%s is empty: it must have collect: or train:", r->sweep->path);
  TRY(need_mapping(r, root, "a sweep"));
  EACH_PAIR(pair, root) {
    const char *key;
    int i = 0;
    TRY(need_key(r, root, pair, &key));
    Suggestion nearest = {.word = key};
    while (i < 3 && strcmp(keys[i], key)) suggest_try(&nearest, keys[i++]);
    if (i == 3) {
      return fail_at(r, node_at(r, pair->key), "a sweep has no part \"%.64s\"%s", key,
                     suggest_say(&nearest, ": its parts are collect, common and train"));
    }
    parts[i] = node_at(r, pair->value);
  }
  if (parts[0]) TRY(read_collections(r, parts[0]));
  if (parts[2]) TRY(read_trainings(r, parts[2], parts[1]));
  if (!r->sweep->count) {
    return bfm_fail(BFM_BAD_FILE,
                    "%s has no cells: it must have collect: or train:", r->sweep->path);
  }
  return check_duplicates(r->sweep);
}

static int parse(Reader *r, const char *bytes, size_t size) {
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return bfm_fail(BFM_NO_MEMORY, "out of memory for YAML");
  yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, size);
  int status = BFM_OK;
  if (!yaml_parser_load(&parser, &r->document)) {
    status = bfm_fail(BFM_BAD_FILE, "%s:%zu: this is not YAML: %s", r->sweep->path,
                      parser.problem_mark.line + 1, parser.problem ? parser.problem : "");
  } else {
    status = read_document(r);
    yaml_document_delete(&r->document);
  }
  yaml_parser_delete(&parser);
  return status;
}

#define FILE_MOST (16 << 20)

int sweep_read(Sweep *s, const char *path) {
  *s = (Sweep){.path = path};
  Reader r = {.sweep = s};
  char *bytes;
  size_t size;
  TRY(input_bytes_within(path, FILE_MOST, &bytes, &size));
  int status = parse(&r, bytes, size);
  free(bytes);
  free(r.names);
  free(r.ranges);
  if (status) sweep_free(s);
  return status;
}

void sweep_free(Sweep *s) {
  for (int i = 0; i < s->count; i++) free_cell(&s->cells[i]);
  free(s->cells);
  *s = (Sweep){.path = s->path};
}

// ---------------------------------- paths and commands -------------------------------------------

int sweep_output(const SweepCell *cell, const char *folder, char out[PATH_MAX]) {
  int n = snprintf(out, PATH_MAX, "%s/%s/%s%s", folder, cell->collect ? "data" : "train",
                   cell->claim.name, cell->collect ? ".h5" : "");
  return n < PATH_MAX - 64
             ? BFM_OK
             : bfm_fail(BFM_BAD_ARGUMENT, "the folder's name is too long: %s", folder);
}

int sweep_input(const Sweep *sweep, const SweepData *data, const char *folder, char out[PATH_MAX]) {
  if (data->path) return path_beside(out, sweep->path, data->path);
  return sweep_output(&sweep->cells[data->cell], folder, out);
}

// "a.safetensors,b.safetensors", each beside the sweep's file
static int complete_list(const Sweep *sweep, const char *names, char out[PATH_MAX]) {
  size_t used = 0;
  while (*names) {
    char name[OPTION_TEXT_SIZE], path[PATH_MAX];
    size_t length = strcspn(names, ",");
    snprintf(name, sizeof name, "%.*s", (int)length, names);
    TRY(path_beside(path, sweep->path, name));
    used += (size_t)snprintf(out + used, used < PATH_MAX ? PATH_MAX - used : 0, "%s%s",
                             used ? "," : "", path);
    names += length + (names[length] == ',');
  }
  if (used < OPTION_TEXT_SIZE) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "the paths of the models have %zu characters, but %d fit", used,
                  OPTION_TEXT_SIZE - 1);
}

int sweep_value(const Sweep *sweep, const SweepCell *cell, const cJSON *option,
                char out[PATH_MAX]) {
  const char *name = option->string, *value = option->valuestring;
  int robot = !strcmp(name, "domain") || !strcmp(name, "env");
  if (robot && robot_is_path(value)) return path_beside(out, sweep->path, value);
  if (cell->collect && !strcmp(name, "model")) return complete_list(sweep, value, out);
  snprintf(out, PATH_MAX, "%s", value);
  return BFM_OK;
}

// a word of a command line, in quotes if a shell would divide or change it
static void print_word(const char *word, FILE *out) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+=/,:@%";
  if (*word && !word[strspn(word, plain)]) {
    fprintf(out, " %s", word);
    return;
  }
  fputs(" '", out);
  for (; *word; word++) {
    if (*word == '\'') fputs("'\\''", out);
    else fputc(*word, out);
  }
  fputc('\'', out);
}

void sweep_print_command(const Sweep *sweep, const SweepCell *cell, const char *folder, FILE *out) {
  char text[PATH_MAX] = "";
  const cJSON *option, *domain = cJSON_GetObjectItem(cell->options, "domain");
  fprintf(out, "bfm %s", cell->collect ? "collect" : "train");
  if (cell->collect && !sweep_value(sweep, cell, domain, text)) print_word(text, out);
  for (int i = 0; i < cell->input_count; i++) {
    if (!sweep_input(sweep, &cell->inputs[i], folder, text)) print_word(text, out);
  }
  cJSON_ArrayForEach(option, cell->options) {
    if (option == domain || sweep_value(sweep, cell, option, text)) continue;
    fprintf(out, " --%s", option->string);
    print_word(text, out);
  }
  fputs(" -o", out);
  if (!sweep_output(cell, folder, text)) print_word(text, out);
}
