// The ledger: which lines are of one run, and which fields of a line the tables need.

#include "paper/ledger.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/folder.h"
#include "core/paths.h"
#include "paper/configuration.h"
#include "sweep/journal.h"

// ---------------------------------- reading ------------------------------------------------------

static const char *text_of(const cJSON *item, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(item, name));
  return text ? text : "";
}

static int64_t number_of(const cJSON *item, const char *name, int64_t fallback) {
  const cJSON *number = cJSON_GetObjectItem(item, name);
  return cJSON_IsNumber(number) ? (int64_t)number->valuedouble : fallback;
}

// Version 0.1 recorded the precision as it was given. On a GPU, auto was bf16.
static const char *precision_of(const cJSON *item) {
  const char *own = text_of(item, "precision");
  if (*own) return own;
  const char *given = text_of(cJSON_GetObjectItem(item, "config"), "precision");
  if (strcmp(given, "auto")) return given;
  const char *device = text_of(item, "device");
  return !*device ? "" : strncmp(device, "cuda", 4) ? "f32" : "bf16";
}

// version 0.1 recorded the length of episodes among the options
static int64_t eval_steps_of(const cJSON *item, const char *more) {
  const char *at = strstr(more, "eval-steps=");
  return number_of(item, "eval_steps", at ? strtoll(at + strlen("eval-steps="), NULL, 10) : 0);
}

static double updates_of(const cJSON *data) {
  const cJSON *updates = cJSON_GetObjectItem(cJSON_GetObjectItem(data, "options"), "updates");
  if (strcmp(text_of(data, "collector"), "rnd") || !cJSON_IsNumber(updates)) return 0;
  return updates->valuedouble;
}

static int parse_line(const cJSON *item, LedgerLine *line) {
  const struct {
    const char *name;
    int64_t *to;
  } numbers[] = {{"seed", &line->seed},
                 {"steps", &line->steps},
                 {"es", &line->es},
                 {"episodes", &line->episodes}};
  line->run = cJSON_GetStringValue(cJSON_GetObjectItem(item, "run"));
  line->more = cJSON_GetStringValue(cJSON_GetObjectItem(item, "more"));
  line->returns = cJSON_GetObjectItem(item, "returns");
  line->curve = cJSON_GetObjectItem(item, "curve");
  line->bias = cJSON_GetObjectItem(item, "bias");
  int good = line->run && line->more && cJSON_IsObject(line->returns);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    good = good && cJSON_IsNumber(cJSON_GetObjectItem(item, numbers[i].name));
    if (good) *numbers[i].to = number_of(item, numbers[i].name, 0);
  }
  if (!good) return 0;
  line->transitions = number_of(item, "transitions", 0);
  line->checksum = number_of(cJSON_GetObjectItem(item, "data"), "checksum", UNKNOWN_DATA);
  line->updates = updates_of(cJSON_GetObjectItem(item, "data"));
  line->eval_steps = eval_steps_of(item, line->more);
  line->precision = precision_of(item);
  line->source = text_of(item, "source");
  line->folder = line->checksum == UNKNOWN_DATA ? text_of(item, "folder") : "";
  return 1;
}

#define LEDGER_LINE "a result of bfm paper run"
#define OLD_ARM "jaco"

static int is_left_out(const LedgerLine *line) {
  return line->checksum == UNKNOWN_DATA && !strncmp(line->run, OLD_ARM " ", strlen(OLD_ARM " "));
}

int ledger_left_out(const Ledger *l, const char *domains, char out[LEFT_OUT_SIZE]) {
  if (!l->left_out || (domains && !strstr(domains, OLD_ARM))) return 0;
  snprintf(out, LEFT_OUT_SIZE,
           "%d older %s of " OLD_ARM " %s left out: the arm then had a brick and other starts",
           l->left_out, l->left_out > 1 ? "lines" : "line", l->left_out > 1 ? "are" : "is");
  return 1;
}

static int append_line(Ledger *l, cJSON *item, const LedgerLine *line) {
  // the arrays double: they are full whenever the count is a power of two
  if (!(l->count & (l->count - 1))) {
    size_t room = l->count ? 2 * (size_t)l->count : 1;
    LedgerLine *lines = realloc(l->lines, room * sizeof *lines);
    if (lines) l->lines = lines;
    cJSON **parsed = realloc(l->parsed, room * sizeof *parsed);
    if (parsed) l->parsed = parsed;
    char **configs = realloc(l->configs, room * sizeof *configs);
    if (configs) l->configs = configs;
    if (!lines || !parsed || !configs) {
      return bfm_fail(BFM_NO_MEMORY, "out of memory for %zu results", room);
    }
  }
  char *config;
  TRY(configuration_of_line(&config, item));
  l->lines[l->count] = *line;
  l->lines[l->count].config = config ? config : "";
  l->configs[l->count] = config;
  l->parsed[l->count++] = item;
  return BFM_OK;
}

static int by_number(int64_t a, int64_t b) { return (a > b) - (a < b); }

// the key of a run, and a seed
static int by_run(const LedgerLine *a, const LedgerLine *b) {
  int order = by_number(a->es > 0, b->es > 0);
  if (!order) order = by_number(a->steps, b->steps);
  if (!order) order = by_number(a->checksum, b->checksum);
  if (!order) order = by_number(a->transitions, b->transitions);
  if (!order) order = by_number(a->eval_steps, b->eval_steps);
  if (!order) order = strcmp(a->folder, b->folder);
  if (!order) order = strcmp(a->run, b->run);
  if (!order) order = strcmp(a->config, b->config);
  if (!order) order = strcmp(a->precision, b->precision);
  // without a configuration, the options other than the table's are all that is known of it
  return order || *a->config ? order : strcmp(a->more, b->more);
}

int ledger_same_run(const LedgerLine *a, const LedgerLine *b) { return !by_run(a, b); }

static int by_seed(const void *x, const void *y) {
  const LedgerLine *a = *(const LedgerLine *const *)x, *b = *(const LedgerLine *const *)y;
  int order = by_run(a, b);
  return order ? order : by_number(a->seed, b->seed);
}

// counts the different seeds of each group and tells its lines
static int count_seeds(Ledger *l) {
  LedgerLine **lines = malloc((size_t)(l->count + 1) * sizeof *lines);
  if (!lines) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d results", l->count);
  for (int i = 0; i < l->count; i++) lines[i] = &l->lines[i];
  qsort(lines, l->count, sizeof *lines, by_seed);
  for (int begin = 0, end; begin < l->count; begin = end) {
    int seeds = 0;
    for (end = begin; end < l->count && ledger_same_run(lines[begin], lines[end]); end++) {
      seeds += end == begin || lines[end]->seed != lines[end - 1]->seed;
    }
    for (int i = begin; i < end; i++) lines[i]->seeds = seeds;
  }
  free(lines);
  return BFM_OK;
}

static int take_line(Ledger *l, JournalLine *from, const char *path) {
  LedgerLine line;
  if (!parse_line(from->item, &line)) {
    return bfm_fail(BFM_BAD_FILE, "%s: line %d is not " LEDGER_LINE, path, from->number);
  }
  if (is_left_out(&line)) {
    l->left_out++;
    return BFM_OK;
  }
  TRY(append_line(l, from->item, &line));
  from->item = NULL;  // the ledger owns it
  return BFM_OK;
}

int ledger_read(Ledger *l, const char *results) {
  *l = (Ledger){.count = 0};
  char file[PATH_MAX], folder[PATH_MAX];
  JournalLines lines;
  TRY(path_join(file, results, "ledger.jsonl"));
  TRY(path_join(folder, results, LEDGER_FOLDER));
  TRY(journal_read(&lines, file, folder, LEDGER_LINE));
  int status = BFM_OK;
  for (int i = 0; i < lines.count && !status; i++) {
    status = take_line(l, &lines.lines[i], lines.paths[lines.lines[i].file]);
  }
  journal_free(&lines);
  if (!status) status = count_seeds(l);
  if (status) ledger_free(l);
  return status;
}

void ledger_free(Ledger *l) {
  for (int i = 0; i < l->count; i++) {
    cJSON_Delete(l->parsed[i]);
    free(l->configs[i]);
  }
  free(l->parsed);
  free(l->configs);
  free(l->lines);
  *l = (Ledger){.count = 0};
}

const LedgerLine *ledger_find(const Ledger *l, const LedgerLine *key, int64_t seed,
                              int64_t episodes) {
  int any = !strcmp(key->precision, "auto");
  for (int i = 0; i < l->count; i++) {
    const LedgerLine *line = &l->lines[i];
    if (line->seed == seed && line->episodes >= episodes && line->steps == key->steps &&
        line->checksum == key->checksum && line->eval_steps == key->eval_steps &&
        (!*line->source || (line->es > 0) == (key->es > 0)) && !strcmp(line->run, key->run) &&
        !strcmp(line->config, key->config) && (any || !strcmp(line->precision, key->precision))) {
      return line;
    }
  }
  return NULL;
}

// ---------------------------------- writing ------------------------------------------------------

int ledger_append(const char *results, const cJSON *lines) {
  char path[PATH_MAX];
  Folder folder;
  TRY(folder_name(&folder, results));
  TRY(folder_make(&folder));
  TRY(path_join(path, results, "ledger.jsonl"));
  return lines_append(path, lines);
}
