// Fuzzes the safetensors reader: any bytes are accepted or refused with an error sentence, and all
// values of an accepted file can be read. Each input is tried as a whole file and as header and data
// with the correct length before them, because a fuzzer rarely guesses that length.

#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"

static unsigned read_all(const SafeTensors *file) {
  unsigned sum = 0;
  for (int i = 0; i < safetensors_count(file); i++) {
    const Tensor *t = safetensors_at(file, i);
    if (safetensors_find(file, t->name) != t) abort();
    for (size_t k = 0; k < tensor_bytes(t); k++) sum += ((const uint8_t *)t->data)[k];
  }
  const char *key, *value;
  for (int i = 0; safetensors_metadata_at(file, i, &key, &value); i++) {
    if (safetensors_metadata(file, key) != value) abort();
  }
  return sum;
}

static void parse(const void *bytes, size_t size) {
  SafeTensors *file;
  if (safetensors_parse(&file, bytes, size)) {
    if (!*bfm_error()) abort();
    return;
  }
  volatile unsigned sum = read_all(file);
  (void)sum;
  safetensors_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  uint8_t *copy = malloc(size + 8);  // aligned, and exactly as long as the parsed file
  memcpy(copy + 8, bytes, size);
  memset(copy, 0, 8);

  // the header ends with the last brace
  size_t length = size;
  while (length > 0 && bytes[length - 1] != '}') length--;
  for (int i = 0; i < 8; i++) copy[i] = (uint8_t)(length >> 8 * i);
  parse(copy, size + 8);

  memmove(copy, bytes, size);
  copy = realloc(copy, size ? size : 1);
  parse(copy, size);
  free(copy);
  return 0;
}
