// The files of a robot as bytes: its model in one XML, the assets of the model, and its description.
// From a bundle a robot is compiled without looking at the disk, so a trained model can carry its
// robot. bundle_gather reads a user's files; bundle_new and bundle_add take those of a trained model,
// which nobody has to trust: whatever would lead MuJoCo out of the bundle is refused.

#ifndef BFM_ENVS_BUNDLE_H
#define BFM_ENVS_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

#include <mujoco/mujoco.h>

#include "core/status.h"

enum {
  BUNDLE_FILES = 2048,       // limits: files,
  BUNDLE_BYTES = 512 << 20,  // bytes of all files,
  BUNDLE_XML = 16 << 20,     // and bytes of the XML
  BUNDLE_NAME = 120,         // characters of a name
};

// One file. Its name is relative and has neither "..", nor characters with a meaning to the shell.
// "*.yaml" is the description, "*.xml" or "*.urdf" the model, anything else an asset.
typedef struct {
  char *name;
  char *bytes;  // and a zero after them
  size_t size;
} BundleFile;

typedef struct Bundle Bundle;

// what becomes of a URDF's base: by default it is free if it has a mass and is not called "world"
typedef enum { BASE_DEFAULT, BASE_FREE, BASE_FIXED } BundleBase;

// Reads the model at a path, MJCF or URDF, with the files that it includes and its assets. assets: a
// folder in which assets are sought that do not lie where the model says; NULL: none.
int bundle_gather(Bundle **bundle, const char *path, const char *assets);

// an empty bundle, and one more file for it, of which it keeps a copy
int bundle_new(Bundle **bundle);
int bundle_add(Bundle *bundle, const char *name, const void *bytes, size_t size);
// the same, but a file of this name gets the new bytes
int bundle_put(Bundle *bundle, const char *name, const void *bytes, size_t size);

void bundle_free(Bundle *bundle);  // accepts NULL

int bundle_count(const Bundle *bundle);  // of files; 0 without a bundle
// file number i, in the order of names; NULL after the last
const BundleFile *bundle_file(const Bundle *bundle, int i);
const BundleFile *bundle_model(const Bundle *bundle);        // NULL: it has none
const BundleFile *bundle_description(const Bundle *bundle);  // NULL: it has none

// a hash of all names and bytes, which tells robots apart; not a cryptographic one
uint64_t bundle_hash(const Bundle *bundle);

// The model as MuJoCo's parser leaves it, ready for edits. A URDF gets a base, motors and a floor.
// The caller deletes the spec.
int bundle_spec(const Bundle *bundle, BundleBase base, mjSpec **spec);
// compiles the spec with the bundle's assets
int bundle_compile(const Bundle *bundle, mjSpec *spec, mjModel **model);

#endif
