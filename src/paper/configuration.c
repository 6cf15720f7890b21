// Configurations as text. One text holds all options, so that comparing two runs is one strcmp, and
// naming what differs is one pass over both texts.

#include "paper/configuration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// options that say where and how often a run is made
static const char *const left_out[] = {"device", "threads", "seed", "seeds", "precision"};

static int is_left_out(const char *name) {
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
    if (!strcmp(left_out[i], name)) return 1;
  }
  return 0;
}

int configuration_text(char **text, const Config *config) {
  size_t size = 0;
  *text = NULL;
  FILE *out = open_memstream(text, &size);
  if (!out) return bfm_fail(BFM_NO_MEMORY, "out of memory for a configuration");
  for (const Option *o = agent_options; o->name; o++) {
    char value[OPTION_TEXT_SIZE];
    if (is_left_out(o->name)) continue;
    options_get(o, config, value, sizeof value);
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
    if (!options_find(agent_options, item->string))
      cJSON_Delete(cJSON_DetachItemViaPointer(options, item));
  }
  Config config;
  char *json = cJSON_PrintUnformatted(options);
  int status = json ? options_default(agent_options, &config)
                    : bfm_fail(BFM_NO_MEMORY, "out of memory for a configuration");
  // values that this version does not know leave the configuration unknown
  int known = !status && !options_from_json(agent_options, &config, json);
  if (known) status = configuration_text(text, &config);
  free(json);
  cJSON_Delete(options);
  return status;
}

cJSON *configuration_json(const Config *config) {
  char *text = options_to_json(agent_options, config);
  cJSON *json = text ? cJSON_Parse(text) : NULL;
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
    cJSON_DeleteItemFromObject(json, left_out[i]);
  }
  free(text);
  return json;
}

int configuration_complete(Config *config, const cJSON *options) {
  char *json = cJSON_PrintUnformatted(options);
  if (!json) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  int status = options_default(agent_options, config);
  if (!status) status = options_from_json(agent_options, config, json);
  if (!status) status = config_complete(config);
  free(json);
  return status;
}

void configuration_hash(const char *text, char out[HASH_SIZE]) {
  unsigned sum = (unsigned)crc32_z(0, (const unsigned char *)text, strlen(text));
  snprintf(out, HASH_SIZE, "%08x", sum);
}
