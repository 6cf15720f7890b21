// What an agent is asked to do, as flags: --reward, --task, --goal, --demo or --z. The same for
// every subcommand that prompts.

#ifndef BFM_CLI_ASK_H
#define BFM_CLI_ASK_H

#include <argp.h>
#include <cjson/cJSON.h>

#include "bfm.h"

typedef struct {
  const char *reward, *task, *goal, *demo, *z;  // one of them is given
  double softmax;
} Ask;

// a child parser; its input is an Ask
extern const struct argp ask_argp;

// the temperature of --softmax; what is none ends the program with a sentence
double ask_softmax(const char *arg);

// whether one of them is given, and no other
int ask_check(const Ask *ask);

// that a goal's file has a state's arrays of numbers, of whatever lengths
int ask_check_goal(const cJSON *goal, const char *path);

// z [d] of what is asked; said: a sentence about it, may be empty
int ask_z(const Ask *ask, bfm_agent *agent, float *z, char *said, size_t size);

// name and text of the flag that was given; where none was, they stay as they are
void ask_given(const Ask *ask, const char **name, const char **text);

#endif
