// What bfm writes as JSON: the record of a run, logs and the ledger, an object a line, and prompts.

#ifndef BFM_CLI_RECORDS_H
#define BFM_CLI_RECORDS_H

#include <cjson/cJSON.h>

// add what such a file holds, or fail where it is damaged or none of them
int records_info(const char *path, cJSON *info);

// the same of a run's folder: its record, how far it came and what its last evaluation found
int run_info(const char *folder, cJSON *info);

#endif
