// A collection from the inside, shared by the files that open it (open.c), run it (loop.c, d4rl.c)
// and evaluate and log its learners (report.c).

#ifndef BFM_COLLECT_COLLECTION_H
#define BFM_COLLECT_COLLECTION_H

#include <stdio.h>

#include "bfm.h"
#include "collect/collect.h"
#include "collect/crew.h"
#include "collect/episodes.h"
#include "core/folder.h"
#include "core/monitor.h"
#include "data/writer.h"

struct Collection {
  CollectPlan plan;
  Monitor monitor;
  CollectOptions options;
  char env_name[64];
  bfm_env *env;
  bfm_env_sizes sizes;
  int n;  // environments
  Crew crew;
  Moment moment;
  Episodes *waiting;  // rows of unfinished episodes
  Writer *writer;

  int64_t rows, first;        // transitions in file and buffer, now and when this run began
  int64_t rows_of[CREW_MAX];  // transitions of each agent
  int64_t at, began;          // control steps done, now and when this run began
  int idle;                   // control steps in which all simulations diverged, since one did not
  int64_t episodes;           // ended in this run
  int64_t updates;            // the learners' updates when this run began
  int restarted;              // a resume found no saved learners: they start from scratch
  double start, seconds;      // of this run: when it began, how long it took
  int timed_out;              // the option minutes has ended it

  Folder folder;  // of the log
  FILE *log;
  double returns[CREW_MAX];  // of the last evaluation, if there was one
  int evaluated;
  char note[256];    // "stand 512  walk 30": the returns as the note of bfm_progress
  double nearest;    // return of the D4RL policy that is kept; infinite: none is kept yet
  int64_t reported;  // transitions at the last report, -1: a report is due at once
};

// loop.c: collection_run without D4RL's protocol. The policies of its levels must be there already
int collection_loop(Collection *c);

// report.c: evaluate the learners, keep D4RL's nearest policy, write a line of the log
int report_open(Collection *c);
int report(Collection *c);
// waits for the learners' updates; BFM_DIVERGED when a loss is not finite
int report_check_learners(Collection *c);
// the number of transitions at which the next report is due
int64_t report_due(const Collection *c);
// whether all learners have the return that --until waits for
int report_reached(const Collection *c);

#endif
