// JSON files of one object, written atomically, and logs with one object per line.

#ifndef BFM_CORE_JSON_H
#define BFM_CORE_JSON_H

#include <cjson/cJSON.h>

#include "core/status.h"

int json_read(cJSON **object, const char *path);
// all objects of a log or of a file with one object, as a JSON array
int json_read_lines(cJSON **objects, const char *path);
// Reads the member `name`, an array of `count` numbers, into a new buffer; *out is NULL if there is
// no such member. The caller frees *out, also after a failure. `path` is for the error message.
int json_numbers(const cJSON *json, const char *path, const char *name, int64_t count,
                 double **out);
// the same as floats into out [count]; *found tells whether the member exists
int json_floats(const cJSON *json, const char *path, const char *name, int64_t count, float *out,
                int *found);
int json_write(const cJSON *object, const char *path);

#endif
