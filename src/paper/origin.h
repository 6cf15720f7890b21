// Which data a run was trained on: the checksum of the transitions, as run.json has it, and what the
// file says about how it was made.

#ifndef BFM_PAPER_ORIGIN_H
#define BFM_PAPER_ORIGIN_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "core/status.h"

typedef struct {
  int64_t checksum, transitions;
  char collector[64];  // empty: the file names none
  cJSON *line;         // the ledger's "data": file, checksum, transitions and the file's own notes
} Origin;

// Read the data as training on the domain does. The file is read completely.
int origin_read(Origin *origin, const char *path, const char *env);
void origin_free(Origin *origin);

// the checksum that training with a stride records in run.json
int origin_checksum(int64_t *checksum, const char *path, const char *env, int64_t stride);

#endif
