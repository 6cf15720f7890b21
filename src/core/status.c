// Status codes and the thread-local error message.

#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[1024];

const char *bfm_error(void) { return message; }

const char *bfm_version(void) { return BFM_VERSION; }

int bfm_version_number(void) { return BFM_VERSION_NUMBER; }

#undef bfm_fail  // the functions behind the macros
#undef bfm_fail_prefix

int bfm_fail(int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return status;
}

int bfm_fail_prefix(int status, const char *format, ...) {
  char old[sizeof message];
  memcpy(old, message, sizeof old);

  va_list args;
  va_start(args, format);
  int n = vsnprintf(message, sizeof message, format, args);
  va_end(args);
  if (n >= 0 && n < (int)sizeof message) { snprintf(message + n, sizeof message - n, "%s", old); }
  return status;
}

int bfm_need(const char *names, const void *const *pointers) {
  for (;; pointers++) {
    size_t length = strcspn(names, ",");
    if (!*pointers) { return bfm_fail(BFM_BAD_ARGUMENT, "%.*s is missing", (int)length, names); }
    if (!names[length]) return BFM_OK;
    names += length + 2;
  }
}
