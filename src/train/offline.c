// A run of single-task agents (bc, td3bc, iql, xql): one policy for each task and seed, trained side by
// side by one learner on the same data with rewards of their own. The folder is that of any run; models
// are policies, each evaluated on its own task. Evaluations take place between updates, because a
// policy of this size acts faster than it could be handed to another thread.

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/units.h"
#include "data/safetensors.h"
#include "envs/tasks.h"
#include "explore/explorer.h"
#include "rollout/evaluate.h"
#include "train/training.h"

#define CHUNK_SECONDS 0.5
#define SAVE_SECONDS 600.0
#define MOST_Q 100.0  // as a multiple of the largest value that the rewards allow

static int policies(const Training *t) { return training_replicas(t); }
static const char *task_of(const Training *t, int replica) {
  return t->offline.tasks.text[replica / t->offline.seeds];
}
static int64_t seed_of(const Training *t, int replica) {
  return t->offline.seed + replica % t->offline.seeds;
}

// FOLDER/NAME[.TASK][.SEED].safetensors: the task if there are several, its number if it is no word;
// the seed's number if there are several
void offline_path(const Training *t, const char *name, int replica, char *out, size_t size) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const Offline *o = &t->offline;
  const char *task = task_of(t, replica);
  char file[OPTION_TEXT_SIZE];
  int at = snprintf(file, sizeof file, "%s", name);
  if (o->tasks.count > 1 && !task[strspn(task, letters)] && strlen(task) < 64) {
    at += snprintf(file + at, sizeof file - at, ".%s", task);
  } else if (o->tasks.count > 1) {
    at += snprintf(file + at, sizeof file - at, ".task%d", replica / o->seeds);
  }
  if (o->seeds > 1) at += snprintf(file + at, sizeof file - at, ".%d", replica % o->seeds);
  snprintf(file + at, sizeof file - at, ".safetensors");
  folder_file(&t->folder, file, out, size);
}

// ---------------------------------- the learner --------------------------------------------------

// on a resume, only options that leave the results alone may change
static int keep_options(const Training *t, const cJSON *given) {
  static const char *const machine[] = {"device", "precision", "threads"};
  const ExplorerOptions *own = explorer_options_of(t->offline.learner);
  const cJSON *item;
  cJSON_ArrayForEach(item, given) {
    int free_to_change = 0;
    for (int i = 0; i < 3; i++) free_to_change |= !strcmp(item->string, machine[i]);
    if (free_to_change) continue;
    ExplorerOptions wanted;
    char has[OPTION_TEXT_SIZE], wants[OPTION_TEXT_SIZE];
    const Option *option = options_find(explorer_options, item->string);
    TRY(options_set(explorer_options, &wanted, item->string, cJSON_GetStringValue(item)));
    options_get(option, own, has, sizeof has);
    options_get(option, &wanted, wants, sizeof wants);
    if (!strcmp(has, wants)) continue;
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is %s in the run in %s and cannot change to %s",
                    item->string, has, t->folder.path, wants);
  }
  return BFM_OK;
}

static int keep_settings(const Training *t, const cJSON *record) {
  static const char *const names[] = {"task", "reward-scale"};
  for (int i = 0; i < 2; i++) {
    char now[OPTION_TEXT_SIZE];
    const cJSON *begun = cJSON_GetObjectItem(cJSON_GetObjectItem(record, "settings"), names[i]);
    const char *then = cJSON_GetStringValue(begun);
    options_get(options_find(train_options, names[i]), &t->settings, now, sizeof now);
    if (!then || !strcmp(then, now)) continue;
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is \"%s\" in the run in %s and cannot change to \"%s\"",
                    names[i], then, t->folder.path, now);
  }
  return BFM_OK;
}

// the policy's learning rate has fallen to 0 at the end of the run as it was planned
static int check_anneal(const Training *t) {
  const ExplorerOptions *own = explorer_options_of(t->offline.learner);
  if (!own->anneal || t->settings.steps <= own->anneal) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "steps is %" PRId64 ", but the policy's learning rate falls to 0 at step %" PRId64
                  ": give at most that, or --anneal 0 to a new run",
                  t->settings.steps, own->anneal);
}

static int resume_learner(Training *t, const cJSON *given, const cJSON *record, int envs) {
  static const char *const machine[] = {"device", "precision", "threads"};
  char path[PATH_MAX];
  cJSON *options = cJSON_CreateObject();
  for (int i = 0; i < 3; i++) {
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItem(given, machine[i]));
    if (value) cJSON_AddStringToObject(options, machine[i], value);
  }
  char *text = cJSON_PrintUnformatted(options);
  folder_file(&t->folder, "state.safetensors", path, sizeof path);
  int status = BFM_OK;
  if (text) status = bfm_explorer_load(&t->offline.learner, path, envs, text);
  else status = bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  free(text);
  cJSON_Delete(options);
  if (!status) status = keep_options(t, given);
  return status ? status : keep_settings(t, record);
}

static int new_learner(Training *t, const cJSON *given, int envs) {
  ExplorerOptions o;
  char *text = cJSON_PrintUnformatted(given);
  int status = options_default(explorer_options, &o);
  if (!text) status = bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  if (!status) status = options_from_json(explorer_options, &o, text);
  free(text);
  TRY(status);
  int anneals = explorer_takes(o.algo, "anneal") && !cJSON_HasObjectItem(given, "anneal");
  if (anneals) o.anneal = t->settings.steps;
  int64_t count = t->offline.tasks.count * o.seeds;
  if (count > TASKS_MOST) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%d tasks with %" PRId64 " seeds are %" PRId64
                    " policies; a run trains at most %d",
                    t->offline.tasks.count, o.seeds, count, TASKS_MOST);
  }
  return explorer_new(&t->offline.learner, t->data.obs_dim, t->data.act_dim, (int)count, envs, &o,
                      1);
}

static int make_learner(Training *t, const cJSON *record) {
  Offline *o = &t->offline;
  const TrainSettings *s = &t->settings;
  o->episodes = s->eval_every ? s->eval_episodes : 1;
  cJSON *given = cJSON_Parse(t->plan.options ? t->plan.options : "{}");
  int status = t->plan.resume ? resume_learner(t, given, record, (int)o->episodes)
                              : new_learner(t, given, (int)o->episodes);
  cJSON_Delete(given);
  TRY(status);
  const ExplorerOptions *options = explorer_options_of(o->learner);
  o->seeds = (int)options->seeds;
  o->seed = options->seed;
  bfm_explorer_sizes sizes = {.size = sizeof sizes};
  bfm_explorer_get_sizes(o->learner, &sizes);
  if (sizes.obs_dim != t->data.obs_dim || sizes.act_dim != t->data.act_dim ||
      sizes.tasks != policies(t)) {
    return bfm_fail(BFM_BAD_FILE, "the state in %s is of other data or other tasks",
                    t->folder.path);
  }
  t->first_step = bfm_explorer_step(o->learner);
  return check_anneal(t);
}

// ---------------------------------- rewards ------------------------------------------------------

// the factor that makes the best and the worst episode 1000 apart, as the authors of IQL scale D4RL's
// locomotion; 1 if all episodes have the same return
static double scale_of(const Dataset *data, const float *rewards) {
  double best = -INFINITY, worst = INFINITY, sum = 0;
  for (int64_t i = 0; i < data->count; i++) {
    sum += rewards[i];
    if (!data->ends[i]) continue;
    best = fmax(best, sum);
    worst = fmin(worst, sum);
    sum = 0;
  }
  return best > worst ? 1000 / (best - worst) : 1;
}

static int is_scaled(const Training *t, int stored) {
  static const char *const locomotion[] = {"halfcheetah", "hopper", "walker2d"};
  int ours = t->offline.algo == EXPLORER_IQL || t->offline.algo == EXPLORER_XQL;
  if (t->settings.reward_scale != REWARDS_AUTO) return t->settings.reward_scale == REWARDS_RETURNS;
  for (int i = 0; i < 3 && ours && stored; i++) {
    if (!strcmp(t->env, locomotion[i])) return 1;
  }
  return 0;
}

static int give_data(Training *t) {
  Offline *o = &t->offline;
  const Dataset *data = &t->data;
  float *rewards = malloc((size_t)o->tasks.count * data->count * sizeof *rewards);
  if (!rewards) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for the rewards of %d tasks", o->tasks.count);
  }
  int status = BFM_OK;
  double most = 0;
  for (int i = 0; i < o->tasks.count && !status; i++) {
    float *own = rewards + i * data->count;
    int stored;
    status = training_rewards(t, o->tasks.text[i], own, &stored);
    if (status) bfm_fail_prefix(status, "--task %s: ", o->tasks.text[i]);
    double scale = !status && is_scaled(t, stored) ? scale_of(data, own) : 1;
    for (int64_t k = 0; k < data->count && !status; k++) {
      own[k] = (float)(own[k] * scale);
      most = fmax(most, fabs((double)own[k]));
    }
  }
  o->q_most = MOST_Q * most / fmax(1 - explorer_options_of(o->learner)->gamma, 1e-3);
  ExplorerData lent = {.count = data->count, .obs = data->obs, .act = data->act,
                       .next_obs = data->next_obs, .discount = data->discount, .rewards = rewards};
  if (!status) status = explorer_set_data(o->learner, &lent);
  free(rewards);
  return status;
}

// policies of the same task would be written to the same file
static int check_tasks(const TaskList *tasks) {
  for (int i = 0; i < tasks->count; i++) {
    for (int k = 0; k < i; k++) {
      if (strcmp(tasks->text[i], tasks->text[k])) continue;
      return bfm_fail(BFM_BAD_ARGUMENT, "--task has %s twice: name each task once", tasks->text[i]);
    }
  }
  return BFM_OK;
}

int offline_make(Training *t, const cJSON *record) {
  Offline *o = &t->offline;
  if (!*t->env) return bfm_fail(BFM_BAD_ARGUMENT, "the data does not say its domain: give --env");
  TRY(tasklist_parse(&o->tasks, t->env, *t->settings.task ? t->settings.task : "in"));
  TRY(check_tasks(&o->tasks));
  TRY(make_learner(t, record));
  int R = policies(t), losses = bfm_explorer_loss_count(o->learner);
  t->losses = calloc((size_t)R * losses, sizeof *t->losses);
  o->best = malloc(R * sizeof *o->best);
  if (!t->losses || !o->best) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d policies", R);
  for (int r = 0; r < R; r++) o->best[r] = -INFINITY;
  return give_data(t);
}

void offline_close(Training *t) {
  Offline *o = &t->offline;
  bfm_explorer_free(o->learner);
  tasklist_free(&o->tasks);
  eval_log_free(&o->evals);
  free(o->best);
}

// ---------------------------------- evaluations --------------------------------------------------

static const EvalLine *line_of(const Training *t, int replica, int64_t step) {
  const EvalLog *evals = &t->offline.evals;
  for (int i = 0; i < evals->count; i++) {
    const EvalLine *l = &evals->lines[i];
    if (l->step == step && l->seed == seed_of(t, replica) &&
        !strcmp(l->task, task_of(t, replica))) {
      return l;
    }
  }
  return NULL;
}

static int read_evals(Training *t, int64_t step) {
  eval_log_free(&t->offline.evals);
  return eval_log_read(&t->offline.evals, t->folder.path, step);
}

// forget later results; a best policy of a later step is replaced by the next that is evaluated
int offline_resume(Training *t) {
  Offline *o = &t->offline;
  if (!t->settings.eval_every) return BFM_OK;
  TRY(read_evals(t, t->first_step));
  char path[PATH_MAX];
  folder_file(&t->folder, "eval.jsonl", path, sizeof path);
  if (truncate(path, o->evals.bytes) && errno != ENOENT) {
    return bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(errno));
  }
  for (int r = 0; r < policies(t); r++) {
    SafeTensors *file;
    offline_path(t, "best", r, path, sizeof path);
    if (safetensors_open(&file, path)) continue;
    const char *text = safetensors_metadata(file, "step");
    int later = !text || strtoll(text, NULL, 10) > t->first_step;
    safetensors_close(file);
    for (int i = 0; i < o->evals.count && !later; i++) {
      const EvalLine *l = &o->evals.lines[i];
      if (line_of(t, r, l->step) == l) o->best[r] = fmax(o->best[r], l->mean);
    }
  }
  return BFM_OK;
}

static int act(void *context, int replica, int64_t rows, const float *obs, const float *z,
               uint64_t seed, uint64_t step, float *out) {
  (void)replica, (void)rows, (void)z, (void)seed;
  return bfm_explorer_act(context, obs, 0, step, out);
}

static int each(void *context, int64_t done, int64_t total) {
  Monitor *monitor = context;
  monitor->progress.total = total;
  return monitor_update(monitor, done, NULL);
}

// the returns [policies, episodes] of every policy in its own task
static int evaluate_policies(Training *t, double *returns) {
  Offline *o = &t->offline;
  const char *tasks[TASKS_MOST];
  for (int r = 0; r < policies(t); r++) tasks[r] = task_of(t, r);
  bfm_explorer_sizes sizes = {.size = sizeof sizes};
  bfm_explorer_get_sizes(o->learner, &sizes);
  Actor actor = {.act = act, .actor = o->learner, .env = t->env, .obs_dim = sizes.obs_dim,
                 .act_dim = sizes.act_dim, .replicas = 1};
  Monitor monitor = {.call = t->monitor.call, .context = t->monitor.context};
  bfm_evaluation plan = {.size = sizeof plan, .tasks = tasks, .task_count = policies(t),
                         .episodes = o->episodes, .steps = t->settings.eval_steps, .each = each,
                         .context = &monitor};
  monitor_begin(&monitor, "evaluate", "steps", 0, 0);
  int status = evaluate(&actor, &plan, returns, NULL);
  t->monitor.stopped |= monitor.stopped;
  return status;
}

static int write_lines(const Training *t, int64_t step, const double *returns) {
  const Offline *o = &t->offline;
  char path[PATH_MAX], *text = NULL;
  size_t size = 0;
  FILE *lines = open_memstream(&text, &size);
  if (!lines) return bfm_fail(BFM_NO_MEMORY, "out of memory for results");
  for (int r = 0; r < policies(t); r++) {
    EvalLine line = {.step = step, .seed = seed_of(t, r), .episodes = o->episodes};
    snprintf(line.task, sizeof line.task, "%s", task_of(t, r));
    mean_std(returns + r * o->episodes, o->episodes, &line.mean, &line.std);
    eval_log_print(&line, lines);
  }
  fclose(lines);
  folder_file(&t->folder, "eval.jsonl", path, sizeof path);
  FILE *file = fopen(path, "a");
  int bad = !file || fwrite(text, 1, size, file) != size || fflush(file) || fsync(fileno(file));
  if (file) bad |= fclose(file);
  free(text);
  return bad ? bfm_fail(BFM_IO, "cannot write %s: %s", path, strerror(errno)) : BFM_OK;
}

static int save_policy(Training *t, const char *name, int replica) {
  char path[PATH_MAX];
  offline_path(t, name, replica, path, sizeof path);
  return bfm_explorer_save_model(t->offline.learner, replica, t->env, task_of(t, replica), path);
}

static int keep_best(Training *t, int64_t step) {
  for (int r = 0; r < policies(t); r++) {
    const EvalLine *line = line_of(t, r, step);
    if (!line || !(line->mean > t->offline.best[r])) continue;
    TRY(save_policy(t, "best", r));
    t->offline.best[r] = line->mean;
  }
  return BFM_OK;
}

// A stopped evaluation leaves nothing: the resumed run begins it again.
static int evaluate_now(Training *t, int64_t step) {
  double *returns = malloc((size_t)policies(t) * t->offline.episodes * sizeof *returns);
  if (!returns) return bfm_fail(BFM_NO_MEMORY, "out of memory for returns");
  int status = evaluate_policies(t, returns);
  if (!status) status = write_lines(t, step, returns);
  free(returns);
  if (status == BFM_INTERRUPTED) return BFM_OK;
  TRY(status);
  TRY(read_evals(t, step));
  TRY(keep_best(t, step));
  char path[PATH_MAX];
  const char *folder = t->folder.path;
  folder_file(&t->folder, "curves", path, sizeof path);
  // a run continues without gnuplot too
  int drawn = !eval_log_draw(&folder, 1, path);
  snprintf(t->undrawn, sizeof t->undrawn, "%s", drawn ? "" : bfm_error());
  return BFM_OK;
}

// ---------------------------------- the loop -----------------------------------------------------

static int save(Training *t) {
  char path[PATH_MAX];
  for (int r = 0; r < policies(t); r++) {
    TRY(save_policy(t, "model", r));
    t->kept = 1;
  }
  char *tasks = NULL;
  size_t length;
  FILE *list = open_memstream(&tasks, &length);
  if (!list) return bfm_fail(BFM_NO_MEMORY, "out of memory for the names of tasks");
  for (int i = 0; i < t->offline.tasks.count; i++) {
    fprintf(list, "%s%s", i ? "," : "", t->offline.tasks.text[i]);
  }
  fclose(list);
  folder_file(&t->folder, "state.safetensors", path, sizeof path);
  int status = explorer_save_state(t->offline.learner, t->env, tasks, path);
  free(tasks);
  return status;
}

static int write_log(Training *t, int64_t step) {
  const bfm_explorer *learner = t->offline.learner;
  int R = policies(t), count = bfm_explorer_loss_count(learner);
  double rate = (double)(step - t->logged_step) / fmax(t->seconds - t->logged_seconds, 1e-9);
  t->logged_step = step;
  t->logged_seconds = t->seconds;
  cJSON *line = cJSON_CreateObject();
  cJSON_AddNumberToObject(line, "step", (double)step);
  cJSON_AddNumberToObject(line, "seconds", round(1e3 * (t->before + t->seconds)) / 1e3);
  cJSON_AddNumberToObject(line, "rate", round(10 * rate) / 10);
  for (int i = 0; i < count; i++) {
    const char *name = bfm_explorer_loss_name(learner, i);
    cJSON *items = R > 1 ? cJSON_AddArrayToObject(line, name) : line;
    if (R == 1) cJSON_AddItemToObject(line, name, log_number(t->losses[i]));
    for (int r = 0; r < R && R > 1; r++) {
      cJSON_AddItemToArray(items, log_number(t->losses[r * count + i]));
    }
  }
  int status = folder_log(&t->folder, t->log, line);
  cJSON_Delete(line);
  if (!status) t->kept = 1;
  return status;
}

static void write_note(const Training *t, char *out, size_t size) {
  const Offline *o = &t->offline;
  int R = policies(t), count = bfm_explorer_loss_count(o->learner);
  size_t at = 0;
  for (int i = 0; i < count && at < size; i++) {
    double mean = 0;
    for (int r = 0; r < R; r++) mean += t->losses[r * count + i] / R;
    at += snprintf(out + at, size - at, "%s %.4g  ", bfm_explorer_loss_name(o->learner, i), mean);
  }
  if (!o->evals.count || at >= size) return;
  double mean = 0;
  int64_t step = o->evals.lines[o->evals.count - 1].step;
  char when[32];
  for (int r = 0; r < R; r++) {
    const EvalLine *line = line_of(t, r, step);
    mean += line ? line->mean / R : NAN;
  }
  short_count((double)step, when, sizeof when);
  snprintf(out + at, size - at, "returns %.4g at %s", mean, when);
}

// waits for the updates; BFM_DIVERGED when a loss is not finite or Q is beyond all reason
static int check_losses(Training *t) {
  Offline *o = &t->offline;
  TRY(bfm_explorer_losses(o->learner, t->losses));
  int count = bfm_explorer_loss_count(o->learner);
  for (int r = 0; r < policies(t) && o->algo != EXPLORER_BC; r++) {
    double q = t->losses[r * count + LOSS_Q];
    if (fabs(q) <= o->q_most || o->q_most == 0) continue;
    return bfm_fail(
        BFM_DIVERGED,
        "at step %ld, the mean of Q for the task %s is %.3g, more than %g times what the "
        "rewards allow",
        (long)bfm_explorer_step(o->learner), task_of(t, r), q, MOST_Q);
  }
  return BFM_OK;
}

static int64_t to_next(int64_t step, int64_t every) {
  return every > 0 ? every - step % every : INT64_MAX;
}

static int is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t steps_to_due(const TrainSettings *s, int64_t step) {
  int64_t due = least(to_next(step, s->log_every), to_next(step, s->save_every));
  return least(least(due, to_next(step, s->eval_every)), s->steps - step);
}

static int needs_evaluation(const Training *t, int64_t step) {
  const TrainSettings *s = &t->settings;
  if (!s->eval_every || !step || (!is_due(step, s->eval_every) && step != s->steps)) return 0;
  const EvalLine *line = line_of(t, 0, step);
  return !line || line->episodes < t->offline.episodes;
}

static int diverged(const Training *t, int64_t saved) {
  char why[512];
  snprintf(why, sizeof why, "%s", bfm_error());
  if (saved < 0) {
    return bfm_fail(BFM_DIVERGED, "%s; nothing was saved before: try a smaller --lr", why);
  }
  return bfm_fail(BFM_DIVERGED, "%s; the models and the state of step %" PRId64 " are in %s", why,
                  saved, t->folder.path);
}

// *saved: the step of the files, or -1
static int train(Training *t, int64_t *saved) {
  const TrainSettings *s = &t->settings;
  bfm_explorer *learner = t->offline.learner;
  int64_t chunk = 1, step = t->first_step;
  char note[256] = "";
  double start = seconds_now(), last_save = start;
  t->logged_step = step;
  if (needs_evaluation(t, step)) TRY(evaluate_now(t, step));

  while (step < s->steps && !t->monitor.stopped) {
    double before = seconds_now();
    int64_t n = least(chunk, steps_to_due(s, step));
    int status = bfm_explorer_update(learner, n);
    if (!status) status = check_losses(t);
    t->seconds = seconds_now() - start;
    if (status == BFM_DIVERGED) return diverged(t, *saved);
    TRY(status);
    step = bfm_explorer_step(learner);
    if (n == chunk)
      chunk = start + t->seconds - before < CHUNK_SECONDS ? 2 * chunk : (chunk + 1) / 2;

    if (is_due(step, s->log_every) || step == s->steps) TRY(write_log(t, step));
    int by_time = s->save_every == 0 && seconds_now() - last_save > SAVE_SECONDS;
    if (by_time || is_due(step, s->save_every)) {
      TRY(save(t));
      *saved = step;
      last_save = seconds_now();
    }
    if (needs_evaluation(t, step)) {
      double begun = seconds_now();
      TRY(evaluate_now(t, step));
      start += seconds_now() - begun;  // rates are of training alone
      monitor_begin(&t->monitor, "train", "steps", step, s->steps);
    }
    write_note(t, note, sizeof note);
    monitor_update(&t->monitor, step, note);
  }
  monitor_end(&t->monitor, step, note);
  return BFM_OK;
}

int offline_run(Training *t) {
  monitor_begin(&t->monitor, "train", "steps", t->first_step, t->settings.steps);
  int64_t saved = t->plan.resume ? t->first_step : -1;
  int status = train(t, &saved);
  int64_t step = bfm_explorer_step(t->offline.learner);
  if (status == BFM_DIVERGED) return status;
  if (saved != step) {
    char why[512];
    snprintf(why, sizeof why, "%s", bfm_error());
    int unsaved = save(t);
    if (status) return bfm_fail(status, "%s", why);
    TRY(unsaved);
  }
  TRY(status);
  if (step >= t->settings.steps && !needs_evaluation(t, step)) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED,
                  "stopped at step %" PRId64 " of %" PRId64
                  "; continue with bfm train --resume -o %s",
                  step, t->settings.steps, t->folder.path);
}
