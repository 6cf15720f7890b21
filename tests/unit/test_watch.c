// Watching a run's folder: logs that grow, are cut, replaced, damaged or removed; curves of bounded
// size; how far a run is and whether it goes on; and its health by the numbers of real runs.

#define _GNU_SOURCE  // nftw

#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/folder.h"
#include "data/safetensors.h"
#include "serve/curve.h"
#include "serve/health.h"
#include "serve/watch.h"

static char folder[64];
static Watch *watch;
static cJSON *message;

static const char *at(const char *name) {
  static char paths[8][160];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void write_as(const char *mode, const char *name, const char *text) {
  FILE *file = fopen(at(name), mode);
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void append(const char *name, const char *text) { write_as("a", name, text); }
static void rewrite(const char *name, const char *text) { write_as("w", name, text); }

#define RECORD "{\"data\": [\"x.h5\"], \"checksum\": 1, \"settings\": {\"steps\": 1000}}"

// looks until all is read; returns whether anything changed, and takes the message
static int look(void) {
  int more = 1, changed = 0;
  while (more) changed |= watch_look(watch, &more);
  cJSON_Delete(message);
  cJSON *parts = watch_message(watch);
  char *text = cJSON_PrintUnformatted(parts);
  message = cJSON_Parse(text);  // as a client reads it
  assert_non_null(message);
  free(text);
  cJSON_Delete(parts);
  return changed;
}

static double number(const cJSON *item, const char *name) {
  return cJSON_GetNumberValue(cJSON_GetObjectItem(item, name));
}

static const char *text(const cJSON *item, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItem(item, name));
}

// the points of the curve whose `key` is `name`
static const cJSON *curve(const char *list, const char *key, const char *name) {
  const cJSON *item;
  cJSON_ArrayForEach(item, cJSON_GetObjectItem(message, list)) {
    if (!strcmp(text(item, key), name)) return cJSON_GetObjectItem(item, "points");
  }
  return NULL;
}

static int size_of(const char *list, const char *key, const char *name) {
  return cJSON_GetArraySize(curve(list, key, name));
}

static double value(const cJSON *points, int i, int column) {
  if (i < 0) i += cJSON_GetArraySize(points);
  return cJSON_GetNumberValue(cJSON_GetArrayItem(cJSON_GetArrayItem(points, i), column));
}

// ------------------------------- logs ------------------------------------------------------------

static void test_a_log_that_grows(void **state) {
  (void)state;
  look();
  assert_int_equal(number(message, "step"), 0);
  assert_int_equal(number(message, "steps"), 1000);
  append("log.jsonl", "{\"step\":100,\"seconds\":2,\"rate\":50,\"fb\":-1.5,\"F\":3}\n");
  assert_true(look());
  assert_int_equal(number(message, "step"), 100);
  assert_float_equal(number(message, "rate"), 50, 0);
  assert_float_equal(number(message, "seconds"), 2, 0);
  assert_int_equal(size_of("losses", "name", "fb"), 1);
  assert_null(curve("losses", "name", "F"));
  assert_float_equal(value(curve("metrics", "name", "F"), 0, 1), 3, 0);

  append("log.jsonl", "{\"step\":200,\"seconds\":4,\"ra");
  assert_false(look());  // half a line says nothing yet
  assert_int_equal(number(message, "step"), 100);
  append("log.jsonl", "te\":50,\"fb\":-2,\"F\":4}\n{\"step\":300,");
  assert_true(look());
  assert_int_equal(number(message, "step"), 200);
  assert_float_equal(value(curve("losses", "name", "fb"), -1, 1), -2, 0);
  assert_false(look());
}

static void test_a_log_that_is_cut(void **state) {
  (void)state;
  append("log.jsonl",
         "{\"step\":100,\"fb\":1}\n{\"step\":200,\"fb\":2}\n{\"step\":300,\"fb\":3}\n");
  look();
  assert_int_equal(number(message, "step"), 300);
  assert_int_equal(truncate(at("log.jsonl"), 21), 0);  // after the first line
  assert_true(look());
  assert_int_equal(number(message, "step"), 100);
  assert_int_equal(size_of("losses", "name", "fb"), 1);

  // cut and grown again beyond where reading stopped
  rewrite("log.jsonl",
          "{\"step\":100,\"fb\":1}\n{\"step\":200,\"fb\":7}\n{\"step\":250,\"fb\":8}\n");
  look();
  assert_int_equal(size_of("losses", "name", "fb"), 3);
  assert_float_equal(value(curve("losses", "name", "fb"), 1, 1), 7, 0);

  // replaced by another file, of the same length
  rewrite("new.jsonl",
          "{\"step\":900,\"fb\":1}\n{\"step\":910,\"fb\":7}\n{\"step\":920,\"fb\":8}\n");
  assert_int_equal(rename(at("new.jsonl"), at("log.jsonl")), 0);
  look();
  assert_int_equal(number(message, "step"), 920);
  assert_int_equal(size_of("losses", "name", "fb"), 3);

  unlink(at("log.jsonl"));
  look();
  assert_int_equal(number(message, "step"), 920);  // the last that is known
  append("log.jsonl", "{\"step\":5,\"fb\":1}\n");
  look();
  assert_int_equal(number(message, "step"), 5);
  assert_int_equal(size_of("losses", "name", "fb"), 1);
}

static void test_a_damaged_log(void **state) {
  (void)state;
  append("log.jsonl", "no JSON\n\n[]\n7\n{\"step\":-1,\"fb\":1}\n{\"step\":1e300,\"fb\":1}\n");
  append("log.jsonl", "{\"step\":\"x\"}\n{\"step\":10,\"fb\":\"nan\",\"actor\":1e999,\"F\":{}}\n");
  look();
  assert_int_equal(number(message, "step"), 10);
  assert_null(curve("losses", "name", "fb"));
  assert_string_equal(text(cJSON_GetObjectItem(message, "health"), "word"), "diverged");

  append("log.jsonl", "{\"step\":20,\"fb\":[1,\"nan\",3],\"\xff\xc3\xa9\xed\xa0\x80\":2}\n");
  append("eval.jsonl", "{\"step\":20,\"seed\":0,\"task\":\"\xe2\x82\",\"es\":0,\"mean\":5}\n");
  look();
  assert_float_equal(value(curve("losses", "name", "fb"), 0, 1), 2, 0);
  assert_int_equal(size_of("losses", "name", "?\xc3\xa9???"), 1);  // whatever is no UTF-8
  assert_int_equal(size_of("returns", "task", "??"), 1);

  // a line of a megabyte is left out, and the next is read
  FILE *file = fopen(at("log.jsonl"), "a");
  fputs("{\"step\":30,\"fb\":\"", file);
  for (int i = 0; i < 1 << 20; i++) fputc('x', file);
  fputs("\"}\n{\"step\":40,\"fb\":4}\n", file);
  fclose(file);
  look();
  assert_int_equal(number(message, "step"), 40);
  assert_int_equal(size_of("losses", "name", "fb"), 2);
}

static void test_many_names(void **state) {
  (void)state;
  FILE *log = fopen(at("log.jsonl"), "w"), *evals = fopen(at("eval.jsonl"), "w");
  for (int i = 0; i < 1000; i++) {
    fprintf(log, "{\"step\":%d,\"a%d\":1}\n", i, i);
    fprintf(evals, "{\"step\":9,\"seed\":0,\"task\":\"t%d\",\"es\":0,\"mean\":5}\n", i);
  }
  fclose(log);
  fclose(evals);
  look();
  assert_in_range(cJSON_GetArraySize(cJSON_GetObjectItem(message, "losses")), 8, 32);
  assert_in_range(cJSON_GetArraySize(cJSON_GetObjectItem(message, "returns")), 64, 256);
}

static void test_returns(void **state) {
  (void)state;
  append(
      "eval.jsonl",
      "{\"step\":100,\"seed\":0,\"task\":\"run\",\"es\":0,\"mean\":10,\"std\":1,\"episodes\":2}\n"
      "{\"step\":100,\"seed\":0,\"task\":\"run\",\"es\":32,\"mean\":20,\"std\":1,\"episodes\":2}\n"
      "{\"step\":100,\"seed\":1,\"task\":\"run\",\"es\":0,\"mean\":14,\"std\":1,\"episodes\":2}\n");
  assert_true(look());
  append(
      "eval.jsonl",
      "{\"step\":100,\"seed\":1,\"task\":\"run\",\"es\":32,\"mean\":30,\"std\":1,\"episodes\":2}\n"
      "{\"step\":200,\"seed\":0,\"task\":\"run\",\"es\":0,\"mean\":50,\"std\":1,\"episodes\":2}\n");
  look();
  const cJSON *returns = cJSON_GetObjectItem(message, "returns");
  assert_int_equal(cJSON_GetArraySize(returns), 2);
  assert_int_equal(number(returns->child, "es"), 0);
  const cJSON *points = cJSON_GetObjectItem(returns->child, "points");
  assert_int_equal(cJSON_GetArraySize(points), 2);
  assert_float_equal(value(points, 0, 0), 100, 0);
  assert_float_equal(value(points, 0, 1), 12, 0);
  assert_float_equal(value(points, 0, 2), sqrt(8), 1e-3);
  assert_float_equal(value(points, 1, 1), 50, 0);
  const cJSON *with_es = returns->child->next;
  assert_int_equal(number(with_es, "es"), 32);
  assert_float_equal(value(cJSON_GetObjectItem(with_es, "points"), 0, 1), 25, 0);
}

static void test_a_long_log(void **state) {
  (void)state;
  enum { LINES = 100000 };
  FILE *log = fopen(at("log.jsonl"), "w"), *evals = fopen(at("eval.jsonl"), "w");
  for (int i = 1; i <= LINES; i++) {
    fprintf(log,
            "{\"step\":%d,\"seconds\":%d,\"rate\":1000,\"fb\":%d,\"actor\":0.5,\"ortho\":-32}\n", i,
            i, i);
    fprintf(evals, "{\"step\":%d,\"seed\":0,\"task\":\"run\",\"es\":0,\"mean\":%d}\n", i, i);
  }
  fclose(log);
  fclose(evals);
  look();
  assert_int_equal(number(message, "step"), LINES);
  static const char *const names[][3] = {{"losses", "name", "fb"}, {"returns", "task", "run"}};
  for (int i = 0; i < 2; i++) {
    const cJSON *points = curve(names[i][0], names[i][1], names[i][2]);
    assert_in_range(cJSON_GetArraySize(points), 200, 400);
    assert_true(value(points, 0, 0) < 1000 && value(points, -1, 0) > LINES - 1000);
    for (int k = 0; k < cJSON_GetArraySize(points); k++) {
      assert_float_equal(value(points, k, 0), value(points, k, 1), 0.5);
      assert_true(!k || value(points, k, 0) > value(points, k - 1, 0));
    }
  }
}

static void test_curve(void **state) {
  (void)state;
  static Curve c;
  double sum = 0;
  for (int i = 0; i < 12345; i++) curve_add(&c, (CurvePoint){i, i % 7, 2});
  for (int i = 0; i < c.count; i++) {
    sum += c.points[i].mean * (i + 1 < c.count ? c.stride : c.last);
    assert_float_equal(c.points[i].std, 2, 1e-12);
  }
  assert_in_range(c.count, CURVE_POINTS / 2, CURVE_POINTS);
  assert_int_equal((c.count - 1) * c.stride + c.last, 12345);
  double expected = 0;
  for (int i = 0; i < 12345; i++) expected += i % 7;
  assert_float_equal(sum, expected, 1e-6);
}

// ------------------------------- how far it is ---------------------------------------------------

static void write_state(const char *step) {
  const float zero = 0;
  const Tensor tensor = {.name = "x", .type = TENSOR_F32, .dims = 1, .shape = {1}, .data = &zero};
  const char *const metadata[] =
      {"bfm",  "state", "env",    "walker",
       "step", step,    "config", "{\"algo\":\"fb-aw\",\"d\":64,\"gamma\":0.98,\"ortho\":100}",
       NULL};
  assert_int_equal(safetensors_write(at("state.safetensors"), &tensor, 1, metadata), BFM_OK);
}

static void expect(const char *expected, const char *note) {
  look();
  assert_string_equal(text(message, "state"), expected);
  if (!strstr(text(message, "note"), note)) fail_msg("the note is \"%s\"", text(message, "note"));
}

static void test_states(void **state) {
  (void)state;
  Folder lock;
  assert_int_equal(folder_name(&lock, folder), BFM_OK);
  assert_int_equal(folder_lock(&lock), BFM_OK);
  expect("starting", "reading its data");
  append("log.jsonl", "{\"step\":400,\"seconds\":8,\"rate\":50,\"fb\":1}\n");
  expect("running", "");
  assert_true(number(message, "seconds_left") > 5 && number(message, "seconds_left") <= 12);
  folder_unlock(&lock);
  expect("interrupted", "with nothing saved");
  assert_true(cJSON_IsNull(cJSON_GetObjectItem(message, "seconds_left")));
  write_state("300");
  expect("interrupted", "the last save is of step 300");
  write_state("450");
  expect("stopped", "saved at step 450");
  assert_string_equal(text(message, "algo"), "fb-aw");
  assert_string_equal(text(message, "domain"), "walker");

  append("log.jsonl", "{\"step\":400,\"diverged\":\"F of replica 0 is too large\",\"lr\":1e-4}\n");
  expect("diverged", "F of replica 0");
  assert_string_equal(text(cJSON_GetObjectItem(message, "health"), "word"), "diverged");
  assert_int_equal(folder_lock(&lock), BFM_OK);
  append("log.jsonl", "{\"step\":500,\"seconds\":9,\"rate\":50,\"fb\":1}\n");
  expect("running", "diverged 1 time and was restarted");
  append("log.jsonl", "{\"step\":1000,\"seconds\":20,\"rate\":50,\"fb\":1}\n");
  expect("evaluating", "last step");
  rewrite("pending.0.safetensors", "");
  folder_unlock(&lock);
  expect("interrupted", "step");
  unlink(at("pending.0.safetensors"));
  expect("finished", "restarted");
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(message, "finished")));

  // a resume with more steps
  rewrite("run.json", "{\"settings\": {\"steps\": 2000}}");
  expect("interrupted", "");
  assert_int_equal(number(message, "steps"), 2000);
  rewrite("run.json", "{\"settings\": {\"steps\": \"many\"}}");
  look();
  rewrite("run.json", "damaged");
  look();
  unlink(at("run.json"));
  expect("gone", "folder is gone");
}

// Asking for the lock must not keep a run from starting.
static void test_asking_is_harmless(void **state) {
  (void)state;
  Folder lock;
  assert_int_equal(folder_is_locked(at("none")), -1);
  assert_int_equal(folder_is_locked(folder), 0);
  assert_int_equal(folder_name(&lock, folder), BFM_OK);
  for (int i = 0; i < 200; i++) {
    assert_int_equal(folder_lock(&lock), BFM_OK);
    assert_int_equal(folder_is_locked(folder), 1);
    folder_unlock(&lock);
    assert_int_equal(folder_is_locked(folder), 0);
  }
}

// ------------------------------- health ----------------------------------------------------------

static const AgentFacts known = {64, 0.98, 100};

static Health health(const char *text, const AgentFacts *agent) {
  cJSON *line = text ? cJSON_Parse(text) : NULL;
  assert_true(!text || line);
  Health h = health_of(line, agent, "");
  cJSON_Delete(line);
  return h;
}

static void test_health(void **state) {
  (void)state;
  static const AgentFacts unknown = {0};
  static const struct {
    const char *line;
    Word word;
    const char *says;
  } cases[] = {
      // a run of fb-aw with two seeds
      {"{\"step\":20000,\"fb\":[-3369,-3340],\"ortho\":[-32.2,-31.9],\"actor\":[20.9,20.4],"
       "\"F\":[264,263],\"B\":[8,8],\"M.max\":[2260,2261],\"ess\":[0.128,0.129],\"w.max\":[0.02,0."
       "01]}",
       HEALTHY, "F is at 66% of its bound"},
      // fb without layer norm after 291,000 steps
      {"{\"step\":291000,\"fb\":-1,\"ortho\":-32,\"F\":664,\"B\":8}", WATCH, "1.66 times"},
      // weights without a clip
      {"{\"step\":5000,\"fb\":-1,\"ortho\":-32,\"F\":200,\"B\":8,\"ess\":0.0039,\"w.max\":0.99}",
       WATCH, "99% of the weight"},
      {"{\"step\":5000,\"fb\":-1,\"ortho\":-32,\"F\":200,\"B\":8,\"ess\":0.012,\"w.max\":0.2}",
       WATCH, "1.2% of a batch"},
      {"{\"step\":51200,\"fb\":-1,\"ortho\":-32,\"F\":[90,980],\"B\":[8,8]}", DIVERGED,
       "F is at 2.45 times its bound"},
      {"{\"step\":400,\"fb\":-1,\"ortho\":1900,\"F\":90,\"B\":8}", DIVERGED, "only 1.04 of its 64"},
      {"{\"step\":100,\"fb\":-1,\"ortho\":1900,\"F\":90,\"B\":8}", WATCH, "only 1.04 of its 64"},
      {"{\"step\":400,\"fb\":[1,\"nan\"],\"F\":90,\"B\":8}", DIVERGED, "fb is not finite"},
      {"{\"step\":400,\"psi\":1,\"ortho\":-32,\"psi.norm\":428,\"phi\":8}", WATCH, "1.07 times"},
      {"{\"step\":400,\"critic\":1}", HEALTHY, "losses are finite"},
      {NULL, HEALTHY, "no lines yet"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Health h = health(cases[i].line, &known);
    if (h.word != cases[i].word || !strstr(h.text, cases[i].says)) {
      fail_msg("case %zu: word %d, \"%s\"", i, h.word, h.text);
    }
  }
  Health h = health(cases[0].line, &known);
  assert_float_equal(h.bound, 400, 1e-9);
  assert_float_equal(h.share, 0.66, 1e-9);
  assert_float_equal(h.m_max, 2261, 0);
  assert_float_equal(h.ess, 0.128, 0);
  assert_float_equal(h.directions, 64, 1);
  // before the first save, the sizes of the agent are not known
  assert_int_equal(health(cases[4].line, &unknown).word, HEALTHY);
  assert_int_equal(health(cases[7].line, &unknown).word, DIVERGED);
}

// ------------------------------- the folder ------------------------------------------------------

static int open_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/bfm-watch-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  rewrite("run.json", RECORD);
  return watch_new(&watch, folder, "run");
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
  (void)info, (void)type, (void)where;
  return remove(path);
}

static int close_folder(void **state) {
  (void)state;
  watch_free(watch);
  cJSON_Delete(message);
  message = NULL;
  return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, open_folder, close_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_FOLDER(test_a_log_that_grows),
      IN_FOLDER(test_a_log_that_is_cut),
      IN_FOLDER(test_a_damaged_log),
      IN_FOLDER(test_many_names),
      IN_FOLDER(test_returns),
      IN_FOLDER(test_a_long_log),
      cmocka_unit_test(test_curve),
      IN_FOLDER(test_states),
      IN_FOLDER(test_asking_is_harmless),
      cmocka_unit_test(test_health),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
