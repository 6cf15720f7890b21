// kitchen: D4RL's FrankaKitchen. An action is a velocity of the arm's joints; the targets of the
// position actuators are where that velocity leads in one control step. The observation has all
// positions, then zeros where D4RL repeats the goal, because here the prompt is the goal. D4RL
// rewards an object when it first reaches its place, so the state remembers which ones have.

#include <string.h>

#include "envs/tasks.h"

enum {
  JOINTS = 9,
  POSITIONS = 30
};  // joints of arm and fingers; numbers of qpos, objects included

enum { BOTTOM_BURNER, LIGHT_SWITCH, SLIDE_CABINET, MICROWAVE, KETTLE, OBJECTS };

// D4RL's goal for an object: `count` positions from `first` on
static const struct {
  int first, count;
  double goal[7];
} objects[OBJECTS] = {
    [BOTTOM_BURNER] = {11, 2, {-0.88, -0.01}},
    [LIGHT_SWITCH] = {17, 2, {-0.69, -0.05}},
    [SLIDE_CABINET] = {19, 1, {0.37}},
    [MICROWAVE] = {22, 1, {-0.75}},
    [KETTLE] = {23, 7, {-0.23, 0.75, 1.62, 0.99, 0, 0, -0.06}},
};

static const struct {
  const char *task;
  int objects[4];
} paid[] = {
    {"partial", {MICROWAVE, KETTLE, LIGHT_SWITCH, SLIDE_CABINET}},
    {"mixed", {MICROWAVE, KETTLE, BOTTOM_BURNER, LIGHT_SWITCH}},
};

static const Alias aliases[] = {
    {"bottom_on", "norm(knob_Joint_2 + 0.88, bottom_left_burner + 0.01) < 0.3",
     "the knob of the front left burner is turned"},
    {"top_on", "norm(knob_Joint_4 + 0.92, top_left_burner + 0.01) < 0.3",
     "the knob of the back left burner is turned"},
    {"light_on", "norm(light_switch + 0.69, light_joint + 0.05) < 0.3", "the light is switched on"},
    {"slide_open", "abs(slide_cabinet - 0.37) < 0.3", "the cabinet with a sliding door is open"},
    {"hinge_open", "norm(left_hinge_cabinet, right_hinge_cabinet - 1.45) < 0.3",
     "the cabinet with hinged doors is open on the right"},
    {"microwave_open", "abs(joint:microwave + 0.75) < 0.3", "the microwave is open"},
    {"kettle_moved",
     "norm(joint:kettle.x + 0.23, joint:kettle.y - 0.75, joint:kettle.z - 1.62, "
     "joint:kettle.qw - 0.99, joint:kettle.qx, joint:kettle.qy, joint:kettle.qz + 0.06) < 0.3",
     "the kettle is on the back left burner"},
    {0},
};

// the number of objects in their places; an episode rewards each object once
static const Task tasks[] = {
    {"partial", TASK_KNOWN, "microwave_open + kettle_moved + light_on + slide_open",
     "microwave, kettle, light and sliding cabinet", NULL},
    {"mixed", TASK_KNOWN, "microwave_open + kettle_moved + bottom_on + light_on",
     "microwave, kettle, burner and light", NULL},
    {"open_microwave", TASK_PROMPT, "microwave_open", "open the microwave", NULL},
    {"move_kettle", TASK_PROMPT, "kettle_moved", "move the kettle to the back", NULL},
    {"turn_bottom_burner", TASK_PROMPT, "bottom_on", "turn the front knob", NULL},
    {"turn_top_burner", TASK_PROMPT, "top_on", "turn the back knob", NULL},
    {"switch_light", TASK_PROMPT, "light_on", "switch the light on", NULL},
    {"open_slide_cabinet", TASK_PROMPT, "slide_open", "open the sliding door", NULL},
    {"open_hinge_cabinet", TASK_PROMPT, "hinge_open", "open the right hinged door", NULL},
    {.name = NULL},
};

// adds Gymnasium's camera, and userdata to remember objects
static int edit(mjSpec *spec, const char *folder) {
  (void)folder;
  const double pos[3] = {-0.8164, -1.1935, 3.2619};
  const double axes[6] = {0.9397, -0.3420, 0, 0.1962, 0.5390, 0.8192};
  mjsCamera *camera = mjs_addCamera(mjs_findBody(spec, "world"), NULL);
  mjs_setName(camera->element, "front");
  memcpy(camera->pos, pos, sizeof pos);
  camera->alt.type = mjORIENTATION_XYAXES;
  memcpy(camera->alt.xyaxes, axes, sizeof axes);
  spec->nuserdata = OBJECTS;
  return BFM_OK;
}

// All of D4RL's episodes begin in this state and differ only by noise on observations. Here there is
// no such noise; instead, the arm's joints start at random within the bounds of that noise.
static void reset(const World *world, mjData *data, Draws *draw) {
  static const double start[POSITIONS] = {1.48388023e-01,  -1.76848573e+00, 1.84390296e+00,
                                          -2.47685760e+00, 2.60252026e-01,  7.12533105e-01,
                                          1.59515394e+00,  4.79267505e-02,  3.71350919e-02,
                                          -2.66279850e-04, -5.18043486e-05, 3.12877220e-05,
                                          -4.51199853e-05, -3.90842156e-06, -4.22629655e-05,
                                          6.28065475e-05,  4.04984708e-05,  4.62730939e-04,
                                          -2.26906415e-04, -4.65501369e-04, -6.44129196e-03,
                                          -1.77048263e-03, 1.08009684e-03,  -2.69397440e-01,
                                          3.50383255e-01,  1.61944683e+00,  1.00618764e+00,
                                          4.06395120e-03,  -6.62095997e-03, -2.68278933e-04};
  (void)world;
  put(data->qpos, start, POSITIONS);
  for (int i = 0; i < JOINTS - 2; i++) data->qpos[i] += draw_uniform(draw, -0.01, 0.01);
}

static void observe(const World *world, const mjData *data, double *obs) {
  obs = put(obs, data->qpos, POSITIONS);
  mju_zero(obs, world->domain->goal_dim);
}

static void control(const World *world, mjData *data, const double *action) {
  static const double bounds[JOINTS][2] = {{-2.9, 2.9}, {-1.8, 1.8}, {-2.9, 2.9},
                                           {-3.1, 0},   {-2.9, 2.9}, {0, 3.8},
                                           {-2.9, 2.9}, {0, 0.04},   {0, 0.04}};
  double dt = world->domain->substeps * world->model->opt.timestep;
  double velocity[JOINTS];
  for (int i = 0; i < JOINTS; i++) velocity[i] = 2 * mju_clip(action[i], -1, 1);
  mju_addScl(data->ctrl, data->qpos, velocity, dt,
             JOINTS);  // not fused, for bit-equality with D4RL
  for (int i = 0; i < JOINTS; i++) {
    data->ctrl[i] = mju_clip(data->ctrl[i], bounds[i][0], bounds[i][1]);
  }
}

// ---------------------------------- D4RL's reward ------------------------------------------------

enum { NOT_YET, JUST_NOW, BEFORE };

static int is_done(const mjData *data, int object) {
  double offset[7];
  int count = objects[object].count;
  mju_sub(offset, data->qpos + objects[object].first, objects[object].goal, count);
  return mju_norm(offset, count) < 0.3;
}

static void remember(const World *world, mjData *data) {
  (void)world;
  for (int k = 0; k < OBJECTS; k++) {
    if (data->userdata[k] != NOT_YET) data->userdata[k] = BEFORE;
    else if (is_done(data, k)) data->userdata[k] = JUST_NOW;
  }
}

static double step_reward(const World *world, const mjData *data, const double *qpos,
                          const char *task) {
  (void)world, (void)qpos;
  int row = !strcmp(task, paid[1].task), count = 0;
  for (int i = 0; i < 4; i++) count += data->userdata[paid[row].objects[i]] == JUST_NOW;
  return count;
}

const Domain kitchen_domain = {
    .name = "kitchen",
    .help = "Franka's arm in a kitchen, as in D4RL v0",
    .file = "kitchen/kitchen_assets/kitchen_env_model.xml",
    .obs_dim = 2 * POSITIONS,
    .observed = {{"position", POSITIONS}, {"goal", POSITIONS}},
    .goal_dim = POSITIONS,
    .substeps = 40,
    .episode_steps = 280,
    .scaled = 1,
    .camera = "front",
    .aliases = aliases,
    .tasks = tasks,
    .edit = edit,
    .reset = reset,
    .observe = observe,
    .control = control,
    .remember = remember,
    .step_reward = step_reward,
};
