// Messages of Protocol Buffers, written into one growing buffer: enough for a file of another
// program's format, such as ONNX. A failed allocation is remembered, and proto_check reports it.

#ifndef BFM_CORE_PROTOBUF_H
#define BFM_CORE_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  unsigned char *bytes;
  size_t size, room;
  int failed;  // 1: out of memory, and nothing more is written
} Proto;

void proto_free(Proto *proto);
int proto_check(const Proto *proto);  // BFM_NO_MEMORY if a write failed

// a field of the current message
void proto_int(Proto *proto, int field, int64_t value);
void proto_text(Proto *proto, int field, const char *text);
// room for a field of bytes, which the caller fills before the next write; NULL: out of memory
void *proto_bytes(Proto *proto, int field, size_t size);

// The fields between these two calls belong to a message in `field`; proto_end takes what proto_begin
// returned.
size_t proto_begin(Proto *proto, int field);
void proto_end(Proto *proto, size_t begun);

#endif
