// Public structs that can grow.

#include "core/sized.h"

#include <string.h>

#define MOST 4096  // no struct is larger; a larger `size` was never initialized

int sized_read(void *own, size_t known, const void *given, size_t oldest, const char *name) {
  size_t size;
  memcpy(&size, given, sizeof size);
  if (size > MOST || size % sizeof(void *) || (!size && !oldest)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s.size is %zu: set it to sizeof(%s)", name, size, name);
  }
  if (!size) size = oldest;
  for (size_t i = known; i < size; i++) {
    if (!((const char *)given)[i]) continue;
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s.size is %zu, and a field beyond byte %zu is set, which version " BFM_VERSION
                    " of the library does not know: leave it 0 or update the library",
                    name, size, known);
  }
  memset(own, 0, known);
  memcpy(own, given, size < known ? size : known);
  return BFM_OK;
}

void sized_write(void *given, size_t oldest, void *own, size_t known) {
  size_t size;
  memcpy(&size, given, sizeof size);
  if (size < oldest) size = oldest;
  if (size > known) size = known;
  memcpy(own, &size, sizeof size);
  memcpy(given, own, size);
}
