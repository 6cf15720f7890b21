// Robots and their files: what a path stands for is gathered once, and the same robot comes out of the
// bundle when the files are gone.

#include <math.h>
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

#include "envs/robot_bundle.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

static char folder[64];

static const char *path_of(const char *name) {
  static char paths[4][256];
  static int turn;
  char *path = paths[turn++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void write_bytes(const char *name, const void *bytes, size_t size) {
  char path[256];
  snprintf(path, sizeof path, "%s", path_of(name));
  for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
       slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite(bytes, 1, size, file);
  fclose(file);
}

static void write_text(const char *name, const char *text) {
  write_bytes(name, text, strlen(text));
}

// numpy.savez(qpos=[[0, 0, 2, 1, 0, 0, 0, 0.25]])
static const unsigned char states_npz[] = {
    80,  75,  3,   4,   20,  0,   0,  0,   0,   0,   0,   0,   33,  0,   12,  119, 142, 211, 192,
    0,   0,   0,   192, 0,   0,   0,  8,   0,   20,  0,   113, 112, 111, 115, 46,  110, 112, 121,
    1,   0,   16,  0,   192, 0,   0,  0,   0,   0,   0,   0,   192, 0,   0,   0,   0,   0,   0,
    0,   147, 78,  85,  77,  80,  89, 1,   0,   118, 0,   123, 39,  100, 101, 115, 99,  114, 39,
    58,  32,  39,  60,  102, 56,  39, 44,  32,  39,  102, 111, 114, 116, 114, 97,  110, 95,  111,
    114, 100, 101, 114, 39,  58,  32, 70,  97,  108, 115, 101, 44,  32,  39,  115, 104, 97,  112,
    101, 39,  58,  32,  40,  49,  44, 32,  56,  41,  44,  32,  125, 32,  32,  32,  32,  32,  32,
    32,  32,  32,  32,  32,  32,  32, 32,  32,  32,  32,  32,  32,  32,  32,  32,  32,  32,  32,
    32,  32,  32,  32,  32,  32,  32, 32,  32,  32,  32,  32,  32,  32,  32,  32,  32,  32,  32,
    32,  32,  32,  32,  32,  32,  32, 32,  32,  32,  32,  32,  32,  32,  10,  0,   0,   0,   0,
    0,   0,   0,   0,   0,   0,   0,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
    64,  0,   0,   0,   0,   0,   0,  240, 63,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   0,   0,   0,   0,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
    0,   208, 63,  80,  75,  1,   2,  20,  3,   20,  0,   0,   0,   0,   0,   0,   0,   33,  0,
    12,  119, 142, 211, 192, 0,   0,  0,   192, 0,   0,   0,   8,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   0,   0,   128, 1,  0,   0,   0,   0,   113, 112, 111, 115, 46,  110, 112, 121,
    80,  75,  5,   6,   0,   0,   0,  0,   1,   0,   1,   0,   54,  0,   0,   0,   250, 0,   0,
    0,   0,   0,
};

static const char xml[] =
    "<mujoco><worldbody><geom name='floor' type='plane' size='9 9 1'/><body name='trunk' pos='0 0 "
    "1'>"
    "<freejoint/><geom size='.2'/><body name='leg' pos='.3 0 0'>"
    "<joint name='hip' axis='0 1 0' range='-60 60'/><geom size='.1' pos='.2 0 0'/></body></body>"
    "<body name='wall'><geom name='wall' type='box' size='1 1 1' pos='5 0 0'/></body></worldbody>"
    "<actuator><motor joint='hip' ctrlrange='-1 1'/></actuator></mujoco>";

static const char yaml[] =
    "# a robot\n"
    "model: ../models/robot.xml\n"
    "observed: {height: tall}\n"
    "reset: [{states: starts.npz}]\n"
    "aliases: {tall: trunk.z}\n"
    "edits: {remove: [geom wall]}\n"
    "tasks: {up: {reward: tall > 1, help: be tall}}\n";

static int set_up(void **state) {
  (void)state;
  mjLogConfig config = mju_getLogConfig();
  config.logto_console = config.logto_file = 0;
  mju_setLogConfig(config);
  snprintf(folder, sizeof folder, "/tmp/bfm-robot-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  write_text("models/robot.xml", xml);
  write_bytes("robots/starts.npz", states_npz, sizeof states_npz);
  write_text("robots/robot.yaml", yaml);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);  // NOLINT(cert-env33-c)
}

static void test_paths_of_robots(void **state) {
  (void)state;
  static const char *const yes[] = {"a.xml", "b/a.URDF", "a.yaml", "a.yml"};
  static const char *const no[] = {"walker", ".xml", "a.xml/b", "a.h5", ""};
  for (int i = 0; i < COUNT(yes); i++) assert_true(robot_is_path(yes[i]));
  for (int i = 0; i < COUNT(no); i++) assert_false(robot_is_path(no[i]));
}

static void test_a_described_robot(void **state) {
  (void)state;
  static const char *const names[] = {"robot.xml", "robot.yaml", "starts.npz"};
  Bundle *bundle, *given;
  Robot *robot;
  mjModel *model;
  if (robot_gather(&bundle, path_of("robots/robot.yaml"))) fail_msg("%s", bfm_error());
  assert_int_equal(bundle_new(&given), 0);
  for (int i = 0; i < COUNT(names); i++) {
    const BundleFile *file = bundle_file(bundle, i);
    assert_string_equal(file->name, names[i]);
    assert_int_equal(bundle_add(given, file->name, file->bytes, file->size), 0);
  }
  assert_null(bundle_file(bundle, COUNT(names)));
  assert_string_equal(bundle_description(bundle)->bytes, yaml);
  assert_true(bundle_hash(bundle) == bundle_hash(given));
  bundle_free(bundle);

  if (robot_load(&robot, &model, given, "robot")) fail_msg("%s", bfm_error());
  assert_string_equal(robot->file, "robot");
  assert_int_equal(model->ngeom, 3);  // without the wall
  assert_int_equal(robot->size, 1);
  assert_int_equal(robot->substeps, 10);  // completed
  assert_int_equal(robot->states.count, 1);
  assert_true(robot->states.qpos[7] == 0.25);
  assert_string_equal(robot->tasks[0].name, "up");
  robot_free(robot);
  mj_deleteModel(model);
  bundle_free(given);
}

static void test_a_model_alone(void **state) {
  (void)state;
  Bundle *bundle;
  Robot *robot;
  mjModel *model;
  if (robot_gather(&bundle, path_of("models/robot.xml"))) fail_msg("%s", bfm_error());
  if (robot_load(&robot, &model, bundle, "robot.xml")) fail_msg("%s", bfm_error());
  assert_int_equal(model->ngeom, 4);
  assert_int_equal(robot->size, 1 + 1 + 3 + 6 + 1);
  robot_free(robot);
  mj_deleteModel(model);
  bundle_free(bundle);
}

static void test_errors(void **state) {
  (void)state;
  // how the error begins, behind the description's path; '@' is the folder of the test
  static const struct {
    const char *yaml, *error;
  } rows[] = {
      {"model: lost.xml\n", ":1:8: cannot open @/robots/lost.xml: No such file or directory"},
      {"model: lost.stl\n", ":1:8: 'lost.stl' is no model: its name ends in .xml or .urdf"},
      {"model: ../models/robot.xml\nassets: lost\n", ":2:9: there is no folder @/robots/lost"},
      {"model: ../models/robot.xml\nreset: [{states: lost.npz}]\n",
       ":2:18: cannot open @/robots/lost.npz: No such file or directory"},
      {"model: ../models/robot.xml\nreset: [{states: bad.npz}]\n", ":2:18: bad.npz: "},
      {"model: ../models/robot.xml\nobserved: {a: trunc.z}\n",
       ":2:15: the model has nothing called 'trunc.z' (did you mean 'trunk.z'?)"},
  };
  write_text("robots/bad.npz", "no file of NumPy's");
  for (int i = 0; i < COUNT(rows); i++) {
    Bundle *bundle;
    Robot *robot;
    mjModel *model;
    char path[256], expected[512];
    snprintf(path, sizeof path, "%s", path_of("robots/bad.yaml"));
    write_text("robots/bad.yaml", rows[i].yaml);
    int status = robot_gather(&bundle, path);
    if (status) assert_null(bundle);
    else status = robot_load(&robot, &model, bundle, path);
    assert_true(status != 0);
    bundle_free(bundle);

    const char *at = strchr(rows[i].error, '@');
    int before = at ? (int)(at - rows[i].error) : (int)strlen(rows[i].error);
    snprintf(expected, sizeof expected, "%s%.*s%s%s", path, before, rows[i].error, at ? folder : "",
             at ? at + 1 : "");
    if (strncmp(bfm_error(), expected, strlen(expected)) != 0) {
      fail_msg("%s, not %s", bfm_error(), expected);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paths_of_robots),
      cmocka_unit_test(test_a_described_robot),
      cmocka_unit_test(test_a_model_alone),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
