// Edits of a parsed model: elements that are removed or added, and attributes that are changed, before
// it is compiled. The attributes are a table of places in mjSpec's structures.

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/number.h"
#include "core/suggest.h"
#include "envs/robot.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))
#define NUMBERS 16  // of an attribute

static const struct {
  const char *name;
  mjtObj type;
} types[] = {
    {"body", mjOBJ_BODY},         {"joint", mjOBJ_JOINT},       {"geom", mjOBJ_GEOM},
    {"site", mjOBJ_SITE},         {"camera", mjOBJ_CAMERA},     {"light", mjOBJ_LIGHT},
    {"actuator", mjOBJ_ACTUATOR}, {"sensor", mjOBJ_SENSOR},     {"tendon", mjOBJ_TENDON},
    {"equality", mjOBJ_EQUALITY}, {"exclude", mjOBJ_EXCLUDE},   {"pair", mjOBJ_PAIR},
    {"key", mjOBJ_KEY},           {"material", mjOBJ_MATERIAL}, {"option", mjOBJ_UNKNOWN},
};

// of sensors, as an MJCF file has them
static const struct {
  const char *name;
  mjtSensor type;
} sensor_types[] = {
    {"touch", mjSENS_TOUCH},
    {"accelerometer", mjSENS_ACCELEROMETER},
    {"velocimeter", mjSENS_VELOCIMETER},
    {"gyro", mjSENS_GYRO},
    {"force", mjSENS_FORCE},
    {"torque", mjSENS_TORQUE},
    {"magnetometer", mjSENS_MAGNETOMETER},
    {"rangefinder", mjSENS_RANGEFINDER},
    {"jointpos", mjSENS_JOINTPOS},
    {"jointvel", mjSENS_JOINTVEL},
    {"tendonpos", mjSENS_TENDONPOS},
    {"tendonvel", mjSENS_TENDONVEL},
    {"actuatorpos", mjSENS_ACTUATORPOS},
    {"actuatorvel", mjSENS_ACTUATORVEL},
    {"actuatorfrc", mjSENS_ACTUATORFRC},
    {"framepos", mjSENS_FRAMEPOS},
    {"framequat", mjSENS_FRAMEQUAT},
    {"framelinvel", mjSENS_FRAMELINVEL},
    {"frameangvel", mjSENS_FRAMEANGVEL},
    {"framelinacc", mjSENS_FRAMELINACC},
    {"frameangacc", mjSENS_FRAMEANGACC},
    {"subtreecom", mjSENS_SUBTREECOM},
    {"subtreelinvel", mjSENS_SUBTREELINVEL},
    {"subtreeangmom", mjSENS_SUBTREEANGMOM},
    {"contact", mjSENS_CONTACT},
    {"user", mjSENS_USER},
};

typedef enum { DOUBLES, FLOATS, INTEGER } ValueType;

// an attribute: `count` numbers at `place` in the structure of its element
static const struct {
  mjtObj object;
  const char *name;
  ValueType type;
  int count;
  size_t place;
} attributes[] = {
    {mjOBJ_BODY, "pos", DOUBLES, 3, offsetof(mjsBody, pos)},
    {mjOBJ_BODY, "quat", DOUBLES, 4, offsetof(mjsBody, quat)},
    {mjOBJ_BODY, "mass", DOUBLES, 1, offsetof(mjsBody, mass)},
    {mjOBJ_BODY, "gravcomp", DOUBLES, 1, offsetof(mjsBody, gravcomp)},
    {mjOBJ_JOINT, "pos", DOUBLES, 3, offsetof(mjsJoint, pos)},
    {mjOBJ_JOINT, "axis", DOUBLES, 3, offsetof(mjsJoint, axis)},
    {mjOBJ_JOINT, "range", DOUBLES, 2, offsetof(mjsJoint, range)},
    {mjOBJ_JOINT, "ref", DOUBLES, 1, offsetof(mjsJoint, ref)},
    {mjOBJ_JOINT, "springref", DOUBLES, 1, offsetof(mjsJoint, springref)},
    {mjOBJ_JOINT, "stiffness", DOUBLES, 1, offsetof(mjsJoint, stiffness)},
    {mjOBJ_JOINT, "damping", DOUBLES, 1, offsetof(mjsJoint, damping)},
    {mjOBJ_JOINT, "armature", DOUBLES, 1, offsetof(mjsJoint, armature)},
    {mjOBJ_JOINT, "frictionloss", DOUBLES, 1, offsetof(mjsJoint, frictionloss)},
    {mjOBJ_GEOM, "pos", DOUBLES, 3, offsetof(mjsGeom, pos)},
    {mjOBJ_GEOM, "quat", DOUBLES, 4, offsetof(mjsGeom, quat)},
    {mjOBJ_GEOM, "size", DOUBLES, 3, offsetof(mjsGeom, size)},
    {mjOBJ_GEOM, "rgba", FLOATS, 4, offsetof(mjsGeom, rgba)},
    {mjOBJ_GEOM, "friction", DOUBLES, 3, offsetof(mjsGeom, friction)},
    {mjOBJ_GEOM, "mass", DOUBLES, 1, offsetof(mjsGeom, mass)},
    {mjOBJ_GEOM, "density", DOUBLES, 1, offsetof(mjsGeom, density)},
    {mjOBJ_GEOM, "contype", INTEGER, 1, offsetof(mjsGeom, contype)},
    {mjOBJ_GEOM, "conaffinity", INTEGER, 1, offsetof(mjsGeom, conaffinity)},
    {mjOBJ_GEOM, "condim", INTEGER, 1, offsetof(mjsGeom, condim)},
    {mjOBJ_GEOM, "margin", DOUBLES, 1, offsetof(mjsGeom, margin)},
    {mjOBJ_GEOM, "gap", DOUBLES, 1, offsetof(mjsGeom, gap)},
    {mjOBJ_SITE, "pos", DOUBLES, 3, offsetof(mjsSite, pos)},
    {mjOBJ_SITE, "size", DOUBLES, 3, offsetof(mjsSite, size)},
    {mjOBJ_SITE, "rgba", FLOATS, 4, offsetof(mjsSite, rgba)},
    {mjOBJ_CAMERA, "pos", DOUBLES, 3, offsetof(mjsCamera, pos)},
    {mjOBJ_CAMERA, "quat", DOUBLES, 4, offsetof(mjsCamera, quat)},
    {mjOBJ_CAMERA, "fovy", DOUBLES, 1, offsetof(mjsCamera, fovy)},
    {mjOBJ_ACTUATOR, "gear", DOUBLES, 6, offsetof(mjsActuator, gear)},
    {mjOBJ_ACTUATOR, "ctrlrange", DOUBLES, 2, offsetof(mjsActuator, ctrlrange)},
    {mjOBJ_ACTUATOR, "forcerange", DOUBLES, 2, offsetof(mjsActuator, forcerange)},
    {mjOBJ_ACTUATOR, "gainprm", DOUBLES, 10, offsetof(mjsActuator, gainprm)},
    {mjOBJ_ACTUATOR, "biasprm", DOUBLES, 10, offsetof(mjsActuator, biasprm)},
    {mjOBJ_UNKNOWN, "timestep", DOUBLES, 1, offsetof(mjOption, timestep)},
    {mjOBJ_UNKNOWN, "gravity", DOUBLES, 3, offsetof(mjOption, gravity)},
    {mjOBJ_UNKNOWN, "wind", DOUBLES, 3, offsetof(mjOption, wind)},
    {mjOBJ_UNKNOWN, "density", DOUBLES, 1, offsetof(mjOption, density)},
    {mjOBJ_UNKNOWN, "viscosity", DOUBLES, 1, offsetof(mjOption, viscosity)},
    {mjOBJ_UNKNOWN, "iterations", INTEGER, 1, offsetof(mjOption, iterations)},
    {mjOBJ_UNKNOWN, "ls_iterations", INTEGER, 1, offsetof(mjOption, ls_iterations)},
};

// ---------------------------------- finding ------------------------------------------------------

static int find_type(const Robot *robot, RobotText word, mjtObj *type) {
  Suggestion nearest = {.word = word.text};
  for (int i = 0; i < COUNT(types); i++) {
    *type = types[i].type;
    if (!strcmp(types[i].name, word.text)) return BFM_OK;
    suggest_try(&nearest, types[i].name);
  }
  return robot_fail(robot, word, "elements of the type '%s' cannot be edited%s", word.text,
                    suggest_say(&nearest, ""));
}

static int find_element(const Robot *robot, mjSpec *spec, const RobotEdit *edit, mjtObj type,
                        mjsElement **element) {
  *element = mjs_findElement(spec, type, edit->name.text);
  if (*element) return BFM_OK;
  Suggestion nearest = {.word = edit->name.text};
  for (mjsElement *e = mjs_firstElement(spec, type); e; e = mjs_nextElement(spec, e)) {
    const char *name = mjs_getString(mjs_getName(e));
    if (*name) suggest_try(&nearest, name);
  }
  return robot_fail(robot, edit->name, "the model has no %s '%s'%s", edit->type.text,
                    edit->name.text, suggest_say(&nearest, ""));
}

// ---------------------------------- removing -----------------------------------------------------

static int remove_sensors(const Robot *robot, mjSpec *spec, RobotText name) {
  const char *word = name.text + strlen("type ");
  Suggestion nearest = {.word = word};
  int row = 0, removed = 0;
  while (row < COUNT(sensor_types) && strcmp(sensor_types[row].name, word)) {
    suggest_try(&nearest, sensor_types[row++].name);
  }
  if (row == COUNT(sensor_types)) {
    return robot_fail(robot, name, "there is no type of sensors '%s'%s", word,
                      suggest_say(&nearest, ""));
  }
  for (mjsElement *e = mjs_firstElement(spec, mjOBJ_SENSOR), *next; e; e = next) {
    next = mjs_nextElement(spec, e);
    if (mjs_asSensor(e)->type != sensor_types[row].type) continue;
    if (mjs_delete(spec, e)) return robot_fail(robot, name, "%s", mjs_getError(spec));
    removed++;
  }
  if (removed) return BFM_OK;
  return robot_fail(robot, name, "the model has no sensor of the type '%s'", word);
}

static int remove_element(const Robot *robot, mjSpec *spec, const RobotEdit *edit, mjtObj type) {
  mjsElement *element;
  if (type == mjOBJ_SENSOR && !strncmp(edit->name.text, "type ", 5)) {
    return remove_sensors(robot, spec, edit->name);
  }
  if (type == mjOBJ_UNKNOWN) return robot_fail(robot, edit->type, "options cannot be removed");
  TRY(find_element(robot, spec, edit, type, &element));
  if (!mjs_delete(spec, element)) return BFM_OK;
  return robot_fail(robot, edit->name, "%s", mjs_getError(spec));
}

// ---------------------------------- adding -------------------------------------------------------

// a camera or site of the world
static int add_element(const Robot *robot, mjSpec *spec, const RobotEdit *edit, mjtObj type) {
  mjsElement *element = mjs_findElement(spec, type, edit->name.text);
  mjsBody *world = mjs_findBody(spec, "world");
  if (type != mjOBJ_CAMERA && type != mjOBJ_SITE) {
    return robot_fail(robot, edit->type, "a %s cannot be added, only a camera or a site",
                      edit->type.text);
  }
  if (element) {
    return robot_fail(robot, edit->name, "the model has a %s '%s' already: change it instead",
                      edit->type.text, edit->name.text);
  }
  if (type == mjOBJ_CAMERA) element = mjs_addCamera(world, NULL)->element;
  else element = mjs_addSite(world, NULL)->element;
  mjs_setName(element, edit->name.text);
  return BFM_OK;
}

// ---------------------------------- changing -----------------------------------------------------

static int read_numbers(const Robot *robot, RobotText value, int most, double *numbers,
                        int *count) {
  const char *text = value.text;
  for (*count = 0; *(text += strspn(text, " \t\n")); (*count)++) {
    char *end;
    double number = number_read(text, &end);
    if (end == text || !isfinite(number) || (*end && !isspace((unsigned char)*end))) {
      return robot_fail(robot, value, "'%s' is not a list of numbers", value.text);
    }
    if (*count == most) {
      return robot_fail(robot, value, "'%s' has more numbers than %d", value.text, most);
    }
    numbers[*count] = number;
    text = end;
  }
  return *count ? BFM_OK : robot_fail(robot, value, "a value is missing");
}

static void *structure_of(mjSpec *spec, mjtObj type, mjsElement *element) {
  switch (type) {
    case mjOBJ_BODY: return mjs_asBody(element);
    case mjOBJ_JOINT: return mjs_asJoint(element);
    case mjOBJ_GEOM: return mjs_asGeom(element);
    case mjOBJ_SITE: return mjs_asSite(element);
    case mjOBJ_CAMERA: return mjs_asCamera(element);
    case mjOBJ_ACTUATOR: return mjs_asActuator(element);
    default: return &spec->option;
  }
}

static int change_element(const Robot *robot, mjSpec *spec, const RobotEdit *edit, mjtObj type) {
  Suggestion nearest = {.word = edit->attribute.text};
  int row = 0, count;
  for (; row < COUNT(attributes); row++) {
    if (attributes[row].object != type) continue;
    if (!strcmp(attributes[row].name, edit->attribute.text)) break;
    suggest_try(&nearest, attributes[row].name);
  }
  if (row == COUNT(attributes)) {
    return robot_fail(robot, edit->attribute, "the attribute '%s' of a %s cannot be changed%s",
                      edit->attribute.text, edit->type.text, suggest_say(&nearest, ""));
  }
  mjsElement *element = NULL;
  double numbers[NUMBERS];
  TRY(read_numbers(robot, edit->value, attributes[row].count, numbers, &count));
  if (type != mjOBJ_UNKNOWN) TRY(find_element(robot, spec, edit, type, &element));
  char *place = (char *)structure_of(spec, type, element) + attributes[row].place;
  for (int i = 0; i < count; i++) {
    switch (attributes[row].type) {
      case DOUBLES: ((double *)place)[i] = numbers[i]; break;
      case FLOATS: ((float *)place)[i] = (float)numbers[i]; break;
      case INTEGER:
        if (fabs(numbers[i]) > INT16_MAX || numbers[i] != floor(numbers[i])) {
          return robot_fail(robot, edit->value, "'%s' is not a whole number of that size",
                            edit->value.text);
        }
        ((int *)place)[i] = (int)numbers[i];
    }
  }
  return BFM_OK;
}

static int make_edit(const Robot *robot, mjSpec *spec, const RobotEdit *edit) {
  mjtObj type;
  TRY(find_type(robot, edit->type, &type));
  if (edit->kind == EDIT_ADD && edit->is_first) TRY(add_element(robot, spec, edit, type));
  return edit->attribute.text ? change_element(robot, spec, edit, type)
                              : remove_element(robot, spec, edit, type);
}

int robot_edit(const Robot *robot, mjSpec *spec) {
  for (int i = 0; i < robot->edit_count; i++) {
    TRY(robot_goes_on(robot, make_edit(robot, spec, robot->edits + i)));
  }
  return BFM_OK;
}
