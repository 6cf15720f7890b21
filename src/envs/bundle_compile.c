// Parses and compiles a bundle's model. MuJoCo reads the files through a provider of its virtual file
// system that is mounted as a folder: whatever is below that folder comes from the bundle or does not
// exist. Names that could lead out of the folder are refused before MuJoCo sees them. The folder is
// called by the bundle's hash, because MuJoCo caches assets by their path.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mujoco/mjplugin.h>

#include "core/paths.h"
#include "envs/bundle_files.h"
#include "envs/urdf.h"

// ---------------------------------- checking -----------------------------------------------------

static int check_folder(const FlatText *flat, const Ref *ref, const char *value) {
  return bundle_name_is_safe(value) ? BFM_OK
                                    : flat_fail(flat, ref,
                                                "the folder '%.200s' leads out of the robot's own "
                                                "files",
                                                value);
}

static int check_asset(const Bundle *bundle, const FlatText *flat, const Ref *ref,
                       const Folders *folders, const char *value) {
  char name[PATH_MAX];
  if (!bundle_name_is_safe(value)) {
    return flat_fail(flat, ref, "'%.200s' leads out of the robot's own files", value);
  }
  if (!ref->needed) return BFM_OK;
  TRY(path_join(name, folders_of(folders, ref), flat->strippath ? path_base(value) : value));
  if (bundle_name_is_model(name) || bundle_name_is_description(name) ||
      !bundle_find(bundle, name)) {
    return flat_fail(flat, ref, "the asset %.200s is not among the robot's files", name);
  }
  return BFM_OK;
}

static int check_text(const Bundle *bundle, const FlatText *flat) {
  Folders folders;
  char value[PATH_MAX];
  TRY(folders_read(flat, &folders));
  for (int i = 0; i < flat->ref_count; i++) {
    const Ref *ref = &flat->refs[i];
    TRY(folders_text(flat, ref, value));
    TRY(folders_is(ref) ? check_folder(flat, ref, value)
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
  if (bundle_name_is_safe(name) && bundle_find(bundle, name)) return BFM_OK;
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
  const BundleFile *file = bundle_find(mount->bundle, resource->name + length + 1);
  if (!file || bundle_name_is_description(file->name) ||
      (bundle_name_is_model(file->name) && !mount->flat))
    return 0;
  resource->data = (void *)(uintptr_t)file;
  memcpy(resource->timestamp, mark, sizeof mark);
  return 1;
}

// of the model, MuJoCo gets the text that was checked
static int mount_read(mjResource *resource, const void **bytes) {
  const Mount *mount = resource->provider->data;
  const BundleFile *file = resource->data;
  int model = bundle_name_is_model(file->name);
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
  char *unnamed = strstr(text, "; Element name ''");
  if (unnamed) *unnamed = 0;
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
  if (!*model) return fail_mujoco(bundle, mjs_getError(spec));
  int status = bundle_check_numbers(bundle, *model);
  if (status) {
    mj_deleteModel(*model);
    *model = NULL;
  }
  return status;
}
