// Arrays of an .npz file. The zip's central directory, at the end of the file, lists the members.
// zlib inflates a member; its first line is a Python dictionary that describes the array.

#include "data/npz.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/files.h"
#include "core/units.h"

#define END_SIZE 22    // bytes of the record that ends a zip file, without its comment
#define ENTRY_SIZE 46  // bytes of an entry of the directory, without its name
#define LOCAL_SIZE 30  // bytes of a member's own header, without its name
#define MEMBER_MAX ((uint64_t)1 << 32)

struct Npz {
  uint8_t *bytes;
  size_t size;
  size_t directory;  // offset of the first entry
  int entries;
};

typedef struct {
  uint32_t method, checksum;
  uint64_t packed, unpacked;
  size_t at;  // offset of the compressed bytes
} Member;

static uint32_t get16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t get32(const uint8_t *p) { return get16(p) | get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

static int damaged(const char *what) {
  return bfm_fail(BFM_BAD_FILE, "the .npz file is damaged: %s", what);
}

// ---------------------------------- the zip file -------------------------------------------------

static int find_directory(Npz *npz) {
  if (npz->size < END_SIZE) return damaged("it is too short for a zip file");
  size_t lowest = npz->size > END_SIZE + 65535 ? npz->size - END_SIZE - 65535 : 0;
  for (size_t at = npz->size - END_SIZE + 1; at-- > lowest;) {
    const uint8_t *end = npz->bytes + at;
    if (get32(end) != 0x06054b50) continue;
    npz->entries = (int)get16(end + 10);
    npz->directory = get32(end + 16);
    return npz->directory <= at ? BFM_OK : damaged("its directory is out of place");
  }
  return damaged("it has no directory and was probably cut short");
}

// Sizes that do not fit into 32 bits are in an extra field, in this order. numpy always writes it.
static int read_extra(const uint8_t *extra, size_t size, uint64_t *values[], int count) {
  while (size >= 4) {
    size_t length = get16(extra + 2);
    if (length > size - 4) return damaged("a field of its directory is cut short");
    if (get16(extra) == 1) {
      for (int i = 0; i < count; i++) {
        if (*values[i] != UINT32_MAX) continue;
        if (length < 8) return damaged("a field of its directory is cut short");
        *values[i] = get64(extra + 4);
        extra += 8;
        length -= 8;
      }
      return BFM_OK;
    }
    extra += 4 + length;
    size -= 4 + length;
  }
  return BFM_OK;
}

static int read_entry(const Npz *npz, const uint8_t *entry, size_t name, size_t extra, Member *m) {
  m->method = get16(entry + 10);
  m->checksum = get32(entry + 16);
  m->packed = get32(entry + 20);
  m->unpacked = get32(entry + 24);
  uint64_t offset = get32(entry + 42);
  TRY(read_extra(entry + ENTRY_SIZE + name, extra,
                 (uint64_t *[]){&m->unpacked, &m->packed, &offset}, 3));
  if (offset > npz->size || npz->size - offset < LOCAL_SIZE ||
      get32(npz->bytes + offset) != 0x04034b50) {
    return damaged("a member is not where the directory says");
  }
  const uint8_t *local = npz->bytes + offset;
  m->at = offset + LOCAL_SIZE + get16(local + 26) + get16(local + 28);
  if (m->at > npz->size || m->packed > npz->size - m->at) return damaged("a member is cut short");
  return BFM_OK;
}

// finds a member by its name without ".npy"; *found is 0 if there is none
static int find_member(const Npz *npz, const char *name, Member *m, int *found) {
  size_t at = npz->directory;
  *found = 0;
  for (int i = 0; i < npz->entries; i++) {
    const uint8_t *entry = npz->bytes + at;
    size_t left = npz->size - at;
    if (left < ENTRY_SIZE || get32(entry) != 0x02014b50)
      return damaged("its directory is cut short");
    size_t length = get16(entry + 28), extra = get16(entry + 30), comment = get16(entry + 32);
    if (length + extra + comment > left - ENTRY_SIZE) return damaged("its directory is cut short");
    const char *has = (const char *)entry + ENTRY_SIZE;
    if (length == strlen(name) + 4 && !memcmp(has, name, length - 4) &&
        !memcmp(has + length - 4, ".npy", 4)) {
      *found = 1;
      return read_entry(npz, entry, length, extra, m);
    }
    at += ENTRY_SIZE + length + extra + comment;
  }
  return BFM_OK;
}

static int inflate_member(const Npz *npz, const Member *m, uint8_t *out) {
  z_stream stream = {.next_in = npz->bytes + m->at, .avail_in = (uInt)m->packed, .next_out = out,
                     .avail_out = (uInt)m->unpacked};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for decompression");
  }
  int good = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.total_out == m->unpacked;
  inflateEnd(&stream);
  return good ? BFM_OK : damaged("a member cannot be decompressed");
}

static int unpack(const Npz *npz, const Member *m, uint8_t **out) {
  int stored = m->method == 0;
  if (!stored && m->method != 8) {
    return bfm_fail(BFM_BAD_FILE,
                    "a member is compressed with method %u, but bfm reads only deflate", m->method);
  }
  // deflate shrinks data by at most a factor of 1032: a larger size is wrong
  if (m->unpacked >= MEMBER_MAX || m->packed >= MEMBER_MAX ||
      (stored ? m->unpacked != m->packed : m->unpacked / 1032 > m->packed + 1)) {
    return damaged("a member has an impossible size");
  }
  *out = malloc(m->unpacked + 1);
  if (!*out)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", size_of_bytes((double)m->unpacked).text);
  int status = BFM_OK;
  if (stored) memcpy(*out, npz->bytes + m->at, m->unpacked);
  else status = inflate_member(npz, m, *out);
  if (!status && crc32_z(0, *out, m->unpacked) != m->checksum) {
    status = damaged("a member's checksum is wrong");
  }
  if (status) free(*out);
  return status;
}

// ---------------------------------- the array ----------------------------------------------------

// numpy's names of number types, and the conversion of one number to double
#define CONVERT(name, type)              \
  static double name(const uint8_t *p) { \
    type value;                          \
    memcpy(&value, p, sizeof value);     \
    return (double)value;                \
  }
CONVERT(from_f4, float)
CONVERT(from_f8, double)
CONVERT(from_i4, int32_t)
CONVERT(from_i8, int64_t)
CONVERT(from_u1, uint8_t)

static const struct {
  const char *name;
  size_t size;
  double (*convert)(const uint8_t *p);
} types[] = {{"'<f4'", 4, from_f4}, {"'<f8'", 8, from_f8}, {"'<i4'", 4, from_i4},
             {"'<i8'", 8, from_i8}, {"'|b1'", 1, from_u1}, {"'|u1'", 1, from_u1}};
#define TYPE_COUNT ((int)(sizeof types / sizeof *types))

typedef struct {
  int type;
  int64_t rows, columns;
  size_t at;  // offset of the numbers
} Array;

// the text after a key of the dictionary, without leading spaces
static const char *value_of(const char *header, const char *key) {
  const char *at = strstr(header, key);
  return at ? at + strlen(key) + strspn(at + strlen(key), " ") : "";
}

static int read_shape(const char *text, Array *array) {
  int64_t shape[2] = {1, 1};
  int axes = 0;
  if (*text++ != '(') return damaged("an array has no shape");
  while (*text && *text != ')') {
    char *end;
    long long n = strtoll(text, &end, 10);
    if (end == text || n < 0 || n > INT32_MAX) return damaged("an array has an impossible shape");
    if (axes == 2) return damaged("an array has more than 2 axes");
    shape[axes++] = n;
    text = end + strspn(end, ", ");
  }
  if (!*text || axes == 0) return damaged("an array has no axes");
  array->rows = shape[0];
  array->columns = shape[1];
  return BFM_OK;
}

static int read_header(const uint8_t *bytes, uint64_t size, Array *array) {
  static const uint8_t magic[6] = "\x93NUMPY";
  char header[4096];
  if (size < 12 || memcmp(bytes, magic, sizeof magic)) return damaged("a member is not an array");
  size_t begin = bytes[6] == 1 ? 10 : 12;
  uint64_t length = bytes[6] == 1 ? get16(bytes + 8) : get32(bytes + 8);
  if (length >= sizeof header || begin + length > size)
    return damaged("an array's header is too long");
  memcpy(header, bytes + begin, length);
  header[length] = 0;
  array->at = begin + length;

  const char *type = value_of(header, "'descr':");
  for (array->type = 0; array->type < TYPE_COUNT; array->type++) {
    if (!strncmp(type, types[array->type].name, 5)) break;
  }
  if (array->type == TYPE_COUNT) {
    return bfm_fail(BFM_BAD_FILE, "an array has numbers of type %.*s, which bfm does not read",
                    (int)strcspn(type, ","), type);
  }
  TRY(read_shape(value_of(header, "'shape':"), array));
  if (strncmp(value_of(header, "'fortran_order':"), "False", 5) && array->columns != 1) {
    return bfm_fail(BFM_BAD_FILE,
                    "an array is stored in column-major order, which bfm does not read");
  }
  // rows and columns are below 2^31, so eight times their product does not overflow
  uint64_t numbers = (uint64_t)array->rows * (uint64_t)array->columns;
  if (numbers > size || numbers * types[array->type].size != size - array->at) {
    return damaged("an array's size does not match its shape");
  }
  return BFM_OK;
}

static int convert(const uint8_t *bytes, const Array *array, double **values) {
  int64_t count = array->rows * array->columns;
  size_t size = types[array->type].size;
  *values = malloc((size_t)(count + 1) * sizeof **values);
  if (!*values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " numbers", count);
  for (int64_t i = 0; i < count; i++) {
    (*values)[i] = types[array->type].convert(bytes + array->at + (size_t)i * size);
  }
  return BFM_OK;
}

int npz_has(const Npz *npz, const char *name) {
  Member member;
  int found;
  return find_member(npz, name, &member, &found) || found;
}

int npz_read(const Npz *npz, const char *name, int64_t *rows, int64_t *columns, double **values) {
  Member member = {0};
  Array array = {0};
  uint8_t *bytes = NULL;
  int found;
  *values = NULL;
  TRY(find_member(npz, name, &member, &found));
  if (!found) return bfm_fail(BFM_BAD_FILE, "there is no array \"%s\"", name);
  int status = unpack(npz, &member, &bytes);
  if (status) return bfm_fail_prefix(status, "%s: ", name);
  status = read_header(bytes, member.unpacked, &array);
  if (!status) status = convert(bytes, &array, values);
  free(bytes);
  if (status) return bfm_fail_prefix(status, "%s: ", name);
  *rows = array.rows;
  *columns = array.columns;
  return BFM_OK;
}

// ---------------------------------- opening and closing ------------------------------------------

static int make(Npz **out, uint8_t *bytes, size_t size) {
  Npz *npz = calloc(1, sizeof *npz);
  *out = npz;
  if (!npz) {
    free(bytes);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for an archive");
  }
  npz->bytes = bytes;
  npz->size = size;
  int status = find_directory(npz);
  if (status) {
    npz_close(npz);
    *out = NULL;
  }
  return status;
}

int npz_parse(Npz **npz, const void *bytes, size_t size) {
  *npz = NULL;
  uint8_t *copy = malloc(size + 1);
  if (!copy)
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", size_of_bytes((double)size).text);
  memcpy(copy, bytes, size);
  return make(npz, copy, size);
}

int npz_open(Npz **npz, const char *path) {
  *npz = NULL;
  char *bytes;
  size_t size;
  TRY(input_bytes(path, &bytes, &size));
  int status = make(npz, (uint8_t *)bytes, size);
  return status ? bfm_fail_prefix(status, "%s: ", path) : BFM_OK;
}

void npz_close(Npz *npz) {
  if (!npz) return;
  free(npz->bytes);
  free(npz);
}
