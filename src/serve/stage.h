// A client's stage: up to four robots of one model, simulated in real time on a thread of their own.
// Slow work (prompts, films) is done by the client's worker, a second thread; the robots never wait for
// it. Both send through the client's outbox and read messages that the service thread hands over.

#ifndef BFM_SERVE_STAGE_H
#define BFM_SERVE_STAGE_H

#include "serve/message.h"
#include "serve/models.h"
#include "serve/outbox.h"

typedef struct Stage Stage;

// Starts both threads, which wait for a message `open`. models and outbox must outlive the stage.
int stage_new(Stage **stage, Models *models, Outbox *outbox);

// Hand over a message; returns at once. All but `ack`, which is the outbox's. `open` names its model by
// message->text.
void stage_tell(Stage *stage, const Message *message);

// Stops and joins both threads. May take as long as the present prompt or film needs to notice.
void stage_free(Stage *stage);

#endif
