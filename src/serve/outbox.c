// What waits to be sent to one client: a queue of texts, blobs and pieces, and the latest frame beside
// it. A frame goes before the queue, so that a long download does not hold up the picture; only the
// scene that explains it, and the scene's meshes, must be sent first.

#include "serve/outbox.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"

typedef struct Item {
  struct Item *next;
  unsigned char *memory;  // OUTBOX_FRONT bytes, then the message
  size_t size;
  int binary, piece;
} Item;

struct Outbox {
  pthread_mutex_t lock;
  pthread_cond_t changed;  // for those who wait to put in a piece
  void (*wake)(void *context);
  void *context;
  int closed, failed;

  Item *first, **last;
  size_t bytes;          // in the queue
  int pieces;            // in the queue
  int64_t put, taken;    // numbers of items
  int64_t before_frame;  // this many items must have been taken before a frame is

  Item *frame;
  int64_t sent, acked;            // numbers of the last frames
  double sent_at[OUTBOX_WINDOW];  // of frame n at n % OUTBOX_WINDOW
};

int outbox_new(Outbox **out, void (*wake)(void *context), void *context) {
  Outbox *o = *out = calloc(1, sizeof *o);
  if (!o) return bfm_fail(BFM_NO_MEMORY, "out of memory for a client");
  pthread_mutex_init(&o->lock, NULL);
  pthread_cond_init(&o->changed, NULL);
  o->wake = wake;
  o->context = context;
  o->last = &o->first;
  return BFM_OK;
}

// ---------------------------------- items --------------------------------------------------------

// a copy of the bytes; NULL when out of memory
static Item *item_new(const void *bytes, size_t size, int binary) {
  Item *item = calloc(1, sizeof *item);
  if (item) item->memory = malloc(OUTBOX_FRONT + size);
  if (!item || !item->memory) {
    free(item);
    return NULL;
  }
  memcpy(item->memory + OUTBOX_FRONT, bytes, size);
  item->size = size;
  item->binary = binary;
  return item;
}

static void item_free(Item *item) {
  if (item) free(item->memory);
  free(item);
}

static void clear(Outbox *o) {
  while (o->first) {
    Item *item = o->first;
    o->first = item->next;
    item_free(item);
  }
  o->last = &o->first;
  item_free(o->frame);
  o->frame = NULL;
  o->bytes = 0;
  o->pieces = 0;
}

void outbox_free(Outbox *o) {
  if (!o) return;
  clear(o);
  pthread_cond_destroy(&o->changed);
  pthread_mutex_destroy(&o->lock);
  free(o);
}

// ---------------------------------- putting in ---------------------------------------------------

// Append an item, which may be NULL for lack of memory. With `scene`, frames wait until it is taken,
// and a frame of the scene before is dropped.
static void append(Outbox *o, Item *item, int scene) {
  o->failed |= !item || o->bytes + item->size > OUTBOX_BYTES;
  if (o->closed || o->failed) {
    item_free(item);
    return;
  }
  *o->last = item;
  o->last = &item->next;
  o->bytes += item->size;
  o->pieces += item->piece;
  o->put++;
  if (!scene) return;
  o->before_frame = o->put;
  item_free(o->frame);
  o->frame = NULL;
}

static void append_and_wake(Outbox *o, Item *item, int scene) {
  pthread_mutex_lock(&o->lock);
  append(o, item, scene);
  pthread_mutex_unlock(&o->lock);
  o->wake(o->context);
}

// A client must break the connection if a text is not UTF-8: replace bytes that are not. Error messages
// quote what a user typed, perhaps cut off in the middle of a character.
static void repair_utf8(char *text) {
  for (unsigned char *c = (unsigned char *)text; *c;) {
    int more = *c < 0x80 ? 0 : *c >= 0xc2 && *c < 0xe0 ? 1 : *c >= 0xe0 && *c < 0xf0 ? 2 : -1;
    if (*c >= 0xf0 && *c < 0xf5) more = 3;
    int good = more >= 0;
    for (int i = 1; i <= more && good; i++) good = (c[i] & 0xc0) == 0x80;
    // forms that are too long, surrogates, and numbers above 0x10ffff
    if (good && more > 1) {
      good = !(*c == 0xe0 && c[1] < 0xa0) && !(*c == 0xed && c[1] > 0x9f) &&
             !(*c == 0xf0 && c[1] < 0x90) && !(*c == 0xf4 && c[1] > 0x8f);
    }
    if (!good) *c = '?';
    c += good ? more + 1 : 1;
  }
}

void outbox_text(Outbox *o, cJSON *object) {
  char *text = object ? cJSON_PrintUnformatted(object) : NULL;
  const cJSON *type = cJSON_GetObjectItemCaseSensitive(object, "type");
  int scene = cJSON_IsString(type) && !strcmp(type->valuestring, "scene");
  cJSON_Delete(object);
  if (text) repair_utf8(text);
  append_and_wake(o, text ? item_new(text, strlen(text), 0) : NULL, scene);
  free(text);
}

void outbox_blob(Outbox *o, const void *bytes, size_t size) {
  int scene = size && *(const unsigned char *)bytes == 2;
  append_and_wake(o, item_new(bytes, size, 1), scene);
}

int outbox_piece(Outbox *o, const void *bytes, size_t size, const int *cancel) {
  Item *item = item_new(bytes, size, 1);
  if (item) item->piece = 1;
  pthread_mutex_lock(&o->lock);
  while (!o->closed && !o->failed && o->pieces >= OUTBOX_PIECES &&
         !(cancel && __atomic_load_n(cancel, __ATOMIC_ACQUIRE))) {
    struct timespec soon;  // nobody signals a change of *cancel
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 50 * 1000 * 1000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&o->changed, &o->lock, &soon);
  }
  int stopped = o->closed || o->failed || (cancel && __atomic_load_n(cancel, __ATOMIC_ACQUIRE));
  if (stopped) item_free(item);
  else append(o, item, 0);
  pthread_mutex_unlock(&o->lock);
  if (stopped) return bfm_fail(BFM_INTERRUPTED, "the download was stopped");
  o->wake(o->context);
  return BFM_OK;
}

void outbox_frame(Outbox *o, const void *bytes, size_t size) {
  Item *frame = item_new(bytes, size, 1);
  pthread_mutex_lock(&o->lock);
  Item *old = o->frame;
  if (o->closed) {
    old = frame;
  } else if (frame) {  // out of memory: the frame before is as good
    o->frame = frame;
  } else {
    old = NULL;
  }
  pthread_mutex_unlock(&o->lock);
  item_free(old);
  o->wake(o->context);
}

void outbox_ack(Outbox *o, int64_t seq) {
  pthread_mutex_lock(&o->lock);
  if (seq > o->acked && seq <= o->sent) o->acked = seq;
  int waits = o->frame != NULL;
  pthread_mutex_unlock(&o->lock);
  if (waits) o->wake(o->context);
}

void outbox_close(Outbox *o) {
  pthread_mutex_lock(&o->lock);
  o->closed = 1;
  clear(o);
  pthread_cond_broadcast(&o->changed);
  pthread_mutex_unlock(&o->lock);
}

// ---------------------------------- taking out ---------------------------------------------------

static Item *take_frame(Outbox *o) {
  Item *frame = o->frame;
  o->frame = NULL;
  o->sent++;
  o->sent_at[o->sent % OUTBOX_WINDOW] = seconds_now();
  uint32_t seq = (uint32_t)o->sent;
  memcpy(frame->memory + OUTBOX_FRONT + 4, &seq, sizeof seq);
  return frame;
}

static Item *take_first(Outbox *o) {
  Item *item = o->first;
  o->first = item->next;
  if (!o->first) o->last = &o->first;
  o->bytes -= item->size;
  o->pieces -= item->piece;
  o->taken++;
  if (item->piece) pthread_cond_signal(&o->changed);
  return item;
}

int outbox_take(Outbox *o, Parcel *parcel) {
  Item *item = NULL;
  pthread_mutex_lock(&o->lock);
  int ready = o->frame && o->sent - o->acked < OUTBOX_WINDOW && o->taken >= o->before_frame;
  if (ready) item = take_frame(o);
  else if (o->first) item = take_first(o);
  pthread_mutex_unlock(&o->lock);
  if (!item) return 0;
  *parcel = (Parcel){.memory = item->memory, .size = item->size, .binary = item->binary};
  free(item);
  return 1;
}

int outbox_failed(Outbox *o) {
  pthread_mutex_lock(&o->lock);
  int failed = o->failed;
  pthread_mutex_unlock(&o->lock);
  return failed;
}

double outbox_unanswered(Outbox *o) {
  pthread_mutex_lock(&o->lock);
  int64_t oldest = o->acked + 1;
  double since = o->sent > o->acked ? seconds_now() - o->sent_at[oldest % OUTBOX_WINDOW] : 0;
  pthread_mutex_unlock(&o->lock);
  return since;
}
