// A model that contains NaN simulates nothing, but MuJoCo compiles it. This finds the array and, in the text,
// the attribute that it probably came from.

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <mujoco/mjxmacro.h>

#include "envs/bundle_files.h"

// ---------------------------------- in the model -------------------------------------------------

static int64_t none(const void *x, int64_t count) {
  (void)x, (void)count;
  return 0;
}

static int64_t in_doubles(const void *values, int64_t count) {
  const double *x = values;
  for (int64_t i = 0; i < count; i++) {
    if (isnan(x[i])) return 1;
  }
  return 0;
}

static int64_t in_floats(const void *values, int64_t count) {
  const float *x = values;
  for (int64_t i = 0; i < count; i++) {
    if (isnan(x[i])) return 1;
  }
  return 0;
}

// the name of an array with a NaN, or NULL
static const char *find_array(const mjModel *m) {
#undef MJ_M
#define MJ_M(n) m->n
#define X(type, array, rows, columns)                         \
  if (_Generic(m->array,                                      \
      double *: in_doubles,                                   \
      float *: in_floats,                                     \
      default: none)(m->array, (int64_t)m->rows * (columns))) \
    return #array;
  MJMODEL_POINTERS;
#undef X
  return in_doubles(m->opt.gravity, 3) ? "gravity" : NULL;
}

// ---------------------------------- in the text --------------------------------------------------

// whether one of the words of an attribute's value is a NaN, as strtod reads it
static int has_nan(XmlSlice value) {
  const char *c = value.at, *end = value.at + value.length;
  while (c < end) {
    while (c < end && strchr(" \t\r\n", *c)) c++;
    const char *word = c;
    while (c < end && !strchr(" \t\r\n", *c)) c++;
    if (word < c && strchr("+-", *word)) word++;
    if (c - word >= 3 && !strncasecmp(word, "nan", 3) && (c - word == 3 || word[3] == '('))
      return 1;
  }
  return 0;
}

static int is_name(XmlSlice attribute) {
  return xml_is(attribute, "name") || xml_is(attribute, "class") || xml_is(attribute, "childclass");
}

// the next attribute with a NaN; NULL after the last
static const XmlAttribute *find_attribute(XmlReader *r) {
  while (!xml_next(r) && r->kind != XML_END) {
    for (int i = 0; r->kind == XML_OPEN && i < r->count; i++) {
      if (!is_name(r->attributes[i].name) && has_nan(r->attributes[i].value))
        return r->attributes + i;
    }
  }
  return NULL;
}

static int fail(const Bundle *bundle, XmlReader *r, const char *array) {
  const BundleFile *text = bundle_model(bundle);
  const char *file = bundle->flat.source_count ? bundle->flat.sources[0] : text->name;
  xml_begin(r, file, text->bytes, text->size);
  const XmlAttribute *attribute = find_attribute(r);
  if (!attribute) {
    return bfm_fail(BFM_BAD_FILE, "%s: the compiled model contains NaN, in %s", file, array);
  }
  int line = r->line;
  if (bundle->flat.source_count) flat_origin(&bundle->flat, line, &file, &line);
  return bfm_fail(BFM_BAD_FILE, "%s:%d: %.*s=\"%.*s\" contains NaN: write a number", file, line,
                  attribute->name.length, attribute->name.at, attribute->value.length,
                  attribute->value.at);
}

int bundle_check_numbers(const Bundle *bundle, const mjModel *model) {
  const char *array = find_array(model);
  if (!array) return BFM_OK;
  XmlReader *r = malloc(sizeof *r);
  int status = r ? fail(bundle, r, array) : bfm_fail(BFM_NO_MEMORY, "out of memory for a message");
  free(r);
  return status;
}
