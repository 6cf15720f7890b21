// The files of a robot as bytes. MuJoCo reads them through a provider of its virtual file system that
// is mounted as a folder: whatever is below that folder comes from the bundle or does not exist. Names
// that could lead out of the folder are refused before MuJoCo sees them. The folder is called by the
// bundle's hash, because MuJoCo caches assets by their path.

#include "envs/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mujoco/mjplugin.h>

#include "core/files.h"
#include "core/paths.h"
#include "envs/flatten.h"
#include "envs/urdf.h"

struct Bundle {
  BundleFile *files;  // in the order of names
  int count;
  size_t size;    // of all files
  FlatText flat;  // of a model from disk: where its lines come from
};

// ---------------------------------- files --------------------------------------------------------

static int is_model(const char *name) {
  return path_ends(name, ".xml") || path_ends(name, ".urdf");
}

static int is_description(const char *name) {
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

const BundleFile *bundle_file(const Bundle *bundle, int i) {
  return i >= 0 && i < bundle->count ? &bundle->files[i] : NULL;
}

static const BundleFile *file_that(const Bundle *bundle, int (*is)(const char *name)) {
  for (int i = 0; i < bundle->count; i++) {
    if (is(bundle->files[i].name)) return &bundle->files[i];
  }
  return NULL;
}

const BundleFile *bundle_model(const Bundle *bundle) { return file_that(bundle, is_model); }

const BundleFile *bundle_description(const Bundle *bundle) {
  return file_that(bundle, is_description);
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

static const BundleFile *file_named(const Bundle *bundle, const char *name) {
  int found, at = place_of(bundle, name, &found);
  return found ? &bundle->files[at] : NULL;
}

// whether MuJoCo would look for it at this very place below the bundle's folder
static int is_safe(const char *name) {
  char inside[PATH_MAX];
  for (const char *c = name; *c; c++) {
    if ((unsigned char)*c < ' ' || *c == 127 || strchr("\\:&<>\"'|*?", *c)) return 0;
  }
  return *name && strlen(name) <= BUNDLE_NAME && !path_inside(inside, name) &&
         !strcmp(inside, name);
}

static int check_name(const Bundle *bundle, const char *name) {
  static const char *const others[] = {".mjb", ".mjz", ".zip", ".usd", ".usda", ".usdc", ".usdz"};
  int found;
  if (!is_safe(name)) {
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
  const BundleFile *other = is_model(name)         ? bundle_model(bundle)
                            : is_description(name) ? bundle_description(bundle)
                                                   : NULL;
  if (!other) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "a robot has two %s, %s and %s",
                  is_model(name) ? "models" : "descriptions", other->name, name);
}

// adds a file; the bundle owns `bytes`, also after a failure
static int add(Bundle *bundle, const char *name, char *bytes, size_t size) {
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
  return add(bundle, name, copy, size);
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

// ---------------------------------- folders of assets --------------------------------------------

typedef struct {
  char mesh[PATH_MAX], texture[PATH_MAX];
} Folders;

static int ref_text(const FlatText *flat, const Ref *ref, char out[PATH_MAX]) {
  if (ref->length >= PATH_MAX) return flat_fail(flat, ref, "a path is too long");
  memcpy(out, flat->text + ref->at, (size_t)ref->length);
  out[ref->length] = 0;
  return BFM_OK;
}

static int is_folder(const Ref *ref) { return ref->kind <= REF_ASSET_FOLDER; }

// the compiler's folders: the last ones count, and in one tag the special ones
static int read_folders(const FlatText *flat, Folders *folders) {
  const Ref *mesh = NULL, *texture = NULL;
  for (int i = 0; i < flat->ref_count; i++) {
    const Ref *ref = &flat->refs[i];
    if (!is_folder(ref)) continue;
    int both = ref->kind == REF_ASSET_FOLDER;
    if (ref->kind == REF_MESH_FOLDER || (both && !(mesh && mesh->tag == ref->tag))) mesh = ref;
    if (ref->kind == REF_TEXTURE_FOLDER || (both && !(texture && texture->tag == ref->tag))) {
      texture = ref;
    }
  }
  *folders->mesh = *folders->texture = 0;
  if (mesh) TRY(ref_text(flat, mesh, folders->mesh));
  if (texture) TRY(ref_text(flat, texture, folders->texture));
  return BFM_OK;
}

static const char *folder_of(const Folders *folders, const Ref *ref) {
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
  TRY(path_join(below, *value == '/' ? "" : folder_of(&g->folders, ref), value));
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
  return flat_fail(&g->flat, ref, "there is no file %s%s%s%s", first,
                   g->assets ? ", nor one of this name in " : "", g->assets ? g->assets : "",
                   in_package ? ": name the folder of meshes as 'assets' in a robot file" : "");
}

// whether this name already stands for another file
static int is_taken(const Gathering *g, int upto, const char *name, const char *path) {
  char other[PATH_MAX];
  for (int i = 0; i < upto; i++) {
    if (!g->sources[i] || !strcmp(g->sources[i], path)) continue;
    if (path_join(other, folder_of(&g->folders, &g->flat.refs[i]), g->values[i])) continue;
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
  TRY(path_inside(folder, folder_of(&g->folders, ref)));
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
  return is_safe(name) ? BFM_OK
                       : flat_fail(&g->flat, ref,
                                   "'%.200s' has characters that names of files "
                                   "may not have, or too many",
                                   value);
}

static int gather_asset(Gathering *g, int i) {
  const Ref *ref = &g->flat.refs[i];
  char value[PATH_MAX], path[PATH_MAX] = "", clean[PATH_MAX], name[PATH_MAX];
  TRY(ref_text(&g->flat, ref, value));
  if (is_folder(ref)) {
    TRY(path_inside(clean, value));
  } else {
    if (is_model(value) || is_description(value)) {
      return flat_fail(&g->flat, ref, "'%s' is no asset", value);
    }
    if (ref->needed) TRY(find_asset(g, ref, value, path));
    TRY(clean_value(g, i, value, path, clean, name));
  }
  if (!(g->values[i] = strdup(clean)))
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", value);
  if (!*path) return BFM_OK;
  if (!(g->sources[i] = strdup(path))) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  if (file_named(g->bundle, name)) return BFM_OK;

  char *bytes;
  size_t size;
  if (input_bytes(path, &bytes, &size)) {
    return bfm_fail_prefix(BFM_BAD_FILE, "%s:%d: ", g->flat.sources[ref->source], ref->line);
  }
  return add(g->bundle, name, bytes, size);
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
  return add(g->bundle, name, text, (size_t)(to - text));
}

static int gather(Gathering *g, const char *path) {
  TRY(flat_read(&g->flat, path, NULL, 0));
  TRY(read_folders(&g->flat, &g->folders));
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

// ---------------------------------- checking -----------------------------------------------------

static int check_folder(const FlatText *flat, const Ref *ref, const char *value) {
  return is_safe(value) ? BFM_OK
                        : flat_fail(flat, ref,
                                    "the folder '%.200s' leads out of the robot's own "
                                    "files",
                                    value);
}

static int check_asset(const Bundle *bundle, const FlatText *flat, const Ref *ref,
                       const Folders *folders, const char *value) {
  char name[PATH_MAX];
  if (!is_safe(value)) {
    return flat_fail(flat, ref, "'%.200s' leads out of the robot's own files", value);
  }
  if (!ref->needed) return BFM_OK;
  TRY(path_join(name, folder_of(folders, ref), flat->strippath ? path_base(value) : value));
  if (is_model(name) || is_description(name) || !file_named(bundle, name)) {
    return flat_fail(flat, ref, "the asset %.200s is not among the robot's files", name);
  }
  return BFM_OK;
}

static int check_text(const Bundle *bundle, const FlatText *flat) {
  Folders folders;
  char value[PATH_MAX];
  TRY(read_folders(flat, &folders));
  for (int i = 0; i < flat->ref_count; i++) {
    const Ref *ref = &flat->refs[i];
    TRY(ref_text(flat, ref, value));
    TRY(is_folder(ref) ? check_folder(flat, ref, value)
                       : check_asset(bundle, flat, ref, &folders, value));
  }
  return BFM_OK;
}

// an asset of a parsed model, after edits
static int check_file(const Bundle *bundle, const mjSpec *spec, const char *folder,
                      const mjString *file) {
  char name[PATH_MAX];
  const char *value = mjs_getString(file);
  if (!value || !*value) return BFM_OK;
  TRY(path_join(name, folder, spec->strippath ? path_base(value) : value));
  if (is_safe(name) && file_named(bundle, name)) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "the asset %.200s is not among the robot's files", name);
}

static int check_spec(const Bundle *bundle, mjSpec *spec) {
  static const mjtObj kinds[] = {mjOBJ_MESH, mjOBJ_HFIELD, mjOBJ_SKIN, mjOBJ_TEXTURE};
  const char *meshes = mjs_getString(spec->compiler.meshdir);
  const char *textures = mjs_getString(spec->compiler.texturedir);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    for (mjsElement *e = mjs_firstElement(spec, kinds[k]); e; e = mjs_nextElement(spec, e)) {
      switch (kinds[k]) {
        case mjOBJ_MESH: TRY(check_file(bundle, spec, meshes, mjs_asMesh(e)->file)); break;
        case mjOBJ_HFIELD: TRY(check_file(bundle, spec, meshes, mjs_asHField(e)->file)); break;
        case mjOBJ_SKIN: TRY(check_file(bundle, spec, meshes, mjs_asSkin(e)->file)); break;
        default: {
          mjsTexture *texture = mjs_asTexture(e);
          if (texture->builtin == mjBUILTIN_NONE) {
            TRY(check_file(bundle, spec, textures, texture->file));
          }
          // otherwise the renderer would read the file
          if (texture->embed == mjEMBED_FALSE) texture->embed = mjEMBED_TRUE;
        }
      }
    }
  }
  spec->compiler.passthrough = mjPASSTHROUGH_NONE;
  return BFM_OK;
}

// ---------------------------------- MuJoCo's view ------------------------------------------------

typedef struct {
  mjVFS vfs;
  mjpResourceProvider provider;
  char folder[32];
  const Bundle *bundle;
  const FlatText *flat;  // the model's XML; NULL: it has been read
} Mount;

static const char mark[] = "bfm";  // of our resources, for MuJoCo's cache

static int mount_open(mjResource *resource) {
  const Mount *mount = resource->provider->data;
  size_t length = strlen(mount->folder);
  if (strncmp(resource->name, mount->folder, length) || resource->name[length] != '/') return 0;
  const BundleFile *file = file_named(mount->bundle, resource->name + length + 1);
  if (!file || is_description(file->name) || (is_model(file->name) && !mount->flat)) return 0;
  resource->data = (void *)(uintptr_t)file;
  memcpy(resource->timestamp, mark, sizeof mark);
  return 1;
}

// of the model, MuJoCo gets the text that was checked
static int mount_read(mjResource *resource, const void **bytes) {
  const Mount *mount = resource->provider->data;
  const BundleFile *file = resource->data;
  int model = is_model(file->name);
  *bytes = model ? mount->flat->text : file->bytes;
  return (int)(model ? mount->flat->size : file->size);
}

static void mount_close(mjResource *resource) { resource->data = NULL; }

static int mount_modified(const mjResource *resource, const char *timestamp) {
  (void)resource;
  return strcmp(timestamp, mark) != 0;
}

static int mount_always(mjResource *resource) {
  (void)resource;
  return 1;
}

static int mount(Mount *m, const Bundle *bundle, const FlatText *flat) {
  m->bundle = bundle;
  m->flat = flat;
  snprintf(m->folder, sizeof m->folder, "bfm-%016llx", (unsigned long long)bundle_hash(bundle));
  mjp_defaultProvider(&m->provider);
  m->provider.open = mount_open;
  m->provider.read = mount_read;
  m->provider.close = mount_close;
  m->provider.modified = mount_modified;
  m->provider.mount = m->provider.unmount = mount_always;
  m->provider.data = m;
  mj_defaultVFS(&m->vfs);
  if (!mj_mountVFS(&m->vfs, m->folder, &m->provider)) return BFM_OK;
  mj_deleteVFS(&m->vfs);
  return bfm_fail(BFM_UNAVAILABLE, "MuJoCo cannot mount a robot's files");
}

// MuJoCo's message as one line, with the user's file and line instead of the text's
static int fail_mujoco(const Bundle *bundle, const char *message) {
  const char *file = bundle_model(bundle) ? bundle_model(bundle)->name : "the model";
  char text[1024];
  int line = 0;
  const char *at = strstr(message, "line ");
  if (at) line = (int)strtol(at + 5, NULL, 10);
  if (line && bundle->flat.source_count) flat_origin(&bundle->flat, line, &file, &line);
  else if (bundle->flat.source_count) file = bundle->flat.sources[0];

  size_t used = 0;
  for (const char *c = message; *c && used + 2 < sizeof text; c++) {
    if (at && c == at) {  // ", line 12" is said by the prefix
      while (used && strchr(" ,", text[used - 1])) used--;
      c += 5;
      while (*c >= '0' && *c <= '9') c++;
      if (!*c) break;
    }
    text[used++] = *c;
    if (*c != '\n') continue;
    used--;
    if (c[1] && used) text[used++] = ';', text[used++] = ' ';
  }
  while (used && strchr(" ;", text[used - 1])) used--;
  text[used] = 0;
  const char *said = text;
  if (!strncmp(said, "XML Error: ", 11)) said += 11;
  else if (!strncmp(said, "Error: ", 7)) said += 7;
  if (line) return bfm_fail(BFM_BAD_FILE, "%s:%d: %s", file, line, said);
  return bfm_fail(BFM_BAD_FILE, "%s: %s", file, said);
}

static int parse(const Bundle *bundle, const FlatText *flat, mjSpec **spec) {
  char error[1024] = "", path[PATH_MAX];
  Mount m;
  TRY(mount(&m, bundle, flat));
  snprintf(path, sizeof path, "%s/%s", m.folder, bundle_model(bundle)->name);
  *spec = mj_parseXML(path, &m.vfs, error, sizeof error);
  mj_deleteVFS(&m.vfs);
  return *spec ? BFM_OK : fail_mujoco(bundle, error);
}

int bundle_spec(const Bundle *bundle, BundleBase base, mjSpec **spec) {
  const BundleFile *model = bundle_model(bundle);
  FlatText flat;
  *spec = NULL;
  if (!model) return bfm_fail(BFM_BAD_FILE, "the robot has no model among its files");
  const char *path = bundle->flat.source_count ? bundle->flat.sources[0] : model->name;
  int status = flat_read(&flat, path, model->bytes, model->size);
  if (!status) status = check_text(bundle, &flat);
  if (!status) status = parse(bundle, &flat, spec);
  if (!status) status = check_spec(bundle, *spec);
  if (!status && flat.is_urdf) status = urdf_complete(*spec, base, &flat);
  flat_free(&flat);
  if (status && *spec) {
    mj_deleteSpec(*spec);
    *spec = NULL;
  }
  return status;
}

int bundle_compile(const Bundle *bundle, mjSpec *spec, mjModel **model) {
  Mount m;
  *model = NULL;
  TRY(check_spec(bundle, spec));
  TRY(mount(&m, bundle, NULL));
  *model = mj_compile(spec, &m.vfs);
  mj_deleteVFS(&m.vfs);
  return *model ? BFM_OK : fail_mujoco(bundle, mjs_getError(spec));
}
