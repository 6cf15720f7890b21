// A client's worker: a thread for everything that takes longer than a robot may wait. Of checks, ghosts
// and the prompts of a robot the latest wins: one that waits is dropped, one that runs is cancelled.

#ifndef BFM_SERVE_WORKER_H
#define BFM_SERVE_WORKER_H

#include "serve/board.h"

typedef struct Worker Worker;

int worker_new(Worker **worker, Board *board);

// Hand over open, check, prompt, ghost, take or cancel; returns at once.
void worker_tell(Worker *worker, const Message *message);

// Cancels what it does and ends it. The play is freed, too.
void worker_free(Worker *worker);

#endif
