// One of the robots of a play: its prompt and its way there, and what is measured of it.

#ifndef BFM_SERVE_SLOT_H
#define BFM_SERVE_SLOT_H

#include "serve/ask.h"
#include "serve/past.h"
#include "serve/touch.h"

enum { SLOT_FRESH = 256 };  // steps that a message may tell of

// a measurement of a control step
typedef struct {
  double reward;
  double value, spread;  // NaN: none
} Measure;

typedef struct {
  Ask *ask;             // the present prompt, or NULL
  Ask *next;            // the prompt from the next control step on, or NULL
  double ramp, ramped;  // simulated seconds that z takes to its prompt, and those so far
  double next_ramp;
  float *from, *z;  // [d] where the ramp began, and now

  float *obs, *act;  // [·] of the present control step
  double *wide;      // [act] the action, for the simulation
  Measure now;       // of the present control step
  double reward;     // of the last one
  int lost;          // no action could be computed for its observation
  uint32_t step;     // control steps since its start
  int resets;        // starts by itself: it fell or diverged
  Past *past;

  Drag drag;
  Push push, pushing;  // to come, and of the present control step

  double *window;  // [second] rewards of the last second, a ring
  int second, count, at;
  double speed, height;
  Measure fresh[SLOT_FRESH];  // of the steps since the last message
  int fresh_count;

  void *memory;
} Slot;

int slot_new(Slot *slot, const Model *model);
void slot_free(Slot *slot);

// begin a control step of `dt` seconds: take up the next prompt, and go on with the ramp of z
void slot_begin(Slot *slot, int64_t d, double dt);

// the control step is done; its Measure is in `now`
void slot_end(Slot *slot);

// its robot was set to a start
void slot_restart(Slot *slot);

// an element of `slots` in the message `stats`; forgets the fresh steps
cJSON *slot_stats(Slot *slot, int members);

#endif
