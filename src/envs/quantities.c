// Named quantities of a MuJoCo model, defined by two tables: the kinds of objects that a name can
// stand for, in search order, and the attributes of each kind. Velocities and momenta are computed
// here from the bodies' spatial velocities (cvel), which need only mj_comVel, not the rest of
// mj_fwdVelocity nor mj_subtreeVel over the whole model.

#include "envs/quantities.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// kinds of objects, as bits, because an attribute can belong to several kinds
enum {
  BODY = 1,
  SITE = 2,
  GEOM = 4,
  HINGE = 8,  // hinge and slide joints
  BALL = 16,
  FREE = 32,
  SENSOR = 64,
  ACTUATOR = 128,
  ARRAY = 256,  // a whole array of mjData
  FRAME = BODY | SITE | GEOM,
  JOINT = HINGE | BALL | FREE,
};

typedef struct {
  int kind;
  const char *prefix, *title;
  int object;  // mjtObj
} Kind;

static const Kind kinds[] = {
    {BODY, "body", "bodies", mjOBJ_BODY},
    {SITE, "site", "sites", mjOBJ_SITE},
    {GEOM, "geom", "geoms", mjOBJ_GEOM},
    {HINGE, "joint", "joints", mjOBJ_JOINT},
    {BALL, "joint", "ball joints", mjOBJ_JOINT},
    {FREE, "joint", "free joints", mjOBJ_JOINT},
    {SENSOR, "sensor", "sensors", mjOBJ_SENSOR},
    {ACTUATOR, "actuator", "actuators", mjOBJ_ACTUATOR},
};

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))
#define NAME_SIZE 128

// ---------------------------------- reading ------------------------------------------------------

typedef struct {
  const mjtNum *pos, *mat;
  int body;
} Frame;

static Frame frame_of(const mjModel *m, const mjData *d, int kind, int id) {
  switch (kind) {
    case SITE: return (Frame){d->site_xpos + 3 * id, d->site_xmat + 9 * id, m->site_bodyid[id]};
    case GEOM: return (Frame){d->geom_xpos + 3 * id, d->geom_xmat + 9 * id, m->geom_bodyid[id]};
    default: return (Frame){d->xpos + 3 * id, d->xmat + 9 * id, id};
  }
}

static void copy(double *out, const mjtNum *in, int count) {
  memcpy(out, in, (size_t)count * sizeof *out);
}

static void read_pos(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  copy(out, frame_of(m, d, kind, id).pos, 3);
}

static void read_mat(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  copy(out, frame_of(m, d, kind, id).mat, 9);
}

// a column of the rotation matrix: an axis of the object, in the world
static void read_axis(const mjModel *m, const mjData *d, int kind, int id, int axis, double *out) {
  const mjtNum *mat = frame_of(m, d, kind, id).mat;
  for (int i = 0; i < 3; i++) out[i] = mat[3 * i + axis];
}

static void read_xaxis(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  read_axis(m, d, kind, id, 0, out);
}

static void read_yaxis(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  read_axis(m, d, kind, id, 1, out);
}

static void read_zaxis(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  read_axis(m, d, kind, id, 2, out);
}

static void read_angvel(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  copy(out, d->cvel + 6 * frame_of(m, d, kind, id).body, 3);
}

// velocity of a point that moves with a body; cvel refers to the centre of mass of the whole tree
static void velocity_at(const mjModel *m, const mjData *d, int body, const mjtNum *point,
                        double *out) {
  const mjtNum *w = d->cvel + 6 * body, *v = w + 3;
  const mjtNum *origin = d->subtree_com + 3 * m->body_rootid[body];
  double x = point[0] - origin[0], y = point[1] - origin[1], z = point[2] - origin[2];
  out[0] = v[0] + w[1] * z - w[2] * y;
  out[1] = v[1] + w[2] * x - w[0] * z;
  out[2] = v[2] + w[0] * y - w[1] * x;
}

static void read_vel(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  Frame frame = frame_of(m, d, kind, id);
  velocity_at(m, d, frame.body, frame.pos, out);
}

static void read_local_vel(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  double vel[3];
  read_vel(m, d, kind, id, vel);
  mju_mulMatTVec3(out, frame_of(m, d, kind, id).mat, vel);
}

static void read_local_angvel(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  Frame frame = frame_of(m, d, kind, id);
  mju_mulMatTVec3(out, frame.mat, d->cvel + 6 * frame.body);
}

static void read_com(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)m, (void)kind;
  copy(out, d->subtree_com + 3 * id, 3);
}

static void read_own_com(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)m, (void)kind;
  copy(out, d->xipos + 3 * id, 3);
}

// the end of a subtree: bodies are numbered depth first, so it is id … end-1
static int subtree_end(const mjModel *m, int id) {
  int end = id + 1;
  while (end < m->nbody && m->body_parentid[end] >= id) end++;
  return end;
}

static void read_com_vel(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)kind;
  int end = subtree_end(m, id);
  out[0] = out[1] = out[2] = 0;
  for (int b = id; b < end; b++) {
    double v[3];
    velocity_at(m, d, b, d->xipos + 3 * b, v);
    for (int i = 0; i < 3; i++) out[i] += m->body_mass[b] * v[i];
  }
  double mass = m->body_subtreemass[id];
  for (int i = 0; i < 3; i++) out[i] /= mass > mjMINVAL ? mass : mjMINVAL;
}

// angular momentum about the subtree's centre of mass: sum of I w + m (x - c) × (v - v_c)
static void read_angmom(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  const mjtNum *c = d->subtree_com + 3 * id;
  double vc[3];
  read_com_vel(m, d, kind, id, vc);

  int end = subtree_end(m, id);
  out[0] = out[1] = out[2] = 0;
  for (int b = id; b < end; b++) {
    // spin
    const mjtNum *R = d->ximat + 9 * b, *w = d->cvel + 6 * b, *inertia = m->body_inertia + 3 * b;
    for (int k = 0; k < 3; k++) {
      double local = inertia[k] * (R[k] * w[0] + R[3 + k] * w[1] + R[6 + k] * w[2]);
      for (int i = 0; i < 3; i++) out[i] += R[3 * i + k] * local;
    }
    // orbit
    const mjtNum *x = d->xipos + 3 * b;
    double v[3], r[3], mass = m->body_mass[b];
    velocity_at(m, d, b, x, v);
    for (int i = 0; i < 3; i++) r[i] = x[i] - c[i], v[i] -= vc[i];
    out[0] += mass * (r[1] * v[2] - r[2] * v[1]);
    out[1] += mass * (r[2] * v[0] - r[0] * v[2]);
    out[2] += mass * (r[0] * v[1] - r[1] * v[0]);
  }
}

static void read_hinge_pos(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)kind;
  out[0] = d->qpos[m->jnt_qposadr[id]];
}

static void read_hinge_vel(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)kind;
  out[0] = d->qvel[m->jnt_dofadr[id]];
}

static void read_joint_pos(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)kind;
  copy(out, d->qpos + m->jnt_qposadr[id], 3);
}

static void read_joint_quat(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  copy(out, d->qpos + m->jnt_qposadr[id] + (kind == FREE ? 3 : 0), 4);
}

static void read_joint_vel(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)kind;
  copy(out, d->qvel + m->jnt_dofadr[id], 3);
}

static void read_joint_angvel(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  copy(out, d->qvel + m->jnt_dofadr[id] + (kind == FREE ? 3 : 0), 3);
}

static void read_sensor(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)kind;
  copy(out, d->sensordata + m->sensor_adr[id], m->sensor_dim[id]);
}

static void read_ctrl(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)m, (void)kind;
  out[0] = d->ctrl[id];
}

static void read_force(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)m, (void)kind;
  out[0] = d->actuator_force[id];
}

static void read_act(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)kind;
  int address = m->actuator_actadr[id];
  out[0] = address >= 0 ? d->act[address] : 0;
}

// ---------------------------------- attributes ---------------------------------------------------

typedef struct {
  int kinds;
  const char *name;        // name of the whole vector
  const char *components;  // names of its numbers, in the order in which they are read
  int size;
  QuantityRead *read;
  int needs;
  const char *help;
} Attribute;

#define POSITION NEEDS_KINEMATICS
#define VELOCITY (NEEDS_KINEMATICS | NEEDS_COM | NEEDS_VELOCITY)

// the bare name of an object means the first row of its kind
static const Attribute attributes[] = {
    {FRAME, "pos", "x y z", 3, read_pos, POSITION, "position of the origin"},
    {FRAME, "vel", "vx vy vz", 3, read_vel, VELOCITY, "velocity of the origin"},
    {FRAME, "angvel", "wx wy wz", 3, read_angvel, VELOCITY, "angular velocity"},
    {FRAME, "mat", "xx xy xz yx yy yz zx zy zz", 9, read_mat, POSITION,
     "rotation matrix; zz is 1 when upright"},
    {FRAME, "xaxis", "", 3, read_xaxis, POSITION, "its x axis, in the world"},
    {FRAME, "yaxis", "", 3, read_yaxis, POSITION, "its y axis, in the world"},
    {FRAME, "zaxis", "", 3, read_zaxis, POSITION, "its z axis, in the world"},
    {FRAME, "lvel", "lvx lvy lvz", 3, read_local_vel, VELOCITY, "velocity, in its own axes"},
    {FRAME, "langvel", "lwx lwy lwz", 3, read_local_angvel, VELOCITY,
     "angular velocity, in its own axes"},
    {BODY, "com", "com.x com.y com.z", 3, read_com, POSITION | NEEDS_COM,
     "centre of mass of the body and all it carries"},
    {BODY, "ipos", "ipos.x ipos.y ipos.z", 3, read_own_com, POSITION,
     "centre of mass of the body alone"},
    {BODY, "com.vel", "com.vx com.vy com.vz", 3, read_com_vel, VELOCITY,
     "velocity of this centre of mass"},
    {BODY, "angmom", "angmom.x angmom.y angmom.z", 3, read_angmom, VELOCITY,
     "angular momentum about this centre of mass"},

    {HINGE, "q", "q", 1, read_hinge_pos, 0, "angle or distance, like the bare name"},
    {HINGE, "v", "v", 1, read_hinge_vel, 0, "velocity of the joint"},
    {FREE, "pos", "x y z", 3, read_joint_pos, 0, "position"},
    {BALL | FREE, "quat", "qw qx qy qz", 4, read_joint_quat, 0, "orientation, a quaternion"},
    {FREE, "vel", "vx vy vz", 3, read_joint_vel, 0, "velocity"},
    {BALL | FREE, "angvel", "wx wy wz", 3, read_joint_angvel, 0,
     "angular velocity, in the joint's own axes"},

    {ACTUATOR, "u", "u", 1, read_ctrl, 0, "control"},
    {ACTUATOR, "force", "force", 1, read_force, NEEDS_FORCE, "force"},
    {ACTUATOR, "act", "act", 1, read_act, 0, "activation; 0 for actuators without a state"},
};

// whole arrays of mjData, which are vectors with these names
enum { CTRL, QPOS, QVEL, ACT, ACTUATOR_FORCE };

static const struct {
  const char *name, *help;
  int needs;
} arrays[] = {
    [CTRL] = {"ctrl", "all controls", 0},
    [QPOS] = {"qpos", "all joint positions", 0},
    [QVEL] = {"qvel", "all joint velocities", 0},
    [ACT] = {"act", "all activations", 0},
    [ACTUATOR_FORCE] = {"actuator_force", "all actuator forces", NEEDS_FORCE},
};

static const mjtNum *array_of(const mjData *d, int id) {
  const mjtNum *data[] = {d->ctrl, d->qpos, d->qvel, d->act, d->actuator_force};
  return data[id];
}

static int array_size(const mjModel *m, int id) {
  int sizes[] = {(int)m->nu, (int)m->nq, (int)m->nv, (int)m->na, (int)m->nu};
  return sizes[id];
}

static void read_array(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)kind;
  copy(out, array_of(d, id), array_size(m, id));
}

// Sensors that mj_sensorPos and mj_sensorVel can fill after mj_comVel. Others need the whole
// position or velocity stage.
static const int light_sensors[] = {
    mjSENS_VELOCIMETER,   mjSENS_GYRO,        mjSENS_MAGNETOMETER, mjSENS_JOINTPOS,
    mjSENS_JOINTVEL,      mjSENS_BALLQUAT,    mjSENS_BALLANGVEL,   mjSENS_FRAMEPOS,
    mjSENS_FRAMEQUAT,     mjSENS_FRAMEXAXIS,  mjSENS_FRAMEYAXIS,   mjSENS_FRAMEZAXIS,
    mjSENS_FRAMELINVEL,   mjSENS_FRAMEANGVEL, mjSENS_SUBTREECOM,   mjSENS_SUBTREELINVEL,
    mjSENS_SUBTREEANGMOM,
};

static int sensor_needs(const mjModel *m, int id) {
  int light = 0;
  for (int i = 0; i < COUNT(light_sensors); i++) light |= m->sensor_type[id] == light_sensors[i];
  switch (m->sensor_needstage[id]) {
    case mjSTAGE_POS:
      return light ? POSITION | NEEDS_COM | NEEDS_SENSOR_POS : NEEDS_ALL_POS | NEEDS_SENSOR_POS;
    case mjSTAGE_VEL:
      return light ? VELOCITY | NEEDS_SENSOR_VEL
                   : NEEDS_ALL_POS | NEEDS_ALL_VEL | NEEDS_SENSOR_POS | NEEDS_SENSOR_VEL;
    default: return NEEDS_FORCE;
  }
}

// ---------------------------------- names --------------------------------------------------------

static char typed(char c) { return isalnum((unsigned char)c) ? c : '_'; }

void quantity_typed_name(char *out, size_t size, const char *name) {
  size_t i = 0;
  for (; name[i] && i + 1 < size; i++) out[i] = typed(name[i]);
  out[i] = 0;
}

int quantity_is_prefix(const char *word, size_t length) {
  for (int i = 0; i < COUNT(kinds); i++) {
    if (strlen(kinds[i].prefix) == length && !strncmp(kinds[i].prefix, word, length)) return 1;
  }
  return 0;
}

static int object_count(const mjModel *m, const Kind *kind) {
  switch (kind->kind) {
    case BODY: return (int)m->nbody;
    case SITE: return (int)m->nsite;
    case GEOM: return (int)m->ngeom;
    case SENSOR: return (int)m->nsensor;
    case ACTUATOR: return (int)m->nu;
    default: return (int)m->njnt;
  }
}

// whether it is a joint of the kind's type, or no joint
static int object_is(const mjModel *m, const Kind *kind, int id) {
  if (!(kind->kind & JOINT)) return 1;
  int type = m->jnt_type[id];
  return kind->kind == (type == mjJNT_FREE ? FREE : type == mjJNT_BALL ? BALL : HINGE);
}

// the name of an object of this kind; NULL if it has none or is a joint of another type
static const char *object_name(const mjModel *m, const Kind *kind, int id) {
  if (!object_is(m, kind, id)) return NULL;
  const char *name = mj_id2name(m, kind->object, id);
  return name && name[0] ? name : NULL;
}

static int object_find(const mjModel *m, const Kind *kind, const char *name, size_t length) {
  int count = object_count(m, kind);
  for (int id = 0; id < count; id++) {
    const char *has = object_name(m, kind, id);
    if (!has || strlen(has) != length) continue;
    size_t i = 0;
    while (i < length && typed(has[i]) == name[i]) i++;
    if (i == length) return id;
  }
  return -1;
}

// the object with this number: "3" behind a prefix, for objects without a name
static int object_numbered(const mjModel *m, const Kind *kind, const char *text, size_t length) {
  char *end;
  if (!isdigit((unsigned char)*text)) return -1;
  long id = strtol(text, &end, 10);
  if (end != text + length || id >= object_count(m, kind)) return -1;
  return object_is(m, kind, (int)id) ? (int)id : -1;
}

// index of a word in a list of words, or -1
static int word_index(const char *words, const char *word) {
  size_t length = strlen(word);
  for (int index = 0; *words; index++) {
    size_t n = strcspn(words, " ");
    if (n == length && !memcmp(words, word, n)) return index;
    words += n + strspn(words + n, " ");
  }
  return -1;
}

// the value of a text such as "17" if it is below size, else -1
static int number_index(const char *text, int size) {
  char *end;
  if (!isdigit((unsigned char)*text)) return -1;
  long index = strtol(text, &end, 10);
  return *end || index >= size ? -1 : (int)index;
}

static int can_move(const mjModel *m, int body) {
  int end = subtree_end(m, body);
  for (int i = body; i < end; i++) {
    if (m->body_dofnum[i] > 0) return 1;
  }
  return 0;
}

// a body that an actuator moves, or 0
static int actuated_body(const mjModel *m, int actuator) {
  int id = m->actuator_trnid[2 * actuator];
  if (id < 0) return 0;
  switch (m->actuator_trntype[actuator]) {
    case mjTRN_JOINT:
    case mjTRN_JOINTINPARENT: return m->jnt_bodyid[id];
    case mjTRN_SLIDERCRANK:
    case mjTRN_SITE: return m->site_bodyid[id];
    case mjTRN_BODY: return id;
    case mjTRN_TENDON: break;
    default: return 0;
  }
  for (int i = m->tendon_adr[id]; i < m->tendon_adr[id] + m->tendon_num[id]; i++) {
    int object = m->wrap_objid[i], type = m->wrap_type[i];
    int body = type == mjWRAP_JOINT  ? m->jnt_bodyid[object]
               : type == mjWRAP_SITE ? m->site_bodyid[object]
                                     : 0;
    if (body && m->body_weldid[body]) return body;
  }
  return 0;
}

int quantities_robot(const mjModel *m) {
  int first = m->nbody > 1 ? 1 : 0;
  for (int b = m->nbody - 1; b > 0; b--) {
    if (m->body_parentid[b] == 0 && can_move(m, b)) first = b;
  }
  int actuated = 0;
  for (int u = 0; u < m->nu; u++) {
    int body = actuated_body(m, u);
    while (body && m->body_parentid[body]) body = m->body_parentid[body];
    if (body && can_move(m, body) && (!actuated || body < actuated)) actuated = body;
  }
  return actuated ? actuated : first;
}

// ---------------------------------- finding ------------------------------------------------------

// Finds a part of an object; the part "" is the bare name. Returns 0 if the object has no such part.
static int part_find(Quantity *q, int kind, int id, const char *part) {
  for (int i = 0; i < COUNT(attributes); i++) {
    const Attribute *a = &attributes[i];
    if (!(a->kinds & kind)) continue;
    q->source = (QuantitySource){a->read, kind, id, a->size, a->needs};

    int component = word_index(a->components, part);
    if (component >= 0) {
      q->first = component;
      q->count = 1;
      return 1;
    }
    int bare = !part[0] && kind != ACTUATOR;  // an actuator's bare name is no quantity
    if (bare || !strcmp(a->name, part)) {
      q->first = 0;
      q->count = a->size;
      return 1;
    }
  }
  return 0;
}

// finds some neighbouring numbers of a vector: "7.." or "3..5"
static int range_find(Quantity *q, QuantitySource source, const char *part) {
  const char *dots = strstr(part, "..");
  char first[16];
  if (!dots || dots - part >= (ptrdiff_t)sizeof first) return 0;
  snprintf(first, sizeof first, "%.*s", (int)(dots - part), part);
  int from = number_index(first, source.size);
  int to = dots[2] ? number_index(dots + 2, source.size) : source.size - 1;
  if (from < 0 || to < from) return 0;
  *q = (Quantity){source, from, to - from + 1};
  return 1;
}

// finds a part of a vector whose numbers have indices instead of names: sensors and arrays
static int counted_find(Quantity *q, QuantitySource source, const char *part) {
  if (source.size == 0) part = "";
  if (range_find(q, source, part)) return 1;
  int number = number_index(part, source.size);
  if (number < 0 && source.kind == SENSOR && source.size == 3) number = word_index("x y z", part);
  if (part[0] && number < 0) return 0;
  *q = (Quantity){source, part[0] ? number : 0, part[0] ? 1 : source.size};
  return 1;
}

static int object_part_find(Quantity *q, const mjModel *m, int kind, int id, const char *part) {
  if (kind != SENSOR) return part_find(q, kind, id, part);
  QuantitySource source = {read_sensor, kind, id, m->sensor_dim[id], sensor_needs(m, id)};
  return counted_find(q, source, part);
}

static int fail_part(const mjModel *m, const Kind *kind, int id, const char *part) {
  char name[NAME_SIZE], parts[256] = "";
  const char *named = object_name(m, kind, id);
  if (named) quantity_typed_name(name, sizeof name, named);
  else snprintf(name, sizeof name, "%d", id);

  if (kind->kind == SENSOR) {
    int size = m->sensor_dim[id];
    if (size == 1) snprintf(parts, sizeof parts, "only its bare name");
    else snprintf(parts, sizeof parts, "%s.0 to .%d", size == 3 ? ".x .y .z, " : "", size - 1);
  }
  for (int i = 0; i < COUNT(attributes); i++) {
    const Attribute *a = &attributes[i];
    size_t used = strlen(parts);
    if (a->kinds & kind->kind && a->components[0]) {
      snprintf(parts + used, sizeof parts - used, "%s%s", used ? " " : "", a->components);
    }
  }
  if (!part[0]) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the %s '%s' needs one of its parts (%s)", kind->prefix, name,
                    parts);
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "the %s '%s' has no '%s' (it has %s)", kind->prefix, name, part,
                  parts);
}

static int fail_ambiguous(const char *name, const Kind *a, const Kind *b) {
  return bfm_fail(BFM_BAD_ARGUMENT, "'%s' is a %s and a %s: write %s:%s or %s:%s", name, a->prefix,
                  b->prefix, a->prefix, name, b->prefix, name);
}

static int is_name(const char *name, const char *text, size_t length) {
  return strlen(name) == length && !strncmp(name, text, length);
}

// finds the robot's centre of mass or angular momentum
static int robot_find(Quantity *q, const mjModel *m, const char *name) {
  if (part_find(q, BODY, quantities_robot(m), name)) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "'%s' is unknown; there are com.x com.y com.z com.vx com.vy com.vz "
                  "angmom.x angmom.y angmom.z",
                  name);
}

// finds a number of an array, or the whole array
static int array_find(Quantity *q, const mjModel *m, int array, const char *part) {
  QuantitySource source = {read_array, ARRAY, array, array_size(m, array), arrays[array].needs};
  if (counted_find(q, source, part)) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "'%s' has the numbers .0 to .%d, not '%s'", arrays[array].name,
                  source.size - 1, part);
}

// Finds the first kind that has an object of this name with this part. prefix: the only kind to
// search, or NULL
static int kinds_find(Quantity *q, const mjModel *m, const char *prefix, const char *object,
                      const char *part) {
  const Kind *found = NULL, *closest = NULL;
  int closest_id = -1;
  for (int i = 0; i < COUNT(kinds); i++) {
    const Kind *kind = &kinds[i];
    if (prefix && !is_name(kind->prefix, prefix, strcspn(prefix, ":"))) continue;
    size_t length = strcspn(object, ".");
    int id = object_find(m, kind, object, length);
    if (id < 0 && prefix) id = object_numbered(m, kind, object, length);
    if (id < 0) continue;
    if (!closest) closest = kind, closest_id = id;

    // a bare name that could be a position or a number is an error, not a guess
    Quantity here;
    if (!object_part_find(&here, m, kind->kind, id, part)) continue;
    if (!found) {
      *q = here;
      found = kind;
    } else if (!part[0] && !(found->kind & FRAME && kind->kind & FRAME)) {
      return fail_ambiguous(object, found, kind);
    }
  }
  if (found) return BFM_OK;
  return closest ? fail_part(m, closest, closest_id, part) : QUANTITY_UNKNOWN;
}

int quantity_find(Quantity *q, const mjModel *m, const char *name) {
  memset(q, 0, sizeof *q);

  // an explicit kind, "joint:bthigh"
  const char *colon = strchr(name, ':'), *object = colon ? colon + 1 : name;
  size_t length = strcspn(object, ".");
  const char *part = object[length] ? object + length + 1 : "";
  if (object[length] && !part[0]) return QUANTITY_UNKNOWN;
  if (colon) return kinds_find(q, m, name, object, part);

  if (is_name("com", name, length) || is_name("angmom", name, length)) {
    return robot_find(q, m, name);
  }
  for (int i = 0; i < COUNT(arrays); i++) {
    if (is_name(arrays[i].name, name, length)) return array_find(q, m, i, part);
  }
  return kinds_find(q, m, NULL, object, part);
}

// ---------------------------------- places -------------------------------------------------------

// what a source copies: where its first number lies in an array of mjData
static int source_place(const QuantitySource *s, const mjModel *m, size_t *array, int *at) {
#define PLACE(member, index) return *array = offsetof(mjData, member), *at = (index), 1
  int id = s->id;
  if (s->read == read_pos && s->kind == SITE) PLACE(site_xpos, 3 * id);
  if (s->read == read_pos && s->kind == GEOM) PLACE(geom_xpos, 3 * id);
  if (s->read == read_pos) PLACE(xpos, 3 * id);
  if (s->read == read_mat && s->kind == SITE) PLACE(site_xmat, 9 * id);
  if (s->read == read_mat && s->kind == GEOM) PLACE(geom_xmat, 9 * id);
  if (s->read == read_mat) PLACE(xmat, 9 * id);
  if (s->read == read_own_com) PLACE(xipos, 3 * id);
  if (s->read == read_com) PLACE(subtree_com, 3 * id);
  if (s->read == read_hinge_pos || s->read == read_joint_pos) PLACE(qpos, m->jnt_qposadr[id]);
  if (s->read == read_hinge_vel || s->read == read_joint_vel) PLACE(qvel, m->jnt_dofadr[id]);
  if (s->read == read_joint_quat) PLACE(qpos, m->jnt_qposadr[id] + (s->kind == FREE ? 3 : 0));
  if (s->read == read_joint_angvel) PLACE(qvel, m->jnt_dofadr[id] + (s->kind == FREE ? 3 : 0));
  if (s->read == read_sensor) PLACE(sensordata, m->sensor_adr[id]);
  if (s->read == read_ctrl) PLACE(ctrl, id);
  if (s->read == read_force) PLACE(actuator_force, id);
  if (s->read == read_act && m->actuator_actadr[id] >= 0) PLACE(act, m->actuator_actadr[id]);
  if (s->read == read_array && id == CTRL) PLACE(ctrl, 0);
  if (s->read == read_array && id == QPOS) PLACE(qpos, 0);
  if (s->read == read_array && id == QVEL) PLACE(qvel, 0);
  if (s->read == read_array && id == ACT) PLACE(act, 0);
  if (s->read == read_array && id == ACTUATOR_FORCE) PLACE(actuator_force, 0);
#undef PLACE
  return 0;
}

int quantity_place(const Quantity *q, const mjModel *m, size_t *array, int *at) {
  if (!source_place(&q->source, m, array, at)) return 0;
  *at += q->first;
  return 1;
}

int quantity_is_point(const Quantity *q) {
  QuantityRead *read = q->source.read;
  return q->count == 3 && q->first == 0 &&
         (read == read_pos || read == read_com || read == read_own_com || read == read_joint_pos);
}

int quantity_frame(const Quantity *q, const mjModel *m, size_t *pos, size_t *mat, int *at) {
  Quantity frame = *q;
  int at9;
  if (q->source.read != read_pos || q->count != 3) return 0;
  frame.source.read = read_mat;
  *at = q->source.id;
  return quantity_place(q, m, pos, &at9) && quantity_place(&frame, m, mat, &at9);
}

// ---------------------------------- listing ------------------------------------------------------

void quantities_nearest(const mjModel *m, Suggestion *nearest) {
  suggest_try(nearest, "com");
  suggest_try(nearest, "angmom");
  for (int i = 0; i < COUNT(arrays); i++) suggest_try(nearest, arrays[i].name);
  for (int i = 0; i < COUNT(kinds); i++) {
    int count = object_count(m, &kinds[i]);
    for (int id = 0; id < count; id++) {
      const char *name = object_name(m, &kinds[i], id);
      if (name) suggest_try(nearest, name);
    }
  }
}

// calls `each` with "base.part" for each word of parts
static void each_part(QuantityEach *each, void *context, const char *title, const char *base,
                      const char *parts, const char *help) {
  char name[2 * NAME_SIZE];
  while (*parts) {
    int n = (int)strcspn(parts, " ");
    snprintf(name, sizeof name, "%s%s%.*s", base, base[0] ? "." : "", n, parts);
    each(context, title, name, help);
    parts += n + strspn(parts + n, " ");
  }
}

static void each_counted(QuantityEach *each, void *context, const char *title, const char *base,
                         int size, const char *help) {
  char name[2 * NAME_SIZE];
  each(context, title, base, help);
  for (int i = 0; i < size && size > 1; i++) {
    snprintf(name, sizeof name, "%s.%d", base, i);
    each(context, title, name, help);
  }
}

void quantities_each(const mjModel *m, QuantityEach *each, void *context) {
  for (int a = 0; a < COUNT(attributes); a++) {
    const Attribute *row = &attributes[a];
    if (row->kinds != BODY || row->read == read_own_com) continue;
    each_part(each, context, "robot", "", row->name, row->help);
    each_part(each, context, "robot", "", row->components, row->help);
  }
  for (int i = 0; i < COUNT(arrays); i++) {
    each_counted(each, context, "arrays", arrays[i].name, array_size(m, i), arrays[i].help);
  }

  for (int k = 0; k < COUNT(kinds); k++) {
    int count = object_count(m, &kinds[k]);
    for (int id = 0; id < count; id++) {
      const char *name = object_name(m, &kinds[k], id);
      if (!name) continue;
      char base[NAME_SIZE];
      quantity_typed_name(base, sizeof base, name);

      if (kinds[k].kind == SENSOR) {
        each_counted(each, context, kinds[k].title, base, m->sensor_dim[id], "sensor");
      }
      for (int a = 0; a < COUNT(attributes); a++) {
        const Attribute *row = &attributes[a];
        if (!(row->kinds & kinds[k].kind)) continue;
        if (row->size > 1) each_part(each, context, kinds[k].title, base, row->name, row->help);
        each_part(each, context, kinds[k].title, base, row->components, row->help);
      }
    }
  }
}

#define PAGE_WIDTH 100
#define INDENT 16

// prints the names of a kind, wrapped
static void print_names(const mjModel *m, const Kind *kind, FILE *out) {
  int count = object_count(m, kind), column = 0;
  for (int id = 0; id < count; id++) {
    const char *name = object_name(m, kind, id);
    if (!name) continue;
    char text[NAME_SIZE];
    quantity_typed_name(text, sizeof text, name);

    if (!column) {
      column = fprintf(out, "%-*s%s", INDENT, kind->title, text);
    } else if (column + 1 + (int)strlen(text) > PAGE_WIDTH) {
      column = fprintf(out, "\n%*s%s", INDENT, "", text) - 1;
    } else {
      column += fprintf(out, " %s", text);
    }
  }
  if (column) fputc('\n', out);
}

static int kind_is_present(const mjModel *m, const Kind *kind) {
  int count = object_count(m, kind), present = 0;
  for (int id = 0; id < count; id++) present |= object_name(m, kind, id) != NULL;
  return present;
}

static void print_part(FILE *out, const char *of, const char *parts, const char *whole,
                       const char *help) {
  fprintf(out, "%-*s%-28s %-16s%s\n", INDENT, of, parts, whole, help);
}

void quantities_help(const mjModel *m, FILE *out) {
  for (int k = 0; k < COUNT(kinds); k++) print_names(m, &kinds[k], out);

  fputs("\nTheir parts, after a dot (torso.z); functions of vectors also take the whole vector:\n",
        out);
  int shown = 0;
  for (int k = 0; k < COUNT(kinds); k++) {
    if (!kind_is_present(m, &kinds[k])) continue;
    for (int a = 0; a < COUNT(attributes); a++) {
      const Attribute *row = &attributes[a];
      if (!(row->kinds & kinds[k].kind) || shown & 1 << a) continue;
      shown |= 1 << a;
      const char *of = row->kinds == FRAME ? "body site geom" : kinds[k].prefix;
      print_part(out, of, row->components, row->size > 1 ? row->name : "", row->help);
    }
  }
  print_part(out, "sensor", "x y z, or 0 1 2 ...", "the bare name", "the sensor's reading");

  char name[NAME_SIZE], parts[NAME_SIZE], of[2 * NAME_SIZE];
  const char *robot = mj_id2name(m, mjOBJ_BODY, quantities_robot(m));
  quantity_typed_name(name, sizeof name, robot ? robot : "");
  snprintf(of, sizeof of, *name ? "of the whole robot (%s)" : "of the whole robot", name);
  fputs("\nWithout a name before them:\n", out);
  print_part(out, "", "com.x com.vx angmom.x ...", "com com.vel", of);
  for (int i = 0; i < COUNT(arrays); i++) {
    int size = array_size(m, i);
    if (!size) continue;
    snprintf(parts, sizeof parts, "%s.0 ... .%d", arrays[i].name, size - 1);
    print_part(out, "", parts, arrays[i].name, arrays[i].help);
  }
}
