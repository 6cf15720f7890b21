// The paper's tables as runs. A table has one cell per domain, kind of data and method. Each cell is a
// training run with several seeds; its evaluation is appended to the ledger. Cells of different tables
// with the same run share it.

#ifndef BFM_PAPER_PAPER_H
#define BFM_PAPER_PAPER_H

#include "core/options.h"
#include "envs/tasks.h"
#include "paper/ledger.h"

typedef struct {
  const char *name, *help;
  const char *numbers;             // results/paper/NUMBERS.csv; NULL: the paper has only a figure
  const char *domains, *data;      // lists separated by spaces
  int64_t steps, seeds, episodes;  // of the paper's runs
} PaperTable;

typedef struct {
  const char *table;    // alone, or only for a domain and data: "claims walker mood-small"
  const char *method;   // as the paper calls it
  const char *options;  // of the agent, such as "algo=fb-aware blocks=8"
  int es;               // 1: evaluated with evaluation-based sampling
} PaperMethod;

// table number i, NULL after the last
const PaperTable *paper_table_at(int i);

// Find a table by name; the error of an unknown name suggests a similar one.
int paper_table_find(const PaperTable **table, const char *name);

#define PAPER_TEXT 256

typedef struct {
  const PaperTable *table;
  const PaperMethod *method;
  char domain[32], data[32];
  char run[PAPER_TEXT];  // its name in the ledger, such as "walker mood algo=fb-aw d=64"
} PaperCell;

// Get cell number i of a table; returns 0 after the last.
int paper_cell_at(const PaperTable *table, int i, PaperCell *cell);

// the agent's options of a cell: its method's and its domain's, such as "algo=fb-aw d=64"
const char *paper_options_of(const PaperCell *cell);

// the ExplorerAlgo of a cell that trains single-task agents, else -1
int paper_cell_offline(const PaperCell *cell);

// training steps of a cell, and in how many equal parts they are evaluated
int64_t paper_cell_steps(const PaperCell *cell);
int64_t paper_cell_evaluations(const PaperCell *cell);

// Return whether each word of a filter ("walker FB-AW") is the domain, the data or a word of the
// method's name.
int paper_cell_matches(const PaperCell *cell, const char *filter);

// Fail if no cell of the table matches the filter.
int paper_check_filter(const PaperTable *table, const char *filter);

// ---------------------------------- the paper's numbers ------------------------------------------

typedef struct {
  char domain[32], task[64], method[64];
  double mean, std;  // NaN: none
} PaperNumber;

typedef struct {
  PaperNumber *numbers;
  int count;
} PaperNumbers;

// Read a table's numbers from the folder of results; there are none if the paper has only a figure.
int paper_numbers_read(PaperNumbers *numbers, const PaperTable *table, const char *results);
void paper_numbers_free(PaperNumbers *numbers);

// Return the paper's number for a task or a group of tasks ("in", "new", "all"), or NULL.
const PaperNumber *paper_number(const PaperNumbers *numbers, const PaperCell *cell,
                                const char *task);

// Return whether a task belongs to a group, for the data of a cell.
int paper_in_group(const PaperCell *cell, const Task *task, const char *group);

// Return the paper's mean and set its std. If the paper has no number for a group, return the mean over
// the group's tasks. NaN: a number is missing.
double paper_value(const PaperNumbers *numbers, const PaperCell *cell, const char *task,
                   double *std);

// Convert a return to the unit of the table: D4RL's returns are normalized, others stay unchanged.
double paper_score(const PaperCell *cell, const char *task, double value);

// ---------------------------------- ours ---------------------------------------------------------

// The return of a line for a task, or the mean over a group of tasks; NaN if the line lacks one of them.
double paper_line_value(const LedgerLine *line, const PaperCell *cell, const char *task);

#define PAPER_MAX_SEEDS 64

// Get the line of each seed of a cell's run that has a task or all tasks of a group; if a seed was run
// again, its last one. Returns their number; `run` NULL: there is no run.
int paper_seeds(const Ledger *ledger, const PaperCell *cell, const LedgerLine *run,
                const char *task, const LedgerLine *lines[PAPER_MAX_SEEDS]);

typedef struct {
  double mean, std;  // over seeds; std is the sample standard deviation, NaN for a single seed
  int seeds;
  int64_t steps, episodes;
  double updates;    // of the ledger's line
  const char *more;  // options other than the table's
  int from_log;      // whether a seed was entered by bfm paper add
} PaperOurs;

// Get our number for a task or group of tasks ("in", "new", "all"), over the seeds of a cell's run
// (paper/compare.h chooses it). Returns 0 if there is none; `run` NULL: there is no run.
int paper_ours(const Ledger *ledger, const PaperCell *cell, const LedgerLine *run, const char *task,
               PaperOurs *ours);

// ---------------------------------- running ------------------------------------------------------

typedef struct {
  int64_t steps, seeds, episodes, data_steps, eval_every, eval_steps;  // 0: the table's value
  char data[OPTION_TEXT_SIZE], runs[OPTION_TEXT_SIZE], results[OPTION_TEXT_SIZE];
  char filter[OPTION_TEXT_SIZE];
} PaperSettings;

extern const Option paper_options[];

typedef struct {
  const PaperTable *table;
  PaperSettings settings;
  const char *options;  // of the agent, a JSON object; override the table's, recorded in the ledger
  bfm_progress_callback *progress;                  // of collecting, training and waiting
  void (*report)(void *context, const char *line);  // called with a line about the next step
  void *context;                                    // of both functions
} PaperPlan;

// Run the cells that are not in the ledger: collect data, train, evaluate. A call continues where an
// interrupted one stopped.
int paper_run(const PaperPlan *plan);

#endif
