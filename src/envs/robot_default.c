// What a robot does that its description leaves out, from the model alone. Its physics usually do not
// depend on where it is and where it faces, so by default it does not observe that: a root that moves
// freely is observed by its height, the world's upward direction and its velocities in its own axes.
// A root joint counts as free if nothing holds it: no limit, no spring, no position servo, no tendon
// or constraint between the robot and the world.

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envs/domain.h"
#include "envs/observer.h"
#include "envs/quantities.h"
#include "envs/robot.h"

#define STEP 0.02   // seconds of a control step
#define NOISE 0.01  // bound of the noise around a keyframe, in rad or m
#define SAMPLES 32  // states that are tried to learn something about the model
#define ENOUGH 0.1  // fraction of random states without contacts that makes redrawing cheap
#define NAME_SIZE ROBOT_ELEMENT

typedef struct {
  Robot *robot;
  const mjModel *model;
  mjData *data;
  int *is_root_dof;   // [nv] of a mobile root: observed in its own axes
  int *is_root_qpos;  // [nq] of a mobile root: not observed as positions
  int *is_angle;      // [nq] of a hinge that can turn around: observed as sine and cosine
  int main;           // the root body of the robot itself; 0: nothing moves
  char main_name[NAME_SIZE];
  RobotPart *part;  // that is being written
  int room;         // of its items
} Default;

// ---------------------------------- joints -------------------------------------------------------

// whether a spring or a servo pulls it to a place
static int is_held(const mjModel *m, int joint) {
  if (m->jnt_stiffness[joint] != 0) return 1;
  for (int u = 0; u < m->nu; u++) {
    int on_joint = m->actuator_trntype[u] == mjTRN_JOINT && m->actuator_trnid[2 * u] == joint;
    if (on_joint && m->actuator_biastype[u] == mjBIAS_AFFINE &&
        m->actuator_biasprm[u * mjNBIAS + 1] != 0) {
      return 1;
    }
  }
  return 0;
}

static int is_free(const mjModel *m, int joint) {
  return m->jnt_type[joint] == mjJNT_FREE || (!m->jnt_limited[joint] && !is_held(m, joint));
}

static double vertical(const Default *d, int joint) { return fabs(d->data->xaxis[3 * joint + 2]); }

static int is_horizontal_slide(const Default *d, int joint) {
  return d->model->jnt_type[joint] == mjJNT_SLIDE && vertical(d, joint) < 0.01 &&
         is_free(d->model, joint);
}

// whether it moves and nothing below it does
static int is_root(const mjModel *m, int body) {
  return m->body_dofnum[body] > 0 && m->body_weldid[m->body_parentid[body]] == 0;
}

static int horizontal_slides(const Default *d, int body) {
  int count = 0, first = d->model->body_jntadr[body];
  for (int j = first; j < first + d->model->body_jntnum[body]; j++) {
    count += is_horizontal_slide(d, j);
  }
  return count;
}

// what a tendon wraps around: the body of its object number w; -1: none
static int wrapped_body(const mjModel *m, int w) {
  switch (m->wrap_type[w]) {
    case mjWRAP_SITE: return m->site_bodyid[m->wrap_objid[w]];
    case mjWRAP_SPHERE:
    case mjWRAP_CYLINDER: return m->geom_bodyid[m->wrap_objid[w]];
    default: return -1;
  }
}

// the body of the site that says on which side of a geom a tendon runs; -1: none
static int side_body(const mjModel *m, int w) {
  int type = m->wrap_type[w], site = (int)m->wrap_prm[w];
  return (type == mjWRAP_SPHERE || type == mjWRAP_CYLINDER) && site >= 0 ? m->site_bodyid[site]
                                                                         : -1;
}

// whether bodies that belong together tie a tree to the world
typedef struct {
  int tree, in_tree, fixed;
} Tie;

static void tie_body(Tie *tie, const mjModel *m, int body) {
  if (body < 0) return;
  tie->in_tree |= m->body_treeid[body] == tie->tree;
  tie->fixed |= m->body_weldid[body] == 0;
}

static int is_tied_by_tendon(const mjModel *m, int tree, int tendon) {
  Tie tie = {.tree = tree};
  int first = m->tendon_adr[tendon];
  for (int w = first; w < first + m->tendon_num[tendon]; w++) {
    tie_body(&tie, m, wrapped_body(m, w));
    tie_body(&tie, m, side_body(m, w));
  }
  return tie.in_tree && tie.fixed;
}

static int is_tied_by_equality(const mjModel *m, int tree, int equality) {
  Tie tie = {.tree = tree};
  const int objects[2] = {m->eq_obj1id[equality], m->eq_obj2id[equality]};
  if (m->eq_type[equality] != mjEQ_CONNECT && m->eq_type[equality] != mjEQ_WELD) return 0;
  for (int i = 0; i < 2; i++) {
    int is_site = m->eq_objtype[equality] == mjOBJ_SITE;
    tie_body(&tie, m, is_site ? m->site_bodyid[objects[i]] : objects[i]);
  }
  return tie.in_tree && tie.fixed;
}

// whether a tendon or a constraint ties something of the body's tree to a place in the world
static int is_tied(const mjModel *m, int body) {
  int tree = m->body_treeid[body];
  for (int t = 0; t < m->ntendon; t++) {
    if (is_tied_by_tendon(m, tree, t)) return 1;
  }
  for (int e = 0; e < m->neq; e++) {
    if (is_tied_by_equality(m, tree, e)) return 1;
  }
  return 0;
}

// a root that goes wherever it wants, at least along a line
static int is_mobile(const Default *d, int body) {
  const mjModel *m = d->model;
  int first = m->body_jntadr[body];
  int moves = m->jnt_type[first] == mjJNT_FREE || horizontal_slides(d, body) > 0;
  return moves && !is_tied(m, body);
}

// a root joint of which only what is observed in the root's own axes matters
static int is_dropped(const Default *d, int body, int joint) {
  const mjModel *m = d->model;
  switch (m->jnt_type[joint]) {
    case mjJNT_FREE: return 1;
    case mjJNT_BALL: return 0;
    case mjJNT_SLIDE: return is_horizontal_slide(d, joint) || vertical(d, joint) > 0.99;
    default: break;
  }
  // a hinge is told by the upward direction, unless it is vertical; then it is the heading, which
  // matters to a robot on rails
  if (vertical(d, joint) < 0.01) return 1;
  return is_free(m, joint) && vertical(d, joint) > 0.99 && horizontal_slides(d, body) >= 2;
}

static int joint_size(const mjModel *m, int joint) {
  int type = m->jnt_type[joint];
  return type == mjJNT_FREE ? 7 : type == mjJNT_BALL ? 4 : 1;
}

static void sort_root(Default *d, int body) {
  const mjModel *m = d->model;
  int first = m->body_jntadr[body];
  for (int i = 0; i < m->body_dofnum[body]; i++) d->is_root_dof[m->body_dofadr[body] + i] = 1;
  for (int j = first; j < first + m->body_jntnum[body]; j++) {
    for (int i = 0; i < joint_size(m, j) && is_dropped(d, body, j); i++) {
      d->is_root_qpos[m->jnt_qposadr[j] + i] = 1;
    }
  }
}

// The robot itself is a root of the tree that actuators move. Other roots are objects; they are
// observed from the robot if it is mobile.
static void sort_joints(Default *d) {
  const mjModel *m = d->model;
  int top = quantities_robot(m);
  for (int b = m->nbody - 1; b > 0; b--) {
    if (is_root(m, b) && m->body_rootid[b] == top) d->main = b;
  }
  if (d->main && !is_mobile(d, d->main)) d->main = 0;
  for (int b = 1; b < m->nbody && d->main; b++) {
    if (is_root(m, b) && is_mobile(d, b)) sort_root(d, b);
  }
  for (int j = 0; j < m->njnt; j++) {
    int at = m->jnt_qposadr[j];
    d->is_angle[at] = m->jnt_type[j] == mjJNT_HINGE && is_free(m, j) && !d->is_root_qpos[at];
  }
}

// ---------------------------------- names --------------------------------------------------------

static int is_alias(const Robot *robot, const char *name) {
  for (int i = 0; i < robot->alias_count; i++) {
    if (!strcmp(robot->aliases[i].name, name)) return 1;
  }
  return 0;
}

static int names_body(const Robot *robot, const mjModel *model, const char *name, int body) {
  char position[NAME_SIZE + 8];
  Quantity q;
  size_t pos, mat;
  int at;
  snprintf(position, sizeof position, "%s.pos", name);
  return !is_alias(robot, name) && !quantity_find(&q, model, position) &&
         quantity_frame(&q, model, &pos, &mat, &at) && pos == offsetof(mjData, xpos) && at == body;
}

static int names_sensor(const Robot *robot, const mjModel *model, const char *name, int sensor) {
  Quantity q;
  size_t array;
  int at;
  return !is_alias(robot, name) && !quantity_find(&q, model, name) &&
         quantity_place(&q, model, &array, &at) && array == offsetof(mjData, sensordata) &&
         at == model->sensor_adr[sensor];
}

void robot_element_name(const Robot *robot, const mjModel *model, mjtObj type, int id,
                        char name[NAME_SIZE]) {
  int (*names)(const Robot *, const mjModel *, const char *, int) =
      type == mjOBJ_BODY ? names_body : names_sensor;
  const char *prefix = type == mjOBJ_BODY ? "body" : "sensor";
  const char *has = mj_id2name(model, type, id);
  char typed[NAME_SIZE - 16];
  quantity_typed_name(typed, sizeof typed, has ? has : "");
  for (int prefixed = 0; prefixed < 2 && *typed; prefixed++) {
    snprintf(name, NAME_SIZE, "%s%s%s", prefixed ? prefix : "", prefixed ? ":" : "", typed);
    if (names(robot, model, name, id)) return;
  }
  snprintf(name, NAME_SIZE, "%s:%d", prefix, id);
}

// ---------------------------------- parts --------------------------------------------------------

static int copy_text(Robot *robot, RobotText *out, const char *text) {
  *out = (RobotText){.text = robot_text(robot, text, strlen(text))};
  return out->text ? BFM_OK : BFM_NO_MEMORY;
}

static int add_to(Robot *robot, RobotList *list, int *room, const char *text) {
  if (list->count == *room) {
    int more = 2 * *room + 8;
    RobotText *of = robot_take(robot, (size_t)more * sizeof *of);
    if (!of) return BFM_NO_MEMORY;
    if (list->count) memcpy(of, list->of, (size_t)list->count * sizeof *of);
    list->of = of;
    *room = more;
  }
  return copy_text(robot, &list->of[list->count++], text);
}

static int begin(Default *d, const char *name) {
  Robot *robot = d->robot;
  if (robot->observed_count && !robot->observed[robot->observed_count - 1].items.count) {
    robot->observed_count--;  // nothing was added to the part before
  }
  d->part = &robot->observed[robot->observed_count++];
  *d->part = (RobotPart){0};
  d->room = 0;
  return copy_text(robot, &d->part->name, name);
}

static int add(Default *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int add(Default *d, const char *format, ...) {
  char text[2 * NAME_SIZE + 16];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return add_to(d->robot, &d->part->items, &d->room, text);
}

static int note(Default *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int note(Default *d, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return add_to(d->robot, &d->robot->notes, &d->robot->note_room, text);
}

// the numbers from..to of an array: "qvel.6..", "qpos.3..5", "qpos"
static int add_range(Default *d, const char *array, int from, int to, int size) {
  if (from > to) return BFM_OK;
  if (from == 0 && to == size - 1) return add(d, "%s", array);
  if (from == to) return add(d, "%s.%d", array, from);
  if (to == size - 1) return add(d, "%s.%d..", array, from);
  return add(d, "%s.%d..%d", array, from, to);
}

static int add_positions(Default *d) {
  int from = 0, size = (int)d->model->nq;
  TRY(begin(d, "joints"));
  for (int i = 0; i <= size; i++) {
    if (i < size && !d->is_root_qpos[i] && !d->is_angle[i]) continue;
    TRY(add_range(d, "qpos", from, i - 1, size));
    if (i < size && d->is_angle[i]) {
      TRY(add(d, "sin(qpos.%d)", i));
      TRY(add(d, "cos(qpos.%d)", i));
    }
    from = i + 1;
  }
  return BFM_OK;
}

static int add_velocities(Default *d) {
  int from = 0, size = (int)d->model->nv;
  TRY(begin(d, "joint_velocities"));
  for (int i = 0; i <= size; i++) {
    if (i < size && !d->is_root_dof[i]) continue;
    TRY(add_range(d, "qvel", from, i - 1, size));
    from = i + 1;
  }
  return BFM_OK;
}

// ---------------------------------- the root -----------------------------------------------------

// puts data into the state number `sample` of some that differ in everything
static void set_sample(Default *d, int sample) {
  const mjModel *m = d->model;
  Draws draw = draw_new(1, 0, (uint32_t)sample);
  mj_resetData(m, d->data);
  for (int i = 0; i < m->nv; i++) d->data->qvel[i] = draw_normal(&draw);
  mj_integratePos(m, d->data->qpos, d->data->qvel, 1);
  mj_kinematics(m, d->data);
  mj_comPos(m, d->data);
  mj_comVel(m, d->data);
}

static double read_one(const Default *d, const Quantity *q) {
  double values[16];
  q->source.read(d->model, d->data, q->source.kind, q->source.id, values);
  return values[q->first];
}

// adds those of the root's numbers that are not always the same: a planar robot has no sideways velocity
static int add_varying(Default *d, const char *body, const char *const *parts, int count) {
  for (int i = 0; i < count; i++) {
    char name[NAME_SIZE + 8];
    Quantity q;
    snprintf(name, sizeof name, "%s.%s", body, parts[i]);
    int status = quantity_find(&q, d->model, name);
    if (status) return status == QUANTITY_UNKNOWN ? bfm_fail(BFM_BAD_FILE, "no %s", name) : status;
    double low = INFINITY, high = -INFINITY;
    for (int sample = 0; sample < 8; sample++) {
      set_sample(d, sample);
      double value = read_one(d, &q);
      low = fmin(low, value);
      high = fmax(high, value);
    }
    if (high - low > 1e-9) TRY(add(d, "%s", name));
  }
  return BFM_OK;
}

static int add_root(Default *d) {
  static const char *const height[] = {"z"}, *const up[] = {"zx", "zy", "zz"};
  static const char *const velocity[] = {"lvx", "lvy", "lvz", "lwx", "lwy", "lwz"};
  if (!d->main) return BFM_OK;
  robot_element_name(d->robot, d->model, mjOBJ_BODY, d->main, d->main_name);
  TRY(begin(d, "height"));
  TRY(add_varying(d, d->main_name, height, 1));
  TRY(begin(d, "up"));
  TRY(add_varying(d, d->main_name, up, 3));
  TRY(begin(d, "velocity"));
  return add_varying(d, d->main_name, velocity, 6);
}

// other things that go wherever they want, as the robot sees them
static int add_objects(Default *d) {
  const mjModel *m = d->model;
  if (!d->main) return BFM_OK;
  TRY(begin(d, "objects"));
  for (int b = 1; b < m->nbody; b++) {
    if (b == d->main || !is_root(m, b) || !is_mobile(d, b)) continue;
    char name[NAME_SIZE];
    robot_element_name(d->robot, d->model, mjOBJ_BODY, b, name);
    TRY(add(d, "%s in %s", name, d->main_name));
    TRY(add(d, "%s.xaxis in %s", name, d->main_name));
    TRY(add(d, "%s.zaxis in %s", name, d->main_name));
    TRY(add(d, "%s.vel in %s", name, d->main_name));
    TRY(add(d, "%s.angvel in %s", name, d->main_name));
  }
  return BFM_OK;
}

// ---------------------------------- sensors ------------------------------------------------------

// sensors whose readings are no function of the state
static int is_left_out(int type) {
  return type == mjSENS_CLOCK || type == mjSENS_USER || type == mjSENS_PLUGIN;
}

// whether an object of a sensor stays where it is in the world; without an object, the world itself
static int is_fixed(const mjModel *m, int type, int id) {
  if (id < 0) return 1;
  switch (type) {
    case mjOBJ_BODY:
    case mjOBJ_XBODY: return m->body_weldid[id] == 0;
    case mjOBJ_GEOM: return m->body_weldid[m->geom_bodyid[id]] == 0;
    case mjOBJ_SITE: return m->body_weldid[m->site_bodyid[id]] == 0;
    case mjOBJ_CAMERA: return m->body_weldid[m->cam_bodyid[id]] == 0;
    default: return 1;
  }
}

static int is_joint_global(const mjModel *m, int joint) { return is_root(m, m->jnt_bodyid[joint]); }

static int is_actuator_global(const mjModel *m, int actuator) {
  int type = m->actuator_trntype[actuator];
  return (type == mjTRN_JOINT || type == mjTRN_JOINTINPARENT) &&
         is_joint_global(m, m->actuator_trnid[2 * actuator]);
}

int robot_sensor_is_global(const mjModel *m, int sensor) {
  int object = m->sensor_objid[sensor];
  int object_fixed = is_fixed(m, m->sensor_objtype[sensor], object);
  int reference_fixed = is_fixed(m, m->sensor_reftype[sensor], m->sensor_refid[sensor]);
  switch (m->sensor_type[sensor]) {
    case mjSENS_FRAMEPOS:
    case mjSENS_FRAMEQUAT:
    case mjSENS_FRAMEXAXIS:
    case mjSENS_FRAMEYAXIS:
    case mjSENS_FRAMEZAXIS:
    case mjSENS_FRAMELINVEL:
    case mjSENS_FRAMEANGVEL:
    case mjSENS_GEOMDIST: return object_fixed != reference_fixed;
    case mjSENS_JOINTPOS:
    case mjSENS_JOINTVEL:
    case mjSENS_BALLQUAT: return is_joint_global(m, object);
    case mjSENS_ACTUATORPOS:
    case mjSENS_ACTUATORVEL: return is_actuator_global(m, object);
    case mjSENS_FRAMELINACC:
    case mjSENS_FRAMEANGACC:
    case mjSENS_SUBTREECOM:
    case mjSENS_SUBTREELINVEL:
    case mjSENS_SUBTREEANGMOM:
    case mjSENS_MAGNETOMETER:
    case mjSENS_GEOMNORMAL:
    case mjSENS_GEOMFROMTO:
    case mjSENS_RANGEFINDER:
    case mjSENS_CAMPROJECTION:
    case mjSENS_INSIDESITE:
    case mjSENS_CONTACT: return 1;
    default: return 0;
  }
}

// a list of names for a note, which ends with "…" when it becomes long
static void append_name(char list[256], const char *name) {
  size_t used = strlen(list);
  if (used >= 160) return;
  used += (size_t)snprintf(list + used, 256 - used, "%s%.80s", used ? ", " : "", name);
  if (used >= 160) snprintf(list + used, 256 - used, ", …");
}

static int add_sensors(Default *d) {
  const mjModel *m = d->model;
  char name[NAME_SIZE], global[256] = "", left_out[256] = "";
  TRY(begin(d, "sensors"));
  for (int s = 0; s < m->nsensor; s++) {
    robot_element_name(d->robot, d->model, mjOBJ_SENSOR, s, name);
    if (is_left_out(m->sensor_type[s])) {
      append_name(left_out, name);
      continue;
    }
    if (m->sensor_dim[s] > 0) TRY(add(d, "%s", name));
    if (d->main && robot_sensor_is_global(m, s)) append_name(global, name);
  }
  if (*left_out) {
    TRY(note(d, "not observed, because they do not depend on the state alone: the sensors %s",
             left_out));
  }
  if (!*global) return BFM_OK;
  return note(d, "these sensors depend on where the robot is or faces in the world: %s", global);
}

static int add_observed(Default *d) {
  Robot *robot = d->robot;
  robot->observed = robot_take(robot, OBS_PARTS * sizeof *robot->observed);
  if (!robot->observed) return BFM_NO_MEMORY;
  TRY(add_positions(d));
  TRY(add_root(d));
  TRY(add_velocities(d));
  TRY(add_objects(d));
  TRY(begin(d, "activations"));
  if (d->model->na) TRY(add(d, "act"));
  TRY(add_sensors(d));
  if (!d->part->items.count) robot->observed_count--;
  return BFM_OK;
}

// ---------------------------------- resets -------------------------------------------------------

// the number of qpos that lifts the robot, -1: none
static int height_of(const Default *d) {
  const mjModel *m = d->model;
  int body = quantities_robot(m), first = m->body_jntadr[body], found = -1;
  for (int j = first; j < first + m->body_jntnum[body]; j++) {
    int at = m->jnt_qposadr[j];
    if (m->jnt_type[j] == mjJNT_FREE) found = at + 2;
    if (m->jnt_type[j] == mjJNT_SLIDE && m->jnt_axis[3 * j + 2] > 0.99) found = at;
  }
  return found;
}

typedef struct {
  double nothing, floor;  // fractions of random states in which nothing touches, and not the floor
} Contacts;

static int touches_floor(const mjModel *m, const mjData *data) {
  for (int c = 0; c < data->ncon; c++) {
    for (int side = 0; side < 2; side++) {
      int geom = data->contact[c].geom[side];
      if (geom >= 0 && m->body_weldid[m->geom_bodyid[geom]] == 0) return 1;
    }
  }
  return 0;
}

// what touches in random states, with the robot far above the floor if it can be lifted
static Contacts probe(Default *d, int height) {
  const mjModel *m = d->model;
  const World world = {.model = (mjModel *)(uintptr_t)m};
  Contacts contacts = {0};
  for (int sample = 0; sample < SAMPLES; sample++) {
    Draws draw = draw_new(2, 0, (uint32_t)sample);
    mj_resetData(m, d->data);
    draw_joints(&world, d->data, &draw);
    if (height >= 0) d->data->qpos[height] += 100;
    mj_fwdPosition(m, d->data);
    contacts.nothing += !d->data->ncon / (double)SAMPLES;
    contacts.floor += !touches_floor(m, d->data) / (double)SAMPLES;
  }
  return contacts;
}

static RobotReset *step(Robot *robot, ResetKind kind) {
  RobotReset *reset = &robot->resets[robot->reset_count++];
  *reset = (RobotReset){.kind = kind, .from = NAN, .by = 0.01};
  return reset;
}

// Only of positions: some models hold joints by a damping that velocities would make explode.
static void add_noise(Robot *robot) {
  step(robot, RESET_NOISE)->qpos = (RobotNoise){.size = NOISE};
}

// the keyframe of a robot at rest, or the first one
static int choose_keyframe(const mjModel *m) {
  static const char *const words[] = {"home", "stand", "rest", "init", "default"};
  for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
    for (int k = 0; k < m->nkey; k++) {
      const char *name = mj_id2name(m, mjOBJ_KEY, k);
      if (name && !strcmp(name, words[w])) return k;
    }
  }
  return 0;
}

static int add_resets(Default *d) {
  Robot *robot = d->robot;
  int height = height_of(d);
  Contacts contacts = probe(d, height);
  int above = height >= 0 && contacts.floor > 1 - 1e-9;  // no object lies on the floor
  robot->resets = robot_take(robot, 4 * sizeof *robot->resets);
  if (!robot->resets) return BFM_NO_MEMORY;
  robot->has_resets = 1;
  if (d->model->nkey) {
    char number[16];
    snprintf(number, sizeof number, "%d", choose_keyframe(d->model));
    TRY(copy_text(robot, &step(robot, RESET_KEYFRAME)->text, number));
    add_noise(robot);
    if (above) step(robot, RESET_RAISE);
  } else if (above) {
    step(robot, RESET_JOINTS);
    step(robot, RESET_RAISE);
    if (contacts.nothing > ENOUGH && contacts.nothing < 1 - 1e-9) step(robot, RESET_REDRAW);
  } else if (contacts.nothing > ENOUGH) {
    step(robot, RESET_JOINTS);
    if (contacts.nothing < 1 - 1e-9) step(robot, RESET_REDRAW);
  } else if (contacts.floor > ENOUGH) {
    step(robot, RESET_JOINTS);
    step(robot, RESET_REDRAW)->limited = 1;
  } else {
    add_noise(robot);
  }
  return BFM_OK;
}

// ---------------------------------- the rest -----------------------------------------------------

static int check_numbers(const Robot *robot, const char *what, const mjtNum *x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (isfinite(x[i])) continue;
    return bfm_fail(BFM_BAD_FILE, "%s: %s of the model contains %g", robot->file, what, x[i]);
  }
  return BFM_OK;
}

static int check_model(const Robot *robot, const mjModel *m) {
  if (!m->nv)
    return bfm_fail(BFM_BAD_FILE, "%s: the model has no joints, so nothing moves", robot->file);
  if (!m->nu) {
    return bfm_fail(BFM_BAD_FILE,
                    "%s: the model has no actuators, so there is nothing to learn: add "
                    "an <actuator>",
                    robot->file);
  }
  if (m->nu > CTRL_MAX) {
    return bfm_fail(BFM_BAD_FILE, "%s: the model has %d controls, but at most %d are supported",
                    robot->file, (int)m->nu, CTRL_MAX);
  }
  if (!(m->opt.timestep > 0 && m->opt.timestep <= 1)) {
    return bfm_fail(BFM_BAD_FILE, "%s: the timestep is %g s", robot->file, m->opt.timestep);
  }
  TRY(check_numbers(robot, "qpos0", m->qpos0, m->nq));
  TRY(check_numbers(robot, "a keyframe", m->key_qpos, (int64_t)m->nkey * m->nq));
  TRY(check_numbers(robot, "a keyframe", m->key_qvel, (int64_t)m->nkey * m->nv));
  TRY(check_numbers(robot, "a joint's range", m->jnt_range, 2 * (int64_t)m->njnt));
  TRY(check_numbers(robot, "a control's range", m->actuator_ctrlrange, 2 * (int64_t)m->nu));
  TRY(check_numbers(robot, "a body's mass", m->body_mass, m->nbody));
  return check_numbers(robot, "gravity", m->opt.gravity, 3);
}

static int note_controls(Default *d) {
  const mjModel *m = d->model;
  int count = 0, first = -1;
  for (int u = m->nu - 1; u >= 0; u--) {
    if (!m->actuator_ctrllimited[u]) first = u, count++;
  }
  if (!count) return BFM_OK;
  const char *name = mj_id2name(m, mjOBJ_ACTUATOR, first);
  char numbered[32];
  snprintf(numbered, sizeof numbered, "number %d", first);
  return note(d,
              "%d of %d controls have no range in the model (the first is %.64s): theirs is "
              "that of the joint for a position servo, and ±1 for others",
              count, (int)m->nu, name ? name : numbered);
}

// a camera that follows a mobile robot
static int choose_camera(Default *d) {
  const mjModel *m = d->model;
  for (int c = 0; c < m->ncam && d->main; c++) {
    const char *name = mj_id2name(m, mjOBJ_CAMERA, c);
    int tracks = m->cam_mode[c] == mjCAMLIGHT_TRACK || m->cam_mode[c] == mjCAMLIGHT_TRACKCOM;
    int ours = m->body_rootid[m->cam_bodyid[c]] == m->body_rootid[d->main];
    if (tracks && ours && name && *name) return copy_text(d->robot, &d->robot->camera, name);
  }
  return BFM_OK;
}

static int count_numbers(Default *d) {
  Robot *robot = d->robot;
  Observer *observer;
  int problems = robot_problem_count(robot);
  TRY(observer_new(&observer, robot, d->model));
  int size = observer_size(observer);
  observer_free(observer);
  if (robot_problem_count(robot) > problems) return BFM_OK;
  if (!robot->size) robot->size = size;
  return robot_goes_on(robot, robot_check_size(robot, size));
}

static int choose_substeps(Default *d) {
  double fitting = rint(STEP / d->model->opt.timestep);
  if (d->robot->substeps) return BFM_OK;
  if (fitting > ROBOT_SUBSTEPS) {
    return bfm_fail(
        BFM_BAD_FILE,
        "%s: with a timestep of %g s, a control step of %g s has %.0f physics steps, but at "
        "most %d are supported: write substeps into a robot file, or take a longer timestep",
        d->robot->file, d->model->opt.timestep, STEP, fitting, ROBOT_SUBSTEPS);
  }
  d->robot->substeps = fitting > 0 ? (int)fitting : 1;
  return BFM_OK;
}

static int complete(Default *d) {
  Robot *robot = d->robot;
  const mjModel *m = d->model;
  TRY(choose_substeps(d));
  if (!robot->episode) robot->episode = 1000;
  if (robot->actions == ACTIONS_UNSET) robot->actions = ACTIONS_RANGE;
  mj_kinematics(m, d->data);
  sort_joints(d);
  if (!robot->camera.text) TRY(choose_camera(d));
  if (!robot->observed_count) TRY(add_observed(d));
  if (!robot->has_resets) TRY(add_resets(d));
  TRY(note_controls(d));
  return count_numbers(d);
}

int robot_complete(Robot *robot, const mjModel *model) {
  TRY(check_model(robot, model));
  Default d = {.robot = robot, .model = model, .data = mj_makeData(model)};
  d.is_root_dof = calloc((size_t)model->nv, sizeof(int));
  d.is_root_qpos = calloc((size_t)model->nq, sizeof(int));
  d.is_angle = calloc((size_t)model->nq, sizeof(int));
  int status = d.data && d.is_root_dof && d.is_root_qpos && d.is_angle
                   ? complete(&d)
                   : bfm_fail(BFM_NO_MEMORY, "out of memory for %s", robot->file);
  if (d.data) mj_deleteData(d.data);
  free(d.is_root_dof);
  free(d.is_root_qpos);
  free(d.is_angle);
  return status;
}
