// The ledger of results: results/ledger.jsonl, with one JSON line per run, seed and es. Lines are
// appended and never changed.

#ifndef BFM_PAPER_LEDGER_H
#define BFM_PAPER_LEDGER_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "core/status.h"

// The fields of a line that tables need. The file also has the configuration, the commit, the machine
// and the time.
typedef struct {
  const char *run, *more;  // the cell's run, and the options other than the table's
  int64_t seed, steps, es, episodes;
  int64_t transitions;   // in the dataset; 0: the line does not say
  const cJSON *returns;  // mean return of each task, by name
  int seeds;             // different seeds with this run, more, steps and transitions, es on or off
} LedgerLine;

typedef struct {
  LedgerLine *lines;
  int count;
  cJSON **parsed;  // [count], owns the texts that the lines point to
} Ledger;

// Read the ledger. A missing file is an empty ledger; a last line that was cut off is skipped.
int ledger_read(Ledger *ledger, const char *results);
void ledger_free(Ledger *ledger);

// Append an array of lines in one write; the caller still owns it. NULL: only check that the ledger can
// be written.
int ledger_append(const char *results, const cJSON *lines);

// Return the line of a seed with at least so many steps and episodes, or NULL.
const LedgerLine *ledger_find(const Ledger *ledger, const char *run, const char *more, int64_t seed,
                              int64_t steps, int64_t episodes);

// Add the version, the commit, the machine and the time to a line.
void ledger_sign(cJSON *line);

#endif
