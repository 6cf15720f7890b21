// Counts and times in short forms for people, and the clock that measures them.

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void short_count(double count, char *out, size_t size) {
  static const struct {
    double from, unit;
    const char *suffix;
  } scales[] = {{999.5e6, 1e9, "G"}, {999.5e3, 1e6, "M"}, {9999.5, 1e3, "k"}, {-INFINITY, 1, ""}};
  int i = 0;
  while (count < scales[i].from) i++;
  double value = count / scales[i].unit;
  // whole numbers as they are, others to three digits, but never as 4.56e+03
  snprintf(out, size, "%.*g%s", value == floor(value) || value >= 999.5 ? 4 : 3, value,
           scales[i].suffix);
}

void short_time(double seconds, char *out, size_t size) {
  if (!(seconds < 1e9)) {
    snprintf(out, size, "?");
  } else if (seconds < 99.5) {
    snprintf(out, size, "%.0f s", seconds);
  } else if (seconds < 99.5 * 60) {
    snprintf(out, size, "%.0f min", seconds / 60);
  } else {
    long minutes = lround(seconds / 60);
    snprintf(out, size, "%ld h %ld min", minutes / 60, minutes % 60);
  }
}
