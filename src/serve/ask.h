// What a robot was told, worked out: z, how its reward is measured while it moves, and what the client
// is told about it. Made by a worker, never changed afterwards, and shared by the robots that have it.

#ifndef BFM_SERVE_ASK_H
#define BFM_SERVE_ASK_H

#include <cjson/cJSON.h>
#include <stdatomic.h>

#include "envs/tasks.h"
#include "serve/message.h"
#include "serve/models.h"

enum { HISTOGRAM_BINS = 40, ASK_TEXT = 1024 };

// the values of a reward at the prompt states; count 0: there are none
typedef struct {
  int64_t count;
  double lo, hi, mean;
  int counts[HISTOGRAM_BINS];
} Histogram;

typedef struct {
  atomic_int users;
  Message said;  // the client's message
  float *demo;   // [demo_count, obs] the states of a demonstration, or NULL
  int64_t demo_count;
  float *z;               // [d]
  double *ghost;          // [nq] the state of a goal or a pose, or NULL
  Histogram values;       // of a reward
  Reward *reward;         // the reward of a state or a step, for one thread at a time, or NULL
  int of_step;            // whether `reward` is that of a step
  const Task *task;       // the reward of a step, by Domain.step_reward, or NULL
  char report[ASK_TEXT];  // a line for people
  char warning[ASK_TEXT];
  double seconds;  // that it took
} Ask;

// Work out a prompt. demo [demo_count, obs] has the states of a demonstration. Stops at the thread's
// deadline.
int ask_new(Ask **ask, const Model *model, const Message *said, const float *demo,
            int64_t demo_count);

// the same prompt for a newer model of the same run
int ask_again(Ask **ask, const Model *model, const Ask *before);

// one more user of it; and one less, NULL is allowed
Ask *ask_share(Ask *ask);
void ask_release(Ask *ask);

const char *ask_kind(const Ask *ask);   // "reward", "goal", …
const char *ask_words(const Ask *ask);  // its text, or its report if it has none

// the message `prompted`
cJSON *ask_prompted(const Ask *ask, int64_t d, int64_t nq);

// Check the text of a reward or a goal without computing z, and answer with the message `checked`, also
// for an error. A text that took too long, or a check that was cancelled, is a failure.
int ask_check(const Model *model, const Message *said, cJSON **checked);

// add the sentence and the place of the thread's last error
void ask_add_error(cJSON *answer, int kind);

#endif
