// What bfm eval and bfm bias share: the flags of their episodes, models that must be of one domain,
// and the column of tasks in their tables.

#ifndef BFM_CLI_JUDGE_H
#define BFM_CLI_JUDGE_H

#include "core/options.h"
#include "core/progress.h"
#include "run/tasklist.h"

typedef struct {
  int64_t episodes, steps, es, seed, threads;
  char device[OPTION_TEXT_SIZE];
} EpisodeOptions;

// the table of these options, with so many episodes by default
#define EPISODE_ROWS 7
void episodes_table(Option table[EPISODE_ROWS], const char *episodes);

#define EPISODE_TASKS_HELP \
  "all (default), in (those of the datasets), new, or names and expressions with commas between"

// models act one after the other; the progress line is that of all
typedef struct {
  Progress progress;
  int now, count;  // which of so many acts
} Turns;

// what an evaluation calls after every control step; its context is a Turns
int turns_each(void *context, int64_t done, int64_t total);

// of models[0 … model], the first says which domain it is: *env, empty before; the others must agree
int episodes_domain(char *env, size_t size, const char *of_model, const char *const *models,
                    int model);

// the width of a column of tasks; a longer name is cut there
#define TASK_WIDTH 48
int task_width(const TaskList *tasks);
void print_task(const char *task, int width);

#endif
