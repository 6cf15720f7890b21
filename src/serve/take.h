// A download: a film, a z file or a trajectory, made on a thread of its own, as a film takes longer than
// a prompt may wait.

#ifndef BFM_SERVE_TAKE_H
#define BFM_SERVE_TAKE_H

#include "serve/ask.h"
#include "serve/outbox.h"
#include "serve/past.h"

typedef struct Take Take;

typedef struct {
  Message said;
  Outbox *outbox;
  const World *world;
  Rows rows;            // of a film or a trajectory
  Ask *ask;             // what the robot follows, or NULL
  int64_t d;            // of z
  char fingerprint[9];  // of the model …
  char path[1024];      // … and its file
} TakePlan;

// Begin; takes rows and ask, also when it fails. The client gets pieces and `taken`, or `refused`.
int take_new(Take **take, TakePlan *plan);
int take_ended(const Take *take);
void take_cancel(Take *take, int64_t id);  // if it has this id
void take_free(Take *take);                // cancels it and waits

#endif
