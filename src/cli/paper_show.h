// The numbers of a table, ours beside the paper's: as a table for people, as JSON, as bars.

#ifndef BFM_CLI_PAPER_SHOW_H
#define BFM_CLI_PAPER_SHOW_H

#include "paper/paper.h"

// what the paper has of a table, and what the ledger has
typedef struct {
  const PaperTable *table;
  const PaperSettings *settings;
  Ledger ledger;
  PaperNumbers numbers;
} PaperBoth;

int paper_both_read(PaperBoth *both, const PaperTable *table, const PaperSettings *settings);
void paper_both_free(PaperBoth *both);

int paper_show(const PaperTable *table, const PaperSettings *settings, int json);

// as path.svg and path.png; NULL: below the folder of results, by the table's name
int paper_plot(const PaperTable *table, const PaperSettings *settings, const char *path);

#endif
