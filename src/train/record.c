// run.json: which data and settings a run was started with, for its resume.

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/json.h"
#include "explore/explorer.h"
#include "train/training.h"

int training_check_folder(const Training *t) {
  char state[PATH_MAX];
  folder_file(&t->folder, "state.safetensors", state, sizeof state);
  int there = !access(state, F_OK);
  if (there && !t->plan.resume) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s has a run in it: add --resume to continue it, or name another folder",
                    t->folder.path);
  }
  if (!there && t->plan.resume) {
    return bfm_fail(BFM_IO, "%s has no run to resume: it has no state.safetensors", t->folder.path);
  }
  return BFM_OK;
}

int training_read_record(cJSON **record, const char *path) {
  TRY(json_read(record, path));
  int good = cJSON_IsNumber(cJSON_GetObjectItem(*record, "checksum")) &&
             cJSON_IsObject(cJSON_GetObjectItem(*record, "settings")) &&
             cJSON_GetArraySize(cJSON_GetObjectItem(*record, "data")) > 0;
  const cJSON *name;
  cJSON_ArrayForEach(name, cJSON_GetObjectItem(*record, "data")) good &= cJSON_IsString(name);
  if (good) return BFM_OK;
  cJSON_Delete(*record);
  *record = NULL;
  return bfm_fail(BFM_BAD_FILE, "%s is damaged: it must have data files, a checksum and settings",
                  path);
}

// json: allocated, or NULL
static void set_object(cJSON *record, const char *name, char *json) {
  cJSON_DeleteItemFromObject(record, name);
  cJSON_AddItemToObject(record, name, json ? cJSON_CreateRaw(json) : NULL);
  free(json);
}

int training_write_record(const Training *t, cJSON *record, uint32_t checksum) {
  if (t->plan.data_count) {
    cJSON_DeleteItemFromObject(record, "data");
    cJSON *files = cJSON_AddArrayToObject(record, "data");
    for (int i = 0; i < t->plan.data_count; i++) {
      // absolute, so that a resume may start anywhere
      char *absolute = realpath(t->plan.data[i], NULL);
      cJSON_AddItemToArray(files, cJSON_CreateString(absolute ? absolute : t->plan.data[i]));
      free(absolute);
    }
  }
  if (t->offline.algo >= 0) {
    char algo[OPTION_TEXT_SIZE];
    options_get(options_find(explorer_options, "algo"), explorer_options_of(t->offline.learner),
                algo, sizeof algo);
    cJSON_DeleteItemFromObject(record, "algo");
    cJSON_AddStringToObject(record, "algo", algo);
  }
  cJSON_DeleteItemFromObject(record, "checksum");
  cJSON_AddNumberToObject(record, "checksum", checksum);
  set_object(record, "settings", options_to_json(train_options, &t->settings));
  // a resume takes these from its state; who watches the run needs them before the first save
  if (t->agent) set_object(record, "config", bfm_agent_options(t->agent));
  char path[PATH_MAX];
  folder_file(&t->folder, "run.json", path, sizeof path);
  return json_write(record, path);
}
