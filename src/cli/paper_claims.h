// The six claims: as a table for people, as JSON, and as plots.

#ifndef BFM_CLI_PAPER_CLAIMS_H
#define BFM_CLI_PAPER_CLAIMS_H

#include "paper/paper.h"

// Print the comparisons to standard output, for people or as one JSON object each.
int paper_claims_show(const PaperSettings *settings, int json);

// Draw the effects as path.svg and path.png, and the learning curves as path-curves.svg and .png; path
// NULL: RESULTS/claims.
int paper_claims_plot(const PaperSettings *settings, const char *path);

#endif
