// Means with confidence intervals by Student's t distribution.

#ifndef BFM_CORE_INTERVAL_H
#define BFM_CORE_INTERVAL_H

typedef struct {
  double mean, low, high;  // low and high are NaN if there is only one value
} Interval;

// the value that |T| exceeds with probability 1 - confidence, for T with `freedom` degrees of freedom
double student_quantile(double confidence, int freedom);

// the mean of a[i] - b[i] over count pairs and its interval, confidence 0.95 for example
Interval paired_interval(const double *a, const double *b, int count, double confidence);

// the mean of count values and its interval
Interval mean_interval(const double *values, int count, double confidence);

#endif
