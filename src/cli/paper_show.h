// Our numbers of a table beside the paper's: as a table for people, as JSON and as bars.

#ifndef BFM_CLI_PAPER_SHOW_H
#define BFM_CLI_PAPER_SHOW_H

#include "paper/paper.h"

// a table with the paper's numbers and the ledger of ours
typedef struct {
  const PaperTable *table;
  const PaperSettings *settings;
  Ledger ledger;
  PaperNumbers numbers;
} PaperBoth;

int paper_both_read(PaperBoth *both, const PaperTable *table, const PaperSettings *settings);
void paper_both_free(PaperBoth *both);

// Print the table to standard output, for people or as one JSON object per number.
int paper_show(const PaperTable *table, const PaperSettings *settings, int json);

// Draw path.svg and path.png; path NULL: RESULTS/TABLE.
int paper_plot(const PaperTable *table, const PaperSettings *settings, const char *path);

#endif
