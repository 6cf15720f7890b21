// The paper's six claims as comparisons of two methods on one dataset. The rule of the verdict is
// fixed here, before any run: over seeds that both methods have, with the same data and steps, the
// effect is the mean of the difference A - B, with a 95% t interval of the pairs.
//   holds      the interval lies above 0; for a claim of equality within ±5% of B's mean
//   does not   the interval lies below 0; for equality wholly outside of ±5%
//   undecided  otherwise
// A verdict from fewer seeds, steps, episodes or transitions than planned, or with other options, is
// that of a pilot.

#ifndef BFM_PAPER_CLAIMS_H
#define BFM_PAPER_CLAIMS_H

#include "paper/paper.h"

#define CLAIMS_TABLE "claims"
#define CLAIM_TOLERANCE 0.05
#define CLAIM_MAX_SEEDS 64

typedef struct {
  int number;
  const char *text;
  int decides;  // whether this comparison decides the claim; the others show what the result depends on
  const char *domain, *data, *a, *b;  // methods of the table
  int es_a, es_b;                     // 1: acting with evaluation-based sampling
  const char *group;                  // tasks "in", "new" or "all"; "kept": see claim_value
  int matches;                        // a claim of equality
} Claim;

// comparison number i, NULL after the last
const Claim *claim_at(int i);

// whether a comparison needs the prediction bias of a cell's run
int claims_need_bias(const PaperCell *cell);

typedef enum { CLAIM_NOT_RUN, CLAIM_HOLDS, CLAIM_DOES_NOT, CLAIM_UNDECIDED } ClaimVerdict;
extern const char *const claim_verdicts[];  // their names

typedef struct {
  PaperCell a, b;
  const LedgerLine *line_a, *line_b;  // one of each method's lines; NULL: not run
  int seeds;                          // pairs
  int64_t steps, episodes, transitions;
  double mean_a, mean_b, effect, low, high;
  ClaimVerdict verdict;
  int pilot;
} ClaimResult;

// the last line of a seed in the run of a line, NULL: there is none
const LedgerLine *claim_line(const Ledger *ledger, const LedgerLine *run, int64_t seed);

// Compare the two methods in the ledger. Of several pairs of runs, one with only the table's options is
// preferred, then the one with the most steps of all seeds together, then the last.
void claim_result(const Ledger *ledger, const Claim *claim, ClaimResult *result);

#endif
