// The mean of paired differences and its confidence interval by Student's t distribution.

#ifndef BFM_PAPER_INTERVAL_H
#define BFM_PAPER_INTERVAL_H

typedef struct {
  double mean, low, high;  // low and high are NaN if there is only one pair
} Interval;

// the value that |T| exceeds with probability 1 - confidence, for T with `freedom` degrees of freedom
double student_quantile(double confidence, int freedom);

// the mean of a[i] - b[i] over count pairs and its interval, confidence 0.95 for example
Interval paired_interval(const double *a, const double *b, int count, double confidence);

#endif
