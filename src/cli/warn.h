// Warnings to standard error: about rewards that depend on what the observations do not show, and about
// robots whose files have changed.

#ifndef BFM_CLI_WARN_H
#define BFM_CLI_WARN_H

#include "bfm.h"

// Warn about a reward that an agent is prompted with. An error is left to the prompt itself.
void warn_of_prompt(bfm_agent *agent, const char *reward);

// Warn about the rewards in a list of tasks that agents of a domain are trained or evaluated with.
void warn_of_tasks(const char *env, const char *list);

// Warn if the files of a user's own robot are not those any more that a dataset or model was made with.
void warn_of_robot(const char *env);

#endif
