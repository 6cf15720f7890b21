// Options: from text to a typed field and back, with one pair of functions per type. The command
// line, JSON and the defaults share the parser, so they accept and refuse the same values.

#include "core/options.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/suggest.h"
#include "core/number.h"

#define EXACT_INTEGER 9007199254740992.0  // 2^53: a double holds every integer up to here

// ---------------------------------- names --------------------------------------------------------

static int same_name(const char *a, const char *b) {
  for (; *a && *b; a++, b++) {
    if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b)) return 0;
  }
  return *a == *b;
}

// start of choice number `index` of "a|b|c", its length in *length; NULL after the last choice
static const char *choice_at(const char *choices, int index, size_t *length) {
  while (index > 0) {
    choices = strchr(choices, '|');
    if (!choices) return NULL;
    choices++;
    index--;
  }
  *length = strcspn(choices, "|");
  return choices;
}

static void range_text(const Option *option, char *out, size_t size) {
  if (option->lo == option->hi) {
    snprintf(out, size, "any number");
  } else if (isinf(option->hi)) {
    snprintf(out, size, "at least %.7g", option->lo);
  } else if (isinf(option->lo)) {
    snprintf(out, size, "at most %.7g", option->hi);
  } else {
    snprintf(out, size, "from %.7g to %.7g", option->lo, option->hi);
  }
}

// ---------------------------------- text to value ------------------------------------------------

static int in_range(const Option *option, double value, const char *text) {
  if (option->lo == option->hi || (value >= option->lo && value <= option->hi)) return BFM_OK;
  char range[96];
  range_text(option, range, sizeof range);
  return bfm_fail(BFM_BAD_ARGUMENT, "%s is %.64s, but must be %s", option->name, text, range);
}

static double suffix_factor(char suffix) {
  switch (suffix) {
    case 'k': return 1e3;
    case 'M': return 1e6;
    case 'G': return 1e9;
    default: return 0;
  }
}

static int set_int(const Option *option, void *field, const char *text) {
  char *end;
  errno = 0;
  long long whole = strtoll(text, &end, 10);
  int plain = end != text && !*end && !errno;

  if (!plain) {
    // 5k, 1.5M, 1e6: parsed as a double, which must be whole and small enough to be exact
    double value = number_read(text, &end);
    if (end != text && *end && !end[1] && suffix_factor(*end) > 0) {
      value *= suffix_factor(*end);
      end++;
    }
    if (end == text || *end || !(fabs(value) <= EXACT_INTEGER) || value != floor(value)) {
      return bfm_fail(BFM_BAD_ARGUMENT,
                      "%s is \"%.64s\", but must be a whole number such as 5000 or 5k",
                      option->name, text);
    }
    whole = (long long)value;
  }

  TRY(in_range(option, (double)whole, text));
  *(int64_t *)field = whole;
  return BFM_OK;
}

static int set_real(const Option *option, void *field, const char *text) {
  char *end;
  double value = number_read(text, &end);
  if (end == text || *end || isnan(value)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is \"%.64s\", but must be a number", option->name, text);
  }
  TRY(in_range(option, value, text));
  *(double *)field = value;
  return BFM_OK;
}

static int set_choice(const Option *option, void *field, const char *text) {
  size_t length;
  const char *choice;
  for (int i = 0; (choice = choice_at(option->choices, i, &length)); i++) {
    if (strlen(text) == length && !strncmp(choice, text, length)) {
      *(int *)field = i;
      return BFM_OK;
    }
  }
  char words[512], *rest = words;
  snprintf(words, sizeof words, "%s", option->choices);
  Suggestion nearest = {.word = text};
  for (char *word; (word = strsep(&rest, "|"));) suggest_try(&nearest, word);
  return bfm_fail(BFM_BAD_ARGUMENT, "%s is \"%.64s\", but must be one of %s%s", option->name, text,
                  option->choices, suggest_say(&nearest, ""));
}

static int set_bool(const Option *option, void *field, const char *text) {
  static const char *const words[] = {"off", "on", "false", "true", "0", "1"};
  for (int i = 0; i < 6; i++) {
    if (!strcmp(text, words[i])) {
      *(int *)field = i % 2;
      return BFM_OK;
    }
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "%s is \"%.64s\", but must be on or off", option->name, text);
}

static int set_text(const Option *option, void *field, const char *text) {
  if (strlen(text) >= OPTION_TEXT_SIZE) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s has %zu characters, but at most %d fit", option->name,
                    strlen(text), OPTION_TEXT_SIZE - 1);
  }
  strcpy(field, text);
  return BFM_OK;
}

// ---------------------------------- value to text ------------------------------------------------

static void get_int(const Option *option, const void *field, char *out, size_t size) {
  (void)option;
  snprintf(out, size, "%lld", (long long)*(const int64_t *)field);
}

// the shortest text that reads back to the same double
static void real_text(double value, char *out, size_t size) {
  char text[32];
  int digits = 6;
  do number_write(text, sizeof text, digits, value);
  while (number_read(text, NULL) != value && ++digits <= 17);
  snprintf(out, size, "%s", text);
}

static void get_real(const Option *option, const void *field, char *out, size_t size) {
  (void)option;
  real_text(*(const double *)field, out, size);
}

static void get_choice(const Option *option, const void *field, char *out, size_t size) {
  size_t length = 0;
  const char *choice = choice_at(option->choices, *(const int *)field, &length);
  snprintf(out, size, "%.*s", (int)length, choice ? choice : "");
}

static void get_bool(const Option *option, const void *field, char *out, size_t size) {
  (void)option;
  snprintf(out, size, "%s", *(const int *)field ? "on" : "off");
}

static void get_text(const Option *option, const void *field, char *out, size_t size) {
  (void)option;
  snprintf(out, size, "%s", (const char *)field);
}

static const struct {
  int (*set)(const Option *option, void *field, const char *text);
  void (*get)(const Option *option, const void *field, char *out, size_t size);
  const char *argument;
} types[] = {
    [OPTION_INT] = {set_int, get_int, "INT"},
    [OPTION_REAL] = {set_real, get_real, "REAL"},
    [OPTION_CHOICE] = {set_choice, get_choice, NULL},
    [OPTION_BOOL] = {set_bool, get_bool, "on|off"},
    [OPTION_TEXT] = {set_text, get_text, "TEXT"},
};

// ---------------------------------- the table ----------------------------------------------------

static int set_field(const Option *option, void *fields, const char *text) {
  return types[option->type].set(option, (char *)fields + option->offset, text);
}

int options_default(const Option *table, void *fields) {
  for (const Option *o = table; o->name; o++) TRY(set_field(o, fields, o->fallback));
  return BFM_OK;
}

const Option *options_find(const Option *table, const char *name) {
  for (const Option *o = table; o->name; o++) {
    if (same_name(o->name, name)) return o;
  }
  return NULL;
}

// the row with this name, or an error that suggests a similar name
static int find_or_fail(const Option *table, const char *name, const Option **option) {
  *option = options_find(table, name);
  if (*option) return BFM_OK;

  Suggestion nearest = {.word = name};
  for (const Option *o = table; o->name; o++) suggest_try(&nearest, o->name);
  return bfm_fail(BFM_BAD_ARGUMENT, "there is no option \"%.64s\"%s", name,
                  suggest_say(&nearest, ""));
}

int options_set(const Option *table, void *fields, const char *name, const char *text) {
  const Option *option;
  TRY(find_or_fail(table, name, &option));
  return set_field(option, fields, text);
}

void options_get(const Option *option, const void *fields, char *out, size_t size) {
  types[option->type].get(option, (const char *)fields + option->offset, out, size);
}

// ---------------------------------- JSON ---------------------------------------------------------

// JSON has no infinity, and most readers parse its numbers as doubles: other values become strings
static cJSON *to_item(const Option *option, const void *fields) {
  const char *field = (const char *)fields + option->offset;
  char text[OPTION_TEXT_SIZE];
  options_get(option, fields, text, sizeof text);

  switch (option->type) {
    case OPTION_BOOL: return cJSON_CreateBool(*(const int *)field);
    case OPTION_INT:
      if (fabs((double)*(const int64_t *)field) <= EXACT_INTEGER) return cJSON_CreateRaw(text);
      return cJSON_CreateString(text);
    case OPTION_REAL:
      if (isfinite(*(const double *)field)) return cJSON_CreateRaw(text);
      return cJSON_CreateString(text);
    default: return cJSON_CreateString(text);
  }
}

char *options_to_json(const Option *table, const void *fields) {
  cJSON *object = cJSON_CreateObject();
  if (!object) return NULL;

  char *json = NULL;
  for (const Option *o = table; o->name; o++) {
    cJSON *item = to_item(o, fields);
    if (!cJSON_AddItemToObject(object, o->name, item)) {
      cJSON_Delete(item);
      goto done;
    }
  }
  json = cJSON_PrintUnformatted(object);

done:
  cJSON_Delete(object);
  return json;
}

static int from_item(const Option *table, void *fields, const cJSON *item) {
  const Option *option;
  TRY(find_or_fail(table, item->string, &option));

  if (cJSON_IsString(item)) return set_field(option, fields, item->valuestring);
  if (cJSON_IsBool(item)) return set_field(option, fields, cJSON_IsTrue(item) ? "true" : "false");
  if (!cJSON_IsNumber(item)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "option %s must be a number, a string, true or false",
                    option->name);
  }
  if (option->type == OPTION_INT && !(fabs(item->valuedouble) <= EXACT_INTEGER)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "option %s is %.17g, which JSON cannot hold exactly: "
                    "give it as a string",
                    option->name, item->valuedouble);
  }
  char text[32];
  real_text(item->valuedouble, text, sizeof text);
  return set_field(option, fields, text);
}

int options_from_json(const Option *table, void *fields, const char *json) {
  const char *end = json;
  cJSON *object = cJSON_ParseWithOpts(json, &end, 1);
  if (!object) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the options are not valid JSON from character %zu on: %.40s",
                    (size_t)(end - json) + 1, end);
  }

  int status = BFM_OK;
  if (!cJSON_IsObject(object)) {
    status = bfm_fail(BFM_BAD_ARGUMENT, "the options are not a JSON object: %.40s", json);
  }
  for (cJSON *item = object->child; item && !status; item = item->next) {
    if (cJSON_GetObjectItemCaseSensitive(object, item->string) != item) {
      status = bfm_fail(BFM_BAD_ARGUMENT, "option \"%.64s\" is given twice", item->string);
    } else {
      status = from_item(table, fields, item);
    }
  }
  cJSON_Delete(object);
  return status;
}

// ---------------------------------- help ---------------------------------------------------------

const char *options_argument(const Option *option) {
  return option->type == OPTION_CHOICE ? option->choices : types[option->type].argument;
}

void options_describe(const Option *option, char *out, size_t size) {
  int ranged =
      (option->type == OPTION_INT || option->type == OPTION_REAL) && option->lo != option->hi;
  char range[96] = "";
  if (ranged) range_text(option, range, sizeof range);
  const char *fallback = *option->fallback ? option->fallback : "none";
  snprintf(out, size, "%s (default %s%s%s)", option->help, fallback, ranged ? ", " : "", range);
}

#define HELP_COLUMN 27
#define HELP_WIDTH 78

// prints words wrapped to columns HELP_COLUMN … HELP_WIDTH; the cursor is at HELP_COLUMN already
static void print_wrapped(const char *text, FILE *out) {
  int column = HELP_COLUMN;
  while (*text) {
    int length = (int)strcspn(text, " ");
    if (column > HELP_COLUMN && column + 1 + length > HELP_WIDTH) {
      fprintf(out, "\n%*s", HELP_COLUMN, "");
      column = HELP_COLUMN;
    } else if (column > HELP_COLUMN) {
      fputc(' ', out);
      column++;
    }
    fwrite(text, 1, length, out);
    column += length;
    text += length + strspn(text + length, " ");
  }
  fputc('\n', out);
}

// prints the flag and its argument, wrapping a long list of choices; returns the column reached
static int print_flag(const Option *o, FILE *out) {
  int indent = fprintf(out, "  --%s=", o->name), column = indent;
  for (const char *text = options_argument(o); *text;) {
    size_t length = strcspn(text, "|");
    length += text[length] == '|';
    if (column + (int)length > HELP_WIDTH) column = fprintf(out, "\n%*s", indent, "") - 1;
    column += (int)fwrite(text, 1, length, out);
    text += length;
  }
  return column;
}

void options_help(const Option *table, FILE *out) {
  for (const Option *o = table; o->name; o++) {
    char text[512];
    int column = print_flag(o, out);
    if (column > HELP_COLUMN - 2) {
      fputc('\n', out);
      column = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - column, "");
    options_describe(o, text, sizeof text);
    print_wrapped(text, out);
  }
}
