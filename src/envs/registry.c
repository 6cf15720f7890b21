// Robots of the user's own. A robot is registered with a canonical bundle, in which all defaults are
// written out: a later version of bfm, with other defaults, reads the same robot out of an old model.

#include "envs/registry.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/paths.h"
#include "envs/robot_bundle.h"
#include "envs/robot_write.h"

enum { STEM = 40 };  // characters of a robot's name before its hash

typedef struct Entry {
  char name[ROBOT_NAME];
  char *path;       // where it was read from; NULL: unknown
  uint64_t source;  // the hash of the files there
  char *origin;     // both as text, see registry_origin
  Bundle *bundle;
  Robot *robot;  // NULL: nobody has asked for the domain yet
  Domain domain;
  struct Entry *next;
} Entry;

static Entry *entries;  // under domain.c's lock, as compiling is

// ---------------------------------- names --------------------------------------------------------

int registry_is_name(const char *name) { return strchr(name, '#') != NULL; }

// "my_robot#1f0c97e2" of "files/my robot.xml"
static void name_robot(char name[ROBOT_NAME], const char *path, const Bundle *bundle) {
  const char *base = path_base(path);
  const char *dot = strrchr(base, '.');
  int length = dot ? (int)(dot - base) : (int)strlen(base);
  if (length > STEM) length = STEM;
  uint64_t hash = bundle_hash(bundle);
  snprintf(name, ROBOT_NAME, "%.*s#%08" PRIx32, length, base, (uint32_t)(hash ^ hash >> 32));
  for (char *c = name; c < name + length; c++) {
    if (!isalnum((unsigned char)*c) && !strchr("_.-", *c)) *c = '_';
  }
}

// ---------------------------------- origins ------------------------------------------------------

// a path that means the same to whoever gets the file in the same folder
static int is_portable(const char *path) {
  char inside[PATH_MAX];
  return !path_inside(inside, path) && !strcmp(inside, path);
}

static int set_origin(Entry *e, const char *path, uint64_t source) {
  char text[PATH_MAX + 24];
  if (e->path) return BFM_OK;
  snprintf(text, sizeof text, "%s %016" PRIx64, path, source);
  e->source = source;
  e->path = strdup(path);
  e->origin = strdup(is_portable(path) ? text : "");
  return e->path && e->origin ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
}

// reads registry_origin's text out of a file, which may contain anything
static int read_origin(Entry *e, const char *text) {
  const char *space = text ? strrchr(text, ' ') : NULL;
  char path[PATH_MAX], *end;
  if (!space || space - text >= PATH_MAX) return BFM_OK;
  uint64_t source = strtoull(space + 1, &end, 16);
  snprintf(path, sizeof path, "%.*s", (int)(space - text), text);
  return source && !*end && is_portable(path) ? set_origin(e, path, source) : BFM_OK;
}

// ---------------------------------- the list -----------------------------------------------------

static Entry *entry_named(const char *name) {
  Entry *e = entries;
  while (e && strcmp(e->name, name)) e = e->next;
  return e;
}

static Entry *entry_of_source(uint64_t source, const char *path) {
  Entry *e = entries;
  while (e && (e->source != source || !e->path || strcmp(e->path, path))) e = e->next;
  return e;
}

static void entry_free(Entry *e) {
  if (!e) return;
  if (e->robot) robot_free(e->robot);
  bundle_free(e->bundle);
  free(e->origin);
  free(e->path);
  free(e);
}

static int same_files(const Bundle *a, const Bundle *b) {
  const BundleFile *x, *y;
  for (int i = 0;; i++) {
    x = bundle_file(a, i), y = bundle_file(b, i);
    if (!x || !y) return x == y;
    if (strcmp(x->name, y->name) || x->size != y->size) return 0;
    if (memcmp(x->bytes, y->bytes, x->size)) return 0;
  }
}

// adds an entry to the list, or frees it and returns the one with its name, whose files are the same
static int keep(Entry **e) {
  Entry *old = entry_named((*e)->name);
  if (!old) {
    (*e)->next = entries;
    entries = *e;
    return BFM_OK;
  }
  int same = same_files(old->bundle, (*e)->bundle);
  entry_free(*e);
  *e = old;
  if (same) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "two different robots are called %s: rename the file of one of them", old->name);
}

// ---------------------------------- a robot with its domain --------------------------------------

// the model is kept, so that its first user does not compile it again
static int make_domain(Entry *e, Robot *robot, mjModel *model) {
  e->robot = robot;
  robot_domain(&e->domain, e->name, robot);
  e->domain.bundle = e->bundle;
  return world_keep(&e->domain, model);
}

// a robot out of a dataset or model is compiled now
static int complete(Entry *e) {
  Robot *robot;
  mjModel *model;
  const BundleFile *description = bundle_description(e->bundle);
  const char *file = description ? description->name : bundle_model(e->bundle)->name;
  int status = robot_load(&robot, &model, e->bundle, file);
  return status ? bfm_fail_prefix(status, "the robot %s: ", e->name) : make_domain(e, robot, model);
}

int registry_find(const Domain **domain, const char *name) {
  worlds_lock();
  Entry *e = entry_named(name);
  int status = BFM_OK;
  if (!e) {
    status =
        bfm_fail(BFM_BAD_ARGUMENT,
                 "the robot %s is not known here: give the path of its .xml, .urdf or .yaml", name);
  } else if (!e->robot) {
    status = complete(e);
  }
  worlds_unlock();
  *domain = status ? NULL : &e->domain;
  return status;
}

// ---------------------------------- from the disk ------------------------------------------------

// the description under which a robot without one gets its own, "my_robot.yaml"
static void description_name(char *out, size_t size, const Bundle *bundle) {
  const BundleFile *description = bundle_description(bundle);
  const char *name = description ? description->name : path_base(bundle_model(bundle)->name);
  const char *dot = description ? NULL : strrchr(name, '.');
  snprintf(out, size, "%.*s%s", dot ? (int)(dot - name) : (int)strlen(name), name,
           description ? "" : ".yaml");
}

// writes all defaults into the bundle's description
static int make_canonical(Bundle *bundle, const Robot *robot, const mjModel *model) {
  char *yaml, name[BUNDLE_NAME + 8];
  description_name(name, sizeof name, bundle);
  TRY(robot_write(robot, model, bundle_model(bundle)->name, 0, &yaml));
  int status = bundle_put(bundle, name, yaml, strlen(yaml));
  free(yaml);
  return status;
}

// Registers a compiled robot under the name of its contents, or returns the entry that has it already.
// Takes all arguments but the path.
static int register_robot(Entry **out, Bundle *bundle, Robot *robot, mjModel *model,
                          const char *path) {
  Entry *e = *out = calloc(1, sizeof *e);
  int status = e ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  uint64_t source = bundle_hash(bundle);
  if (e) e->bundle = bundle;
  else bundle_free(bundle);
  if (!status) status = make_canonical(bundle, robot, model);
  if (!status) {
    name_robot(e->name, path, bundle);
    status = keep(out);
    if (!status) status = set_origin(*out, path, source);
    if (!status && !(*out)->robot) return make_domain(*out, robot, model);
  } else {
    entry_free(e);
  }
  robot_free(robot);
  mj_deleteModel(model);
  return status;
}

// the robot of the files at a path; takes the bundle
static int find_files(Entry **out, Bundle *bundle, const char *path) {
  Robot *robot;
  mjModel *model;
  *out = entry_of_source(bundle_hash(bundle), path);
  int status = *out ? BFM_OK : robot_load(&robot, &model, bundle, path);
  if (*out || status) {
    bundle_free(bundle);
    return !status && !(*out)->robot ? complete(*out) : status;
  }
  return register_robot(out, bundle, robot, model, path);
}

int registry_read(const Domain **domain, const char *path) {
  Bundle *bundle;
  Entry *e;
  *domain = NULL;
  TRY(robot_gather(&bundle, path));
  worlds_lock();
  int status = find_files(&e, bundle, path);
  worlds_unlock();
  if (!status) *domain = &e->domain;
  return status;
}

int registry_has_changed(const char *name, const char **path) {
  Bundle *bundle;
  worlds_lock();
  const Entry *e = entry_named(name);
  worlds_unlock();
  if (!e || !e->path || robot_gather(&bundle, e->path)) return 0;
  int changed = bundle_hash(bundle) != e->source;
  bundle_free(bundle);
  *path = e->path;
  return changed;
}

// ---------------------------------- in datasets and models ---------------------------------------

static int check_carried(Entry *e, const char *name) {
  char own[ROBOT_NAME];
  if (!bundle_model(e->bundle) || !bundle_description(e->bundle)) {
    return bfm_fail(BFM_BAD_FILE, "the files of the robot %.64s lack its %s", name,
                    bundle_model(e->bundle) ? "description" : "model");
  }
  snprintf(own, sizeof own, "%.*s.", (int)strcspn(name, "#"), name);
  name_robot(e->name, own, e->bundle);
  if (!strcmp(e->name, name)) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "the files of the robot %.64s are not its own: they are those of %s", name,
                  e->name);
}

int registry_add(Bundle *bundle, const char *name, const char *origin) {
  Entry *e = calloc(1, sizeof *e);
  if (!e) {
    bundle_free(bundle);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a robot's files");
  }
  e->bundle = bundle;
  int status = check_carried(e, name);
  if (!status) status = read_origin(e, origin);
  if (status) {
    entry_free(e);
    return status;
  }
  worlds_lock();
  status = keep(&e);
  worlds_unlock();
  return status;
}

const Bundle *registry_files(const char *name) {
  worlds_lock();
  const Entry *e = entry_named(name);
  worlds_unlock();
  return e ? e->bundle : NULL;
}

const char *registry_origin(const char *name) {
  worlds_lock();
  const Entry *e = entry_named(name);
  worlds_unlock();
  return e && e->origin ? e->origin : "";
}
