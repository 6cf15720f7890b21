// A client's message: JSON text, checked and bounded here, as a plain struct. Nothing behind this file
// sees what a client sent in another form.

#ifndef BFM_SERVE_MESSAGE_H
#define BFM_SERVE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef enum {
  SAY_OPEN,
  SAY_CHECK,
  SAY_PROMPT,
  SAY_GHOST,
  SAY_PAUSE,
  SAY_STEP,
  SAY_RESET,
  SAY_SPEED,
  SAY_ACT,
  SAY_DRAG,
  SAY_RELEASE,
  SAY_PUSH,
  SAY_TAKE,
  SAY_CANCEL,
  SAY_ACK,
} Say;

typedef enum { PROMPT_REWARD, PROMPT_GOAL, PROMPT_POSE, PROMPT_DEMO, PROMPT_Z } PromptKind;
typedef enum { TAKE_FILM, TAKE_Z, TAKE_TRAJECTORY } TakeKind;
typedef enum { RESET_START, RESET_RANDOM } ResetKind;

enum {
  MESSAGE_BYTES = 16384,   // the longest message
  MESSAGE_TEXT = 2000,     // characters of a formula, and a final 0
  MESSAGE_NUMBERS = 1024,  // of an array: qpos or z
  SLOTS_MAX = 4,
};

// Fields that a message does not have are 0; each is within the range that docs/playground.md names.
typedef struct {
  Say say;
  int kind;    // a PromptKind, TakeKind or ResetKind
  int64_t id;  // answers carry it
  int slot;    // -1: all slots
  int on;      // of pause; of ghost: 0 is "off"
  int slots, es, body;
  int64_t seed, seq;
  double seconds, ramp, softmax, factor, noise;
  double at[3], to[3];  // of drag; of push: `to` is the impulse
  char text[MESSAGE_TEXT];
  int count;  // of numbers
  double numbers[MESSAGE_NUMBERS];
} Message;

// Read a message of `size` bytes. On failure the error is one sentence for the client, and message->id
// is the message's if it could be read, else 0.
int message_read(Message *message, const char *text, size_t size);

#endif
