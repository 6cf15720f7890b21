// Numbers: conversion from and to text, which switches the calling thread to the C locale for the
// duration of the call, and the check that arrays are finite.

#include "core/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;

static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

// returns the previous locale, to be restored with uselocale
static locale_t use_c_locale(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_c_locale);
  return uselocale(c_locale);
}

double number_read(const char *text, char **end) {
  locale_t before = use_c_locale();
  double value = strtod(text, end);
  uselocale(before);
  return value;
}

void number_write(char *out, size_t size, int digits, double value) {
  locale_t before = use_c_locale();
  snprintf(out, size, "%.*g", digits, value);
  uselocale(before);
}

int check_size(const char *what, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s must be 1 to %ld, not %ld", what, (long)most, (long)value);
}

int check_finite(const float *x, int64_t rows, int64_t cols, const char *what) {
  if (!x && rows) return bfm_fail(BFM_BAD_ARGUMENT, "%s is missing", what);
  // arrays have millions of values and are almost always finite: first check without branches
  uint32_t found = 0;
  for (int64_t i = 0; i < rows * cols; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    found |= (bits & 0x7f800000) == 0x7f800000;
  }
  if (!found) return BFM_OK;
  for (int64_t i = 0; i < rows * cols; i++) {
    if (!isfinite(x[i])) {
      return bfm_fail(BFM_BAD_ARGUMENT, "%s has %s in row %ld, column %ld", what,
                      isnan(x[i]) ? "NaN" : "an infinity", (long)(i / cols), (long)(i % cols));
    }
  }
  return BFM_OK;
}
