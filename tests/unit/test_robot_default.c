// Robots without a description: what they observe does not change when they are somewhere else and face
// another way, for every model at hand; simulations of all of them run; models that are no robots are
// refused with one sentence.

#define _GNU_SOURCE  // nftw

#include <ftw.h>
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "envs/bundle.h"
#include "envs/quantities.h"
#include "envs/robot.h"
#include "envs/robot_world.h"
#include "envs/single.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

// ---------------------------------- robots -------------------------------------------------------

typedef struct {
  Domain domain;
  World world;
  Robot *robot;
  mjData *data;
} Example;

static int example_complete(Example *e, Bundle *bundle) {
  mjSpec *spec = NULL;
  *e = (Example){0};
  int status = bundle_spec(bundle, BASE_DEFAULT, &spec);
  if (!status) status = bundle_compile(bundle, spec, &e->world.model);
  if (spec) mj_deleteSpec(spec);
  bundle_free(bundle);
  if (!status) status = robot_new(&e->robot, "robot.xml");
  return status ? status : robot_complete(e->robot, e->world.model);
}

static void example_free(Example *e) {
  robot_world_free(e->world.robot);
  if (e->data) mj_deleteData(e->data);
  if (e->world.resting) mj_deleteModel(e->world.resting);
  if (e->world.model) mj_deleteModel(e->world.model);
  robot_free(e->robot);
}

static void example_start(Example *e) {
  robot_domain(&e->domain, "robot", e->robot);
  e->world.domain = &e->domain;
  e->world.resting = mj_copyModel(NULL, e->world.model);
  e->world.resting->opt.disableflags |= mjDSBL_ACTUATION;
  if (robot_world_new(&e->world)) fail_msg("%s", bfm_error());
  e->data = mj_makeData(e->world.model);
}

static Bundle *bundle_of(const char *xml) {
  Bundle *bundle;
  assert_int_equal(bundle_new(&bundle), 0);
  assert_int_equal(bundle_add(bundle, "robot.xml", xml, strlen(xml)), 0);
  return bundle;
}

static void example_new(Example *e, const char *xml) {
  if (example_complete(e, bundle_of(xml))) fail_msg("%s", bfm_error());
  example_start(e);
}

// its parts as one text: "joints: qpos.7..; height: torso.z; …"
static const char *observed(const Robot *robot) {
  static char text[2048];
  size_t used = 0;
  *text = 0;
  for (int p = 0; p < robot->observed_count; p++) {
    const RobotPart *part = &robot->observed[p];
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%s:", p ? "; " : "", part->name.text);
    for (int i = 0; i < part->items.count; i++) {
      used += (size_t)snprintf(text + used, sizeof text - used, " %s", part->items.of[i].text);
    }
  }
  return text;
}

static const char *resets(const Robot *robot) {
  static const char *const kinds[] = {"keyframe", "joints", "noise",  "orientation",
                                      "raise",    "redraw", "settle", "states"};
  static char text[256];
  size_t used = 0;
  *text = 0;
  for (int i = 0; i < robot->reset_count; i++) {
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%s%s", i ? " " : "",
                         kinds[robot->resets[i].kind], robot->resets[i].limited ? "(floor)" : "");
  }
  return text;
}

// ---------------------------------- defaults -----------------------------------------------------

#define FLOOR "<geom name='floor' type='plane' size='9 9 1'/>"
#define MOTOR(joint) "<actuator><motor joint='" joint "' ctrlrange='-1 1'/></actuator>"
#define FREE_ROBOT                                                                     \
  "<body name='trunk/1' pos='0 0 1'><freejoint/><geom size='.2'/><camera name='pov'/>" \
  "<camera name='side' mode='trackcom' pos='0 -3 0'/>"                                 \
  "<body name='leg' pos='.3 0 0'><joint name='hip' axis='0 1 0' range='-60 60'/>"      \
  "<geom type='capsule' size='.05' fromto='0 0 0 0 0 -.3'/><site name='foot'/>"        \
  "<body name='wheel' pos='0 .1 -.3'><joint name='roll' axis='0 1 0'/>"                \
  "<geom type='cylinder' size='.1 .02' euler='90 0 0'/></body></body></body>"

static void test_a_free_robot(void **state) {
  (void)state;
  Example e;
  example_new(&e, "<mujoco><worldbody>" FLOOR FREE_ROBOT
                  "</worldbody><actuator>"
                  "<motor joint='hip' ctrlrange='-1 1'/>"
                  "<general joint='roll' dyntype='filter' dynprm='.1'/></actuator><sensor>"
                  "<gyro name='foot' site='foot'/><touch site='foot'/><clock name='time'/>"
                  "<framepos name='where' objtype='site' objname='foot'/></sensor></mujoco>");
  assert_string_equal(observed(e.robot),
                      "joints: qpos.7 sin(qpos.8) cos(qpos.8); height: trunk_1.z; "
                      "up: trunk_1.zx trunk_1.zy trunk_1.zz; "
                      "velocity: trunk_1.lvx trunk_1.lvy trunk_1.lvz trunk_1.lwx trunk_1.lwy "
                      "trunk_1.lwz; joint_velocities: qvel.6..; activations: act; "
                      "sensors: sensor:foot sensor:1 where");
  assert_int_equal(e.robot->size, 3 + 1 + 3 + 6 + 2 + 1 + 7);
  assert_string_equal(resets(e.robot), "joints raise redraw");
  assert_string_equal(e.robot->camera.text, "side");
  assert_int_equal(e.robot->substeps, 10);
  assert_int_equal(e.robot->episode, 1000);
  assert_int_equal(e.robot->actions, ACTIONS_RANGE);
  assert_int_equal(e.robot->notes.count, 3);
  assert_string_equal(
      e.robot->notes.of[0].text,
      "not observed, because they do not depend on the state alone: the sensors time");
  assert_string_equal(e.robot->notes.of[1].text,
                      "these sensors depend on where the robot is or faces in the world: where");
  assert_string_equal(
      e.robot->notes.of[2].text,
      "1 of 2 controls have no range in the model (the first is number 1): theirs is "
      "that of the joint for a position servo, and ±1 for others");
  assert_true(e.world.model->actuator_ctrlrange[3] == 1);
  example_free(&e);
}

static void test_planar_robots(void **state) {
  (void)state;
  static const struct {
    const char *joints, *observed, *resets;
  } rows[] = {
      {"<joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/><joint axis='0 1 0'/>",
       "height: body:1.z; up: body:1.zx body:1.zz; velocity: body:1.lvx body:1.lvz body:1.lwy",
       "joints raise"},
      {"<joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 1 0'/><joint axis='0 0 1'/>",
       "velocity: body:1.lvx body:1.lvy body:1.lwz", "joints"},
      // on rails, the heading matters
      {"<joint type='slide' axis='1 0 0'/><joint axis='0 0 1'/>",
       "joints: sin(qpos.1) cos(qpos.1); velocity: body:1.lvx body:1.lvy body:1.lwz", "joints"},
      // a limit, a spring or a servo fixes the place
      {"<joint type='slide' axis='1 0 0' range='-1 1'/>", "joints: qpos; joint_velocities: qvel",
       "joints"},
      {"<joint type='slide' axis='1 0 0' stiffness='1'/>", "joints: qpos; joint_velocities: qvel",
       "joints"},
      {"<joint axis='0 1 0'/>", "joints: sin(qpos.0) cos(qpos.0); joint_velocities: qvel",
       "joints"},
      {"<joint axis='0 1 0' stiffness='1'/>", "joints: qpos; joint_velocities: qvel", "joints"},
      {"<joint type='ball'/>", "joints: qpos; joint_velocities: qvel", "joints"},
  };
  for (int i = 0; i < COUNT(rows); i++) {
    char xml[1024];
    snprintf(
        xml, sizeof xml,
        "<mujoco><compiler autolimits='true'/><worldbody>" FLOOR
        "<body pos='0 0 1'>%s<geom type='box' size='.3 .1 .1'/><site name='s'/></body></worldbody>"
        "<actuator><motor site='s' gear='1 0 0 0 0 0' ctrlrange='-1 1'/></actuator></mujoco>",
        rows[i].joints);
    Example e;
    example_new(&e, xml);
    assert_string_equal(observed(e.robot), rows[i].observed);
    assert_string_equal(resets(e.robot), rows[i].resets);
    assert_int_equal(e.robot->notes.count, 0);
    example_free(&e);
  }
}

// what ties a robot to a place makes the place matter
static void test_robots_on_a_leash(void **state) {
  (void)state;
  static const char *const ties[] = {
      "<tendon><spatial><site site='hook'/><site site='foot'/></spatial></tendon>",
      "<equality><connect body1='leg' anchor='0 0 0'/></equality>",
      "<equality><weld site1='foot' site2='hook'/></equality>",
      "<tendon><spatial><site site='foot'/><site site='hand'/></spatial></tendon>",
  };
  for (int i = 0; i < COUNT(ties); i++) {
    char xml[2048];
    snprintf(xml, sizeof xml,
             "<mujoco><worldbody>" FLOOR "<site name='hook' pos='0 0 2'/>" FREE_ROBOT
             "<body name='ball' pos='2 0 2'><freejoint/><geom size='.1'/><site name='hand'/></body>"
             "</worldbody>" MOTOR("hip") "%s</mujoco>",
             ties[i]);
    Example e;
    example_new(&e, xml);
    if (i < 3) assert_ptr_equal(strstr(observed(e.robot), "joints: qpos.0..7 "), observed(e.robot));
    else assert_non_null(strstr(observed(e.robot), "height: trunk_1.z"));
    example_free(&e);
  }
}

static void test_objects(void **state) {
  (void)state;
#define BALL "<body name='ball' pos='2 0 .1'><freejoint/><geom size='.1'/></body>"
  Example e;
  example_new(&e,
              "<mujoco><worldbody>" FLOOR BALL FREE_ROBOT "</worldbody>" MOTOR("hip") "</mujoco>");
  assert_non_null(strstr(observed(e.robot), "height: trunk_1.z"));
  assert_non_null(strstr(observed(e.robot),
                         "objects: ball in trunk_1 ball.xaxis in trunk_1 ball.zaxis in trunk_1 "
                         "ball.vel in trunk_1 ball.angvel in trunk_1"));
  assert_non_null(strstr(observed(e.robot), "joints: qpos.14 sin(qpos.15) cos(qpos.15)"));
  assert_non_null(strstr(observed(e.robot), "joint_velocities: qvel.12.."));
  assert_string_equal(resets(e.robot), "noise");  // the ball lies on the floor
  example_free(&e);

  example_new(
      &e, "<mujoco><worldbody>" FLOOR BALL
          "<body name='arm' pos='0 0 1'>"
          "<joint name='j' axis='0 1 0' range='-30 30'/><geom size='.1'/></body></worldbody>" MOTOR(
              "j") "</mujoco>");
  assert_string_equal(observed(e.robot), "joints: qpos; joint_velocities: qvel");
  assert_null(e.robot->camera.text);
  example_free(&e);
}

static void test_keyframes(void **state) {
  (void)state;
  Example e;
  example_new(&e, "<mujoco><worldbody>" FLOOR FREE_ROBOT "</worldbody>" MOTOR(
      "hip") "<keyframe><key name='a' qpos='0 0 9 1 0 0 0 0 0'/>"
             "<key name='home' qpos='0 0 .35 1 0 0 0 .1 0'/></keyframe></mujoco>");
  assert_string_equal(resets(e.robot), "keyframe noise raise");
  assert_string_equal(e.robot->resets[0].text.text, "1");
  double obs[64];
  for (int i = 0; i < 20; i++) {
    Draws draw = draw_new(1, 0, (uint32_t)i);
    single_reset(&e.world, e.data, &draw, obs);
    assert_true(fabs(e.data->qpos[7] - 0.1) <= 0.01 && e.data->ncon == 0);
    assert_true(e.data->qpos[2] > 0.3 && e.data->qpos[2] < 0.6);
  }
  example_free(&e);
}

// a robot that crosses the floor in its default state is drawn above it
static void test_resets_are_above_the_floor(void **state) {
  (void)state;
  Example e;
  example_new(&e, "<mujoco><worldbody>" FLOOR
                  "<body name='b' pos='0 0 -.4'><freejoint/>"
                  "<geom type='capsule' size='.1 .5'/><body><joint name='j' axis='1 0 0' "
                  "range='-90 90'/><geom type='capsule' size='.1' fromto='0 0 0 0 .5 .5'/>"
                  "</body></body></worldbody>" MOTOR("j") "</mujoco>");
  double obs[64], low = 9;
  for (int i = 0; i < 50; i++) {
    Draws draw = draw_new(1, 0, (uint32_t)i);
    single_reset(&e.world, e.data, &draw, obs);
    for (int c = 0; c < e.data->ncon; c++) assert_true(e.data->contact[c].geom[0] != 0);
    low = fmin(low, e.data->qpos[2]);
  }
  assert_true(low > 0);
  example_free(&e);
}

// which sensors tell where the robot is or faces, apart from those that always do
static void test_sensors_that_depend_on_the_place(void **state) {
  (void)state;
  static const struct {
    const char *sensor;
    int is_global;
  } rows[] = {
      {"<framepos objtype='site' objname='foot'/>", 1},
      {"<framepos objtype='site' objname='foot' reftype='site' refname='hook'/>", 1},
      {"<framepos objtype='site' objname='foot' reftype='body' refname='leg'/>", 0},
      {"<framepos objtype='site' objname='hook' reftype='body' refname='leg'/>", 1},
      {"<framequat objtype='site' objname='hook'/>", 0},
      {"<distance geom1='floor' geom2='wall' cutoff='9'/>", 0},
      {"<distance geom1='wall' body2='leg' cutoff='9'/>", 1},
      {"<normal body1='leg' body2='wheel' cutoff='9'/>", 1},
      {"<jointpos joint='hip'/>", 0},
      {"<actuatorpos actuator='push'/>", 0},
      {"<velocimeter site='foot'/>", 0},
  };
  for (int i = 0; i < COUNT(rows); i++) {
    char xml[2048];
    snprintf(xml, sizeof xml,
             "<mujoco><worldbody>" FLOOR
             "<site name='hook'/><geom name='wall' pos='5 0 0' size='1'/>" FREE_ROBOT
             "</worldbody><actuator><motor name='push' joint='hip' ctrlrange='-1 1'/>"
             "</actuator><sensor>%s</sensor></mujoco>",
             rows[i].sensor);
    Example e;
    example_new(&e, xml);
    assert_int_equal(e.world.model->nsensor, 1);
    if (robot_sensor_is_global(e.world.model, 0) != rows[i].is_global)
      fail_msg("%s", rows[i].sensor);
    example_free(&e);
  }
}

// what a description has stays
static void test_a_description_comes_first(void **state) {
  (void)state;
  static const char yaml[] =
      "model: robot.xml\nsubsteps: 3\nepisode: 50\nobserved: {all: [qvel, trunk_1]}\nreset: []\n"
      "camera: pov\nactions: raw\naliases: {trunk_1: hip}\n";
  Example e = {0};
  Bundle *bundle =
      bundle_of("<mujoco><worldbody>" FLOOR FREE_ROBOT "</worldbody>" MOTOR("hip") "</mujoco>");
  mjSpec *spec;
  assert_int_equal(bundle_spec(bundle, BASE_DEFAULT, &spec), 0);
  assert_int_equal(bundle_compile(bundle, spec, &e.world.model), 0);
  mj_deleteSpec(spec);
  bundle_free(bundle);
  if (robot_parse(&e.robot, "robot.yaml", yaml, strlen(yaml))) fail_msg("%s", bfm_error());
  if (robot_complete(e.robot, e.world.model)) fail_msg("%s", bfm_error());
  assert_string_equal(observed(e.robot), "all: qvel trunk_1");
  assert_int_equal(e.robot->substeps, 3);
  assert_int_equal(e.robot->episode, 50);
  assert_int_equal(e.robot->reset_count, 0);
  assert_int_equal(e.robot->size, 9);
  assert_string_equal(e.robot->camera.text, "pov");

  // an alias hides the body's name
  e.robot->observed_count = e.robot->size = 0;
  assert_int_equal(robot_complete(e.robot, e.world.model), 0);
  assert_non_null(strstr(observed(e.robot), "height: body:trunk_1.z"));
  example_free(&e);
}

// ---------------------------------- all models ---------------------------------------------------

typedef struct {
  double x, y, angle;
} Move;

static void turn(const Move *move, double v[3]) {
  double x = v[0], y = v[1];
  v[0] = cos(move->angle) * x - sin(move->angle) * y;
  v[1] = sin(move->angle) * x + cos(move->angle) * y;
}

static int is_root(const mjModel *m, int body) {
  return m->body_dofnum[body] > 0 && m->body_weldid[m->body_parentid[body]] == 0;
}

static int is_free_slide(const mjModel *m, const mjData *data, int j) {
  return m->jnt_type[j] == mjJNT_SLIDE && !m->jnt_limited[j] && m->jnt_stiffness[j] == 0 &&
         fabs(data->xaxis[3 * j + 2]) < 0.01;
}

// how many directions a root may go: 3 with a free joint, otherwise its free slides
static int freedom(const mjModel *m, const mjData *data, int body) {
  int count = 0, first = m->body_jntadr[body];
  if (m->jnt_type[first] == mjJNT_FREE) return 3;
  for (int j = first; j < first + m->body_jntnum[body]; j++) count += is_free_slide(m, data, j);
  return count;
}

static int vertical_hinge(const mjModel *m, const mjData *data, int body) {
  int first = m->body_jntadr[body];
  for (int j = first; j < first + m->body_jntnum[body]; j++) {
    if (m->jnt_type[j] == mjJNT_HINGE && !m->jnt_limited[j] && data->xaxis[3 * j + 2] > 0.99)
      return j;
  }
  return -1;
}

static void move_free(const mjModel *m, mjData *data, int joint, const Move *move) {
  double *q = data->qpos + m->jnt_qposadr[joint], *v = data->qvel + m->jnt_dofadr[joint];
  double spin[4] = {cos(move->angle / 2), 0, 0, sin(move->angle / 2)}, quat[4];
  turn(move, q);
  turn(move, v);
  q[0] += move->x, q[1] += move->y;
  mju_mulQuat(quat, spin, q + 3);
  mju_copy4(q + 3, quat);
}

// moves the slides of a root so that the root is where it shall be
static void move_slides(const mjModel *m, mjData *data, int body, const Move *move) {
  double at[3] = {m->body_pos[3 * body], m->body_pos[3 * body + 1], 0}, speed[3] = {0};
  double *axes[2] = {0};
  int joints[2], count = 0, first = m->body_jntadr[body];
  for (int j = first; j < first + m->body_jntnum[body]; j++) {
    if (!is_free_slide(m, data, j) || count == 2) continue;
    joints[count] = j;
    axes[count] = data->xaxis + 3 * j;
    mju_addToScl3(at, axes[count], data->qpos[m->jnt_qposadr[j]]);
    mju_addToScl3(speed, axes[count], data->qvel[m->jnt_dofadr[j]]);
    count++;
  }
  turn(move, at);
  turn(move, speed);
  at[0] += move->x - m->body_pos[3 * body], at[1] += move->y - m->body_pos[3 * body + 1];
  for (int k = 0; k < count; k++) {
    data->qpos[m->jnt_qposadr[joints[k]]] = mju_dot3(at, axes[k]);
    data->qvel[m->jnt_dofadr[joints[k]]] = mju_dot3(speed, axes[k]);
  }
  int hinge = vertical_hinge(m, data, body);
  if (hinge >= 0) data->qpos[m->jnt_qposadr[hinge]] += move->angle;
}

// whether all roots that go anywhere can also turn
static int turns(const mjModel *m, const mjData *data) {
  for (int b = 1; b < m->nbody; b++) {
    if (!is_root(m, b) || !freedom(m, data, b) || freedom(m, data, b) == 3) continue;
    if (freedom(m, data, b) < 2 || vertical_hinge(m, data, b) < 0) return 0;
  }
  return 1;
}

static void move_all(const mjModel *m, mjData *data, const Move *move) {
  for (int b = 1; b < m->nbody; b++) {
    if (!is_root(m, b)) continue;
    int joint = m->body_jntadr[b], free = freedom(m, data, b);
    if (free == 3) move_free(m, data, joint, move);
    else if (free) move_slides(m, data, b, move);
  }
}

static void set_random(const mjModel *m, mjData *data, uint32_t sample) {
  Draws draw = draw_new(5, 1, sample);
  mj_resetData(m, data);
  for (int i = 0; i < m->nv; i++) data->qvel[i] = draw_normal(&draw);
  mj_integratePos(m, data->qpos, data->qvel, 0.7);
  for (int i = 0; i < m->nv; i++) data->qvel[i] = draw_normal(&draw);
  for (int i = 0; i < m->na; i++) data->act[i] = draw_uniform(&draw, 0, 1);
  mj_kinematics(m, data);
}

// marks the numbers of an observation that are readings of sensors that depend on the place
static int is_global(const Example *e, int number) {
  const Robot *robot = e->robot;
  const mjModel *m = e->world.model;
  int at = 0;
  for (int p = 0; p < robot->observed_count; p++) {
    int count = observer_count(e->world.robot->observer, p);
    if (strcmp(robot->observed[p].name.text, "sensors") != 0) {
      at += count;
      continue;
    }
    for (int s = 0; s < m->nsensor; s++) {
      int type = m->sensor_type[s];
      if (type == mjSENS_CLOCK || type == mjSENS_USER || type == mjSENS_PLUGIN) continue;
      if (number >= at && number < at + m->sensor_dim[s]) return robot_sensor_is_global(m, s);
      at += m->sensor_dim[s];
    }
  }
  return 0;
}

// whether the robot itself goes anywhere
static int is_mobile(const mjModel *m, const mjData *data) {
  for (int b = 1; b < m->nbody; b++) {
    if (is_root(m, b) && m->body_rootid[b] == quantities_robot(m)) return freedom(m, data, b);
  }
  return 0;
}

// Returns how many numbers were compared. Without gravity and contacts: a floor with edges is no symmetry.
static int check_invariance(Example *e, const char *path) {
  mjModel *m = e->world.model;
  int size = e->robot->size, compared = 0, can_turn = 0, line = 0;
  double before[OBS_MAX], after[OBS_MAX];
  mj_kinematics(m, e->data);
  if (!is_mobile(m, e->data)) return 0;
  if (!strstr(observed(e->robot), "velocity: ")) {
    // a tendon or a constraint ties them to the world
    assert_true(strstr(path, "mujoco/testdata/model.xml") || strstr(path, "assets/fetch/"));
    return 0;
  }
  for (int b = 1; b < m->nbody; b++) {
    if (is_root(m, b) && freedom(m, e->data, b) == 1) line = 1;
  }
  can_turn = turns(m, e->data);
  e->world.resting->opt.disableflags |= mjDSBL_CONTACT;
  for (uint32_t sample = 0; sample < 5; sample++) {
    Draws draw = draw_new(6, 2, sample);
    Move move = {draw_uniform(&draw, -3, 3), line ? 0 : draw_uniform(&draw, -3, 3),
                 can_turn ? draw_uniform(&draw, -3, 3) : 0};
    set_random(m, e->data, sample);
    mj_forward(e->world.resting, e->data);
    e->domain.observe(&e->world, e->data, before);
    move_all(m, e->data, &move);
    mju_zero(e->data->qacc_warmstart, (int)m->nv);
    mj_forward(e->world.resting, e->data);
    e->domain.observe(&e->world, e->data, after);
    for (int i = 0; i < size; i++) {
      if (is_global(e, i)) continue;
      double scale = 1 + fabs(before[i]);
      if (!(fabs(after[i] - before[i]) <= 1e-6 * scale)) {
        fail_msg("%s: number %d of the observation changes from %g to %g", path, i, before[i],
                 after[i]);
      }
      compared++;
    }
  }
  e->world.resting->opt.disableflags &= ~mjDSBL_CONTACT;
  return compared;
}

// resets and random actions; returns how many steps diverged
static int simulate(Example *e, int steps) {
  const mjModel *m = e->world.model;
  double obs[OBS_MAX], action[CTRL_MAX];
  int diverged = 0, begin = 1;
  for (int t = 0; t < steps; t++) {
    Draws draw = draw_new(8, 3, (uint32_t)t);
    if (begin) single_reset(&e->world, e->data, &draw, obs);
    for (int u = 0; u < m->nu; u++) action[u] = draw_uniform(&draw, -1, 1);
    single_begin(&e->world, e->data, action);
    single_substeps(&e->world, e->data, begin);
    begin = !single_end(&e->world, e->data, obs);
    diverged += begin;
    for (int i = 0; i < e->robot->size && !begin; i++) assert_true(isfinite(obs[i]));
    if (t % 20 == 19) begin = 1;
  }
  return diverged;
}

// all texts that may be models
static struct {
  char **paths;
  int count;
} found;

static int keep_path(const char *path, const struct stat *info, int type, struct FTW *ftw) {
  (void)info, (void)ftw;
  const char *dot = strrchr(path, '.');
  if (type != FTW_F || !dot || (strcmp(dot, ".xml") != 0 && strcmp(dot, ".urdf") != 0)) return 0;
  found.paths = realloc(found.paths, (size_t)(found.count + 1) * sizeof *found.paths);
  found.paths[found.count++] = strdup(path);
  return 0;
}

static void find_models(void) {
#define WHEELS ".venv-oracle/lib/python3*/site-packages/"
  static const char *const folders[] = {
      ".deps/models",  WHEELS "dm_control",         WHEELS "gymnasium",
      WHEELS "mujoco", WHEELS "gymnasium_robotics",
  };
  glob_t matches;
  for (int i = 0; i < COUNT(folders); i++) {
    glob(folders[i], i ? GLOB_APPEND : 0, NULL, &matches);
  }
  for (size_t i = 0; i < matches.gl_pathc; i++) nftw(matches.gl_pathv[i], keep_path, 16, FTW_PHYS);
  globfree(&matches);
}

// the sensors that are left out of the comparison
static void print_excepted(const Example *e, const char *path) {
  for (int i = 0; i < e->robot->notes.count; i++) {
    const char *text = e->robot->notes.of[i].text;
    if (strstr(text, "in the world")) print_message("%s: %s\n", path, text);
  }
}

static void check_model(Example *e, const char *path, int *compared) {
  int numbers, diverged;
  example_start(e);
  numbers = check_invariance(e, path);
  if (numbers) print_excepted(e, path);
  *compared += numbers;
  // a fruit fly has 200 physics steps in a control step
  int steps = e->robot->substeps > 20 ? 2 : 40;
  diverged = simulate(e, steps);
  if (diverged > steps / 4) fail_msg("%s: %d of %d steps diverged", path, diverged, steps);
}

static void test_all_models_are_invariant_and_run(void **state) {
  (void)state;
  int count = 0, refused = 0, compared = 0;
  find_models();
  for (int i = 0; i < found.count; i++) {
    const char *path = found.paths[i];
    Bundle *bundle;
    Example e;
    if (bundle_gather(&bundle, path, NULL)) {
      // a part of a model, or one with models inside of it
      mjModel *direct = mj_loadXML(path, NULL, NULL, 0);
      if (direct && direct->nu) fail_msg("%s: %s", path, bfm_error());
      if (direct) mj_deleteModel(direct);
      continue;
    }
    int status = example_complete(&e, bundle);
    if (!e.robot) {
      mjModel *direct = mj_loadXML(path, NULL, NULL, 0);
      if (direct) fail_msg("%s: %s", path, bfm_error());
    } else if (status) {
      assert_true(strstr(bfm_error(), "no actuators") || strstr(bfm_error(), "no joints"));
      refused++;
    } else {
      check_model(&e, path, &compared);
      count++;
    }
    example_free(&e);
  }
  print_message("%d models, %d numbers compared; %d refused\n", count, compared, refused);
  assert_true(count >= 8);
  for (int i = 0; i < found.count; i++) free(found.paths[i]);
  free(found.paths);
}

// ---------------------------------- refusals -----------------------------------------------------

static void test_models_that_are_no_robots(void **state) {
  (void)state;
#define BODY(joint) "<worldbody><body>" joint "<geom size='1'/></body></worldbody>"
  static const struct {
    const char *xml, *error;
  } rows[] = {
      {"<worldbody><geom size='1'/></worldbody>",
       "robot.xml: the model has no joints, so nothing moves"},
      {BODY("<freejoint/>"),
       "robot.xml: the model has no actuators, so there is nothing to learn: add an <actuator>"},
      {"<option timestep='2'/>" BODY("<joint name='j'/>") MOTOR("j"),
       "robot.xml: the timestep is 2 s"},
      {BODY("<joint name='j'/>") "<worldbody><replicate count='300'><body><joint/><geom size='1'/>"
                                 "<site name='s'/></body></replicate></worldbody>",
       NULL},
  };
  for (int i = 0; i < COUNT(rows); i++) {
    char xml[1024];
    Example e;
    if (!rows[i].error) continue;
    snprintf(xml, sizeof xml, "<mujoco>%s</mujoco>", rows[i].xml);
    assert_int_equal(example_complete(&e, bundle_of(xml)), BFM_BAD_FILE);
    assert_string_equal(bfm_error(), rows[i].error);
    example_free(&e);
  }
}

// a chain of `count` links, each with a motor if motors
static char *chain(int count, int motors) {
  size_t room = (size_t)count * 160 + 256, used = 0;
  char *xml = malloc(room);
  used += (size_t)snprintf(xml, room, "<mujoco><worldbody>");
  for (int i = 0; i < count; i++) {
    used +=
        (size_t)snprintf(xml + used, room - used,
                         "<body pos='%d 0 0'><joint name='j%d'/><geom size='.1'/></body>", i, i);
  }
  used += (size_t)snprintf(xml + used, room - used, "</worldbody><actuator>");
  for (int i = 0; i < (motors ? count : 1); i++) {
    used += (size_t)snprintf(xml + used, room - used, "<motor joint='j%d' ctrlrange='-1 1'/>", i);
  }
  snprintf(xml + used, room - used, "</actuator></mujoco>");
  return xml;
}

static void test_large_models(void **state) {
  (void)state;
  Example e;
  char *xml = chain(500, 1);
  assert_int_equal(example_complete(&e, bundle_of(xml)), BFM_BAD_FILE);
  assert_string_equal(bfm_error(),
                      "robot.xml: the model has 500 controls, but at most 256 are supported");
  example_free(&e);
  free(xml);

  xml = chain(500, 0);
  assert_int_equal(example_complete(&e, bundle_of(xml)), BFM_BAD_FILE);
  assert_string_equal(bfm_error(),
                      "robot.xml: the observation has more than 1024 numbers: choose fewer with "
                      "\"observed\" in a robot's .yaml");
  example_free(&e);
  free(xml);

  xml = chain(250, 1);
  if (example_complete(&e, bundle_of(xml))) fail_msg("%s", bfm_error());
  example_start(&e);
  assert_int_equal(simulate(&e, 3), 0);
  example_free(&e);
  free(xml);
}

static void test_numbers_that_are_not(void **state) {
  (void)state;
  Example e;
  Bundle *bundle = bundle_of("<mujoco>" BODY("<joint name='j'/>") MOTOR("j") "</mujoco>");
  assert_int_equal(example_complete(&e, bundle), 0);
  if (e.world.model) e.world.model->qpos0[0] = NAN;
  assert_int_equal(robot_complete(e.robot, e.world.model), BFM_BAD_FILE);
  assert_string_equal(bfm_error(), "robot.xml: qpos0 of the model contains nan");
  example_free(&e);
}

static int set_up(void **state) {
  (void)state;
  mjLogConfig config = mju_getLogConfig();
  config.logto_console = config.logto_file = 0;
  mju_setLogConfig(config);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_free_robot),
      cmocka_unit_test(test_planar_robots),
      cmocka_unit_test(test_robots_on_a_leash),
      cmocka_unit_test(test_objects),
      cmocka_unit_test(test_keyframes),
      cmocka_unit_test(test_resets_are_above_the_floor),
      cmocka_unit_test(test_sensors_that_depend_on_the_place),
      cmocka_unit_test(test_a_description_comes_first),
      cmocka_unit_test(test_all_models_are_invariant_and_run),
      cmocka_unit_test(test_models_that_are_no_robots),
      cmocka_unit_test(test_large_models),
      cmocka_unit_test(test_numbers_that_are_not),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
