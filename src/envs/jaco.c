// jaco: dm_control manipulation's reach_site_features, whose observation contains a target that is left
// out here, because rewards are prompts. This file assembles arm, hand and floor with mjSpec, body for
// body as dm_control's composer does. The observation has the joints of arm and hand, torques and the
// tool centre point; actions are joint velocities. At first the hand is anywhere in a box above the
// floor and points down, by inverse kinematics.

#include <stdio.h>
#include <string.h>

#include "envs/tasks.h"

enum { PINCH, TORQUE, HAND };

enum { ARM_JOINTS = 6, JOINTS = 9 };  // arm; arm and hand

static const Alias aliases[] = {
    {"tcp", "hand_pinchsite", "the tool centre point: tcp.x, tcp.y, tcp.z"},
    {0},
};

// Move the tool centre point to a place on the floor, or to one drawn from the box of initial states:
// numpy.random.default_rng(0).uniform((-.2, -.2, .02), (.2, .2, .4), (4, 3)).round(4)
static const Task tasks[] = {
    {"reach_top_left", TASK_KNOWN,
     "tolerance(norm(tcp.x + 0.09, tcp.y - 0.09, tcp.z - 0.001), 0, 0.05, 0.05)",
     "reach (-0.09, 0.09)", NULL},
    {"reach_top_right", TASK_KNOWN,
     "tolerance(norm(tcp.x - 0.09, tcp.y - 0.09, tcp.z - 0.001), 0, 0.05, 0.05)",
     "reach (0.09, 0.09)", NULL},
    {"reach_bottom_left", TASK_KNOWN,
     "tolerance(norm(tcp.x + 0.09, tcp.y + 0.09, tcp.z - 0.001), 0, 0.05, 0.05)",
     "reach (-0.09, -0.09)", NULL},
    {"reach_bottom_right", TASK_KNOWN,
     "tolerance(norm(tcp.x - 0.09, tcp.y + 0.09, tcp.z - 0.001), 0, 0.05, 0.05)",
     "reach (0.09, -0.09)", NULL},
    {"reach_random1", TASK_NEW,
     "tolerance(norm(tcp.x - 0.0548, tcp.y + 0.0921, tcp.z - 0.0356), 0, 0.05, 0.05)",
     "reach (0.0548, -0.0921, 0.0356)", NULL},
    {"reach_random2", TASK_NEW,
     "tolerance(norm(tcp.x + 0.1934, tcp.y - 0.1253, tcp.z - 0.3668), 0, 0.05, 0.05)",
     "reach (-0.1934, 0.1253, 0.3668)", NULL},
    {"reach_random3", TASK_NEW,
     "tolerance(norm(tcp.x - 0.0427, tcp.y - 0.0918, tcp.z - 0.2266), 0, 0.05, 0.05)",
     "reach (0.0427, 0.0918, 0.2266)", NULL},
    {"reach_random4", TASK_NEW,
     "tolerance(norm(tcp.x - 0.174, tcp.y - 0.1263, tcp.z - 0.021), 0, 0.05, 0.05)",
     "reach (0.174, 0.1263, 0.021)", NULL},
    {.name = NULL},
};

// ---------------------------------- the model ----------------------------------------------------

static int add_velocity_actuator(mjSpec *spec, const char *joint, double kv, double max_velocity,
                                 double max_force) {
  mjsActuator *actuator = mjs_addActuator(spec, NULL);
  mjs_setName(actuator->element, joint);
  mjs_setString(actuator->target, joint);
  actuator->trntype = mjTRN_JOINT;
  actuator->ctrllimited = mjLIMITED_TRUE;
  actuator->ctrlrange[0] = -max_velocity;
  actuator->ctrlrange[1] = max_velocity;
  actuator->forcelimited = mjLIMITED_TRUE;
  actuator->forcerange[0] = -max_force;
  actuator->forcerange[1] = max_force;
  const char *error = mjs_setToVelocity(actuator, kv);
  return *error ? bfm_fail(BFM_BAD_FILE, "jaco's actuator %s: %s", joint, error) : BFM_OK;
}

// adds a velocity actuator and a torque sensor to each joint of the arm
static int equip_arm(mjSpec *arm) {
  for (int i = 1; i <= ARM_JOINTS; i++) {
    char joint[16], site[32], sensor_name[32];
    snprintf(joint, sizeof joint, "joint_%d", i);
    snprintf(site, sizeof site, "joint_%d_site", i);
    snprintf(sensor_name, sizeof sensor_name, "joint_%d_torque", i);

    mjsElement *element = mjs_findElement(arm, mjOBJ_JOINT, joint);
    if (!element) return bfm_fail(BFM_BAD_FILE, "jaco's arm has no '%s'", joint);
    int large = i <= 3;
    TRY(add_velocity_actuator(arm, joint, 500, (large ? 36 : 48) * (mjPI / 180),
                              large ? 30.5 : 6.8));

    mjsSite *place = mjs_addSite(mjs_getParent(element), NULL);
    mjs_setName(place->element, site);
    place->group = 4;
    place->size[0] = 1e-3;

    mjsSensor *sensor = mjs_addSensor(arm);
    mjs_setName(sensor->element, sensor_name);
    mjs_setString(sensor->objname, site);
    sensor->type = mjSENS_TORQUE;
    sensor->objtype = mjOBJ_SITE;
  }
  return BFM_OK;
}

static int equip_hand(mjSpec *hand) {
  for (int i = 1; i <= JOINTS - ARM_JOINTS; i++) {
    char joint[16];
    snprintf(joint, sizeof joint, "finger_%d", i);
    TRY(add_velocity_actuator(hand, joint, 10, 5, 1));
  }
  return BFM_OK;
}

static void add_floor(mjSpec *spec) {
  mjsBody *world = mjs_findBody(spec, "world");

  mjsTexture *texture = mjs_addTexture(spec, NULL);
  mjs_setName(texture->element, "groundplane");
  texture->type = mjTEXTURE_2D;
  texture->builtin = mjBUILTIN_CHECKER;
  texture->mark = mjMARK_EDGE;
  texture->width = texture->height = 300;
  for (int i = 0; i < 3; i++) {
    texture->rgb1[i] = 0.2 + 0.1 * i;
    texture->rgb2[i] = 0.1 + 0.1 * i;
    texture->markrgb[i] = 0.8;
  }
  mjsMaterial *material = mjs_addMaterial(spec, NULL);
  mjs_setName(material->element, "groundplane");
  mjs_setInStringVec(material->textures, mjTEXROLE_RGB, "groundplane");
  material->texrepeat[0] = material->texrepeat[1] = 5;
  material->texuniform = 1;
  material->reflectance = 0.2;

  mjsGeom *floor = mjs_addGeom(world, NULL);
  mjs_setName(floor->element, "ground");
  mjs_setString(floor->material, "groundplane");
  floor->type = mjGEOM_PLANE;
  floor->size[0] = floor->size[1] = 1;
  floor->size[2] = 0.1;
  floor->friction[0] = 0.4;
  floor->solref[0] = 0.002;
  floor->solref[1] = 1;
  floor->solimp[0] = 0.95;
  floor->solimp[1] = 0.99;
  floor->solimp[2] = 0.001;

  mjsLight *light = mjs_addLight(world, NULL);
  light->pos[2] = 1.5;
  for (int i = 0; i < 3; i++) {
    light->dir[i] = i == 2 ? -1 : 0;
    light->diffuse[i] = 0.7f;
    light->specular[i] = 0.3f;
  }

  mjsCamera *camera = mjs_addCamera(world, NULL);
  mjs_setName(camera->element, "front_far");
  camera->pos[1] = -0.8;
  camera->pos[2] = 1;
  camera->alt.type = mjORIENTATION_XYAXES;
  double axes[6] = {1, 0, 0, 0, 0.7, 0.75};
  memcpy(camera->alt.xyaxes, axes, sizeof axes);
}

// parses a part, equips it, and attaches its body `root` to the body `at`; *attached is the new body
static int attach(mjSpec *spec, mjsBody *at, const char *folder, const char *file, const char *root,
                  const char *prefix, int (*equip)(mjSpec *part), mjsBody **attached) {
  char path[4200], error[256] = "";
  snprintf(path, sizeof path, "%s/%s", folder, file);
  mjSpec *part = mj_parseXML(path, NULL, error, sizeof error);
  if (!part) return bfm_fail(BFM_BAD_FILE, "%s: %s", path, error);

  // the compiler settings of the arena apply to all parts
  part->compiler.boundmass = spec->compiler.boundmass;
  part->compiler.boundinertia = spec->compiler.boundinertia;

  int status = equip(part);
  mjsBody *body = mjs_findBody(part, root);
  if (!status && (!at || !body)) status = bfm_fail(BFM_BAD_FILE, "%s: no body '%s'", path, root);
  if (!status) {
    mjsElement *element = mjs_attach(mjs_addFrame(at, NULL)->element, body->element, prefix, "");
    *attached = element ? mjs_asBody(element) : NULL;
    if (!*attached) status = bfm_fail(BFM_BAD_FILE, "%s: %s", path, mjs_getError(spec));
  }
  mj_deleteSpec(part);
  return status;
}

// arm and hand are attached to bodies of their own, like composer's attachment frames
static int edit(mjSpec *spec, const char *folder) {
  mjsBody *world = mjs_findBody(spec, "world"), *attached;
  spec->option.disableflags |= mjDSBL_NATIVECCD;
  add_floor(spec);

  mjsBody *arm = mjs_addBody(world, NULL);
  mjs_setName(arm->element, "arm");
  arm->pos[1] = 0.4;
  TRY(attach(spec, arm, folder, "jaco_arm.xml", "b_base", "arm_", equip_arm, &attached));

  mjsBody *wrist = mjs_findBody(spec, "arm_b_6");
  if (!wrist) return bfm_fail(BFM_BAD_FILE, "jaco's arm has no 'b_6'");
  mjsBody *hand = mjs_addBody(wrist, NULL);
  mjs_setName(hand->element, "hand");
  hand->quat[0] = hand->quat[3] = 0;
  hand->quat[1] = hand->quat[2] = 0.70710678118;  // the orientation of the arm's wrist site
  TRY(attach(spec, hand, folder, "jaco_hand.xml", "hand", "hand_", equip_hand, &attached));
  return BFM_OK;
}

// ---------------------------------- initial states -----------------------------------------------

// whether a geom belongs to the floor (0), the arm (1) or the hand (2)
static int part_of(const World *world, int geom) {
  int body = world->model->geom_bodyid[geom];
  return body == 0 ? 0 : body < world->ids[HAND] ? 1 : 2;
}

// whether the arm touches itself, the hand or the floor, or the hand touches the floor
static int collides(const World *world, const mjData *data) {
  for (int c = 0; c < data->ncon; c++) {
    const mjContact *contact = data->contact + c;
    int a = part_of(world, contact->geom[0]), b = part_of(world, contact->geom[1]);
    if (contact->dist <= 0 && !(a == 2 && b == 2)) return 1;
  }
  return 0;
}

// the distance of the tool centre point from its target, as six numbers and as their norm
static double tcp_error(const World *world, const mjData *data, const double target[3],
                        double error[6]) {
  static const double down[4] = {0, 0.70710678118, 0.70710678118, 0};
  double quat[4], inverse[4], turn[4];
  mju_sub3(error, target, data->site_xpos + 3 * world->ids[PINCH]);
  mju_mat2Quat(quat, data->site_xmat + 9 * world->ids[PINCH]);
  mju_negQuat(inverse, quat);
  mju_mulQuat(turn, down, inverse);
  mju_quat2Vel(error + 3, turn, 1);
  return mju_norm3(error) + 2 * mju_norm3(error + 3);
}

// Moves the arm until the tool centre point is at target and points down: damped least squares far
// from the target, Gauss-Newton near it. Returns 1 on success.
static int reach(const World *world, mjData *data, const double target[3]) {
  const mjModel *model = world->model;
  double jacobian[6 * JOINTS], hessian[36], error[6], update[6];

  for (int step = 0; step < 100; step++) {
    mj_kinematics(model, data);
    mj_comPos(model, data);
    double norm = tcp_error(world, data, target, error);
    if (norm < 1e-14) return 1;

    mj_jacSite(model, data, jacobian, jacobian + 3 * model->nv, world->ids[PINCH]);
    for (int i = 0; i < ARM_JOINTS; i++) {
      update[i] = 0;
      for (int k = 0; k < 6; k++) update[i] += jacobian[k * model->nv + i] * error[k];
      for (int j = 0; j < ARM_JOINTS; j++) {
        double sum = i == j && norm > 0.1 ? 3e-2 : 0;
        for (int k = 0; k < 6; k++) {
          sum += jacobian[k * model->nv + i] * jacobian[k * model->nv + j];
        }
        hessian[ARM_JOINTS * i + j] = sum;
      }
    }
    if (mju_cholFactor(hessian, ARM_JOINTS, 1e-14) < ARM_JOINTS) return 0;
    mju_cholSolve(update, hessian, update, ARM_JOINTS);

    // give up if there is too little progress, or if the step is too large
    double length = mju_norm(update, ARM_JOINTS);
    if (norm > 20 * length) return 0;
    double scale = length > 2 ? 2 / length : 1;
    for (int i = 0; i < ARM_JOINTS; i++) data->qpos[i] += scale * update[i];
  }
  return 0;
}

// moves angles into the joints' ranges by whole turns; returns 0 if that is impossible
static int wrap_angles(const mjModel *model, mjData *data) {
  for (int i = 0; i < ARM_JOINTS; i++) {
    double lo = model->jnt_limited[i] ? model->jnt_range[2 * i] : 0;
    double hi = model->jnt_limited[i] ? model->jnt_range[2 * i + 1] : 2 * mjPI;
    double *q = data->qpos + i;
    while (*q >= hi) *q -= 2 * mjPI;
    while (*q < lo) *q += 2 * mjPI;
    if (*q > hi) return 0;
  }
  return 1;
}

// Draws a place for the tool centre point and moves the arm there. If inverse kinematics fails, it starts
// again from random joints, up to ten times; after that, or if the arm then collides, a new place is drawn.
static void draw_arm(const World *world, mjData *data, Draws *draw) {
  const mjModel *model = world->model;
  double initial[ARM_JOINTS];
  mju_copy(initial, data->qpos, ARM_JOINTS);

  for (int rejected = 0;; draw_again(&rejected)) {
    double target[3] = {draw_uniform(draw, -0.2, 0.2), draw_uniform(draw, -0.2, 0.2),
                        draw_uniform(draw, 0.02, 0.4)};
    for (int attempt = 0; attempt < 10; attempt++) {
      if (reach(world, data, target) && wrap_angles(model, data)) {
        mj_fwdPosition(model, data);
        if (!collides(world, data)) return;
        break;
      }
      for (int i = 0; i < ARM_JOINTS; i++) {
        double lo = model->jnt_limited[i] ? model->jnt_range[2 * i] : 0;
        double hi = model->jnt_limited[i] ? model->jnt_range[2 * i + 1] : 2 * mjPI;
        data->qpos[i] = draw_uniform(draw, lo, hi);
      }
    }
    mju_copy(data->qpos, initial, ARM_JOINTS);
  }
}

static void reset(const World *world, mjData *data, Draws *draw) {
  double closed = draw_uniform(draw, 0, 1);
  for (int i = ARM_JOINTS; i < JOINTS; i++) {
    const double *range = world->model->jnt_range + 2 * i;
    data->qpos[i] = range[0] + closed * (range[1] - range[0]);
  }
  draw_arm(world, data, draw);
}

// ---------------------------------- observation --------------------------------------------------

static void observe(const World *world, const mjData *data, double *obs) {
  const mjModel *model = world->model;
  for (int i = 0; i < ARM_JOINTS; i++) {
    *obs++ = sin(data->qpos[i]);
    *obs++ = cos(data->qpos[i]);
  }
  // torques about the joints' axes, on a logarithmic scale
  const double *torque = world_sensor(world, data, TORQUE);
  for (int i = 0; i < ARM_JOINTS; i++) {
    double x = mju_dot3(torque + 3 * i, model->jnt_axis + 3 * i);
    *obs++ = copysign(log1p(fabs(x)), x);
  }
  obs = put(obs, data->qvel, ARM_JOINTS);
  obs = put(obs, data->qpos + ARM_JOINTS, JOINTS - ARM_JOINTS);
  obs = put(obs, data->qvel + ARM_JOINTS, JOINTS - ARM_JOINTS);
  obs = put(obs, data->site_xpos + 3 * world->ids[PINCH], 3);
  put(obs, data->site_xmat + 9 * world->ids[PINCH], 9);
}

const Domain jaco_domain = {
    .name = "jaco", .help = "arm with six joints and a hand with three fingers",
    .file = "jaco/arena.xml", .obs_dim = 42, .old_obs_dim = 55,
    .old_obs = "had a brick before version 0.2",
    .observed = {{"jaco_arm/joints_pos", 12},
                 {"jaco_arm/joints_torque", 6},
                 {"jaco_arm/joints_vel", 6},
                 {"jaco_arm/jaco_hand/joints_pos", 3},
                 {"jaco_arm/jaco_hand/joints_vel", 3},
                 {"jaco_arm/jaco_hand/pinch_site_pos", 3},
                 {"jaco_arm/jaco_hand/pinch_site_rmat", 9}},
    .substeps = 20, .episode_steps = 250, .scaled = 1, .camera = "front_far", .aliases = aliases,
    .tasks = tasks,
    .names =
        {
            [PINCH] = {mjOBJ_SITE, "hand_pinchsite"},
            [TORQUE] = {mjOBJ_SENSOR, "arm_joint_1_torque"},
            [HAND] = {mjOBJ_BODY, "hand"},
        },
    .edit = edit,
    .reset = reset,
    .observe = observe,
};
