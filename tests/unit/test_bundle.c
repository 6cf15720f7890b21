// Bundles: the model from a bundle is the model from disk, number for number, for every model at hand;
// every way out of a bundle is refused with one sentence; URDFs become robots.

#include <glob.h>
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
#include <mujoco/mjxmacro.h>
#include <png.h>

#include "core/files.h"
#include "core/paths.h"
#include "envs/bundle.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

static char folder[64];

// ---------------------------------- files --------------------------------------------------------

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

// a tetrahedron of this size
static void write_mesh(const char *name, float size) {
  static const float corners[4][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  static const int faces[4][3] = {{0, 2, 1}, {0, 1, 3}, {0, 3, 2}, {1, 2, 3}};
  unsigned char bytes[84 + 4 * 50] = {0};
  bytes[80] = 4;
  for (int f = 0; f < 4; f++) {
    for (int k = 0; k < 9; k++) {
      float x = size * corners[faces[f][k / 3]][k % 3];
      memcpy(bytes + 84 + 50 * f + 12 + 4 * k, &x, 4);
    }
  }
  write_bytes(name, bytes, sizeof bytes);
}

static void write_png(const char *name, int shade) {
  unsigned char pixels[8 * 8 * 3];
  memset(pixels, shade, sizeof pixels);
  png_image image = {.version = PNG_IMAGE_VERSION, .width = 8, .height = 8,
                     .format = PNG_FORMAT_RGB};
  write_text(name, "");
  assert_true(png_image_write_to_file(&image, path_of(name), 0, pixels, 0, NULL));
}

static int set_up(void **state) {
  (void)state;
  mjLogConfig config = mju_getLogConfig();
  config.logto_console = config.logto_file = 0;
  mju_setLogConfig(config);
  snprintf(folder, sizeof folder, "/tmp/bfm-bundle-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);  // NOLINT(cert-env33-c)
}

// ---------------------------------- models -------------------------------------------------------

static Bundle *gather(const char *path, const char *assets) {
  Bundle *bundle;
  if (bundle_gather(&bundle, path, assets)) fail_msg("%s", bfm_error());
  return bundle;
}

static mjModel *compile(const Bundle *bundle, BundleBase base) {
  mjSpec *spec;
  mjModel *model;
  if (bundle_spec(bundle, base, &spec)) fail_msg("%s", bfm_error());
  if (bundle_compile(bundle, spec, &model)) fail_msg("%s", bfm_error());
  mj_deleteSpec(spec);
  return model;
}

// the same files as a trained model would have them
static Bundle *copy(const Bundle *bundle) {
  Bundle *other;
  assert_int_equal(bundle_new(&other), 0);
  for (int i = 0; bundle_file(bundle, i); i++) {
    const BundleFile *file = bundle_file(bundle, i);
    if (bundle_add(other, file->name, file->bytes, file->size)) fail_msg("%s", bfm_error());
  }
  return other;
}

static int is_path(const char *array) {
  return !strcmp(array, "paths") || strstr(array, "pathadr") ||
         !strcmp(array, "tex_contenttypeadr");
}

// Every number of both models, but not the paths of assets, which begin with the folder of the model.
// Returns the name of the first array that differs.
static const char *difference(const mjModel *a, const mjModel *b) {
#define X(name) \
  if (strcmp(#name, "npaths") && strcmp(#name, "nbuffer") && a->name != b->name) return #name;
  MJMODEL_SIZES
#undef X
  if (memcmp(&a->opt, &b->opt, sizeof a->opt)) return "opt";
  if (memcmp(&a->vis, &b->vis, sizeof a->vis)) return "vis";
  if (memcmp(&a->stat, &b->stat, sizeof a->stat)) return "stat";
  MJMODEL_POINTERS_PREAMBLE(a)
#define X(type, name, rows, columns)                                                         \
  if (!is_path(#name) &&                                                                     \
      memcmp(a->name, b->name, sizeof(type) * (size_t)(a->rows) * (size_t)(columns)) != 0) { \
    return #name;                                                                            \
  }
#define XNV X
  MJMODEL_POINTERS
#undef X
  return NULL;
}

static void assert_equal_models(const mjModel *a, const mjModel *b, const char *path) {
  const char *differs = difference(a, b);
  if (differs) fail_msg("%s: %s differs", path, differs);
}

// all models of the checkout, and of the wheels if they are there
static void find_models(glob_t *found) {
#define WHEELS ".venv-oracle/lib/python3*/site-packages/"
  static const char *const patterns[] = {
      ".deps/models/suite/*.xml",
      ".deps/models/gymnasium/*.xml",
      ".deps/models/jaco/*.xml",
      ".deps/models/kitchen/kitchen_assets/kitchen_env_model.xml",
      WHEELS "dm_control/suite/*.xml",
      WHEELS "gymnasium/envs/mujoco/assets/*.xml",
      WHEELS "gymnasium_robotics/envs/assets/*/*.xml",
      WHEELS "gymnasium_robotics/envs/multiagent_mujoco/assets/*.xml",
  };
  for (int i = 0; i < COUNT(patterns); i++) { glob(patterns[i], i ? GLOB_APPEND : 0, NULL, found); }
}

static void test_models_from_bundles_are_those_from_disk(void **state) {
  (void)state;
  glob_t found;
  int count = 0;
  find_models(&found);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    const char *path = found.gl_pathv[i];
    mjModel *direct = mj_loadXML(path, NULL, NULL, 0);
    if (!direct) continue;  // a part of a model
    Bundle *bundle = gather(path, NULL), *given = copy(bundle);
    mjModel *model = compile(bundle, BASE_DEFAULT), *again = compile(given, BASE_DEFAULT);
    assert_equal_models(direct, model, path);
    assert_equal_models(direct, again, path);
    assert_true(bundle_hash(bundle) == bundle_hash(given));
    mj_deleteModel(direct);
    mj_deleteModel(model);
    mj_deleteModel(again);
    bundle_free(bundle);
    bundle_free(given);
    count++;
  }
  print_message("%d models\n", count);
  assert_true(count >= 10);
  globfree(&found);
}

// ---------------------------------- includes and assets ------------------------------------------

static const char main_xml[] =
    "\xEF\xBB\xBF<?xml version='1.0'?>\n"
    "<!-- <include file='nowhere.xml'/> -->\n"
    "<mujoco model='all'>\n"
    "  <compiler meshdir='../meshes' texturedir='looks' angle='radian'/>\n"
    "  <include file='parts/one.xml'/>\n"
    "  <asset><hfield name='hills' file='hills.png' size='1 1 1 .1'/></asset>\n"
    "  <worldbody><![CDATA[ <include file='nowhere.xml'/> ]]>\n"
    "    <geom type='hfield' hfield='hills'/>\n"
    "    <body name='b' pos='0 0 1'><freejoint/>\n"
    "      <geom type='mesh' mesh='wedge' material='m'/>\n"
    "      <include file='parts/two.xml'></include>\n"
    "    </body>\n"
    "  </worldbody>\n"
    "</mujoco>\n";

static void write_all(void) {
  write_text("robot/robot.xml", main_xml);
  write_text("robot/parts/one.xml",
             "<!DOCTYPE x><mujocoinclude><asset>\n"
             "<mesh file='.//wedge.stl'/><mesh name='other' file=\"sub/../tetra.stl\"/>\n"
             "<texture name='cube' type='cube' fileright='r.png' fileleft='l.png'/>\n"
             "<texture name='flat' type='2d' file='r.png'/><material name='m' texture='flat'/>\n"
             "</asset></mujocoinclude>");
  write_text("robot/parts/two.xml", "<x><geom type='mesh' mesh='other' pos='1 0 0'/></x>");
  write_mesh("meshes/wedge.stl", 0.1f);
  write_mesh("meshes/tetra.stl", 0.2f);
  write_png("meshes/hills.png", 100);
  write_png("robot/looks/r.png", 30);
  write_png("robot/looks/l.png", 60);
}

static void test_includes_and_assets_are_gathered(void **state) {
  (void)state;
  static const char *const names[] = {"looks/l.png",      "looks/r.png",      "meshes/hills.png",
                                      "meshes/tetra.stl", "meshes/wedge.stl", "robot.xml"};
  write_all();
  Bundle *bundle = gather(path_of("robot/robot.xml"), NULL), *given = copy(bundle);
  for (int i = 0; i < COUNT(names); i++)
    assert_string_equal(bundle_file(bundle, i)->name, names[i]);
  assert_null(bundle_file(bundle, COUNT(names)));
  assert_null(bundle_description(bundle));
  const char *text = bundle_model(bundle)->bytes;
  assert_non_null(strstr(text, "meshdir='meshes'"));
  assert_null(strstr(text, "CDATA"));
  assert_non_null(strstr(text, "\"tetra.stl\""));

  char error[512] = "";
  mjModel *direct = mj_loadXML(path_of("robot/robot.xml"), NULL, error, sizeof error);
  if (!direct) fail_msg("%s", error);
  write_text("meshes/tetra.stl", "");  // nothing is read again
  mjModel *model = compile(given, BASE_DEFAULT);
  assert_equal_models(direct, model, "robot.xml");
  mj_deleteModel(direct);
  mj_deleteModel(model);
  bundle_free(bundle);
  bundle_free(given);
}

static void test_hash_depends_on_names_and_bytes(void **state) {
  (void)state;
  static const struct {
    const char *name, *bytes;
  } files[] = {{"a.xml", "x"}, {"a.xml", "y"}, {"b.xml", "x"}, {"a.xml", "xx"}};
  uint64_t hashes[COUNT(files)];
  for (int i = 0; i < COUNT(files); i++) {
    Bundle *bundle;
    assert_int_equal(bundle_new(&bundle), 0);
    assert_int_equal(bundle_add(bundle, files[i].name, files[i].bytes, strlen(files[i].bytes)), 0);
    hashes[i] = bundle_hash(bundle);
    for (int k = 0; k < i; k++) assert_true(hashes[k] != hashes[i]);
    bundle_free(bundle);
  }
}

// assets of the same name, an absolute path, stripped paths, a folder of assets
static void test_names_of_assets(void **state) {
  (void)state;
  char xml[1024];
  write_mesh("far/part.stl", 0.1f);
  write_mesh("near/robot/part.stl", 0.2f);
  snprintf(
      xml, sizeof xml,
      "<mujoco><asset><mesh name='a' file='part.stl'/><mesh name='b' file='%s'/></asset>"
      "<worldbody><geom type='mesh' mesh='a'/><geom type='mesh' mesh='b'/></worldbody></mujoco>",
      path_of("far/part.stl"));
  write_text("near/robot/robot.xml", xml);
  Bundle *bundle = gather(path_of("near/robot/robot.xml"), NULL), *given = copy(bundle);
  assert_string_equal(bundle_file(bundle, 0)->name, "2/part.stl");
  assert_string_equal(bundle_file(bundle, 1)->name, "part.stl");
  mjModel *model = compile(given, BASE_DEFAULT);
  assert_true(model->geom_rbound[1] < 0.7 * model->geom_rbound[0]);
  mj_deleteModel(model);
  bundle_free(bundle);
  bundle_free(given);

  write_text("near/robot/robot.xml",
             "<mujoco><compiler strippath='true' meshdir='../../far'/><asset>"
             "<mesh file='C:\\old\\part.stl'/></asset>"
             "<worldbody><geom type='mesh' mesh='part'/></worldbody></mujoco>");
  bundle = gather(path_of("near/robot/robot.xml"), NULL);
  assert_string_equal(bundle_file(bundle, 0)->name, "far/part.stl");
  mj_deleteModel(compile(bundle, BASE_DEFAULT));
  bundle_free(bundle);

  write_text("near/robot/robot.xml",
             "<mujoco><asset><mesh file='lost/part.stl'/></asset>"
             "<worldbody><geom type='mesh' mesh='part'/></worldbody></mujoco>");
  bundle = gather(path_of("near/robot/robot.xml"), path_of("far"));
  assert_string_equal(bundle_file(bundle, 0)->name, "lost/part.stl");
  mj_deleteModel(compile(bundle, BASE_DEFAULT));
  bundle_free(bundle);
}

// ---------------------------------- errors -------------------------------------------------------

// what is wrong with a file on disk, behind its path
static void assert_gather_fails(const char *xml, const char *error) {
  Bundle *bundle;
  char expected[512];
  write_text("bad.xml", xml);
  int status = bundle_gather(&bundle, path_of("bad.xml"), NULL);
  mjSpec *spec = NULL;
  mjModel *model;
  if (!status) {
    status = bundle_spec(bundle, BASE_DEFAULT, &spec);
    if (!status) status = bundle_compile(bundle, spec, &model);
    if (spec) mj_deleteSpec(spec);
    bundle_free(bundle);
  }
  assert_int_equal(status, BFM_BAD_FILE);
  snprintf(expected, sizeof expected, "%s%s", path_of(""), error);
  assert_string_equal(bfm_error(), expected);
}

static void test_errors_name_file_and_line(void **state) {
  (void)state;
  static const struct {
    const char *xml, *error;
  } cases[] = {
      {"", "bad.xml:1: the file has no XML element"},
      {"<mujoco>\n<worldbody>\n</mujoco>", "bad.xml:3: '</mujoco>' closes '<worldbody>'"},
      {"<mujoco>\n\n<worldbody", "bad.xml:3: the tag of 'worldbody' is not closed"},
      {"<mujoco>\n<a b=c/></mujoco>", "bad.xml:2: quotes are missing after 'b='"},
      {"<mujoco>\n<a b='c' b='d'/></mujoco>", "bad.xml:2: 'a' has the attribute 'b' twice"},
      {"<mujoco><!-- \n", "bad.xml:1: a comment is not closed by '-->'"},
      {"<mujoco/>x", "bad.xml:1: there is text outside of the root element"},
      {"<mujoco/><mujoco/>", "bad.xml:1: there is a second root element"},
      {"<!DOCTYPE a [<!ENTITY b SYSTEM 'c'>]><mujoco/>",
       "bad.xml:1: a document type with definitions is not supported: remove '<!DOCTYPE …>'"},
      {"<config/>",
       "bad.xml:1: this is no model: it begins with <config>, not <mujoco> or <robot>"},
      {"<mujoco>\n<include file='lost.xml'/></mujoco>", NULL},
      {"<mujoco>\n<include/></mujoco>", "bad.xml:2: <include> has no file"},
      {"<mujoco>\n<include file='bad.xml'/></mujoco>",
       "bad.xml:2: bad.xml is included a second time, or by itself"},
      {"<mujoco><asset>\n<model file='a.xml'/></asset></mujoco>",
       "bad.xml:2: a model inside of a model is not supported: save the whole as one file "
       "(mj_saveXML)"},
      {"<mujoco><extension/></mujoco>", "bad.xml:1: plugins of MuJoCo are not supported"},
      {"<mujoco><asset>\n<mesh file='http://a/b.stl'/></asset></mujoco>",
       "bad.xml:2: 'http://a/b.stl' is not a path, and nothing is downloaded"},
      {"<mujoco><asset>\n<mesh file='a&amp;b.stl'/></asset></mujoco>",
       "bad.xml:2: the name 'a&amp;b.stl' of a file has the character '&', which is not supported"},
      {"<mujoco><asset>\n<mesh file='a.xml'/></asset></mujoco>", "bad.xml:2: 'a.xml' is no asset"},
      {"<mujoco>\n<worldbody>\n<body nome='a'/></worldbody></mujoco>",
       "bad.xml:3: Schema violation: unrecognized attribute: 'nome'; Element 'body'"},
      {"<mujoco>\n<worldbody>\n<body name='a'><freejoint/></body></worldbody></mujoco>",
       "bad.xml:3: mass and inertia of moving bodies must be larger than mjMINVAL; "
       "Element name 'a', id 1"},
  };
  for (int i = 0; i < COUNT(cases); i++) {
    if (cases[i].error) assert_gather_fails(cases[i].xml, cases[i].error);
  }

  char error[512];
  snprintf(error, sizeof error, "bad.xml:2: cannot open %s: No such file or directory",
           path_of("lost.xml"));
  assert_gather_fails("<mujoco>\n<include file='lost.xml'/></mujoco>", error);
  snprintf(error, sizeof error, "bad.xml:3: there is no file %s", path_of("m/lost.stl"));
  assert_gather_fails(
      "<mujoco><compiler meshdir='m'/>\n<asset>\n<mesh file='lost.stl'/></asset></mujoco>", error);

  // lines of included files
  write_text("inner.xml", "<x>\n\n<worldbody>\n<geom nome='a'/></worldbody></x>");
  assert_gather_fails(
      "<mujoco>\n<include file='inner.xml'/>\n</mujoco>",
      "inner.xml:4: Schema violation: unrecognized attribute: 'nome'; Element 'geom'");
  write_text("inner.xml", "<x><asset>\n<mesh file='lost.stl'/></asset></x>");
  snprintf(error, sizeof error, "inner.xml:2: there is no file %s", path_of("lost.stl"));
  assert_gather_fails("<mujoco>\n<include file='inner.xml'/>\n</mujoco>", error);
  write_text("inner.xml", "<x>\n\n<a></x>");
  assert_gather_fails("<mujoco>\n<include file='inner.xml'/>\n</mujoco>",
                      "inner.xml:3: '</x>' closes '<a>'");
  write_text("inner.xml", "<x><include file='bad.xml'/></x>");
  assert_gather_fails("<mujoco>\n<include file='inner.xml'/>\n</mujoco>",
                      "inner.xml:1: bad.xml is included a second time, or by itself");
  write_text("inner.xml", "<x><asset/></x>");
  assert_gather_fails(
      "<mujoco>\n<include file='inner.xml'/>\n<worldbody>\n<geom nome='a'/></worldbody></mujoco>",
      "bad.xml:4: Schema violation: unrecognized attribute: 'nome'; Element 'geom'");
}

// ---------------------------------- ways out of a bundle -----------------------------------------

static void test_ways_out_of_a_bundle_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *xml, *error;
  } cases[] = {
      {"<include file='in.xml'/>", "a model that is inside of a file may not include others"},
      {"<INCLUDE file='in.xml'/>", "a model that is inside of a file may not include others"},
      {"<asset><mesh file='/etc/passwd'/></asset>",
       "'/etc/passwd' leads out of the robot's own files"},
      {"<asset><mesh file='../in.stl'/></asset>", "'../in.stl' leads out of the robot's own files"},
      {"<asset><mesh file='a/../in.stl'/></asset>",
       "'a/../in.stl' leads out of the robot's own files"},
      {"<asset><mesh file='..\\in.stl'/></asset>",
       "'..\\in.stl' leads out of the robot's own files"},
      {"<asset><mesh file='C:in.stl'/></asset>", "'C:in.stl' leads out of the robot's own files"},
      {"<asset><mesh file='&#47;etc'/></asset>",
       "the name '&#47;etc' of a file has the character '&', which is not supported"},
      {"<asset><mesh file='out.stl'/></asset>", "the asset out.stl is not among the robot's files"},
      {"<asset><mesh file='IN.STL'/></asset>", "the asset IN.STL is not among the robot's files"},
      {"<asset><hfield name='h' file='/a.png' size='1 1 1 1'/></asset>",
       "'/a.png' leads out of the robot's own files"},
      {"<asset><texture name='h' type='cube' fileup='/a.png'/></asset>",
       "'/a.png' leads out of the robot's own files"},
      {"<asset><skin file='/a.skn'/></asset>", "'/a.skn' leads out of the robot's own files"},
      {"<worldbody><flexcomp file='/a.obj' type='mesh' name='f'/></worldbody>",
       "'/a.obj' leads out of the robot's own files"},
      {"<compiler meshdir='/etc'/>", "the folder '/etc' leads out of the robot's own files"},
      {"<compiler assetdir='..'/>", "the folder '..' leads out of the robot's own files"},
      {"<compiler texturedir='a/../..'/>",
       "the folder 'a/../..' leads out of the robot's own files"},
      {"<compiler meshdir='sub'/><asset><mesh file='in.stl'/></asset>",
       "the asset sub/in.stl is not among the robot's files"},
      {"<asset><model file='in.xml'/></asset>",
       "a model inside of a model is not supported: save the whole as one file (mj_saveXML)"},
      {"<worldbody><attach model='m' prefix='p'/></worldbody>",
       "attaching a model is not supported: save the whole as one file (mj_saveXML)"},
      {"<extension><plugin plugin='mujoco.elasticity.cable'/></extension>",
       "plugins of MuJoCo are not supported"},
      {"<sensor><plugin plugin='a'/></sensor>", "plugins of MuJoCo are not supported"},
      {"<asset><mesh file='in.xml'/></asset>", "the asset in.xml is not among the robot's files"},
      {"<asset><texture name='t' type='2d' file='in.png' builtin='none'/></asset>",
       "the asset in.png is not among the robot's files"},
      {"<worldbody><replicate count='100000'><replicate count='100'><site/></replicate></replicate>"
       "</worldbody>",
       "the model repeats elements more than 10000 times"},
      {"<worldbody><composite type='cable' count='9999 9999 1'/></worldbody>",
       "the model repeats elements more than 10000 times"},
      {"<size memory='100G'/>", "the model wants a size 'memory' of 100G, which is too much"},
      {"<asset><texture name='t' type='2d' builtin='flat' width='99999' height='99999'/></asset>",
       "a texture has more than 67108864 pixels"},
      {"<asset><hfield name='h' nrow='20000' ncol='20000' size='1 1 1 1'/></asset>",
       "a height field has more than 67108864 numbers"},
  };
  for (int i = 0; i < COUNT(cases); i++) {
    Bundle *bundle;
    mjSpec *spec;
    char xml[512], expected[512];
    snprintf(xml, sizeof xml, "<mujoco>\n%s</mujoco>", cases[i].xml);
    assert_int_equal(bundle_new(&bundle), 0);
    assert_int_equal(bundle_add(bundle, "robot.xml", xml, strlen(xml)), 0);
    assert_int_equal(bundle_add(bundle, "in.stl", "", 0), 0);
    int status = bundle_spec(bundle, BASE_DEFAULT, &spec);
    snprintf(expected, sizeof expected, "robot.xml:2: %s", cases[i].error);
    if (!status) fail_msg("not refused: %s", cases[i].xml);
    assert_string_equal(bfm_error(), expected);
    assert_int_equal(status, BFM_BAD_FILE);
    assert_null(spec);
    bundle_free(bundle);
  }
}

static void test_names_in_a_bundle(void **state) {
  (void)state;
#define NOT_CALLED(name)                                                     \
  {                                                                          \
    name, "a robot's file may not be called '" name                          \
          "': names are relative, without '..' and other special characters" \
  }
  static const struct {
    const char *name, *error;
  } cases[] = {
      NOT_CALLED("/a"),
      NOT_CALLED("../a"),
      NOT_CALLED("a/../b"),
      NOT_CALLED("a//b"),
      NOT_CALLED("a/"),
      NOT_CALLED("./a"),
      NOT_CALLED(""),
      NOT_CALLED("a:b"),
      NOT_CALLED("a\\b"),
      NOT_CALLED("a.zip/b"),
      {"a.mjb", "a robot may not contain a.mjb: only XML and single assets"},
      {"a/B.MJB", "a robot may not contain a/B.MJB: only XML and single assets"},
      {"in.stl", "a robot has two files called 'in.stl'"},
      {"b.urdf", "a robot has two models, a.xml and b.urdf"},
      {"c.yml", "a robot has two descriptions, b.yaml and c.yml"},
  };
  Bundle *bundle;
  mjSpec *spec;
  assert_int_equal(bundle_new(&bundle), 0);
  assert_int_equal(bundle_add(bundle, "b.yaml", "", 0), 0);
  assert_int_equal(bundle_spec(bundle, BASE_DEFAULT, &spec), BFM_BAD_FILE);
  assert_string_equal(bfm_error(), "the robot has no model among its files");
  assert_int_equal(bundle_add(bundle, "a.xml", "", 0), 0);
  assert_int_equal(bundle_add(bundle, "in.stl", "", 0), 0);
  for (int i = 0; i < COUNT(cases); i++) {
    assert_int_equal(bundle_add(bundle, cases[i].name, "", 0), BFM_BAD_FILE);
    assert_string_equal(bfm_error(), cases[i].error);
  }
  assert_string_equal(bundle_description(bundle)->name, "b.yaml");
  bundle_free(bundle);
}

// an edit may not lead out either
static void test_edited_specs_are_checked(void **state) {
  (void)state;
  Bundle *bundle;
  mjSpec *spec;
  mjModel *model;
  const char *xml = "<mujoco><worldbody><geom size='1'/></worldbody></mujoco>";
  assert_int_equal(bundle_new(&bundle), 0);
  assert_int_equal(bundle_add(bundle, "a.xml", xml, strlen(xml)), 0);
  assert_int_equal(bundle_spec(bundle, BASE_DEFAULT, &spec), 0);
  mjs_setString(mjs_addMesh(spec, NULL)->file, "/etc/passwd");
  assert_int_equal(bundle_compile(bundle, spec, &model), BFM_BAD_FILE);
  assert_string_equal(bfm_error(), "the asset /etc/passwd is not among the robot's files");
  mj_deleteSpec(spec);
  bundle_free(bundle);
}

// ---------------------------------- URDF ---------------------------------------------------------

#define LINK(name, shape)                                                                          \
  "<link name='" name                                                                              \
  "'><inertial><mass value='1'/><inertia ixx='.01' iyy='.01' izz='.01' "                           \
  "ixy='0' ixz='0' iyz='0'/></inertial><visual><geometry><mesh filename='package://other/x.dae'/>" \
  "</geometry></visual><collision><geometry>" shape "</geometry></collision></link>\n"
#define BALL "<sphere radius='.1'/>"
#define JOINT(type, limit)                     \
  "<joint name='knee' type='" type             \
  "'><parent link='base'/><child link='leg'/>" \
  "<origin xyz='0 0 -.3'/><axis xyz='0 1 0'/>" limit "</joint>\n"
#define LIMIT "<limit lower='-1' upper='1' effort='7' velocity='1'/>"

static mjModel *urdf_model(const char *urdf, BundleBase base) {
  write_text("pkg/urdf/robot.urdf", urdf);
  Bundle *bundle = gather(path_of("pkg/urdf/robot.urdf"), NULL), *given = copy(bundle);
  mjModel *model = compile(given, base);
  bundle_free(bundle);
  bundle_free(given);
  return model;
}

static void test_urdfs_become_robots(void **state) {
  (void)state;
  static const char urdf[] = "<robot name='r'>" LINK("base", BALL)
      LINK("leg", "<mesh filename='package://pkg/meshes/leg.stl'/>")
          JOINT("revolute",
                LIMIT) "<gazebo><plugin name='p' filename='/lib/p.so'/></gazebo></robot>";
  write_mesh("pkg/meshes/leg.stl", 0.1f);
  mjModel *model = urdf_model(urdf, BASE_DEFAULT);
  assert_int_equal(model->nv, 7);
  assert_int_equal(model->nu, 1);
  assert_int_equal(model->jnt_type[0], mjJNT_FREE);
  assert_int_equal(mj_name2id(model, mjOBJ_ACTUATOR, "knee"), 0);
  assert_true(model->actuator_ctrllimited[0] && model->actuator_ctrlrange[1] == 7);
  assert_int_equal(model->geom_type[0], mjGEOM_PLANE);
  assert_int_equal(model->nlight, 1);
  assert_int_equal(model->nmesh, 1);

  // the motor turns the knee with its control as the torque
  mjData *data = mj_makeData(model);
  data->qpos[2] = 1;
  data->ctrl[0] = 3;
  mj_forward(model, data);
  assert_true(fabs(data->qfrc_actuator[6] - 3) < 1e-12);
  mj_deleteData(data);
  mj_deleteModel(model);

  model = urdf_model(urdf, BASE_FIXED);
  assert_int_equal(model->nv, 1);
  mj_deleteModel(model);

  static const char in_world[] = "<robot name='r'><link name='world'/>" LINK("base", BALL)
      LINK("leg", BALL) JOINT("continuous", "<limit effort='7'/>")
      "<joint name='fix' type='fixed'><parent link='world'/><child link='base'/></joint></robot>";
  model = urdf_model(in_world, BASE_DEFAULT);
  assert_int_equal(model->nv, 1);
  mj_deleteModel(model);
  model = urdf_model(in_world, BASE_FREE);
  assert_int_equal(model->nv, 7);
  mj_deleteModel(model);

  // a base without mass that carries a heavy link
  static const char carrier[] = "<robot name='r'><link name='base_link'/>" LINK("base", BALL)
      LINK("leg", BALL) JOINT("prismatic", LIMIT)
      "<joint name='fix' type='fixed'><parent link='base_link'/><child link='base'/></joint></robot>";
  model = urdf_model(carrier, BASE_DEFAULT);
  assert_int_equal(model->nv, 7);
  mj_deleteModel(model);

  // a passive joint
  static const char passive[] = "<robot name='r'>" LINK("base", BALL) LINK("leg", BALL)
      JOINT("continuous", "<limit effort='0'/>") "</robot>";
  model = urdf_model(passive, BASE_DEFAULT);
  assert_int_equal(model->nu, 0);
  mj_deleteModel(model);
}

static void assert_urdf_fails(const char *urdf, const char *error) {
  Bundle *bundle;
  mjSpec *spec;
  char expected[512];
  write_text("pkg/urdf/bad.urdf", urdf);
  int status = bundle_gather(&bundle, path_of("pkg/urdf/bad.urdf"), NULL);
  if (!status) {
    status = bundle_spec(bundle, BASE_DEFAULT, &spec);
    bundle_free(bundle);
  }
  assert_int_equal(status, BFM_BAD_FILE);
  snprintf(expected, sizeof expected, "%s%s", path_of("pkg/urdf/bad.urdf"), error);
  assert_string_equal(bfm_error(), expected);
}

static void test_errors_of_urdfs(void **state) {
  (void)state;
  char error[512];
  assert_urdf_fails("<robot name='r'>\n" LINK("base", BALL) LINK("leg", BALL)
                        JOINT("continuous", "") "</robot>",
                    ":4: the joint 'knee' has no effort limit, which its motor needs: write "
                    "<limit effort=\"…\"/> in N m or N, or 0 for a passive joint");
  assert_urdf_fails("<robot xmlns:xacro='x'>\n<xacro:property name='a'/></robot>",
                    ":2: this file is made for xacro: run xacro first");
  snprintf(error, sizeof error,
           ":2: there is no file %s: name the folder of meshes as 'assets' in a robot file",
           "package://lost/leg.stl");
  assert_urdf_fails(
      "<robot name='r'>\n" LINK("base", "<mesh filename='package://lost/leg.stl'/>") "</robot>",
      error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_models_from_bundles_are_those_from_disk),
      cmocka_unit_test(test_includes_and_assets_are_gathered),
      cmocka_unit_test(test_hash_depends_on_names_and_bytes),
      cmocka_unit_test(test_names_of_assets),
      cmocka_unit_test(test_errors_name_file_and_line),
      cmocka_unit_test(test_ways_out_of_a_bundle_are_refused),
      cmocka_unit_test(test_names_in_a_bundle),
      cmocka_unit_test(test_edited_specs_are_checked),
      cmocka_unit_test(test_urdfs_become_robots),
      cmocka_unit_test(test_errors_of_urdfs),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
