// JSON files: an object each, read whole, and written so that they appear whole or not at all; and
// logs, an object a line.

#ifndef BFM_CORE_JSON_H
#define BFM_CORE_JSON_H

#include <cjson/cJSON.h>

#include "core/status.h"

int json_read(cJSON **object, const char *path);
// all objects of a file, one or one a line, as an array
int json_read_lines(cJSON **objects, const char *path);
// an array of `count` numbers of the object in a file, malloc'ed; NULL when there is none, and to be
// freed also after a failure
int json_numbers(const cJSON *json, const char *path, const char *name, int64_t count,
                 double **out);
// the same as floats, into out [count]
int json_floats(const cJSON *json, const char *path, const char *name, int64_t count, float *out,
                int *found);
int json_write(const cJSON *object, const char *path);

#endif
