// Options: one definition each (name, type, default, range, help), bound to a field of a plain
// struct. From a table come the command line's flags, --help, the saved configuration (JSON), the
// Python keyword arguments and the check of bad values.

#ifndef BFM_CORE_OPTIONS_H
#define BFM_CORE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

typedef enum {
  OPTION_INT,     // int64_t; accepts 5000, 5k, 1M, 2G, 1e6
  OPTION_REAL,    // double; accepts inf
  OPTION_CHOICE,  // int, an index into choices
  OPTION_BOOL,    // int; on|off, true|false, 1|0
  OPTION_TEXT,    // char[OPTION_TEXT_SIZE]
} OptionType;

#define OPTION_TEXT_SIZE 256

typedef struct {
  const char *name;  // as typed: "z-mix"; z_mix is accepted too
  OptionType type;
  size_t offset;         // of the field in the options struct
  const char *fallback;  // the default, as text
  double lo, hi;  // range of OPTION_INT and OPTION_REAL, both ends allowed; lo = hi: any value
  const char *choices;  // OPTION_CHOICE: "iwis|wis"
  const char *help;     // one line for --help
} Option;               // a table ends with a row whose name is NULL

// fills every field with its default
int options_default(const Option *table, void *fields);

// Sets one option from text. The error for an unknown name suggests the nearest one. A failure
// leaves the field as it was.
int options_set(const Option *table, void *fields, const char *name, const char *text);

// the row with this name, or NULL
const Option *options_find(const Option *table, const char *name);

// value as text into out; options_set reads it back to the same value
void options_get(const Option *option, const void *fields, char *out, size_t size);

// the whole struct as a JSON object into a malloc'ed string (NULL when out of memory)
char *options_to_json(const Option *table, const void *fields);

// sets every option in the JSON object; unknown and repeated keys are an error
int options_from_json(const Option *table, void *fields, const char *json);

// an option's argument as help shows it: INT, REAL, TEXT, on|off or the choices
const char *options_argument(const Option *option);

// what --help says about an option: its help, default and range
void options_describe(const Option *option, char *out, size_t size);

// one aligned entry per option: flag, argument, help, default and range, wrapped to 79 columns
void options_help(const Option *table, FILE *out);

#endif
