// The files of a robot as bytes, in the order of their names, and their hash.

#define _GNU_SOURCE  // strcasestr

#include "envs/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/paths.h"
#include "envs/bundle_files.h"

int bundle_name_is_model(const char *name) {
  return path_ends(name, ".xml") || path_ends(name, ".urdf");
}

int bundle_name_is_description(const char *name) {
  return path_ends(name, ".yaml") || path_ends(name, ".yml");
}

int bundle_new(Bundle **bundle) {
  *bundle = calloc(1, sizeof **bundle);
  return *bundle ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for a robot's files");
}

void bundle_free(Bundle *bundle) {
  if (!bundle) return;
  for (int i = 0; i < bundle->count; i++) {
    free(bundle->files[i].name);
    free(bundle->files[i].bytes);
  }
  free(bundle->files);
  flat_free(&bundle->flat);
  free(bundle);
}

int bundle_count(const Bundle *bundle) { return bundle ? bundle->count : 0; }

const BundleFile *bundle_file(const Bundle *bundle, int i) {
  return i >= 0 && i < bundle->count ? &bundle->files[i] : NULL;
}

static const BundleFile *file_that(const Bundle *bundle, int (*is)(const char *name)) {
  for (int i = 0; i < bundle->count; i++) {
    if (is(bundle->files[i].name)) return &bundle->files[i];
  }
  return NULL;
}

const BundleFile *bundle_model(const Bundle *bundle) {
  return file_that(bundle, bundle_name_is_model);
}

const BundleFile *bundle_description(const Bundle *bundle) {
  return file_that(bundle, bundle_name_is_description);
}

// the place of a name among the files; *found: whether it is there
static int place_of(const Bundle *bundle, const char *name, int *found) {
  int low = 0, high = bundle->count;
  *found = 0;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(bundle->files[middle].name, name);
    if (!order) *found = 1;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

const BundleFile *bundle_find(const Bundle *bundle, const char *name) {
  int found, at = place_of(bundle, name, &found);
  return found ? &bundle->files[at] : NULL;
}

int bundle_name_is_safe(const char *name) {
  char inside[PATH_MAX];
  for (const char *c = name; *c; c++) {
    if ((unsigned char)*c < ' ' || *c == 127 || strchr("\\:&<>\"'|*?", *c)) return 0;
  }
  // MuJoCo would look into an archive
  if (strcasestr(name, ".zip/") || strcasestr(name, ".mjz/")) return 0;
  return *name && strlen(name) <= BUNDLE_NAME && !path_inside(inside, name) &&
         !strcmp(inside, name);
}

static int check_name(const Bundle *bundle, const char *name) {
  static const char *const others[] = {".mjb", ".mjz", ".zip", ".usd", ".usda", ".usdc", ".usdz"};
  int found;
  if (!bundle_name_is_safe(name)) {
    return bfm_fail(BFM_BAD_FILE,
                    "a robot's file may not be called '%.200s': names are relative, without '..' "
                    "and other special characters",
                    name);
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    if (!path_ends(name, others[i])) continue;
    return bfm_fail(BFM_BAD_FILE, "a robot may not contain %s: only XML and single assets", name);
  }
  place_of(bundle, name, &found);
  if (found) return bfm_fail(BFM_BAD_FILE, "a robot has two files called '%s'", name);
  const BundleFile *other = bundle_name_is_model(name)         ? bundle_model(bundle)
                            : bundle_name_is_description(name) ? bundle_description(bundle)
                                                               : NULL;
  if (!other) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "a robot has two %s, %s and %s",
                  bundle_name_is_model(name) ? "models" : "descriptions", other->name, name);
}

int bundle_take(Bundle *bundle, const char *name, char *bytes, size_t size) {
  int found, status = check_name(bundle, name);
  if (!status && bundle->count == BUNDLE_FILES) {
    status = bfm_fail(BFM_BAD_FILE, "a robot has more than %d files", BUNDLE_FILES);
  }
  if (!status && size > BUNDLE_BYTES - bundle->size) {
    status = bfm_fail(BFM_BAD_FILE, "a robot's files have more than %d MB", BUNDLE_BYTES >> 20);
  }
  BundleFile *more = NULL;
  char *own = NULL;
  if (!status) {
    more = realloc(bundle->files, (size_t)(bundle->count + 1) * sizeof *more);
    if (more) bundle->files = more;
    own = strdup(name);
    if (!more || !own) status = bfm_fail(BFM_NO_MEMORY, "out of memory for %s", name);
  }
  if (status) {
    free(bytes);
    free(own);
    return status;
  }
  int at = place_of(bundle, name, &found);
  memmove(more + at + 1, more + at, (size_t)(bundle->count - at) * sizeof *more);
  more[at] = (BundleFile){own, bytes, size};
  bundle->count++;
  bundle->size += size;
  return BFM_OK;
}

int bundle_add(Bundle *bundle, const char *name, const void *bytes, size_t size) {
  if (size > BUNDLE_BYTES) {
    return bfm_fail(BFM_BAD_FILE, "%.200s has more than %d MB", name, BUNDLE_BYTES >> 20);
  }
  char *copy = malloc(size + 1);
  if (!copy) return bfm_fail(BFM_NO_MEMORY, "out of memory for %.200s", name);
  if (size) memcpy(copy, bytes, size);
  copy[size] = 0;
  return bundle_take(bundle, name, copy, size);
}

int bundle_put(Bundle *bundle, const char *name, const void *bytes, size_t size) {
  int found, at = place_of(bundle, name, &found);
  if (found) {
    BundleFile old = bundle->files[at];
    bundle->count--;
    bundle->size -= old.size;
    memmove(bundle->files + at, bundle->files + at + 1,
            (size_t)(bundle->count - at) * sizeof *bundle->files);
    free(old.name);
    free(old.bytes);
  }
  return bundle_add(bundle, name, bytes, size);
}

// FNV-1a
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  }
  return hash;
}

uint64_t bundle_hash(const Bundle *bundle) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < bundle->count; i++) {
    const BundleFile *file = &bundle->files[i];
    uint64_t size = file->size;
    hash = hash_bytes(hash, file->name, strlen(file->name) + 1);
    hash = hash_bytes(hash, &size, sizeof size);
    hash = hash_bytes(hash, file->bytes, file->size);
  }
  return hash;
}
