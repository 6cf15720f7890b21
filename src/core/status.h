// Status codes and the thread-local error message.
// A function that can fail returns a bfm_status. When it fails, bfm_error() returns one sentence
// that says what is wrong and contains the offending value. The library never exits or prints.

#ifndef BFM_CORE_STATUS_H
#define BFM_CORE_STATUS_H

#include "bfm.h"

// sets the calling thread's message (printf style) and returns status
int bfm_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// puts a prefix such as a file name before the current message and returns status
int bfm_fail_prefix(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Static analyzers do not know what a variadic function of another file returns. With these macros
// they see that a failure returns its status, which is not 0.
static inline int bfm_returned(int returned, int status) { return (void)returned, status; }
#define bfm_fail(status, ...) bfm_returned(bfm_fail(status, __VA_ARGS__), status)
#define bfm_fail_prefix(status, ...) bfm_returned(bfm_fail_prefix(status, __VA_ARGS__), status)

// BFM_BAD_ARGUMENT if one of the pointers is NULL; names: their names in bfm.h, as in "agent, z"
int bfm_need(const char *names, const void *const *pointers);

// returns from the calling function if expr fails
#define TRY(expr)                \
  do {                           \
    int status_ = (expr);        \
    if (status_) return status_; \
  } while (0)

// returns from a public function if one of its required pointers is NULL
#define NEED(names, ...) TRY(bfm_need(names, (const void *const[]){__VA_ARGS__}))

#endif
