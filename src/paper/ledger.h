// The ledger of results: one JSON line per run, seed and es. Lines are appended and never changed.
// bfm paper run appends to a file per process in results/ledger (sweep/journal.h), bfm paper add to
// results/ledger.jsonl; readers see all of them as one ledger.

#ifndef BFM_PAPER_LEDGER_H
#define BFM_PAPER_LEDGER_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "core/status.h"

// The fields of a line that tables need. The file also has how the data was made, the commit, the
// machine and the time. Lines of version 0.1 do not say which data they were made with.
typedef struct {
  const char *run, *more;  // the cell's run, and the options other than the table's
  int64_t seed, steps, es, episodes;
  int64_t eval_steps;         // control steps of an evaluation episode; 0: the domain's
  int64_t transitions;        // in the dataset; 0: the line does not say
  double updates;             // of RND's learner for each transition of the data; 0: not known
  int64_t checksum;           // of the dataset; UNKNOWN_DATA: an older line
  const char *config;         // configuration_text; empty: the line has none
  const char *precision;      // f32, tf32, bf16; empty: the line does not say
  const char *source;         // "log": entered by bfm paper add; empty: written by bfm paper run
  const char *folder;         // of a log, where its data is unknown; else empty
  const cJSON *returns;       // mean return of each task, by name
  const cJSON *curve, *bias;  // of evidence.h; NULL: the line has none
  int seeds;                  // different seeds with this key, es on or off
} LedgerLine;

#define UNKNOWN_DATA (-1)
#define LEDGER_FOLDER "ledger"  // of results: the files and claims of bfm paper run

typedef struct {
  LedgerLine *lines;
  int count;
  int left_out;    // lines of 0.1's jaco, which are not among the lines
  cJSON **parsed;  // [count], owns the texts that the lines point to …
  char **configs;  // [count], … but for their configurations
} Ledger;

// Read the ledger. Missing files are empty; a last line that was cut off is skipped, and so are lines of
// jaco without data: they are of version 0.1, whose arm was another environment.
int ledger_read(Ledger *ledger, const char *results);
void ledger_free(Ledger *ledger);

// Whether two lines are of the same run, apart from the seed: the same cell, data, steps,
// configuration, precision and length of episodes, both with or both without sampling. Lines of
// unknown data are the same if they have equally many transitions, and logs if they are of one folder.
int ledger_same_run(const LedgerLine *a, const LedgerLine *b);

// Say how many lines of a table's domains (NULL: of all) were left out, and why; returns 0 if there are
// none.
#define LEFT_OUT_SIZE 128
int ledger_left_out(const Ledger *ledger, const char *domains, char out[LEFT_OUT_SIZE]);

// Append an array of lines to results/ledger.jsonl; the caller still owns it.
int ledger_append(const char *results, const cJSON *lines);

// Return the line of a seed of the run `key` (its cell, data, steps, configuration, precision and
// eval_steps) with at least so many episodes, or NULL. Precision "auto" is any. A line that is from a
// log counts only with sampling on or off as in `key`, because its run may lack the other.
const LedgerLine *ledger_find(const Ledger *ledger, const LedgerLine *key, int64_t seed,
                              int64_t episodes);

#endif
