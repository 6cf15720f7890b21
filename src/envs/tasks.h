// Tasks: named rewards of the domains, each an expression of the reward language.

#ifndef BFM_ENVS_TASKS_H
#define BFM_ENVS_TASKS_H

#include "envs/domain.h"

typedef enum {
  TASK_KNOWN,   // a task of the datasets
  TASK_NEW,     // a task that is used only for tests
  TASK_PROMPT,  // an example of what users may type: the paper's prompts
} TaskKind;

typedef struct {
  const char *domain, *name;
  TaskKind kind;
  // NULL: only steps have this reward. If the domain has a step_reward, that is the reward of its
  // known tasks, and the expression is only for prompts.
  const char *expression;
  const char *help;
} Task;

// the domain's task of this name, or NULL
const Task *task_find(const char *domain, const char *name);
// the domain's task number i, NULL after the last
const Task *task_at(const char *domain, int i);
// Improves the error for a text that is neither a task nor a valid expression: if it contains the
// name of a task, or is a single word that resembles one, the error says so. Returns the status.
int task_suggest(const World *world, const char *text, int status);

#endif
