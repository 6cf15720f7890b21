// Tasks: named rewards of the domains, each an expression of the reward language.

#ifndef BFM_ENVS_TASKS_H
#define BFM_ENVS_TASKS_H

#include "envs/domain.h"

typedef enum {
  TASK_KNOWN,   // in the datasets: agents were trained on it
  TASK_NEW,     // only asked for at test time
  TASK_PROMPT,  // an example of what a user may type: the paper's, and dm_control's own for jaco
} TaskKind;

typedef struct {
  const char *domain, *name;
  TaskKind kind;
  // NULL: only steps have this reward. A known task of a domain with a step_reward is paid by that,
  // and its expression is what a prompt asks for
  const char *expression;
  const char *help;
} Task;

// the domain's task of this name, NULL when there is none
const Task *task_find(const char *domain, const char *name);
// the domain's task number i, NULL after the last
const Task *task_at(const char *domain, int i);
// a text that is no task became a refused expression: where it has a task's name inside, or is one
// word that nothing is called by, maybe a task's name mistyped, the refusal says so. Returns the
// status
int task_suggest(const World *world, const char *text, int status);

#endif
