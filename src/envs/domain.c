// The table of domains, and finding, parsing, editing and compiling a domain's model. The text files of
// the built-in robots are in the library itself.

#define _GNU_SOURCE

#include "envs/domain.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/suggest.h"
#include "envs/quantities.h"
#include "envs/registry.h"
#include "envs/robot_bundle.h"
#include "envs/robot_world.h"

#define PATH_SIZE (PATH_MAX + 64)  // of the path of a model's file

#define DRAWS_MAX 1000  // attempts to draw one initial state

// ---------------------------------- the table ----------------------------------------------------

// the text files of robots, which the assembler copies into the library
#define EMBED(name)                                                       \
  __asm__(                                                                \
      ".pushsection .rodata\n"                                            \
      "robot_" #name ": .incbin \"robots/" #name                          \
      ".yaml\"\n"                                                         \
      "robot_" #name                                                      \
      "_end: .byte 0\n"                                                   \
      ".popsection\n");                                                   \
  extern const char robot_##name[] __attribute__((visibility("hidden"))); \
  extern const char robot_##name##_end[] __attribute__((visibility("hidden")));
EMBED(walker)
EMBED(cheetah)
EMBED(quadruped)
EMBED(humanoid)
EMBED(point_mass)
EMBED(fish)
EMBED(finger)
EMBED(acrobot)
EMBED(dmc_hopper)
EMBED(halfcheetah)
EMBED(hopper)
EMBED(walker2d)
EMBED(ant)
EMBED(hand)

#define ROBOT(name) {#name, "robots/" #name ".yaml", robot_##name, robot_##name##_end, NULL}
static const struct {
  const char *name, *file, *yaml, *end;
  const Domain *domain;  // NULL: the text describes it
} builtin[] = {
    ROBOT(walker),
    ROBOT(cheetah),
    ROBOT(quadruped),
    ROBOT(humanoid),
    {.domain = &jaco_domain},
    ROBOT(point_mass),
    ROBOT(fish),
    ROBOT(finger),
    ROBOT(acrobot),
    ROBOT(dmc_hopper),
    ROBOT(halfcheetah),
    ROBOT(hopper),
    ROBOT(walker2d),
    ROBOT(ant),
    {.domain = &kitchen_domain},
    ROBOT(hand),
};
#define DOMAIN_COUNT ((int)(sizeof builtin / sizeof builtin[0]))

static Domain domains[DOMAIN_COUNT];

// Reads all text files, once, which takes a millisecond. That cannot fail but for memory: a test
// reads them all.
static void read_robots(void) {
  for (int i = 0; i < DOMAIN_COUNT; i++) {
    Robot *robot;
    if (builtin[i].domain) {
      domains[i] = *builtin[i].domain;
    } else if (!robot_parse(&robot, builtin[i].file, builtin[i].yaml,
                            (size_t)(builtin[i].end - builtin[i].yaml))) {
      robot_domain(domains + i, builtin[i].name, robot);
    }
  }
}

const Domain *domain_at(int i) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_robots);
  return i >= 0 && i < DOMAIN_COUNT && domains[i].name ? domains + i : NULL;
}

static const Domain *row_named(const char *name) {
  const Domain *domain;
  for (int i = 0; (domain = domain_at(i)); i++) {
    if (!strcmp(domain->name, name)) return domain;
  }
  return NULL;
}

int domain_find(const Domain **domain, const char *name) {
  if (!name) return bfm_fail(BFM_BAD_ARGUMENT, "the domain has no name");
  *domain = row_named(name);
  if (*domain) return BFM_OK;
  if (robot_is_path(name)) return registry_read(domain, name);
  if (registry_is_name(name)) return registry_find(domain, name);
  Suggestion nearest = {.word = name};
  for (int i = 0; domain_at(i); i++) suggest_try(&nearest, domain_at(i)->name);
  if (nearest.best) {
    return bfm_fail(BFM_BAD_ARGUMENT, "unknown domain '%s'; did you mean '%s'?", name,
                    nearest.best);
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "unknown domain '%s': name one that bfm tasks lists, or the .xml, .urdf or .yaml "
                  "of a robot",
                  name);
}

int domain_check_obs(const char *name, int64_t obs_dim, const char *path) {
  const Domain *domain = name ? row_named(name) : NULL;
  if (!domain || !domain->old_obs_dim || obs_dim != domain->old_obs_dim) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "%s has %d observations: %s %s and has %d now; collect and train again", path,
                  domain->old_obs_dim, name, domain->old_obs, domain->obs_dim);
}

ObsPart world_part(const World *world, int i) {
  const Robot *robot = world->domain->robot;
  if (!robot) return i < OBS_PARTS ? world->domain->observed[i] : (ObsPart){0};
  if (i >= robot->observed_count) return (ObsPart){0};
  return (ObsPart){robot->observed[i].name.text, observer_count(world->robot->observer, i)};
}

static int part_columns(const World *world, const char *word, char *out, size_t size) {
  Suggestion nearest = {.word = word};
  ObsPart part;
  int first = 0;
  for (int i = 0; (part = world_part(world, i)).name; first += part.count, i++) {
    if (strcmp(part.name, word)) {
      suggest_try(&nearest, part.name);
      continue;
    }
    snprintf(out, size, "%d:%d", first, first + part.count);
    return BFM_OK;
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "%s has no observation called '%s'%s", world->domain->name,
                  word, suggest_say(&nearest, ""));
}

// a robot's parts have their sizes from its model
static int find_part(const Domain *domain, char *word, size_t size) {
  const World *world;
  char name[64];
  snprintf(name, sizeof name, "%s", word);
  TRY(world_acquire(&world, domain));
  int status = part_columns(world, name, word, size);
  world_release(world);
  return status;
}

int domain_columns(const Domain *domain, const char *text, char *out, size_t size) {
  char word[64];
  size_t used = 0;
  *out = 0;
  while (*text) {
    text += strspn(text, " ");
    size_t n = strcspn(text, ", ");
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    if (n && !strchr("0123456789", *word)) TRY(find_part(domain, word, sizeof word));
    used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "", word);
    if (used >= size || n >= sizeof word) {
      return bfm_fail(BFM_BAD_ARGUMENT, "a list of columns is too long: %.64s…", text);
    }
    text += n + strspn(text + n, " ");
    text += *text == ',';
  }
  return BFM_OK;
}

// ---------------------------------- finding models -----------------------------------------------

// The folder of the library that contains this code, or of the program. dladdr does not know the
// folder of a program that was started by its bare name.
static int own_folder(char *out, int of_program) {
  Dl_info info;
  if (of_program) {
    ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (length < 0) return 0;
    out[length] = 0;
  } else if (!dladdr((void *)domain_find, &info) || !strchr(info.dli_fname, '/') ||
             !realpath(info.dli_fname, out)) {
    return 0;
  }
  *strrchr(out, '/') = 0;
  return 1;
}

// path of a model's file: in $BFM_MODELS, or near the library in a checkout, in a bundle or installed
static int find_model(char *out, size_t size, const char *file) {
  static const char *const places[] = {"../.deps/models", "../models", "models",
                                       "../share/bfm/robots", "../../share/bfm/robots"};

  const char *chosen = getenv("BFM_MODELS");
  if (chosen && *chosen) {
    snprintf(out, size, "%s/%s", chosen, file);
    if (!access(out, R_OK)) return BFM_OK;
    return bfm_fail(BFM_UNAVAILABLE, "there is no model %s: check BFM_MODELS, the folder of models",
                    out);
  }

  char folder[PATH_MAX];
  for (int of_program = 0; of_program < 2; of_program++) {
    if (!own_folder(folder, of_program)) continue;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
      snprintf(out, size, "%s/%s/%s", folder, places[i], file);
      if (!access(out, R_OK)) return BFM_OK;
    }
  }
  snprintf(out, size, ".deps/models/%s", file);
  if (!access(out, R_OK)) return BFM_OK;
  return bfm_fail(BFM_UNAVAILABLE, "cannot find the model %s: run make deps, or set BFM_MODELS",
                  file);
}

// ---------------------------------- loading ------------------------------------------------------

// By default MuJoCo prints warnings and writes them to a file in the working directory, which a
// library must not do. bfm counts divergences per environment instead.
static void silence(void) {
  mjLogConfig config = mju_getLogConfig();
  config.logto_console = 0;
  config.logto_file = 0;
  mju_setLogConfig(config);
}

static int compile(World *world) {
  const Domain *domain = world->domain;
  const char *path = world->path;
  if (domain->bundle) return robot_compile(&world->model, domain->bundle, domain->robot);
  char error[512] = "";
  char folder[PATH_SIZE];
  snprintf(folder, sizeof folder, "%s", path);
  *strrchr(folder, '/') = 0;

  mjSpec *spec = mj_parseXML(path, NULL, error, sizeof error);
  if (!spec) return bfm_fail(BFM_BAD_FILE, "%s: %s", path, error);

  int status = domain->edit ? domain->edit(spec, folder) : BFM_OK;
  if (domain->robot) status = robot_edit(domain->robot, spec);
  if (!status) {
    world->model = mj_compile(spec, NULL);
    if (!world->model) status = bfm_fail(BFM_BAD_FILE, "%s: %s", path, mjs_getError(spec));
  }
  mj_deleteSpec(spec);
  return status;
}

static int resolve(World *world) {
  for (int i = 0; i < DOMAIN_NAMES && world->domain->names[i].name; i++) {
    ModelName name = world->domain->names[i];
    world->ids[i] = mj_name2id(world->model, name.type, name.name);
    if (world->ids[i] < 0) {
      return bfm_fail(BFM_BAD_FILE, "the model of %s has no '%s'", world->domain->name, name.name);
    }
  }
  return BFM_OK;
}

static int load(World *world) {
  if (!world->model) TRY(compile(world));
  TRY(resolve(world));
  if (world->domain->robot) TRY(robot_world_new(world));
  if (world->domain->obs_dim > OBS_MAX || world->model->nu > CTRL_MAX) {
    return bfm_fail(BFM_BAD_FILE, "%s has %d observations and %d controls, which is too many",
                    world->domain->name, world->domain->obs_dim, (int)world->model->nu);
  }
  world->resting = mj_copyModel(NULL, world->model);
  if (!world->resting) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", world->domain->name);
  world->resting->opt.disableflags |= mjDSBL_ACTUATION;
  return world->domain->bundle ? robot_check_starts(world) : BFM_OK;
}

static void world_free(World *world) {
  robot_world_free(world->robot);
  if (world->resting) mj_deleteModel(world->resting);
  if (world->model) mj_deleteModel(world->model);
  free(world->path);
  free(world);
}

// model: of the domain, which the world takes; NULL: it is compiled
static int world_new(World **out, const Domain *domain, const char *path, mjModel *model) {
  World *world = *out = calloc(1, sizeof *world);
  if (!world) {
    if (model) mj_deleteModel(model);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", domain->name);
  }
  world->domain = domain;
  world->model = model;
  world->path = strdup(path);
  int status = world->path ? load(world) : bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  if (status) world_free(world);
  return status;
}

// ---------------------------------- sharing ------------------------------------------------------

// Compiling a model takes up to 0.1 s and 57 MB, so all users of a domain share one. A world without
// users stays until another one has to be compiled. The lock also limits MuJoCo's compiler, which
// does not promise to be thread-safe, to one thread at a time.
static World *worlds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take_lock(void) { pthread_mutex_lock(&lock); }

void worlds_unlock(void) { pthread_mutex_unlock(&lock); }

// makes sure that a child of fork() finds the list intact and the lock free
static void start_sharing(void) {
  silence();
  pthread_atfork(take_lock, worlds_unlock, worlds_unlock);
}

void worlds_lock(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_sharing);
  take_lock();
}

static void free_unused(void) {
  for (World **at = &worlds; *at;) {
    World *world = *at;
    if (world->users) {
      at = &world->next;
      continue;
    }
    *at = world->next;
    world_free(world);
  }
}

static int add_world(World **out, const Domain *domain, const char *path, mjModel *model) {
  free_unused();
  TRY(world_new(out, domain, path, model));
  (*out)->next = worlds;
  worlds = *out;
  return BFM_OK;
}

int world_keep(const Domain *domain, mjModel *model) {
  World *world;
  return add_world(&world, domain, "", model);
}

static int find_or_compile(World **out, const Domain *domain, const char *path) {
  for (World *w = *out = worlds; w; w = *out = w->next) {
    if (w->domain == domain && !strcmp(w->path, path)) return BFM_OK;
  }
  return add_world(out, domain, path, NULL);
}

int world_acquire(const World **out, const Domain *domain) {
  char path[PATH_SIZE] = "";
  World *world;
  *out = NULL;
  if (!domain->bundle) TRY(find_model(path, sizeof path, domain->file));
  worlds_lock();
  int status = find_or_compile(&world, domain, path);
  if (!status) {
    world->users++;
    *out = world;
  }
  worlds_unlock();
  return status;
}

void world_release(const World *world) {
  if (!world) return;
  worlds_lock();
  ((World *)world)->users--;
  worlds_unlock();
}

void world_update(const World *world, mjData *data) {
  const mjModel *model = world->model;
  if (world->needs & NEEDS_ALL_POS) {
    mj_fwdPosition(model, data);
  } else {
    mj_kinematics(model, data);
    mj_comPos(model, data);
  }
  mj_sensorPos(model, data);
  if (world->needs & NEEDS_ALL_VEL) mj_fwdVelocity(model, data);
  else mj_comVel(model, data);
  data->flg_subtreevel = 0;
  mj_sensorVel(model, data);
}

void world_step(const World *world, mjData *data, int substeps) {
  const mjModel *model = world->model;
  int first = 0;

  // with RK4, mj_step1 and mj_step2 do not work
  if (model->opt.integrator != mjINT_RK4) {
    mj_step2(model, data);
    first = 1;
  }
  for (int i = first; i < substeps; i++) mj_step(model, data);
  mj_step1(model, data);
}

// ---------------------------------- shared by domains --------------------------------------------

// a rotation by at most `limit` about any axis, or with limit 0 any rotation
static void draw_ball(double limit, double *quat, Draws *draw) {
  double axis[4];
  for (int i = 0; i < (limit > 0 ? 3 : 4); i++) axis[i] = draw_normal(draw);
  if (limit > 0) {
    mju_normalize3(axis);
    mju_axisAngle2Quat(quat, axis, draw_uniform(draw, 0, limit));
  } else {
    mju_copy4(quat, axis);
    mju_normalize4(quat);
  }
}

void draw_joints(const World *world, mjData *data, Draws *draw) {
  const mjModel *model = world->model;
  for (int j = 0; j < model->njnt; j++) {
    double *qpos = data->qpos + model->jnt_qposadr[j];
    const double *range = model->jnt_range + 2 * j;
    int type = model->jnt_type[j];

    if (type == mjJNT_BALL) {
      draw_ball(model->jnt_limited[j] ? range[1] : 0, qpos, draw);
    } else if (type == mjJNT_HINGE || type == mjJNT_SLIDE) {
      if (model->jnt_limited[j]) {
        *qpos = draw_uniform(draw, range[0], range[1]);
      } else if (type == mjJNT_HINGE) {
        *qpos = draw_uniform(draw, -mjPI, mjPI);
      }
    } else if (type == mjJNT_FREE) {
      // uniform in the positive orthant, as in dm_control
      for (int i = 3; i < 7; i++) qpos[i] = draw_uniform(draw, 0, 1);
      mju_normalize4(qpos + 3);
    }
  }
}

void draw_again(int *rejected) {
  if (++*rejected == DRAWS_MAX) {
    mju_error("no initial state without a collision in %d draws", DRAWS_MAX);
  }
}
