// Sizes for people: 999 as "999 bytes", 41234 as "41.2 kB", 1.85e9 as "1.85 GB".

#ifndef BFM_CORE_SIZE_H
#define BFM_CORE_SIZE_H

#include <stdio.h>

typedef struct {
  char text[24];
} Size;

// Three digits and a decimal unit (1 kB is 1000 bytes). A header's function, because the CUDA plugin
// is not linked with the library. Use it in place: bfm_fail(…, "%s", size_of_bytes(n).text).
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
