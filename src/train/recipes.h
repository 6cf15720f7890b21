// Recipes: the defaults of training by algorithm and kind of data, in one table.

#ifndef BFM_TRAIN_RECIPES_H
#define BFM_TRAIN_RECIPES_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/status.h"

// the kind of data of a collector: "rnd", "mood" or "d4rl"; "rnd" for an unknown collector
const char *recipe_kind(const char *collector);

// add the options of a recipe to `options`, unless they are there. recipe: "auto" (by the kind),
// "none", or the name of a kind
int recipe_apply(const char *recipe, const char *kind, cJSON *options);

// add "name=value name=value" to `options`, unless they are there
int recipe_add(const char *text, cJSON *options);

// the table, for --help
void recipes_help(FILE *out);

#endif
