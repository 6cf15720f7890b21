// Gathers the files of a model from the disk. Every file keeps its path as far as that lies below the
// model's folder; the text of the model is changed where it leads elsewhere.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/files.h"
#include "core/paths.h"
#include "envs/bundle_files.h"

// ---------------------------------- folders of assets --------------------------------------------

int folders_text(const FlatText *flat, const Ref *ref, char out[PATH_MAX]) {
  if (ref->length >= PATH_MAX) return flat_fail(flat, ref, "a path is too long");
  memcpy(out, flat->text + ref->at, (size_t)ref->length);
  out[ref->length] = 0;
  return BFM_OK;
}

int folders_is(const Ref *ref) { return ref->kind <= REF_ASSET_FOLDER; }

// the compiler's folders: the last ones count, and in one tag the special ones
int folders_read(const FlatText *flat, Folders *folders) {
  const Ref *mesh = NULL, *texture = NULL;
  for (int i = 0; i < flat->ref_count; i++) {
    const Ref *ref = &flat->refs[i];
    if (!folders_is(ref)) continue;
    int both = ref->kind == REF_ASSET_FOLDER;
    if (ref->kind == REF_MESH_FOLDER || (both && !(mesh && mesh->tag == ref->tag))) mesh = ref;
    if (ref->kind == REF_TEXTURE_FOLDER || (both && !(texture && texture->tag == ref->tag))) {
      texture = ref;
    }
  }
  *folders->mesh = *folders->texture = 0;
  if (mesh) TRY(folders_text(flat, mesh, folders->mesh));
  if (texture) TRY(folders_text(flat, texture, folders->texture));
  return BFM_OK;
}

const char *folders_of(const Folders *folders, const Ref *ref) {
  return ref->kind == REF_TEXTURE ? folders->texture : folders->mesh;
}

// ---------------------------------- gathering ----------------------------------------------------

typedef struct {
  Bundle *bundle;
  FlatText flat;
  Folders folders;
  const char *assets;
  char **values;   // [ref_count] what the text shall have instead
  char **sources;  // [ref_count] the path that was read; NULL: none
} Gathering;

static int exists(const char *path) { return !access(path, F_OK); }

// A mesh of a URDF: "package://robot/meshes/leg.stl". The package is sought in the folders above the
// model: its own folder, or one that contains it.
static int find_in_package(const Gathering *g, const char *value, char path[PATH_MAX]) {
  const char *package = strstr(value, "://") + 3, *rest = strchr(package, '/');
  char folder[PATH_MAX], up[PATH_MAX] = ".";
  if (!strncmp(value, "file:", 5)) return path_clean(path, package);
  rest = rest ? rest + 1 : package;
  for (int level = 0; level < 5; level++) {
    TRY(path_beside(folder, g->flat.sources[0], up));
    TRY(path_join(path, folder, rest));
    if (exists(path)) return BFM_OK;
    TRY(path_join(path, folder, package));
    if (exists(path)) return BFM_OK;
    strcat(up, "/..");
  }
  return BFM_OK;
}

// MuJoCo looks beside the model, then beside the file that has the tag
static int find_beside(const Gathering *g, const Ref *ref, const char *value, char path[PATH_MAX]) {
  char below[PATH_MAX];
  const char *model = g->flat.sources[0], *source = g->flat.sources[ref->source];
  if (g->flat.strippath) value = path_base(value);
  TRY(path_join(below, *value == '/' ? "" : folders_of(&g->folders, ref), value));
  TRY(path_beside(path, model, below));
  if (!ref->source || exists(path)) return BFM_OK;
  TRY(path_beside(path, source, below));
  if (!exists(path)) TRY(path_beside(path, source, value));
  return BFM_OK;
}

static int find_in_assets(const Gathering *g, const char *value, char path[PATH_MAX]) {
  char inside[PATH_MAX];
  const char *scheme = strstr(value, "://");
  TRY(path_inside(inside, scheme ? scheme + 3 : value));
  TRY(path_join(path, g->assets, inside));
  if (!exists(path)) TRY(path_join(path, g->assets, path_base(inside)));
  return BFM_OK;
}

// where the file is on the disk; *path is empty if it is nowhere
static int find_asset(const Gathering *g, const Ref *ref, const char *value, char path[PATH_MAX]) {
  int in_package = strstr(value, "://") != NULL;
  *path = 0;
  if (in_package && !g->flat.is_urdf) {
    return flat_fail(&g->flat, ref, "'%s' is not a path, and nothing is downloaded", value);
  }
  TRY(in_package ? find_in_package(g, value, path) : find_beside(g, ref, value, path));
  char first[PATH_MAX];
  memcpy(first, path, sizeof first);
  if (!exists(path) && g->assets) TRY(find_in_assets(g, value, path));
  if (exists(path)) return BFM_OK;
  *path = 0;
  if (!ref->needed) return BFM_OK;
  return flat_fail(&g->flat, ref, "there is no file %s%s%s%s", in_package ? value : first,
                   g->assets ? ", nor one of this name in " : "", g->assets ? g->assets : "",
                   in_package ? ": name the folder of meshes as 'assets' in a robot file" : "");
}

// whether this name already stands for another file
static int is_taken(const Gathering *g, int upto, const char *name, const char *path) {
  char other[PATH_MAX];
  for (int i = 0; i < upto; i++) {
    if (!g->sources[i] || !strcmp(g->sources[i], path)) continue;
    if (path_join(other, folders_of(&g->folders, &g->flat.refs[i]), g->values[i])) continue;
    if (!path_inside(other, other) && !strcmp(other, name)) return 1;
  }
  return 0;
}

// what the text shall say instead of a value: a path that stays below the model's folder
static int clean_value(const Gathering *g, int i, const char *value, const char *path,
                       char out[PATH_MAX], char name[PATH_MAX]) {
  const Ref *ref = &g->flat.refs[i];
  char clean[PATH_MAX], folder[PATH_MAX];
  const char *scheme = strstr(value, "://");
  int strip = g->flat.strippath || scheme;
  TRY(path_inside(clean, strip ? path_base(value) : value));
  TRY(path_inside(folder, folders_of(&g->folders, ref)));
  memcpy(out, clean, sizeof clean);
  for (int number = 2;; number++) {
    TRY(path_join(name, folder, out));
    if (!is_taken(g, i, name, path)) break;
    if (g->flat.strippath || number == 1000) {
      return flat_fail(&g->flat, ref, "'%s' is the name of two files", value);
    }
    char prefix[16];
    snprintf(prefix, sizeof prefix, "%d", number);
    TRY(path_join(out, prefix, clean));
  }
  return bundle_name_is_safe(name) ? BFM_OK
                                   : flat_fail(&g->flat, ref,
                                               "'%.200s' has characters that names of files "
                                               "may not have, or too many",
                                               value);
}

static int gather_asset(Gathering *g, int i) {
  const Ref *ref = &g->flat.refs[i];
  char value[PATH_MAX], path[PATH_MAX] = "", clean[PATH_MAX], name[PATH_MAX];
  TRY(folders_text(&g->flat, ref, value));
  if (folders_is(ref)) {
    TRY(path_inside(clean, value));
  } else {
    if (bundle_name_is_model(value) || bundle_name_is_description(value)) {
      return flat_fail(&g->flat, ref, "'%s' is no asset", value);
    }
    if (ref->needed) TRY(find_asset(g, ref, value, path));
    TRY(clean_value(g, i, value, path, clean, name));
  }
  if (!(g->values[i] = strdup(clean)))
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", value);
  if (!*path) return BFM_OK;
  if (!(g->sources[i] = strdup(path))) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  if (bundle_find(g->bundle, name)) return BFM_OK;

  char *bytes;
  size_t size;
  if (input_bytes_within(path, BUNDLE_BYTES - g->bundle->size, &bytes, &size)) {
    return bfm_fail_prefix(BFM_BAD_FILE, "%s:%d: ", g->flat.sources[ref->source], ref->line);
  }
  return bundle_take(g->bundle, name, bytes, size);
}

// the text with the values that name files replaced
static int add_text(Gathering *g, const char *name) {
  const FlatText *flat = &g->flat;
  size_t room = flat->size + 1;
  for (int i = 0; i < flat->ref_count; i++) room += strlen(g->values[i]);
  char *text = malloc(room), *to = text;
  if (!text) return bfm_fail(BFM_NO_MEMORY, "out of memory for a model's XML");
  size_t at = 0;
  for (int i = 0; i < flat->ref_count; i++) {
    const Ref *ref = &flat->refs[i];
    size_t before = ref->at - at, length = strlen(g->values[i]);
    memcpy(to, flat->text + at, before);
    memcpy(to + before, g->values[i], length);
    to += before + length;
    at = ref->at + (size_t)ref->length;
  }
  memcpy(to, flat->text + at, flat->size - at);
  to += flat->size - at;
  *to = 0;
  return bundle_take(g->bundle, name, text, (size_t)(to - text));
}

static int gather(Gathering *g, const char *path) {
  TRY(flat_read(&g->flat, path, NULL, 0));
  TRY(folders_read(&g->flat, &g->folders));
  size_t count = (size_t)g->flat.ref_count + 1;
  g->values = calloc(count, sizeof *g->values);
  g->sources = calloc(count, sizeof *g->sources);
  if (!g->values || !g->sources) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  for (int i = 0; i < g->flat.ref_count; i++) TRY(gather_asset(g, i));
  return add_text(g, path_base(path));
}

int bundle_gather(Bundle **out, const char *path, const char *assets) {
  Gathering *g = calloc(1, sizeof *g);
  *out = NULL;
  if (!g) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  g->assets = assets;
  int status = bundle_new(&g->bundle);
  if (!status) status = gather(g, path);
  for (int i = 0; i < g->flat.ref_count; i++) {
    if (g->values) free(g->values[i]);
    if (g->sources) free(g->sources[i]);
  }
  free(g->values);
  free(g->sources);
  if (status) {
    flat_free(&g->flat);
    bundle_free(g->bundle);
  } else {
    free(g->flat.text);
    g->flat.text = NULL;
    g->bundle->flat = g->flat;
    *out = g->bundle;
  }
  free(g);
  return status;
}
