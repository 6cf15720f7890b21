// What bfm eval and bfm bias share: models of one domain that act one after the other in whole
// episodes of tasks, the flags that say how, and the column of tasks in their tables.

#ifndef BFM_CLI_EVAL_COMMON_H
#define BFM_CLI_EVAL_COMMON_H

#include "bfm.h"
#include "cli/cli.h"
#include "core/progress.h"
#include "envs/tasklist.h"

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
} EvalCommon;

// ready to parse --tasks, --json, --quiet, the models and the flags; so many episodes by default
int eval_common_new(EvalCommon *judge, int argc, const char *episodes);
void eval_common_free(EvalCommon *judge);

// hand itself to its parsers: to be called with ARGP_KEY_INIT
void eval_common_init(struct argp_state *state, EvalCommon *judge);

// the model whose turn it is says its domain: the first one's is that of all, and of the tasks,
// those of --tasks or else of this list
int eval_common_take_env(EvalCommon *judge, const char *env, const char *list);

// read the agent whose turn it is; the first one chooses domain and tasks
int eval_common_load(EvalCommon *judge, bfm_agent **agent);

// the episodes to act in
bfm_evaluation eval_common_plan(EvalCommon *judge);

// the width of a column of tasks; a longer name is cut there
#define TASK_WIDTH 48
int task_width(const TaskList *tasks);
void print_task(const char *task, int width);

#endif
