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

static const char *find_note(const Note *notes, int count, const char *name) {
  for (int i = 0; i < count; i++) {
    if (!strcmp(notes[i].name, name)) return notes[i].text;
  }
  return NULL;
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

static int index_of(const cJSON *names, const cJSON *name) {
  int i = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, names) {
    if (cJSON_Compare(item, name, 1)) return i;
    i++;
  }
  return -1;
}

// adds a file's names to the common list and renumbers the indices of its rows accordingly
static int join_lists(Dataset *data, int part, cJSON *common, const cJSON *names,
                      int64_t first_row) {
  int32_t *indices = part_at(data, part, first_row);
  int64_t rows = data->count - first_row;
  int size = cJSON_GetArraySize(names), changed = 0, same = cJSON_Compare(common, names, 1);
  int32_t *renumbered = malloc((size_t)(size + 1) * sizeof *renumbered);
  if (!renumbered) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d names", size);
  for (int i = 0; i < size; i++) {
    const cJSON *name = cJSON_GetArrayItem(names, i);
    renumbered[i] = same ? i : index_of(common, name);
    if (renumbered[i] < 0) {
      renumbered[i] = cJSON_GetArraySize(common);
      cJSON_AddItemToArray(common, cJSON_Duplicate(name, 1));
    }
    changed |= renumbered[i] != i;
  }
  int status = BFM_OK;
  for (int64_t i = 0; i < rows && !status; i++) {
    if (indices[i] < -1 || indices[i] >= size) {
      status =
          bfm_fail(BFM_BAD_FILE, "%s has %" PRId32 " at row %" PRId64 ", but its list has %d names",
                   part_name(part), indices[i], i, size);
    } else if (changed && indices[i] >= 0) {
      indices[i] = renumbered[indices[i]];
    }
  }
  free(renumbered);
  return status;
}

static int merge_lists(Dataset *data, const Note *notes, int count, int64_t first_row) {
  for (int k = 0; k < LIST_COUNT; k++) {
    const char *name = lists[k].note, *text = find_note(notes, count, name);
    const cJSON *note = cJSON_GetObjectItem(data->notes, name);
    if (!note || !has_part(data, lists[k].part)) continue;
    cJSON *names = cJSON_Parse(text), *common = cJSON_Parse(note->valuestring);
    int good = cJSON_IsArray(names) && cJSON_IsArray(common);
    int status =
        good ? join_lists(data, lists[k].part, common, names, first_row)
             : bfm_fail(BFM_BAD_FILE, "attribute \"%s\" is not a JSON list: %.64s", name, text);
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
