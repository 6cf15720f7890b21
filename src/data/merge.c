// Several files as one dataset: sizes and environment must agree, notes that differ are dropped, and
// lists of names are joined.

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/format.h"

int dataset_agree(Dataset *data, int64_t obs_dim, int64_t act_dim, const char *env) {
  if (!obs_dim || !act_dim) {
    return bfm_fail(BFM_BAD_FILE, "%s has no columns", obs_dim ? "actions" : "observations");
  }
  if (!data->obs_dim) {
    data->obs_dim = obs_dim;
    data->act_dim = act_dim;
  }
  if (data->obs_dim != obs_dim || data->act_dim != act_dim) {
    return bfm_fail(BFM_BAD_FILE,
                    "observations and actions have %" PRId64 " and %" PRId64
                    " columns, but those of %s have %" PRId64 " and %" PRId64,
                    obs_dim, act_dim, data->first_path, data->obs_dim, data->act_dim);
  }
  if (*env && *data->env && strcmp(env, data->env)) {
    return bfm_fail(BFM_BAD_FILE, "the environment is %s, but the files before it are of %s", env,
                    data->env);
  }
  if (*env) strcpy(data->env, env);
  return BFM_OK;
}

// ---------------------------------- notes --------------------------------------------------------

// the notes that are JSON lists of names, and the part that holds indices into each
static const struct {
  const char *note;
  int part;
} lists[] = {{"sources", PART_SOURCE}, {"tasks", PART_TASK}};
#define LIST_COUNT ((int)(sizeof lists / sizeof *lists))

static int is_list(const char *note) {
  for (int i = 0; i < LIST_COUNT; i++) {
    if (!strcmp(note, lists[i].note)) return 1;
  }
  return 0;
}

static int name_against(const void *name, const void *note) {
  return strcmp(name, ((const Note *)note)->name);
}

// the notes are sorted by name
static const char *find_note(const Note *notes, int count, const char *name) {
  const Note *note = count ? bsearch(name, notes, count, sizeof *notes, name_against) : NULL;
  return note ? note->text : NULL;
}

// starts with the first file's notes, then drops those that a further file does not share
static void intersect_notes(Dataset *data, const Note *notes, int count) {
  if (!data->notes) {
    data->notes = cJSON_CreateObject();
    for (int i = 0; i < count; i++) {
      if (strcmp(notes[i].name, "env") && strcmp(notes[i].name, "bfm")) {
        cJSON_AddStringToObject(data->notes, notes[i].name, notes[i].text);
      }
    }
    return;
  }
  for (cJSON *item = data->notes->child, *next; item; item = next) {
    next = item->next;
    const char *text = find_note(notes, count, item->string);
    if (text && (is_list(item->string) || !strcmp(text, item->valuestring))) continue;
    cJSON_Delete(cJSON_DetachItemViaPointer(data->notes, item));
  }
}

typedef struct {
  const char *name;
  int place;  // in the common list, or behind it in the file's list
} Name;

static int by_name(const void *x, const void *y) {
  const Name *a = x, *b = y;
  int order = strcmp(a->name, b->name);
  return order ? order : a->place - b->place;
}

static int put_names(const cJSON *list, Name *names, int place) {
  const cJSON *item;
  cJSON_ArrayForEach(item, list) names[place] = (Name){item->valuestring, place}, place++;
  return place;
}

// Adds the new ones of a file's names to the common list, and sets the index in it of each of the
// file's names. Sorting finds equal names: a list may have many.
static void join_names(cJSON *common, const cJSON *list, Name *names, int *first, int *indices) {
  int old = put_names(common, names, 0), all = put_names(list, names, old), size = old;
  qsort(names, all, sizeof *names, by_name);
  for (int i = 0; i < all; i++) {
    int is_equal = i && !strcmp(names[i].name, names[i - 1].name);
    first[names[i].place] = is_equal ? first[names[i - 1].place] : names[i].place;
  }
  const cJSON *item = list->child;
  for (int place = old; place < all; place++, item = item->next) {
    int at = first[place];
    indices[place - old] = at < old ? at : at == place ? size++ : indices[at - old];
    if (at == place) cJSON_AddItemToArray(common, cJSON_Duplicate(item, 1));
  }
}

// renumbers the indices of a file's rows, which must be in its list of names
static int renumber(Dataset *data, int part, const int *renumbered, int size, int64_t first_row) {
  int32_t *indices = part_at(data, part, first_row);
  int64_t rows = data->count - first_row;
  for (int64_t i = 0; i < rows; i++) {
    if (indices[i] < -1 || indices[i] >= size) {
      return bfm_fail(BFM_BAD_FILE,
                      "%s has %" PRId32 " at row %" PRId64 ", but its list has %d names",
                      part_name(part), indices[i], i, size);
    }
    if (indices[i] >= 0 && renumbered[indices[i]] != indices[i]) {
      indices[i] = renumbered[indices[i]];
    }
  }
  return BFM_OK;
}

static int join_lists(Dataset *data, int part, cJSON *common, const cJSON *list,
                      int64_t first_row) {
  int size = cJSON_GetArraySize(list), all = size + cJSON_GetArraySize(common);
  Name *names = malloc((size_t)(all + 1) * sizeof *names);
  int *first = malloc((size_t)(all + 1) * sizeof *first);
  int *indices = malloc((size_t)(size + 1) * sizeof *indices);
  int status = names && first && indices
                   ? BFM_OK
                   : bfm_fail(BFM_NO_MEMORY, "out of memory for %d names", all);
  if (!status && cJSON_Compare(common, list, 1)) {
    for (int i = 0; i < size; i++) indices[i] = i;  // names may be there twice
  } else if (!status) {
    join_names(common, list, names, first, indices);
  }
  if (!status) status = renumber(data, part, indices, size, first_row);
  free(names);
  free(first);
  free(indices);
  return status;
}

static int is_list_of_names(const cJSON *list) {
  const cJSON *item;
  int good = cJSON_IsArray(list);
  cJSON_ArrayForEach(item, list) good = good && cJSON_IsString(item);
  return good;
}

static int merge_lists(Dataset *data, const Note *notes, int count, int64_t first_row) {
  for (int k = 0; k < LIST_COUNT; k++) {
    const char *name = lists[k].note, *text = find_note(notes, count, name);
    const cJSON *note = cJSON_GetObjectItem(data->notes, name);
    if (!note || !has_part(data, lists[k].part)) continue;
    cJSON *names = cJSON_Parse(text), *common = cJSON_Parse(note->valuestring);
    int good = is_list_of_names(names) && is_list_of_names(common);
    int status = good ? join_lists(data, lists[k].part, common, names, first_row)
                      : bfm_fail(BFM_BAD_FILE,
                                 "attribute \"%s\" is not a JSON list of names: %.64s", name, text);
    char *joined = good ? cJSON_PrintUnformatted(common) : NULL;
    if (joined) cJSON_ReplaceItemInObject(data->notes, name, cJSON_CreateString(joined));
    free(joined);
    cJSON_Delete(names);
    cJSON_Delete(common);
    TRY(status);
  }
  return BFM_OK;
}

int dataset_merge_notes(Dataset *data, hid_t file, int64_t first_row) {
  Note *notes;
  int count;
  TRY(hdf5_notes(file, &notes, &count));
  intersect_notes(data, notes, count);
  int status = merge_lists(data, notes, count, first_row);
  free(notes);
  return status;
}

void dataset_clear_notes(Dataset *data) { intersect_notes(data, NULL, 0); }
