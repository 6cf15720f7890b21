// What a client watches: up to four robots of one model from the same start, each with its prompt, and
// what is measured of them. A Play belongs to one thread at a time.

#ifndef BFM_SERVE_PLAY_H
#define BFM_SERVE_PLAY_H

#include "serve/ask.h"
#include "serve/past.h"
#include "serve/touch.h"

typedef struct Play Play;

// model must stay loaded as long as the play has it
int play_new(Play **play, const Model *model, int slots, uint64_t seed);
void play_free(Play *play);

int play_slots(const Play *play);
const Model *play_model(const Play *play);
const double *play_qpos(const Play *play, int slot);
const Past *play_past(const Play *play, int slot);

// ---------------------------------- what they are told -------------------------------------------

// From the next control step on, a robot follows this prompt; z moves there from its present one within
// `ramp` simulated seconds. The play takes the reference.
void play_ask(Play *play, int slot, Ask *ask, double ramp);
const Ask *play_asked(const Play *play, int slot);  // the last one, or NULL

// From the next control step on, act with another model of the same domain.
void play_model_set(Play *play, const Model *model);

// How actions are chosen: the best of `es`, 0: the mean; and the standard deviation of noise on them.
void play_act(Play *play, int es, double noise);

// all robots back to the start, or to the same random state
void play_reset(Play *play, ResetKind how);

// pull at a robot's body until it is called again; body 0: let go
void play_drag(Play *play, int slot, const Drag *drag);
// push it during the next control step
void play_push(Play *play, int slot, const Push *push);

// ---------------------------------- time ---------------------------------------------------------

// Simulate until `seconds` more have passed, or until `limit` seconds of real time have: time that could
// not be simulated is dropped.
void play_advance(Play *play, double seconds, double limit);

// to the end of the present control step, or through a whole one
void play_step(Play *play);

double play_time(const Play *play);     // simulated seconds so far
double play_stepped(const Play *play);  // … at the end of the last control step

// ---------------------------------- what is seen of them -----------------------------------------

size_t play_frame_bytes(const Play *play);
// Write a frame and return its bytes.
size_t play_frame(Play *play, unsigned char *out);

// the array `slots` of a message `stats`, of the steps since the last one
cJSON *play_stats(Play *play);

#endif
