// Warnings about rewards that depend on what the observations do not show, and about changed robots. An
// agent's prompt states tell more than random states, because a reward may be rare.

#include "cli/warn.h"

#include <stdio.h>

#include "envs/registry.h"
#include "envs/symmetry.h"
#include "envs/tasklist.h"

static void say(const char *reward, const char *warning) {
  if (*warning) fprintf(stderr, "bfm: warning: %s: %s\n", reward, warning);
}

void warn_of_prompt(bfm_agent *agent, const char *reward) {
  char warning[SYMMETRY_TEXT];
  if (!bfm_agent_prompt_warning(agent, reward, warning, sizeof warning)) say(reward, warning);
}

void warn_of_tasks(const char *env, const char *list) {
  TaskList tasks;
  char warning[SYMMETRY_TEXT];
  if (tasklist_parse(&tasks, env, list)) return;
  for (int i = 0; i < tasks.count; i++) {
    if (!symmetry_warning(env, tasks.text[i], NULL, warning, sizeof warning)) {
      say(tasks.text[i], warning);
    }
  }
  tasklist_free(&tasks);
}

void warn_of_robot(const char *env) {
  const char *path;
  if (!registry_has_changed(env, &path)) return;
  fprintf(stderr,
          "bfm: warning: %s has changed since %s was read from it; the file's own robot is used\n",
          path, env);
}
