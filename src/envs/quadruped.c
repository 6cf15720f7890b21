// quadruped: dm_control's quadruped on the flat floor of its walk task. The observation has hinges,
// actuators, the torso's velocity and direction, its inertial sensors and the forces at the toes.
// Episodes start with a random orientation, at the lowest height without contacts.

#include "envs/domain.h"

enum { TORSO, VELOCIMETER, ACCELEROMETER, GYRO, FORCES };

static const Alias aliases[] = {
    {"speed", "velocimeter.x", "forward velocity in the torso's frame, m/s"},
    {"height", "center_of_mass.z", "height of the centre of mass, m"},
    {"upright", "tolerance_linear(torso.zz, 1, inf, 2, 0)", "1 when upright, 0 upside down"},
    {0},
};

// removes walls, ball, target, terrain and rangefinders; gives the floor the size of the walk task
static int edit(mjSpec *spec, const char *folder) {
  static const ModelName dropped[] = {
      {mjOBJ_GEOM, "wall_px"}, {mjOBJ_GEOM, "wall_py"}, {mjOBJ_GEOM, "wall_nx"},
      {mjOBJ_GEOM, "wall_ny"}, {mjOBJ_BODY, "ball"},    {mjOBJ_SITE, "target"},
      {mjOBJ_GEOM, "terrain"},
  };
  (void)folder;

  for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) {
    mjsElement *element = mjs_findElement(spec, dropped[i].type, dropped[i].name);
    if (!element || mjs_delete(spec, element)) {
      return bfm_fail(BFM_BAD_FILE, "the quadruped's model has no '%s'", dropped[i].name);
    }
  }
  mjsElement *element = mjs_firstElement(spec, mjOBJ_SENSOR);
  while (element) {
    mjsElement *next = mjs_nextElement(spec, element);
    if (mjs_asSensor(element)->type == mjSENS_RANGEFINDER) mjs_delete(spec, element);
    element = next;
  }

  mjsElement *floor = mjs_findElement(spec, mjOBJ_GEOM, "floor");
  if (!floor) return bfm_fail(BFM_BAD_FILE, "the quadruped's model has no 'floor'");
  mjs_asGeom(floor)->size[0] = mjs_asGeom(floor)->size[1] = 10;
  return BFM_OK;
}

static void reset(const World *world, mjData *data, Draws *draw) {
  double orientation[4];
  for (int i = 0; i < 4; i++) orientation[i] = draw_normal(draw);
  mju_normalize4(orientation);

  double height = 0;
  for (int rejected = 0;; draw_again(&rejected)) {
    mj_resetData(world->model, data);
    data->qpos[2] = height;
    mju_copy4(data->qpos + 3, orientation);
    mj_forward(world->resting, data);
    if (!data->ncon) return;
    height += 0.01;
  }
}

static void observe(const World *world, const mjData *data, double *obs) {
  const mjModel *model = world->model;
  obs = put(obs, data->qpos + 7, model->nq - 7);
  obs = put(obs, data->qvel + 6, model->nv - 6);
  obs = put(obs, data->act, model->na);
  obs = put(obs, world_sensor(world, data, VELOCIMETER), 3);
  *obs++ = data->xmat[9 * world->ids[TORSO] + 8];
  obs = put(obs, world_sensor(world, data, ACCELEROMETER), 3);
  obs = put(obs, world_sensor(world, data, GYRO), 3);

  // forces, then torques, at four toes
  const double *force = world_sensor(world, data, FORCES);
  for (int i = 0; i < 24; i++) *obs++ = asinh(force[i]);
}

const Domain quadruped_domain = {
    .name = "quadruped", .help = "four legs, twelve actuators with state",
    .file = "suite/quadruped.xml", .obs_dim = 78,
    .observed = {{"egocentric_state", 44},
                 {"torso_velocity", 3},
                 {"torso_upright", 1},
                 {"imu", 6},
                 {"force_torque", 24}},
    .substeps = 4, .episode_steps = 1000, .camera = "y", .aliases = aliases,
    .names =
        {
            [TORSO] = {mjOBJ_BODY, "torso"},
            [VELOCIMETER] = {mjOBJ_SENSOR, "velocimeter"},
            [ACCELEROMETER] = {mjOBJ_SENSOR, "imu_accel"},
            [GYRO] = {mjOBJ_SENSOR, "imu_gyro"},
            [FORCES] = {mjOBJ_SENSOR, "force_toe_front_left"},
        },
    .edit = edit,
    .reset = reset,
    .observe = observe,
};
