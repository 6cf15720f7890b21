// Configurations as text. One text holds all options, so that comparing two runs is one strcmp, and
// naming what differs is one pass over both texts.

#include "paper/configuration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "envs/domain.h"
#include "train/settings.h"

// options that say where and how often a run is made
static const char *const left_out[] = {"device", "threads", "seed", "seeds", "precision"};

static int is_left_out(const char *name) {
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
    if (!strcmp(left_out[i], name)) return 1;
  }
  return 0;
}

static const Option *table_of(const Configuration *c) {
  return c->offline < 0 ? agent_options : explorer_options;
}

static const void *fields_of(const Configuration *c) {
  return c->offline < 0 ? (const void *)&c->agent : &c->single;
}

static int has_option(const Configuration *c, const char *name) {
  return !is_left_out(name) && (c->offline < 0 || explorer_takes(c->offline, name));
}

// options as they are, those that are not given at their defaults
static int read_options(Configuration *c, const cJSON *options) {
  char *json = cJSON_PrintUnformatted(options);
  if (!json) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  c->offline = settings_offline_algo(json);
  void *fields = c->offline < 0 ? (void *)&c->agent : &c->single;
  int status = options_default(table_of(c), fields);
  if (!status) status = options_from_json(table_of(c), fields, json);
  free(json);
  return status;
}

int configuration_complete(Configuration *c, const cJSON *options, int64_t steps) {
  TRY(read_options(c, options));
  if (c->offline < 0) return config_complete(&c->agent);
  explorer_complete(&c->single);
  if (explorer_takes(c->offline, "anneal") && !cJSON_HasObjectItem(options, "anneal")) {
    c->single.anneal = steps;
  }
  return BFM_OK;
}

int configuration_text(char **text, const Configuration *c) {
  size_t size = 0;
  *text = NULL;
  FILE *out = open_memstream(text, &size);
  if (!out) return bfm_fail(BFM_NO_MEMORY, "out of memory for a configuration");
  for (const Option *o = table_of(c); o->name; o++) {
    char value[OPTION_TEXT_SIZE];
    if (!has_option(c, o->name)) continue;
    options_get(o, fields_of(c), value, sizeof value);
    fprintf(out, "%s=%s\n", o->name, value);
  }
  if (!fclose(out)) return BFM_OK;
  free(*text);
  *text = NULL;
  return bfm_fail(BFM_NO_MEMORY, "out of memory for a configuration");
}

int configuration_of_line(char **text, const cJSON *line) {
  *text = NULL;
  cJSON *options = cJSON_Duplicate(cJSON_GetObjectItem(line, "config"), 1);
  if (!cJSON_IsObject(options)) {
    cJSON_Delete(options);
    return BFM_OK;
  }
  for (cJSON *item = options->child, *next; item; item = next) {
    next = item->next;
    if (!options_find(agent_options, item->string) && !options_find(explorer_options, item->string))
      cJSON_Delete(cJSON_DetachItemViaPointer(options, item));
  }
  // values that this version does not know leave the configuration unknown
  Configuration c;
  int status = read_options(&c, options);
  if (!status) status = configuration_text(text, &c);
  else if (status != BFM_NO_MEMORY) status = BFM_OK;
  cJSON_Delete(options);
  return status;
}

cJSON *configuration_json(const Configuration *c) {
  char *text = options_to_json(table_of(c), fields_of(c));
  cJSON *json = text ? cJSON_Parse(text) : NULL;
  for (const Option *o = table_of(c); o->name; o++) {
    if (!has_option(c, o->name)) cJSON_DeleteItemFromObject(json, o->name);
  }
  free(text);
  return json;
}

int configuration_goal(cJSON *options, const char *name) {
  const char *goal = cJSON_GetStringValue(cJSON_GetObjectItem(options, "goal"));
  if (!goal || !goal[strspn(goal, "0123456789:,")]) return BFM_OK;
  const Domain *domain;
  char columns[OPTION_TEXT_SIZE];
  TRY(domain_find(&domain, name));
  TRY(domain_columns(domain, goal, columns, sizeof columns));
  cJSON_ReplaceItemInObject(options, "goal", cJSON_CreateString(columns));
  return BFM_OK;
}

static const cJSON *next_by_name(const cJSON *options, const char *name) {
  const cJSON *item, *next = NULL;
  cJSON_ArrayForEach(item, options) {
    if (strcmp(item->string, name) <= 0) continue;
    if (!next || strcmp(item->string, next->string) < 0) next = item;
  }
  return next;
}

void configuration_more(const cJSON *options, char *out, size_t size) {
  *out = 0;
  const cJSON *item = NULL;
  while ((item = next_by_name(options, item ? item->string : ""))) {
    if (is_left_out(item->string) || !cJSON_IsString(item)) continue;
    Config config;
    char value[OPTION_TEXT_SIZE];
    snprintf(value, sizeof value, "%s", item->valuestring);
    const Option *option = options_find(agent_options, item->string);
    if (option && !options_set(agent_options, &config, item->string, value)) {
      options_get(option, &config, value, sizeof value);
    }
    size_t at = strlen(out);
    snprintf(out + at, size - at, "%s%s=%s", at ? " " : "", item->string, value);
  }
}

void configuration_hash(const char *text, char out[HASH_SIZE]) {
  unsigned sum = (unsigned)crc32_z(0, (const unsigned char *)text, strlen(text));
  snprintf(out, HASH_SIZE, "%08x", sum);
}
