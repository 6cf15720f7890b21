// Tasks: named rewards of the domains, each an expression of the reward language.

#ifndef BFM_ENVS_TASKS_H
#define BFM_ENVS_TASKS_H

#include "envs/domain.h"

typedef enum {
  TASK_KNOWN,   // a task of the datasets
  TASK_NEW,     // a task that is used only for tests
  TASK_PROMPT,  // an example of what users may type: the paper's prompts
} TaskKind;

struct Task {
  const char *name;
  TaskKind kind;
  const char *expression;  // the reward of a state; NULL: only steps have this reward
  const char *help;
  // The reward of a step, as for reward_new_step. If the domain has a step_reward, that is the reward
  // of its known tasks, and the expression is only for prompts.
  const char *step;
};

// the domain's task of this name, or NULL
const Task *task_find(const char *domain, const char *name);
// the domain's task number i, NULL after the last
const Task *task_at(const char *domain, int i);
// whether the reward of a task depends on more than the state
int task_needs_step(const Domain *domain, const Task *task);
// … and whether that is so for one of the domain's tasks
int domain_rewards_steps(const Domain *domain);
// Improves the error for a text that is neither a task nor a valid expression: if it contains the
// name of a task, or is a single word that resembles one, the error says so. Returns the status.
int task_suggest(const World *world, const char *text, int status);

#endif
