// One XML text from a model's file and the files that it includes. The text keeps the order, comments
// and line breaks of its sources; only tags that include something are replaced.

#include "envs/flatten.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/files.h"
#include "core/number.h"
#include "core/paths.h"

enum {
  TEXT_MAX = 16 << 20,       // bytes of the text
  SOURCES_MAX = 256,         // files included
  REFS_MAX = 4096,           // files named, and pieces of the text
  INCLUDES_MAX = 32,         // includes inside of includes
  NESTED_MAX = 32,           // <replicate> inside of <replicate>
  REPEATS_MAX = 10000,       // elements that one tag stands for
  PIXELS_MAX = 1 << 26,      // of a texture or a height field
  SIZE_MAX_OTHER = 1 << 20,  // of the attributes of <size>, apart from memory
};

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

typedef struct {
  FlatText *flat;
  int on_disk;                 // includes are allowed
  int depth;                   // of includes
  double repeats[NESTED_MAX];  // how often <replicate> repeats what is inside, from outside inwards
  int nested;
} Flattening;

// ---------------------------------- tables -------------------------------------------------------

static const struct {
  const char *element, *attribute;
  RefKind kind;
} references[] = {
    {"compiler", "meshdir", REF_MESH_FOLDER},
    {"compiler", "texturedir", REF_TEXTURE_FOLDER},
    {"compiler", "assetdir", REF_ASSET_FOLDER},
    {"mesh", "file", REF_MESH},
    {"mesh", "filename", REF_MESH},  // URDF's
    {"hfield", "file", REF_MESH},
    {"skin", "file", REF_MESH},
    {"flexcomp", "file", REF_MESH},
    {"texture", "file", REF_TEXTURE},
    {"texture", "fileright", REF_TEXTURE},
    {"texture", "fileleft", REF_TEXTURE},
    {"texture", "fileup", REF_TEXTURE},
    {"texture", "filedown", REF_TEXTURE},
    {"texture", "filefront", REF_TEXTURE},
    {"texture", "fileback", REF_TEXTURE},
};

// elements of MJCF that lead to other models or other code
static const struct {
  const char *element, *why;
} refused[] = {
    {"model",
     "a model inside of a model is not supported: save the whole as one file (mj_saveXML)"},
    {"attach", "attaching a model is not supported: save the whole as one file (mj_saveXML)"},
    {"extension", "plugins of MuJoCo are not supported"},
    {"plugin", "plugins of MuJoCo are not supported"},
};

// ---------------------------------- writing ------------------------------------------------------

// room for one more element in an array; max: how many may be there
static int grow(void **array, int count, int max, size_t size, const char *what) {
  if (count == max) return bfm_fail(BFM_BAD_FILE, "a model may have at most %d %s", max, what);
  if (count & (count - 1)) return BFM_OK;  // grows at powers of two
  void *more = realloc(*array, (count ? 2 * (size_t)count : 1) * size);
  if (!more) return bfm_fail(BFM_NO_MEMORY, "out of memory for a model's XML");
  *array = more;
  return BFM_OK;
}

static int append(FlatText *flat, const char *bytes, size_t size) {
  if (flat->size + size > TEXT_MAX) {
    return bfm_fail(BFM_BAD_FILE, "the model's XML has more than %d MB", TEXT_MAX >> 20);
  }
  if (flat->size + size + 1 > flat->room) {
    size_t room = 2 * (flat->size + size) + 4096;
    char *more = realloc(flat->text, room);
    if (!more) return bfm_fail(BFM_NO_MEMORY, "out of memory for a model's XML");
    flat->text = more;
    flat->room = room;
  }
  memcpy(flat->text + flat->size, bytes, size);
  flat->size += size;
  flat->text[flat->size] = 0;
  for (size_t i = 0; i < size; i++) flat->lines += bytes[i] == '\n';
  return BFM_OK;
}

// from here on, the text comes from this line of this source
static int continue_from(FlatText *flat, int source, int line) {
  TRY(grow((void **)&flat->origins, flat->origin_count, REFS_MAX, sizeof *flat->origins, "pieces"));
  flat->origins[flat->origin_count++] = (Origin){flat->lines, source, line};
  return BFM_OK;
}

void flat_origin(const FlatText *flat, int line, const char **file, int *file_line) {
  int i = flat->origin_count - 1;
  while (i > 0 && flat->origins[i].line > line) i--;
  if (i < 0) {
    *file = "";
    *file_line = line;
    return;
  }
  *file = flat->sources[flat->origins[i].source];
  *file_line = flat->origins[i].source_line + line - flat->origins[i].line;
}

// ---------------------------------- references ---------------------------------------------------

static int fail_at(const FlatText *flat, int source, int line) {
  return bfm_fail_prefix(BFM_BAD_FILE, "%s:%d: ", flat->sources[source], line);
}

int flat_fail(const FlatText *flat, const Ref *ref, const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  bfm_fail(BFM_BAD_FILE, "%s", message);
  return fail_at(flat, ref->source, ref->line);
}

// a name as a path: what XML or a terminal would take for something else is refused
static int check_path(const FlatText *flat, int source, int line, XmlSlice path) {
  for (int i = 0; i < path.length; i++) {
    unsigned char c = (unsigned char)path.at[i];
    if (c >= ' ' && c != 127 && !strchr("&<>\"'|", c)) continue;
    char shown[8];
    snprintf(shown, sizeof shown, c >= ' ' && c != 127 ? "'%c'" : "0x%02x", c);
    bfm_fail(BFM_BAD_FILE, "the name '%.*s' of a file has the character %s, which is not supported",
             path.length < 200 ? path.length : 200, path.at, shown);
    return fail_at(flat, source, line);
  }
  return BFM_OK;
}

// whether MuJoCo reads the file of this tag
static int is_needed(const FlatText *flat, const XmlReader *r) {
  const XmlAttribute *builtin = xml_attribute(r, "builtin");
  if (builtin && !xml_is(builtin->value, "none")) return 0;
  for (int i = 0; flat->is_urdf && i < r->depth; i++) {
    if (xml_is(r->open[i], "visual")) return 0;
  }
  return 1;
}

// the row for this attribute of this element, or -1
static int reference_row(XmlSlice element, XmlSlice attribute) {
  for (int k = 0; k < COUNT(references); k++) {
    if (xml_is(element, references[k].element) && xml_is(attribute, references[k].attribute)) {
      return k;
    }
  }
  return -1;
}

static int add_references(FlatText *flat, const XmlReader *r, int source) {
  for (int i = 0; i < r->count; i++) {
    const XmlAttribute *a = &r->attributes[i];
    int row = reference_row(r->name, a->name);
    if (row < 0 || !a->value.length) continue;
    TRY(check_path(flat, source, r->line, a->value));
    TRY(grow((void **)&flat->refs, flat->ref_count, REFS_MAX, sizeof *flat->refs, "files"));
    flat->refs[flat->ref_count++] = (Ref){
        .kind = references[row].kind,
        .tag = flat->size,
        .at = flat->size + (size_t)(a->value.at - r->start),
        .length = a->value.length,
        .needed = is_needed(flat, r),
        .source = source,
        .line = r->line,
    };
  }
  const XmlAttribute *strip = xml_is(r->name, "compiler") ? xml_attribute(r, "strippath") : NULL;
  if (strip) flat->strippath = xml_is(strip->value, "true");
  return BFM_OK;
}

// ---------------------------------- limits -------------------------------------------------------

// the product of the numbers of an attribute; 1 without it
static double product(const XmlReader *r, const char *attribute) {
  const XmlAttribute *a = xml_attribute(r, attribute);
  char text[64], *at = text, *end;
  double all = 1;
  if (!a) return 1;
  snprintf(text, sizeof text, "%.*s", a->value.length, a->value.at);
  for (;; at = end) {
    double number = number_read(at, &end);
    if (end == at) break;
    all *= number > 1 ? number : 1;
  }
  static const char units[] = "KMGTPE";
  const char *unit = *at ? strchr(units, *at) : NULL;
  for (const char *u = units; unit && u <= unit; u++) all *= 1024;
  return all;
}

static int check_limits(Flattening *f, const XmlReader *r) {
  if (xml_is(r->name, "replicate")) {
    double repeats = (f->nested ? f->repeats[f->nested - 1] : 1) * product(r, "count");
    if (f->nested == NESTED_MAX || repeats > REPEATS_MAX) {
      return bfm_fail(BFM_BAD_FILE, "the model repeats elements more than %d times", REPEATS_MAX);
    }
    if (!r->empty) f->repeats[f->nested++] = repeats;
  }
  if (xml_is(r->name, "composite") || xml_is(r->name, "flexcomp")) {
    double repeats = (f->nested ? f->repeats[f->nested - 1] : 1) * product(r, "count");
    if (repeats > REPEATS_MAX) {
      return bfm_fail(BFM_BAD_FILE, "the model repeats elements more than %d times", REPEATS_MAX);
    }
  }
  if (xml_is(r->name, "hfield") && product(r, "nrow") * product(r, "ncol") > PIXELS_MAX) {
    return bfm_fail(BFM_BAD_FILE, "a height field has more than %d numbers", PIXELS_MAX);
  }
  if (xml_is(r->name, "texture")) {
    double width = product(r, "width"), height = product(r, "height");
    if (width * fmax(width, height) > PIXELS_MAX) {
      return bfm_fail(BFM_BAD_FILE, "a texture has more than %d pixels", PIXELS_MAX);
    }
  }
  for (int i = 0; i < r->count && xml_is(r->name, "size"); i++) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", r->attributes[i].name.length, r->attributes[i].name.at);
    double size = product(r, name);
    if (size > (strcmp(name, "memory") ? SIZE_MAX_OTHER : 4294967296.0)) {
      return bfm_fail(BFM_BAD_FILE, "the model wants a size '%s' of %.*s, which is too much", name,
                      r->attributes[i].value.length < 64 ? r->attributes[i].value.length : 64,
                      r->attributes[i].value.at);
    }
  }
  return BFM_OK;
}

static int check_element(Flattening *f, const XmlReader *r, int source) {
  const FlatText *flat = f->flat;
  if (flat->is_urdf && r->name.length > 6 && !strncasecmp(r->name.at, "xacro:", 6)) {
    bfm_fail(BFM_BAD_FILE, "this file is made for xacro: run xacro first");
    return fail_at(flat, source, r->line);
  }
  for (int k = 0; k < COUNT(refused) && !flat->is_urdf; k++) {
    if (!xml_is(r->name, refused[k].element)) continue;
    bfm_fail(BFM_BAD_FILE, "%s", refused[k].why);
    return fail_at(flat, source, r->line);
  }
  return check_limits(f, r) ? fail_at(flat, source, r->line) : BFM_OK;
}

// ---------------------------------- files --------------------------------------------------------

static int read_file(Flattening *f, const char *path, const char *bytes, size_t size);

// the file to include: MuJoCo looks beside the model, then beside the file that includes it
static int find_included(Flattening *f, XmlReader *r, int source, char path[PATH_MAX]) {
  const FlatText *flat = f->flat;
  const XmlAttribute *file = xml_attribute(r, "file");
  if (!f->on_disk)
    return bfm_fail(BFM_BAD_FILE, "a model that is inside of a file may not include others");
  if (!file || !file->value.length) return bfm_fail(BFM_BAD_FILE, "<include> has no file");
  TRY(check_path(flat, source, r->line, file->value));

  char name[PATH_MAX];
  snprintf(name, sizeof name, "%.*s", file->value.length, file->value.at);
  TRY(path_beside(path, flat->sources[0], name));
  if (access(path, F_OK)) TRY(path_beside(path, flat->sources[source], name));
  for (int i = 0; i < flat->source_count; i++) {
    if (strcmp(flat->sources[i], path)) continue;
    return bfm_fail(BFM_BAD_FILE, "%s is included a second time, or by itself", name);
  }
  if (f->depth == INCLUDES_MAX) {
    return bfm_fail(BFM_BAD_FILE, "files include each other more than %d deep", INCLUDES_MAX);
  }
  return BFM_OK;
}

static int include(Flattening *f, XmlReader *r, int source) {
  char path[PATH_MAX], *bytes = NULL;
  size_t size;
  int line = r->line;
  int status = find_included(f, r, source, path);
  if (!status) status = input_bytes_within(path, TEXT_MAX, &bytes, &size);
  if (status) return fail_at(f->flat, source, line);

  // line breaks around it, so that each line has one origin
  f->depth++;
  status = append(f->flat, "\n", 1);
  if (!status) status = read_file(f, path, bytes, size);
  if (!status) status = append(f->flat, "\n", 1);
  f->depth--;
  free(bytes);
  if (status) return status;

  // <include …></include> may enclose only space
  if (!r->empty) {
    TRY(xml_next(r));
    if (r->kind == XML_TEXT) TRY(xml_next(r));
    if (r->kind != XML_CLOSE) {
      bfm_fail(BFM_BAD_FILE, "<include> contains something");
      return fail_at(f->flat, source, line);
    }
  }
  return continue_from(f->flat, source, r->at_line);
}

static int read_root(Flattening *f, const XmlReader *r, int source) {
  if (xml_is(r->name, "mujoco")) return BFM_OK;
  if (f->depth) return BFM_OK;  // MuJoCo takes any name there
  f->flat->is_urdf = xml_is(r->name, "robot");
  if (f->flat->is_urdf) return BFM_OK;
  bfm_fail(BFM_BAD_FILE, "this is no model: it begins with <%.*s>, not <mujoco> or <robot>",
           r->name.length, r->name.at);
  return fail_at(f->flat, source, r->line);
}

// copies a file, without the tags of its root element if it is included
static int read_tags(Flattening *f, XmlReader *r, int source) {
  for (;;) {
    TRY(xml_next(r));
    if (r->kind == XML_END) return BFM_OK;
    if (r->kind == XML_EXTRA) {  // keep the lines' numbers
      for (const char *c = r->start; c < r->at; c++) {
        if (*c == '\n') TRY(append(f->flat, "\n", 1));
      }
      continue;
    }
    if (r->kind == XML_CLOSE && xml_is(r->name, "replicate") && f->nested) f->nested--;
    int outermost = r->kind == XML_CLOSE ? !r->depth : r->depth == !r->empty;
    if (r->kind == XML_OPEN) {
      if (outermost) TRY(read_root(f, r, source));
      if (xml_is(r->name, "include") && !f->flat->is_urdf) {
        TRY(include(f, r, source));
        continue;
      }
      TRY(check_element(f, r, source));
    }
    if (outermost && f->depth && r->kind != XML_TEXT) continue;
    if (r->kind == XML_OPEN) TRY(add_references(f->flat, r, source));
    TRY(append(f->flat, r->start, (size_t)(r->at - r->start)));
  }
}

static int read_file(Flattening *f, const char *path, const char *bytes, size_t size) {
  FlatText *flat = f->flat;
  int source = flat->source_count;
  TRY(grow((void **)&flat->sources, source, SOURCES_MAX, sizeof *flat->sources, "included files"));
  if (!(flat->sources[source] = strdup(path))) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  }
  flat->source_count++;
  TRY(continue_from(flat, source, 1));
  if (memchr(bytes, 0, size))
    return bfm_fail(BFM_BAD_FILE, "%s is no XML: it has zero bytes", path);

  XmlReader *r = malloc(sizeof *r);
  if (!r) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  xml_begin(r, path, bytes, size);
  int status = read_tags(f, r, source);
  free(r);
  return status;
}

// visual meshes of a URDF are needed if its compiler keeps them
static void keep_visuals(FlatText *flat) {
  XmlReader *r = malloc(sizeof *r);
  int keep = 0;
  if (!r) return;
  xml_begin(r, "", flat->text, flat->size);
  while (!xml_next(r) && r->kind != XML_END) {
    if (r->kind != XML_OPEN || !xml_is(r->name, "compiler")) continue;
    const XmlAttribute *discard = xml_attribute(r, "discardvisual");
    if (discard) keep = xml_is(discard->value, "false");
  }
  free(r);
  for (int i = 0; keep && i < flat->ref_count; i++) flat->refs[i].needed = 1;
}

int flat_read(FlatText *flat, const char *path, const char *bytes, size_t size) {
  *flat = (FlatText){.lines = 1};
  Flattening f = {.flat = flat, .on_disk = !bytes};
  char *own = NULL, whole[PATH_MAX];
  if (!bytes) {
    TRY(path_clean(whole, path));
    TRY(input_bytes_within(path, TEXT_MAX, &own, &size));
    path = whole;
    bytes = own;
  }
  int status = read_file(&f, path, bytes, size);
  free(own);
  if (!status && flat->is_urdf) keep_visuals(flat);
  return status;
}

void flat_free(FlatText *flat) {
  for (int i = 0; i < flat->source_count; i++) free(flat->sources[i]);
  free(flat->sources);
  free(flat->refs);
  free(flat->origins);
  free(flat->text);
  *flat = (FlatText){0};
}
