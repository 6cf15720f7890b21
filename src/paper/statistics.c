// The stratified bootstrap: a resample draws as many seeds as there are, with replacement, for each task
// by itself, and the interval lies between percentiles of the statistic over resamples. The scores are
// sorted only once: a resample counts how often it draws each of them, and the sorted scores with
// their counts are the sorted resample.

#include "paper/statistics.h"

#include <math.h>
#include <stdlib.h>

#include "core/rng.h"
#include "core/status.h"

// ---------------------------------- the bootstrap ------------------------------------------------

// the draws of one resample: four from each block of random words
typedef struct {
  uint64_t resample;
  uint32_t next;
  Philox words;
} Draws;

// the seed that a resample has in place of seed i; without draws, i itself
static int draw(Draws *draws, int i, int seeds) {
  if (!draws) return i;
  uint32_t at = draws->next++;
  if (at % 4 == 0) draws->words = philox(0, STREAM_USER, draws->resample, at / 4);
  return (int)philox_below(draws->words.v[at % 4], 0, (uint64_t)seeds);
}

// a statistic of the scores, or of a resample of them
typedef double Statistic(const void *scores, Draws *draws);

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// interpolated between the two nearest of the sorted values
static double quantile(const double *sorted, int count, double share) {
  double at = share * (count - 1), below = floor(at);
  int i = (int)below, next = i + 1 < count ? i + 1 : i;
  return sorted[i] + (at - below) * (sorted[next] - sorted[i]);
}

static int bootstrap(Statistic *statistic, const void *scores, int seeds, int resamples,
                     Interval *interval) {
  *interval = (Interval){statistic(scores, NULL), NAN, NAN};
  if (seeds < 2) return BFM_OK;
  double *values = malloc((size_t)resamples * sizeof *values);
  if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d resamples", resamples);
  for (int i = 0; i < resamples; i++) values[i] = statistic(scores, &(Draws){.resample = i});
  qsort(values, resamples, sizeof *values, by_value);
  interval->low = quantile(values, resamples, 0.025);
  interval->high = quantile(values, resamples, 0.975);
  free(values);
  return BFM_OK;
}

// ---------------------------------- interquartile mean -------------------------------------------

typedef struct {
  double value;
  int at;  // its place among the scores
} Ranked;

typedef struct {
  int seeds, tasks, count;
  const Ranked *sorted;  // [count]
  const int *rank;       // [seeds × tasks]: where each score is among the sorted ones
  int *drawn;            // [count]: how often the resample has each of the sorted scores
} Sorted;

static double middle_mean(const void *scores, Draws *draws) {
  const Sorted *s = scores;
  for (int i = 0; i < s->count; i++) s->drawn[i] = 0;
  for (int i = 0; i < s->seeds; i++) {
    for (int k = 0; k < s->tasks; k++) {
      s->drawn[s->rank[draw(draws, i, s->seeds) * s->tasks + k]]++;
    }
  }
  // of the sorted resample, leave out the first `begin` and all from `end`
  int begin = s->count / 4, end = s->count - begin, at = 0;
  double sum = 0;
  for (int i = 0; i < s->count; i++) {
    int from = at > begin ? at : begin;
    at += s->drawn[i];
    int to = at < end ? at : end;
    if (to > from) sum += (to - from) * s->sorted[i].value;
  }
  return sum / (end - begin);
}

int interquartile_mean(const Scores *scores, int resamples, Interval *interval) {
  int count = scores->seeds * scores->tasks;
  Ranked *sorted = malloc((size_t)count * sizeof *sorted);
  int *rank = malloc(2 * (size_t)count * sizeof *rank);
  int status = BFM_OK;
  if (!sorted || !rank) {
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for %d scores", count);
  } else {
    for (int i = 0; i < count; i++) sorted[i] = (Ranked){scores->scores[i], i};
    qsort(sorted, count, sizeof *sorted, by_value);  // a Ranked begins with its value
    for (int i = 0; i < count; i++) rank[sorted[i].at] = i;
    Sorted all = {scores->seeds, scores->tasks, count, sorted, rank, rank + count};
    status = bootstrap(middle_mean, &all, scores->seeds, resamples, interval);
  }
  free(sorted);
  free(rank);
  return status;
}

// ---------------------------------- probability of improvement -----------------------------------

typedef struct {
  const Scores *x, *y;
  int *drawn;  // [seeds of y]
} Pair;

static double mean_of_wins(const void *scores, Draws *draws) {
  const Pair *p = scores;
  int64_t halves = 0;  // a win is two of them, a tie one
  for (int k = 0; k < p->x->tasks; k++) {
    for (int j = 0; j < p->y->seeds; j++) p->drawn[j] = draw(draws, j, p->y->seeds);
    for (int i = 0; i < p->x->seeds; i++) {
      double x = p->x->scores[draw(draws, i, p->x->seeds) * p->x->tasks + k];
      for (int j = 0; j < p->y->seeds; j++) {
        double y = p->y->scores[p->drawn[j] * p->y->tasks + k];
        halves += (x > y) + (x >= y);
      }
    }
  }
  return (double)halves / 2 / p->x->seeds / p->y->seeds / p->x->tasks;
}

int improvement_probability(const Scores *x, const Scores *y, int resamples, Interval *interval) {
  int *drawn = malloc((size_t)y->seeds * sizeof *drawn);
  if (!drawn) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d seeds", y->seeds);
  Pair pair = {x, y, drawn};
  int seeds = x->seeds < y->seeds ? x->seeds : y->seeds;
  int status = bootstrap(mean_of_wins, &pair, seeds, resamples, interval);
  free(drawn);
  return status;
}
