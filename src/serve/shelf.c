// Searching paths for models and runs.

#define _GNU_SOURCE  // versionsort
#include "serve/shelf.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config.h"
#include "core/files.h"
#include "data/safetensors.h"
#include "envs/domain.h"
#include "nets/checkpoint.h"

#define SUFFIX ".safetensors"

// ---------------------------------- one file -----------------------------------------------------

static int check_kind(const SafeTensors *file, const char *path) {
  const char *kind = safetensors_metadata(file, "bfm");
  if (kind && !strcmp(kind, "model")) return BFM_OK;
  if (kind && !strcmp(kind, "state")) {
    return bfm_fail(BFM_BAD_FILE, "%s is the training state of a run: name its folder", path);
  }
  if (kind && !strcmp(kind, "policy")) {
    return bfm_fail(BFM_BAD_FILE, "%s is the policy of a single task, which takes no prompt", path);
  }
  return bfm_fail(BFM_BAD_FILE, "%s is not a model of bfm", path);
}

static int read_facts(ModelFacts *facts, const SafeTensors *file, const char *path) {
  const Domain *domain;
  Config config;
  int64_t obs_dim;
  TRY(check_kind(file, path));
  const char *env = safetensors_metadata(file, "env");
  if (!env || !*env) {
    return bfm_fail(BFM_BAD_FILE, "%s does not name its robot: train it with --env", path);
  }
  if (domain_find(&domain, env)) return bfm_fail_prefix(BFM_BAD_FILE, "%s: ", path);
  if (checkpoint_count(file, "obs_dim", 1, OBS_MAX, &obs_dim) ||
      checkpoint_count(file, "step", 0, INT64_MAX, &facts->step) ||
      checkpoint_config(file, agent_options, &config, NULL)) {
    return bfm_fail_prefix(BFM_BAD_FILE, "%s: ", path);
  }
  TRY(domain_check_obs(env, obs_dim, path));
  if (obs_dim != domain->obs_dim) {
    return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " observations, but %s has %d", path, obs_dim,
                    env, domain->obs_dim);
  }
  snprintf(facts->env, sizeof facts->env, "%s", env);
  char algo[OPTION_TEXT_SIZE];
  options_get(options_find(agent_options, "algo"), &config, algo, sizeof algo);
  snprintf(facts->algo, sizeof facts->algo, "%.60s", algo);
  return BFM_OK;
}

int shelf_facts(ModelFacts *facts, const char *path) {
  SafeTensors *file;
  TRY(checkpoint_open(&file, path));
  int status = read_facts(facts, file, path);
  safetensors_close(file);
  return status;
}

// ---------------------------------- folders ------------------------------------------------------

static int join(char out[PATH_MAX], const char *folder, const char *name) {
  size_t length = strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  int n = snprintf(out, PATH_MAX, "%.*s/%s", (int)length, folder, name);
  if (n < PATH_MAX) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "the path of %.64s in %.64s… is too long", name, folder);
}

static int is_run(const char *folder) {
  char path[PATH_MAX];
  return !join(path, folder, "run.json") && !access(path, F_OK);
}

static int is_candidate(const struct dirent *entry) { return entry->d_name[0] != '.'; }

// the name without suffix, or NULL if it has another
static char *stem_of(const char *name) {
  size_t length = strlen(name), suffix = strlen(SUFFIX);
  if (length <= suffix || strcmp(name + length - suffix, SUFFIX)) return NULL;
  return strndup(name, length - suffix);
}

// call `each` for the names in a folder, in their order
static int for_names(const char *folder,
                     int (*each)(const char *folder, const char *name, const ShelfReader *reader),
                     const ShelfReader *reader) {
  struct dirent **names;
  int count = scandir(folder, &names, is_candidate, versionsort), status = BFM_OK;
  if (count < 0) return bfm_fail(BFM_IO, "cannot read %s: %s", folder, strerror(errno));
  for (int i = 0; i < count; i++) {
    if (!status) status = each(folder, names[i]->d_name, reader);
    free(names[i]);
  }
  free(names);
  return status;
}

static int take_any(const char *folder, const char *name, const ShelfReader *reader) {
  char path[PATH_MAX], *stem = stem_of(name);
  ModelFacts facts;
  int status = join(path, folder, name);
  if (!status && stem) {
    if (!shelf_facts(&facts, path)) status = reader->model(reader->context, path, stem);
  } else if (!status && path_is_folder(path) && is_run(path)) {
    status = reader->run(reader->context, path, name);
  }
  free(stem);
  return status;
}

// whether the stem is `kind`, or `kind` with the number of a seed
static int is_kind(const char *stem, const char *kind) {
  size_t length = strlen(kind);
  if (strncmp(stem, kind, length)) return 0;
  const char *seed = stem + length;
  return !*seed || (*seed == '.' && isdigit((unsigned char)seed[1]) &&
                    !seed[1 + strspn(seed + 1, "0123456789")]);
}

static int take_kind(const char *folder, const char *name, const ShelfReader *reader,
                     const char *kind) {
  char path[PATH_MAX], *stem = stem_of(name);
  int status = BFM_OK;
  if (stem && is_kind(stem, kind)) {
    status = join(path, folder, name);
    if (!status) status = reader->model(reader->context, path, stem);
  }
  free(stem);
  return status;
}

static int take_newest(const char *folder, const char *name, const ShelfReader *reader) {
  return take_kind(folder, name, reader, "model");
}

static int take_best(const char *folder, const char *name, const ShelfReader *reader) {
  return take_kind(folder, name, reader, "best");
}

int shelf_search_run(const char *folder, const ShelfReader *reader) {
  TRY(for_names(folder, take_newest, reader));
  return for_names(folder, take_best, reader);
}

// the last part of a path, also of "." and "runs/walker/"
static int last_name(const char *path, char out[PATH_MAX]) {
  char *whole = realpath(path, NULL);
  if (!whole) return bfm_fail(BFM_IO, "cannot open %s: %s", path, strerror(errno));
  snprintf(out, PATH_MAX, "%s", strrchr(whole, '/') + 1);
  free(whole);
  return BFM_OK;
}

// ---------------------------------- a path of the command line -----------------------------------

typedef struct {
  const ShelfReader *reader;
  int count;
} Found;

static int count_model(void *context, const char *path, const char *name) {
  Found *found = context;
  found->count++;
  return found->reader->model(found->reader->context, path, name);
}

static int count_run(void *context, const char *path, const char *name) {
  Found *found = context;
  found->count++;
  return found->reader->run(found->reader->context, path, name);
}

static int search_folder(const char *path, const ShelfReader *reader) {
  Found found = {reader, 0};
  const ShelfReader counting = {&found, count_model, count_run};
  TRY(for_names(path, take_any, &counting));
  if (found.count) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "%s has neither models nor runs: name a model, a folder or a run",
                  path);
}

int shelf_search(const char *path, const ShelfReader *reader) {
  char name[PATH_MAX];
  ModelFacts facts;
  if (path_is_folder(path)) {
    if (!is_run(path)) return search_folder(path, reader);
    TRY(last_name(path, name));
    return reader->run(reader->context, path, name);
  }
  TRY(shelf_facts(&facts, path));
  const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
  char *stem = stem_of(file);
  int status = reader->model(reader->context, path, stem ? stem : file);
  free(stem);
  return status;
}

static int find_default(char out[PATH_MAX]) {
  char program[PATH_MAX], beside[PATH_MAX];
  if (path_is_folder("models")) return snprintf(out, PATH_MAX, "models"), BFM_OK;
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  program[length > 0 ? length : 0] = 0;
  char *slash = strrchr(program, '/');
  if (slash) {
    *slash = 0;
    if (!join(beside, program, "../models") && realpath(beside, out)) return BFM_OK;
    if (!join(beside, program, "../share/bfm/models") && realpath(beside, out)) return BFM_OK;
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "there is no folder models here: name a model, a folder or a run");
}

int shelf_default(char folder[PATH_MAX], char first[PATH_MAX]) {
  TRY(find_default(folder));
  TRY(join(first, folder, "walker" SUFFIX));
  if (access(first, F_OK)) *first = 0;
  return BFM_OK;
}

void shelf_label(const char *name, char out[LABEL_SIZE]) {
  int n = 0;
  for (; *name && n < LABEL_SIZE - 8; name++) {  // a number may have to follow
    int plain =
        isascii((unsigned char)*name) && (isalnum((unsigned char)*name) || strchr("._-", *name));
    // of a character of several bytes one dash remains
    if (plain) out[n++] = *name;
    else if (((unsigned char)*name & 0xc0) != 0x80) out[n++] = '-';
  }
  out[n] = 0;
  if (!n) snprintf(out, LABEL_SIZE, "model");
}
