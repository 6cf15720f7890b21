// The signals of a policy: from a robot's description and model to names and units, and as JSON.

#include "envs/signals.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envs/domain.h"
#include "envs/observer.h"
#include "envs/quantities.h"
#include "envs/robot_world.h"

void signals_free(Signals *s) {
  free(s->obs);
  free(s->act);
  *s = (Signals){0};
}

static int make_room(Signals *s, int64_t obs, int64_t act) {
  s->obs = calloc((size_t)obs + 1, sizeof *s->obs);
  s->act = calloc((size_t)act + 1, sizeof *s->act);
  if (!s->obs || !s->act) {
    signals_free(s);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the names of %ld signals", (long)(obs + act));
  }
  s->obs_count = (int)obs, s->act_count = (int)act;
  for (int i = 0; i < s->obs_count; i++) s->obs[i].std = -1;
  return BFM_OK;
}

// ---------------------------------- names and units ----------------------------------------------

static void say(Signal *s, const char *name, const char *part, const char *unit) {
  char typed[64];
  quantity_typed_name(typed, sizeof typed, name ? name : "");
  snprintf(s->name, sizeof s->name, "%s%s%s", typed, *part ? "." : "", part);
  snprintf(s->unit, sizeof s->unit, "%s", unit);
}

// number `at` of qpos
static void say_position(Signal *s, const mjModel *m, int at) {
  static const char *const parts[] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
  int joint = (int)m->njnt - 1;
  while (m->jnt_qposadr[joint] > at) joint--;
  int type = m->jnt_type[joint], k = at - m->jnt_qposadr[joint];
  const char *name = mj_id2name(m, mjOBJ_JOINT, joint);
  if (type == mjJNT_HINGE || type == mjJNT_SLIDE)
    say(s, name, "q", type == mjJNT_HINGE ? "rad" : "m");
  else if (type == mjJNT_FREE) say(s, name, parts[k], k < 3 ? "m" : "1");
  else say(s, name, parts[k + 3], "1");
}

// number `at` of qvel
static void say_velocity(Signal *s, const mjModel *m, int at) {
  static const char *const parts[] = {"vx", "vy", "vz", "wx", "wy", "wz"};
  int joint = m->dof_jntid[at], type = m->jnt_type[joint], k = at - m->jnt_dofadr[joint];
  const char *name = mj_id2name(m, mjOBJ_JOINT, joint);
  if (type == mjJNT_HINGE || type == mjJNT_SLIDE) {
    say(s, name, "v", type == mjJNT_HINGE ? "rad/s" : "m/s");
  } else {
    say(s, name, parts[type == mjJNT_FREE ? k : k + 3],
        type == mjJNT_FREE && k < 3 ? "m/s" : "rad/s");
  }
}

static const char *sensor_unit(int type) {
  switch (type) {
    case mjSENS_ACCELEROMETER:
    case mjSENS_FRAMELINACC: return "m/s^2";
    case mjSENS_VELOCIMETER:
    case mjSENS_FRAMELINVEL:
    case mjSENS_SUBTREELINVEL: return "m/s";
    case mjSENS_GYRO:
    case mjSENS_FRAMEANGVEL:
    case mjSENS_BALLANGVEL: return "rad/s";
    case mjSENS_FRAMEANGACC: return "rad/s^2";
    case mjSENS_TOUCH:
    case mjSENS_FORCE: return "N";
    case mjSENS_TORQUE: return "N m";
    case mjSENS_RANGEFINDER:
    case mjSENS_FRAMEPOS:
    case mjSENS_SUBTREECOM: return "m";
    case mjSENS_BALLQUAT:
    case mjSENS_FRAMEQUAT:
    case mjSENS_FRAMEXAXIS:
    case mjSENS_FRAMEYAXIS:
    case mjSENS_FRAMEZAXIS: return "1";
    case mjSENS_SUBTREEANGMOM: return "kg m^2/s";
    default: return "";
  }
}

static void say_sensor(Signal *s, const mjModel *m, int at) {
  int id = (int)m->nsensor - 1, hinge = 0;
  while (m->sensor_adr[id] > at) id--;
  int dim = m->sensor_dim[id], k = at - m->sensor_adr[id], type = m->sensor_type[id];
  char part[12] = "";
  if (dim > 1) snprintf(part, sizeof part, dim == 3 ? "%c" : "%d", dim == 3 ? "xyz"[k] : k);
  if (type == mjSENS_JOINTPOS || type == mjSENS_JOINTVEL) {
    hinge = m->jnt_type[m->sensor_objid[id]] == mjJNT_HINGE;
    say(s, mj_id2name(m, mjOBJ_SENSOR, id), part,
        type == mjSENS_JOINTPOS ? (hinge ? "rad" : "m")
        : hinge                 ? "rad/s"
                                : "m/s");
  } else {
    say(s, mj_id2name(m, mjOBJ_SENSOR, id), part, sensor_unit(type));
  }
}

// the unit of what an actuator moves its joint with
static const char *force_unit(const mjModel *m, int u) {
  int joint = m->actuator_trntype[u] == mjTRN_JOINT ? m->actuator_trnid[2 * u] : -1;
  if (joint < 0) return "";
  return m->jnt_type[joint] == mjJNT_SLIDE ? "N" : m->jnt_type[joint] == mjJNT_HINGE ? "N m" : "";
}

static void say_actuator(Signal *s, const mjModel *m, int u, const char *part, const char *unit) {
  say(s, mj_id2name(m, mjOBJ_ACTUATOR, u), part, unit);
}

static int actuator_of_activation(const mjModel *m, int at) {
  int u = 0;
  while (u + 1 < m->nu && !(m->actuator_actadr[u] <= at && m->actuator_actadr[u] >= 0 &&
                            at < m->actuator_actadr[u] + m->actuator_actnum[u])) {
    u++;
  }
  return u;
}

// a number of one of mjData's arrays; returns 0 if it has no name of its own
static int say_place(Signal *s, const mjModel *m, size_t array, int at) {
  static const char axes[] = "xyz";
  static const struct {
    size_t pos, mat;
    int object;
  } frames[] = {{offsetof(mjData, xpos), offsetof(mjData, xmat), mjOBJ_BODY},
                {offsetof(mjData, site_xpos), offsetof(mjData, site_xmat), mjOBJ_SITE},
                {offsetof(mjData, geom_xpos), offsetof(mjData, geom_xmat), mjOBJ_GEOM}};
  char part[8];
  for (int i = 0; i < 3; i++) {
    if (array == frames[i].pos) {
      snprintf(part, sizeof part, "%c", axes[at % 3]);
      say(s, mj_id2name(m, frames[i].object, at / 3), part, "m");
    } else if (array == frames[i].mat) {
      snprintf(part, sizeof part, "%c%c", axes[at % 9 / 3], axes[at % 3]);
      say(s, mj_id2name(m, frames[i].object, at / 9), part, "1");
    } else {
      continue;
    }
    return 1;
  }
  if (array == offsetof(mjData, qpos)) say_position(s, m, at);
  else if (array == offsetof(mjData, qvel)) say_velocity(s, m, at);
  else if (array == offsetof(mjData, sensordata)) say_sensor(s, m, at);
  else if (array == offsetof(mjData, ctrl)) say_actuator(s, m, at, "u", "");
  else if (array == offsetof(mjData, actuator_force))
    say_actuator(s, m, at, "force", force_unit(m, at));
  else if (array == offsetof(mjData, act))
    say_actuator(s, m, actuator_of_activation(m, at), "act", "");
  else return 0;
  return 1;
}

// the unit of a name by its last part: torso.vx, com.z, head.wy
static const char *named_unit(const char *name) {
  static const struct {
    const char *part, *unit;
  } units[] = {{"x", "m"},           {"y", "m"},       {"z", "m"},       {"com", "m"},
               {"pos", "m"},         {"vx", "m/s"},    {"vy", "m/s"},    {"vz", "m/s"},
               {"vel", "m/s"},       {"lvx", "m/s"},   {"lvy", "m/s"},   {"lvz", "m/s"},
               {"lvel", "m/s"},      {"wx", "rad/s"},  {"wy", "rad/s"},  {"wz", "rad/s"},
               {"angvel", "rad/s"},  {"lwx", "rad/s"}, {"lwy", "rad/s"}, {"lwz", "rad/s"},
               {"langvel", "rad/s"}, {"xaxis", "1"},   {"yaxis", "1"},   {"zaxis", "1"}};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strstr(name, "angmom")) return "kg m^2/s";
    if (dot && !strcmp(dot + 1, units[i].part)) return units[i].unit;
  }
  return "";
}

// what has to be computed is known by its text in the description: "left_hand in torso"
static void say_item(Signal *s, const ObserverSource *source) {
  char number[16] = "", name[48];
  if (source->count > 1) snprintf(number, sizeof number, ".%d", source->index);
  const char *in = strstr(source->item, " in ");
  snprintf(name, sizeof name, "%.*s", in ? (int)(in - source->item) : 47, source->item);
  int plain =
      name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:")] == 0;
  snprintf(s->name, sizeof s->name, "%.60s%s", source->item, number);
  // a body in another one's frame is a position; so far as its name says nothing else
  const char *unit = plain ? named_unit(name) : "";
  snprintf(s->unit, sizeof s->unit, "%s", in && plain && !strchr(name, '.') ? "m" : unit);
}

static void say_function(Signal *s, const char *function) {
  Signal inner = *s;
  if (!strcmp(function, "clip")) return;  // changes neither name nor unit
  snprintf(s->name, sizeof s->name, "%.16s(%.60s)", function, inner.name);
  if (!*inner.unit) return;
  snprintf(s->unit, sizeof s->unit, "%.10s(%.10s)", function, inner.unit);
}

static void say_observation(const World *world, Signals *s) {
  ObsPart part;
  for (int i = 0, p = 0; (part = world_part(world, p)).name; p++) {
    for (int k = 0; k < part.count && i < s->obs_count; k++, i++) {
      Signal *signal = s->obs + i;
      snprintf(signal->part, sizeof signal->part, "%s", part.name);
      snprintf(signal->name, sizeof signal->name, "%.60s.%d", part.name, k);
      if (!world->robot) continue;
      ObserverSource source = observer_source(world->robot->observer, i);
      if (!source.copied || !say_place(signal, world->model, source.array, source.at)) {
        say_item(signal, &source);
      }
      if (source.function) say_function(signal, source.function);
    }
  }
}

// the control that an action of −1 or +1 sets
static double control_at(const World *world, int u, double action) {
  const mjModel *m = world->model;
  double low = m->actuator_ctrlrange[2 * u], high = m->actuator_ctrlrange[2 * u + 1];
  if (world->domain->scaled) return action < 0 ? low : high;
  return m->actuator_ctrllimited[u] ? fmin(fmax(action, low), high) : action;
}

// A motor commands a force, a servo the position or velocity of its joint; of other actuators, the
// unit of the control is unknown.
static void say_action(const World *world, int u, Signal *s) {
  const mjModel *m = world->model;
  const mjtNum *gain = m->actuator_gainprm + (ptrdiff_t)u * mjNGAIN;
  const mjtNum *bias = m->actuator_biasprm + (ptrdiff_t)u * mjNBIAS;
  const char *unit = "", *force = force_unit(m, u);
  double factor = 1, gear = m->actuator_gear[6 * u];
  int turns = !strcmp(force, "N m"), fixed = m->actuator_gaintype[u] == mjGAIN_FIXED;
  int affine = m->actuator_biastype[u] == mjBIAS_AFFINE;
  if (!world->domain->control && *force && fixed && gear != 0) {
    if (m->actuator_biastype[u] == mjBIAS_NONE) unit = force, factor = gain[0] * gear;
    else if (affine && bias[1] != 0) unit = turns ? "rad" : "m", factor = -gain[0] / bias[1] / gear;
    else if (affine && bias[2] != 0)
      unit = turns ? "rad/s" : "m/s", factor = -gain[0] / bias[2] / gear;
  }
  say_actuator(s, m, u, "", unit);
  if (!*s->name) snprintf(s->name, sizeof s->name, "action.%d", u);
  s->low = world->domain->control ? 0 : factor * control_at(world, u, -1);
  s->high = world->domain->control ? 0 : factor * control_at(world, u, 1);
}

int signals_of_domain(Signals *out, const char *name) {
  *out = (Signals){0};
  const Domain *domain;
  const World *world;
  TRY(domain_find(&domain, name));
  TRY(world_acquire(&world, domain));
  int status = make_room(out, domain->obs_dim, world->model->nu);
  if (!status) {
    out->control_dt = domain->substeps * world->model->opt.timestep;
    say_observation(world, out);
    for (int u = 0; u < out->act_count; u++) say_action(world, u, out->act + u);
  }
  world_release(world);
  return status;
}

int signals_measure(Signals *s, const float *obs, int64_t count, int64_t dim) {
  if (!s->obs_count) {
    Signals fresh = {0};
    TRY(make_room(&fresh, dim, 0));
    for (int i = 0; i < dim; i++)
      snprintf(fresh.obs[i].name, sizeof fresh.obs[i].name, "obs.%d", i);
    free(s->obs);
    s->obs = fresh.obs;
    s->obs_count = (int)dim;
    free(fresh.act);
  }
  for (int64_t j = 0; j < dim && count; j++) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < count; i++) sum += obs[i * dim + j];
    for (int64_t i = 0; i < count; i++) square += pow(obs[i * dim + j] - sum / (double)count, 2);
    s->obs[j].mean = sum / (double)count;
    s->obs[j].std = sqrt(square / (double)count);
  }
  return BFM_OK;
}

// ---------------------------------- JSON ---------------------------------------------------------

// six digits are enough for people and for distances
static void add_number(cJSON *object, const char *name, double value) {
  char digits[32];
  snprintf(digits, sizeof digits, "%.6g", value);
  cJSON *item = cJSON_AddNumberToObject(object, name, value);
  for (char *c = digits; *c; c++) *c = *c == ',' ? '.' : *c;
  cJSON *raw = item ? cJSON_CreateRaw(digits) : NULL;
  if (raw) cJSON_ReplaceItemInObjectCaseSensitive(object, name, raw);
}

static void add_signals(cJSON *json, const char *key, const Signal *signals, int count) {
  cJSON *array = cJSON_AddArrayToObject(json, key);
  for (int i = 0; i < count; i++) {
    const Signal *s = signals + i;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(array, item);
    if (*s->part) cJSON_AddStringToObject(item, "part", s->part);
    cJSON_AddStringToObject(item, "name", s->name);
    if (*s->unit) cJSON_AddStringToObject(item, "unit", s->unit);
    if (s->low != 0 || s->high != 0)
      add_number(item, "low", s->low), add_number(item, "high", s->high);
    if (s->std >= 0 && !strcmp(key, "observations")) {
      add_number(item, "mean", s->mean), add_number(item, "std", s->std);
    }
  }
}

char *signals_to_json(const Signals *s) {
  cJSON *json = cJSON_CreateObject();
  if (s->control_dt > 0) add_number(json, "control_dt", s->control_dt);
  cJSON_AddStringToObject(json, "normalization",
                          "none");  // the networks take observations as they are
  add_signals(json, "observations", s->obs, s->obs_count);
  if (s->act_count) add_signals(json, "actions", s->act, s->act_count);
  char *text = cJSON_PrintUnformatted(json);
  cJSON_Delete(json);
  return text;
}

static void read_text(const cJSON *item, const char *key, char *out, size_t size) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, key));
  snprintf(out, size, "%s", text ? text : "");
}

static double read_number(const cJSON *item, const char *key, double missing) {
  const cJSON *number = cJSON_GetObjectItemCaseSensitive(item, key);
  return cJSON_IsNumber(number) ? number->valuedouble : missing;
}

static void read_signals(const cJSON *array, Signal *signals) {
  const cJSON *item;
  int count = 0;
  cJSON_ArrayForEach(item, array) {
    Signal *out = signals + count++;
    read_text(item, "part", out->part, sizeof out->part);
    read_text(item, "name", out->name, sizeof out->name);
    read_text(item, "unit", out->unit, sizeof out->unit);
    out->low = read_number(item, "low", 0), out->high = read_number(item, "high", 0);
    out->mean = read_number(item, "mean", 0), out->std = read_number(item, "std", -1);
  }
}

int signals_from_json(Signals *out, const char *text, int64_t obs_dim, int64_t act_dim) {
  *out = (Signals){0};
  cJSON *json = cJSON_Parse(text);
  const cJSON *obs = cJSON_GetObjectItemCaseSensitive(json, "observations");
  const cJSON *act = cJSON_GetObjectItemCaseSensitive(json, "actions");
  int has_obs = cJSON_GetArraySize(obs), has_act = cJSON_GetArraySize(act);
  int status = BFM_OK;
  if (!cJSON_IsObject(json)) {
    status = bfm_fail(BFM_BAD_FILE, "metadata \"" SIGNALS_KEY "\" is not a JSON object");
  } else if (has_obs != obs_dim || (has_act && has_act != act_dim)) {
    status = bfm_fail(BFM_BAD_FILE,
                      "metadata \"" SIGNALS_KEY
                      "\" names %d observations and %d actions, but the "
                      "model has %ld and %ld",
                      has_obs, has_act, (long)obs_dim, (long)act_dim);
  }
  if (!status) status = make_room(out, has_obs, has_act);
  if (!status) {
    out->control_dt = read_number(json, "control_dt", 0);
    read_signals(obs, out->obs);
    read_signals(act, out->act);
  }
  cJSON_Delete(json);
  return status;
}
