// What waits to be sent to one client. Its threads put things in; the service thread takes them out.
// Texts, blobs and pieces keep their order. Of frames only the latest waits, and it is sent when the
// client has acknowledged enough of those before: a slow client sees fewer frames, not older ones. A
// frame may go before texts and pieces, but never before a message `scene`, nor its meshes and textures
// (blobs of kind 2), that were put in earlier.

#ifndef BFM_SERVE_OUTBOX_H
#define BFM_SERVE_OUTBOX_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct Outbox Outbox;

enum {
  OUTBOX_WINDOW = 6,        // frames that may be unacknowledged
  OUTBOX_BYTES = 64 << 20,  // of all that waits; a client that lets more pile up is dropped
  OUTBOX_PIECE = 64 << 10,  // bytes of a piece of a download
  OUTBOX_PIECES = 8,        // pieces that may wait
  OUTBOX_FRONT = 32,        // bytes before a message, which libwebsockets wants to have for itself
};

// `wake` is called, from any thread, when there is something to take
int outbox_new(Outbox **outbox, void (*wake)(void *context), void *context);
void outbox_free(Outbox *outbox);

// Send a JSON text. Takes the object, which may be NULL for lack of memory; then nothing is sent and
// the client is dropped, as it is when too much waits.
void outbox_text(Outbox *outbox, cJSON *object);

// Send a binary message that no other may replace; it is copied.
void outbox_blob(Outbox *outbox, const void *bytes, size_t size);

// The same, but waits while OUTBOX_PIECES of them wait. BFM_INTERRUPTED when the client is gone or
// `*cancel` is not 0.
int outbox_piece(Outbox *outbox, const void *bytes, size_t size, const int *cancel);

// Offer a frame in place of the one that waits; it is copied. Bytes 4 to 7 receive its number.
void outbox_frame(Outbox *outbox, const void *bytes, size_t size);

void outbox_ack(Outbox *outbox, int64_t seq);

// The client is gone: nothing is kept from now on, and outbox_piece returns.
void outbox_close(Outbox *outbox);

// For the service thread: the next message. The caller frees its memory.
typedef struct {
  unsigned char *memory;  // OUTBOX_FRONT bytes, then the message
  size_t size;            // of the message
  int binary;
} Parcel;

int outbox_take(Outbox *outbox, Parcel *parcel);  // whether there is one
int outbox_failed(Outbox *outbox);                // the client must be dropped
double outbox_unanswered(Outbox *outbox);  // seconds that the oldest frame waits for its ack, or 0

#endif
