// Finding tasks. The tasks of dm_control are its formulas, term by term, over the aliases of the domain;
// the paper's new tasks are products of tolerances between 0 and 1.

#include "envs/tasks.h"

#include <stdio.h>
#include <string.h>

#include "core/suggest.h"
#include "envs/quantities.h"
#include "envs/reward.h"

static const Task none[] = {{.name = NULL}};

static const Task *tasks_of(const Domain *domain) {
  return domain && domain->tasks ? domain->tasks : none;
}

static const Task *tasks_named(const char *name) {
  const Domain *domain;
  return domain_find(&domain, name) ? none : tasks_of(domain);
}

const Task *task_find(const char *domain, const char *name) {
  for (const Task *task = tasks_named(domain); task->name; task++) {
    if (!strcmp(task->name, name)) return task;
  }
  return NULL;
}

const Task *task_at(const char *domain, int index) {
  const Task *task = tasks_named(domain);
  for (int i = 0; task->name && i < index; i++) task++;
  return task->name ? task : NULL;
}

int task_needs_step(const Domain *domain, const Task *task) {
  return task->step || (domain->step_reward && task->kind == TASK_KNOWN);
}

int domain_rewards_steps(const Domain *domain) {
  for (const Task *task = tasks_of(domain); task->name; task++) {
    if (task_needs_step(domain, task)) return 1;
  }
  return 0;
}

int task_suggest(const World *world, const char *text, int status) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  if (status != BFM_BAD_ARGUMENT) return status;
  if (strncmp(bfm_error(), REWARD_UNKNOWN, strlen(REWARD_UNKNOWN))) return status;
  const char *domain = world->domain->name;
  const char *unknown = bfm_error() + strlen(REWARD_UNKNOWN " '");
  for (const Task *task = tasks_of(world->domain); task->name; task++) {
    size_t length = strlen(task->name);
    if (strncmp(unknown, task->name, length) || unknown[length] != '\'') continue;
    return bfm_fail(status,
                    "the task %s is a whole reward and cannot be part of an expression; bfm tasks "
                    "%s shows its formula",
                    task->name, domain);
  }
  if (text[strspn(text, letters)]) return status;
  Suggestion nearest = {.word = text};
  for (const Task *t = tasks_of(world->domain); t->name; t++) suggest_try(&nearest, t->name);
  const char *best = nearest.best;  // the nearest task; a nearer quantity was suggested already
  quantities_nearest(world->model, &nearest);
  for (const Alias *a = world->domain->aliases; a && a->name; a++) suggest_try(&nearest, a->name);
  if (!best || nearest.best != best) return status;
  RewardPlace place = reward_error_place();
  snprintf(place.meant, sizeof place.meant, "%s", best);
  reward_error_set(place);
  return bfm_fail(status, "%s has no task and no quantity \"%s\"; did you mean the task %s?",
                  domain, text, best);
}
