// The configuration of a run as the ledger keeps it: every option of the agent that can change a
// result. Left out are the device, the threads and the seeds; the precision has a field of its own.

#ifndef BFM_PAPER_CONFIGURATION_H
#define BFM_PAPER_CONFIGURATION_H

#include <cjson/cJSON.h>

#include "agent/config.h"

// Write a configuration as text, a malloc'ed line name=value for each option in the order of
// agent_options, so that equal configurations have equal texts.
int configuration_text(char **text, const Config *config);

// The same from a line of the ledger. Options that the line lacks are newer than it and have their
// defaults; options that are gone are ignored. *text is NULL if the line has no configuration.
int configuration_of_line(char **text, const cJSON *line);

// the configuration as a JSON object, NULL if out of memory; the caller frees it
cJSON *configuration_json(const Config *config);

// Complete an agent's options (a JSON object, recipe included) as training does: zeros that stand for
// a default of the preset or the algorithm get their values.
int configuration_complete(Config *config, const cJSON *options);

// a short name of a configuration, eight hexadecimal digits
#define HASH_SIZE 9
void configuration_hash(const char *text, char out[HASH_SIZE]);

#endif
