// The paper's tables as runs. A table is domains × kinds of data × methods; each of these cells is
// a training run with several seeds, whose evaluation goes to a ledger. Cells of different tables
// that ask for the same run share it.

#ifndef BFM_PAPER_PAPER_H
#define BFM_PAPER_PAPER_H

#include <signal.h>

#include "core/options.h"
#include "envs/tasks.h"
#include "paper/ledger.h"

typedef struct {
  const char *name, *help;
  const char *numbers;             // results/paper/NUMBERS.csv, NULL: the paper has a figure only
  const char *domains, *data;      // words
  int64_t steps, seeds, episodes;  // what the paper's numbers stand for
} PaperTable;

typedef struct {
  const char *table, *method;  // as the paper calls it
  const char *options;         // of the agent: "algo=fb-aware blocks=8"
  int es;                      // shown with evaluation-based sampling
} PaperMethod;

// row number i, NULL after the last
const PaperTable *paper_table_at(int i);
int paper_table_find(const PaperTable **table, const char *name);  // suggests the nearest name

#define PAPER_TEXT 256

typedef struct {
  const PaperTable *table;
  const PaperMethod *method;
  char domain[32], data[32];
  char run[PAPER_TEXT];  // what is run: "walker mood algo=fb-aw d=64"
} PaperCell;

// cell number i of a table, 0 after the last
int paper_cell_at(const PaperTable *table, int i, PaperCell *cell);
// whether each word of a filter ("walker FB-AW") is the domain, the data or in the method's name
int paper_cell_matches(const PaperCell *cell, const char *filter);
int paper_check_filter(const PaperTable *table, const char *filter);  // that it leaves a cell

// ---------------------------------- the paper's numbers ------------------------------------------

typedef struct {
  char domain[32], task[64], method[64];
  double mean, std;  // NaN: none
} PaperNumber;

typedef struct {
  PaperNumber *numbers;
  int count;
} PaperNumbers;

// of a table, below the folder of results; none when the paper has a figure only
int paper_numbers_read(PaperNumbers *numbers, const PaperTable *table, const char *results);
void paper_numbers_free(PaperNumbers *numbers);
// task may be a group: "in", "new" or "all"; NULL: the paper has none
const PaperNumber *paper_number(const PaperNumbers *numbers, const PaperCell *cell,
                                const char *task);
// whether a task is of a group, for the data of a cell
int paper_in_group(const PaperCell *cell, const Task *task, const char *group);
// the paper's mean and std; of a group that it has none for, the mean of its tasks where all are
// there. NaN: none
double paper_value(const PaperNumbers *numbers, const PaperCell *cell, const char *task,
                   double *std);

// a return as the table has it: D4RL's normalized by the paper's references, others as they are
double paper_score(const PaperCell *cell, const char *task, double value);

// ---------------------------------- ours ---------------------------------------------------------

typedef struct {
  double mean, std;  // over seeds
  int seeds;
  int64_t steps, episodes;
  const char *more;  // options beside the table's
} PaperOurs;

// what the ledger has of a cell's task or group of tasks ("in", "new", "all"); 0: nothing. Runs
// with the table's options alone come before others, more steps before fewer
int paper_ours(const Ledger *ledger, const PaperCell *cell, const char *task, PaperOurs *ours);

// ---------------------------------- running ------------------------------------------------------

typedef struct {
  int64_t steps, seeds, episodes, data_steps, eval_every, eval_steps;  // 0: as the table says
  char data[OPTION_TEXT_SIZE], runs[OPTION_TEXT_SIZE], results[OPTION_TEXT_SIZE];
  char filter[OPTION_TEXT_SIZE];
} PaperSettings;

extern const Option paper_options[];

typedef struct {
  const PaperTable *table;
  PaperSettings settings;
  const char *options;  // of the agent, a JSON object: before the table's, and noted in the ledger
  int quiet;
  const volatile sig_atomic_t *stop;
  void (*say)(const char *line);  // what is done next
} PaperPlan;

// run what is not in the ledger: collect data, train, evaluate; goes on where a call was cut
int paper_run(const PaperPlan *plan);

#endif
