// Options: every type from text and JSON and back, and an error sentence for each kind of bad value.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/options.h"

typedef struct {
  int64_t batch, seed;
  double beta;
  int weights, norm;
  char goal[OPTION_TEXT_SIZE];
} Fields;

static const Option table[] = {
    {"batch", OPTION_INT, offsetof(Fields, batch), "1024", 2, 65536, NULL, "transitions a step"},
    {"seed", OPTION_INT, offsetof(Fields, seed), "0", 0, 0, NULL, "first seed"},
    {"z-beta", OPTION_REAL, offsetof(Fields, beta), "0.1", 0, INFINITY, NULL, "temperature"},
    {"weights", OPTION_CHOICE, offsetof(Fields, weights), "iwis", 0, 0, "iwis|wis", "weighting"},
    {"b-norm", OPTION_BOOL, offsetof(Fields, norm), "on", 0, 0, NULL, "scale B"},
    {"goal", OPTION_TEXT, offsetof(Fields, goal), "", 0, 0, NULL, "goal space"},
    {.name = NULL},
};

static Fields defaults(void) {
  Fields f;
  memset(&f, 0xff, sizeof f);
  assert_int_equal(options_default(table, &f), BFM_OK);
  return f;
}

static void assert_message(const char *part) {
  if (!strstr(bfm_error(), part)) fail_msg("\"%s\" lacks \"%s\"", bfm_error(), part);
}

static void test_defaults(void **state) {
  (void)state;
  Fields f = defaults();
  assert_int_equal(f.batch, 1024);
  assert_true(f.beta == 0.1);
  assert_int_equal(f.weights, 0);
  assert_int_equal(f.norm, 1);
  assert_string_equal(f.goal, "");
}

static void test_texts(void **state) {
  (void)state;
  Fields f = defaults();
  static const struct {
    const char *text;
    int64_t value;
  } ints[] = {{"5000", 5000}, {"5k", 5000}, {"1.5k", 1500}, {"2e3", 2000}, {"65536", 65536}};
  for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
    assert_int_equal(options_set(table, &f, "batch", ints[i].text), BFM_OK);
    assert_int_equal(f.batch, ints[i].value);
  }
  assert_int_equal(options_set(table, &f, "seed", "9223372036854775807"), BFM_OK);
  assert_true(f.seed == INT64_MAX);
  assert_int_equal(options_set(table, &f, "seed", "-3"), BFM_OK);
  assert_int_equal(f.seed, -3);
  assert_int_equal(options_set(table, &f, "z_beta", "inf"), BFM_OK);
  assert_true(isinf(f.beta));
  assert_int_equal(options_set(table, &f, "weights", "wis"), BFM_OK);
  assert_int_equal(f.weights, 1);
  assert_int_equal(options_set(table, &f, "b-norm", "false"), BFM_OK);
  assert_int_equal(f.norm, 0);
  assert_int_equal(options_set(table, &f, "goal", "torso.z"), BFM_OK);
  assert_string_equal(f.goal, "torso.z");
}

static void test_refusals(void **state) {
  (void)state;
  Fields f = defaults(), before = f;
  char lengthy[OPTION_TEXT_SIZE + 10];
  memset(lengthy, 'x', sizeof lengthy);
  lengthy[sizeof lengthy - 1] = 0;
  const struct {
    const char *name, *text, *message;
  } bad[] = {
      {"batch", "", "whole number"},
      {"batch", "12.5", "\"12.5\""},
      {"batch", "5kk", "\"5kk\""},
      {"batch", "nan", "whole number"},
      {"batch", "inf", "whole number"},
      {"batch", "1e300", "whole number"},
      {"batch", "99999999999999999999", "whole number"},
      {"batch", "1", "from 2 to 65536"},
      {"batch", "1M", "batch is 1M"},
      {"z-beta", "-1", "at least 0"},
      {"z-beta", "nan", "number"},
      {"z-beta", "1x", "\"1x\""},
      {"weights", "wi", "iwis|wis"},
      {"weights", "", "iwis|wis"},
      {"weights", "iwis|wis", "one of"},
      {"b-norm", "maybe", "on or off"},
      {"goal", lengthy, "at most 255"},
      {"bacth", "1", "did you mean batch?"},
      {"zbeta", "1", "did you mean z-beta?"},
      {"nothing-like-it", "1", "no option \"nothing-like-it\""},
      {lengthy, "1", "no option"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(options_set(table, &f, bad[i].name, bad[i].text), BFM_BAD_ARGUMENT);
    assert_message(bad[i].message);
  }
  assert_memory_equal(&f, &before, sizeof f);
}

static void test_json_round_trip(void **state) {
  (void)state;
  Fields f = defaults();
  f.seed = INT64_MAX;
  f.beta = 1.0 / 3;
  f.weights = 1;
  f.norm = 0;
  strcpy(f.goal, "\"quoted\" \\ and é");
  char *json = options_to_json(table, &f);
  assert_non_null(json);
  Fields g = defaults();
  assert_int_equal(options_from_json(table, &g, json), BFM_OK);
  free(json);
  assert_true(g.seed == f.seed && g.beta == f.beta && g.batch == f.batch);
  assert_true(g.weights == f.weights && g.norm == f.norm);
  assert_string_equal(g.goal, f.goal);

  f.beta = INFINITY;
  json = options_to_json(table, &f);
  assert_int_equal(options_from_json(table, &g, json), BFM_OK);
  free(json);
  assert_true(isinf(g.beta));
}

static void test_json_kinds(void **state) {
  (void)state;
  Fields f = defaults();
  assert_int_equal(options_from_json(table, &f,
                                     "{\"batch\": \"2k\", \"b_norm\": 0, \"z-beta\": 2}"),
                   BFM_OK);
  assert_int_equal(f.batch, 2000);
  assert_int_equal(f.norm, 0);
  assert_true(f.beta == 2);
  assert_int_equal(options_from_json(table, &f, "{\"b-norm\": true}"), BFM_OK);
  assert_int_equal(f.norm, 1);
  assert_int_equal(options_from_json(table, &f, "{}"), BFM_OK);
}

static void test_json_refusals(void **state) {
  (void)state;
  Fields f = defaults();
  static const struct {
    const char *json, *message;
  } bad[] = {
      {"", "not valid JSON"},
      {"{\"batch\": }", "from character"},
      {"{\"batch\": 4} x", "not valid JSON"},
      {"[1]", "not a JSON object"},
      {"3", "not a JSON object"},
      {"{\"batch\": 4.5}", "4.5"},
      {"{\"batch\": 1e30}", "as a string"},
      {"{\"batch\": null}", "batch must be"},
      {"{\"batch\": [4]}", "batch must be"},
      {"{\"batch\": 4, \"batch\": 5}", "twice"},
      {"{\"btch\": 4}", "did you mean batch"},
      {"{\"z-beta\": 0.1, \"batch\": true}", "batch is \"true\""},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(options_from_json(table, &f, bad[i].json), BFM_BAD_ARGUMENT);
    assert_message(bad[i].message);
  }
}

static void test_help(void **state) {
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  options_help(table, out);
  fclose(out);
  assert_non_null(strstr(text, "--batch=INT"));
  assert_non_null(strstr(text, "transitions a step (default 1024, from 2 to 65536)"));
  assert_non_null(strstr(text, "--weights=iwis|wis"));
  assert_non_null(strstr(text, "goal space (default none)"));
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),   cmocka_unit_test(test_texts),
      cmocka_unit_test(test_refusals),   cmocka_unit_test(test_json_round_trip),
      cmocka_unit_test(test_json_kinds), cmocka_unit_test(test_json_refusals),
      cmocka_unit_test(test_help),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
