// Watching a run learn: at a step the models are saved and a second thread, with agents of its own,
// lets them act while training goes on. In the run's folder:
//   eval.jsonl                   one line a step, replica, task and es
//   best.safetensors             the model with the best mean over tasks; best.0 … with seeds
//   pending.safetensors          the models whose evaluation is not done; a resume begins with them
//   curves.svg, curves.png       returns by step

#ifndef BFM_TRAIN_EVAL_THREAD_H
#define BFM_TRAIN_EVAL_THREAD_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct {
  const char *folder;
  const char *env;                  // domain
  const char *tasks;                // as in tasklist.h
  int64_t episodes, episode_steps;  // 0 steps: the domain's
  int64_t es[2];
  int es_count;
  // states the data says rewards of, for tasks that are no expressions; kept until the end
  int64_t rows;
  const float *obs, *rewards;
  const volatile sig_atomic_t *stop;  // not 0: leave what is under way pending
} EvalThreadPlan;

typedef struct EvalThread EvalThread;

// asks the agent's prompt states for the rewards of all tasks: a task that cannot be is found here
int eval_thread_new(EvalThread **watch, const EvalThreadPlan *plan, bfm_agent *agent);

// forget what was found after this step, and begin with what a stopped run had under way
int eval_thread_resume(EvalThread *watch, int64_t step);

// evaluate the agent as it is now; waits for an evaluation that is under way
int eval_thread_begin(EvalThread *watch, bfm_agent *agent);

// wait until all is evaluated; the status of what was under way
int eval_thread_wait(EvalThread *watch);

// whether this step was evaluated, in as many episodes, or is under way
int eval_thread_knows(const EvalThread *watch, int64_t step);

// forget what was found after this step
int eval_thread_forget(EvalThread *watch, int64_t step);

// "returns 512 at 30k", of the last evaluation; empty before the first
void eval_thread_note(EvalThread *watch, char *out, size_t size);

// why there are no curves, empty when they were drawn
const char *eval_thread_undrawn(const EvalThread *watch);

// stops what is under way, whose models stay in the folder
void eval_thread_free(EvalThread *watch);

// FOLDER/NAME.safetensors, FOLDER/NAME.R.safetensors with several replicas
void eval_thread_path(const char *folder, const char *name, int replica, int replicas, char *out,
                      size_t size);

#endif
