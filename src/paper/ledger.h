// The ledger of results: results/ledger.jsonl, one JSON line a run, seed and es. Lines are appended
// and never changed.

#ifndef BFM_PAPER_LEDGER_H
#define BFM_PAPER_LEDGER_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "core/status.h"

// the lines that matter to tables; the file has more: configuration, commit, machine, time
typedef struct {
  const char *run, *more;  // what was run, and with which options beside the table's
  int64_t seed, steps, es, episodes;
  int64_t transitions;   // of the data, 0: not said
  const cJSON *returns;  // task: mean
} LedgerLine;

typedef struct {
  LedgerLine *lines;
  int count;
  cJSON **parsed;  // [count], what the lines point into
} Ledger;

// a file that is not there has no lines; a last line that is not whole is left out
int ledger_read(Ledger *ledger, const char *results);
void ledger_free(Ledger *ledger);

// append lines, all at once; frees none. NULL: only whether that can be done
int ledger_append(const char *results, const cJSON *lines);

// the line of a seed that has at least so many steps and episodes, or NULL
const LedgerLine *ledger_find(const Ledger *ledger, const char *run, const char *more, int64_t seed,
                              int64_t steps, int64_t episodes);

// this program and this machine, into a line
void ledger_sign(cJSON *line);

#endif
