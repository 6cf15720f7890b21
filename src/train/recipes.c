// Recipes. Each row has a kind of data, algorithms, and their default options on that data. Options
// that the user gives override them. docs/learning.md says which experiment chose a row.

#include "train/recipes.h"

#include <string.h>

#include "agent/config.h"

// Actors are compared with the same architecture and the same weights of losses, as in the paper
#define FORWARD_BACKWARD "fb fb-aw fb-are fb-aware"
#define LAPLACIAN "lap lap-aw"
#define STABLE "ortho=100 f-norm=on lr=1e-4 beta=10 clip=4.6"

// options as name=value, separated by spaces
static const struct {
  const char *kind, *algos, *options;
} recipes[] = {
    {"rnd", FORWARD_BACKWARD, STABLE},  {"rnd", LAPLACIAN, STABLE},
    {"mood", FORWARD_BACKWARD, STABLE}, {"mood", LAPLACIAN, STABLE},
    {"d4rl", FORWARD_BACKWARD, STABLE}, {"d4rl", LAPLACIAN, STABLE},
};
#define RECIPE_COUNT (sizeof recipes / sizeof *recipes)

// the kind of data by the beginning of the collector's name in the file
static const struct {
  const char *collector, *kind;
} kinds[] = {{"mood", "mood"}, {"td3", "mood"}, {"d4rl", "d4rl"}, {"", "rnd"}};

const char *recipe_kind(const char *collector) {
  int i = 0;
  while (strncmp(collector, kinds[i].collector, strlen(kinds[i].collector))) i++;
  return kinds[i].kind;
}

static int has_word(const char *words, const char *word) {
  size_t length = strlen(word);
  for (const char *at = words; (at = strstr(at, word)); at += length) {
    if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return 1;
  }
  return 0;
}

int recipe_add(const char *text, cJSON *options) {
  while (*text) {
    char name[32], value[32];
    int length = 0;
    if (sscanf(text, "%31[^=]=%31[^ ]%n", name, value, &length) != 2) break;
    text += length + strspn(text + length, " ");
    if (cJSON_HasObjectItem(options, name)) continue;
    if (!cJSON_AddStringToObject(options, name, value)) {
      return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
    }
  }
  return BFM_OK;
}

int recipe_apply(const char *recipe, const char *kind, cJSON *options) {
  if (!strcmp(recipe, "none")) return BFM_OK;
  if (strcmp(recipe, "auto")) kind = recipe;
  const char *algo = cJSON_GetStringValue(cJSON_GetObjectItem(options, "algo"));
  if (!algo) algo = options_find(agent_options, "algo")->fallback;
  for (size_t i = 0; i < RECIPE_COUNT; i++) {
    if (!strcmp(recipes[i].kind, kind) && has_word(recipes[i].algos, algo)) {
      TRY(recipe_add(recipes[i].options, options));
    }
  }
  return BFM_OK;
}

void recipes_help(FILE *out) {
  fputs("Recipes: defaults by the kind of data and the algorithm; flags override them:\n", out);
  for (size_t i = 0; i < RECIPE_COUNT; i++) {
    fprintf(out, "  %-5s %-22s %s\n", recipes[i].kind, recipes[i].algos, recipes[i].options);
  }
}
