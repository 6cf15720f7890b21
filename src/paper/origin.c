// The data of a run for the ledger, read by the same function as training reads it, so that the
// checksum is that of run.json.

#include "paper/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/hdf5.h"
#include "train/training.h"

// text attributes of a dataset that tell how it was made
static const char *const attributes[] = {"env", "collector", "options", "task", "bfm"};

static int read_attributes(hid_t file, void *context) {
  cJSON *line = context;
  Note *notes;
  int count;
  TRY(hdf5_notes(file, &notes, &count));
  for (int i = 0; i < count; i++) {
    for (size_t k = 0; k < sizeof attributes / sizeof *attributes; k++) {
      if (strcmp(attributes[k], notes[i].name) || !*notes[i].text) continue;
      // the collector's options are JSON
      cJSON *value = !strcmp(notes[i].name, "options") ? cJSON_Parse(notes[i].text) : NULL;
      cJSON_DeleteItemFromObject(line, notes[i].name);
      cJSON_AddItemToObject(line, notes[i].name, value ? value : cJSON_CreateString(notes[i].text));
    }
  }
  free(notes);
  return BFM_OK;
}

static void describe(Origin *origin, const char *path) {
  const char *slash = strrchr(path, '/');
  cJSON *line = origin->line = cJSON_CreateObject();
  cJSON_AddStringToObject(line, "file", slash ? slash + 1 : path);
  cJSON_AddNumberToObject(line, "checksum", (double)origin->checksum);
  cJSON_AddNumberToObject(line, "transitions", (double)origin->transitions);
  hdf5_use(path, read_attributes, line);  // files in other formats have no attributes
}

// path: of the data, which must live as long as the training
static int read_data(Training *training, const char *const *path, const char *env, int64_t stride) {
  *training = (Training){.plan = {.data = path, .data_count = 1}};
  TRY(options_default(train_options, &training->settings));
  training->settings.prompt_states = 0;  // the transitions are enough
  training->settings.stride = stride;
  snprintf(training->settings.env, sizeof training->settings.env, "%s", env);
  return training_read_data(training, NULL);
}

int origin_checksum(int64_t *checksum, const char *path, const char *env, int64_t stride) {
  Training training;
  int status = read_data(&training, &path, env, stride);
  if (!status) *checksum = training_checksum(&training.data);
  dataset_free(&training.data);
  return status;
}

int origin_read(Origin *origin, const char *path, const char *env) {
  *origin = (Origin){.line = NULL};
  Training training;
  int status = read_data(&training, &path, env, 1);
  if (!status) {
    origin->checksum = training_checksum(&training.data);
    origin->transitions = training.data.count;
    snprintf(origin->collector, sizeof origin->collector, "%s", training.collector);
    describe(origin, path);
  }
  dataset_free(&training.data);
  return status;
}

void origin_free(Origin *origin) {
  cJSON_Delete(origin->line);
  *origin = (Origin){.line = NULL};
}
