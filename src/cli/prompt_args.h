// The flags that give an agent its task: --reward, --task, --goal, --demo and --z. They are the same
// for every subcommand that prompts.

#ifndef BFM_CLI_PROMPT_ARGS_H
#define BFM_CLI_PROMPT_ARGS_H

#include <argp.h>

#include "bfm.h"

typedef struct {
  const char *reward, *task, *goal, *demo, *z;  // the flag's argument, NULL: not given
  double softmax;                               // 0: not given
} PromptArgs;

// A child parser; its input is a PromptArgs.
extern const struct argp prompt_args_argp;

// Parse the temperature of --softmax. If it is not a number above 0, print an error and exit.
double prompt_args_softmax(const char *arg);

// Check that exactly one task is given, and --softmax only with a reward.
int prompt_args_check(const PromptArgs *args);

// Compute z [d] of the task. `note` receives a line for people about the prompt, or "".
int prompt_args_z(const PromptArgs *args, bfm_agent *agent, float *z, char *note, size_t size);

// Get the name and the argument of the flag that was given. If none was, both stay unchanged.
void prompt_args_given(const PromptArgs *args, const char **name, const char **text);

#endif
