// What waits for a worker, bounded: one message of each kind, and of prompts one for each robot. A newer
// one takes the place of an older one.

#ifndef BFM_SERVE_DESK_H
#define BFM_SERVE_DESK_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/message.h"
#include "serve/outbox.h"

// places on the desk, in the order in which they are worked off
enum {
  DESK_OPEN,
  DESK_ALL,
  DESK_SLOT,
  DESK_GHOST = DESK_SLOT + SLOTS_MAX,
  DESK_CHECK,
  DESK_TAKE,
  DESK_PLACES
};

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Outbox *outbox;                 // for messages that are dropped
  Message *waiting[DESK_PLACES];  // NULL: none
  Message *running;               // what the worker does, or NULL
  int running_place;
  atomic_int cancel;  // … must be given up
  int stop;
} Desk;

void desk_init(Desk *desk, Outbox *outbox);
void desk_destroy(Desk *desk);

// put a message on the desk; cancels what it replaces
void desk_put(Desk *desk, const Message *message);
// the same if nothing else waits
void desk_offer(Desk *desk, const Message *message);
// drop or cancel the message with this id; 0 if there is none
int desk_cancel(Desk *desk, int64_t id);
void desk_stop(Desk *desk);

// Wait, or until the desk has stopped.
void desk_rest(Desk *desk, double seconds);

// The next message, or NULL after `seconds` without one or when the desk has stopped. desk_done ends it.
const Message *desk_take(Desk *desk, double seconds);
void desk_done(Desk *desk);
int desk_stopped(Desk *desk);

#endif
