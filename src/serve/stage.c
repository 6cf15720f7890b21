// A client's stage: the thread that simulates its robots in real time.

#include "serve/stage.h"

#include <stdlib.h>

struct Stage {
  Models *models;
  Outbox *outbox;
};

int stage_new(Stage **out, Models *models, Outbox *outbox) {
  Stage *stage = *out = calloc(1, sizeof *stage);
  if (!stage) return bfm_fail(BFM_NO_MEMORY, "out of memory for a stage");
  stage->models = models;
  stage->outbox = outbox;
  return BFM_OK;
}

void stage_tell(Stage *stage, const Message *message) { (void)stage, (void)message; }

void stage_free(Stage *stage) { free(stage); }
