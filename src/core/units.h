// Counts and times in short forms for people, and the clock that measures them.

#ifndef BFM_CORE_UNITS_H
#define BFM_CORE_UNITS_H

#include <stddef.h>

// 1234567 as "1.23M", 90061 seconds as "25 h 1 min"
void short_count(double count, char *out, size_t size);
void short_time(double seconds, char *out, size_t size);

double seconds_now(void);  // monotonic clock

#endif
