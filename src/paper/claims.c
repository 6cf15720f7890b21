// The six claims: the comparisons, and their evaluation.

#include "paper/claims.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "paper/datasets.h"
#include "paper/evidence.h"
#include "core/interval.h"

#define MOOD "walker", "mood-small"
#define RND "walker", "rnd-small"
#define GOALS "point_mass", "random-hold20"
#define ONE_Z "FB-AW, one z a batch"

#define NEEDED "advantage weighting is needed on MOOD data"
#define PRECISE "auto-regressive features help precise goals"
#define NEW_TASKS "auto-regressive features help new tasks"
#define PREFERS "RND data prefers TD3"
#define IWIS "IWIS is better than WIS"
#define OPTIMISM "advantage weighting removes over-optimism"
#define TOPLINE "zero-shot matches single-task offline agents"

static const Claim claims[] = {
    {1, NEEDED, 1, MOOD, "FB-AW", "FB", 1, 1, "in", 0},
    {1, NEEDED, 0, MOOD, "FB-AW", "FB", 1, 1, "all", 0},
    {1, NEEDED, 0, MOOD, "FB-AW", "FB", 0, 0, "in", 0},
    {1, NEEDED, 0, MOOD, "FB-AW", "FB", 0, 0, "all", 0},
    {1, NEEDED, 0, MOOD, "FB-AW", "FB, plain", 1, 0, "in", 0},
    {1, NEEDED, 0, MOOD, "FB-AW", "FB, plain", 1, 0, "all", 0},

    {2, PRECISE, 1, GOALS, "FB-AWARE (8)", ONE_Z, 1, 1, "all", 0},
    {2, PRECISE, 0, GOALS, "FB-AWARE (8)", "FB-AW", 1, 1, "all", 0},
    {2, PRECISE, 0, GOALS, "FB-AWARE (8)", ONE_Z, 1, 1, "new", 0},
    {2, PRECISE, 0, GOALS, "FB-AWARE (8)", "FB-AW", 1, 1, "new", 0},
    {2, NEW_TASKS, 1, MOOD, "FB-AWARE (8)", ONE_Z, 1, 1, "new", 0},
    {2, NEW_TASKS, 0, MOOD, "FB-AWARE (8)", "FB-AW", 1, 1, "new", 0},

    {3, PREFERS, 1, RND, "FB", "FB-AW", 1, 1, "in", 0},
    {3, PREFERS, 0, RND, "FB", "FB-AW", 1, 1, "all", 0},
    {3, PREFERS, 0, RND, "FB", "FB-AW", 0, 0, "in", 0},
    {3, PREFERS, 0, RND, "FB", "FB-AW", 0, 0, "all", 0},
    {3, PREFERS, 0, RND, "FB, plain", "FB-AW", 0, 1, "in", 0},
    {3, PREFERS, 0, RND, "FB, plain", "FB-AW", 0, 1, "all", 0},

    {4, IWIS, 1, MOOD, "FB-AW, IWIS, clip off", "FB-AW, WIS, clip off", 1, 1, "in", 0},
    {4, IWIS, 0, MOOD, "FB-AW, IWIS, clip off", "FB-AW, WIS, clip off", 1, 1, "all", 0},

    {5, OPTIMISM, 1, MOOD, "FB-AW", "FB", 0, 0, "kept", 0},

    {6, TOPLINE, 1, MOOD, "FB-AWARE (8)", "IQL", 1, 0, "in", 1},
    {6, TOPLINE, 0, MOOD, "FB-AWARE (8)", "XQL", 1, 0, "in", 1},
    {6, TOPLINE, 0, MOOD, "FB-AWARE (8)", "TD3+BC", 1, 0, "in", 1},
};
#define CLAIM_COUNT ((int)(sizeof claims / sizeof *claims))

const char *const claim_verdicts[] = {"not run", "holds", "does not", "undecided"};

const Claim *claim_at(int i) { return i < CLAIM_COUNT ? &claims[i] : NULL; }

static int is_cell(const PaperCell *cell, const Claim *claim, const char *method) {
  return !strcmp(cell->domain, claim->domain) && !strcmp(cell->data, claim->data) &&
         !strcmp(cell->method->method, method);
}

int claims_need_bias(const PaperCell *cell) {
  if (strcmp(cell->table->name, CLAIMS_TABLE)) return 0;
  for (int i = 0; i < CLAIM_COUNT; i++) {
    const Claim *c = &claims[i];
    if (strcmp(c->group, "kept")) continue;
    if (is_cell(cell, c, c->a) || is_cell(cell, c, c->b)) return 1;
  }
  return 0;
}

static void find_cell(const Claim *claim, const char *method, PaperCell *cell) {
  const PaperTable *table;
  if (paper_table_find(&table, CLAIMS_TABLE)) return;
  for (int i = 0; paper_cell_at(table, i, cell) && !is_cell(cell, claim, method);) i++;
}

// ---------------------------------- pairs --------------------------------------------------------

// the seeds of two runs that can be compared
typedef struct {
  double a[CLAIM_MAX_SEEDS], b[CLAIM_MAX_SEEDS];
  int64_t episodes;  // the fewest of a line
  int count;
} Pairs;

static double claim_value(const Claim *claim, const PaperCell *cell, const LedgerLine *line) {
  return strcmp(claim->group, "kept") ? paper_line_value(line, cell, claim->group)
                                      : evidence_kept(line->bias);
}

static int is_line(const LedgerLine *line, const PaperCell *cell, int es) {
  return !strcmp(line->run, cell->run) && (line->es > 0) == es;
}

// whether two methods' runs were made alike, apart from the method
static int is_alike(const LedgerLine *a, const LedgerLine *b) {
  return a->checksum != UNKNOWN_DATA && a->checksum == b->checksum && a->steps == b->steps &&
         a->transitions == b->transitions && a->eval_steps == b->eval_steps &&
         !strcmp(a->precision, b->precision) && !strcmp(a->more, b->more);
}

const LedgerLine *claim_line(const Ledger *ledger, const LedgerLine *run, int64_t seed) {
  for (int i = ledger->count - 1; i >= 0; i--) {
    const LedgerLine *line = &ledger->lines[i];
    if (line->seed == seed && ledger_same_run(line, run)) return line;
  }
  return NULL;
}

static void fill_pairs(const Ledger *ledger, const Claim *claim, const ClaimResult *r,
                       Pairs *pairs) {
  *pairs = (Pairs){.episodes = INT64_MAX};
  for (int64_t seed = 0; seed < CLAIM_MAX_SEEDS; seed++) {
    const LedgerLine *a = claim_line(ledger, r->line_a, seed);
    const LedgerLine *b = claim_line(ledger, r->line_b, seed);
    if (!a || !b) continue;
    double value_a = claim_value(claim, &r->a, a), value_b = claim_value(claim, &r->b, b);
    if (isnan(value_a) || isnan(value_b)) continue;
    pairs->a[pairs->count] = value_a;
    pairs->b[pairs->count++] = value_b;
    if (a->episodes < pairs->episodes) pairs->episodes = a->episodes;
    if (b->episodes < pairs->episodes) pairs->episodes = b->episodes;
  }
}

// Prefer runs with the table's own options, then those with the most steps of all pairs together, then
// the later ones.
static int is_better(const ClaimResult *now, const ClaimResult *best) {
  if (!best->seeds) return 1;
  if (!*now->line_a->more != !*best->line_a->more) return !*now->line_a->more;
  return now->steps * now->seeds >= best->steps * best->seeds;
}

// ---------------------------------- the verdict --------------------------------------------------

static ClaimVerdict judge(const Claim *claim, const ClaimResult *r) {
  if (isnan(r->low)) return CLAIM_UNDECIDED;
  if (!claim->matches) {
    return r->low > 0 ? CLAIM_HOLDS : r->high < 0 ? CLAIM_DOES_NOT : CLAIM_UNDECIDED;
  }
  double limit = CLAIM_TOLERANCE * fabs(r->mean_b);
  if (r->low >= -limit && r->high <= limit) return CLAIM_HOLDS;
  return r->low > limit || r->high < -limit ? CLAIM_DOES_NOT : CLAIM_UNDECIDED;
}

static int is_pilot(const Claim *claim, const ClaimResult *r) {
  const PaperTable *table = r->a.table;
  return r->seeds < table->seeds || r->steps < paper_cell_steps(&r->a) ||
         r->episodes < table->episodes || r->transitions < paper_data_steps(claim->data) ||
         *r->line_a->more;
}

static void compare(const Claim *claim, const Pairs *pairs, ClaimResult *r) {
  r->seeds = pairs->count;
  r->steps = r->line_a->steps;
  r->episodes = pairs->episodes;
  r->transitions = r->line_a->transitions;
  for (int i = 0; i < pairs->count; i++) {
    r->mean_a += pairs->a[i] / pairs->count;
    r->mean_b += pairs->b[i] / pairs->count;
  }
  Interval interval = paired_interval(pairs->a, pairs->b, pairs->count, 0.95);
  r->effect = interval.mean;
  r->low = interval.low;
  r->high = interval.high;
  r->verdict = judge(claim, r);
  r->pilot = is_pilot(claim, r);
}

void claim_result(const Ledger *ledger, const Claim *claim, ClaimResult *best) {
  ClaimResult cells = {.verdict = CLAIM_NOT_RUN};
  find_cell(claim, claim->a, &cells.a);
  find_cell(claim, claim->b, &cells.b);
  *best = cells;
  for (int i = 0; i < ledger->count; i++) {
    if (!is_line(&ledger->lines[i], &cells.a, claim->es_a)) continue;
    for (int k = 0; k < ledger->count; k++) {
      ClaimResult now = cells;
      now.line_a = &ledger->lines[i];
      now.line_b = &ledger->lines[k];
      if (now.line_b->seed != now.line_a->seed || !is_alike(now.line_a, now.line_b) ||
          !is_line(now.line_b, &cells.b, claim->es_b)) {
        continue;
      }
      Pairs pairs;
      fill_pairs(ledger, claim, &now, &pairs);
      if (!pairs.count) continue;
      compare(claim, &pairs, &now);
      if (is_better(&now, best)) *best = now;
    }
  }
}
