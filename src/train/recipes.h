// Recipes: the defaults of training by algorithm and kind of data, in one table.

#ifndef BFM_TRAIN_RECIPES_H
#define BFM_TRAIN_RECIPES_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/status.h"

// the kind of data a collector's note stands for: "rnd", "mood" or "d4rl"; an unknown one is "rnd"
const char *recipe_kind(const char *collector);

// add what the recipe ("auto": by the kind, "none", or a kind's name) says for the algorithm to
// options, where they do not say it themselves
int recipe_apply(const char *recipe, const char *kind, cJSON *options);

// "name=value name=value" as options, where they are not set
int recipe_add(const char *text, cJSON *options);

// the table, for --help
void recipes_help(FILE *out);

#endif
