// What an agent is asked to do, as flags: --reward, --task, --goal, --demo or --z. The same for
// every subcommand that prompts.

#ifndef BFM_CLI_PROMPT_ARGS_H
#define BFM_CLI_PROMPT_ARGS_H

#include <argp.h>
#include <cjson/cJSON.h>

#include "bfm.h"

typedef struct {
  const char *reward, *task, *goal, *demo, *z;  // one of them is given
  double softmax;
} PromptArgs;

// a child parser; its input is an PromptArgs
extern const struct argp prompt_args_argp;

// the temperature of --softmax; what is none ends the program with a sentence
double prompt_args_softmax(const char *arg);

// whether one of them is given, and no other
int prompt_args_check(const PromptArgs *ask);

// that a goal's file has a state's arrays of numbers, of whatever lengths
int prompt_args_check_goal(const cJSON *goal, const char *path);

// z [d] of what is asked; said: a sentence about it, may be empty
int prompt_args_z(const PromptArgs *ask, bfm_agent *agent, float *z, char *said, size_t size);

// name and text of the flag that was given; where none was, they stay as they are
void prompt_args_given(const PromptArgs *ask, const char **name, const char **text);

#endif
