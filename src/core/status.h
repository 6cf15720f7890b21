// Status codes and the thread-local error message.
// A fallible function returns a bfm_status; on failure it leaves one clear sentence, with the
// offending value in it, behind bfm_error(). The library never exits and never prints.

#ifndef BFM_CORE_STATUS_H
#define BFM_CORE_STATUS_H

#include "bfm.h"

// set the thread's message (printf style), return status
int bfm_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// put a prefix such as a file name before the message that is there; returns status
int bfm_fail_prefix(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// BFM_BAD_ARGUMENT when one of the pointers is NULL; names: "agent, z", theirs in bfm.h
int bfm_need(const char *names, const void *const *pointers);

// return from the calling function if expr fails
#define TRY(expr)                \
  do {                           \
    int status_ = (expr);        \
    if (status_) return status_; \
  } while (0)

// the pointers that a public function cannot do without
#define NEED(names, ...) TRY(bfm_need(names, (const void *const[]){__VA_ARGS__}))

#endif
