// Fuzzes the options of agents: any text is read or refused with an error sentence. Accepted options
// are written and read again, which must give the same bytes.

#include <stdlib.h>
#include <string.h>

#include "agent/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char *text = malloc(size + 1);
  memcpy(text, bytes, size);
  text[size] = 0;

  static Config config, again;
  memset(&config, 0, sizeof config);
  memset(&again, 0, sizeof again);
  if (options_default(agent_options, &config)) abort();
  if (options_from_json(agent_options, &config, text)) {
    if (!*bfm_error()) abort();
  } else {
    char *json = options_to_json(agent_options, &config);
    if (options_from_json(agent_options, &again, json)) abort();
    char *same = options_to_json(agent_options, &again);
    if (strcmp(json, same)) abort();
    free(json);
    free(same);
    config_complete(&config);
  }
  free(text);
  return 0;
}
