// JSON files. Text after the object is an error: it would otherwise be ignored silently.

#include "core/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files.h"

// The caller frees *text, also after a failure.
static int read_text(const char *path, char **text, size_t *length) {
  TRY(input_bytes(path, text, length));
  size_t zero = strlen(*text);
  if (zero == *length) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "%s is not JSON: its byte %zu is zero", path, zero);
}

// `at` points to the first byte that does not parse, or is NULL
static int no_object(const char *path, const char *text, const char *at) {
  int shown = 0;
  if (!at || !*at) return bfm_fail(BFM_BAD_FILE, "%s is not a JSON object", path);
  while (shown < 20 && at[shown] >= ' ' && at[shown] <= '~') shown++;
  return bfm_fail(BFM_BAD_FILE, "%s is not a JSON object: unexpected text at byte %td, \"%.*s\"",
                  path, at - text, shown, at);
}

int json_read(cJSON **object, const char *path) {
  char *text;
  const char *end = NULL;
  size_t length;
  *object = NULL;
  int status = read_text(path, &text, &length);
  if (!status && length) *object = cJSON_ParseWithOpts(text, &end, 1);
  if (!status && !cJSON_IsObject(*object)) status = no_object(path, text, *object ? NULL : end);
  free(text);
  if (!status) return BFM_OK;
  cJSON_Delete(*object);
  *object = NULL;
  return status;
}

int json_read_lines(cJSON **objects, const char *path) {
  char *text;
  size_t length;
  int status = read_text(path, &text, &length);
  *objects = cJSON_CreateArray();
  if (!status && !*objects) status = bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  const char *at = text, *end = status ? text : text + length;
  for (int line = 1; !status; line++) {
    while (at < end && strchr(" \t\r\n", *at)) at++;
    if (at == end) break;
    cJSON *object = cJSON_ParseWithLengthOpts(at, end - at, &at, 0);
    cJSON_AddItemToArray(*objects, object);
    if (!cJSON_IsObject(object)) {
      status = bfm_fail(BFM_BAD_FILE, "%s: line %d is not a whole JSON object", path, line);
    }
  }
  free(text);
  if (!status) return BFM_OK;
  cJSON_Delete(*objects);
  *objects = NULL;
  return status;
}

int json_numbers(const cJSON *json, const char *path, const char *name, int64_t count,
                 double **out) {
  const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, name), *item;
  *out = NULL;
  if (!array) return BFM_OK;
  if (!cJSON_IsArray(array)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s: \"%s\" must be an array of %ld numbers", path, name,
                    (long)count);
  }
  if (cJSON_GetArraySize(array) != count) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s: \"%s\" must be %ld numbers, not %d", path, name,
                    (long)count, cJSON_GetArraySize(array));
  }
  *out = malloc((size_t)(count + 1) * sizeof **out);
  if (!*out) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  int64_t i = 0;
  cJSON_ArrayForEach(item, array) {
    if (!cJSON_IsNumber(item)) {
      return bfm_fail(BFM_BAD_ARGUMENT, "%s: element %ld of \"%s\" is not a number", path, (long)i,
                      name);
    }
    (*out)[i++] = item->valuedouble;
  }
  return BFM_OK;
}

int json_floats(const cJSON *json, const char *path, const char *name, int64_t count, float *out,
                int *found) {
  double *values;
  int status = json_numbers(json, path, name, count, &values);
  *found = !status && values;
  for (int64_t i = 0; i < count && *found && !status; i++) {
    out[i] = (float)values[i];
    if (isfinite(out[i])) continue;
    status = bfm_fail(BFM_BAD_ARGUMENT, "%s: element %ld of \"%s\" is %g, which overflows float32",
                      path, (long)i, name, values[i]);
  }
  free(values);
  return status;
}

int json_write(const cJSON *object, const char *path) {
  char *text = cJSON_Print(object);
  if (!text) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  OutputFile file;
  int status = output_open(&file, path);
  if (!status) status = output_write(&file, text, strlen(text));
  if (!status) status = output_write(&file, "\n", 1);
  if (!status) status = output_commit(&file);
  free(text);
  return status;
}
