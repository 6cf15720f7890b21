// bfm info for JSON files: the record of a run, logs and the ledger with one object per line, prompts
// and goals.

#ifndef BFM_CLI_RECORDS_H
#define BFM_CLI_RECORDS_H

#include <cjson/cJSON.h>

// Add the contents of such a file to `info`. Fails if the file is damaged or of no known kind.
int records_info(const char *path, cJSON *info);

// Add the contents of a run's folder to `info`: its record, its step and its last evaluation.
int run_info(const char *folder, cJSON *info);

// remove the options of an explorer's configuration that its algorithm does not read
void records_drop_unused(cJSON *config);

#endif
