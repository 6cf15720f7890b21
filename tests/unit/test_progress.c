// The text of the progress line: short forms of counts, times and sizes, the rate of a resumed run, and no
// output if --quiet is given or stderr is no terminal.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/progress.h"
#include "core/units.h"

static void test_counts(void **state) {
  (void)state;
  static const struct {
    double count;
    const char *text;
  } rows[] = {{0, "0"},       {7, "7"},           {1.26, "1.26"},   {1024, "1024"},
              {9999, "9999"}, {12345, "12.3k"},   {999499, "999k"}, {999500, "1M"},
              {1e6, "1M"},    {1234567, "1.23M"}, {2e9, "2G"},      {-3, "-3"},
              {123.4, "123"}, {4562.7, "4563"},   {999.7, "999.7"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[32];
    short_count(rows[i].count, text, sizeof text);
    assert_string_equal(text, rows[i].text);
  }
}

static void test_times(void **state) {
  (void)state;
  static const struct {
    double seconds;
    const char *text;
  } rows[] = {{0, "0 s"},      {59.6, "60 s"}, {120, "2 min"}, {90061, "25 h 1 min"},
              {INFINITY, "?"}, {NAN, "?"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[32];
    short_time(rows[i].seconds, text, sizeof text);
    assert_string_equal(text, rows[i].text);
  }
}

static void test_sizes(void **state) {
  (void)state;
  static const struct {
    double bytes;
    const char *text;
  } rows[] = {{0, "0 bytes"},       {1, "1 byte"},       {999, "999 bytes"},  {1000, "1 kB"},
              {41234, "41.2 kB"},   {999499, "999 kB"},  {999500, "1 MB"},    {3.1e6, "3.1 MB"},
              {1.854e9, "1.85 GB"}, {26.2e9, "26.2 GB"}, {0x1p63, "9.22 EB"}, {3e21, "3e+03 EB"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_string_equal(size_of_bytes(rows[i].bytes).text, rows[i].text);
  }
}

static void test_line(void **state) {
  (void)state;
  Progress p = {.what = "train", .unit = "steps", .total = 1000000, .done = 450000, .active = 1};
  char line[200];
  progress_text(&p, 250, "fb -12.3", line, sizeof line);
  assert_string_equal(line, "train  45%  450k/1M steps  1800/s  5 min left  fb -12.3");
}

static void test_resumed_rate(void **state) {
  (void)state;
  // 100 steps in 10 seconds since the resume, 400 left
  Progress p = {.what = "train", .unit = "steps", .total = 1000, .done = 600, .start_done = 500,
                .start = 5, .active = 1};
  char line[200];
  progress_text(&p, 15, NULL, line, sizeof line);
  assert_string_equal(line, "train  60%  600/1000 steps  10/s  40 s left");
}

static void test_a_limit_of_time(void **state) {
  (void)state;
  // a fifth of the steps, but three quarters of the time
  Progress p =
      {.what = "train", .unit = "steps", .total = 1000, .done = 200, .limit = 40, .active = 1};
  char line[200];
  progress_text(&p, 30, NULL, line, sizeof line);
  assert_string_equal(line, "train  75%  200/1000 steps  6.67/s  10 s left");
}

static void test_before_the_first_step(void **state) {
  (void)state;
  Progress p = {.what = "train", .unit = "steps", .start = 5, .active = 1};
  char line[200];
  progress_text(&p, 5, NULL, line, sizeof line);
  assert_string_equal(line, "train 100%  0/0 steps  0/s  ? left");
}

static void test_quiet(void **state) {
  (void)state;
  Progress p;
  progress_start(&p, "train", "steps", 3, 10, 1);
  assert_false(p.active);
  progress_update(&p, 5, "unseen");
  assert_int_equal(p.done, 5);
  assert_int_equal(p.start_done, 3);
  progress_end(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_times),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_line),
      cmocka_unit_test(test_resumed_rate),
      cmocka_unit_test(test_a_limit_of_time),
      cmocka_unit_test(test_before_the_first_step),
      cmocka_unit_test(test_quiet),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
