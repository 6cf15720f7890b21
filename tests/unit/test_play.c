// The robots of the playground: they move as in bfm_env, bit for bit, are paid as by it, follow their
// prompts, give way to a hand, and are remembered. All domains, with random agents.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "core/deadline.h"
#include "prompt/prompt.h"
#include "serve/play.h"
#include "serve/robots.h"
#include "serve/scene.h"

enum { STATES = 64, STEPS = 40 };

#define COUNT(table) (sizeof(table) / sizeof *(table))

static void good(int status) {
  if (status) fail_msg("%s", bfm_error());
}

// ---------------------------------- models -------------------------------------------------------

// Prompt states of a random walk. In half of the kitchen's states the microwave is open.
static void give_states(bfm_agent *agent, const char *domain) {
  bfm_env *env;
  bfm_env_sizes s = {.size = sizeof s};
  good(bfm_env_new(&env, domain, STATES, 1, 1));
  bfm_env_get_sizes(env, &s);
  double *numbers =
      calloc(STATES * (size_t)(s.nq + s.nv + s.na + s.obs_dim + s.act_dim), sizeof(double));
  double *qpos = numbers, *qvel = qpos + (size_t)STATES * s.nq, *act = qvel + (size_t)STATES * s.nv;
  double *wide = act + (size_t)STATES * s.na, *actions = wide + (size_t)STATES * s.obs_dim;
  float *obs = calloc((size_t)STATES * s.obs_dim, sizeof *obs);
  for (int i = 0; i < STATES * s.act_dim; i++) actions[i] = 2 * random_uniform(1, 0, 0, i) - 1;
  for (int t = 0; t < 5; t++) good(bfm_env_step(env, actions));
  bfm_env_state(env, qpos, qvel, act);
  for (int i = 0; i < STATES && !strcmp(domain, "kitchen"); i += 2) qpos[i * s.nq + 22] = -0.75;
  good(bfm_env_set_state(env, qpos, qvel, act));
  bfm_env_obs(env, wide);
  for (int i = 0; i < STATES * s.obs_dim; i++) obs[i] = (float)wide[i];
  good(bfm_agent_set_prompt(agent, domain, STATES, obs, qpos, qvel, act));
  free(obs);
  free(numbers);
  bfm_env_free(env);
}

static Model model_new(const char *name, const char *options) {
  Model model = {.version = 1};
  const Domain *domain;
  good(domain_find(&domain, name));
  good(world_acquire(&model.world, domain));
  good(bfm_agent_new(&model.agent, domain->obs_dim, model.world->model->nu,
                     options ? options
                             : "{\"algo\": \"fb-aware\", \"d\": 16, \"blocks\": 2, \"hidden\": 24,"
                               "\"feat\": 16, \"b-hidden\": 24, \"batch\": 8, \"members\": 2,"
                               "\"device\": \"cpu\", \"threads\": 1}"));
  give_states(model.agent, name);
  return model;
}

static void model_free(Model *model) {
  bfm_agent_free(model->agent);
  world_release(model->world);
}

static Message said(PromptKind kind, const char *text) {
  Message m = {.say = SAY_PROMPT, .kind = kind, .slot = -1, .id = 7};
  snprintf(m.text, sizeof m.text, "%s", text);
  return m;
}

static Ask *ask_of(const Model *model, const char *reward) {
  Ask *ask;
  Message m = said(PROMPT_REWARD, reward);
  good(ask_new(&ask, model, &m, NULL, 0));
  return ask;
}

static Play *play_of(const Model *model, int slots, uint64_t seed, const char *reward) {
  Play *play;
  good(play_new(&play, model, slots, seed));
  for (int i = 0; i < slots && reward; i++) play_ask(play, i, ask_of(model, reward), 0);
  return play;
}

static void advance(Play *play, double seconds) { play_advance(play, seconds, 1000); }

// ---------------------------------- the same as bfm_env ------------------------------------------

// replay what the play remembers in an environment, and compare every number
static void follow(const Model *model, const char *reward) {
  const mjModel *m = model->world->model;
  double dt = model->world->domain->substeps * m->opt.timestep;
  Play *play = play_of(model, 1, 3, reward);
  bfm_env *env;
  Rows rows;
  advance(play, STEPS * dt);
  good(past_copy(play_past(play, 0), PAST_SECONDS, &rows));
  assert_in_range(rows.count, STEPS - 1, STEPS);
  good(bfm_env_new(&env, model->world->domain->name, 1, 3, 1));
  for (int64_t t = 0; t < rows.count; t++) {
    double qpos[64], qvel[64], act[64], obs[OBS_MAX], actions[CTRL_MAX], paid;
    bfm_env_state(env, qpos, qvel, act);
    bfm_env_obs(env, obs);
    assert_memory_equal(qpos, rows.qpos + t * m->nq, m->nq * sizeof *qpos);
    assert_memory_equal(qvel, rows.qvel + t * m->nv, m->nv * sizeof *qvel);
    if (m->na) assert_memory_equal(act, rows.act_state + t * m->na, m->na * sizeof *act);
    for (int k = 0; k < model->world->domain->obs_dim; k++) {
      assert_true(rows.obs[t * model->world->domain->obs_dim + k] == (float)obs[k]);
    }
    for (int u = 0; u < m->nu; u++) actions[u] = rows.act[t * m->nu + u];
    good(bfm_env_step(env, actions));
    good(bfm_env_reward(env, reward, &paid));
    assert_true(rows.rewards[t] == (float)paid);
    uint8_t ended;
    bfm_env_end_reasons(env, &ended);
    assert_int_equal(rows.terminals[t], ended & BFM_END_TERMINATED);
    if (ended) break;
  }
  bfm_env_free(env);
  rows_free(&rows);
  play_free(play);
}

static void test_robots_move_as_in_environments(void **state) {
  (void)state;
  static const char *const of_forces[] = {"walker", "quadruped", "humanoid"};
  for (int i = 0; domain_at(i); i++) {
    const char *name = domain_at(i)->name;
    Model model = model_new(name, NULL);
    int rare = !strcmp(name, "finger");  // its first task rewards no state of a random walk
    follow(&model, !strcmp(name, "point_mass") ? "x" : rare ? "speed" : task_at(name, 0)->name);
    for (size_t k = 0; k < COUNT(of_forces); k++) {
      if (!strcmp(name, of_forces[k])) follow(&model, "sum(actuator_force) + speed");
    }
    model_free(&model);
  }
}

// with a bound on the time of a substep, robots of other seeds begin elsewhere
static void test_the_seed_decides_the_start(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  Play *a = play_of(&model, 2, 0, NULL), *b = play_of(&model, 1, 1, NULL);
  size_t bytes = (size_t)model.world->model->nq * sizeof(double);
  assert_memory_equal(play_qpos(a, 0), play_qpos(a, 1), bytes);
  assert_memory_not_equal(play_qpos(a, 0), play_qpos(b, 0), bytes);
  play_free(a);
  play_free(b);
  model_free(&model);
}

// ---------------------------------- prompts ------------------------------------------------------

static void test_z_is_that_of_the_library(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  float z[16];
  Ask *ask = ask_of(&model, "run");
  good(bfm_agent_prompt_text(model.agent, 0, "run", 0, z));
  assert_memory_equal(ask->z, z, sizeof z);
  assert_int_equal(ask->values.count, STATES);
  int sum = 0;
  for (int i = 0; i < HISTOGRAM_BINS; i++) sum += ask->values.counts[i];
  assert_int_equal(sum, STATES);
  ask_release(ask);

  Message m = said(PROMPT_GOAL, "torso.z = 1.1, speed = 0");
  good(ask_new(&ask, &model, &m, NULL, 0));
  good(bfm_agent_prompt_goal(model.agent, 0, m.text, z, NULL, 0));
  assert_memory_equal(ask->z, z, sizeof z);
  assert_non_null(ask->ghost);
  cJSON *answer = ask_prompted(ask, 16, 9);
  assert_string_equal(cJSON_GetObjectItem(answer, "score")->valuestring, "similarity");
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "ghost_qpos")), 9);
  cJSON_Delete(answer);
  ask_release(ask);

  m = said(PROMPT_POSE, "");
  m.count = 9;
  good(ask_new(&ask, &model, &m, NULL, 0));
  good(bfm_agent_prompt_state(model.agent, 0, m.numbers, NULL, NULL, z));
  assert_memory_equal(ask->z, z, sizeof z);
  ask_release(ask);

  m = said(PROMPT_DEMO, "");
  good(ask_new(&ask, &model, &m, bfm_agent_prompt_obs(model.agent), 10));
  good(bfm_agent_prompt_states(model.agent, 0, 10, bfm_agent_prompt_obs(model.agent), z));
  assert_memory_equal(ask->z, z, sizeof z);
  Ask *again;
  good(ask_again(&again, &model, ask));
  assert_memory_equal(again->z, z, sizeof z);
  ask_release(again);
  ask_release(ask);
  model_free(&model);
}

static void test_bad_prompts_are_refused(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  static const struct {
    PromptKind kind;
    const char *text;
    int count;
    double first;
    const char *says;
  } rows[] = {
      {PROMPT_REWARD, "torzo.z", 0, 0, "did you mean 'torso.z'"},
      {PROMPT_REWARD, "1", 0, 0, "tells the agent nothing"},
      {PROMPT_REWARD, "log(-1)", 0, 0, "NaN"},
      {PROMPT_GOAL, "torso.z", 0, 0, "not a name and a number"},
      {PROMPT_GOAL, "torso.z = 1, torzo.z = 2", 0, 0, "did you mean 'torso.z'"},
      {PROMPT_POSE, "", 3, 0, "qpos has 3 numbers, but this model needs 9"},
      {PROMPT_POSE, "", 9, NAN, "is nan"},
      {PROMPT_POSE, "", 9, 1e300, "1e+300"},
      {PROMPT_DEMO, "", 0, 0, "has not moved"},
      {PROMPT_Z, "", 15, 0, "z has 15 numbers, but this model needs 16"},
      {PROMPT_Z, "", 16, 0, "norm 0"},
      {PROMPT_Z, "", 16, INFINITY, "norm inf"},
      {PROMPT_Z, "", 16, NAN, "not finite"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    Message m = said(rows[i].kind, rows[i].text);
    Ask *ask;
    m.count = rows[i].count;
    m.numbers[0] = rows[i].first;
    assert_true(ask_new(&ask, &model, &m, NULL, 0) != BFM_OK);
    assert_null(ask);
    if (!strstr(bfm_error(), rows[i].says)) fail_msg("%zu: %s", i, bfm_error());
  }
  model_free(&model);
}

// as a client reads it
static cJSON *sent(cJSON *json) {
  char *text = cJSON_PrintUnformatted(json);
  cJSON *read = cJSON_Parse(text);
  assert_non_null(read);
  free(text);
  cJSON_Delete(json);
  return read;
}

static cJSON *check(const Model *model, PromptKind kind, const char *text) {
  cJSON *answer;
  Message m = said(kind, text);
  good(ask_check(model, &m, &answer));
  return sent(answer);
}

static double number_of(const cJSON *json, const char *name) {
  const cJSON *item = cJSON_GetObjectItem(json, name);
  if (!cJSON_IsNumber(item)) fail_msg("no number %s in %s", name, cJSON_PrintUnformatted(json));
  return item->valuedouble;
}

static void test_checks_show_the_place_of_an_error(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  cJSON *answer = check(&model, PROMPT_REWARD, "upright * spead");
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(answer, "ok")));
  assert_int_equal((int)number_of(answer, "at"), 10);
  assert_int_equal((int)number_of(answer, "length"), 5);
  assert_string_equal(cJSON_GetObjectItem(answer, "suggestion")->valuestring, "speed");
  assert_null(strchr(cJSON_GetObjectItem(answer, "error")->valuestring, '\n'));
  cJSON_Delete(answer);

  answer = check(&model, PROMPT_GOAL, "torso.z = 1, spead = 2");
  assert_int_equal((int)number_of(answer, "at"), 13);
  cJSON_Delete(answer);
  answer = check(&model, PROMPT_GOAL, "torso.z = 1, speed");
  assert_int_equal((int)number_of(answer, "at"), 13);
  assert_int_equal((int)number_of(answer, "length"), 5);
  cJSON_Delete(answer);

  answer = check(&model, PROMPT_REWARD, "1");
  assert_null(cJSON_GetObjectItem(answer, "at"));
  cJSON_Delete(answer);

  answer = check(&model, PROMPT_REWARD, "exp(-rootx^2)");  // a place that no observation shows
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(answer, "ok")));
  assert_non_null(strstr(cJSON_GetObjectItem(answer, "warning")->valuestring, "cannot know"));
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "counts")), HISTOGRAM_BINS);
  assert_true(number_of(answer, "lo") <= number_of(answer, "mean"));
  cJSON_Delete(answer);
  model_free(&model);
}

static void test_prompts_stop_at_their_deadline(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  atomic_int cancel = 1;
  Deadline deadline = {.cancel = &cancel, .seconds = 10};
  Message m = said(PROMPT_REWARD, "run");
  Ask *ask;
  cJSON *answer;
  deadline_set(&deadline);
  assert_int_equal(ask_new(&ask, &model, &m, NULL, 0), BFM_INTERRUPTED);
  assert_int_equal(ask_check(&model, &m, &answer), BFM_INTERRUPTED);
  deadline_set(NULL);
  model_free(&model);
}

// ---------------------------------- acting -------------------------------------------------------

static void expect_equal_slots(const Play *play, int slots, int equal) {
  size_t bytes = (size_t)play_model(play)->world->model->nq * sizeof(double);
  for (int i = 1; i < slots; i++) {
    assert_int_equal(!memcmp(play_qpos(play, 0), play_qpos(play, i), bytes), equal);
  }
}

static void test_equal_prompts_give_equal_robots(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  Play *play = play_of(&model, 4, 0, "run");
  advance(play, 1);
  expect_equal_slots(play, 4, 1);
  play_act(play, 4, 0.2);  // samples and noise are the same, too
  advance(play, 1);
  expect_equal_slots(play, 4, 1);
  play_ask(play, 0, ask_of(&model, "-speed"), 0);
  advance(play, 1);
  expect_equal_slots(play, 4, 0);
  play_reset(play, RESET_RANDOM);
  expect_equal_slots(play, 4, 1);
  play_reset(play, RESET_START);
  expect_equal_slots(play, 4, 1);
  play_free(play);
  model_free(&model);
}

static cJSON *stats_of(Play *play, int slot) {
  cJSON *all = sent(play_stats(play)), *one = cJSON_DetachItemFromArray(all, slot);
  cJSON_Delete(all);
  return one;
}

// until a ramp is over, actions differ from those of the new prompt; then they are the same
static void test_z_moves_along_a_ramp(void **state) {
  (void)state;
  Model model = model_new("cheetah", NULL);
  Play *play = play_of(&model, 2, 0, "walk");
  advance(play, 0.2);
  play_ask(play, 0, ask_of(&model, "walk_backward"), 0);
  play_ask(play, 1, ask_of(&model, "walk_backward"), 0.5);
  advance(play, 0.1);
  expect_equal_slots(play, 2, 0);
  advance(play, 1);
  play_reset(play, RESET_START);
  advance(play, 0.3);
  expect_equal_slots(play, 2, 1);
  play_free(play);
  model_free(&model);
}

static void test_a_new_model_takes_over_at_a_step(void **state) {
  (void)state;
  Model old = model_new("walker", NULL);
  Model new = model_new("walker",
                        "{\"algo\": \"fb-aware\", \"d\": 16, \"blocks\": 2, \"hidden\": 24,"
                        "\"feat\": 16, \"b-hidden\": 24, \"batch\": 8, \"members\": 2, \"seed\": 5,"
                        "\"device\": \"cpu\", \"threads\": 1}");
  Play *play = play_of(&old, 1, 0, "run"), *other = play_of(&new, 1, 0, "run");
  advance(play, 0.1);
  play_model_set(play, &new);
  play_ask(play, 0, ask_of(&new, "run"), 0);
  assert_ptr_equal(play_model(play), &old);
  advance(play, 0.1);
  assert_ptr_equal(play_model(play), &new);
  play_reset(play, RESET_START);
  advance(play, 0.5);
  advance(other, 0.5);
  assert_memory_equal(play_qpos(play, 0), play_qpos(other, 0), 9 * sizeof(double));
  play_free(play);
  play_free(other);
  model_free(&old);
  model_free(&new);
}

static void test_without_a_prompt_robots_rest(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  Play *play = play_of(&model, 1, 0, NULL);
  Rows rows;
  advance(play, 0.5);
  good(past_copy(play_past(play, 0), 1, &rows));
  for (int64_t i = 0; i < rows.count * 6; i++) assert_true(rows.act[i] == 0);
  cJSON *stats = stats_of(play, 0);
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(stats, "score")));
  assert_true(cJSON_IsNull(cJSON_GetArrayItem(cJSON_GetObjectItem(stats, "values"), 0)));
  cJSON_Delete(stats);
  rows_free(&rows);
  play_free(play);
  model_free(&model);
}

// ---------------------------------- measurements -------------------------------------------------

static void test_values_are_f_times_z(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  Play *play = play_of(&model, 1, 0, "run");
  Ask *ask = ask_of(&model, "run");
  Rows rows;
  float f[2 * 16];
  advance(play, 0.5);
  cJSON *stats = stats_of(play, 0);
  const cJSON *rewards = cJSON_GetObjectItem(stats, "rewards");
  const cJSON *values = cJSON_GetObjectItem(stats, "values");
  const cJSON *spread = cJSON_GetObjectItem(stats, "spread");
  good(past_copy(play_past(play, 0), 30, &rows));
  assert_int_equal(cJSON_GetArraySize(rewards), rows.count);
  double sum = 0;
  for (int64_t t = 0; t < rows.count; t++) {
    double q[2] = {0, 0};
    good(bfm_agent_F(model.agent, 0, 1, rows.obs + t * 24, rows.act + t * 6, ask->z, f));
    for (int m = 0; m < 2; m++) {
      for (int k = 0; k < 16; k++) q[m] += (double)f[16 * m + k] * ask->z[k];
    }
    double mean = (q[0] + q[1]) / 2, off = fabs(q[0] - q[1]) / sqrt(2);
    assert_true(fabs(cJSON_GetArrayItem(values, (int)t)->valuedouble - mean) <
                1e-4 * (1 + fabs(mean)));
    assert_true(fabs(cJSON_GetArrayItem(spread, (int)t)->valuedouble - off) < 1e-4 * (1 + off));
    assert_true(fabs(cJSON_GetArrayItem(rewards, (int)t)->valuedouble - rows.rewards[t]) < 1e-5);
    sum += rows.rewards[t];
  }
  assert_true(fabs(number_of(stats, "score") - sum / (double)rows.count) < 1e-4);
  cJSON_Delete(stats);
  stats = stats_of(play, 0);  // told once
  assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(stats, "rewards")), 0);
  cJSON_Delete(stats);
  rows_free(&rows);
  ask_release(ask);
  play_free(play);
  model_free(&model);
}

static void test_similarity_is_b_times_z(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  Play *play = play_of(&model, 1, 0, NULL);
  Message m = said(PROMPT_GOAL, "torso.z = 1.1");
  Ask *ask;
  Rows rows;
  float b[16];
  good(ask_new(&ask, &model, &m, NULL, 0));
  play_ask(play, 0, ask_share(ask), 0);
  advance(play, 0.3);
  good(past_copy(play_past(play, 0), 30, &rows));
  for (int64_t t = 0; t < rows.count; t++) {
    double sum = 0;
    good(bfm_agent_B(model.agent, 0, 1, rows.next_obs + t * 24, ask->z, b));
    for (int k = 0; k < 16; k++) sum += (double)b[k] * ask->z[k];
    assert_true(fabs(rows.rewards[t] - sum) < 1e-5 * (1 + fabs(sum)));
  }
  rows_free(&rows);
  ask_release(ask);
  play_free(play);
  model_free(&model);
}

static void test_falls_begin_anew(void **state) {
  (void)state;
  Model model = model_new("hopper", NULL);
  Play *play = play_of(&model, 1, 0, "run");
  Rows rows;
  advance(play, 20);
  cJSON *stats = stats_of(play, 0);
  int resets = (int)number_of(stats, "reset"), terminals = 0;
  assert_true(resets > 0);
  good(past_copy(play_past(play, 0), 30, &rows));
  for (int64_t i = 0; i < rows.count; i++) {
    terminals += rows.terminals[i];
    assert_int_equal(rows.timeouts[i], i == rows.count - 1 && !rows.terminals[i]);
  }
  assert_int_equal(terminals, resets);
  cJSON_Delete(stats);
  rows_free(&rows);
  play_free(play);
  model_free(&model);
}

// ---------------------------------- a hand -------------------------------------------------------

static double height_of(const Play *play) { return play_qpos(play, 0)[0]; }

static void test_a_drag_lifts_the_torso(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  Play *play = play_of(&model, 1, 0, "stand");
  const Drag up = {.body = 1, .to = {0, 0, 2.5}}, none = {.body = 0};
  advance(play, 3);
  double lying = height_of(play);
  play_drag(play, 0, &up);
  advance(play, 3);
  assert_true(height_of(play) > lying + 0.8);
  assert_true(fabs(height_of(play)) < 3);
  play_drag(play, 0, &none);
  advance(play, 2);
  assert_true(height_of(play) < lying + 0.5);
  play_free(play);
  model_free(&model);
}

// every body of every robot, pulled and pushed as far as messages may say, from everywhere
static void test_hands_are_bounded(void **state) {
  (void)state;
  for (int d = 0; domain_at(d); d++) {
    Model model = model_new(domain_at(d)->name, NULL);
    const mjModel *m = model.world->model;
    Play *play = play_of(&model, 1, 0, NULL);
    for (int b = -1; b <= m->nbody; b++) {
      const Drag drag = {.body = b, .at = {1e4, -1e4, 1e4}, .to = {-1e4, 1e4, 1e4}};
      const Push push = {.body = b, .at = {0.01, 0, 0}, .impulse = {1e4, 1e4, 1e4}};
      if (!touch_moves(m, b) && b > 0) assert_int_equal(m->body_weldid[b], 0);
      play_drag(play, 0, &drag);
      advance(play, 0.1);
      play_push(play, 0, &push);
      play_drag(play, 0, &(Drag){.body = 0});
      advance(play, 0.1);
      for (int i = 0; i < m->nq; i++) assert_true(isfinite(play_qpos(play, 0)[i]));
    }
    play_free(play);
    model_free(&model);
  }
}

static void test_a_push_moves_the_robot_once(void **state) {
  (void)state;
  Model model = model_new("point_mass", NULL);
  Play *pushed = play_of(&model, 1, 0, NULL), *alone = play_of(&model, 1, 0, NULL);
  const Push push = {.body = 1, .impulse = {0.1, 0, 0}};
  play_push(pushed, 0, &push);
  advance(pushed, 0.1);
  advance(alone, 0.1);
  double moved = play_qpos(pushed, 0)[0] - play_qpos(alone, 0)[0];
  assert_true(moved > 0.01 && moved < 0.1);
  play_free(pushed);
  play_free(alone);
  model_free(&model);
}

// ---------------------------------- time and frames ----------------------------------------------

static float f32_at(const unsigned char *bytes) {
  float value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

// between two substeps, poses are interpolated
static void test_frames_are_smooth(void **state) {
  (void)state;
  Model model = model_new("point_mass", NULL);  // with substeps of 20 ms
  Play *play = play_of(&model, 1, 0, NULL);
  const Push push = {.body = 1, .impulse = {0.02, 0, 0}};
  unsigned char *frame = malloc(play_frame_bytes(play));
  double last = -1;
  play_push(play, 0, &push);
  for (int i = 0; i < 40; i++) {
    advance(play, 0.005);
    size_t size = play_frame(play, frame);
    assert_int_equal(size, 16 + 8 + 2 * 28 + 2 * 4);
    double time, x = f32_at(frame + 24 + 28);
    memcpy(&time, frame + 8, sizeof time);
    assert_true(fabs(time - 0.005 * (i + 1)) < 1e-9);
    assert_true(x - last < 0.003 || last == -1);
    assert_true(x > last);
    last = x;
  }
  free(frame);
  play_free(play);
  model_free(&model);
}

static void test_single_steps(void **state) {
  (void)state;
  Model model = model_new("walker", NULL);
  Play *play = play_of(&model, 1, 0, "run");
  advance(play, 0.03);  // a step of 25 ms and a part of the next
  play_step(play);
  assert_true(fabs(play_time(play) - 0.05) < 1e-9);
  play_step(play);
  assert_true(fabs(play_time(play) - 0.075) < 1e-9);
  assert_true(fabs(play_stepped(play) - 0.075) < 1e-9);
  // time that cannot be simulated is dropped
  play_advance(play, 1e6, 0.01);
  double stopped = play_time(play);
  assert_true(stopped < 1e3);
  advance(play, 0.025);
  assert_true(play_time(play) < stopped + 0.03);
  play_free(play);
  model_free(&model);
}

static void test_the_past_is_bounded(void **state) {
  (void)state;
  Model model = model_new("point_mass", NULL);
  Play *play = play_of(&model, 1, 0, NULL);
  Rows rows;
  assert_int_equal(past_copy(play_past(play, 0), 1, &rows), BFM_BAD_ARGUMENT);
  advance(play, 45);
  good(past_copy(play_past(play, 0), 1, &rows));
  assert_int_equal(rows.count, 50);
  assert_memory_equal(rows.next_qpos + 49 * 2, play_qpos(play, 0), 2 * sizeof(double));
  for (int i = 0; i < 49; i++) {
    assert_memory_equal(rows.next_qpos + i * 2, rows.qpos + (i + 1) * 2, 2 * sizeof(double));
  }
  rows_free(&rows);
  good(past_copy(play_past(play, 0), 1000, &rows));
  assert_in_range(rows.count, 1500, 1501);
  rows_free(&rows);
  play_free(play);
  model_free(&model);
}

// ---------------------------------- scenes -------------------------------------------------------

static void test_scenes(void **state) {
  (void)state;
  static const struct {
    const char *domain;
    int geoms, meshes, textures, track;
  } rows[] = {{"walker", 8, 0, 1, 1},
              {"jaco", 21, 9, 1, -1},
              {"kitchen", 118, 25, 1, -1},
              {"point_mass", 7, 0, 1, -1},
              {"quadruped", 20, 0, 1, 1}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    const Domain *domain;
    const World *world;
    Poses poses;
    good(domain_find(&domain, rows[i].domain));
    good(world_acquire(&world, domain));
    good(poses_new(&poses, world));
    poses_set(&poses, world->model->qpos0);
    cJSON *scene = cJSON_CreateObject();
    scene_describe(scene, &poses);
    scene_words(scene, world);
    const cJSON *geom, *geoms = cJSON_GetObjectItem(scene, "geoms");
    assert_int_equal(cJSON_GetArraySize(geoms), rows[i].geoms);
    int mesh[256] = {0}, texture[64] = {0}, meshes = 0, textures = 0;
    cJSON_ArrayForEach(geom, geoms) {
      int m = (int)number_of(geom, "mesh"), t = (int)number_of(geom, "texture");
      if (m >= 0) meshes += !mesh[m]++;
      if (t >= 0) textures += !texture[t]++;
    }
    assert_int_equal(meshes, rows[i].meshes);
    assert_int_equal(textures, rows[i].textures);
    assert_int_equal((int)number_of(cJSON_GetObjectItem(scene, "camera"), "track"), rows[i].track);
    assert_true(cJSON_GetArraySize(cJSON_GetObjectItem(scene, "names")) > 100);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(scene, "bodies")), world->model->nbody);
    cJSON_Delete(scene);
    poses_free(&poses);
    world_release(world);
  }
}

// every example can be prompted
static void test_examples(void **state) {
  (void)state;
  for (int i = 0; domain_at(i); i++) {
    Model model = model_new(domain_at(i)->name, NULL);
    cJSON *scene = cJSON_CreateObject();
    const cJSON *example;
    scene_words(scene, model.world);
    assert_true(cJSON_GetArraySize(cJSON_GetObjectItem(scene, "examples")) > 1);
    cJSON_ArrayForEach(example, cJSON_GetObjectItem(scene, "examples")) {
      const char *text = cJSON_GetObjectItem(example, "text")->valuestring;
      int goal = !strcmp(cJSON_GetObjectItem(example, "kind")->valuestring, "goal");
      cJSON *answer = check(&model, goal ? PROMPT_GOAL : PROMPT_REWARD, text);
      const cJSON *error = cJSON_GetObjectItem(answer, "error");
      // in a random walk, a rare reward may be the same everywhere
      if (error && !strstr(error->valuestring, "tells the agent nothing")) {
        fail_msg("%s: %s", text, error->valuestring);
      }
      cJSON_Delete(answer);
    }
    cJSON_Delete(scene);
    model_free(&model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_robots_move_as_in_environments),
      cmocka_unit_test(test_the_seed_decides_the_start),
      cmocka_unit_test(test_z_is_that_of_the_library),
      cmocka_unit_test(test_bad_prompts_are_refused),
      cmocka_unit_test(test_checks_show_the_place_of_an_error),
      cmocka_unit_test(test_prompts_stop_at_their_deadline),
      cmocka_unit_test(test_equal_prompts_give_equal_robots),
      cmocka_unit_test(test_z_moves_along_a_ramp),
      cmocka_unit_test(test_a_new_model_takes_over_at_a_step),
      cmocka_unit_test(test_without_a_prompt_robots_rest),
      cmocka_unit_test(test_values_are_f_times_z),
      cmocka_unit_test(test_similarity_is_b_times_z),
      cmocka_unit_test(test_falls_begin_anew),
      cmocka_unit_test(test_a_drag_lifts_the_torso),
      cmocka_unit_test(test_hands_are_bounded),
      cmocka_unit_test(test_a_push_moves_the_robot_once),
      cmocka_unit_test(test_frames_are_smooth),
      cmocka_unit_test(test_single_steps),
      cmocka_unit_test(test_the_past_is_bounded),
      cmocka_unit_test(test_scenes),
      cmocka_unit_test(test_examples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
