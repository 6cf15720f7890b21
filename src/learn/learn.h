// bfm learn: from a robot to a model within a given time. A folder holds one run:
//   learn.json             what was asked for, the stage, and the seconds spent so far
//   data.h5, data.…        the recordings and their learners, as bfm collect writes them
//   run.json, log.jsonl, model.safetensors, state.safetensors, eval.jsonl   as bfm train writes them
//   NAME.safetensors       the model to keep: bfloat16 and without training state
//   report.md, curves.png, strip.png   what it learned
// Each stage has a share of the time. A run that is stopped or killed continues in the stage that it
// was in, with the time that is left.

#ifndef BFM_LEARN_LEARN_H
#define BFM_LEARN_LEARN_H

#include <limits.h>

#include "core/folder.h"
#include "core/options.h"

enum { LEARN_AUTO, LEARN_MOOD, LEARN_RND };  // values of `with`

typedef struct {
  double minutes;
  int64_t seed, threads;
  int with;
  char algo[OPTION_TEXT_SIZE], device[OPTION_TEXT_SIZE];
} LearnOptions;

extern const Option learn_options[];

// how far the whole run is
typedef struct {
  const char *stage;   // "collect", "train" or "report"
  double share, left;  // of the time; seconds
  char note[320];      // what the stage is doing: "23.4k steps, 48/s  fb -12.3"
} LearnProgress;

typedef struct {
  const char *robot;   // a domain or the path of a robot; NULL with resume: that of the run
  const char *folder;  // of the run
  const char *given;   // the options that were given, a JSON object
  int resume;
  // called a few times a second; not 0 stops the run, with everything saved
  int (*progress)(void *context, const LearnProgress *progress);
  // called with a line for people when something is decided or done
  void (*say)(void *context, const char *line);
  void *context;
} LearnPlan;

// BFM_INTERRUPTED when the callback stopped the run. When the first stage fails to open, nothing is
// left behind
int learn(const LearnPlan *plan);

// ---------------------------------- shared by the files of this folder ---------------------------

// sizes of a training run, chosen for a machine by measuring
typedef struct {
  int64_t hidden, feat, b_hidden, batch;
  double lr, rate;  // rate: steps per second
} LearnSizes;

typedef struct {
  const LearnPlan *plan;
  LearnOptions options;
  Folder folder;
  char robot[PATH_MAX], env[64];  // as it was given; its name
  int stage;
  int first_stage;              // when this start of the run began
  double spent, began, opened;  // seconds: in earlier starts; the clock then, and at the last save
  int mood;                     // learners of tasks make the data; else one that seeks novelty
  int gpu;
  LearnSizes sizes;
  LearnProgress now;
  int stopped;
} Learn;

double learn_spent(const Learn *l);
// seconds until this share of the time is spent, at least 0
double learn_left(const Learn *l, double share);
void learn_path(const Learn *l, const char *name, char *out, size_t size);
void learn_say(const Learn *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
// reports progress; returns whether the run must stop
int learn_tell(Learn *l, const char *note);

// sizes.c: the largest networks that can make enough steps in so many seconds
int learn_choose_sizes(Learn *l, int64_t obs_dim, int64_t act_dim, double seconds);

// report.c: the last stage
int learn_report(Learn *l);

#endif
