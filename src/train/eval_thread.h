// Evaluating during training: the models of a step are saved, and a second thread with agents of its
// own lets them act while training continues. In the run's folder:
//   eval.jsonl                   one line a step, replica, task and es
//   best.safetensors             the model with the best mean over tasks; best.0 … with seeds
//   pending.safetensors          the models whose evaluation is not done; a resume starts with them
//   curves.svg, curves.png       returns by step

#ifndef BFM_TRAIN_EVAL_THREAD_H
#define BFM_TRAIN_EVAL_THREAD_H

#include <stddef.h>
#include <stdint.h>

#include "core/monitor.h"

typedef struct {
  const char *folder;
  const char *env;                  // domain
  const char *tasks;                // as in tasklist.h
  int64_t episodes, episode_steps;  // 0 steps: the domain's
  int64_t es[2];
  int es_count;
  // states whose rewards the data has, for tasks that are not expressions; not copied
  int64_t rows;
  const float *obs, *rewards;
  Monitor *monitor;  // of the run: its callback can stop an evaluation that the run waits for
} EvalThreadPlan;

typedef struct EvalThread EvalThread;

// compute the rewards of all tasks at the agent's prompt states; fails for a task without rewards
int eval_thread_new(EvalThread **evaluator, const EvalThreadPlan *plan, bfm_agent *agent);

// forget the results after this step, and start the evaluation that a stopped run had begun
int eval_thread_resume(EvalThread *evaluator, int64_t step);

// start to evaluate the agent as it is now; waits until the previous evaluation is done
int eval_thread_begin(EvalThread *evaluator, bfm_agent *agent);

// wait until the evaluation is done, and return its status. If the callback stops the run, the
// models stay pending
int eval_thread_wait(EvalThread *evaluator);

// whether this step was evaluated, in as many episodes, or is being evaluated
int eval_thread_knows(const EvalThread *evaluator, int64_t step);

// forget the results after this step
int eval_thread_forget(EvalThread *evaluator, int64_t step);

// "returns 512 at 30k", of the last evaluation; empty before the first
void eval_thread_note(EvalThread *evaluator, char *out, size_t size);

// why there are no curves, empty when they were drawn
const char *eval_thread_undrawn(const EvalThread *evaluator);

// stops the present evaluation; its models stay pending
void eval_thread_free(EvalThread *evaluator);

// FOLDER/NAME.safetensors, FOLDER/NAME.R.safetensors with several replicas
void eval_thread_path(const char *folder, const char *name, int replica, int replicas, char *out,
                      size_t size);

#endif
