// What a client's threads share: its outbox, and the play, which one of them uses at a time.

#ifndef BFM_SERVE_BOARD_H
#define BFM_SERVE_BOARD_H

#include <pthread.h>

#include "serve/outbox.h"
#include "serve/play.h"

typedef struct {
  Models *models;
  Outbox *outbox;
  pthread_mutex_t lock;  // held while the play is used; frames are sent under it
  Play *play;            // NULL: none
  int opened;            // plays so far: tells a new one from the one before
} Board;

#endif
