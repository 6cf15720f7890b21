// Resets. A step that repeats until nothing touches, `redraw`, repeats the steps before it; `raise`
// lifts the robot in small steps. Both raise an error of MuJoCo when that has no end.

#include "envs/reset.h"

#include <math.h>
#include <stdlib.h>

#include "core/number.h"
#include "core/suggest.h"
#include "envs/quantities.h"

typedef struct {
  const RobotReset *of;
  int key;      // a keyframe's number
  int height;   // the number of qpos that raises the robot
  int quat;     // index in qpos of the free root's orientation
  int *places;  // indices in qpos of the joints that have given positions
} Step;

struct Resets {
  Step *steps;
  int count;
  int redraw;  // index of this step, -1: there is none
};

// ---------------------------------- compiling ----------------------------------------------------

static int find_keyframe(const Robot *robot, const mjModel *model, Step *step) {
  RobotText text = step->of->text;
  Suggestion nearest = {.word = text.text};
  char *end;
  step->key = mj_name2id(model, mjOBJ_KEY, text.text);
  if (step->key >= 0) return BFM_OK;
  long number = strtol(text.text, &end, 10);
  if (!*end && end > text.text && number >= 0 && number < model->nkey) {
    step->key = (int)number;
    return BFM_OK;
  }
  for (int k = 0; k < model->nkey; k++) {
    const char *name = mj_id2name(model, mjOBJ_KEY, k);
    if (name) suggest_try(&nearest, name);
  }
  return robot_fail(robot, text, "the model has no keyframe '%s' among its %d%s", text.text,
                    (int)model->nkey, suggest_say(&nearest, ""));
}

// the joints that move the whole robot: a free joint, or a vertical slide
static void find_root(const mjModel *model, Step *step) {
  int root = quantities_robot(model);
  step->height = step->quat = -1;
  for (int j = 0; j < model->njnt; j++) {
    if (model->jnt_bodyid[j] != root) continue;
    int at = model->jnt_qposadr[j];
    if (model->jnt_type[j] == mjJNT_FREE) step->height = at + 2, step->quat = at + 3;
    if (model->jnt_type[j] == mjJNT_SLIDE && model->jnt_axis[3 * j + 2] > 0.99) step->height = at;
  }
}

static int find_joint(const Robot *robot, const mjModel *model, RobotText name, int *place) {
  Suggestion nearest = {.word = name.text};
  int id = mj_name2id(model, mjOBJ_JOINT, name.text);
  int type = id < 0 ? -1 : model->jnt_type[id];
  if (type == mjJNT_HINGE || type == mjJNT_SLIDE) {
    *place = model->jnt_qposadr[id];
    return BFM_OK;
  }
  if (id >= 0) {
    return robot_fail(robot, name, "the joint '%s' is no hinge or slide: its position is no number",
                      name.text);
  }
  for (int j = 0; j < model->njnt; j++) {
    const char *other = mj_id2name(model, mjOBJ_JOINT, j);
    if (other) suggest_try(&nearest, other);
  }
  return robot_fail(robot, name, "the model has no joint '%s'%s", name.text,
                    suggest_say(&nearest, ""));
}

static int find_joints(const Robot *robot, const mjModel *model, Step *step) {
  const RobotReset *of = step->of;
  if (!of->joint_count) return BFM_OK;
  step->places = malloc((size_t)of->joint_count * sizeof *step->places);
  if (!step->places) return bfm_fail(BFM_NO_MEMORY, "out of memory for the resets of a robot");
  for (int i = 0; i < of->joint_count; i++) {
    TRY(find_joint(robot, model, of->joints[i].name, step->places + i));
  }
  return BFM_OK;
}

static int check_states(const Robot *robot, const mjModel *model, const Step *step) {
  const RobotStates *states = &robot->states;
  RobotText place = step->of->text;
  if (!states->count)
    return robot_fail(robot, place, "no states have been read from %s", place.text);
  const struct {
    const char *name;
    int64_t has, needs;
  } sizes[] = {{"qpos", states->nq, model->nq},
               {"qvel", states->qvel ? states->nv : model->nv, model->nv},
               {"act", states->act ? states->na : model->na, model->na}};
  for (int i = 0; i < 3; i++) {
    if (sizes[i].has == sizes[i].needs) continue;
    return robot_fail(robot, place, "%s in %s has %lld columns, but the model needs %lld",
                      sizes[i].name, place.text, (long long)sizes[i].has,
                      (long long)sizes[i].needs);
  }
  return BFM_OK;
}

static int compile(const Robot *robot, const mjModel *model, Step *step) {
  find_root(model, step);
  switch (step->of->kind) {
    case RESET_KEYFRAME: return find_keyframe(robot, model, step);
    case RESET_JOINTS: return find_joints(robot, model, step);
    case RESET_STATES: return check_states(robot, model, step);
    case RESET_ORIENTATION:
      if (step->quat >= 0) return BFM_OK;
      return robot_fail(robot, step->of->text,
                        "a random orientation needs a robot with a free joint");
    case RESET_RAISE:
      if (step->height >= 0) return BFM_OK;
      return robot_fail(
          robot, step->of->text,
          "the robot cannot be raised: its root has no free joint and no slide along z");
    default: return BFM_OK;
  }
}

int resets_new(Resets **out, const Robot *robot, const mjModel *model) {
  Resets *resets = *out = calloc(1, sizeof *resets);
  if (resets) resets->steps = calloc((size_t)robot->reset_count + 1, sizeof *resets->steps);
  if (!resets || !resets->steps) {
    resets_free(resets);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the resets of a robot");
  }
  resets->redraw = -1;
  int status = BFM_OK;
  for (int i = 0; i < robot->reset_count && !status; i++) {
    Step *step = resets->steps + resets->count++;
    step->of = robot->resets + i;
    if (step->of->kind == RESET_REDRAW) resets->redraw = i;
    status = robot_goes_on(robot, compile(robot, model, step));
  }
  if (status) {
    resets_free(resets);
    *out = NULL;
  }
  return status;
}

void resets_free(Resets *resets) {
  if (!resets) return;
  for (int i = 0; i < resets->count; i++) free(resets->steps[i].places);
  free(resets->steps);
  free(resets);
}

// ---------------------------------- drawing ------------------------------------------------------

static void set_keyframe(const mjModel *model, mjData *data, int key) {
  mju_copy(data->qpos, model->key_qpos + (ptrdiff_t)key * model->nq, (int)model->nq);
  mju_copy(data->qvel, model->key_qvel + (ptrdiff_t)key * model->nv, (int)model->nv);
  mju_copy(data->act, model->key_act + (ptrdiff_t)key * model->na, (int)model->na);
  mju_copy(data->mocap_pos, model->key_mpos + (ptrdiff_t)key * 3 * model->nmocap,
           3 * (int)model->nmocap);
  mju_copy(data->mocap_quat, model->key_mquat + (ptrdiff_t)key * 4 * model->nmocap,
           4 * (int)model->nmocap);
}

static void draw_state(const RobotStates *states, mjData *data, Draws *draw) {
  int64_t i = (int64_t)draw_uniform(draw, 0, (double)states->count);
  if (i >= states->count) i = states->count - 1;
  mju_copy(data->qpos, states->qpos + i * states->nq, (int)states->nq);
  if (states->qvel) mju_copy(data->qvel, states->qvel + i * states->nv, (int)states->nv);
  if (states->act) mju_copy(data->act, states->act + i * states->na, (int)states->na);
}

static void draw_limited(const mjModel *model, mjData *data, Draws *draw) {
  for (int j = 0; j < model->njnt; j++) {
    int type = model->jnt_type[j];
    const double *range = model->jnt_range + 2 * j;
    if (!model->jnt_limited[j] || (type != mjJNT_HINGE && type != mjJNT_SLIDE)) continue;
    data->qpos[model->jnt_qposadr[j]] = draw_uniform(draw, range[0], range[1]);
  }
}

static void set_joints(const Step *step, const World *world, mjData *data, Draws *draw) {
  const RobotReset *of = step->of;
  for (int i = 0; i < of->joint_count; i++) data->qpos[step->places[i]] = of->joints[i].position;
  if (of->joint_count) return;
  if (of->limited) draw_limited(world->model, data, draw);
  else draw_joints(world, data, draw);
}

static void add_noise(RobotNoise noise, double *x, int count, Draws *draw) {
  for (int i = 0; i < count && noise.size > 0; i++) {
    x[i] +=
        noise.normal ? noise.size * draw_normal(draw) : draw_uniform(draw, -noise.size, noise.size);
  }
}

static void add_joint_noise(RobotNoise noise, const mjModel *model, mjData *data, Draws *draw) {
  for (int j = 0; j < model->njnt; j++) {
    int type = model->jnt_type[j];
    if (type != mjJNT_HINGE && type != mjJNT_SLIDE) continue;
    add_noise(noise, data->qpos + model->jnt_qposadr[j], 1, draw);
  }
}

// whether something touches; floor: only what touches the fixed world counts
static int touches(const mjModel *model, const mjData *data, int floor) {
  if (!floor) return data->ncon > 0;
  for (int c = 0; c < data->ncon; c++) {
    for (int side = 0; side < 2; side++) {
      int geom = data->contact[c].geom[side];
      if (geom >= 0 && model->body_weldid[model->geom_bodyid[geom]] == 0) return 1;
    }
  }
  return 0;
}

// lifts the robot; without the solver's warm start, its state does not depend on how often
static void lift(const World *world, mjData *data, const Step *step) {
  double height = isnan(step->of->from) ? data->qpos[step->height] : step->of->from;
  for (int rejected = 0;; draw_again(&rejected)) {
    data->qpos[step->height] = height;
    mju_zero(data->qacc_warmstart, (int)world->model->nv);
    mj_forward(world->resting, data);
    if (!touches(world->model, data, 1)) return;
    height += step->of->by;
  }
}

static void make_step(const Step *step, const World *world, mjData *data, Draws *draw) {
  const mjModel *model = world->model;
  const RobotReset *of = step->of;
  switch (of->kind) {
    case RESET_KEYFRAME: set_keyframe(model, data, step->key); return;
    case RESET_JOINTS: set_joints(step, world, data, draw); return;
    case RESET_NOISE:
      add_noise(of->qpos, data->qpos, (int)model->nq, draw);
      add_joint_noise(of->joint_noise, model, data, draw);
      add_noise(of->qvel, data->qvel, (int)model->nv, draw);
      mj_normalizeQuat(model, data->qpos);
      return;
    case RESET_ORIENTATION:
      for (int i = 0; i < 4; i++) data->qpos[step->quat + i] = draw_normal(draw);
      mju_normalize4(data->qpos + step->quat);
      return;
    case RESET_RAISE: lift(world, data, step); return;
    case RESET_SETTLE: world_step(world, data, of->steps); return;
    case RESET_STATES: draw_state(&world->domain->robot->states, data, draw); return;
    case RESET_REDRAW: return;
  }
}

static void set_default(const mjModel *model, mjData *data) {
  mju_copy(data->qpos, model->qpos0, (int)model->nq);
  mju_zero(data->qvel, (int)model->nv);
  mju_zero(data->act, (int)model->na);
}

void resets_draw(const Resets *resets, const World *world, mjData *data, Draws *draw) {
  int at = 0, redraw = resets->redraw;
  for (int rejected = 0; redraw >= 0; draw_again(&rejected)) {
    for (at = 0; at < redraw; at++) make_step(resets->steps + at, world, data, draw);
    mj_forward(world->resting, data);
    if (!touches(world->model, data, resets->steps[redraw].of->limited)) break;
    set_default(world->model, data);
  }
  for (; at < resets->count; at++) make_step(resets->steps + at, world, data, draw);
}
