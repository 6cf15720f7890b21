// JSON files. A file is read to its end: what follows the object is refused, since someone meant
// something by it.

#include "core/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/newfile.h"

int json_read(cJSON **object, const char *path) {
  *object = NULL;
  FILE *file = fopen(path, "r");
  if (!file) return bfm_fail(BFM_IO, "cannot open %s: %s", path, strerror(errno));
  char *text = NULL;
  size_t size = 0;
  ssize_t length = getdelim(&text, &size, 0, file);
  int error = ferror(file) ? errno : 0;
  fclose(file);
  if (length > 0) *object = cJSON_ParseWithOpts(text, NULL, 1);
  free(text);
  if (error) return bfm_fail(BFM_IO, "cannot read %s: %s", path, strerror(error));
  if (cJSON_IsObject(*object)) return BFM_OK;
  cJSON_Delete(*object);
  *object = NULL;
  return bfm_fail(BFM_BAD_FILE, "%s is not a JSON object", path);
}

int json_write(const cJSON *object, const char *path) {
  char *text = cJSON_Print(object);
  if (!text) return bfm_fail(BFM_NO_MEMORY, "no memory for %s", path);
  NewFile file;
  int status = newfile_open(&file, path);
  if (!status) status = newfile_write(&file, text, strlen(text));
  if (!status) status = newfile_write(&file, "\n", 1);
  if (!status) status = newfile_commit(&file);
  free(text);
  return status;
}
