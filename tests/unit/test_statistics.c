// Interquartile means, probabilities of improvement and their bootstrap intervals, with values worked out
// by hand. tests/oracle compares them with the Python package rliable.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/status.h"
#include "paper/statistics.h"

#define RESAMPLES 100000

static Interval iqm(int seeds, int tasks, double *scores) {
  Interval interval;
  assert_int_equal(
      interquartile_mean(&(Scores){seeds, tasks, scores}, RESAMPLES, &interval), BFM_OK);
  return interval;
}

static Interval improvement(int tasks, int x_seeds, double *x, int y_seeds, double *y) {
  Interval interval;
  assert_int_equal(improvement_probability(&(Scores){x_seeds, tasks, x},
                                           &(Scores){y_seeds, tasks, y}, RESAMPLES, &interval),
                   BFM_OK);
  return interval;
}

static void equal(double value, double expected) { assert_true(fabs(value - expected) < 1e-12); }

static void check(Interval interval, double mean, double low, double high) {
  equal(interval.mean, mean);
  equal(interval.low, low);
  equal(interval.high, high);
}

static void test_a_quarter_is_cut_at_both_ends(void **state) {
  (void)state;
  double eight[] = {7, -50, 3, 900, 4, 8, 5, 2};
  equal(iqm(2, 4, eight).mean, (3 + 4 + 5 + 7) / 4.);
  equal(iqm(4, 2, eight).mean, (3 + 4 + 5 + 7) / 4.);
  // of 7, one at each end
  equal(iqm(7, 1, eight).mean, (7 + 3 + 4 + 8 + 5) / 5.);
  // of 3, none
  equal(iqm(3, 1, eight).mean, (7 - 50 + 3) / 3.);
  double same[] = {6, 6, 6, 6};
  check(iqm(2, 2, same), 6, 6, 6);
}

static void test_one_seed_has_no_interval(void **state) {
  (void)state;
  double scores[] = {1, 2, 3, 6}, others[] = {0, 2, 4, 5, 1, 1, 1, 1};
  Interval one[] = {iqm(1, 4, scores), improvement(4, 1, scores, 2, others),
                    improvement(4, 2, others, 1, scores)};
  // 1 against 0 and 1, 2 against 2 and 1, 3 against 4 and 1, 6 against 5 and 1
  double means[] = {2.5, (0.75 + 0.75 + 0.5 + 1) / 4, (0.25 + 0.25 + 0.5 + 0) / 4};
  for (int i = 0; i < 3; i++) {
    equal(one[i].mean, means[i]);
    assert_true(isnan(one[i].low) && isnan(one[i].high));
  }
}

static void test_seeds_are_drawn_for_each_task(void **state) {
  (void)state;
  // two seeds with 0 and 1: a resample has the mean 0, 1/2 or 1 with 1/4, 1/2 and 1/4
  double two[] = {0, 1};
  check(iqm(2, 1, two), 0.5, 0, 1);
  // no resample has scores of one task in place of another's
  double apart[] = {0, 10, 0, 10};
  check(iqm(2, 2, apart), 5, 5, 5);
  // Seeds with 0 and 1 on each of 20 tasks. The number of ones in a resample is binomial, of 40 with
  // 1/2; its percentiles are 14 and 26, of which 10 are cut. If a resample had the same seed on all
  // tasks, the ends would be 0 and 1.
  double many[40];
  for (int i = 0; i < 40; i++) many[i] = i >= 20;
  check(iqm(2, 20, many), 0.5, 4 / 20., 16 / 20.);
}

static void test_ties_are_half_an_improvement(void **state) {
  (void)state;
  // by task: 3 > 2 and 2 = 2 of three pairs; all; none
  double x[] = {1, 5, 0, 2, 5, 0, 3, 5, 0}, y[] = {2, 1, 1};
  equal(improvement(3, 3, x, 1, y).mean, (1.5 / 3 + 1 + 0) / 3);
  equal(improvement(3, 1, y, 3, x).mean, (1.5 / 3 + 0 + 1) / 3);
  equal(improvement(3, 3, x, 3, x).mean, 0.5);
}

static void test_both_methods_are_resampled(void **state) {
  (void)state;
  double low[] = {0, 0}, middle[] = {1, 1}, high[] = {3, 3}, mixed[] = {0, 2};
  check(improvement(1, 2, high, 2, low), 1, 1, 1);
  check(improvement(1, 2, low, 2, high), 0, 0, 0);
  check(improvement(1, 2, mixed, 2, middle), 0.5, 0, 1);
  check(improvement(1, 2, middle, 2, mixed), 0.5, 0, 1);
  // If k and m of the two draws of x and of y are 2, the probability is (k - m + 2) / 4. It is 0 in one
  // of 16 resamples, and 1 in another.
  check(improvement(1, 2, mixed, 2, mixed), 0.5, 0, 1);
  // The sum of k - m + 2 over four tasks is binomial, of 16 with 1/2; its percentiles are 4 and 12.
  double four[] = {0, 0, 0, 0, 2, 2, 2, 2};
  check(improvement(4, 2, four, 2, four), 0.5, 0.25, 0.75);
}

static void test_intervals_are_reproducible(void **state) {
  (void)state;
  double x[] = {1, 9, 4, 3, 7, 5}, y[] = {2, 8, 6, 0, 3, 5};
  Interval a = iqm(3, 2, x), b = improvement(2, 3, x, 3, y);
  check(iqm(3, 2, x), a.mean, a.low, a.high);
  check(improvement(2, 3, x, 3, y), b.mean, b.low, b.high);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_quarter_is_cut_at_both_ends),
      cmocka_unit_test(test_one_seed_has_no_interval),
      cmocka_unit_test(test_seeds_are_drawn_for_each_task),
      cmocka_unit_test(test_ties_are_half_an_improvement),
      cmocka_unit_test(test_both_methods_are_resampled),
      cmocka_unit_test(test_intervals_are_reproducible),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
