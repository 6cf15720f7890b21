// Fuzzes the .npz reader: any bytes are read or refused with an error sentence. Each input is tried
// as a whole file and as the only member of a sound zip file, because a fuzzer rarely guesses
// checksums.

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "data/npz.h"

#define NAME "action.npy"
#define NAME_SIZE (sizeof NAME - 1)

static void parse(const uint8_t *bytes, size_t size) {
  Npz *npz;
  int64_t rows, columns;
  double *values, sum = 0;
  if (npz_parse(&npz, bytes, size)) {
    if (!*bfm_error()) abort();
    return;
  }
  if (!npz_read(npz, "action", &rows, &columns, &values)) {
    for (int64_t i = 0; i < rows * columns; i++) sum += values[i];
    volatile double all = sum;
    (void)all;
    free(values);
  }
  npz_close(npz);
}

static uint8_t *put(uint8_t *to, uint32_t value, int size) {
  for (int i = 0; i < size; i++) *to++ = (uint8_t)(value >> 8 * i);
  return to;
}

// writes the fields that a member's header and its directory entry share
static uint8_t *put_sizes(uint8_t *to, const uint8_t *bytes, size_t size) {
  to = put(to, 20, 2);  // version
  to = put(to, 0, 4);   // flags, method: stored
  to = put(to, 0, 4);   // time
  to = put(to, (uint32_t)crc32_z(0, bytes, size), 4);
  to = put(to, (uint32_t)size, 4);
  to = put(to, (uint32_t)size, 4);
  to = put(to, NAME_SIZE, 2);
  return put(to, 0, 2);
}

static uint8_t *put_bytes(uint8_t *to, const void *bytes, size_t size) {
  memcpy(to, bytes, size);
  return to + size;
}

static void parse_member(const uint8_t *bytes, size_t size) {
  uint8_t *zip = malloc(size + 256), *to = zip;
  if (!zip) return;
  to = put(to, 0x04034b50, 4);
  to = put_sizes(to, bytes, size);
  to = put_bytes(to, NAME, NAME_SIZE);
  if (size) to = put_bytes(to, bytes, size);

  uint32_t directory = (uint32_t)(to - zip);
  to = put(to, 0x02014b50, 4);
  to = put(to, 20, 2);
  to = put_sizes(to, bytes, size);
  for (int i = 0; i < 7; i++) to = put(to, 0, 2);  // comment, disk, attributes, offset
  to = put_bytes(to, NAME, NAME_SIZE);

  uint32_t length = (uint32_t)(to - zip) - directory;
  to = put(to, 0x06054b50, 4);
  to = put(to, 0, 4);
  to = put(to, 1, 2);
  to = put(to, 1, 2);
  to = put(to, length, 4);
  to = put(to, directory, 4);
  to = put(to, 0, 2);
  parse(zip, (size_t)(to - zip));
  free(zip);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  parse(bytes, size);
  parse_member(bytes, size);
  return 0;
}
