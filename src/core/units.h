// Counts, times and sizes in short forms for people, and the clock that measures times.

#ifndef BFM_CORE_UNITS_H
#define BFM_CORE_UNITS_H

#include <stddef.h>
#include <stdio.h>

// 1234567 as "1.23M", 90061 seconds as "25 h 1 min"
void short_count(double count, char *out, size_t size);
void short_time(double seconds, char *out, size_t size);

double seconds_now(void);  // monotonic clock

typedef struct {
  char text[24];
} Size;

// 41234 bytes as "41.2 kB", which is 41,200. The function is in the header because the CUDA plugin is
// not linked with the library. Use it in place: bfm_fail(…, "%s", size_of_bytes(n).text).
static inline Size size_of_bytes(double bytes) {
  static const char *const units[] = {"byte", "kB", "MB", "GB", "TB", "PB", "EB"};
  int unit = 0;
  Size size;
  for (; bytes >= 999.5 && unit < 6; unit++) bytes /= 1000;
  snprintf(size.text, sizeof size.text, "%.3g %s%s", bytes, units[unit],
           unit || bytes == 1 ? "" : "s");
  return size;
}

#endif
