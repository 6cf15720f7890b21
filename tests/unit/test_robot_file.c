// Robots as text files: what the parser reads, what it says about mistakes, and what becomes of a
// description in a model: observations, resets, edits, rewards of steps.

#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "core/threads.h"
#include "envs/quantities.h"
#include "envs/robot.h"
#include "envs/robot_world.h"
#include "envs/single.h"

// a box on a free joint with an arm, above a floor
static const char model_xml[] =
    "<mujoco><option timestep='0.01'/><worldbody>"
    "<geom name='floor' type='plane' size='5 5 0.1'/>"
    "<geom name='wall' type='box' size='1 1 1' pos='9 9 1'/>"
    "<body name='box' pos='0 0 0.5'><freejoint name='root'/>"
    "<geom name='box' type='box' size='0.2 0.1 0.1'/><site name='eye' pos='0.2 0 0'/>"
    "<body name='arm' pos='0.2 0 0'><joint name='hip' axis='0 1 0' range='-60 60' limited='true'/>"
    "<geom name='arm' type='capsule' fromto='0 0 0 0.3 0 0' size='0.02'/>"
    "<body name='hand' pos='0.3 0 0'><joint name='wrist' type='ball'/>"
    "<geom name='hand' type='sphere' size='0.03'/></body></body></body></worldbody>"
    "<actuator><motor name='push' joint='hip' gear='20'/></actuator>"
    "<sensor><gyro name='turning' site='eye'/><touch name='feel' site='eye'/>"
    "<framepos name='where' objtype='body' objname='hand'/></sensor>"
    "<keyframe><key name='high' qpos='0 0 2 1 0 0 0 0.5 1 0 0 0' qvel='0 0 1 0 0 0 0 0 0 0'/>"
    "</keyframe></mujoco>";

static mjSpec *spec_new(void) {
  char error[256] = "";
  mjSpec *spec = mj_parseXMLString(model_xml, NULL, error, sizeof error);
  if (!spec) fail_msg("%s", error);
  return spec;
}

static mjModel *compile(mjSpec *spec) {
  mjModel *model = mj_compile(spec, NULL);
  if (!model) fail_msg("%s", mjs_getError(spec));
  mj_deleteSpec(spec);
  return model;
}

static Robot *robot_of(const char *yaml) {
  Robot *robot;
  if (robot_parse(&robot, "r.yaml", yaml, strlen(yaml))) fail_msg("%s", bfm_error());
  return robot;
}

// a world of its own, with the model above
typedef struct {
  Domain domain;
  World world;
  Robot *robot;
  mjData *data;
} Bench;

static int bench_new(Bench *b, const char *yaml, int obs_dim) {
  *b = (Bench){.robot = robot_of(yaml)};
  b->robot->size = obs_dim;
  robot_domain(&b->domain, "r", b->robot);
  mjSpec *spec = spec_new();
  if (robot_edit(b->robot, spec)) fail_msg("%s", bfm_error());
  b->world = (World){.domain = &b->domain, .model = compile(spec)};
  b->world.resting = mj_copyModel(NULL, b->world.model);
  b->world.resting->opt.disableflags |= mjDSBL_ACTUATION;
  b->data = mj_makeData(b->world.model);
  int status = robot_world_new(&b->world);
  mj_forward(b->world.resting, b->data);
  return status;
}

static void bench_free(Bench *b) {
  robot_world_free(b->world.robot);
  mj_deleteData(b->data);
  mj_deleteModel(b->world.model);
  mj_deleteModel(b->world.resting);
  robot_free(b->robot);
}

// ---------------------------------- the parser ---------------------------------------------------

static void test_reads_a_robot(void **state) {
  (void)state;
  Robot *r = robot_of(
      "# a comment\n"
      "help: a box that says \"on\"\n"
      "model: box.xml   # another\n"
      "substeps: 5\n"
      "episode: 1e3\n"
      "camera: on\n"
      "actions: range\n"
      "base: fixed\n"
      "size: 12\n"
      "observed:\n"
      "  position: qpos.2..\n"
      "  rest: [qvel, \"clip(act, -1, 1)\", \n    hand in box]\n"
      "reset:\n"
      "  - keyframe: high\n"
      "  - noise: {qpos: uniform 0.1, qvel: normal 2e-2}\n"
      "  - raise: {from: 0, by: 0.5}\n"
      "  - redraw: floor\n"
      "  - settle: 20\n"
      "terminated: \"!(box.z > 0.1)\"\n"
      "aliases:\n"
      "  speed: box.vx\n"
      "  fast: {is: speed > 1, help: above 1 m/s}\n"
      "tasks:\n"
      "  run: speed\n"
      "  go: {step: moved(root.x) / dt, help: forward, kind: new}\n"
      "goal: [position]\n"
      "edits:\n"
      "  remove: geom wall\n"
      "  change:\n"
      "    geom floor: {size: 10 10, rgba: 1 0 0 1}\n");
  assert_string_equal(r->help.text, "a box that says \"on\"");
  assert_string_equal(r->model.text, "box.xml");
  assert_string_equal(r->camera.text, "on");
  assert_int_equal(r->substeps, 5);
  assert_int_equal(r->episode, 1000);
  assert_int_equal(r->size, 12);
  assert_int_equal(r->actions, ACTIONS_RANGE);
  assert_int_equal(r->base, BASE_FIXED);

  assert_int_equal(r->observed_count, 2);
  assert_string_equal(r->observed[0].name.text, "position");
  assert_int_equal(r->observed[1].items.count, 3);
  assert_string_equal(r->observed[1].items.of[1].text, "clip(act, -1, 1)");
  assert_string_equal(r->observed[1].items.of[2].text, "hand in box");
  assert_int_equal(r->observed[1].items.of[2].line, 13);
  assert_int_equal(r->observed[1].items.of[2].column, 5);

  assert_int_equal(r->reset_count, 5);
  assert_int_equal(r->resets[0].kind, RESET_KEYFRAME);
  assert_int_equal(r->resets[1].kind, RESET_NOISE);
  assert_int_equal(r->resets[1].qvel.normal, 1);
  assert_true(r->resets[1].qpos.size == 0.1 && r->resets[1].qvel.size == 0.02);
  assert_int_equal(r->resets[2].kind, RESET_RAISE);
  assert_true(r->resets[2].from == 0 && r->resets[2].by == 0.5);
  assert_int_equal(r->resets[3].limited, 1);
  assert_int_equal(r->resets[4].steps, 20);

  assert_string_equal(r->aliases[0].expression, "box.vx");
  assert_string_equal(r->aliases[1].help, "above 1 m/s");
  assert_null(r->aliases[2].name);
  assert_string_equal(r->tasks[0].expression, "speed");
  assert_null(r->tasks[1].expression);
  assert_string_equal(r->tasks[1].step, "moved(root.x) / dt");
  assert_int_equal(r->tasks[1].kind, TASK_NEW);
  assert_null(r->tasks[2].name);
  assert_string_equal(r->goal.of[0].text, "position");

  assert_int_equal(r->edit_count, 3);
  assert_string_equal(r->edits[0].name.text, "wall");
  assert_null(r->edits[0].attribute.text);
  assert_string_equal(r->edits[2].attribute.text, "rgba");
  assert_string_equal(r->edits[2].value.text, "1 0 0 1");
  robot_free(r);
}

#define M "model: a.xml\n"

static const struct {
  const char *yaml, *error;
} mistakes[] = {
    {"", "r.yaml is empty"},
    {"# nothing\n", "r.yaml is empty"},
    {"walker", "r.yaml:1:1: a robot's file must be a mapping, not a text"},
    {"help: a box\n", "r.yaml does not say which model it describes: add \"model: robot.xml\""},
    {M "obsrved: qpos\n", "r.yaml:2:1: unknown key 'obsrved'; did you mean observed?"},
    {M "zebra: 1\n", "r.yaml:2:1: unknown key 'zebra'"},
    {M "help: a\nhelp: b\n", "r.yaml:3:1: the key 'help' is here twice, first in line 2"},
    {M "help: [a, b]\n", "r.yaml:2:7: help must be a text, not a list"},
    {M "help:\n", "r.yaml:2:6: a value is missing"},
    {M "help: &a b\ncamera: *a\n",
     "r.yaml:2:7: anchors such as &a are not allowed: repeat the value"},
    {M "camera: *a\n", "r.yaml:2:9: references such as *a are not allowed"},
    {M "help: !!str b\n",
     "r.yaml:2:7: tags such as tag:yaml.org,2002:str are not allowed: every value is a text"},
    {M "help: \"a\\u0007\"\n", "r.yaml:2:7: a text has the control character 0x07"},
    {M "help: [a\n",
     "r.yaml:3:1: this is not YAML: did not find expected ',' or ']' while parsing "
     "a flow sequence"},
    {M "observed: [[[[[[[a]]]]]]]\n", "r.yaml:2:16: this is nested too deeply"},
    {M "---\n" M, "r.yaml:2:1: a second document begins here"},
    {M "substeps: 0\n", "r.yaml:2:11: '0' is not a whole number from 1 to 10000"},
    {M "substeps: 2.5\n", "r.yaml:2:11: '2.5' is not a whole number from 1 to 10000"},
    {M "episode: long\n", "r.yaml:2:10: 'long' is not a number"},
    {M "actions: ranges\n", "r.yaml:2:10: 'ranges' is none of range, raw; did you mean range?"},

    {M "observed: {}\n", "r.yaml:2:11: nothing is observed"},
    {M "observed: {a: {b: c}}\n",
     "r.yaml:2:15: a part of the observation must be a text or a list, not a mapping"},
    {M "observed: {1a: b}\n",
     "r.yaml:2:12: the name of a part of the observation is '1a', but it must begin with a letter "
     "and have at most 63 letters, digits and _-/"},
    {M "observed:\n  a: [clip(qvel, -1, 1)]\n",
     "r.yaml:3:7: ')' is missing in 'clip(qvel': inside [ ], put an expression with commas in "
     "quotes"},

    {M "reset: random\n", "r.yaml:2:8: reset must be a list, not a text"},
    {M "reset: [joints]\n",
     "r.yaml:2:9: a step of the reset is \"redraw\", or one key with its "
     "value, such as \"joints: random\""},
    {M "reset:\n  - joint: random\n", "r.yaml:3:5: unknown key 'joint'; did you mean joints?"},
    {M "reset:\n  - joints: all\n", "r.yaml:3:13: 'all' is none of random, limited"},
    {M "reset:\n  - joints: {}\n", "r.yaml:3:13: no joint is given a position"},
    {M "reset:\n  - joints: {hip: up}\n", "r.yaml:3:19: 'up' is not a number"},
    {M "reset:\n  - noise: {qpos: 0.1}\n",
     "r.yaml:3:19: '0.1' is no noise: write \"uniform 0.1\" for ±0.1, or \"normal 0.1\""},
    {M "reset:\n  - noise: {qpos: unifrm 0.1}\n",
     "r.yaml:3:19: 'unifrm' is none of uniform, normal; did you mean uniform?"},
    {M "reset:\n  - noise: {qpos: uniform -1}\n",
     "r.yaml:3:27: the noise is -1, but must be above 0"},
    {M "reset:\n  - raise: 0\n", "r.yaml:3:12: a robot is raised in steps, which must be above 0"},
    {M "reset: [redraw, redraw]\n", "r.yaml:2:17: a reset has at most one redraw"},
    {M "reset:\n  - states: a.h5\n",
     "r.yaml:3:13: states come from an .npz file with qpos, not from 'a.h5'"},

    {M "aliases: {if: 1}\n", "r.yaml:2:11: 'if' is a word of the reward language already"},
    {M "aliases: {a: {help: b}}\n", "r.yaml:2:14: the alias 'a' lacks its expression: \"is: …\""},
    {M "aliases: {a: b + 1, b: c.x, c: a}\n", "r.yaml:2:14: the alias 'a' refers to itself"},
    {M "aliases: {a: 2 * a}\n", "r.yaml:2:14: the alias 'a' refers to itself"},
    {M "tasks: {new: 1}\n", "r.yaml:2:9: 'new' is the name of a group of tasks"},
    {M "tasks: {a: {help: b}}\n",
     "r.yaml:2:12: the task 'a' needs either \"reward: …\" or \"step: …\""},
    {M "tasks: {a: {reward: 1, step: 2}}\n",
     "r.yaml:2:12: the task 'a' needs either \"reward: …\" or \"step: …\""},
    {M "tasks: {a: {reward: 1, kind: old}}\n", "r.yaml:2:30: 'old' is none of known, new, prompt"},
    {M "edits: {remove: wall}\n",
     "r.yaml:2:17: 'wall' must be a type and a name, such as \"geom floor\""},
    {M "edits: {change: {geom floor: big}}\n",
     "r.yaml:2:30: a change must be a mapping, not a text"},
};

static void test_explains_mistakes(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    Robot *robot;
    const char *yaml = mistakes[i].yaml;
    assert_int_equal(robot_parse(&robot, "r.yaml", yaml, strlen(yaml)), BFM_BAD_FILE);
    assert_null(robot);
    assert_string_equal(bfm_error(), mistakes[i].error);
  }
}

static void test_aliases_that_only_look_cyclic(void **state) {
  (void)state;
  robot_free(robot_of(M "aliases: {x: hand.x, y: joint:y + x.x, hip: joint:hip, z: q.z}\n"));
}

static void test_refuses_large_files(void **state) {
  (void)state;
  Robot *robot;
  char *text = malloc(ROBOT_BYTES + 2);
  memset(text, '#', ROBOT_BYTES + 1);
  assert_int_equal(robot_parse(&robot, "r.yaml", text, ROBOT_BYTES + 1), BFM_BAD_FILE);
  assert_string_equal(bfm_error(),
                      "r.yaml has 262145 bytes, but a robot's file has at most 262144");

  // a long text, and a list of too many
  int n = snprintf(text, ROBOT_BYTES, M "help: ");
  memset(text + n, 'a', REWARD_MAX_LENGTH + 1);
  assert_int_equal(robot_parse(&robot, "r.yaml", text, (size_t)n + REWARD_MAX_LENGTH + 1),
                   BFM_BAD_FILE);
  assert_string_equal(bfm_error(),
                      "r.yaml:2:7: a text has 4097 characters, but at most 4096 are allowed");
  n = snprintf(text, ROBOT_BYTES, M "goal: [");
  for (int i = 0; i <= ROBOT_ITEMS; i++) n += snprintf(text + n, 8, "a,");
  n += snprintf(text + n, 8, "]\n");
  assert_int_equal(robot_parse(&robot, "r.yaml", text, (size_t)n), BFM_BAD_FILE);
  assert_non_null(strstr(bfm_error(), "a list has more than 1024 entries"));
  n = snprintf(text, ROBOT_BYTES, M "tasks: {");
  for (int i = 0; i <= 64; i++) n += snprintf(text + n, 16, "t%d: 1,", i);
  n += snprintf(text + n, 8, "}\n");
  assert_int_equal(robot_parse(&robot, "r.yaml", text, (size_t)n), BFM_BAD_FILE);
  assert_string_equal(bfm_error(), "r.yaml:2:8: a robot has at most 64 tasks, not 65");
  free(text);
}

// every prefix of a description and every changed byte of it is read or refused
static void test_damaged_files(void **state) {
  (void)state;
  static const char yaml[] = M
      "observed: {a: [qpos, \"clip(qvel, -1, 1)\"]}\nreset:\n  - noise: {qpos: uniform 0.1}\n"
      "  - raise: {from: 0, by: 1}\naliases: {a: {is: b, help: c}}\ntasks: {run: a > 1}\n"
      "edits: {change: {geom floor: {size: 1}}, remove: [geom a]}\n";
  char text[sizeof yaml];
  for (size_t n = 0; n < sizeof yaml; n++) {
    Robot *robot;
    if (!robot_parse(&robot, "r.yaml", yaml, n)) robot_free(robot);
    for (const char *c = "\xff\n: [{-*&!|\"#"; *c && n + 1 < sizeof yaml; c++) {
      memcpy(text, yaml, sizeof yaml);
      text[n] = *c;
      if (!robot_parse(&robot, "r.yaml", text, sizeof yaml - 1)) robot_free(robot);
    }
  }
}

// ---------------------------------- observations -------------------------------------------------

static void move(Bench *b) {
  mjModel *m = b->world.model;
  mjData *d = b->data;
  for (int i = 0; i < m->nq; i++) d->qpos[i] = 0.1 * i - 0.3;
  mj_normalizeQuat(m, d->qpos);
  for (int i = 0; i < m->nv; i++) d->qvel[i] = 0.5 - 0.2 * i;
  d->ctrl[0] = 0.25;
  mj_forward(m, d);
}

static void test_observes(void **state) {
  (void)state;
  static const char yaml[] =
      "model: box.xml\n"
      "aliases: {tip: hand, above: box.z - 1, joints: qpos.7.., high: above}\n"
      "observed:\n"
      "  a: [qpos.7.., qvel, ctrl]\n"
      "  b: [hand in box, tip in eye, turning in box, hand.vel in box, hand.com in box, root in "
      "eye]\n"
      "  c: [\"clip(qvel, -0.1, 0.1)\", asinh(qvel.3..5), abs(turning), \"clip(hand in box, 0, "
      "1)\"]\n"
      "  d: [above, high, 2 * qvel.0..1 + box.z, tip.x, box.zz, box.zx, joints, norm(qvel)]\n"
      "  e: [hand.angvel, box.vel, box.angmom.y, where, hip, hip.v]\n";
  Bench b;
  enum { SIZE = 5 + 10 + 1 + 18 + 10 + 3 + 3 + 3 + 2 + 2 + 3 + 5 + 1 + 3 + 3 + 1 + 3 + 2 };
  if (bench_new(&b, yaml, SIZE)) fail_msg("%s", bfm_error());
  const mjModel *m = b.world.model;
  const mjData *d = b.data;
  move(&b);
  double obs[SIZE], want[SIZE], *w = want;
  b.domain.observe(&b.world, d, obs);

  int box = mj_name2id(m, mjOBJ_BODY, "box"), hand = mj_name2id(m, mjOBJ_BODY, "hand");
  const double *R = d->xmat + 9 * box, *eye = d->site_xpos, *eye_R = d->site_xmat;
  double offset[3], velocity[6];
  w = put(w, d->qpos + 7, 5);
  w = put(w, d->qvel, 10);
  *w++ = 0.25;
  mju_sub3(offset, d->xpos + 3 * hand, d->xpos + 3 * box);
  mju_mulMatTVec3(w, R, offset), w += 3;
  mju_sub3(offset, d->xpos + 3 * hand, eye);
  mju_mulMatTVec3(w, eye_R, offset), w += 3;
  mju_mulMatTVec3(w, R, d->sensordata), w += 3;
  mj_objectVelocity(m, d, mjOBJ_XBODY, hand, velocity, 0);
  mju_mulMatTVec3(w, R, velocity + 3), w += 3;
  mju_sub3(offset, d->subtree_com + 3 * hand, d->xpos + 3 * box);
  mju_mulMatTVec3(w, R, offset), w += 3;
  mju_sub3(offset, d->qpos, eye);
  mju_mulMatTVec3(w, eye_R, offset), w += 3;

  for (int i = 0; i < 10; i++) *w++ = mju_clip(d->qvel[i], -0.1, 0.1);
  for (int i = 3; i < 6; i++) *w++ = asinh(d->qvel[i]);
  for (int i = 0; i < 3; i++) *w++ = fabs(d->sensordata[i]);
  for (int i = 0; i < 3; i++) *w++ = mju_clip(want[16 + i], 0, 1);

  double z = d->xpos[3 * box + 2];
  *w++ = z - 1;
  *w++ = z - 1;
  for (int i = 0; i < 2; i++) *w++ = 2 * d->qvel[i] + z;
  *w++ = d->xpos[3 * hand];
  *w++ = R[8];
  *w++ = R[6];
  w = put(w, d->qpos + 7, 5);
  *w++ = mju_norm(d->qvel, 10);

  w = put(w, velocity, 3);
  mj_objectVelocity(m, d, mjOBJ_XBODY, box, velocity, 0);
  w = put(w, velocity + 3, 3);
  mjData *copy = mj_copyData(NULL, m, d);
  mj_subtreeVel(m, copy);
  *w++ = copy->subtree_angmom[3 * box + 1];
  mj_deleteData(copy);
  w = put(w, d->xpos + 3 * hand, 3);
  *w++ = d->qpos[7];
  *w++ = d->qvel[6];
  assert_int_equal(w - want, SIZE);
  for (int i = 0; i < SIZE; i++) {
    if (fabs(obs[i] - want[i]) > 1e-12) fail_msg("number %d is %g, not %g", i, obs[i], want[i]);
  }
  static const int counts[] = {16, 18, 19, 13, 12};
  for (int p = 0; p < 5; p++) assert_int_equal(world_part(&b.world, p).count, counts[p]);
  assert_null(world_part(&b.world, 5).name);
  bench_free(&b);
}

static const struct {
  const char *item, *error;
} unobserved[] = {
    {"bax.z", "r.yaml:2:15: the model has nothing called 'bax.z' (did you mean 'box.z'?)"},
    {"1 + bax.z", "r.yaml:2:19: the model has nothing called 'bax.z' (did you mean 'box.z'?)"},
    {"\"1 + bax.z\"", "r.yaml:2:20: the model has nothing called 'bax.z' (did you mean 'box.z'?)"},
    {"asihn(qvel)", "r.yaml:2:15: there is no function 'asihn' (did you mean 'asin'?)"},
    {"box in hnd", "r.yaml:2:15: 'hnd' is no body, site or geom"},
    {"box in hip", "r.yaml:2:15: 'hip' is no body, site or geom"},
    {"qvel in box", "r.yaml:2:15: 'qvel' is no vector of three numbers"},
    {"box.q", "r.yaml:2:15: the body 'box' has no 'q' (it has x y z "},  // … and others
    {"act", "r.yaml:2:15: 'act' is empty in this model"},
    {"qpos.9..8", "r.yaml:2:15: 'qpos' has the numbers .0 to .11, not '9..8'"},
    {"qpos.7..12", "r.yaml:2:15: 'qpos' has the numbers .0 to .11, not '7..12'"},
    {"qvel + qpos", "r.yaml:2:22: 'qpos' is a vector of 12 numbers, but another one here has 10"},
};

static void test_explains_observations(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof unobserved / sizeof *unobserved; i++) {
    char yaml[256];
    Bench b;
    snprintf(yaml, sizeof yaml, "model: box.xml\nobserved: {a: %s}\n", unobserved[i].item);
    assert_int_equal(bench_new(&b, yaml, 1), BFM_BAD_FILE);
    if (strncmp(bfm_error(), unobserved[i].error, strlen(unobserved[i].error))) {
      fail_msg("%s: %s", unobserved[i].item, bfm_error());
    }
    bench_free(&b);
  }
}

static void test_checks_the_size(void **state) {
  (void)state;
  Bench b;
  assert_int_equal(bench_new(&b, "model: a.xml\nobserved: {a: qpos}\n", 3), BFM_BAD_FILE);
  assert_string_equal(bfm_error(),
                      "r.yaml: the observation has 12 numbers, not 3 as \"size\" says");
  bench_free(&b);
  assert_int_equal(bench_new(&b, "model: a.xml\n", 3), BFM_BAD_FILE);
  assert_string_equal(bfm_error(), "r.yaml: nothing is observed");
  bench_free(&b);
}

typedef struct {
  Bench *bench;
  double want[12];
  int wrong;
} Shared;

static void observe_often(void *context, int64_t task, int worker) {
  Shared *s = context;
  (void)task, (void)worker;
  for (int i = 0; i < 200; i++) {
    double obs[12];
    s->bench->domain.observe(&s->bench->world, s->bench->data, obs);
    int ended = s->bench->domain.terminated(&s->bench->world, s->bench->data);
    if (memcmp(obs, s->want, sizeof obs) || !ended) s->wrong = 1;
  }
}

// expressions too are read on many threads at a time
static void test_observes_on_threads(void **state) {
  (void)state;
  Bench b;
  if (bench_new(&b,
                "model: a.xml\nobserved: {a: [2 * qvel, norm(qpos), box.z + 1]}\n"
                "terminated: norm(qvel) > 0.1\n",
                12)) {
    fail_msg("%s", bfm_error());
  }
  Shared shared = {.bench = &b};
  Threads *threads;
  move(&b);
  b.domain.observe(&b.world, b.data, shared.want);
  assert_int_equal(threads_new(&threads, 4), BFM_OK);
  threads_run(threads, 16, observe_often, &shared);
  threads_free(threads);
  assert_int_equal(shared.wrong, 0);
  bench_free(&b);
}

// a sensor that needs tendons, limits or contacts is computed for the new state, not for the last step
static void test_observes_after_a_step_as_after_setting(void **state) {
  (void)state;
  Bench b;
  static const char yaml[] =
      "model: a.xml\nsubsteps: 3\nepisode: 10\nactions: range\n"
      "observed: {a: [qpos, qvel, where, turning, box.angmom, 2 * hand.vel]}\n";
  enum { SIZE = 12 + 10 + 3 + 3 + 3 + 3 };
  if (bench_new(&b, yaml, SIZE)) fail_msg("%s", bfm_error());
  const mjModel *m = b.world.model;
  double obs[SIZE], again[SIZE], qpos[12], qvel[10], action = 0.5;
  Draws draw = draw_new(0, 0, 0);
  single_reset(&b.world, b.data, &draw, obs);
  single_begin(&b.world, b.data, &action);
  assert_true(b.data->ctrl[0] == 0.5);  // a control without limits
  single_substeps(&b.world, b.data, 1);
  assert_int_equal(single_end(&b.world, b.data, obs), 1);
  mju_copy(qpos, b.data->qpos, m->nq);
  mju_copy(qvel, b.data->qvel, m->nv);
  single_set(&b.world, b.data, qpos, qvel, NULL, again);
  for (int i = 0; i < SIZE; i++) assert_true(fabs(obs[i] - again[i]) < 1e-9);
  bench_free(&b);
}

// ---------------------------------- resets -------------------------------------------------------

#define HEAD "model: a.xml\nobserved: {a: qpos}\nreset:\n"

static void reset_with(Bench *b, const char *yaml, int seed) {
  if (bench_new(b, yaml, 12)) fail_msg("%s", bfm_error());
  Draws draw = draw_new((uint64_t)seed, 0, 0);
  double obs[12];
  single_reset(&b->world, b->data, &draw, obs);
}

static void test_resets(void **state) {
  (void)state;
  Bench b;
  for (int seed = 0; seed < 20; seed++) {
    reset_with(&b, HEAD "  - keyframe: high\n", seed);
    assert_true(b.data->qpos[2] == 2 && b.data->qpos[7] == 0.5 && b.data->qvel[2] == 1);
    bench_free(&b);

    reset_with(&b, HEAD "  - keyframe: 0\n  - noise: {qpos: uniform 0.1, qvel: normal 0.1}\n",
               seed);
    assert_true(b.data->qpos[2] != 2 && fabs(b.data->qpos[2] - 2) <= 0.1);
    assert_true(fabs(b.data->qvel[2] - 1) < 0.6 && fabs(b.data->qvel[0]) < 0.6);
    assert_true(fabs(mju_norm(b.data->qpos + 3, 4) - 1) < 1e-12);
    assert_true(fabs(mju_norm(b.data->qpos + 8, 4) - 1) < 1e-12);
    bench_free(&b);

    reset_with(&b, HEAD "  - joints: random\n", seed);
    assert_true(b.data->qpos[7] != 0 && fabs(b.data->qpos[7]) <= 60 * mjPI / 180);
    assert_true(b.data->qpos[8] != 1 && fabs(mju_norm(b.data->qpos + 8, 4) - 1) < 1e-12);
    bench_free(&b);

    reset_with(&b, HEAD "  - joints: limited\n", seed);
    assert_true(b.data->qpos[7] != 0 && b.data->qpos[3] == 1 && b.data->qpos[8] == 1);
    bench_free(&b);

    reset_with(&b, HEAD "  - joints: {hip: -0.25}\n", seed);
    assert_true(b.data->qpos[7] == -0.25 && b.data->qpos[2] == 0.5 && b.data->qpos[8] == 1);
    bench_free(&b);

    reset_with(&b, HEAD "  - joints: {hip: 0.5}\n  - noise: {joints: uniform 0.1}\n", seed);
    assert_true(b.data->qpos[7] != 0.5 && fabs(b.data->qpos[7] - 0.5) <= 0.1);
    assert_true(b.data->qpos[2] == 0.5 && b.data->qpos[3] == 1 && b.data->qpos[8] == 1);
    bench_free(&b);

    reset_with(&b, HEAD "  - orientation: random\n  - raise: {from: -1, by: 0.05}\n", seed);
    assert_true(fabs(mju_norm(b.data->qpos + 3, 4) - 1) < 1e-12 && b.data->qpos[3] != 1);
    assert_true(b.data->qpos[2] > 0 && b.data->qpos[2] < 0.65);
    assert_int_equal(b.data->ncon, 0);
    bench_free(&b);

    reset_with(&b, HEAD "  - orientation: random\n  - noise: {qpos: uniform 0.6}\n  - redraw\n",
               seed);
    assert_int_equal(b.data->ncon, 0);
    assert_true(b.data->qpos[2] > 0 && b.data->qpos[2] < 1.1);
    bench_free(&b);

    reset_with(&b, HEAD "  - noise: {qpos: uniform 0.3}\n  - redraw: floor\n  - settle: 300\n",
               seed);
    assert_true(b.data->qpos[2] < 0.3 && b.data->time == 0);
    bench_free(&b);
  }
}

static const struct {
  const char *reset, *error;
} impossible[] = {
    {"  - keyframe: hihg\n",
     "r.yaml:4:15: the model has no keyframe 'hihg' among its 1; did you mean high?"},
    {"  - keyframe: 1\n", "r.yaml:4:15: the model has no keyframe '1' among its 1"},
    {"  - joints: {hop: 0}\n", "r.yaml:4:14: the model has no joint 'hop'; did you mean hip?"},
    {"  - joints: {wrist: 0}\n",
     "r.yaml:4:14: the joint 'wrist' is no hinge or slide: its position is no number"},
    {"  - states: s.npz\n", "r.yaml:4:13: no states have been read from s.npz"},
};

static void test_explains_resets(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
    char yaml[256];
    Bench b;
    snprintf(yaml, sizeof yaml, HEAD "%s", impossible[i].reset);
    assert_int_equal(bench_new(&b, yaml, 12), BFM_BAD_FILE);
    assert_string_equal(bfm_error(), impossible[i].error);
    bench_free(&b);
  }
}

// an .npz file as numpy.savez writes it: stored members, each an array of float64
static size_t write_npz(char *out, const char *name, const double *values, int rows, int columns) {
  char npy[4096];
  memcpy(npy, "\x93NUMPY\x01\x00\x76\x00", 10);
  int n = snprintf(npy + 10, 120, "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }",
                   rows, columns);
  memset(npy + 10 + n, ' ', (size_t)(117 - n));
  npy[127] = '\n';
  size_t bytes = (size_t)(rows * columns) * sizeof *values, size = 128 + bytes;
  memcpy(npy + 128, values, bytes);
  uint32_t sum = (uint32_t)crc32_z(0, (const unsigned char *)npy, size);
  uint16_t length = (uint16_t)strlen(name);

  // local header, data, central directory, end
  struct __attribute__((packed)) {
    uint32_t magic;
    uint16_t version, flags, method, time, date;
    uint32_t sum, packed, size;
    uint16_t name, extra;
  } local = {0x04034b50, 20, 0, 0, 0, 33, sum, (uint32_t)size, (uint32_t)size, length, 0};
  struct __attribute__((packed)) {
    uint32_t magic;
    uint16_t made, version, flags, method, time, date;
    uint32_t sum, packed, size;
    uint16_t name, extra, comment, disk, internal;
    uint32_t external, offset;
  } central = {0x02014b50,     20,     20, 0, 0, 0, 33, sum, (uint32_t)size,
               (uint32_t)size, length, 0,  0, 0, 0, 0,  0};
  struct __attribute__((packed)) {
    uint32_t magic;
    uint16_t disk, start, here, total;
    uint32_t size, offset;
    uint16_t comment;
  } end = {0x06054b50,
           0,
           0,
           1,
           1,
           (uint32_t)(sizeof central + length),
           (uint32_t)(sizeof local + length + size),
           0};
  char *to = out;
  to = mempcpy(to, &local, sizeof local);
  to = mempcpy(mempcpy(to, name, length), npy, size);
  to = mempcpy(mempcpy(to, &central, sizeof central), name, length);
  to = mempcpy(to, &end, sizeof end);
  return (size_t)(to - out);
}

static void test_draws_states_of_a_file(void **state) {
  (void)state;
  static const char yaml[] = HEAD "  - states: s.npz\n";
  double rows[3][12] = {{0}}, bad[2][11] = {{0}};
  char npz[8192];
  for (int i = 0; i < 3; i++) {
    rows[i][2] = i + 1;
    rows[i][3] = rows[i][8] = 1;
  }
  Bench b = {.robot = robot_of(yaml)};
  size_t size = write_npz(npz, "qpos.npy", rows[0], 3, 12);
  assert_string_equal(robot_states_step(b.robot)->text.text, "s.npz");
  if (robot_read_states(b.robot, npz, size)) fail_msg("%s", bfm_error());
  b.robot->size = 12;
  robot_domain(&b.domain, "r", b.robot);
  b.world = (World){.domain = &b.domain, .model = compile(spec_new())};
  b.world.resting = mj_copyModel(NULL, b.world.model);
  b.data = mj_makeData(b.world.model);
  if (robot_world_new(&b.world)) fail_msg("%s", bfm_error());
  int seen[4] = {0};
  for (uint32_t i = 0; i < 60; i++) {
    Draws draw = draw_new(1, 0, i);
    double obs[12];
    single_reset(&b.world, b.data, &draw, obs);
    seen[(int)b.data->qpos[2]]++;
  }
  assert_true(seen[0] == 0 && seen[1] > 8 && seen[2] > 8 && seen[3] > 8);
  bench_free(&b);

  Robot *robot = robot_of(yaml);
  Resets *resets;
  mjModel *model = compile(spec_new());
  assert_int_equal(robot_read_states(robot, npz, size - 1), BFM_BAD_FILE);
  assert_non_null(strstr(bfm_error(), "r.yaml:4:13: s.npz: "));
  size = write_npz(npz, "qpos.npy", bad[0], 2, 11);
  assert_int_equal(robot_read_states(robot, npz, size), BFM_OK);
  assert_int_equal(resets_new(&resets, robot, model), BFM_BAD_FILE);
  assert_string_equal(bfm_error(),
                      "r.yaml:4:13: qpos in s.npz has 11 columns, but the model needs 12");
  bad[1][4] = NAN;
  size = write_npz(npz, "qpos.npy", bad[0], 2, 11);
  assert_int_equal(robot_read_states(robot, npz, size), BFM_BAD_FILE);
  assert_string_equal(bfm_error(),
                      "r.yaml:4:13: qpos in s.npz has a number that is not finite, or too large");
  size = write_npz(npz, "qvel.npy", bad[0], 2, 11);
  assert_int_equal(robot_read_states(robot, npz, size), BFM_BAD_FILE);
  mj_deleteModel(model);
  robot_free(robot);
}

// ---------------------------------- edits, tasks, ends -------------------------------------------

static void test_edits(void **state) {
  (void)state;
  Bench b;
  static const char yaml[] =
      "model: a.xml\nobserved: {a: qpos}\n"
      "edits:\n"
      "  remove: [geom wall, sensor type touch, key high]\n"
      "  change:\n"
      "    geom floor: {size: 7 8, rgba: 1 0 0 1, condim: 1}\n"
      "    actuator push: {ctrlrange: -2 3}\n"
      "    option: {timestep: 0.004}\n"
      "  add:\n"
      "    camera above: {pos: 0 0 3, fovy: 30}\n"
      "    site goal: {pos: 1 2 0, size: 0.1}\n";
  if (bench_new(&b, yaml, 12)) fail_msg("%s", bfm_error());
  const mjModel *m = b.world.model;
  int floor = mj_name2id(m, mjOBJ_GEOM, "floor");
  assert_int_equal(mj_name2id(m, mjOBJ_GEOM, "wall"), -1);
  assert_int_equal(m->nsensor, 2);
  assert_int_equal(m->nkey, 0);
  assert_true(m->geom_size[3 * floor] == 7 && m->geom_size[3 * floor + 1] == 8);
  assert_true(m->geom_size[3 * floor + 2] == 0.1);
  assert_true(m->geom_rgba[4 * floor] == 1 && m->geom_rgba[4 * floor + 1] == 0);
  assert_int_equal(m->geom_condim[floor], 1);
  assert_true(m->actuator_ctrlrange[0] == -2 && m->actuator_ctrlrange[1] == 3);
  assert_true(m->opt.timestep == 0.004);
  int above = mj_name2id(m, mjOBJ_CAMERA, "above"), goal = mj_name2id(m, mjOBJ_SITE, "goal");
  assert_true(m->cam_pos[3 * above + 2] == 3 && m->cam_fovy[above] == 30);
  assert_true(m->site_pos[3 * goal + 1] == 2 && m->site_size[3 * goal] == 0.1);
  bench_free(&b);
}

static const struct {
  const char *edits, *error;
} refused_edits[] = {
    {"remove: geom wal", "r.yaml:2:22: the model has no geom 'wal'; did you mean wall?"},
    {"remove: gem wall",
     "r.yaml:2:17: elements of the type 'gem' cannot be edited; did you mean geom?"},
    {"remove: sensor type gyros",
     "r.yaml:2:24: there is no type of sensors 'gyros'; did you mean gyro?"},
    {"remove: sensor type force", "r.yaml:2:24: the model has no sensor of the type 'force'"},
    {"add: {geom ball: {size: 1}}", "r.yaml:2:15: a geom cannot be added, only a camera or a site"},
    {"add: {site eye: {size: 1}}",
     "r.yaml:2:20: the model has a site 'eye' already: change it instead"},
    {"remove: option", "r.yaml:2:17: options cannot be removed"},
    {"change: {geom floor: {sise: 1}}",
     "r.yaml:2:31: the attribute 'sise' of a geom cannot be changed; did you mean size?"},
    {"change: {geom floor: {size: 1 x}}", "r.yaml:2:37: '1 x' is not a list of numbers"},
    {"change: {geom floor: {size: 1 2 3 4}}", "r.yaml:2:37: '1 2 3 4' has more numbers than 3"},
    {"change: {geom floor: {condim: 1.5}}",
     "r.yaml:2:39: '1.5' is not a whole number of that size"},
};

static void test_explains_edits(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused_edits / sizeof *refused_edits; i++) {
    char yaml[256];
    snprintf(yaml, sizeof yaml, "model: a.xml\nedits: {%s}\n", refused_edits[i].edits);
    Robot *robot = robot_of(yaml);
    mjSpec *spec = spec_new();
    assert_int_equal(robot_edit(robot, spec), BFM_BAD_FILE);
    assert_string_equal(bfm_error(), refused_edits[i].error);
    mj_deleteSpec(spec);
    robot_free(robot);
  }
}

static void test_rewards_of_steps(void **state) {
  (void)state;
  mjModel *m = compile(spec_new());
  mjData *d = mj_makeData(m);
  double before[12];
  mju_copy(before, d->qpos, 12);
  d->qpos[0] = 0.5;
  d->qpos[7] = -0.25;
  static const struct {
    const char *text;
    double value;
  } rows[] = {{"moved(root.x) / dt", 10},
              {"moved(qpos.0)", 0.5},
              {"moved(hip) * 2 + dt", -0.45},
              {"moved(where)", 0},
              {"fma(-2, dot(qpos.0..1, qpos.0..1), moved( root.x ))", 0}};
  for (int i = 0; i < 5; i++) {
    Reward *reward;
    int status = reward_new_step(&reward, m, NULL, 0.05, rows[i].text);
    assert_int_equal(status != 0, i == 3);
    if (status) {
      assert_non_null(strstr(bfm_error(), "moved takes the position of a joint"));
      continue;
    }
    assert_true(fabs(reward_step_value(reward, m, d, before) - rows[i].value) < 1e-15);
    Reward *copy;
    assert_int_equal(reward_copy(&copy, reward), BFM_OK);
    assert_true(fabs(reward_step_value(copy, m, d, before) - rows[i].value) < 1e-15);
    reward_free(copy);
    reward_free(reward);
  }
  Reward *reward;
  assert_int_equal(reward_new(&reward, m, NULL, "moved(hip)"), BFM_BAD_ARGUMENT);
  assert_int_equal(reward_new(&reward, m, NULL, "1 / dt"), BFM_BAD_ARGUMENT);
  mj_deleteData(d);
  mj_deleteModel(m);
}

static void test_checks_aliases_tasks_and_ends(void **state) {
  (void)state;
  static const struct {
    const char *yaml, *error;
  } rows[] = {
      {"aliases:\n  a: bax.z\n",
       "r.yaml:4:6: the model has nothing called 'bax.z' (did you mean 'box.z'?)"},
      {"aliases:\n  a: {is: box, help: b}\ntasks:\n  t: a\n",
       "r.yaml:6:6: 'box' is a vector of 3 numbers: choose one of them, or use its norm (in the "
       "alias "
       "'a')"},
      {"tasks:\n  t: {step: 1 + moved(hop)}\n",
       "r.yaml:4:23: the model has nothing called 'hop' (did you mean 'hip'?)"},
      {"tasks:\n  t: box.z >\n", "r.yaml:4:13: a number, a name or '(' is missing at the end"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char yaml[256];
    Bench b;
    snprintf(yaml, sizeof yaml, "model: a.xml\nobserved: {a: qpos}\n%s", rows[i].yaml);
    if (bench_new(&b, yaml, 12)) fail_msg("%s", bfm_error());
    b.robot->substeps = 1;
    int status = robot_check_aliases(b.robot, b.world.model);
    if (!status) status = robot_check(b.robot, b.world.model);
    assert_int_equal(status, BFM_BAD_FILE);
    assert_string_equal(bfm_error(), rows[i].error);
    bench_free(&b);
  }
  Bench b;
  assert_int_equal(bench_new(&b, "model: a.xml\nobserved: {a: qpos}\nterminated: box.z < 1 |\n",
                             12),
                   BFM_BAD_FILE);
  assert_string_equal(bfm_error(), "r.yaml:3:23: '|' is written '||' here");
  bench_free(&b);
}

// ---------------------------------- the built-in robots ------------------------------------------

static void test_built_in_robots(void **state) {
  (void)state;
  int robots = 0;
  for (int i = 0; domain_at(i); i++) {
    const Domain *domain = domain_at(i);
    const World *world;
    if (!domain->robot) continue;
    robots++;
    if (world_acquire(&world, domain)) fail_msg("%s", bfm_error());
    Robot *robot = (Robot *)(uintptr_t)domain->robot;
    if (robot_check_aliases(robot, world->model)) fail_msg("%s", bfm_error());
    if (robot_check(robot, world->model)) fail_msg("%s", bfm_error());
    assert_int_equal(world->needs & (NEEDS_ALL_POS | NEEDS_ALL_VEL), 0);
    world_release(world);
  }
  assert_int_equal(robots, 14);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reads_a_robot),
      cmocka_unit_test(test_explains_mistakes),
      cmocka_unit_test(test_aliases_that_only_look_cyclic),
      cmocka_unit_test(test_refuses_large_files),
      cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_observes),
      cmocka_unit_test(test_explains_observations),
      cmocka_unit_test(test_checks_the_size),
      cmocka_unit_test(test_observes_on_threads),
      cmocka_unit_test(test_observes_after_a_step_as_after_setting),
      cmocka_unit_test(test_resets),
      cmocka_unit_test(test_explains_resets),
      cmocka_unit_test(test_draws_states_of_a_file),
      cmocka_unit_test(test_edits),
      cmocka_unit_test(test_explains_edits),
      cmocka_unit_test(test_rewards_of_steps),
      cmocka_unit_test(test_checks_aliases_tasks_and_ends),
      cmocka_unit_test(test_built_in_robots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
