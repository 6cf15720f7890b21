// Explorers: batches from the replay buffer, results that depend on neither the number of threads nor
// a stop, files, and learning: on a plane, td3 reaches the corner that its task rewards, and rnd
// prefers rarely visited states.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "explore/explorer.h"

static void good(int status) {
  if (status) fail_msg("%s", bfm_error());
}

// ------------------------------- a plane ---------------------------------------------------------

// Points move by a tenth of their action within ±1. An episode has LENGTH steps and begins at 0. The
// reward of a task grows as its own corner gets nearer.
enum { OBS = 2, ACT = 2, E = 8, LENGTH = 25, ROW = 2 * OBS + ACT + 3 };

static float reward_of(int task, const float *at) {
  const float goal = task ? -0.7f : 0.7f;
  return 1 - 0.5f * hypotf(at[0] - goal, at[1] - 0.7f);
}

typedef struct {
  int T, time;
  float at[2 * E * OBS], act[2 * E * ACT], rows[2 * E * ROW];
  double reward[2];  // mean over environments in the last step, for each task
} Plane;

static void plane_move(Plane *p) {
  int ends = ++p->time % LENGTH == 0;
  p->reward[0] = p->reward[1] = 0;
  for (int i = 0; i < p->T * E; i++) {
    float *at = p->at + i * OBS, *row = p->rows + i * ROW;
    memcpy(row, at, OBS * sizeof *at);
    memcpy(row + OBS, p->act + i * ACT, ACT * sizeof *at);
    for (int k = 0; k < OBS; k++) at[k] = fmaxf(-1, fminf(1, at[k] + 0.1f * p->act[i * ACT + k]));
    float *tail = row + OBS + ACT;
    tail[0] = reward_of(i / E, at);
    tail[1] = 1;
    memcpy(tail + 2, at, OBS * sizeof *at);
    tail[2 + OBS] = ends;
    p->reward[i / E] += tail[0] / E;
    if (ends) memset(at, 0, OBS * sizeof *at);
  }
}

static bfm_explorer *make(int tasks, const char *options) {
  bfm_explorer *e;
  good(bfm_explorer_new(&e, OBS, ACT, tasks, E, options));
  assert_int_equal(bfm_explorer_row_size(e), ROW);
  return e;
}

#define SMALL "\"device\": \"cpu\", \"hidden\": 32, \"batch\": 64, \"random-steps\": 200"

// acts, learns and moves the points
static void explore(bfm_explorer *e, Plane *p, int steps, int updates) {
  for (int i = 0; i < steps; i++) {
    good(bfm_explorer_act(e, p->at, 1, (uint64_t)p->time, p->act));
    plane_move(p);
    good(bfm_explorer_add(e, p->rows));
    if (updates && p->time > 25) good(bfm_explorer_update(e, updates));
  }
}

static void td3_reaches_the_corner_that_its_task_rewards(void **state) {
  (void)state;
  bfm_explorer *e = make(2, "{" SMALL ", \"lr\": 1e-3, \"gamma\": 0.9, \"tau\": 0.05}");
  Plane p = {.T = 2};
  explore(e, &p, 400, 8);
  float losses[2 * 3];
  good(bfm_explorer_losses(e, losses));

  // an episode without noise ends near the corners; its first reward is 0.5
  memset(&p, 0, sizeof p);
  p.T = 2;
  while (p.time < LENGTH) {
    good(bfm_explorer_act(e, p.at, 0, 0, p.act));
    plane_move(&p);
  }
  for (int t = 0; t < 2; t++) {
    if (p.reward[t] < 0.75) fail_msg("task %d ends with a reward of %.2f", t, p.reward[t]);
    double q = losses[t * 3 + 2];  // the discounted sum of rewards of 0.6 to 1
    if (q < 5 || q > 10.5) fail_msg("the mean Q of task %d is %.2f", t, q);
  }
  bfm_explorer_free(e);
}

// one state in 32 is on the right of the plane for task 0, on the left for task 1
static void rnd_prefers_rarely_visited_states(void **state) {
  (void)state;
  bfm_explorer *e = make(2, "{" SMALL
                            ", \"algo\": \"rnd\", \"lr\": 1e-3, \"rnd-dim\": 32, "
                            "\"gamma\": 0.9, \"tau\": 0.05}");
  Plane p = {.T = 2};
  for (int i = 0; i < 400; i++) {
    bfm_random_uniform(1, STREAM_USER, i, 2 * E * OBS, p.at);
    bfm_random_uniform(2, STREAM_USER, i, 2 * E * ACT, p.act);
    for (int k = 0; k < 2 * E * OBS; k++) p.at[k] = 2 * p.at[k] - 1;
    for (int k = 0; k < 2 * E * ACT; k++) p.act[k] = 2 * p.act[k] - 1;
    for (int k = 0; k < 2 * E; k++) {
      int seldom = (i * E + k) % 32 == 0;
      p.at[k * OBS] = fabsf(p.at[k * OBS]) * (seldom == (k < E) ? 1 : -1);
    }
    plane_move(&p);
    for (int k = 0; k < 2 * E; k++)
      p.rows[k * ROW + ROW - 1] = 1;  // every row is an episode of its own
    good(bfm_explorer_add(e, p.rows));
  }
  good(bfm_explorer_update(e, 800));
  double right[2] = {0};
  for (int i = 0; i < 20; i++) {
    bfm_random_uniform(3, STREAM_USER, i, 2 * E * OBS, p.at);
    for (int k = 0; k < 2 * E * OBS; k++) p.at[k] -= 0.5f;
    good(bfm_explorer_act(e, p.at, 0, 0, p.act));
    for (int k = 0; k < 2 * E; k++) right[k / E] += p.act[k * ACT] / (20 * E);
  }
  if (right[0] < 0.15 || right[1] > -0.15) {
    fail_msg("mean steps to the right are %.2f and %.2f", right[0], right[1]);
  }
  bfm_explorer_free(e);
}

// ------------------------------- the replay buffer -----------------------------------------------

enum { SLOTS = 23, CAPACITY = 9, BATCH = 301, TASKS = 3, ENVS = 5, WIDE = 3, NARROW = 2 };
enum { ROW_OF_TEST = 2 * WIDE + NARROW + 3 };

// the values of a slot: an environment's episodes end at every 4th slot, every other one terminates
static float cell(int slot, int task, int env, int column) {
  int ends = (slot + env) % 4 == 3, terminates = ends && (slot + task) % 2;
  if (column == WIDE + NARROW + 1) return !terminates;
  if (column == ROW_OF_TEST - 1) return ends;
  return (float)(slot * 10000 + task * 1000 + env * 100 + column) * 1e-3f;
}

static void replay_matches(int slots, int nstep) {
  static float ring[CAPACITY][TASKS][ENVS][ROW_OF_TEST];
  static float obs[TASKS][BATCH][WIDE], act[TASKS][BATCH][NARROW], next_obs[TASKS][BATCH][WIDE];
  static float reward[TASKS][BATCH], discount[TASKS][BATCH];
  const uint64_t seeds[TASKS] = {5, 6, 7};
  const int64_t count = slots, step = 11;
  int oldest = slots > CAPACITY ? slots - CAPACITY : 0;
  for (int s = 0; s < slots; s++) {
    for (int t = 0; t < TASKS; t++) {
      for (int i = 0; i < ENVS; i++) {
        for (int j = 0; j < ROW_OF_TEST; j++) ring[s % CAPACITY][t][i][j] = cell(s, t, i, j);
      }
    }
  }
  Ops *ops;
  good(ops_open_cpu(&ops, F32, 2));
  ops->replay_sample(ops, &(ReplaySample){.obs = obs[0][0], .act = act[0][0], .reward = reward[0],
                                          .discount = discount[0], .next_obs = next_obs[0][0],
                                          .ring = ring[0][0][0], .slots = &count, .seeds = seeds,
                                          .step = &step, .stream = STREAM_BATCH, .replicas = TASKS,
                                          .rows = BATCH, .envs = ENVS, .capacity = CAPACITY,
                                          .obs_dim = WIDE, .act_dim = NARROW, .nstep = nstep,
                                          .gamma = 0.5f});
  for (int t = 0; t < TASKS; t++) {
    for (int i = 0; i < BATCH; i++) {
      uint64_t draw = random_below(seeds[t], STREAM_BATCH, (uint64_t)step, i,
                                   (uint64_t)(slots - oldest) * ENVS);
      int first = oldest + (int)draw / ENVS, env = (int)draw % ENVS, s = first;
      double sum = 0, factor = 1;
      for (;; s++) {
        sum += factor * cell(s, t, env, WIDE + NARROW);
        factor *= 0.5 * cell(s, t, env, WIDE + NARROW + 1);
        int ends = cell(s, t, env, ROW_OF_TEST - 1) != 0;
        if (ends || s + 1 == slots || s + 1 == first + nstep) break;
      }
      for (int j = 0; j < WIDE; j++) {
        assert_true(obs[t][i][j] == cell(first, t, env, j));
        assert_true(next_obs[t][i][j] == cell(s, t, env, WIDE + NARROW + 2 + j));
      }
      for (int j = 0; j < NARROW; j++) assert_true(act[t][i][j] == cell(first, t, env, WIDE + j));
      assert_true(fabs(reward[t][i] - sum) < 1e-4 && fabs(discount[t][i] - factor) < 1e-7);
    }
  }
  ops->close(ops);
}

static void batches_are_n_step_returns_of_the_ring(void **state) {
  (void)state;
  for (int nstep = 1; nstep <= 5; nstep += 2) {
    replay_matches(1, nstep);
    replay_matches(6, nstep);
    replay_matches(CAPACITY, nstep);
    replay_matches(SLOTS, nstep);
  }
}

// ------------------------------- bit-identical results -------------------------------------------

// all parameters, and an action, of two explorers must be equal
static void assert_same(bfm_explorer *a, bfm_explorer *b) {
  Plane p = {.T = 2};
  float act[2 * E * ACT];
  for (int i = 0; i < 2 * E * OBS; i++) p.at[i] = 0.05f * i;
  good(bfm_explorer_act(a, p.at, 1, 1000, act));
  good(bfm_explorer_act(b, p.at, 1, 1000, p.act));
  assert_memory_equal(act, p.act, sizeof act);
  for (int i = 0; i < bfm_explorer_tensor_count(a); i++) {
    const char *name;
    int dims;
    int64_t shape[4], count = 1;
    good(bfm_explorer_tensor_info(a, i, &name, &dims, shape));
    for (int k = 0; k < dims; k++) count *= shape[k];
    float *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
    assert_true(x && y);
    for (int t = 0; t < 2; t++) {
      good(bfm_explorer_get_tensor(a, t, name, x, count));
      good(bfm_explorer_get_tensor(b, t, name, y, count));
      if (memcmp(x, y, count * sizeof *x)) fail_msg("%s of task %d differs", name, t);
    }
    free(x);
    free(y);
  }
}

static const char *const kinds[] = {"{" SMALL ", \"replay\": 400, \"threads\": %d}",
                                    "{" SMALL
                                    ", \"replay\": 400, \"algo\": \"rnd\", \"threads\": %d}"};

static bfm_explorer *make_kind(int kind, int threads) {
  char options[256];
  snprintf(options, sizeof options, kinds[kind], threads);
  return make(2, options);
}

static void results_do_not_depend_on_the_number_of_threads(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    bfm_explorer *e[2];
    for (int i = 0; i < 2; i++) {
      Plane p = {.T = 2};
      e[i] = make_kind(kind, i ? 3 : 1);
      explore(e[i], &p, 60, 3);
    }
    assert_same(e[0], e[1]);
    for (int i = 0; i < 2; i++) bfm_explorer_free(e[i]);
  }
}

// One call with several updates computes the targets of the next batch during an update; calls with
// a single update cannot.
static void one_call_equals_single_updates(void **state) {
  (void)state;
  static const char *const delays[] = {"{" SMALL "}", "{" SMALL ", \"delay\": 1}",
                                       "{" SMALL ", \"delay\": 5}",
                                       "{" SMALL ", \"algo\": \"rnd\", \"obs-norm\": \"on\"}"};
  for (int k = 0; k < 4; k++) {
    bfm_explorer *e[2];
    for (int i = 0; i < 2; i++) {
      Plane p = {.T = 2};
      e[i] = make(2, delays[k]);
      explore(e[i], &p, 30, 0);
      for (int at = 0; at < 20; at += i ? 20 : 1) good(bfm_explorer_update(e[i], i ? 20 : 1));
    }
    assert_same(e[0], e[1]);
    for (int i = 0; i < 2; i++) bfm_explorer_free(e[i]);
  }
}

static void a_resumed_explorer_is_bit_identical(void **state) {
  (void)state;
  char path[] = "/tmp/bfm-explorer-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  for (int kind = 0; kind < 2; kind++) {
    bfm_explorer *whole = make_kind(kind, 1), *again;
    static float kept[100][2 * E * ROW];
    Plane p = {.T = 2};
    for (int i = 0; i < 80; i++) {
      explore(whole, &p, 1, 3);
      memcpy(kept[i], p.rows, sizeof p.rows);
    }
    good(bfm_explorer_save_state(whole, path));
    good(bfm_explorer_load(&again, path, 0, "{\"device\": \"cpu\", \"threads\": 1}"));
    assert_int_equal(bfm_explorer_step(again), bfm_explorer_step(whole));
    // the ring holds 400 transitions of each task: 50 slots
    for (int i = 30; i < 80; i++) good(bfm_explorer_add(again, kept[i]));
    Plane q = p;
    explore(whole, &p, 20, 3);
    explore(again, &q, 20, 3);
    assert_same(whole, again);
    bfm_explorer_free(again);

    // a policy file
    good(bfm_explorer_save_model(whole, 1, "plane", "corner", path));
    good(bfm_explorer_load(&again, path, 2 * E, "{\"device\": \"cpu\"}"));
    float act[2 * E * ACT];
    memcpy(p.at, p.at + E * OBS, E * OBS * sizeof *p.at);
    good(bfm_explorer_act(whole, p.at, 0, 0, p.act));
    good(bfm_explorer_act(again, p.at, 0, 0, act));
    assert_memory_equal(act, p.act + E * ACT, E * ACT * sizeof *act);
    assert_int_equal(bfm_explorer_add(again, p.rows), BFM_BAD_ARGUMENT);
    assert_non_null(strstr(bfm_error(), "can act but not learn"));
    assert_int_equal(bfm_explorer_save_state(again, path), BFM_BAD_ARGUMENT);
    bfm_explorer_free(again);
    bfm_explorer_free(whole);
  }
  unlink(path);
}

// ------------------------------- errors ----------------------------------------------------------

static void bad_arguments_are_refused(void **state) {
  (void)state;
  bfm_explorer *e;
  assert_int_equal(bfm_explorer_new(&e, 0, ACT, 1, 1, NULL), BFM_BAD_ARGUMENT);
  assert_null(e);
  assert_int_equal(bfm_explorer_new(&e, OBS, ACT, 65, 1, NULL), BFM_BAD_ARGUMENT);
  assert_int_equal(bfm_explorer_new(&e, OBS, ACT, 1, 1, "{\"nstep\": 0}"), BFM_BAD_ARGUMENT);
  assert_int_equal(bfm_explorer_new(&e, OBS, ACT, 1, 1, "{\"replay\": 3e9, \"device\": \"cpu\"}"),
                   BFM_BAD_ARGUMENT);
  assert_int_equal(bfm_explorer_load(&e, "no-such-file", 0, NULL), BFM_IO);

  e = make(1, "{" SMALL "}");
  assert_int_equal(bfm_explorer_update(e, 1), BFM_BAD_ARGUMENT);
  assert_int_equal(bfm_explorer_learn(e, &(bfm_explorer_batch){0}), BFM_BAD_ARGUMENT);
  assert_int_equal(bfm_explorer_save_model(e, 1, NULL, NULL, "nowhere"), BFM_BAD_ARGUMENT);
  Plane p = {.T = 1};
  plane_move(&p);
  p.rows[3] = NAN;
  assert_int_equal(bfm_explorer_add(e, p.rows), BFM_BAD_ARGUMENT);
  p.rows[3] = 1e38f;  // finite, but too large for the critics
  p.rows[OBS + ACT] = 1e38f;
  good(bfm_explorer_add(e, p.rows));
  good(bfm_explorer_update(e, 20));
  float losses[3];
  assert_int_equal(bfm_explorer_losses(e, losses), BFM_DIVERGED);
  bfm_explorer_free(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_are_n_step_returns_of_the_ring),
      cmocka_unit_test(results_do_not_depend_on_the_number_of_threads),
      cmocka_unit_test(one_call_equals_single_updates),
      cmocka_unit_test(a_resumed_explorer_is_bit_identical),
      cmocka_unit_test(bad_arguments_are_refused),
      cmocka_unit_test(td3_reaches_the_corner_that_its_task_rewards),
      cmocka_unit_test(rnd_prefers_rarely_visited_states),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
