// humanoid: dm_control's humanoid with 21 joints. The observation has joint angles, the height of the
// head, hands and feet in the torso's frame, the torso's vertical direction, the velocity of the
// centre of mass and all velocities. Episodes start in a random posture without contacts.

#include "envs/domain.h"

enum { TORSO, HEAD, LEFT_HAND, LEFT_FOOT, RIGHT_HAND, RIGHT_FOOT, COM_VELOCITY };

static const Alias aliases[] = {
    {"speed", "norm(vx, vy)", "horizontal speed of the centre of mass, m/s"},
    {"vx", "torso_subtreelinvel.x", "velocity of the centre of mass along x, m/s"},
    {"vy", "torso_subtreelinvel.y", "velocity of the centre of mass along y, m/s"},
    {"vz", "torso_subtreelinvel.z", "velocity of the centre of mass upwards, m/s"},
    {"height", "head.z", "height of the head, m"},
    {"upright", "tolerance_linear(torso.zz, 0.9, inf, 1.9, 0)", "1 when upright, 0 upside down"},
    {"standing", "tolerance(height, 1.4, inf, 0.35) * upright", "1 when the robot stands"},
    {"calm", "1 - norm(ctrl)^2 / 105", "1 without controls, 0.8 when all are at their limits"},
    {"left_wrist", "left_hand", "left_wrist.x, left_wrist.y, left_wrist.z"},
    {"right_wrist", "right_hand", "right_wrist.x, right_wrist.y, right_wrist.z"},
    {"left_ankle", "left_foot", "left_ankle.x, left_ankle.y, left_ankle.z"},
    {"right_ankle", "right_foot", "right_ankle.x, right_ankle.y, right_ankle.z"},
    {0},
};

static void reset(const World *world, mjData *data, Draws *draw) {
  for (int rejected = 0;; draw_again(&rejected)) {
    draw_joints(world, data, draw);
    mj_forward(world->resting, data);
    if (!data->ncon) return;
  }
}

static void observe(const World *world, const mjData *data, double *obs) {
  const int *ids = world->ids;
  obs = put(obs, data->qpos + 7, world->model->nq - 7);
  *obs++ = data->xpos[3 * ids[HEAD] + 2];
  for (int limb = LEFT_HAND; limb <= RIGHT_FOOT; limb++, obs += 3) {
    body_in_frame(data, ids[limb], ids[TORSO], obs);
  }
  obs = put(obs, data->xmat + 9 * ids[TORSO] + 6, 3);
  obs = put(obs, world_sensor(world, data, COM_VELOCITY), 3);
  put(obs, data->qvel, world->model->nv);
}

const Domain humanoid_domain = {
    .name = "humanoid", .help = "humanoid with 21 joints", .file = "suite/humanoid.xml",
    .obs_dim = 67,
    .observed = {{"joint_angles", 21},
                 {"head_height", 1},
                 {"extremities", 12},
                 {"torso_vertical", 3},
                 {"com_velocity", 3},
                 {"velocity", 27}},
    .substeps = 5, .episode_steps = 1000, .camera = "side", .aliases = aliases,
    .names =
        {
            [TORSO] = {mjOBJ_BODY, "torso"},
            [HEAD] = {mjOBJ_BODY, "head"},
            [LEFT_HAND] = {mjOBJ_BODY, "left_hand"},
            [LEFT_FOOT] = {mjOBJ_BODY, "left_foot"},
            [RIGHT_HAND] = {mjOBJ_BODY, "right_hand"},
            [RIGHT_FOOT] = {mjOBJ_BODY, "right_foot"},
            [COM_VELOCITY] = {mjOBJ_SENSOR, "torso_subtreelinvel"},
        },
    .reset = reset,
    .observe = observe,
};
