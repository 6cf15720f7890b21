// The reward language against MuJoCo's own functions and plain C: every kind of name, every function,
// the place of every error, the stage that an expression needs, and rewards of many states.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/deadline.h"
#include "envs/bulk.h"
#include "envs/quantities.h"
#include "reward_model.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const Alias aliases[] = {
    {"speed", "com.vx", "velocity of the robot along x"},
    {"fast", "speed > 0.1 && speed < 5", "neither slow nor wild"},
    {"hand", "left_hand", "the hand: hand.x"},
    {"broken", "1 + nothing", "an alias with an error"},
    {"circle", "1 + circle", "an alias of itself"},
    {NULL, NULL, NULL},
};

static mjModel *model;
static mjData *data;

static int set_up(void **state) {
  (void)state;
  model = reward_model();
  if (!model) return -1;
  data = mj_makeData(model);
  for (int i = 0; i < model->nq; i++) data->qpos[i] += 0.1 * sin(3 * i + 1);
  for (int i = 0; i < model->nv; i++) data->qvel[i] = cos(2 * i);
  for (int i = 0; i < model->nu; i++) data->ctrl[i] = 0.5 - 0.7 * i;
  data->act[0] = 0.3;
  mj_normalizeQuat(model, data->qpos);
  mj_forward(model, data);
  mj_subtreeVel(model, data);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  mj_deleteData(data);
  mj_deleteModel(model);
  return 0;
}

static double value_of(const char *expression) {
  Reward *reward;
  if (reward_new(&reward, model, aliases, expression)) fail_msg("%s", bfm_error());
  double value = reward_value(reward, model, data);
  reward_free(reward);
  return value;
}

static void expect(const char *expression, double expected) {
  double value = value_of(expression);
  if (!(fabs(value - expected) <= 1e-12 * fmax(1, fabs(expected)))) {
    fail_msg("%s is %.17g, not %.17g", expression, value, expected);
  }
}

// checks base.part for each of the parts against values in the same order
static void expect_parts(const char *base, const char *parts, const mjtNum *values) {
  char list[128], name[128];
  snprintf(list, sizeof list, "%s", parts);
  for (char *part = strtok(list, " "); part; part = strtok(NULL, " ")) {
    snprintf(name, sizeof name, "%s%s%s", base, base[0] ? "." : "", part);
    expect(name, *values++);
  }
}

// ---------------------------------- names --------------------------------------------------------

static void test_frames(void **state) {
  (void)state;
  static const struct {
    const char *typed;
    int object;
    const char *name;
  } rows[] = {{"torso", mjOBJ_XBODY, "torso"},      {"left_hand", mjOBJ_XBODY, "left/hand"},
              {"foot", mjOBJ_XBODY, "foot"},        {"imu", mjOBJ_SITE, "imu"},
              {"tip", mjOBJ_SITE, "tip"},           {"palm", mjOBJ_GEOM, "palm"},
              {"geom:sole", mjOBJ_GEOM, "sole"},    {"site:sole", mjOBJ_SITE, "sole"},
              {"body:swing", mjOBJ_XBODY, "swing"}, {"lamp", mjOBJ_XBODY, "lamp"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    int object = rows[i].object == mjOBJ_XBODY ? mjOBJ_BODY : rows[i].object;
    int id = mj_name2id(model, object, rows[i].name);
    assert_true(id >= 0);
    const mjtNum *pos = object == mjOBJ_BODY   ? data->xpos
                        : object == mjOBJ_SITE ? data->site_xpos
                                               : data->geom_xpos;
    const mjtNum *mat = object == mjOBJ_BODY   ? data->xmat
                        : object == mjOBJ_SITE ? data->site_xmat
                                               : data->geom_xmat;
    mjtNum velocity[6];
    mj_objectVelocity(model, data, rows[i].object, id, velocity, 0);
    expect_parts(rows[i].typed, "x y z", pos + 3 * id);
    expect_parts(rows[i].typed, "xx xy xz yx yy yz zx zy zz", mat + 9 * id);
    expect_parts(rows[i].typed, "wx wy wz vx vy vz", velocity);

    mjtNum local[3];
    mju_mulMatTVec3(local, mat + 9 * id, velocity);
    expect_parts(rows[i].typed, "lwx lwy lwz", local);
    mju_mulMatTVec3(local, mat + 9 * id, velocity + 3);
    expect_parts(rows[i].typed, "lvx lvy lvz", local);
    char typed[128];
    for (int axis = 0; axis < 3; axis++) {
      snprintf(typed, sizeof typed, "dot(%s.%caxis, 1, 10, 100)", rows[i].typed, "xyz"[axis]);
      expect(typed,
             mat[9 * id + axis] + 10 * mat[9 * id + 3 + axis] + 100 * mat[9 * id + 6 + axis]);
    }
  }
}

// objects without a name have numbers
static void test_numbers_of_objects(void **state) {
  (void)state;
  expect("body:2.z", value_of("torso.z"));
  expect_parts("joint:0", "qw qx qy qz", data->qpos + 3);
  expect("joint:1 + joint:3.v", data->qpos[7] + data->qvel[10]);
  expect("sensor:2", value_of("stroke"));
  expect("actuator:1.act", data->act[0]);
}

static void test_subtrees(void **state) {
  (void)state;
  static const char *const rows[][2] = {{"torso", "torso"},
                                        {"body:swing", "swing"},
                                        {"left_hand", "left/hand"},
                                        {"world", "world"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    int id = mj_name2id(model, mjOBJ_BODY, rows[i][1]);
    expect_parts(rows[i][0], "com.x com.y com.z", data->subtree_com + 3 * id);
    expect_parts(rows[i][0], "ipos.x ipos.y ipos.z", data->xipos + 3 * id);
    expect_parts(rows[i][0], "com.vx com.vy com.vz", data->subtree_linvel + 3 * id);
    expect_parts(rows[i][0], "angmom.x angmom.y angmom.z", data->subtree_angmom + 3 * id);
  }
  // the robot is the torso, because the lamp comes first but cannot move
  int torso = mj_name2id(model, mjOBJ_BODY, "torso");
  expect_parts("", "com.x com.y com.z", data->subtree_com + 3 * torso);
  expect_parts("", "com.vx com.vy com.vz", data->subtree_linvel + 3 * torso);
  expect_parts("", "angmom.x angmom.y angmom.z", data->subtree_angmom + 3 * torso);
}

static void test_joints(void **state) {
  (void)state;
  const mjtNum *q = data->qpos, *v = data->qvel;
  expect_parts("root", "x y z qw qx qy qz", q);
  expect_parts("root", "vx vy vz wx wy wz", v);
  expect("joint:swing", q[7]);
  expect("swing.q", q[7]);
  expect("swing.v", v[6]);
  expect_parts("wrist", "qw qx qy qz", q + 8);
  expect_parts("wrist", "wx wy wz", v + 7);
  expect("piston", q[12]);
  expect("piston.v", v[10]);
}

static void test_sensors_and_actuators(void **state) {
  (void)state;
  const mjtNum *s = data->sensordata;
  expect_parts("speedometer", "x y z", s);
  expect_parts("speedometer", "0 1 2", s);
  expect_parts("heading", "0 1 2 3", s + 3);
  expect_parts("", "stroke pull pull_rate", s + 7);
  expect_parts("sensor:drift", "x y z", s + 10);
  expect("step", s[13]);
  expect_parts("shake", "x y z", s + 14);
  expect("swing.u", data->ctrl[0]);
  expect("actuator:pump.u", data->ctrl[1]);
  expect("swing.force", data->actuator_force[0]);
  expect("pump.force", data->actuator_force[1]);
  expect("pump.act", data->act[0]);
  expect("swing.act", 0);
  expect("ctrl.1", data->ctrl[1]);
  expect("qpos.12", data->qpos[12]);
}

static void test_vectors(void **state) {
  (void)state;
  const mjtNum *torso = data->xpos + 3 * mj_name2id(model, mjOBJ_BODY, "torso");
  const mjtNum *tip = data->site_xpos + 3 * mj_name2id(model, mjOBJ_SITE, "tip");
  mjtNum difference[3];
  mju_sub3(difference, torso, tip);
  double distance = mju_norm3(difference);
  expect("dist(torso, tip)", distance);
  expect("dist(torso.pos, tip.x, tip.y, tip.z)", distance);
  expect("norm(torso - tip)", distance);
  expect("norm(2 * (tip - torso) + torso - torso)", 2 * distance);
  expect("dot(torso, tip)", mju_dot3(torso, tip));
  expect("max(torso)", fmax(torso[0], fmax(torso[1], torso[2])));
  expect("sum(ctrl)", data->ctrl[0] + data->ctrl[1]);
  expect("mean(1 - ctrl^2, 5)", (1 - pow(data->ctrl[0], 2) + 1 - pow(data->ctrl[1], 2) + 5) / 3);
  expect("mean(ctrl * sum(ctrl))", pow(data->ctrl[0] + data->ctrl[1], 2) / 2);
  expect("norm(qvel)", mju_norm(data->qvel, (int)model->nv));
  expect("norm(wrist)", mju_norm(data->qpos + 8, 4));
  expect("norm(com.vel)", value_of("norm(com.vx, com.vy, com.vz)"));
  expect("norm(torso.angmom)", value_of("norm(angmom.x, angmom.y, angmom.z)"));
}

static void test_aliases(void **state) {
  (void)state;
  expect("speed", value_of("com.vx"));
  expect("2 * speed ^ 2", value_of("2 * com.vx ^ 2"));
  expect("fast", value_of("com.vx > 0.1 && com.vx < 5"));
  expect("hand.vz", value_of("left_hand.vz"));
  expect("dist(hand, torso)", value_of("dist(left_hand, torso)"));
}

// ---------------------------------- functions ----------------------------------------------------

static void test_arithmetic(void **state) {
  (void)state;
  static const struct {
    const char *expression;
    double value;
  } rows[] = {
      {"1 + 2 * 3", 7},
      {"(1 + 2) * 3", 9},
      {"7 / 2 - 1", 2.5},
      {"2 - 3 - 4", -5},
      {"2 ^ 3 ^ 2", 512},
      {"-2 ^ 2", -4},
      {"2 ^ -1", 0.5},
      {"2 ^ -1 ^ 2", 0.5},
      {"--2 ^ 2", 4},
      {"-+-1", 1},
      {"1 - -1", 2},
      {"2 * -3", -6},
      {"!0 + !3 + !!7", 2},
      {"-!0", -1},
      {".5 + 1. + 1e2 + 2.5E-1", 101.75},
      {"1 < 2", 1},
      {"2 <= 1", 0},
      {"(1 < 2) == (3 > 2)", 1},
      {"1 != 1", 0},
      {"1 < 2 && 2 < 3", 1},
      {"1 || 0 && 0", 1},
      {"(0.5 && 0.25) + (0.5 || 0) + (0 || 0.5)", 3},
      {"1 + 1 && 0 + 1 < 2", 1},
      {"1 > 2 || 3 >= 3", 1},
      {"0 ? 1 : 2", 2},
      {"1 ? 0 ? 3 : 4 : 5", 4},
      {"0 ? 1 : 0 ? 2 : 3", 3},
      {"1 < 2 ? 10 : 20 + 1", 10},
      {"(0 ? 1 : 2) * 3", 6},
      {"max(0 ? 1 : 2, 1 ? 5 : 6)", 5},
      {"if(2 > 1, 10, 20)", 10},
      {"if(0, 10, 20) + not(0) + not(5)", 21},
      {"min(3, 1, 2) + max(3, 1, 2) + sum(1, 2, 3) + mean(1, 2, 6)", 13},
      {"norm(3, 4) + dist(0, 0, 3, 4) + dot(1, 2, 3, 4)", 21},
      {"clip(5, 0, 2) + clip(-5, 0, 2) + clip(1, 0, 2)", 3},
      {"abs(-3) + sign(-2) + sign(0) + floor(-1.5) + rint(1.6)", 2},
      {"sqrt(16) + exp(0) + log(exp(2)) + log2(8) + log10(1000) + log1p(0)", 13},
      {"tan(atan(0.5)) + sin(asin(0.25)) + cos(acos(0.75))", 1.5},
      {"atan2(1, 0) * 2 / pi", 1},
      {"cosh(1) ^ 2 - sinh(1) ^ 2 + tanh(0)", 1},
      {"5 > -inf && 5 < inf", 1},
  };
  for (size_t i = 0; i < COUNT(rows); i++) expect(rows[i].expression, rows[i].value);
}

static void test_tolerance(void **state) {
  (void)state;
  static const char *const sigmoids[] = {"gaussian",   "linear",    "quadratic",  "cosine",
                                         "hyperbolic", "long_tail", "reciprocal", "tanh_squared"};
  char text[128];
  for (size_t i = 0; i < COUNT(sigmoids); i++) {
    // 1 within the bounds, the value at the margin one margin away on both sides
    static const double at[] = {-3, -1, 0, 2, 4};
    static const double value[] = {0.3, 1, 1, 1, 0.3};
    for (size_t k = 0; k < COUNT(at); k++) {
      snprintf(text, sizeof text, "tolerance_%s(%g, -1, 2, 2, 0.3)", sigmoids[i], at[k]);
      expect(text, value[k]);
    }
    snprintf(text, sizeof text, "tolerance_%s(1e9, 0, inf) + tolerance_%s(0.1)", sigmoids[i],
             sigmoids[i]);
    expect(text, 1);
  }
  expect("tolerance(1.5, 0, 0.5, 1)", 0.1);
  expect("tolerance(1, 0, 1, 0, 0)", 1);
  expect("tolerance_linear(torso.z * 0 + 0.75, 1, inf, 1, 0)", 0.75);
}

// ---------------------------------- NaN and infinity ---------------------------------------------

// A final NaN counts as 0, so the expression itself is asked, with constants and with quantities.
static void expect_nan(const char *expression) {
  char text[512];
  snprintf(text, sizeof text, "(%s) != (%s)", expression, expression);
  expect(text, 1);
}

static void test_functions_pass_nan_through(void **state) {
  (void)state;
  static const char *const nans[] = {"(0/0)", "sqrt(-1)", "(inf-inf)", "(0*torso.z/0)"};
  static const char *const rows[] = {
      "%s",
      "-%s",
      "%s + 1",
      "0 * %s",
      "min(%s, 1)",
      "min(1, %s)",
      "min(1, %s, -inf)",
      "max(%s, 1)",
      "max(1, %s)",
      "max(1, %s, inf)",
      "max(min(1, %s), 2)",
      "clip(%s, 0, 1)",
      "clip(1, %s, 2)",
      "clip(1, 0, %s)",
      "clip(5, 0, %s)",
      "sign(%s)",
      "abs(%s)",
      "floor(%s)",
      "rint(%s)",
      "sqrt(%s)",
      "sum(1, %s)",
      "mean(%s, 1)",
      "norm(inf, %s)",
      "norm(%s, 1)",
      "dist(%s, 0, 1, 2)",
      "dot(0, 1, %s, 2)",
      "exp(%s)",
      "log2(%s)",
      "log1p(%s)",
      "atan2(%s, 1)",
      "atan2(1, %s)",
      "%s ^ 2",
      "if(%s, 1, 2)",
      "%s ? 1 : 2",
      "1 ? %s : 2",
      "0 ? 1 : %s ? 1 : 2",
      "if(1, %s, 2)",
  };
  char text[128];
  for (size_t i = 0; i < COUNT(rows); i++) {
    for (size_t k = 0; k < COUNT(nans); k++) {
      snprintf(text, sizeof text, rows[i], nans[k]);
      expect_nan(text);
    }
  }
}

static void test_comparisons_and_logic_of_nan(void **state) {
  (void)state;
  static const char *const nans[] = {"(0/0)", "(0*torso.z/0)"};
  static const struct {
    const char *expression;
    double value;
  } rows[] = {
      {"%s < 1", 0},  {"%s <= 1", 0}, {"%s > 1", 0},     {"%s >= 1", 0},      {"1 < %s", 0},
      {"1 <= %s", 0}, {"1 > %s", 0},  {"1 >= %s", 0},    {"%s == 1", 0},      {"1 == %s", 0},
      {"%s != 1", 1}, {"1 != %s", 1}, {"%s && 1", 1},    {"1 && %s", 1},      {"%s && 0", 0},
      {"0 && %s", 0}, {"%s || 0", 1}, {"0 || %s", 1},    {"!%s", 0},          {"not(%s)", 0},
      {"%s ^ 0", 1},  {"1 ^ %s", 1},  {"0 ? %s : 3", 3}, {"if(2, 3, %s)", 3}, {"%s > 0 ? 1 : 2", 2},
  };
  char text[128];
  for (size_t i = 0; i < COUNT(rows); i++) {
    for (size_t k = 0; k < COUNT(nans); k++) {
      snprintf(text, sizeof text, rows[i].expression, nans[k]);
      expect(text, rows[i].value);
    }
  }
}

static void test_tolerance_of_nan(void **state) {
  (void)state;
  static const char *const sigmoids[] = {"",           "_gaussian",   "_linear",
                                         "_quadratic", "_cosine",     "_hyperbolic",
                                         "_long_tail", "_reciprocal", "_tanh_squared"};
  static const char *const rows[] = {
      "(0/0)",
      "(sqrt(-1), -inf, inf)",
      "(0*torso.z/0, 0, 1, 0)",
      "(0/0, 0, 1, 2, 0.5)",
      "(0.5, 0*torso.z/0, 1, 2, 0.5)",
      "(0.5, 0, 0*torso.z/0, 2, 0.5)",
      "(0.5, 0, 1, 0*torso.z/0, 0.5)",
      "(0.5, 0, 1, 2, 0*torso.z/0)",
      "(0.5, 0, 1, 0, 0*torso.z/0)",  // a step ignores every other value at the margin
      "(0.5, torso.z, torso.z - 1)",  // bounds in the wrong order
      "(0.5, 0, 1, -1 + 0*torso.z)",  // a negative margin
      "(0.5, 0, 1, 2, 1 + 0*torso.z)",
      "(inf, 0, 1, inf)",  // an infinite distance in infinite margins
  };
  char text[128];
  for (size_t i = 0; i < COUNT(rows); i++) {
    for (size_t k = 0; k < COUNT(sigmoids); k++) {
      snprintf(text, sizeof text, "tolerance%s%s", sigmoids[k], rows[i]);
      expect_nan(text);
    }
  }
}

// muParser would evaluate each of these in another order, or in integers
static void test_muparser_does_not_rearrange(void **state) {
  (void)state;
  static const struct {
    const char *expression;
    double value;
  } rows[] = {
      {"(piston * 0 - 0.5 + 1) * inf > 0", 1},
      {"(0.5 + piston - piston - 1) * inf < 0", 1},
      {"piston + 1e17 - 1e17", 0},
      {"1e17 + (piston - 1e17)", 0},
      {"atan2(swing.act * -2, -1)", -M_PI},  // swing.act is 0, so this is -0
      {"(0.5 && 1) + (1 && 0.25) + (0 || 0.5)", 3},
  };
  for (size_t i = 0; i < COUNT(rows); i++) expect(rows[i].expression, rows[i].value);
}

static void test_abs_of_minus_zero(void **state) {
  (void)state;
  expect("1 / abs(-0) == inf", 1);
  expect("1 / abs(-swing.act) == inf", 1);
}

static void test_rint_rounds_halves_to_even(void **state) {
  (void)state;
  static const double rows[] =
      {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994, 4503599627370497};
  char text[64];
  for (size_t i = 0; i < COUNT(rows); i++) {
    snprintf(text, sizeof text, "rint(%.17g)", rows[i]);
    expect(text, rint(rows[i]));
    snprintf(text, sizeof text, "rint(%.17g + 0 * torso.z)", rows[i]);
    expect(text, rint(rows[i]));
  }
}

static void test_log2_of_powers_of_two(void **state) {
  (void)state;
  char text[64];
  for (int i = -60; i <= 60; i++) {
    snprintf(text, sizeof text, "log2(2 ^ %d) == %d", i, i);
    expect(text, 1);
  }
}

// ---------------------------------- errors -------------------------------------------------------

static void test_errors_state_their_place(void **state) {
  (void)state;
  static const struct {
    const char *expression;
    int place;  // character, from 1
    const char *says;
  } rows[] = {
      {"toros.z > 1", 1, "did you mean 'torso.z'?"},
      {"1 + spead", 5, "did you mean 'speed'?"},
      {"1 + body:torsi.z", 5, "did you mean 'torso.z'?"},
      {"joint:torso", 1, "no joint called 'torso'"},
      {"body:77.z", 1, "nothing called 'body:77.z'"},
      {"joint:4", 1, "nothing called 'joint:4'"},
      {"joint:0.q", 1, "the joint 'root' has no 'q'"},
      {"torso.q", 1, "the body 'torso' has no 'q' (it has x y z"},
      {"heading.x", 1, "it has .0 to .3"},
      {"stroke.1", 1, "only its bare name"},
      {"swing + 1", 1, "write body:swing or joint:swing"},
      {"pump", 1, "needs one of its parts (u force act)"},
      {"2 * torso", 5, "a vector of 3 numbers"},
      {"norm(torso - qvel)", 14, "a vector of 11 numbers, but another one here has 3"},
      {"ctrl.2", 1, ".0 to .1"},
      {"com.q", 1, "there are com.x"},
      {"tolerence(1)", 1, "did you mean 'tolerance'?"},
      {"sin", 1, "needs arguments"},
      {"1 + sin(1, 2)", 5, "takes 1 argument, not 2"},
      {"if(1, 2)", 1, "takes 3 arguments, not 2"},
      {"max()", 1, "at least 1"},
      {"dist(torso, 1)", 1, "two vectors of the same length"},
      {"tolerance(1, 2)", 1, "both bounds"},
      {"tolerance(torso.z, 2 * 3, 1)", 1, "lower bound is above"},
      {"tolerance(torso.z, 0, 1, -1)", 1, "margin is negative"},
      {"tolerance(torso.z, 0/0, 1)", 1, "a bound is NaN"},
      {"tolerance(torso.z, 0, inf - inf)", 1, "a bound is NaN"},
      {"tolerance(torso.z, 0, 1, sqrt(-1))", 1, "the margin or the value at the margin is NaN"},
      {"tolerance(torso.z, 0, 1, 0, 0/0)", 1, "the margin or the value at the margin is NaN"},
      {"1 + tolerance(torso.z, 0, 1, 1, 0)", 5, "not in (0, 1)"},
      {"tolerance_linear(torso.z, 0, 1, 1, 1)", 1, "not in [0, 1)"},
      {"0 < torso.z < 1", 13, "two comparisons in a row"},
      {"torso.z = 1", 9, "'=' is written '=='"},
      {"torso.z => 1", 9, "'=>' is written '>='"},
      {"torso.z =< 1", 9, "'=<' is written '<='"},
      {"2 ** 3", 3, "'**' is written '^'"},
      {"1 and 2", 3, "'and' is written '&&'"},
      {"1 & 2", 3, "'&' is written '&&'"},
      {"(1 + 2", 1, "')' is missing"},
      {"1 + 2)", 6, "no '('"},
      {"1 2", 3, "expected an operator"},
      {"max(1 2)", 7, "expected an operator or ')'"},
      {"1 +", 4, "missing at the end"},
      {"* 2", 1, "missing before '*'"},
      {"1 ? 2", 3, "':' is missing"},
      {"1 : 2", 3, "no '?'"},
      {"1, 2", 2, "one expression"},
      {"1; 2", 2, "one expression"},
      {"1.2.3", 1, "not a number"},
      {"0x10", 1, "not a number"},
      {"1 + 1e", 5, "not a number"},
      {"1 + 1e340", 5, "exponent"},
      {". + 1", 1, "not a number"},
      {"1 + \x01", 5, "0x01"},
      {"\"torso\"", 1, "missing before '\"'"},
      {"2 * broken", 5, "'nothing' (in the alias 'broken')"},
      {"circle", 1, "too deeply"},
      {"torso.z +\n toros.z", 12, "did you mean 'torso.z'?"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    Reward *reward;
    assert_int_equal(reward_new(&reward, model, aliases, rows[i].expression), BFM_BAD_ARGUMENT);
    assert_null(reward);
    char place[64];
    snprintf(place, sizeof place, "at character %d of the reward\n", rows[i].place);
    if (!strstr(bfm_error(), rows[i].says) || !strstr(bfm_error(), place)) {
      fail_msg("%s: %s (wanted: %s, %s)", rows[i].expression, bfm_error(), rows[i].says, place);
    }
    assert_int_equal(reward_error_place().at, rows[i].place - 1);
  }
}

static void test_places_have_a_length_and_a_suggestion(void **state) {
  (void)state;
  static const struct {
    const char *expression;
    int at, length;
    const char *meant;
  } rows[] = {
      {"1 + body:torsi.z", 4, 12, "torso.z"},
      {"2 * spead > 1", 4, 5, "speed"},
      {"tolerence(1)", 0, 9, "tolerance"},
      {"2 * broken", 4, 6, ""},  // the name that is wrong stands in the alias
      {"torso.z => 1", 8, 1, ""},
      {"1 +", 3, 0, ""},
      {" ", -1, 0, ""},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    Reward *reward;
    assert_int_equal(reward_new(&reward, model, aliases, rows[i].expression), BFM_BAD_ARGUMENT);
    RewardPlace place = reward_error_place();
    assert_int_equal(place.at, rows[i].at);
    assert_int_equal(place.length, rows[i].length);
    assert_string_equal(place.meant, rows[i].meant);
  }
}

static void test_caret(void **state) {
  (void)state;
  Reward *reward;
  assert_int_equal(reward_new(&reward, model, NULL, "1 + toros.z"), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "\n  1 + toros.z\n      ^"));
}

static void test_limits(void **state) {
  (void)state;
  enum { LONG = REWARD_MAX_LENGTH + 2 };
  char *text = malloc(LONG);
  Reward *reward;

  memset(text, '1', LONG - 1);
  text[LONG - 1] = 0;
  assert_int_equal(reward_new(&reward, model, NULL, text), BFM_BAD_ARGUMENT);

  static const char *const repeated[] = {"(", "-", "!", "sin(", "1?", "2^", "torso.z+(", "max(1,"};
  for (size_t i = 0; i < COUNT(repeated); i++) {
    text[0] = 0;
    size_t length = strlen(repeated[i]);
    for (size_t at = 0; at + length < REWARD_MAX_LENGTH; at += length) {
      memcpy(text + at, repeated[i], length + 1);
    }
    assert_int_equal(reward_new(&reward, model, NULL, text), BFM_BAD_ARGUMENT);
  }

  // nested vectors multiply: the limit is on the expanded text
  const char *nested = "sum(qvel*sum(qvel*sum(qvel*sum(qvel*sum(qvel*sum(qvel*sum(qvel)))))))";
  assert_int_equal(reward_new(&reward, model, NULL, nested), BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "are expanded"));

  // … for many as well as for deep ones, and no other limit comes first
  int refused = 0;
  for (size_t at = 0; at + 10 < REWARD_MAX_LENGTH; at += 10) {
    memcpy(text + at, "sum(qvel)+", 10);
    strcpy(text + at + 10, "1");
    int status = reward_new(&reward, model, NULL, text);
    assert_true(status ? strstr(bfm_error(), "are expanded") != NULL : !refused);
    refused = status;
    reward_free(reward);
  }
  assert_int_equal(refused, BFM_BAD_ARGUMENT);

  // the greatest allowed length
  for (int i = 0; i < REWARD_MAX_LENGTH; i++) text[i] = i % 2 ? '+' : '1';
  text[REWARD_MAX_LENGTH - 1] = 0;
  assert_int_equal(reward_new(&reward, model, NULL, text), BFM_OK);
  assert_float_equal(reward_value(reward, model, data), REWARD_MAX_LENGTH / 2, 0);
  reward_free(reward);
  free(text);
}

// six hundred wrong expressions: each valid one, broken in each of these ways
static void test_wrong_expressions(void **state) {
  (void)state;
  static const char *const right[] = {
      "torso.z > 1.2",
      "tolerance(torso.z, 1.2, inf, 0.6)",
      "norm(torso - tip)",
      "(1 + torso.zz) / 2",
      "speed > 1 && torso.z < 2",
      "if(com.z > 1, com.vx, -com.vx)",
      "mean(tolerance_quadratic(ctrl, 0, 0, 1, 0))",
      "exp(-(com.vx ^ 2 + com.vy ^ 2))",
      "fast ? 1 : 0",
      "abs(swing.q) + abs(swing.v)",
      "max(0, min(1, piston * 10))",
      "dist(hand, imu) < 0.1",
      "dot(torso.vel, 1, 0, 0)",
      "!fast || heading.0 >= 0.5",
      "sqrt(qpos.2) * pi",
      "tolerance_linear(angmom.y, 5, inf, 5, 0)",
      "body:torso.z - geom:floor.z",
      "step > 0",
      "1e-3 * norm(actuator_force)",
      "sum(qvel * qvel)",
  };
  static const struct {
    const char *before, *after;
  } wrong[] = {
      {"", " +"},      {"", ")"},         {"(", ""},      {"", " nobody.z"},    {"", ", 1"},
      {"* ", ""},      {"1 ", ""},        {"", " 1"},     {"", " = 1"},         {"x = ", ""},
      {"", "; 1"},     {"", " @"},        {"sine(", ")"}, {"sin(", ", 1)"},     {"", " ? 1"},
      {"", " && "},    {"nobody + ", ""}, {"[", "]"},     {"\"", "\""},         {"", " 1.2.3"},
      {"max(", ",)"},  {"if(", ", 1)"},   {"", " % 2"},   {"", "\x80"},         {"torso + ", ""},
      {"import ", ""}, {"", " / * 2"},    {"$", ""},      {"max(", " nobody)"}, {"", " : 2"},
  };
  int count = 0;
  for (size_t i = 0; i < COUNT(right); i++) {
    value_of(right[i]);
    for (size_t k = 0; k < COUNT(wrong); k++, count++) {
      char text[256];
      snprintf(text, sizeof text, "%s%s%s", wrong[k].before, right[i], wrong[k].after);
      Reward *reward;
      if (!reward_new(&reward, model, aliases, text)) fail_msg("'%s' was accepted", text);
      assert_null(reward);
      assert_non_null(strstr(bfm_error(), "at character "));
    }
  }
  assert_true(count >= 500);
}

static void test_not_finite(void **state) {
  (void)state;
  static const char *const rows[] = {"0 / 0",
                                     "1 / 0",
                                     "log(-1)",
                                     "sqrt(-1)",
                                     "inf",
                                     "torso.z / 0",
                                     "tolerance(1, torso.z, torso.z - 1)"};
  for (size_t i = 0; i < COUNT(rows); i++) {
    Reward *reward;
    assert_int_equal(reward_new(&reward, model, NULL, rows[i]), BFM_OK);
    assert_int_equal(reward_faults(reward), 0);
    assert_float_equal(reward_value(reward, model, data), 0, 0);
    assert_int_equal(reward_faults(reward), 1);
    reward_free(reward);
  }
}

// ---------------------------------- stages and bulk ----------------------------------------------

static void test_stages(void **state) {
  (void)state;
  static const struct {
    const char *expression;
    int stage;
  } rows[] = {
      {"1", REWARD_POSITION},
      {"piston.v", REWARD_POSITION},
      {"torso.z", REWARD_POSITION},
      {"com.z", REWARD_POSITION},
      {"heading.0", REWARD_POSITION},
      {"pull", REWARD_POSITION},
      {"swing.u", REWARD_POSITION},
      {"torso.vx", REWARD_VELOCITY},
      {"com.vx", REWARD_VELOCITY},
      {"angmom.y", REWARD_VELOCITY},
      {"drift.x", REWARD_VELOCITY},
      {"pull_rate", REWARD_VELOCITY},
      {"speed * 0", REWARD_VELOCITY},
      {"step", REWARD_FORCE},
      {"shake.x", REWARD_FORCE},
      {"swing.force", REWARD_FORCE},
      {"torso.z + norm(actuator_force)", REWARD_FORCE},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    Reward *reward;
    assert_int_equal(reward_new(&reward, model, aliases, rows[i].expression), BFM_OK);
    assert_int_equal(reward_stage(reward), rows[i].stage);
    reward_free(reward);
  }
}

enum { STATES = 700 };

typedef struct {
  double *qpos, *qvel, *act;
} States;

static States states_new(void) {
  States s = {calloc(STATES * model->nq, sizeof(double)),
              calloc(STATES * model->nv, sizeof(double)),
              calloc(STATES * model->na, sizeof(double))};
  for (int64_t i = 0; i < STATES * model->nq; i++) {
    s.qpos[i] = model->qpos0[i % model->nq] + 0.3 * sin(1.7 * i);
  }
  for (int64_t i = 0; i < STATES * model->nv; i++) s.qvel[i] = cos(2.3 * i);
  for (int64_t i = 0; i < STATES * model->na; i++) s.act[i] = sin(0.9 * i);
  return s;
}

static void states_free(States s) {
  free(s.qpos);
  free(s.qvel);
  free(s.act);
}

// rewards_bulk, which computes only parts of a state, equals mj_forward without actuation
static void test_bulk(void **state) {
  (void)state;
  static const char *const rows[] = {"torso.z",
                                     "imu.zz",
                                     "com.z + heading.2",
                                     "tip.vx",
                                     "left_hand.wz",
                                     "com.vy",
                                     "angmom.x",
                                     "drift.z",
                                     "speedometer.y",
                                     "pull + stroke",
                                     "pull_rate",
                                     "pump.act",
                                     "norm(qpos) + piston.v",
                                     "norm(shake)",
                                     "step",
                                     "pump.force + swing.force",
                                     "norm(ctrl)",
                                     "tolerance(dist(hand, torso), 0, 0.3, 0.1) * speed"};
  States s = states_new();
  double one[STATES], two[STATES];
  Threads *threads;
  assert_int_equal(threads_new(&threads, 2), BFM_OK);
  mjModel *passive = mj_copyModel(NULL, model);
  passive->opt.disableflags |= mjDSBL_ACTUATION;
  mjData *whole = mj_makeData(passive);

  for (size_t k = 0; k < COUNT(rows); k++) {
    assert_int_equal(rewards_bulk(model, aliases, rows[k], STATES, s.qpos, s.qvel, s.act, NULL,
                                  one),
                     BFM_OK);
    assert_int_equal(rewards_bulk(model, aliases, rows[k], STATES, s.qpos, s.qvel, s.act, threads,
                                  two),
                     BFM_OK);
    assert_memory_equal(one, two, sizeof one);

    Reward *reward;
    assert_int_equal(reward_new(&reward, model, aliases, rows[k]), BFM_OK);
    for (int64_t i = 0; i < STATES; i += 7) {
      mj_resetData(passive, whole);
      mju_copy(whole->qpos, s.qpos + i * model->nq, (int)model->nq);
      mju_copy(whole->qvel, s.qvel + i * model->nv, (int)model->nv);
      mju_copy(whole->act, s.act + i * model->na, (int)model->na);
      mj_forward(passive, whole);
      double value = reward_value(reward, passive, whole);
      if (!(fabs(value - one[i]) <= 1e-12 * fmax(1, fabs(value)))) {
        fail_msg("%s of state %d is %.17g, not %.17g", rows[k], (int)i, one[i], value);
      }
    }
    reward_free(reward);
  }
  mj_deleteData(whole);
  mj_deleteModel(passive);
  threads_free(threads);
  states_free(s);
}

static void test_bulk_refuses(void **state) {
  (void)state;
  States s = states_new();
  double out[STATES];
  assert_int_equal(rewards_bulk(model, NULL, "nobody", STATES, s.qpos, s.qvel, s.act, NULL, out),
                   BFM_BAD_ARGUMENT);
  assert_int_equal(rewards_bulk(model, NULL, "torso.z / 0", STATES, s.qpos, NULL, NULL, NULL, out),
                   BFM_BAD_ARGUMENT);
  assert_int_equal(rewards_bulk(model, NULL, "torso.z", 0, NULL, NULL, NULL, NULL, out), BFM_OK);

  // states without a finite value get 0
  assert_int_equal(rewards_bulk(model, NULL, "sqrt(piston)", STATES, s.qpos, s.qvel, s.act, NULL,
                                out),
                   BFM_OK);
  for (int i = 0; i < STATES; i++) {
    double q = s.qpos[i * model->nq + 12];
    assert_float_equal(out[i], q > 0 ? sqrt(q) : 0, 1e-15);
  }

  s.qpos[600 * model->nq + 3] = NAN;
  s.qvel[650 * model->nv] = 1e300;
  assert_int_equal(rewards_bulk(model, NULL, "torso.z", STATES, s.qpos, s.qvel, s.act, NULL, out),
                   BFM_BAD_ARGUMENT);
  assert_non_null(strstr(bfm_error(), "state 600 "));
  states_free(s);
}

static void test_bulk_stops_at_its_deadline(void **state) {
  (void)state;
  States s = states_new();
  double out[STATES];
  atomic_int cancel = 1;
  Deadline late = {.seconds = -1}, cancelled = {.cancel = &cancel, .seconds = 10};
  deadline_set(&late);
  assert_int_equal(rewards_bulk(model, NULL, "torso.z", STATES, s.qpos, NULL, NULL, NULL, out),
                   BFM_INTERRUPTED);
  deadline_set(&cancelled);
  assert_int_equal(rewards_bulk(model, NULL, "torso.z", STATES, s.qpos, NULL, NULL, NULL, out),
                   BFM_INTERRUPTED);
  assert_string_equal(bfm_error(), "cancelled");
  deadline_set(NULL);
  assert_int_equal(rewards_bulk(model, NULL, "torso.z", STATES, s.qpos, NULL, NULL, NULL, out),
                   BFM_OK);
  states_free(s);
}

// ---------------------------------- listing ------------------------------------------------------

typedef struct {
  int count;
} Listed;

// every listed name can be used
static void each_name(void *context, const char *kind, const char *name, const char *help) {
  Quantity quantity;
  int status = quantity_find(&quantity, model, name);
  if (strncmp(name, "swing", 5) && status) fail_msg("%s %s is listed but not found", kind, name);
  assert_true(help[0] != 0);
  ((Listed *)context)->count++;
}

static void test_listing(void **state) {
  (void)state;
  Listed listed = {0};
  quantities_each(model, each_name, &listed);
  assert_true(listed.count > 300);

  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  quantities_help(model, out);
  reward_help(out);
  fclose(out);
  assert_non_null(strstr(text, "left_hand"));
  assert_non_null(strstr(text, "tolerance_tanh_squared"));
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_frames),
      cmocka_unit_test(test_numbers_of_objects),
      cmocka_unit_test(test_subtrees),
      cmocka_unit_test(test_joints),
      cmocka_unit_test(test_sensors_and_actuators),
      cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_aliases),
      cmocka_unit_test(test_arithmetic),
      cmocka_unit_test(test_tolerance),
      cmocka_unit_test(test_functions_pass_nan_through),
      cmocka_unit_test(test_comparisons_and_logic_of_nan),
      cmocka_unit_test(test_tolerance_of_nan),
      cmocka_unit_test(test_muparser_does_not_rearrange),
      cmocka_unit_test(test_abs_of_minus_zero),
      cmocka_unit_test(test_rint_rounds_halves_to_even),
      cmocka_unit_test(test_log2_of_powers_of_two),
      cmocka_unit_test(test_errors_state_their_place),
      cmocka_unit_test(test_places_have_a_length_and_a_suggestion),
      cmocka_unit_test(test_caret),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_wrong_expressions),
      cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_stages),
      cmocka_unit_test(test_bulk),
      cmocka_unit_test(test_bulk_refuses),
      cmocka_unit_test(test_bulk_stops_at_its_deadline),
      cmocka_unit_test(test_listing),
  };
  return cmocka_run_group_tests_name("reward", tests, set_up, tear_down);
}
