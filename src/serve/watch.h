// A run's folder, read while it grows: how far the run is, what it has returned and lost, and whether
// it is healthy. Nothing in the folder is changed, and the run does not notice.

#ifndef BFM_SERVE_WATCH_H
#define BFM_SERVE_WATCH_H

#include <cjson/cJSON.h>

#include "core/status.h"

typedef struct Watch Watch;

int watch_new(Watch **watch, const char *folder, const char *label);
void watch_free(Watch *watch);

// Read what is new. Returns whether the message changed; *more: there is more to read at once
int watch_look(Watch *watch, int *more);

// The message `run` (docs/playground.md) without model_step; NULL when memory ran out
cJSON *watch_message(const Watch *watch);

#endif
