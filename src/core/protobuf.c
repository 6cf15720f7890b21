// Protocol Buffers: a field is its number and type, then its value. Numbers are varints, seven bits a
// byte. The length of a message stands before it, but is known only at its end: proto_end moves the
// message to make room for it.

#include "core/protobuf.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"

enum { VARINT = 0, LENGTH = 2, VARINT_MOST = 10 };  // types of fields; most bytes of a varint

void proto_free(Proto *p) {
  free(p->bytes);
  *p = (Proto){.bytes = NULL};
}

int proto_check(const Proto *p) {
  return p->failed ? bfm_fail(BFM_NO_MEMORY, "out of memory after %zu bytes", p->size) : BFM_OK;
}

// appends `size` bytes, which the caller fills; NULL: out of memory
static unsigned char *grow(Proto *p, size_t size) {
  if (p->failed) return NULL;
  if (p->room - p->size < size) {
    size_t room = 2 * p->room > p->size + size ? 2 * p->room : p->size + size;
    unsigned char *bytes = realloc(p->bytes, room);
    p->failed = !bytes;
    if (!bytes) return NULL;
    p->bytes = bytes;
    p->room = room;
  }
  p->size += size;
  return p->bytes + p->size - size;
}

static size_t varint(unsigned char out[VARINT_MOST], uint64_t value) {
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) out[n++] = (unsigned char)(value | 0x80);
  out[n++] = (unsigned char)value;
  return n;
}

static void put_varint(Proto *p, uint64_t value) {
  unsigned char text[VARINT_MOST];
  size_t n = varint(text, value);
  unsigned char *at = grow(p, n);
  if (at) memcpy(at, text, n);
}

static void put_key(Proto *p, int field, int type) { put_varint(p, (uint64_t)field << 3 | type); }

void proto_int(Proto *p, int field, int64_t value) {
  put_key(p, field, VARINT);
  put_varint(p, (uint64_t)value);
}

void *proto_bytes(Proto *p, int field, size_t size) {
  put_key(p, field, LENGTH);
  put_varint(p, size);
  return grow(p, size);
}

void proto_text(Proto *p, int field, const char *text) {
  size_t size = strlen(text);
  void *at = proto_bytes(p, field, size);
  if (at) memcpy(at, text, size);
}

size_t proto_begin(Proto *p, int field) {
  put_key(p, field, LENGTH);
  return p->size;
}

void proto_end(Proto *p, size_t begun) {
  unsigned char text[VARINT_MOST];
  size_t size = p->size - begun, n = varint(text, size);
  if (!grow(p, n)) return;
  memmove(p->bytes + begun + n, p->bytes + begun, size);
  memcpy(p->bytes + begun, text, n);
}
