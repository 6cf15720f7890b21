// What can be served under a path: a model, the models in a folder, or a run. Models are judged by
// their metadata alone, which takes a millisecond; a damaged tensor is noticed when it is loaded.

#ifndef BFM_SERVE_SHELF_H
#define BFM_SERVE_SHELF_H

#include <limits.h>
#include <stdint.h>

#include "core/status.h"

enum { LABEL_SIZE = 48 };  // of the name of a model or a run in the page, with its final 0

typedef struct {
  char env[64], algo[64];
  int64_t step;
} ModelFacts;

// Fails, saying why, unless the file is a model of a robot that bfm knows.
int shelf_facts(ModelFacts *facts, const char *path);

// What a search calls; a failure ends it. `name` is the file's without suffix, or the folder's.
typedef struct {
  void *context;
  int (*model)(void *context, const char *path, const char *name);
  int (*run)(void *context, const char *path, const char *name);
} ShelfReader;

// A folder is a run if it has a run.json. Otherwise its models and the runs right in it are found, in
// the order of their names; having neither is an error.
int shelf_search(const char *path, const ShelfReader *reader);

// the models of a run so far: the newest in model.safetensors, or model.0.safetensors, …; then those
// with the best returns in best.safetensors, or best.0.safetensors, …
int shelf_search_run(const char *folder, const ShelfReader *reader);

// the folder of models to serve when no path is given, here, in the program's checkout or
// installed, and the model in it to begin with: the walker, or an empty text
int shelf_default(char folder[PATH_MAX], char first[PATH_MAX]);

// a label from a name: letters, digits, ".", "_" and "-"
void shelf_label(const char *name, char out[LABEL_SIZE]);

#endif
