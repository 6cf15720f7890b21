// Which cell of the tables a run belongs to, found from its configuration.

#ifndef BFM_PAPER_IDENTIFY_H
#define BFM_PAPER_IDENTIFY_H

#include <cjson/cJSON.h>

#include "paper/configuration.h"
#include "paper/paper.h"

// Add a recipe to an agent's options, unless they are there: "auto" (of the kind of data), "none", the
// name of a recipe, or options such as "ortho=1 f-norm=off".
int identify_recipe(const char *recipe, const char *kind, cJSON *options);

// Find the cell of a domain's data whose configuration has the run's algorithm and differs in the fewest
// options. *more are the options that make the cell's configuration that of the run, as texts by name;
// those that follow from others are left out. The caller frees it.
int identify_cell(PaperCell *cell, cJSON **more, const char *domain, const char *kind,
                  const char *recipe, const Configuration *config);

#endif
