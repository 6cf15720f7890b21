// The configuration of a run as the ledger keeps it: every option that can change a result, of an agent
// or of a single-task agent (bc, td3bc, iql, xql). Left out are the device, the threads and the seeds;
// the precision has a field of its own.

#ifndef BFM_PAPER_CONFIGURATION_H
#define BFM_PAPER_CONFIGURATION_H

#include <cjson/cJSON.h>

#include "agent/config.h"
#include "explore/explorer.h"

typedef struct {
  int offline;             // ExplorerAlgo of a single-task agent, whose options are …
  ExplorerOptions single;  // … here; -1: an agent, whose options are …
  Config agent;            // … here
} Configuration;

// Complete options (a JSON object, recipe included) as training does: zeros that stand for a default of
// the preset or the algorithm get their values, and so does what depends on the steps of the run.
int configuration_complete(Configuration *config, const cJSON *options, int64_t steps);

// Write a configuration as text, a malloc'ed line name=value for each option in the order of its table,
// so that equal configurations have equal texts.
int configuration_text(char **text, const Configuration *config);

// The same from a line of the ledger. Options that the line lacks are newer than it and have their
// defaults; options that are gone are ignored. *text is NULL if the line has no configuration.
int configuration_of_line(char **text, const cJSON *line);

// the configuration as a JSON object, NULL if out of memory; the caller frees it
cJSON *configuration_json(const Configuration *config);

// Replace the names of parts of the domain's observation in the option `goal` by their columns.
int configuration_goal(cJSON *options, const char *domain);

// Write options beyond a table's as the ledger records them, without those that a configuration leaves
// out. Equal options give equal texts, whatever their order and spelling of numbers.
void configuration_more(const cJSON *options, char *out, size_t size);

// a short name of a configuration, eight hexadecimal digits
#define HASH_SIZE 9
void configuration_hash(const char *text, char out[HASH_SIZE]);

#endif
