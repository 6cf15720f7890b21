// Student's t interval. For whole degrees of freedom the distribution is a finite sum of powers of the
// cosine of atan(t / sqrt(freedom)) (Abramowitz and Stegun 26.7.3, 26.7.4), which bisection inverts.

#include "core/interval.h"

#include <math.h>
#include <stddef.h>

// the probability that |T| is at most tan(angle) * sqrt(freedom)
static double probability_within(double angle, int freedom) {
  double cosine = cos(angle), term = freedom % 2 ? cosine : 1, sum = freedom > 1 ? term : 0;
  for (int k = freedom % 2 ? 3 : 2; k < freedom; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  return freedom % 2 ? M_2_PI * (angle + sin(angle) * sum) : sin(angle) * sum;
}

double student_quantile(double confidence, int freedom) {
  double low = 0, high = M_PI_2;
  for (int i = 0; i < 100; i++) {
    double middle = (low + high) / 2;
    if (probability_within(middle, freedom) < confidence) low = middle;
    else high = middle;
  }
  return tan(low) * sqrt(freedom);
}

// b NULL: of a itself
static Interval interval_of(const double *a, const double *b, int count, double confidence) {
  double mean = 0, square = 0;
  for (int i = 0; i < count; i++) mean += (a[i] - (b ? b[i] : 0)) / count;
  if (count < 2) return (Interval){mean, NAN, NAN};
  for (int i = 0; i < count; i++) square += pow(a[i] - (b ? b[i] : 0) - mean, 2);
  double error = sqrt(square / (count - 1) / count);  // standard error of the mean
  double half = student_quantile(confidence, count - 1) * error;
  return (Interval){mean, mean - half, mean + half};
}

Interval paired_interval(const double *a, const double *b, int count, double confidence) {
  return interval_of(a, b, count, confidence);
}

Interval mean_interval(const double *values, int count, double confidence) {
  return interval_of(values, NULL, count, confidence);
}
