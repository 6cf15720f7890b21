// Numbers as text in the locale of C, which the calling thread has for the moment of a number.

#include "core/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t plain;

static void make_plain(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

// the locale that was in use, for uselocale
static locale_t use_plain(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_plain);
  return uselocale(plain);
}

double number_read(const char *text, char **end) {
  locale_t before = use_plain();
  double value = strtod(text, end);
  uselocale(before);
  return value;
}

void number_write(char *out, size_t size, int digits, double value) {
  locale_t before = use_plain();
  snprintf(out, size, "%.*g", digits, value);
  uselocale(before);
}
