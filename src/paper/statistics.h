// Statistics of scores over seeds and tasks, as the Python package rliable computes them (Agarwal et al.,
// "Deep Reinforcement Learning at the Edge of the Statistical Precipice", arXiv 2108.13264), each with
// a stratified bootstrap 95% interval.

#ifndef BFM_PAPER_STATISTICS_H
#define BFM_PAPER_STATISTICS_H

#include "core/interval.h"

// the scores of one method, [seeds × tasks]: those of a seed are contiguous
typedef struct {
  int seeds, tasks;  // at least 1
  double *scores;
} Scores;

// Get the interquartile mean: the mean of all scores but the lowest and the highest floor(n / 4) of n.
// The ends of the interval are percentiles over so many resamples; NaN for a single seed. Fails only
// if out of memory. The same arguments always give the same interval.
int interquartile_mean(const Scores *scores, int resamples, Interval *interval);

// Get the probability that a seed of x scores higher than a seed of y, as the mean over tasks of the
// share of pairs in which it does; a tie counts half. Both have the same tasks, in the same order. The
// interval is that of above; NaN if x or y has a single seed.
int improvement_probability(const Scores *x, const Scores *y, int resamples, Interval *interval);

#endif
