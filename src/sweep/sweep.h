// bfm sweep: many collections and trainings from one text file, shared out among processes on any number
// of machines. The file is read into cells; a cell is one run of bfm collect or bfm train.

#ifndef BFM_SWEEP_SWEEP_H
#define BFM_SWEEP_SWEEP_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>

#include "bfm.h"
#include "sweep/claim.h"

#define SWEEP_CELLS 10000  // at most

typedef enum {
  CELL_WAITING,   // has no result yet
  CELL_FINISHED,  // has a result in the ledger
  CELL_FAILED,    // has an error in the ledger
} CellState;

// a dataset of a training
typedef struct {
  int cell;          // the collection that makes it; -1: it is a file …
  const char *path;  // … as the sweep's file names it
} SweepData;

typedef struct {
  int collect;        // 1: a collection, 0: a training
  cJSON *options;     // texts by name, in the order of the file; paths as in the file
  cJSON *data;        // of a training: the names of its datasets
  char label[256];    // of a collection: its name and what varies, such as "mood seed=1"
  SweepData *inputs;  // [input_count] of a training
  int input_count;
  CellState state;
  CellClaim claim;  // its name is that of the cell, of its folder and of its dataset
  int retried;      // the number of the claim whose failure may be tried again; 0: none
  double pause;     // do not take the cell before this time of seconds_now
} SweepCell;

typedef struct {
  const char *path;  // of the file
  SweepCell *cells;  // collections, then trainings, in the order of the file
  int count;
} Sweep;

// Read and check the file: options, their values, which of them belong together, paths, duplicates.
int sweep_read(Sweep *sweep, const char *path);
void sweep_free(Sweep *sweep);

// the command that runs a cell alone, such as "bfm train runs/s/data/x.h5 --algo fb -o runs/s/train/y"
void sweep_print_command(const Sweep *sweep, const SweepCell *cell, const char *folder, FILE *out);

// FOLDER/train/NAME or FOLDER/data/NAME.h5
int sweep_output(const SweepCell *cell, const char *folder, char out[PATH_MAX]);

// The path of a dataset of a training.
int sweep_input(const Sweep *sweep, const SweepData *data, const char *folder, char out[PATH_MAX]);

// an option's value at run time: paths that are relative to the sweep's file are completed
int sweep_value(const Sweep *sweep, const SweepCell *cell, const cJSON *option, char out[PATH_MAX]);

// ---------------------------------- running ------------------------------------------------------

#define SWEEP_LEDGER "ledger"  // of the folder: claims, and a file of results per process
#define SWEEP_LINE "a result of bfm sweep"

typedef struct {
  const char *folder;
  const char *machine;  // options that say where a cell runs, as JSON: device, threads
  double expire;        // seconds without a renewal until a claim of another machine is dead
  int retry, leave;     // run failed cells again; leave when all cells are taken
  bfm_progress_callback *progress;                  // of the cell that runs
  void (*report)(void *context, const char *line);  // called with a line about the next step
  void *context;                                    // of both functions
} SweepPlan;

// how far the sweep is, for a progress line
typedef struct {
  int total, finished, failed, elsewhere;  // cells; elsewhere: held by other processes
  double seconds_left;                     // NaN: not known yet
} SweepCount;

// Run cells until all have a result. *count is kept up to date for `progress`. A call continues where an
// interrupted one stopped.
int sweep_run(const SweepPlan *plan, Sweep *sweep, SweepCount *count);

// Find the state of every cell without claiming any. A folder that does not exist has no results.
int sweep_look(Sweep *sweep, const char *folder, SweepCount *count);

#endif
