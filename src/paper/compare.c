// Choosing comparable runs. A run's configuration is reduced to its base: options that the block's
// methods differ in by themselves are replaced where the run has the method's own value. So two runs
// are comparable if their data, steps and bases are equal, which is one strcmp.

#include "paper/compare.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "core/units.h"
#include "paper/configuration.h"
#include "train/recipes.h"

// ---------------------------------- lines of a configuration -------------------------------------

static const char *next_option(const char *at) { return at + strcspn(at, "\n") + 1; }

static size_t name_length(const char *at) { return strcspn(at, "=\n"); }

static int same_option(const char *a, const char *b) {
  size_t length = strcspn(a, "\n");
  return length == strcspn(b, "\n") && !strncmp(a, b, length);
}

// ---------------------------------- what a method is ---------------------------------------------

// the configuration of a cell's own options, with every other option at its default
static char *plain_text(const PaperCell *cell, int64_t steps) {
  cJSON *options = cJSON_CreateObject();
  Configuration config;
  char *text = NULL;
  if (!recipe_add(paper_options_of(cell), options) &&
      !configuration_complete(&config, options, steps)) {
    configuration_text(&text, &config);
  }
  cJSON_Delete(options);
  return text;
}

#define OPTIONS_MOST 128

// sets the entries of options that the block's agents differ in by themselves
static void find_own_options(const PaperBlock *block, uint8_t own[OPTIONS_MOST]) {
  memset(own, 0, OPTIONS_MOST);
  char *first = NULL;
  for (int k = 0; k < block->count; k++) {
    if (paper_cell_offline(&block->cells[k]) >= 0) continue;
    char *text = plain_text(&block->cells[k], 0);
    const char *a = first, *b = text;
    for (int i = 0; a && b && *a && *b && i < OPTIONS_MOST; i++) {
      own[i] |= !same_option(a, b);
      a = next_option(a);
      b = next_option(b);
    }
    if (first) free(text);
    else first = text;
  }
  free(first);
}

// A single-task agent has no options in common with the others: with its method's own configuration,
// its base is empty and fits every other.
static char *base_of_offline(const LedgerLine *line, const PaperCell *cell) {
  char *plain = plain_text(cell, line->steps);
  char *base = strdup(plain && !strcmp(plain, line->config) ? "" : line->config);
  free(plain);
  return base;
}

// The configuration that a run would have if its method's own options had the method's values, NULL if
// these do not fit together.
static char *expected_text(const LedgerLine *line, const PaperCell *cell,
                           const uint8_t own[OPTIONS_MOST]) {
  cJSON *options = cJSON_CreateObject();
  int i = 0;
  for (const char *at = line->config; *at && i < OPTIONS_MOST; at = next_option(at), i++) {
    char name[64], value[OPTION_TEXT_SIZE];
    size_t length = name_length(at);
    if (own[i]) continue;
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at + length + 1, "\n"), at + length + 1);
    cJSON_AddStringToObject(options, name, value);
  }
  Configuration config;
  char *text = NULL;
  int status = recipe_add(paper_options_of(cell), options);
  if (!status) status = configuration_complete(&config, options, line->steps);
  if (!status) configuration_text(&text, &config);
  cJSON_Delete(options);
  return text;
}

// the base of a run's configuration, one line per option; an option of the method itself is "name"
// alone. NULL if out of memory.
static char *base_of(const LedgerLine *line, const PaperCell *cell,
                     const uint8_t own[OPTIONS_MOST]) {
  if (paper_cell_offline(cell) >= 0) return base_of_offline(line, cell);
  char *base = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&base, &size);
  if (!out) return NULL;
  char *expected = expected_text(line, cell, own);
  const char *at = line->config, *wanted = expected;
  for (int i = 0; *at; i++, at = next_option(at)) {
    int is_own = i < OPTIONS_MOST && own[i] && wanted && same_option(at, wanted);
    fprintf(out, "%.*s\n", (int)(is_own ? name_length(at) : strcspn(at, "\n")), at);
    if (wanted) wanted = next_option(wanted);
  }
  free(expected);
  if (!fclose(out)) return base;
  free(base);
  return NULL;
}

// ---------------------------------- groups of runs -----------------------------------------------

// a run of one of the block's methods
typedef struct {
  const LedgerLine *line;
  char *base;
  int method;
  int offline;  // of a single-task agent
} Candidate;

static int comparable(const Candidate *a, const Candidate *b) {
  return a->line->checksum != UNKNOWN_DATA && a->line->checksum == b->line->checksum &&
         a->line->steps == b->line->steps && a->line->eval_steps == b->line->eval_steps &&
         !strcmp(a->line->precision, b->line->precision) &&
         (!*a->base || !*b->base || !strcmp(a->base, b->base));
}

// Of runs of one method, prefer those with the table's own options, then those with the most steps of
// all seeds together, then (if only the dataset differs) the later one.
static int is_better(const LedgerLine *a, const LedgerLine *b) {
  if (!*a->more != !*b->more) return !*a->more;
  int64_t more = a->steps * a->seeds - b->steps * b->seeds;
  if (more) return more > 0;
  return a->steps == b->steps && !strcmp(a->more, b->more);
}

// choose for each method its best run of those that are comparable with `with` (NULL: of all), unless
// it has one already
static int choose(PaperBlock *block, const Candidate *runs, int count, const Candidate *with) {
  const Candidate *best[BLOCK_METHODS] = {NULL};
  for (int i = 0; i < count; i++) {
    const Candidate *run = &runs[i];
    if (block->lines[run->method] || (with && run != with && !comparable(run, with))) continue;
    const Candidate **to = &best[run->method];
    if (!*to || is_better(run->line, (*to)->line)) *to = run;
  }
  for (int k = 0; k < block->count; k++) {
    if (!best[k]) continue;
    block->lines[k] = best[k]->line;
    block->bases[k] = strdup(best[k]->base);
    if (!block->bases[k]) return bfm_fail(BFM_NO_MEMORY, "out of memory for a comparison");
  }
  return BFM_OK;
}

// the size of the group of a run: methods, then steps of all seeds
typedef struct {
  int methods;
  int64_t steps;
} GroupSize;

static GroupSize measure(const Candidate *runs, int count, const Candidate *with) {
  uint8_t seen[BLOCK_METHODS] = {0};
  GroupSize size = {0};
  for (int i = 0; i < count; i++) {
    if (&runs[i] != with && !comparable(&runs[i], with)) continue;
    size.methods += !seen[runs[i].method];
    seen[runs[i].method] = 1;
    size.steps += runs[i].line->steps * runs[i].line->seeds;
  }
  return size;
}

static const Candidate *largest_group(const Candidate *runs, int count) {
  const Candidate *best = NULL;
  GroupSize size = {0};
  for (int i = 0; i < count; i++) {
    GroupSize own = measure(runs, count, &runs[i]);
    int known = runs[i].line->checksum != UNKNOWN_DATA;
    int best_known = best && best->line->checksum != UNKNOWN_DATA;
    int order = known - best_known;
    // single-task agents have other options, so that they do not choose a configuration
    if (!order && best) order = best->offline - runs[i].offline;
    if (!order) order = own.methods - size.methods;
    if (!order) order = (own.steps > size.steps) - (own.steps < size.steps);
    if (best && order < 0) continue;  // of equals, the later one
    best = &runs[i];
    size = own;
  }
  return best;
}

// whether a line is of the cell's run, with evaluation-based sampling on or off as for the method
static int is_of(const LedgerLine *line, const PaperCell *cell) {
  return !strcmp(line->run, cell->run) && (line->es > 0) == cell->method->es;
}

// the different runs of the block's methods; the caller frees *runs and their bases
static int find_candidates(const PaperBlock *block, const Ledger *ledger, Candidate **runs,
                           int *count) {
  uint8_t own[OPTIONS_MOST];
  *count = 0;
  *runs = malloc(((size_t)ledger->count * block->count + 1) * sizeof **runs);
  if (!*runs) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d results", ledger->count);
  find_own_options(block, own);
  for (int i = 0; i < ledger->count; i++) {
    const LedgerLine *line = &ledger->lines[i];
    for (int k = 0; k < block->count; k++) {
      int at = 0;
      if (!is_of(line, &block->cells[k])) continue;
      while (at < *count && ((*runs)[at].method != k || !ledger_same_run((*runs)[at].line, line))) {
        at++;
      }
      // the last line of a run stands for it, in the order of the ledger
      Candidate run = {.line = line, .method = k,
                       .offline = paper_cell_offline(&block->cells[k]) >= 0};
      if (at < *count) {
        run.base = (*runs)[at].base;
        memmove(*runs + at, *runs + at + 1, (size_t)(--*count - at) * sizeof run);
      } else {
        run.base = base_of(line, &block->cells[k], own);
      }
      if (!run.base) return bfm_fail(BFM_NO_MEMORY, "out of memory for a configuration");
      (*runs)[(*count)++] = run;
    }
  }
  return BFM_OK;
}

static int choose_lines(PaperBlock *block, const Ledger *ledger) {
  Candidate *runs;
  int count;
  int status = find_candidates(block, ledger, &runs, &count);
  const Candidate *with = status ? NULL : largest_group(runs, count);
  if (with) {
    block->reference = with->method;
    // the reference is the run itself, even if its method has a better one in the group
    status = choose(block, runs, count, with);
    if (!status) status = choose(block, runs, count, NULL);
  }
  for (int i = 0; i < count && runs; i++) free(runs[i].base);
  free(runs);
  return status;
}

int paper_block(PaperBlock *block, const Ledger *ledger, const PaperTable *table, int *at) {
  PaperCell cell;
  *block = (PaperBlock){.reference = -1};
  for (; paper_cell_at(table, *at, &cell); ++*at) {
    const PaperCell *first = &block->cells[0];
    if (block->count && (strcmp(cell.domain, first->domain) || strcmp(cell.data, first->data))) {
      break;
    }
    if (block->count < BLOCK_METHODS) block->cells[block->count++] = cell;
  }
  if (!block->count) return 0;
  int status = choose_lines(block, ledger);
  if (!status) return 1;
  paper_block_free(block);
  return -1;
}

void paper_block_free(PaperBlock *block) {
  for (int k = 0; k < block->count; k++) free(block->bases[k]);
  *block = (PaperBlock){.reference = -1};
}

// ---------------------------------- differences --------------------------------------------------

static void add(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *out, size_t size, const char *format, ...) {
  size_t at = strlen(out);
  va_list args;
  va_start(args, format);
  if (at) at += (size_t)snprintf(out + at, size - at, ", ");
  if (at < size) vsnprintf(out + at, size - at, format, args);
  va_end(args);
}

static void add_options(char *out, size_t size, const char *a, const char *b) {
  for (; *a && *b; a = next_option(a), b = next_option(b)) {
    size_t name = name_length(a);
    if (same_option(a, b)) continue;
    // an option without a value is the method's own
    const char *here = a[name] == '=' ? a + name + 1 : NULL;
    const char *there = b[name] == '=' ? b + name + 1 : NULL;
    if (here && there) {
      add(out, size, "%.*s %.*s, not %.*s", (int)name, a, (int)strcspn(here, "\n"), here,
          (int)strcspn(there, "\n"), there);
    } else if (here) {
      add(out, size, "%.*s %.*s", (int)name, a, (int)strcspn(here, "\n"), here);
    } else if (there) {
      add(out, size, "%.*s not %.*s", (int)name, a, (int)strcspn(there, "\n"), there);
    }
  }
}

// A single-task agent has no options in common with the others: its own are compared with the defaults
// of its method.
static void add_configuration(const PaperBlock *block, int method, char *out, size_t size) {
  const PaperCell *cell = &block->cells[method];
  const char *base = block->bases[method];
  if (paper_cell_offline(cell) < 0) {
    if (paper_cell_offline(&block->cells[block->reference]) >= 0) return;
    add_options(out, size, base, block->bases[block->reference]);
    return;
  }
  char *plain = *base ? plain_text(cell, block->lines[method]->steps) : NULL;
  if (plain) add_options(out, size, base, plain);
  free(plain);
}

void paper_block_difference(const PaperBlock *block, int method, char *out, size_t size) {
  const LedgerLine *line = block->lines[method];
  *out = 0;
  if (!line) return;
  if (line->checksum == UNKNOWN_DATA) {
    add(out, size, "%sdataset unknown", *line->source ? "" : "older line: ");
  }
  if (block->reference < 0 || method == block->reference) return;
  const LedgerLine *other = block->lines[block->reference];
  if (line->checksum != UNKNOWN_DATA && other->checksum != line->checksum) {
    add(out, size, "data %08" PRIx64 ", not %08" PRIx64, line->checksum, other->checksum);
  }
  if (line->steps != other->steps) {
    char steps[32], of[32];
    short_count((double)line->steps, steps, sizeof steps);
    short_count((double)other->steps, of, sizeof of);
    add(out, size, "%s steps, not %s", steps, of);
  }
  if (line->eval_steps != other->eval_steps) {
    add(out, size, "episodes of %" PRId64 " steps, not %" PRId64 " (0: the domain's)",
        line->eval_steps, other->eval_steps);
  }
  if (*line->precision && *other->precision && strcmp(line->precision, other->precision)) {
    add(out, size, "%s, not %s", line->precision, other->precision);
  }
  if (*line->config && *other->config) {
    add_configuration(block, method, out, size);
  } else if (strcmp(line->config, other->config)) {
    add(out, size, "configuration unknown");
  }
}
