// The stages of bfm learn: collect, train, report. Each ends when its share of the time is spent, or
// earlier when its work is done; what is left then goes to the next.

#include "learn/learn.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bfm.h"
#include "core/json.h"
#include "core/units.h"
#include "envs/tasks.h"
#include "ops/ops.h"

#define SAVE_SECONDS 5.0  // between writes of the time spent

#define AT(field) offsetof(LearnOptions, field)

const Option learn_options[] = {
    {"minutes", OPTION_REAL, AT(minutes), "30", 0.01, 1e5, NULL,
     "time for everything, on whatever this machine is"},
    {"with", OPTION_CHOICE, AT(with), "auto", 0, 0, "auto|mood|rnd",
     "agents that make the data; mood: a learner for each known task of the robot; rnd: one that "
     "seeks novelty; auto: mood if the robot has tasks"},
    {"algo", OPTION_TEXT, AT(algo), "fb-aware", 0, 0, NULL, "algorithm, as in bfm train"},
    {"seed", OPTION_INT, AT(seed), "0", 0, 9e15, NULL, "seed of every random draw"},
    {"device", OPTION_TEXT, AT(device), "auto", 0, 0, NULL, "auto, cpu, cuda or cuda:N"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "CPU threads; 0: one per core"},
    {.name = NULL},
};

// ---------------------------------- time and words -----------------------------------------------

double learn_spent(const Learn *l) { return l->spent + seconds_now() - l->began; }

double learn_left(const Learn *l, double share) {
  return fmax(0, 60 * l->options.minutes * share - learn_spent(l));
}

void learn_path(const Learn *l, const char *name, char *out, size_t size) {
  folder_file(&l->folder, name, out, size);
}

void learn_say(const Learn *l, const char *format, ...) {
  char line[1024];
  va_list values;
  va_start(values, format);
  vsnprintf(line, sizeof line, format, values);
  va_end(values);
  if (l->plan->say) l->plan->say(l->plan->context, line);
}

// ---------------------------------- learn.json ---------------------------------------------------

static int run_measure(Learn *l);
static int run_collect(Learn *l);
static int run_train(Learn *l);

typedef struct {
  const char *name;
  double until;  // share of the time that is spent at its end
  int (*run)(Learn *l);
} Stage;

// Acting well takes more steps than the data needs transitions; the report is an evaluation and
// three files.
static const Stage stages[] = {{"measure", 0, run_measure},
                               {"collect", 0.40, run_collect},
                               {"train", 0.92, run_train},
                               {"report", 1, learn_report}};
enum { MEASURE, COLLECT, TRAIN, REPORT, STAGES };

static void add_sizes(const LearnSizes *s, cJSON *record) {
  cJSON *sizes = cJSON_AddObjectToObject(record, "sizes");
  cJSON_AddNumberToObject(sizes, "hidden", (double)s->hidden);
  cJSON_AddNumberToObject(sizes, "feat", (double)s->feat);
  cJSON_AddNumberToObject(sizes, "b-hidden", (double)s->b_hidden);
  cJSON_AddNumberToObject(sizes, "batch", (double)s->batch);
  cJSON_AddNumberToObject(sizes, "lr", s->lr);
  cJSON_AddNumberToObject(sizes, "rate", s->rate);
}

// without complete sizes, *s stays as it is
static void read_sizes(LearnSizes *s, const cJSON *sizes) {
  static const char *const names[] = {"hidden", "feat", "b-hidden", "batch", "lr", "rate"};
  double values[6];
  for (int i = 0; i < 6; i++) {
    const cJSON *item = cJSON_GetObjectItem(sizes, names[i]);
    if (!cJSON_IsNumber(item) || !(item->valuedouble > 0 && item->valuedouble < 1e6)) return;
    values[i] = item->valuedouble;
  }
  *s = (LearnSizes){(int64_t)values[0], (int64_t)values[1], (int64_t)values[2],
                    (int64_t)values[3], values[4],          values[5]};
}

static int save(Learn *l) {
  char path[PATH_MAX], *options = options_to_json(learn_options, &l->options);
  cJSON *record = cJSON_CreateObject();
  cJSON_AddStringToObject(record, "robot", l->robot);
  cJSON_AddItemToObject(record, "options", cJSON_Parse(options));
  cJSON_AddStringToObject(record, "stage", l->stage < STAGES ? stages[l->stage].name : "done");
  cJSON_AddNumberToObject(record, "spent", round(10 * learn_spent(l)) / 10);
  free(options);
  if (l->sizes.hidden) add_sizes(&l->sizes, record);
  learn_path(l, "learn.json", path, sizeof path);
  int status = json_write(record, path);
  cJSON_Delete(record);
  l->opened = seconds_now();
  return status;
}

static int stage_named(const char *name) {
  int i = 0;
  while (i < STAGES && name && strcmp(stages[i].name, name)) i++;
  return i;
}

static int read_record(Learn *l, const cJSON *record, const char *path) {
  const char *robot = cJSON_GetStringValue(cJSON_GetObjectItem(record, "robot"));
  const cJSON *spent = cJSON_GetObjectItem(record, "spent");
  const char *stage = cJSON_GetStringValue(cJSON_GetObjectItem(record, "stage"));
  char *options = cJSON_PrintUnformatted(cJSON_GetObjectItem(record, "options"));
  int status = robot && stage && options && cJSON_IsNumber(spent) && strlen(robot) < PATH_MAX
                   ? options_from_json(learn_options, &l->options, options)
                   : bfm_fail(BFM_BAD_FILE, "it must have a robot, options, a stage and a time");
  free(options);
  if (status) return bfm_fail_prefix(BFM_BAD_FILE, "%s is damaged: ", path);
  snprintf(l->robot, sizeof l->robot, "%s", robot);
  l->spent = fmax(0, spent->valuedouble);
  l->stage = stage_named(stage);
  read_sizes(&l->sizes, cJSON_GetObjectItem(record, "sizes"));
  return BFM_OK;
}

static int read_resumed(Learn *l) {
  char path[PATH_MAX];
  cJSON *record;
  learn_path(l, "learn.json", path, sizeof path);
  if (access(path, F_OK)) {
    return bfm_fail(BFM_IO, "%s has no run to resume: it has no learn.json", l->folder.path);
  }
  TRY(json_read(&record, path));
  int status = read_record(l, record, path);
  cJSON_Delete(record);
  TRY(status);
  TRY(options_from_json(learn_options, &l->options, l->plan->given));
  // with more time, a run that was done trains on
  if (l->stage >= REPORT && learn_left(l, stages[TRAIN].until) > 1) l->stage = TRAIN;
  return BFM_OK;
}

// ---------------------------------- progress -----------------------------------------------------

int learn_tell(Learn *l, const char *note) {
  double now = seconds_now();
  if (now - l->opened > SAVE_SECONDS && save(l)) return l->stopped = 1;
  l->now.stage = stages[l->stage].name;
  l->now.left = learn_left(l, 1);
  l->now.share = 1 - l->now.left / (60 * l->options.minutes);
  snprintf(l->now.note, sizeof l->now.note, "%s", note ? note : "");
  if (l->plan->progress && l->plan->progress(l->plan->context, &l->now)) l->stopped = 1;
  return l->stopped;
}

// what a run of the library reports while it is one of the stages
static int tell_run(void *context, const bfm_progress *p) {
  char note[320] = "", done[32], rate[32];
  if (p->total) {
    short_count((double)p->done, done, sizeof done);
    short_count((double)(p->done - p->first) / fmax(p->seconds, 1e-9), rate, sizeof rate);
    snprintf(note, sizeof note, "%s %s, %s/s  %.200s", done, p->unit, rate, p->note);
  }
  return learn_tell(context, note);
}

// ---------------------------------- measure ------------------------------------------------------

// before anything else, so that a time that is too short is refused at once
static int run_measure(Learn *l) {
  bfm_env *env;
  if (l->sizes.hidden) return BFM_OK;
  TRY(bfm_env_new(&env, l->env, 1, 0, 1));
  bfm_env_sizes sizes = {.size = sizeof sizes};
  bfm_env_get_sizes(env, &sizes);
  bfm_env_free(env);
  double share = stages[TRAIN].until - stages[COLLECT].until;
  TRY(learn_choose_sizes(l, sizes.obs_dim, sizes.act_dim, 60 * share * l->options.minutes));
  if (l->stopped) return BFM_OK;
  char rate[32];
  short_count(l->sizes.rate, rate, sizeof rate);
  learn_say(l,
            "learn   %s: data by %s, then %s with networks %" PRId64 " wide and batch %" PRId64
            ", %s steps/s here",
            l->env, l->mood ? "a learner for each task" : "a learner that seeks novelty",
            l->options.algo, l->sizes.hidden, l->sizes.batch, rate);
  return BFM_OK;
}

// ---------------------------------- collect ------------------------------------------------------

static int known_tasks(const char *env) {
  int count = 0;
  const Task *task;
  for (int i = 0; (task = task_at(env, i)); i++) count += task->kind == TASK_KNOWN;
  return count;
}

static cJSON *collect_options_of(const Learn *l, int learners, int episode) {
  enum { EPISODES = 4, MOST = 3000000, MOST_GPU = 10000000 };
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "with", l->mood ? "mood" : "rnd");
  cJSON_AddNumberToObject(o, "steps", l->gpu ? MOST_GPU : MOST);
  cJSON_AddNumberToObject(o, "minutes", fmax(1e-3, learn_left(l, stages[l->stage].until) / 60));
  cJSON_AddNumberToObject(o, "threads", (double)l->options.threads);
  cJSON_AddStringToObject(o, "device", l->options.device);
  if (l->gpu) return o;
  cJSON_AddStringToObject(o, "preset", "small");
  cJSON_AddNumberToObject(o, "eval-episodes", EPISODES);
  cJSON_AddNumberToObject(o, "eval-every", 2.0 * EPISODES * learners * episode);
  return o;
}

static int run_collect(Learn *l) {
  char path[PATH_MAX];
  const Domain *domain;
  TRY(domain_find(&domain, *l->env ? l->env : l->robot));
  learn_path(l, "data.h5", path, sizeof path);
  int resume = !access(path, F_OK), tasks = known_tasks(l->env);
  cJSON *o = collect_options_of(l, tasks ? tasks : 1, domain->episode_steps);
  if (!resume) cJSON_AddNumberToObject(o, "seed", (double)l->options.seed);
  char *options = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  if (!options) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  const bfm_collection plan = {.size = sizeof plan, .env = l->robot, .output = path,
                               .options = options, .resume = resume, .progress = tell_run,
                               .context = l};
  int status = bfm_collect(&plan);
  free(options);
  return status;
}

// ---------------------------------- train --------------------------------------------------------

// evaluations cost time of training, so there are few, of the policy's mean
static cJSON *train_options_of(const Learn *l, double seconds) {
  enum { EVALUATIONS = 6, EPISODES = 4, STATES = 10000 };
  const LearnSizes *s = &l->sizes;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "steps", 1e9);
  cJSON_AddStringToObject(o, "algo", l->options.algo);
  cJSON_AddNumberToObject(o, "hidden", (double)s->hidden);
  cJSON_AddNumberToObject(o, "feat", (double)s->feat);
  cJSON_AddNumberToObject(o, "b-hidden", (double)s->b_hidden);
  cJSON_AddNumberToObject(o, "batch", (double)s->batch);
  cJSON_AddNumberToObject(o, "lr", s->lr);
  cJSON_AddNumberToObject(o, "seed", (double)l->options.seed);
  cJSON_AddStringToObject(o, "on-divergence", "restart");
  cJSON_AddNumberToObject(o, "prompt-states", STATES);
  cJSON_AddNumberToObject(o, "save-every", ceil(fmax(1, s->rate * fmin(60, seconds / 10))));
  if (!known_tasks(l->env)) return o;
  cJSON_AddNumberToObject(o, "eval-every", ceil(fmax(1, s->rate * seconds / EVALUATIONS)));
  cJSON_AddNumberToObject(o, "eval-episodes", EPISODES);
  cJSON_AddStringToObject(o, "eval-es", "off");
  return o;
}

static int train(Learn *l, cJSON *o, int resume) {
  char data[PATH_MAX];
  learn_path(l, "data.h5", data, sizeof data);
  const char *const files[] = {data};
  cJSON_AddNumberToObject(o, "minutes", fmax(1e-3, learn_left(l, stages[l->stage].until) / 60));
  cJSON_AddStringToObject(o, "device", l->options.device);
  cJSON_AddNumberToObject(o, "threads", (double)l->options.threads);
  char *options = cJSON_PrintUnformatted(o);
  if (!options) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  const bfm_training plan = {.size = sizeof plan, .data = files, .data_count = 1,
                             .output = l->folder.path, .options = options, .resume = resume,
                             .progress = tell_run, .context = l};
  int status = bfm_train(&plan);
  free(options);
  return status;
}

static int run_train(Learn *l) {
  char path[PATH_MAX];
  learn_path(l, "state.safetensors", path, sizeof path);
  int resume = !access(path, F_OK);
  double seconds = learn_left(l, stages[l->stage].until);
  cJSON *o = resume ? cJSON_CreateObject() : train_options_of(l, seconds);
  int status = train(l, o, resume);
  cJSON_Delete(o);
  return status;
}

// ---------------------------------- the run ------------------------------------------------------

static int interrupted(const Learn *l) {
  return bfm_fail(BFM_INTERRUPTED,
                  "stopped after %.1f of %g minutes; continue with bfm learn --resume -o %s",
                  learn_spent(l) / 60, l->options.minutes, l->folder.path);
}

static int run_stages(Learn *l) {
  for (l->first_stage = l->stage; l->stage < STAGES; l->stage++) {
    TRY(save(l));
    int status = stages[l->stage].run(l);
    if (l->stopped) {
      TRY(status == BFM_INTERRUPTED ? BFM_OK : status);
      TRY(save(l));
      return interrupted(l);
    }
    TRY(status);
  }
  return save(l);
}

static int open_new(Learn *l) {
  char path[PATH_MAX];
  if (!l->plan->robot) return bfm_fail(BFM_BAD_ARGUMENT, "name a robot: bfm learn walker");
  learn_path(l, "learn.json", path, sizeof path);
  if (!access(path, F_OK)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s has a run in it: add --resume to continue it, or name another folder",
                    l->folder.path);
  }
  // a relative path would mean another file after a resume from elsewhere
  char *whole = strchr(l->plan->robot, '/') || strchr(l->plan->robot, '.')
                    ? realpath(l->plan->robot, NULL)
                    : NULL;
  snprintf(l->robot, sizeof l->robot, "%s", whole ? whole : l->plan->robot);
  free(whole);
  return options_from_json(learn_options, &l->options, l->plan->given);
}

// what the robot and the machine are
static int look_around(Learn *l) {
  const Domain *domain;
  Ops *ops;
  TRY(domain_find(&domain, l->robot));
  snprintf(l->env, sizeof l->env, "%s", domain->name);
  int tasks = known_tasks(l->env);
  if (l->options.with == LEARN_MOOD && !tasks) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s has no known tasks to learn: leave out --with mood",
                    l->robot);
  }
  l->mood = l->options.with != LEARN_RND && tasks;
  TRY(ops_open(&ops, l->options.device, PRECISION_F32, (int)l->options.threads));
  l->gpu = strncmp(ops->name, "cpu", 3) != 0;
  ops->close(ops);
  return BFM_OK;
}

int learn(const LearnPlan *plan) {
  static const char *const traces[] = {"learn.json", NULL};
  Learn l = {.plan = plan, .began = seconds_now()};
  l.opened = l.began;
  TRY(options_default(learn_options, &l.options));
  TRY(folder_name(&l.folder, plan->folder));
  TRY(plan->resume ? read_resumed(&l) : open_new(&l));
  TRY(look_around(&l));
  TRY(folder_make(&l.folder));
  char path[PATH_MAX], data[PATH_MAX];
  learn_path(&l, "learn.json", path, sizeof path);
  learn_path(&l, "data.h5", data, sizeof data);
  int status = run_stages(&l);
  if (!status || plan->resume || !access(data, F_OK)) return status;
  unlink(path);
  folder_take_back(&l.folder, traces);
  return status;
}
