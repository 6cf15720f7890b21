// The two logs of a run as curves: losses and metrics (log.jsonl), and returns by task (eval.jsonl).
// Their size is bounded, however long the run. Values are means over seeds; NaN has no point.

#ifndef BFM_SERVE_RUN_LOG_H
#define BFM_SERVE_RUN_LOG_H

#include <cjson/cJSON.h>

#include "serve/curve.h"
#include "serve/tail.h"

enum {
  LINES_MOST = 32,     // curves of losses and metrics
  RETURNS_MOST = 256,  // curves of returns: tasks, with and without es
  NAME_SIZE = 24,      // of a loss or a metric
  TASK_SIZE = 128,
  SEEDS_MOST = 64,
};

// a loss or a metric over steps
typedef struct {
  char name[NAME_SIZE];
  Curve curve;
} Line;

// returns of one task; the seeds of the present step are added up until the next step begins
typedef struct {
  char task[TASK_SIZE];
  int64_t es;
  double step, sum, squares;
  int seeds;
  Curve curve;
} Returns;

typedef struct {
  Tail log, evals;
  cJSON *last;     // the last line of the log with losses, or NULL
  double written;  // when it was written, in seconds since 1970
  char why[512];   // the reason of a divergence that is the last line of the log, or empty
  int divergences;
  Line *lines[LINES_MOST];
  int line_count;
  Returns *returns[RETURNS_MOST];
  int return_count;
} RunLog;

int run_log_open(RunLog *log, const char *folder);
void run_log_close(RunLog *log);
int run_log_look(RunLog *log);  // reads what is new; bits of tail_look

double run_log_step(const RunLog *log);  // of the last line; 0: there is none

// The number of a line, NaN where it has none; and the values of all seeds, at most SEEDS_MOST, of which
// it returns the number. In a log, NaN and infinity are texts.
double log_value(const cJSON *line, const char *name);
int log_values(const cJSON *line, const char *name, double *out);

// whether a key of a line is a metric or a counter; else it is a loss
int log_is_metric(const char *name);
int log_is_counter(const char *name);

// whether a number can be a step: finite, not negative, and exact as a double
int log_is_step(double step);

// Add a number with five digits to a message, or null if it is not finite; a text of a file, in which
// a question mark replaces what is not UTF-8: a browser would end the connection.
void log_add(cJSON *message, const char *name, double value);
void log_add_text(cJSON *message, const char *name, const char *text);

// add arrays of curves to a message (docs/playground.md); whether memory sufficed
int run_log_describe(const RunLog *log, cJSON *message);

#endif
