// A MuJoCo of another version in the same process: libbfm and the other library give the results that each
// gives alone, whichever is opened first. Both are opened as Python opens them, without making their
// symbols global; with RTLD_DEEPBIND also where a program is linked with one of the two.

#define _GNU_SOURCE

#include <dlfcn.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bfm.h"

#define OWN ".deps/lib/libmujoco.so"
#define OTHERS ".deps/other/libmujoco.so.*"  // installed by scripts/deps.sh oracle

#ifdef __has_feature
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER SANITIZED
#endif

enum { COUNT = 2, STEPS = 100, STATE = 256 };

static char library[4096], other[4096];

static void *open_library(const char *path, int flags) {
  void *handle = dlopen(path, RTLD_NOW | flags);
  if (!handle) fail_msg("%s", dlerror());
  return handle;
}

// a function of a library; the C standard knows no cast from void * to it
#define FUNCTION(handle, pointer, name)                     \
  do {                                                      \
    *(void **)&(pointer) = dlsym(handle, name);             \
    if (!(pointer)) fail_msg("there is no function " name); \
  } while (0)

// ---------------------------------- the two libraries --------------------------------------------

// a humanoid falls; returns the numbers of its observations
static int use_bfm(double obs[STATE], int flags) {
  void *handle = open_library(library, flags);
  __typeof__(&bfm_env_new) new;
  __typeof__(&bfm_env_get_sizes) get_sizes;
  __typeof__(&bfm_env_reset) reset;
  __typeof__(&bfm_env_step) step;
  __typeof__(&bfm_env_obs) get_obs;
  __typeof__(&bfm_env_free) release;
  FUNCTION(handle, new, "bfm_env_new");
  FUNCTION(handle, get_sizes, "bfm_env_get_sizes");
  FUNCTION(handle, reset, "bfm_env_reset");
  FUNCTION(handle, step, "bfm_env_step");
  FUNCTION(handle, get_obs, "bfm_env_obs");
  FUNCTION(handle, release, "bfm_env_free");

  bfm_env *env;
  bfm_env_sizes sizes = {.size = sizeof sizes};
  double actions[COUNT * 64];
  assert_int_equal(new (&env, "humanoid", COUNT, 1, 1), 0);
  get_sizes(env, &sizes);
  assert_true(COUNT * sizes.obs_dim <= STATE && sizes.act_dim <= 64);
  assert_int_equal(reset(env, NULL), 0);
  for (int t = 0; t < STEPS; t++) {
    for (int i = 0; i < COUNT * sizes.act_dim; i++) actions[i] = (t * 7 + i * 13) % 21 / 10. - 1;
    assert_int_equal(step(env, actions), 0);
  }
  get_obs(env, obs);
  release(env);
  return COUNT * sizes.obs_dim;
}

static const char boxes[] =
    "<mujoco><worldbody><geom type='plane' size='5 5 1'/>"
    "<body pos='0 0 .5'><freejoint/><geom type='box' size='.1 .2 .1'/></body>"
    "<body pos='0 .2 1'><freejoint/><geom type='capsule' size='.1 "
    ".2'/></body></worldbody></mujoco>";

static void write_boxes(char path[64]) {
  snprintf(path, 64, "/tmp/bfm-boxes-XXXXXX");
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, boxes, sizeof boxes - 1), sizeof boxes - 1);
  close(file);
}

// two bodies collide, through functions alone: the structures of another version have other layouts
static int use_other(double state[STATE], int flags) {
  void *handle = open_library(other, flags);
  void *(*load)(const char *, const void *, char *, int), *(*make)(const void *);
  void (*step)(const void *, void *), (*get)(const void *, const void *, double *, int);
  void (*delete_data)(void *), (*delete_model)(void *);
  int (*size)(const void *, int);
  FUNCTION(handle, load, "mj_loadXML");
  FUNCTION(handle, make, "mj_makeData");
  FUNCTION(handle, step, "mj_step");
  FUNCTION(handle, get, "mj_getState");
  FUNCTION(handle, size, "mj_stateSize");
  FUNCTION(handle, delete_data, "mj_deleteData");
  FUNCTION(handle, delete_model, "mj_deleteModel");

  char error[256] = "", path[64];
  write_boxes(path);
  void *model = load(path, NULL, error, sizeof error);
  unlink(path);
  if (!model) fail_msg("%s", error);
  void *data = make(model);
  for (int t = 0; t < STEPS * 5; t++) step(model, data);
  enum { POSITIONS_AND_VELOCITIES = 6 };
  int count = size(model, POSITIONS_AND_VELOCITIES);
  assert_true(count <= STATE);
  get(model, data, state, POSITIONS_AND_VELOCITIES);
  delete_data(data);
  delete_model(model);
  return count;
}

// ---------------------------------- processes of their own ---------------------------------------

typedef struct {
  const char *order;   // 'b': bfm, 'o': the other library; capitals: with RTLD_DEEPBIND
  const char *linked;  // a library with global symbols, as if the program were linked with it
} Case;

typedef struct {
  int counts[2];
  double numbers[2][STATE];  // of bfm and of the other library
} Results;

// what both give in a new process in which everything is opened in this order
static void run_case(Case c, Results *results) {
  int ends[2], status;
  memset(results, 0, sizeof *results);
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (!child) {
    alarm(60);
    if (c.linked) open_library(c.linked, RTLD_GLOBAL);
    for (const char *which = c.order; *which; which++) {
      int is_other = strchr("oO", *which) != NULL;
      int flags = RTLD_LOCAL | (strchr("BO", *which) ? RTLD_DEEPBIND : 0);
      double numbers[STATE] = {0};
      int count = is_other ? use_other(numbers, flags) : use_bfm(numbers, flags);
      // a second time gives the same
      if (results->counts[is_other] && memcmp(numbers, results->numbers[is_other], sizeof numbers))
        _exit(2);
      memcpy(results->numbers[is_other], numbers, sizeof numbers);
      results->counts[is_other] = count;
    }
    if (write(ends[1], results, sizeof *results) != (ssize_t)sizeof *results) _exit(3);
    exit(0);  // so that leaks are looked for
  }
  close(ends[1]);
  ssize_t got = read(ends[0], results, sizeof *results);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (status || got != (ssize_t)sizeof *results) {
    fail_msg("the process with the order %s ended with status 0x%x", c.order, status);
  }
}

static void check_cases(const Case *cases, int count) {
  Results alone[2], both;
  if (!*other) skip();
  run_case((Case){"b", NULL}, &alone[0]);
  run_case((Case){"o", NULL}, &alone[1]);
  for (int i = 0; i < count; i++) {
    run_case(cases[i], &both);
    for (int k = 0; k < 2; k++) {
      assert_true(both.counts[k] > 10 && both.counts[k] == alone[k].counts[k]);
      assert_memory_equal(both.numbers[k], alone[k].numbers[k], sizeof both.numbers[k]);
    }
  }
}

static void test_each_gives_what_it_gives_alone(void **state) {
  (void)state;
  static const Case cases[] = {{"bobo", NULL}, {"obob", NULL}};
  check_cases(cases, 2);
}

// the address sanitizer does not allow RTLD_DEEPBIND
static void test_a_program_linked_with_one_of_them(void **state) {
  (void)state;
  const Case cases[] = {{"bObO", OWN}, {"ObOb", OWN}, {"BoBo", other}, {"oBoB", other}};
  if (HAS_SANITIZER) skip();
  check_cases(cases, 4);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_gives_what_it_gives_alone),
      cmocka_unit_test(test_a_program_linked_with_one_of_them),
  };
  glob_t found;
  (void)argc;
  snprintf(library, sizeof library, "%.*s../../libbfm.so",
           (int)(strrchr(argv[0], '/') + 1 - argv[0]), argv[0]);
  if (!glob(OTHERS, 0, NULL, &found)) snprintf(other, sizeof other, "%s", found.gl_pathv[0]);
  else puts("skipped: there is no MuJoCo of another version: scripts/deps.sh oracle installs one");
  globfree(&found);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
