// What bfm eval and bfm bias share: models of one domain that act one after the other in whole
// episodes of tasks, the flags that say how, and the column of tasks in their tables.

#ifndef BFM_CLI_JUDGE_H
#define BFM_CLI_JUDGE_H

#include "bfm.h"
#include "cli/cli.h"
#include "core/progress.h"
#include "run/tasklist.h"

typedef struct {
  struct {
    int64_t episodes, steps, es, seed, threads;
    char device[OPTION_TEXT_SIZE];
  } options;
  Flags flags;                   // of these options
  struct argp_child parsers[3];  // children of a subcommand's own parser
  const char **models;           // their files
  int model_count;
  const char *list;  // of tasks, as typed; NULL: none was
  int json, quiet;

  char env[64];  // of all models, once the first is read
  TaskList tasks;
  Progress progress;
  int now, count;  // whose turn it is, of so many
} Judge;

// ready to parse --tasks, --json, --quiet, the models and the flags; so many episodes by default
int judge_new(Judge *judge, int argc, const char *episodes);
void judge_free(Judge *judge);

// hand itself to its parsers: to be called with ARGP_KEY_INIT
void judge_init(struct argp_state *state, Judge *judge);

// the model whose turn it is says its domain: the first one's is that of all, and of the tasks,
// those of --tasks or else of this list
int judge_take_env(Judge *judge, const char *env, const char *list);

// read the agent whose turn it is; the first one chooses domain and tasks
int judge_load(Judge *judge, bfm_agent **agent);

// the episodes to act in
bfm_evaluation judge_plan(Judge *judge);

// the width of a column of tasks; a longer name is cut there
#define TASK_WIDTH 48
int task_width(const TaskList *tasks);
void print_task(const char *task, int width);

#endif
