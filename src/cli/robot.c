// bfm robot: write the description of a robot from its model, and check descriptions. A check goes on after a
// problem, so that all are seen at once; each begins with file:line:column, where editors find it.

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/robot_info.h"
#include "core/files.h"
#include "core/paths.h"
#include "core/suggest.h"
#include "envs/domain.h"
#include "envs/robot_bundle.h"
#include "envs/robot_write.h"

typedef struct {
  const char *action, *output;
  char **paths;
  int path_count, json;
} Arguments;

// ---------------------------------- new ----------------------------------------------------------

// the path of a file as seen from the folder of another one
static int path_from(char out[PATH_MAX], const char *file, const char *other) {
  char folder[PATH_MAX], here[PATH_MAX], there[PATH_MAX];
  TRY(path_beside(folder, other, "."));
  if (!realpath(*folder ? folder : ".", here)) {
    return bfm_fail(BFM_IO, "there is no folder %s", folder);
  }
  if (!realpath(file, there)) return bfm_fail(BFM_IO, "cannot open %s", file);
  size_t common = 0, used = 0;
  strcat(here, strcmp(here, "/") ? "/" : "");
  for (size_t i = 0; here[i] && here[i] == there[i]; i++) {
    if (here[i] == '/') common = i + 1;
  }
  *out = 0;
  for (const char *c = here + common; *c; c++) {
    if (*c == '/' && used + 4 < PATH_MAX) used += (size_t)sprintf(out + used, "../");
  }
  if (used + strlen(there + common) >= PATH_MAX) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the path from %s to %s is too long", other, file);
  }
  strcpy(out + used, there + common);
  return BFM_OK;
}

static int check_new(const Arguments *a) {
  const char *path = a->paths[0];
  if (!a->output) { return bfm_fail(BFM_BAD_ARGUMENT, "name the file to write: -o my_robot.yaml"); }
  if (a->path_count > 1) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name one model, not %s and %s", path, a->paths[1]);
  }
  if (!cli_has_suffix(path, ".xml") && !cli_has_suffix(path, ".urdf")) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is no model: its name ends in .xml or .urdf", path);
  }
  if (!cli_has_suffix(a->output, ".yaml") && !cli_has_suffix(a->output, ".yml")) {
    return bfm_fail(BFM_BAD_ARGUMENT, "-o %s: the name of a robot's file ends in .yaml", a->output);
  }
  if (!access(a->output, F_OK)) {
    return bfm_fail(BFM_IO, "%s is there already: name another file", a->output);
  }
  return BFM_OK;
}

// the text of a start, from the model alone
static int start(const char *path, const char *model_name, char **yaml, int *observed,
                 int *actions) {
  Bundle *bundle;
  Robot *robot;
  mjModel *model;
  TRY(robot_gather(&bundle, path));
  worlds_lock();
  int status = robot_load(&robot, &model, bundle, path);
  worlds_unlock();
  bundle_free(bundle);
  TRY(status);
  *observed = robot->size;
  *actions = model->nu;
  status = robot_write(robot, model, model_name, 1, yaml);
  mj_deleteModel(model);
  robot_free(robot);
  return status;
}

static int run_new(const Arguments *a) {
  char model_name[PATH_MAX], *yaml;
  int observed, actions;
  OutputFile file;
  TRY(check_new(a));
  TRY(input_check(a->paths[0]));
  TRY(path_from(model_name, a->paths[0], a->output));
  TRY(start(a->paths[0], model_name, &yaml, &observed, &actions));
  int status = output_open(&file, a->output);
  if (!status) status = output_write(&file, yaml, strlen(yaml));
  if (!status) status = output_commit_new(&file);
  free(yaml);
  if (!status) {
    printf("%s: %d observations, %d actions; after a change, check it with bfm robot check %s\n",
           a->output, observed, actions, a->output);
  }
  return status;
}

// ---------------------------------- check --------------------------------------------------------

// "robot.yaml:12:3: …" → 12, 3 and what follows; 0, 0 without a place
static const char *place_of(const char *path, const char *message, int *line, int *column) {
  size_t length = strlen(path);
  char *end;
  *line = *column = 0;
  if (strncmp(message, path, length) || message[length] != ':') return message;
  long row = strtol(message + length + 1, &end, 10);
  if (*end != ':') return message;
  long place = strtol(end + 1, &end, 10);
  if (strncmp(end, ": ", 2)) return message;
  *line = (int)row;
  *column = (int)place;
  return end + 2;
}

// in the order of the file
static void sort(const char *path, RobotProblems *problems) {
  for (int i = 1; i < problems->count; i++) {
    for (int k = i; k > 0; k--) {
      int line[2], column[2];
      char **pair = &problems->of[k - 1];
      for (int p = 0; p < 2; p++) place_of(path, pair[p], &line[p], &column[p]);
      if (line[0] < line[1] || (line[0] == line[1] && column[0] <= column[1])) break;
      char *first = pair[0];
      pair[0] = pair[1];
      pair[1] = first;
    }
  }
}

// all problems, and the robot's description if there are none
static int examine(const char *path, RobotProblems *problems, cJSON *info) {
  worlds_lock();
  int status = robot_examine(path, problems);
  worlds_unlock();
  if (status || problems->count) return status;
  status = robot_info(path, info);
  return status && status != BFM_NO_MEMORY ? robot_problems_add(problems) : status;
}

static void print_problems(const char *path, const RobotProblems *problems) {
  for (int i = 0; i < problems->count; i++) puts(problems->of[i]);
  fflush(stdout);
  fprintf(stderr, "bfm: %s has %d problem%s\n", path, problems->count,
          problems->count > 1 ? "s" : "");
}

static void print_json(const char *path, const RobotProblems *problems, cJSON *info) {
  cJSON *list = cJSON_AddArrayToObject(info, "problems");
  for (int i = 0; i < problems->count; i++) {
    int line, column;
    cJSON *item = cJSON_CreateObject();
    const char *message = place_of(path, problems->of[i], &line, &column);
    if (line) cJSON_AddNumberToObject(item, "line", line);
    if (line) cJSON_AddNumberToObject(item, "column", column);
    cJSON_AddStringToObject(item, "message", message);
    cJSON_AddItemToArray(list, item);
  }
  cli_print_json(info);
}

static int check(const Arguments *a, const char *path) {
  RobotProblems problems = {.count = 0};
  if (!robot_is_path(path)) {
    return cli_fail(
        bfm_fail(BFM_BAD_ARGUMENT, "%s is no robot: its name ends in .yaml, .xml or .urdf", path));
  }
  cJSON *info = cJSON_CreateObject();
  cJSON_AddStringToObject(info, "file", path);
  int status = examine(path, &problems, info);
  sort(path, &problems);
  if (status) cli_fail(status);
  else if (a->json) print_json(path, &problems, info);
  else if (problems.count) print_problems(path, &problems);
  else robot_print(info);
  cJSON_Delete(info);
  if (!status && problems.count) status = BFM_BAD_FILE;
  robot_problems_free(&problems);
  return status;
}

// ---------------------------------- the command line ---------------------------------------------

static int run(const Arguments *a) {
  static const char *const actions[] = {"new", "check"};
  Suggestion nearest = {.word = a->action};
  int worst = BFM_OK;
  for (int i = 0; i < 2; i++) suggest_try(&nearest, actions[i]);
  int is_new = !strcmp(a->action, "new");
  if (!is_new && strcmp(a->action, "check")) {
    return cli_fail(bfm_fail(BFM_BAD_ARGUMENT, "bfm robot has no action \"%.64s\"%s", a->action,
                             suggest_say(&nearest, ": it is new or check")));
  }
  if (!a->path_count) {
    return cli_fail(bfm_fail(BFM_BAD_ARGUMENT,
                             is_new ? "name a model: bfm robot new my_robot.xml -o my_robot.yaml"
                                    : "name a robot: bfm robot check my_robot.yaml"));
  }
  if (is_new) {
    int status = run_new(a);
    return status ? cli_fail(status) : status;
  }
  for (int i = 0; i < a->path_count; i++) {
    int status = check(a, a->paths[i]);
    if (status) worst = status;
  }
  return worst;
}

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "new: the description to write, a .yaml file that does not exist",
     0},
    {"json", 'j', NULL, 0, "check: print one JSON object for each robot, with its problems", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'o': a->output = arg; return 0;
    case 'j': a->json = 1; return 0;
    case ARGP_KEY_ARG:
      if (!a->action) a->action = arg;
      else a->paths[a->path_count++] = arg;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name an action: bfm robot new my_robot.xml -o my_robot.yaml");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

int cli_robot(int argc, char **argv) {
  const struct argp argp = {
      own_options,
      parse,
      "new MODEL -o FILE\ncheck FILE...",
      "Describe a robot of your own in a text file. A model in MJCF or URDF is enough for bfm; the "
      "description says what bfm shall do otherwise than by default. new writes a description with "
      "everything that bfm chose for a model, with comments, for you to change. check explains "
      "every problem of descriptions and models at its line, or prints what bfm makes of them.\v"
      "Examples:\n"
      "  bfm robot new my_robot.xml -o my_robot.yaml\n"
      "  bfm robot check my_robot.yaml\n"
      "  bfm collect my_robot.yaml --with rnd --steps 1M -o my.h5\n",
      NULL,
      NULL,
      NULL};
  Arguments a = {.paths = calloc((size_t)argc + 1, sizeof *a.paths)};
  if (!a.paths) return cli_fail(bfm_fail(BFM_NO_MEMORY, "out of memory for %d arguments", argc));
  int status = cli_parse(&argp, argc, argv, &a);
  if (!status) status = run(&a);
  free(a.paths);
  return status;
}
