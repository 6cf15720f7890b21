// What bfm eval and bfm bias share: models of one domain act one after the other in whole episodes
// of tasks. Here are the options for this, and the column of tasks in printed tables.

#ifndef BFM_CLI_EVAL_COMMON_H
#define BFM_CLI_EVAL_COMMON_H

#include "bfm.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "envs/tasklist.h"

typedef struct {
  struct {
    int64_t episodes, steps, es, seed, threads;
    int es_base;  // as in config_acting
    char device[OPTION_TEXT_SIZE];
  } options;
  Flags flags;                   // of these options
  struct argp_child parsers[3];  // children of a subcommand's own parser
  const char **models;           // their files
  int *es_bases;                 // [model_count], the es-base that each model acts by
  int model_count;
  const char *list;  // the value of --tasks, or NULL
  int json, quiet;

  char env[64];  // the models' domain, known once the first model is read
  TaskList tasks;
  Progress progress;
  int now, count;  // the index of the present model; the number of models to evaluate
} EvalCommon;

// set up the parsers of --tasks, --json, --quiet, the models and the flags; `episodes` is the default
// of --episodes
int eval_common_new(EvalCommon *common, int argc, const char *episodes);
void eval_common_free(EvalCommon *common);

// pass `common` to its parsers; call this at ARGP_KEY_INIT
void eval_common_init(struct argp_state *state, EvalCommon *common);

// take the domain of the present model. The first model decides the domain of all models and the
// tasks: those of --tasks, or else of `list`
int eval_common_take_env(EvalCommon *common, const char *env, const char *list);

// read the present agent and take its domain
int eval_common_load(EvalCommon *common, bfm_agent **agent);

// warn about the tasks that the first agent is prompted with
void eval_common_warn(const EvalCommon *common, bfm_agent *agent);

// refuse --es-base without --es; bfm play has these options too
int check_es_base(int es_base, int64_t es);

// the keys "es" and, where actions are sampled, "es_base" of a line of --json
void eval_common_add_es(const EvalCommon *common, cJSON *line, int model);

// print how the models act, for the head of a table
void eval_common_print_es(const EvalCommon *common);

// the plan of the evaluation, with the progress line in it
bfm_evaluation eval_common_plan(EvalCommon *common);

// the width of a column of tasks; longer names are cut
#define TASK_WIDTH 48
int task_width(const TaskList *tasks);
void print_task(const char *task, int width);

#endif
