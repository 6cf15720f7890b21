// Evaluating during training. The models go through files, so that a run may be stopped or killed at
// any moment without losing an evaluation: while all pending models exist, their step is still to be
// evaluated. The rewards of a task at the prompt states are computed once; z is computed for each
// model.

#define _GNU_SOURCE  // pthread_clockjoin_np

#include "train/eval_thread.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "core/units.h"
#include "data/safetensors.h"
#include "envs/tasks.h"
#include "prompt/prompt.h"
#include "train/eval_log.h"
#include "rollout/evaluate.h"
#include "envs/tasklist.h"

struct EvalThread {
  EvalThreadPlan plan;
  int replicas;
  int64_t seed;                // of replica 0
  char options[MACHINE_SIZE];  // to load models with
  TaskList tasks;
  EvalLog evals;    // all results so far
  double *best;     // [replicas]
  float **rewards;  // [tasks] at the prompt states; NULL: the data has them

  pthread_t thread;
  int running;  // the thread must be joined
  atomic_int stop;
  _Atomic int64_t done;   // control steps of the present evaluation …
  _Atomic int64_t total;  // … and all of it; 0: not known yet
  int64_t step;           // that is being evaluated
  int status;             // of the last evaluation …
  char error[512];        // … and its error: bfm_error() is kept for each thread
  char undrawn[512];      // why there are no curves
  pthread_mutex_t note_lock;
  char note[64];
};

void eval_thread_path(const char *folder, const char *name, int replica, int replicas, char *out,
                      size_t size) {
  if (replicas > 1) snprintf(out, size, "%s/%s.%d.safetensors", folder, name, replica);
  else snprintf(out, size, "%s/%s.safetensors", folder, name);
}

static void path_of(const EvalThread *w, const char *name, int replica, char *out, size_t size) {
  eval_thread_path(w->plan.folder, name, replica, w->replicas, out, size);
}

// ---------------------------------- pending models -----------------------------------------------

// the last one first: an incomplete set counts as evaluated
static void remove_pending(const EvalThread *w) {
  char path[PATH_MAX];
  for (int r = w->replicas - 1; r >= 0; r--) {
    path_of(w, "pending", r, path, sizeof path);
    unlink(path);
  }
}

// the step of a model in the folder, -1: there is none
static int64_t step_of(const EvalThread *w, const char *name, int replica) {
  char path[PATH_MAX];
  SafeTensors *file;
  path_of(w, name, replica, path, sizeof path);
  if (safetensors_open(&file, path)) return -1;
  const char *text = safetensors_metadata(file, "step");
  int64_t step = text ? strtoll(text, NULL, 10) : -1;
  safetensors_close(file);
  return step;
}

// the step of the pending models, -1: the set is incomplete
static int64_t pending_step(const EvalThread *w) {
  int64_t step = 0;
  for (int r = 0; r < w->replicas && step >= 0; r++) step = step_of(w, "pending", r);
  return step;
}

// the new best model is a link to the pending one and replaces the old best
static int keep_best(EvalThread *w) {
  for (int r = 0; r < w->replicas; r++) {
    double score = eval_log_score(&w->evals, w->step, w->seed + r);
    if (!(score > w->best[r])) continue;
    char pending[PATH_MAX], best[PATH_MAX], temporary[PATH_MAX + 8];
    path_of(w, "pending", r, pending, sizeof pending);
    path_of(w, "best", r, best, sizeof best);
    snprintf(temporary, sizeof temporary, "%s.tmp", best);
    unlink(temporary);
    if (link(pending, temporary) || rename(temporary, best)) {
      return bfm_fail(BFM_IO, "cannot write %s: %s", best, strerror(errno));
    }
    w->best[r] = score;
  }
  return BFM_OK;
}

// ---------------------------------- results ------------------------------------------------------

static int has_task(const TaskList *tasks, const char *name) {
  for (int i = 0; i < tasks->count; i++) {
    if (!strcmp(tasks->text[i], name)) return 1;
  }
  return 0;
}

// whether a score is for the present tasks and es, which a resume may have changed
static int is_comparable(const EvalThread *w, int64_t step, int64_t seed) {
  int64_t es = w->plan.es[w->plan.es_count - 1];
  int found = 0;
  for (int i = 0; i < w->evals.count; i++) {
    const EvalLine *l = &w->evals.lines[i];
    if (l->step != step || l->seed != seed || l->es < es) continue;
    if (l->es > es || !has_task(&w->tasks, l->task)) return 0;
    found++;
  }
  return found == w->tasks.count;
}

// a best model of a later step is not of this run any more: the next evaluated model replaces it
static void forget_best(EvalThread *w, int64_t step) {
  for (int r = 0; r < w->replicas; r++) {
    w->best[r] = -INFINITY;
    if (step_of(w, "best", r) > step) continue;
    for (int i = 0; i < w->evals.count; i++) {
      int64_t seed = w->seed + r, at = w->evals.lines[i].step;
      if (w->evals.lines[i].seed != seed || !is_comparable(w, at, seed)) continue;
      w->best[r] = fmax(w->best[r], eval_log_score(&w->evals, at, seed));
    }
  }
}

// stop the present evaluation without its result
static void stop_thread(EvalThread *w) {
  if (!w->running) return;
  atomic_store(&w->stop, 1);
  pthread_join(w->thread, NULL);
  atomic_store(&w->stop, 0);
  w->running = 0;
}

int eval_thread_forget(EvalThread *w, int64_t step) {
  if (w->running && w->step > step) {
    stop_thread(w);
    remove_pending(w);
  }
  TRY(eval_thread_wait(w));
  eval_log_free(&w->evals);
  TRY(eval_log_read(&w->evals, w->plan.folder, step));
  forget_best(w, step);
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/eval.jsonl", w->plan.folder);
  if (truncate(path, w->evals.bytes) && errno != ENOENT) {
    return bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(errno));
  }
  return BFM_OK;
}

// write all lines of an evaluation at once
static int write_lines(EvalThread *w, const char *text, size_t size) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/eval.jsonl", w->plan.folder);
  FILE *file = fopen(path, "a");
  int bad = !file || fwrite(text, 1, size, file) != size || fflush(file) || fsync(fileno(file));
  if (file) bad |= fclose(file);
  return bad ? bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(errno)) : BFM_OK;
}

// ---------------------------------- an evaluation ------------------------------------------------

static int each(void *context, int64_t done, int64_t total) {
  (void)done;
  EvalThread *w = context;
  atomic_store(&w->total, total * w->plan.es_count * w->replicas);
  atomic_fetch_add(&w->done, 1);
  return atomic_load(&w->stop);
}

#define POLL_SECONDS 0.1  // between calls of the callback while the run waits
#define SEATS 8  // seeds evaluated at the same time, because a GPU has more latency than work

// the evaluation of one seed, in a thread of its own
typedef struct {
  EvalThread *w;
  int replica;
  char *text;  // its lines
  size_t size;
  int status;
  char error[512];
} Seat;

static int prompt(const EvalThread *w, bfm_agent *agent, int task, float *z) {
  if (!w->rewards[task]) {
    return bfm_agent_prompt_reward(agent, 0, w->plan.rows, w->plan.obs, w->plan.rewards, 0, z);
  }
  return bfm_agent_prompt_reward(agent, 0, agent->prompt.count, agent->prompt.obs, w->rewards[task],
                                 0, z);
}

// z: [tasks, d], returns: [tasks, episodes]
static int evaluate_agent(EvalThread *w, bfm_agent *agent, int replica, float *z, double *returns,
                          FILE *lines) {
  for (int i = 0; i < w->tasks.count; i++) TRY(prompt(w, agent, i, z + i * bfm_agent_d(agent)));
  for (int k = 0; k < w->plan.es_count; k++) {
    bfm_evaluation plan = {.tasks = (const char *const *)w->tasks.text,
                           .task_count = w->tasks.count, .z = z, .episodes = w->plan.episodes,
                           .steps = w->plan.episode_steps, .es = (int)w->plan.es[k], .each = each,
                           .context = w};
    TRY(bfm_agent_evaluate(agent, &plan, returns));
    for (int i = 0; i < w->tasks.count; i++) {
      EvalLine line = {.step = w->step, .seed = w->seed + replica, .es = w->plan.es[k],
                       .episodes = w->plan.episodes};
      snprintf(line.task, sizeof line.task, "%s", w->tasks.text[i]);
      mean_std(returns + i * w->plan.episodes, w->plan.episodes, &line.mean, &line.std);
      eval_log_print(&line, lines);
    }
  }
  return BFM_OK;
}

static int evaluate_seed(Seat *seat) {
  EvalThread *w = seat->w;
  char path[PATH_MAX];
  bfm_agent *agent;
  path_of(w, "pending", seat->replica, path, sizeof path);
  TRY(bfm_agent_load(&agent, path, w->options));
  float *z = malloc((size_t)w->tasks.count * bfm_agent_d(agent) * sizeof *z);
  double *returns = malloc((size_t)w->tasks.count * w->plan.episodes * sizeof *returns);
  FILE *lines = open_memstream(&seat->text, &seat->size);
  int status = z && returns && lines
                   ? evaluate_agent(w, agent, seat->replica, z, returns, lines)
                   : bfm_fail(BFM_NO_MEMORY, "out of memory for %d tasks", w->tasks.count);
  if (lines && fclose(lines) && !status)
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for results");
  free(z);
  free(returns);
  bfm_agent_free(agent);
  return status;
}

static void *sit(void *context) {
  Seat *seat = context;
  seat->status = evaluate_seed(seat);
  if (seat->status) snprintf(seat->error, sizeof seat->error, "%s", bfm_error());
  return NULL;
}

// replicas first … first + count - 1
static int evaluate_some(EvalThread *w, int first, int count, FILE *lines) {
  Seat seats[SEATS] = {{.w = NULL}};
  pthread_t threads[SEATS];
  int begun[SEATS] = {0}, status = BFM_OK;
  for (int i = 0; i < count; i++) {
    seats[i] = (Seat){.w = w, .replica = first + i};
    begun[i] = i + 1 < count && !pthread_create(&threads[i], NULL, sit, &seats[i]);
    if (!begun[i]) sit(&seats[i]);
  }
  for (int i = 0; i < count; i++) {
    if (begun[i]) pthread_join(threads[i], NULL);
    if (!status && seats[i].status) status = bfm_fail(seats[i].status, "%s", seats[i].error);
    if (!status) fwrite(seats[i].text, 1, seats[i].size, lines);
    free(seats[i].text);
  }
  return status;
}

// in as few rounds as the seats allow, of about equal size: on a GPU, one seed takes as long as several
static int evaluate_pending(EvalThread *w, FILE *lines) {
  int replicas = w->replicas, rounds = (replicas + SEATS - 1) / SEATS;
  for (int i = 0; i < rounds; i++) {
    int first = i * replicas / rounds, end = (i + 1) * replicas / rounds;
    TRY(evaluate_some(w, first, end - first, lines));
  }
  return BFM_OK;
}

static void take_note(EvalThread *w) {
  double mean = 0;
  for (int r = 0; r < w->replicas; r++) {
    mean += eval_log_score(&w->evals, w->step, w->seed + r) / w->replicas;
  }
  char at[32];
  short_count((double)w->step, at, sizeof at);
  pthread_mutex_lock(&w->note_lock);
  snprintf(w->note, sizeof w->note, "returns %.4g at %s", mean, at);
  pthread_mutex_unlock(&w->note_lock);
}

static int finish(EvalThread *w, const char *text, size_t size) {
  TRY(write_lines(w, text, size));
  eval_log_free(&w->evals);
  TRY(eval_log_read(&w->evals, w->plan.folder, w->step));
  TRY(keep_best(w));
  remove_pending(w);
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/curves", w->plan.folder);
  // a run continues without gnuplot too
  int drawn = !eval_log_draw(&w->plan.folder, 1, path);
  snprintf(w->undrawn, sizeof w->undrawn, "%s", drawn ? "" : bfm_error());
  take_note(w);
  return BFM_OK;
}

static void *work(void *context) {
  EvalThread *w = context;
  char *text = NULL;
  size_t size = 0;
  FILE *lines = open_memstream(&text, &size);
  w->status =
      lines ? evaluate_pending(w, lines) : bfm_fail(BFM_NO_MEMORY, "out of memory for results");
  if (lines && fclose(lines) && !w->status) w->status = bfm_fail(BFM_NO_MEMORY, "out of memory");
  if (!w->status) w->status = finish(w, text, size);
  if (w->status) snprintf(w->error, sizeof w->error, "%s", bfm_error());
  free(text);
  return NULL;
}

// ---------------------------------- from the training thread -------------------------------------

static int start(EvalThread *w, int64_t step) {
  w->step = step;
  atomic_store(&w->done, 0);
  atomic_store(&w->total, 0);
  w->running = !pthread_create(&w->thread, NULL, work, w);
  return w->running ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "cannot start the thread that evaluates");
}

// join the thread unless it runs longer than this
static int join_within(EvalThread *w, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long)(1e9 * seconds);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  w->running = pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until) != 0;
  return !w->running;
}

// the run's callback is called meanwhile, so that it can stop the evaluation
static void join(EvalThread *w) {
  Monitor *run = w->plan.monitor;
  Monitor monitor = {.call = run->call, .context = run->context, .stopped = run->stopped};
  if (join_within(w, POLL_SECONDS)) return;
  monitor_begin(&monitor, "evaluate", "steps", atomic_load(&w->done), atomic_load(&w->total));
  do {
    monitor.progress.total = atomic_load(&w->total);
    if (!monitor_update(&monitor, atomic_load(&w->done), NULL)) continue;
    run->stopped = 1;
    atomic_store(&w->stop, 1);
  } while (!join_within(w, POLL_SECONDS));
}

int eval_thread_wait(EvalThread *w) {
  if (!w->running) return BFM_OK;
  if (w->plan.monitor->stopped) atomic_store(&w->stop, 1);
  join(w);
  atomic_store(&w->stop, 0);
  if (!w->status) return BFM_OK;
  if (w->status == BFM_INTERRUPTED) {
    return bfm_fail(w->status, "stopped during the evaluation of step %ld", (long)w->step);
  }
  return bfm_fail(w->status, "the evaluation of step %ld failed: %s", (long)w->step, w->error);
}

int eval_thread_begin(EvalThread *w, bfm_agent *agent) {
  TRY(eval_thread_wait(w));
  for (int r = 0; r < w->replicas; r++) {
    char path[PATH_MAX];
    path_of(w, "pending", r, path, sizeof path);
    TRY(bfm_agent_save_model(agent, r, path));
  }
  return start(w, bfm_agent_step(agent));
}

int eval_thread_knows(const EvalThread *w, int64_t step) {
  if (w->running) return w->step >= step;
  for (int i = 0; i < w->evals.count; i++) {
    const EvalLine *l = &w->evals.lines[i];
    if (l->step == step && l->episodes >= w->plan.episodes) return 1;
  }
  return 0;
}

void eval_thread_note(EvalThread *w, char *out, size_t size) {
  pthread_mutex_lock(&w->note_lock);
  snprintf(out, size, "%s", w->note);
  pthread_mutex_unlock(&w->note_lock);
}

const char *eval_thread_undrawn(const EvalThread *w) { return w->undrawn; }

// The rewards of a task that is not an expression are in the data; a collector without --task wrote
// zeros there.
static int task_rewards(EvalThread *w, bfm_agent *agent, int i) {
  const Task *task = task_find(w->plan.env, w->tasks.text[i]);
  if (task && !task->expression) {
    for (int64_t k = 0; k < w->plan.rows; k++) {
      if (w->plan.rewards[k] != 0) return BFM_OK;
    }
    return bfm_fail(BFM_BAD_ARGUMENT, "the task %s of %s needs rewards in the data, but %s",
                    task->name, w->plan.env, w->plan.rows ? "they are all 0" : "there are none");
  }
  w->rewards[i] = malloc((size_t)(bfm_agent_prompt_count(agent) + 1) * sizeof *w->rewards[i]);
  if (!w->rewards[i]) return bfm_fail(BFM_NO_MEMORY, "out of memory for the rewards of a task");
  int status = prompt_rewards(agent, w->tasks.text[i], w->rewards[i]);
  return status ? bfm_fail_prefix(status, "--eval-tasks, %s: ", w->tasks.text[i]) : BFM_OK;
}

static int prepare(EvalThread *w, bfm_agent *agent) {
  TRY(tasklist_parse(&w->tasks, w->plan.env, w->plan.tasks));
  w->best = malloc(w->replicas * sizeof *w->best);
  w->rewards = calloc(w->tasks.count, sizeof *w->rewards);
  if (!w->best || !w->rewards) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %d tasks", w->tasks.count);
  }
  for (int i = 0; i < w->tasks.count; i++) TRY(task_rewards(w, agent, i));
  return BFM_OK;
}

int eval_thread_new(EvalThread **out, const EvalThreadPlan *plan, bfm_agent *agent) {
  EvalThread *w = calloc(1, sizeof *w);
  *out = NULL;
  if (!w) return bfm_fail(BFM_NO_MEMORY, "out of memory for evaluations");
  w->plan = *plan;
  w->replicas = agent->R;
  w->seed = agent->config.seed;
  config_machine(agent->config.device, agent->config.threads, w->options);
  pthread_mutex_init(&w->note_lock, NULL);
  int status = prepare(w, agent);
  if (status) eval_thread_free(w);
  else *out = w;
  return status;
}

int eval_thread_resume(EvalThread *w, int64_t step) {
  int64_t pending = pending_step(w);
  int resumes = pending >= 0 && pending <= step;
  TRY(eval_thread_forget(w, resumes ? pending - 1 : step));
  if (resumes) return start(w, pending);
  remove_pending(w);
  return BFM_OK;
}

void eval_thread_free(EvalThread *w) {
  if (!w) return;
  stop_thread(w);
  pthread_mutex_destroy(&w->note_lock);
  for (int i = 0; i < w->tasks.count && w->rewards; i++) free(w->rewards[i]);
  tasklist_free(&w->tasks);
  eval_log_free(&w->evals);
  free(w->rewards);
  free(w->best);
  free(w);
}
