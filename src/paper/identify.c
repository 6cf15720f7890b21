// Identifying a run: the configuration of every cell of its domain and data is completed as training
// would do it, and compared with that of the run option by option.

#include "paper/identify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paper/configuration.h"
#include "train/recipes.h"
#include "train/settings.h"

// ---------------------------------- recipes ------------------------------------------------------

// whether every word of a text is name=value
static int are_options(const char *text) {
  while (*text) {
    size_t length = strcspn(text, " "), name = strcspn(text, "=");
    if (!name || name + 1 >= length) return 0;
    text += length + strspn(text + length, " ");
  }
  return 1;
}

int identify_recipe(const char *recipe, const char *kind, cJSON *options) {
  if (*recipe && are_options(recipe)) return recipe_add(recipe, options);
  TrainSettings settings;
  if (options_set(train_options, &settings, "recipe", recipe)) {
    return bfm_fail(
        BFM_BAD_ARGUMENT,
        "--recipe is \"%s\": name auto, none, a recipe of bfm train, or its options, such "
        "as \"ortho=1 f-norm=off\"",
        recipe);
  }
  return recipe_apply(recipe, recipe_kind(kind), options);
}

// ---------------------------------- cells --------------------------------------------------------

// the configuration of a cell with options in addition, NULL if these do not fit together
static char *text_with(const PaperCell *cell, const char *recipe, const cJSON *more) {
  cJSON *options = more ? cJSON_Duplicate(more, 1) : cJSON_CreateObject();
  Configuration config;
  char *text = NULL;
  int status = options ? recipe_add(paper_options_of(cell), options) : BFM_NO_MEMORY;
  if (!status) status = identify_recipe(recipe, cell->data, options);
  if (!status) status = configuration_complete(&config, options, 0);
  if (!status) configuration_text(&text, &config);
  cJSON_Delete(options);
  return text;
}

// Add the options in which a configuration differs from another; returns whether they have the same
// algorithm. Both texts have the same options in the same order.
static int find_differences(const char *text, const char *other, cJSON *options) {
  int same_algo = 1;
  while (*text && *other) {
    size_t length = strcspn(text, "\n"), own = strcspn(other, "\n"), name = strcspn(text, "=");
    if (length != own || strncmp(text, other, length)) {
      char line[OPTION_TEXT_SIZE + 64];
      snprintf(line, sizeof line, "%.*s", (int)length, text);
      line[name] = 0;
      cJSON_AddStringToObject(options, line, line + name + 1);
      same_algo &= strcmp(line, "algo") != 0;
    }
    text += length + 1;
    other += own + 1;
  }
  return same_algo;
}

// remove options that follow from the others, such as the widths of a preset
static void remove_implied(const PaperCell *cell, const char *recipe, const char *text,
                           cJSON *options) {
  for (const Option *o = agent_options; o->name; o++) {
    cJSON *item = cJSON_DetachItemFromObject(options, o->name);
    if (!item) continue;
    char *without = text_with(cell, recipe, options);
    if (without && !strcmp(without, text)) cJSON_Delete(item);
    else cJSON_AddItemToObject(options, o->name, item);
    free(without);
  }
}

// add a word to a list, unless it is there
static void add_word(char *words, size_t size, const char *word) {
  size_t at = strlen(words), length = strlen(word);
  for (const char *same = words; (same = strstr(same, word)); same += length) {
    if ((same == words || same[-1] == ' ') && (!same[length] || same[length] == ',')) return;
  }
  snprintf(words + at, size - at, "%s%s", at ? ", " : "", word);
}

static int fail_unknown(const char *domain, const char *kind, const char *algo) {
  PaperCell cell;
  const PaperTable *table;
  char kinds[PAPER_TEXT] = "";
  int known = 0;
  for (int t = 0; (table = paper_table_at(t)); t++) {
    for (int i = 0; paper_cell_at(table, i, &cell); i++) {
      if (strcmp(cell.domain, domain)) continue;
      known |= !strcmp(cell.data, kind);
      add_word(kinds, sizeof kinds, cell.data);
    }
  }
  if (known) {
    return bfm_fail(BFM_BAD_ARGUMENT, "no table has %s on %s's %s data; bfm paper list shows them",
                    algo, domain, kind);
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "no table has data of the kind \"%s\" for %s, but of %s", kind,
                  domain, *kinds ? kinds : "other domains");
}

// compare the run with the cells of one table, and keep the one with the fewest differences
static void search(const PaperTable *table, const char *domain, const char *kind,
                   const char *recipe, const char *text, PaperCell *best, cJSON **more) {
  PaperCell cell;
  for (int i = 0; paper_cell_at(table, i, &cell); i++) {
    if (strcmp(cell.domain, domain) || strcmp(cell.data, kind)) continue;
    char *own = text_with(&cell, recipe, NULL);
    cJSON *differences = own ? cJSON_CreateObject() : NULL;
    int better = own && find_differences(text, own, differences) &&
                 (!*more || cJSON_GetArraySize(differences) < cJSON_GetArraySize(*more));
    if (better) {
      cJSON_Delete(*more);
      *more = differences;
      *best = cell;
    } else {
      cJSON_Delete(differences);
    }
    free(own);
  }
}

int identify_cell(PaperCell *cell, cJSON **more, const char *domain, const char *kind,
                  const char *recipe, const Configuration *config) {
  const PaperTable *table;
  char *text, algo[OPTION_TEXT_SIZE];
  *more = NULL;
  TRY(configuration_text(&text, config));
  for (int i = 0; (table = paper_table_at(i)); i++) {
    search(table, domain, kind, recipe, text, cell, more);
  }
  if (*more) remove_implied(cell, recipe, text, *more);
  free(text);
  if (*more) return BFM_OK;
  options_get(options_find(agent_options, "algo"), &config->agent, algo, sizeof algo);
  return fail_unknown(domain, kind, algo);
}
