// What bfm eval and bfm bias share.

#include "cli/judge.h"

#include <string.h>

#include "cli/cli.h"

#define AT(field) offsetof(EpisodeOptions, field)

static const Option rows[EPISODE_ROWS] = {
    {"episodes", OPTION_INT, AT(episodes), "", 1, 100000, NULL, "of each task, side by side"},
    {"steps", OPTION_INT, AT(steps), "0", 0, 1e6, NULL,
     "control steps of an episode; 0: the domain's, 1000 for most"},
    {"es", OPTION_INT, AT(es), "0", 0, 4096, NULL,
     "evaluation-based sampling: the best of so many actions by F·z; 0: the policy's mean"},
    {"seed", OPTION_INT, AT(seed), "0", 0, 9e15, NULL, "of initial states and sampled actions"},
    {"device", OPTION_TEXT, AT(device), "auto", 0, 0, NULL, "auto, cpu, cuda or cuda:n"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "CPU threads; 0: one a core"},
    {.name = NULL},
};

void episodes_table(Option table[EPISODE_ROWS], const char *episodes) {
  memcpy(table, rows, sizeof rows);
  table[0].fallback = episodes;
}

int turns_each(void *context, int64_t done, int64_t total) {
  Turns *t = context;
  char note[64];
  snprintf(note, sizeof note, "%d of %d", t->now + 1, t->count);
  t->progress.total = t->count * total;
  progress_update(&t->progress, t->now * total + done, t->count > 1 ? note : NULL);
  return cli_stop;
}

int episodes_domain(char *env, size_t size, const char *of_model, const char *const *models,
                    int model) {
  const char *path = models[model];
  if (!*of_model) return bfm_fail(BFM_BAD_ARGUMENT, "%s does not say of which domain it is", path);
  if (*env && strcmp(env, of_model)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is of %s and %s of %s: one domain at a time", models[0],
                    env, path, of_model);
  }
  snprintf(env, size, "%s", of_model);
  return BFM_OK;
}

int task_width(const TaskList *tasks) {
  size_t width = 8;
  for (int t = 0; t < tasks->count; t++) {
    size_t length = strlen(tasks->text[t]);
    if (length > width) width = length < TASK_WIDTH ? length : TASK_WIDTH;
  }
  return (int)width;
}

void print_task(const char *task, int width) {
  if (strlen(task) > (size_t)width)
    printf("%.*s…", width - 1, task);
  else
    printf("%-*s", width, task);
}
