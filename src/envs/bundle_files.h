// Inside of a bundle, for the files that gather and compile one.

#ifndef BFM_ENVS_BUNDLE_FILES_H
#define BFM_ENVS_BUNDLE_FILES_H

#include <limits.h>

#include "envs/bundle.h"
#include "envs/flatten.h"

struct Bundle {
  BundleFile *files;  // in the order of names
  int count;
  size_t size;    // of all files
  FlatText flat;  // of a model from disk: where its lines come from
};

int bundle_name_is_model(const char *name);
int bundle_name_is_description(const char *name);
// whether MuJoCo would look for it at this very place below the bundle's folder
int bundle_name_is_safe(const char *name);

const BundleFile *bundle_find(const Bundle *bundle, const char *name);  // or NULL
// adds a file; the bundle owns `bytes`, also after a failure
int bundle_take(Bundle *bundle, const char *name, char *bytes, size_t size);

// fails if a compiled model contains NaN
int bundle_check_numbers(const Bundle *bundle, const mjModel *model);

// the folders in which MuJoCo's compiler looks for assets
typedef struct {
  char mesh[PATH_MAX], texture[PATH_MAX];
} Folders;

int folders_read(const FlatText *flat, Folders *folders);
const char *folders_of(const Folders *folders, const Ref *ref);
// what the text has at a reference
int folders_text(const FlatText *flat, const Ref *ref, char out[PATH_MAX]);
int folders_is(const Ref *ref);  // whether it names a folder

#endif
