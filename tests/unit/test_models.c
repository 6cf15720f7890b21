// The playground's table of models: what is served and what is refused, labels, references to models
// that are replaced while they are used, and files that vanish or break later.

#define _GNU_SOURCE  // nftw

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/files.h"
#include "data/safetensors.h"
#include "serve/models.h"

#define TINY                                                                             \
  "\"d\": 4, \"blocks\": 2, \"batch\": 8, \"hidden\": 8, \"feat\": 4, \"b-hidden\": 8, " \
  "\"z_pool\": 4, \"device\": \"cpu\", \"threads\": 1, \"prompt-states\": 50, \"log-every\": 4"

static char folder[64], data[96];
static const char *const files[] = {data};

static void good(int status) {
  if (status) fail_msg("%s", bfm_error());
}

// a path in the folder; sixteen results are valid at a time
static const char *at(const char *name) {
  static char paths[16][160];
  static int next;
  char *path = paths[next++ % 16];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void train(const char *name, const char *options) {
  bfm_training run = {.size = sizeof run, .data = files, .data_count = 1, .output = at(name),
                      .options = options};
  good(bfm_train(&run));
}

// copies a file as bfm writes one: renamed into place
static void place(const char *from, const char *to) {
  char *bytes;
  size_t size;
  OutputFile file;
  good(input_bytes(at(from), &bytes, &size));
  good(output_open(&file, at(to)));
  good(output_write(&file, bytes, size));
  good(output_commit(&file));
  free(bytes);
}

static void put_text(const char *name, const char *text) {
  FILE *file = fopen(at(name), "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static Models *open_models(const char *const *paths, int count) {
  Models *models;
  good(models_new(&models, paths, count, "cpu", 1));
  return models;
}

// ------------------------------- what is served --------------------------------------------------

static void refused(const char *path, const char *why) {
  Models *models;
  assert_int_not_equal(models_new(&models, &path, 1, "cpu", 1), BFM_OK);
  assert_null(models);
  if (!strstr(bfm_error(), why)) fail_msg("\"%s\" does not say \"%s\"", bfm_error(), why);
  if (!strstr(bfm_error(), path)) fail_msg("\"%s\" does not name %s", bfm_error(), path);
}

// a file with the metadata of a model and one number
static const char *write_model(const char *name, const char *env, const char *obs_dim) {
  const float zero = 0;
  const Tensor tensor = {.name = "x", .type = TENSOR_F32, .dims = 1, .shape = {1}, .data = &zero};
  const char *const metadata[] = {"bfm",    "model",   "env", env,      "obs_dim", obs_dim, "step",
                                  "100000", "act_dim", "9",   "config", "{}",      NULL};
  good(safetensors_write(at(name), &tensor, 1, metadata));
  return at(name);
}

static void test_refuses(void **state) {
  (void)state;
  mkdir(at("empty"), 0777);
  put_text("words.safetensors", "these are no tensors");
  refused(at("none.safetensors"), "cannot open");
  refused(at("words.safetensors"), "");
  refused(data, "");
  refused(at("one/state.safetensors"), "training state");
  refused(at("policy/model.safetensors"), "policy of a single task");
  refused(at("empty"), "neither models nor runs");
  refused(write_model("robot.safetensors", "robot", "8"), "unknown domain 'robot'");
  refused(write_model("old.safetensors", "jaco", "55"), "brick");
  refused(write_model("odd.safetensors", "walker", "23"), "23 observations, but walker has 24");
  refused(write_model("nameless.safetensors", "", "8"), "does not name its robot");
}

static void test_labels_and_paths(void **state) {
  (void)state;
  mkdir(at("shelf"), 0777);
  mkdir(at("\xc3\xa9t\xc3\xa9 runs"), 0777);
  place("one/model.safetensors", "shelf/b.safetensors");
  place("one/model.safetensors", "shelf/a model.safetensors");
  place("one/state.safetensors", "shelf/state.safetensors");
  put_text("shelf/c.safetensors", "");
  place("one/model.safetensors", "b.safetensors");
  char slashed[200];
  snprintf(slashed, sizeof slashed, "%s//", at("shelf"));
  const char *paths[] = {slashed, at("b.safetensors"), at("one"), at("two"), at("b.safetensors")};
  Models *m = open_models(paths, 5);
  static const char *const labels[] = {"a-model", "b", "b-2", "one", "two.0", "two.1"};
  static const char *const names[] = {"shelf/a model.safetensors",
                                      "shelf/b.safetensors",
                                      "b.safetensors",
                                      "one/model.safetensors",
                                      "two/model.0.safetensors",
                                      "two/model.1.safetensors"};
  assert_int_equal(models_count(m), 6);  // of the model that is named twice, one
  for (int i = 0; i < 6; i++) {
    assert_string_equal(models_label(m, i), labels[i]);
    assert_string_equal(models_path(m, i), at(names[i]));
    assert_int_equal(models_find(m, labels[i]), i);
  }
  assert_int_equal(models_find(m, "c"), -1);
  assert_int_equal(models_find(m, ""), -1);
  models_free(m);

  // a folder of runs
  m = open_models((const char *const[]){folder}, 1);
  assert_int_equal(models_find(m, "old"), -1);
  assert_true(models_find(m, "b") >= 0 && models_find(m, "one") >= 0);
  assert_true(models_find(m, "two.1") >= 0);
  models_free(m);
}

static void test_default_folder(void **state) {
  (void)state;
  Models *m;
  char here[PATH_MAX];
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(chdir(folder), 0);
  // the test program lies deeper in the build folder than the program, so that nothing is found
  assert_int_equal(models_new(&m, NULL, 0, "cpu", 1), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "no folder models"));
  mkdir("models", 0777);
  place("one/model.safetensors", "models/mass.safetensors");
  good(models_new(&m, NULL, 0, "cpu", 1));
  assert_string_equal(models_label(m, 0), "mass");
  assert_string_equal(models_path(m, 0), "models/mass.safetensors");
  models_free(m);
  assert_int_equal(chdir(here), 0);
}

static const char *text(const cJSON *item, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItem(item, name));
}

static void test_describe(void **state) {
  (void)state;
  const char *paths[] = {at("one/model.safetensors"), at("two"), at("policy")};
  Models *m = open_models(paths, 3);
  const Model *model;
  cJSON *hello = cJSON_CreateObject();
  good(models_acquire(m, 0, &model));
  good(models_describe(m, hello));
  models_release(m, model);
  const cJSON *models = cJSON_GetObjectItem(hello, "models");
  const cJSON *first = cJSON_GetArrayItem(models, 0), *last = cJSON_GetArrayItem(models, 2);
  assert_int_equal(cJSON_GetArraySize(models), 3);
  assert_string_equal(text(first, "label"), "model");
  assert_string_equal(text(first, "domain"), "point_mass");
  assert_string_equal(text(first, "title"), "model (point_mass)");
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(first, "loaded")));
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(first, "run")));
  assert_string_equal(text(last, "label"), "two.1");
  assert_string_equal(text(last, "run"), "two");
  assert_false(cJSON_IsTrue(cJSON_GetObjectItem(last, "loaded")));
  const cJSON *runs = cJSON_GetObjectItem(hello, "runs");
  assert_int_equal(cJSON_GetArraySize(runs), 2);
  assert_string_equal(cJSON_GetArrayItem(runs, 1)->valuestring, "policy");
  cJSON_Delete(hello);
  models_free(m);
}

// ------------------------------- references ------------------------------------------------------

static void acts(const Model *model) {
  const float obs[4] = {0}, z[4] = {1, 1, 1, 1};
  float act[2];
  good(bfm_agent_act(model->agent, 0, 1, obs, z, 0, 0, 0, act));
}

static void test_replaced_model(void **state) {
  (void)state;
  place("one/model.safetensors", "changing.safetensors");
  const char *path = at("changing.safetensors");
  Models *m = open_models(&path, 1);
  const Model *first, *again, *second;
  char of_first[9], of_second[9];
  good(models_acquire(m, 0, &first));
  good(models_acquire(m, 0, &again));
  assert_ptr_equal(first, again);
  assert_string_equal(first->world->domain->name, "point_mass");
  assert_true(first->version == models_version(m, 0));

  place("two/model.0.safetensors", "changing.safetensors");
  good(models_acquire(m, 0, &second));
  assert_ptr_not_equal(first, second);
  assert_true(second->version > first->version && second->version == models_version(m, 0));
  good(bfm_agent_fingerprint(first->agent, 0, of_first));
  good(bfm_agent_fingerprint(second->agent, 0, of_second));
  assert_string_not_equal(of_first, of_second);
  models_release(m, first);
  acts(again);  // it has a user yet
  models_release(m, again);
  models_release(m, second);
  good(models_acquire(m, 0, &again));
  assert_ptr_equal(again, second);  // nobody used it, but it is at hand
  models_release(m, again);
  models_release(m, NULL);
  models_free(m);
}

static void test_vanished_and_broken_models(void **state) {
  (void)state;
  place("one/model.safetensors", "x.safetensors");
  place("one/model.safetensors", "y.safetensors");
  const char *paths[] = {at("x.safetensors"), at("y.safetensors")};
  Models *m = open_models(paths, 2);
  const Model *model, *same;
  unlink(at("x.safetensors"));
  assert_int_not_equal(models_acquire(m, 0, &model), BFM_OK);
  assert_null(model);
  assert_non_null(strstr(bfm_error(), "cannot open"));
  put_text("x.safetensors", "no tensors");
  assert_int_not_equal(models_acquire(m, 0, &model), BFM_OK);
  place("one/state.safetensors", "x.safetensors");
  assert_int_not_equal(models_acquire(m, 0, &model), BFM_OK);
  place("one/model.safetensors", "x.safetensors");
  good(models_acquire(m, 0, &model));

  // what is loaded stays in use
  put_text("x.safetensors", "no tensors");
  good(models_acquire(m, 0, &same));
  assert_ptr_equal(model, same);
  models_release(m, same);
  unlink(at("x.safetensors"));
  good(models_acquire(m, 0, &same));
  acts(same);
  models_release(m, same);
  models_release(m, model);
  good(models_acquire(m, 1, &model));
  models_release(m, model);
  models_free(m);
}

// Beyond two models without users, the one that was used the longest ago is freed.
static void test_idle_models_are_few(void **state) {
  (void)state;
  const char *paths[4];
  const Model *models[4];
  for (int i = 0; i < 4; i++) {
    char name[32];
    snprintf(name, sizeof name, "idle%d.safetensors", i);
    place("one/model.safetensors", name);
    paths[i] = at(name);
  }
  Models *m = open_models(paths, 4);
  for (int i = 0; i < 4; i++) good(models_acquire(m, i, &models[i]));
  for (int i = 0; i < 4; i++) models_release(m, models[i]);
  cJSON *hello = cJSON_CreateObject();
  good(models_describe(m, hello));
  for (int i = 0; i < 4; i++) {
    const cJSON *item = cJSON_GetArrayItem(cJSON_GetObjectItem(hello, "models"), i);
    assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(item, "loaded")), i >= 2);
  }
  cJSON_Delete(hello);
  good(models_acquire(m, 0, &models[0]));
  assert_true(models[0]->version == 2 && models_version(m, 0) == 2);
  models_release(m, models[0]);
  models_free(m);
}

enum { USERS = 6, TURNS = 40 };

typedef struct {
  Models *models;
  int failures;
} User;

static void *use(void *context) {
  User *user = context;
  const float obs[4] = {0}, z[4] = {1, 1, 1, 1};
  for (int i = 0; i < TURNS; i++) {
    const Model *model;
    float act[2];
    int index = i % 3;
    if (models_acquire(user->models, index, &model)) {
      user->failures++;
      continue;
    }
    user->failures += bfm_agent_act(model->agent, 0, 1, obs, z, 0, 0, 0, act) != BFM_OK;
    user->failures += models_version(user->models, index) < model->version;
    models_release(user->models, model);
  }
  return NULL;
}

static void test_many_users_of_changing_models(void **state) {
  (void)state;
  static const char *const names[] = {"p.safetensors", "q.safetensors", "r.safetensors"};
  const char *paths[3];
  for (int i = 0; i < 3; i++) {
    place("one/model.safetensors", names[i]);
    paths[i] = at(names[i]);
  }
  User users[USERS] = {{.models = open_models(paths, 3)}};
  pthread_t threads[USERS];
  for (int i = 0; i < USERS; i++) {
    users[i] = (User){.models = users[0].models};
    assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
  }
  for (int i = 0; i < 30; i++) {
    place(i % 2 ? "one/model.safetensors" : "two/model.1.safetensors", names[i % 3]);
    cJSON *hello = cJSON_CreateObject();
    good(models_describe(users[0].models, hello));
    cJSON_Delete(hello);
    usleep(1000);
  }
  for (int i = 0; i < USERS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(users[i].failures, 0);
  }
  models_free(users[0].models);
}

// ------------------------------- runs ------------------------------------------------------------

// what the runs' thread told
typedef struct {
  pthread_mutex_t lock;
  cJSON *messages;
} Told;

static void hear(void *context, cJSON *message) {
  Told *told = context;
  assert_non_null(message);
  pthread_mutex_lock(&told->lock);
  cJSON_AddItemToArray(told->messages, message);
  pthread_mutex_unlock(&told->lock);
}

// the number of messages of a type with this label and step; they are waited for
static int heard(Told *told, const char *type, const char *label, double step) {
  for (int i = 0; i < 500; i++) {
    int count = 0;
    const cJSON *message;
    pthread_mutex_lock(&told->lock);
    cJSON_ArrayForEach(message, told->messages) {
      count += !strcmp(text(message, "type"), type) && !strcmp(text(message, "label"), label) &&
               cJSON_GetNumberValue(cJSON_GetObjectItem(message, "step")) == step;
    }
    pthread_mutex_unlock(&told->lock);
    if (count) return count;
    usleep(10000);
  }
  return 0;
}

static void test_watched_run(void **state) {
  (void)state;
  mkdir(at("live"), 0777);
  mkdir(at("gone"), 0777);
  place("one/run.json", "live/run.json");
  place("one/run.json", "gone/run.json");
  const char *paths[] = {at("live"), at("gone")};
  Models *m = open_models(paths, 2);  // neither has a model yet
  assert_int_equal(models_count(m), 0);
  Told told = {PTHREAD_MUTEX_INITIALIZER, cJSON_CreateArray()};
  good(models_watch(m, 0.02, hear, &told));
  assert_true(heard(&told, "run", "live", 0));
  place("one/log.jsonl", "live/log.jsonl");
  assert_true(heard(&told, "run", "live", 4));

  place("one/model.safetensors", "live/model.safetensors");
  assert_true(heard(&told, "model", "live", 4));
  assert_int_equal(models_find(m, "live"), 0);
  const Model *first, *second;
  good(models_acquire(m, 0, &first));
  int64_t version = models_version(m, 0);
  place("two/model.1.safetensors", "live/model.safetensors");  // of step 8
  assert_true(heard(&told, "model", "live", 8));
  assert_true(models_version(m, 0) > version);  // loaded already, as it has a user
  good(models_acquire(m, 0, &second));
  assert_ptr_not_equal(first, second);
  models_release(m, first);
  models_release(m, second);

  // a damaged model, and a run whose folder vanishes
  put_text("live/model.safetensors", "no tensors");
  unlink(at("gone/run.json"));
  rmdir(at("gone"));
  usleep(100000);
  Told later = {PTHREAD_MUTEX_INITIALIZER, cJSON_CreateArray()};
  models_tell(m, hear, &later);
  assert_int_equal(cJSON_GetArraySize(later.messages), 2);
  assert_int_equal(heard(&later, "run", "live", 4), 1);
  assert_int_equal(heard(&later, "run", "gone", 0), 1);
  assert_string_equal(text(cJSON_GetArrayItem(later.messages, 1), "state"), "gone");
  models_free(m);
  cJSON_Delete(told.messages);
  cJSON_Delete(later.messages);
}

static void test_without_runs_nothing_is_watched(void **state) {
  (void)state;
  const char *path = at("one/model.safetensors");
  Models *m = open_models(&path, 1);
  good(models_watch(m, 0.01, hear, NULL));  // would fail in hear
  models_tell(m, hear, NULL);
  models_free(m);
  models_free(NULL);
}

// ------------------------------- the folder ------------------------------------------------------

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/bfm-models-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(data, sizeof data, "%s/data.h5", folder);
  bfm_collection run = {.size = sizeof run, .env = "point_mass", .output = data,
                        .options = "{\"steps\": 300, \"envs\": 4, \"threads\": 1}"};
  good(bfm_collect(&run));
  train("one", "{" TINY ", \"steps\": 4}");
  train("two", "{" TINY ", \"steps\": 8, \"seeds\": 2, \"seed\": 5}");
  train("policy",
        "{\"algo\": \"bc\", \"task\": \"easy\", \"steps\": 4, \"hidden\": 8, \"batch\": 8, "
        "\"device\": \"cpu\", \"threads\": 1}");
  return 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
  (void)info, (void)type, (void)where;
  return remove(path);
}

static int remove_folder(void **state) {
  (void)state;
  return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refuses),
      cmocka_unit_test(test_labels_and_paths),
      cmocka_unit_test(test_default_folder),
      cmocka_unit_test(test_describe),
      cmocka_unit_test(test_replaced_model),
      cmocka_unit_test(test_vanished_and_broken_models),
      cmocka_unit_test(test_idle_models_are_few),
      cmocka_unit_test(test_many_users_of_changing_models),
      cmocka_unit_test(test_watched_run),
      cmocka_unit_test(test_without_runs_nothing_is_watched),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
