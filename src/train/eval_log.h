// The results of evaluations: the lines of a run's eval.jsonl, and learning curves drawn from them.

#ifndef BFM_TRAIN_EVAL_LOG_H
#define BFM_TRAIN_EVAL_LOG_H

#include <stdint.h>
#include <sys/types.h>

#include "core/options.h"

// one task of one replica at one step
typedef struct {
  int64_t step, seed, es, episodes;
  double mean, std;  // over episodes
  char task[OPTION_TEXT_SIZE];
} EvalLine;

typedef struct {
  EvalLine *lines;
  int count;
  off_t bytes;  // that the lines take in the file
} EvalLog;

// the lines up to last_step in a run's folder; none when there is no file. Reading ends at an
// incomplete line
int eval_log_read(EvalLog *log, const char *folder, int64_t last_step);
void eval_log_free(EvalLog *log);

// print a line, with its newline
void eval_log_print(const EvalLine *line, FILE *out);

// mean over the tasks of a replica at a step, with the largest es of that step; NaN: there are none
double eval_log_score(const EvalLog *log, int64_t step, int64_t seed);

// Draw the returns of one or more runs by step as path.svg and path.png: a panel for each task and
// one for their mean; curves are mean ± std over seeds. A file instead of a folder is a collector's
// log, whose steps are transitions.
int eval_log_draw(const char *const *folders, int count, const char *path);

#endif
