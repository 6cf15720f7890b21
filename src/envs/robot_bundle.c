// A robot and its files.

#include "envs/robot_bundle.h"

#include <stdlib.h>
#include <string.h>

#include "core/files.h"
#include "core/paths.h"
#include "envs/bundle_files.h"

int robot_is_path(const char *path) {
  return bundle_name_is_model(path) || bundle_name_is_description(path);
}

// ---------------------------------- from disk ----------------------------------------------------

// the file of states keeps its path as far as that lies below the description
static int states_name(const RobotReset *step, char name[PATH_MAX]) {
  return path_inside(name, step->text.text);
}

static int gather_states(Bundle *bundle, const Robot *robot, const char *path) {
  const RobotReset *step = robot_states_step(robot);
  char from[PATH_MAX], name[PATH_MAX], *bytes;
  size_t size;
  if (!step) return BFM_OK;
  TRY(states_name(step, name));
  TRY(path_beside(from, path, step->text.text));
  if (input_bytes_within(from, BUNDLE_BYTES - bundle->size, &bytes, &size))
    return robot_fail(robot, step->text, "%s", bfm_error());
  if (!bundle_take(bundle, name, bytes, size)) return BFM_OK;
  return robot_fail(robot, step->text, "%s", bfm_error());
}

static int gather_described(Bundle **bundle, const Robot *robot, const char *path) {
  char model[PATH_MAX], assets[PATH_MAX];
  TRY(path_beside(model, path, robot->model.text));
  if (!bundle_name_is_model(model)) {
    return robot_fail(robot, robot->model, "'%s' is no model: its name ends in .xml or .urdf",
                      robot->model.text);
  }
  if (input_check(model)) return robot_fail(robot, robot->model, "%s", bfm_error());
  if (robot->assets.text) {
    TRY(path_beside(assets, path, robot->assets.text));
    if (!path_is_folder(assets)) {
      int status = robot_fail(robot, robot->assets, "there is no folder %s", assets);
      TRY(robot_goes_on(robot, status));
    }
  }
  TRY(bundle_gather(bundle, model, robot->assets.text ? assets : NULL));
  return robot_goes_on(robot, gather_states(*bundle, robot, path));
}

static int gather(Bundle **bundle, const char *path, RobotProblems *problems) {
  char *yaml;
  size_t size;
  Robot *robot;
  *bundle = NULL;
  if (bundle_name_is_model(path)) return bundle_gather(bundle, path, NULL);
  TRY(input_bytes_within(path, ROBOT_BYTES, &yaml, &size));
  int status = robot_parse_all(&robot, path, yaml, size, problems);
  if (!status) {
    status = gather_described(bundle, robot, path);
    robot_free(robot);
  }
  if (!status) status = bundle_take(*bundle, path_base(path), yaml, size);
  else free(yaml);
  if (status) {
    bundle_free(*bundle);
    *bundle = NULL;
  }
  return status;
}

int robot_gather(Bundle **bundle, const char *path) { return gather(bundle, path, NULL); }

// ---------------------------------- from a bundle ------------------------------------------------

static int read_states(Robot *robot, const Bundle *bundle) {
  const RobotReset *step = robot_states_step(robot);
  char name[PATH_MAX];
  if (!step) return BFM_OK;
  TRY(states_name(step, name));
  const BundleFile *file = bundle_find(bundle, name);
  if (file) return robot_read_states(robot, file->bytes, file->size);
  return robot_fail(robot, step->text, "%s is not among the robot's files", name);
}

static int read_description(Robot **robot, const Bundle *bundle, const char *path,
                            RobotProblems *problems) {
  const BundleFile *file = bundle_description(bundle);
  if (!file) return robot_new(robot, path);
  TRY(robot_parse_all(robot, path, file->bytes, file->size, problems));
  int status = read_states(*robot, bundle);
  if (status && problems) (*robot)->reset_count = 0;  // gathering has said why
  return problems ? BFM_OK : status;
}

int robot_compile(mjModel **model, const Bundle *bundle, const Robot *robot) {
  mjSpec *spec;
  TRY(bundle_spec(bundle, robot->base, &spec));
  int status = robot_edit(robot, spec);
  if (!status) status = bundle_compile(bundle, spec, model);
  mj_deleteSpec(spec);
  return status;
}

static int load(Robot **robot, mjModel **model, const Bundle *bundle, const char *file,
                RobotProblems *problems) {
  *robot = NULL;
  *model = NULL;
  int status = read_description(robot, bundle, file, problems);
  if (!status) status = robot_compile(model, bundle, *robot);
  if (!status) status = robot_check_aliases(*robot, *model);
  if (!status) status = robot_complete(*robot, *model);
  if (!status) status = robot_check(*robot, *model);
  if (!status) return BFM_OK;
  robot_free(*robot);
  if (*model) mj_deleteModel(*model);
  *robot = NULL;
  *model = NULL;
  return status;
}

int robot_load(Robot **robot, mjModel **model, const Bundle *bundle, const char *file) {
  return load(robot, model, bundle, file, NULL);
}

int robot_examine(const char *path, RobotProblems *problems) {
  Bundle *bundle;
  Robot *robot = NULL;
  mjModel *model = NULL;
  int status = gather(&bundle, path, problems);
  if (!status) {
    status = load(&robot, &model, bundle, path, problems);
    bundle_free(bundle);
  }
  robot_free(robot);
  if (model) mj_deleteModel(model);
  return status && status != BFM_NO_MEMORY ? robot_problems_add(problems) : status;
}
