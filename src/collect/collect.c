// Collecting. All environments step together on all cores; while they do, a GPU makes the updates
// that the step is worth. Rows wait until their episodes end (episodes.c), who acts is in crew.c.

#include "collect/collect.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bfm.h"
#include "core/progress.h"
#include "data/hdf5.h"
#include "data/writer.h"
#include "envs/domain.h"
#include "collect/crew.h"
#include "collect/d4rl.h"
#include "collect/episodes.h"
#include "core/folder.h"
#include "collect/stage.h"

#define FLUSH_SECONDS 2.0
#define PIECE_SECONDS 4.0   // an unfinished episode waits no longer
#define SAVE_FIRST 5.0      // seconds until the learners are saved, …
#define SAVE_SECONDS 60.0   // doubling up to this between later saves
#define EVALUATIONS 20      // of a run, unless told
#define EVALUATION_SHARE 8  // transitions for each one of evaluations, at least, unless told
#define SOUGHT_SHARE 2      // … where a return is sought that may be passed quickly

// ---------------------------------- options ------------------------------------------------------

static const Option own_options[] = {
    {"with", OPTION_CHOICE, offsetof(CollectOptions, with), "random", 0, 0, CREW_NAMES,
     "who acts; random: uniform actions; rnd: one that seeks what it has not seen; mood: a learner "
     "for each task of the domain; td3: one for --task; policy: those of --model; d4rl-*: agents "
     "and data as D4RL's"},
    {"steps", OPTION_INT, offsetof(CollectOptions, steps), "100k", 2, 1e12, NULL,
     "transitions in all"},
    {"envs", OPTION_INT, offsetof(CollectOptions, envs), "128", 1, 65536, NULL,
     "environments simulated side by side, of all agents together"},
    {"task", OPTION_TEXT, offsetof(CollectOptions, task), "", 0, 0, NULL,
     "task or expression that td3 learns and whose rewards are stored; without one they are 0"},
    {"hold", OPTION_INT, offsetof(CollectOptions, hold), "1", 1, 1e6, NULL,
     "control steps a random action is held for"},
    {"model", OPTION_TEXT, offsetof(CollectOptions, model), "", 0, 0, NULL,
     "files of policies to act with, a.safetensors,b.safetensors"},
    {"updates", OPTION_REAL, offsetof(CollectOptions, updates), "0", 0, 1000, NULL,
     "of a learner for each step of an environment of its own; 0: 0.31, rnd 0.05"},
    {"until", OPTION_REAL, offsetof(CollectOptions, until), "inf", 0, 0, NULL,
     "stop when the learners' returns reach this"},
    {"eval-every", OPTION_INT, offsetof(CollectOptions, eval_every), "0", 0, 1e12, NULL,
     "transitions between evaluations and lines of the log; 0: twenty in a long run"},
    {"eval-episodes", OPTION_INT, offsetof(CollectOptions, eval_episodes), "4", 1, 1000, NULL,
     "of each learner without noise, at most as many as it has environments"},
    {"train-steps", OPTION_INT, offsetof(CollectOptions, train_steps), "3M", 2, 1e12, NULL,
     "transitions that training the agents of d4rl-medium and d4rl-medium-expert may take"},
    {"seed", OPTION_INT, offsetof(CollectOptions, seed), "0", 0, INFINITY, NULL,
     "of initial states, actions and learners"},
    {"threads", OPTION_INT, offsetof(CollectOptions, threads), "0", 0, 4096, NULL,
     "that simulate and, without a GPU, learn; 0: one per core"},
    {.name = NULL},
};

#define OPTIONS_MAX 64

const Option *collect_options(void) {
  static Option table[OPTIONS_MAX];
  if (table[0].name) return table;
  int count = 0;
  for (const Option *o = own_options; o->name; o++) table[count++] = *o;
  for (const Option *o = explorer_options; o->name && count < OPTIONS_MAX - 1; o++) {
    // algo is what --with says
    if (!strcmp(o->name, "algo") || options_find(own_options, o->name)) continue;
    table[count] = *o;
    table[count++].offset += offsetof(CollectOptions, learner);
  }
  return table;
}

// ---------------------------------- a collection -------------------------------------------------

struct Collection {
  CollectPlan plan;
  CollectOptions options;
  char env_name[64];
  bfm_env *env;
  bfm_env_sizes sizes;
  int n;
  Crew crew;
  Moment moment;
  Episodes *waiting;
  Writer *writer;
  Folder folder;
  FILE *log;

  int64_t rows, episodes, first;  // transitions in file and buffer; episodes of this run; at start
  int64_t rows_of[CREW_MAX];      // … of each agent
  int64_t at, began;              // control steps; when this run began
  int64_t updates;                // of the learners when this run began
  int anew;
  double start, seconds;

  Stage *stage;
  double returns[CREW_MAX];  // of the last evaluation, if there was one
  int evaluated;
  double nearest;    // return of the agent that is kept, of all so far; infinite: none is
  int64_t reported;  // transitions at the last line of the log
};

void collect_path_beside(const char *data, const char *name, char *out, size_t size) {
  size_t length = strlen(data);
  const char *dot = strrchr(data, '.');
  if (dot && dot > data && !strchr(dot, '/') && dot[-1] != '/') length = dot - data;
  snprintf(out, size, "%.*s.%s", (int)length, data, name);
}

// ---------------------------------- simulating ---------------------------------------------------

// learners' first episodes end one after the other, so that later ones begin so too
static void stagger(Collection *c) {
  int64_t length = c->sizes.episode_steps, done = c->at + 1 - c->began;
  if (!c->crew.learner || done >= length) return;
  for (int i = 0; i < c->n; i++) {
    int64_t turn = length - i % c->crew.envs * length / c->crew.envs;
    if (done == turn && !c->moment.ended[i]) c->moment.ended[i] = BFM_ENDED_TIME;
  }
}

// policies get equal shares, also where a kill or a divergence lost rows of one of them
static int has_room(const Collection *c, int agent) {
  int64_t agents = c->crew.agents, steps = c->options.steps;
  int64_t share = c->crew.kind->policies ? steps / agents + (agent < steps % agents) : steps;
  return c->rows < steps && c->rows_of[agent] < share;
}

static int step(Collection *c) {
  Moment *m = &c->moment;
  bfm_env_state(c->env, m->qpos, m->qvel, m->act_state);
  TRY(crew_act(&c->crew, m->obs, 1, c->at, m->actions));
  TRY(crew_learn(&c->crew, c->at));
  TRY(crew_simulate(&c->crew, c->env, m->actions, m->rewards));
  bfm_env_obs(c->env, m->next_obs);
  bfm_env_ended(c->env, m->ended);
  stagger(c);

  double now = seconds_now();
  int any = 0;
  for (int i = 0; i < c->n; i++) {
    int agent = i / c->crew.envs;
    int64_t number = c->at * c->n + i;
    // a diverged step has no successor: the episode ends with the row before
    if (m->ended[i] != BFM_ENDED_DIVERGED && has_room(c, agent)) {
      Label label = {agent, c->crew.task_numbers[agent], number};
      TRY(episodes_put(c->waiting, c->writer, m, i, label, now));
      c->rows++;
      c->rows_of[agent]++;
    }
    if (!m->ended[i]) continue;
    TRY(episodes_write(c->waiting, c->writer, i));
    episodes_begin(c->waiting, i, number + c->n);
    c->episodes++;
    any = 1;
  }
  TRY(crew_add(&c->crew, m));
  c->at++;
  if (any) TRY(bfm_env_reset(c->env, m->ended));
  bfm_env_obs(c->env, m->obs);
  return BFM_OK;
}

// ---------------------------------- evaluating ---------------------------------------------------

static int stopped(const Collection *c) { return c->plan.stop && *c->plan.stop; }

static int evaluate(Collection *c) {
  if (!*c->crew.tasks[0]) return BFM_OK;
  if (!c->stage) TRY(stage_new(&c->stage, &c->crew, c->options.eval_episodes));
  TRY(stage_evaluate(c->stage, &c->crew, c->at, c->plan.stop, c->returns));
  c->evaluated |= !stopped(c);
  return BFM_OK;
}

static int reached(const Collection *c) {
  if (!c->evaluated) return 0;
  for (int t = 0; t < c->crew.agents; t++) {
    if (c->returns[t] < c->options.until) return 0;
  }
  return 1;
}

static void returns_note(const Collection *c, char *out, size_t size) {
  size_t at = 0;
  *out = 0;
  for (int t = 0; t < c->crew.agents && c->evaluated && at < size; t++) {
    const char *name = c->crew.task_numbers[t] < 0 ? "return" : c->crew.tasks[t];
    at += snprintf(out + at, size - at, "%s%s %.0f", t ? "  " : "", name, c->returns[t]);
  }
}

// ---------------------------------- the log ------------------------------------------------------

static void log_losses(cJSON *entry, bfm_explorer *learner, int agents, const float *losses) {
  int count = bfm_explorer_loss_count(learner);
  cJSON *all = cJSON_AddObjectToObject(entry, "losses");
  for (int i = 0; i < count; i++) {
    cJSON *each = cJSON_AddArrayToObject(all, bfm_explorer_loss_name(learner, i));
    for (int t = 0; t < agents; t++) {
      cJSON_AddItemToArray(each, log_number(losses[t * count + i]));
    }
  }
}

// waits for the updates under way: whoever diverged is told now
static int check_learners(Collection *c, cJSON *entry) {
  if (!c->crew.learner) return BFM_OK;
  bfm_explorer *learner = c->crew.learner;
  float *losses = calloc((size_t)c->crew.agents * bfm_explorer_loss_count(learner), sizeof *losses);
  int status = losses ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "no memory for the losses");
  if (!status) status = bfm_explorer_losses(learner, losses);
  if (!status && entry) log_losses(entry, learner, c->crew.agents, losses);
  free(losses);
  return status;
}

// the agent that was kept may be nearer than all that come; a log without its return is an old one
static void recall_nearest(Collection *c, const char *log) {
  char path[PATH_MAX];
  collect_path_beside(c->plan.path, "nearest.safetensors", path, sizeof path);
  c->nearest = INFINITY;
  if (!c->plan.resume || access(path, F_OK)) return;
  double kept = folder_log_last(&c->folder, log, "nearest");
  if (kept != 0) c->nearest = kept;
}

static int open_log(Collection *c) {
  char path[PATH_MAX];
  if (!c->crew.learner) return BFM_OK;
  collect_path_beside(c->plan.path, "log.jsonl", path, sizeof path);
  char *slash = strrchr(path, '/');
  if (slash) *slash = 0;
  TRY(folder_name(&c->folder, !slash ? "." : slash == path ? "/" : path));
  const char *name = slash ? slash + 1 : path;
  recall_nearest(c, name);  // also from lines that are cut now: the agent is not
  // by transitions: numbers of steps run ahead of the rows that a kill left
  return folder_open_log(&c->folder, name, "transitions", c->rows, &c->log);
}

static int write_log(Collection *c) {
  double seconds = seconds_now() - c->start;
  cJSON *entry = cJSON_CreateObject();
  cJSON_AddNumberToObject(entry, "step", (double)c->at);
  cJSON_AddNumberToObject(entry, "transitions", (double)c->rows);
  cJSON_AddItemToObject(entry, "seconds", log_number(seconds));
  cJSON_AddItemToObject(entry, "simulator", log_number(c->crew.busy / seconds));
  cJSON_AddNumberToObject(entry, "updates", (double)bfm_explorer_step(c->crew.learner));
  if (c->evaluated) {
    cJSON *returns = cJSON_AddObjectToObject(entry, "returns");
    for (int t = 0; t < c->crew.agents; t++) {
      cJSON_AddItemToObject(returns, c->crew.tasks[t], log_number(c->returns[t]));
    }
  }
  if (isfinite(c->nearest)) cJSON_AddItemToObject(entry, "nearest", log_number(c->nearest));
  int status = check_learners(c, entry);
  if (!status) status = folder_log(&c->folder, c->log, entry);
  cJSON_Delete(entry);
  return status;
}

// ---------------------------------- the run ------------------------------------------------------

static int flush(Collection *c, double since) {
  TRY(episodes_write_old(c->waiting, c->writer, since));
  TRY(writer_flush(c->writer));
  return check_learners(c, NULL);
}

static int64_t next_report(const Collection *c) {
  int64_t every = c->options.eval_every;
  if (!every) {
    int64_t cost = c->crew.agents * c->options.eval_episodes * c->sizes.episode_steps;
    int sought = !isinf(c->options.until);
    every = sought ? SOUGHT_SHARE * cost : c->options.steps / EVALUATIONS + 1;
    if (!sought && every < EVALUATION_SHARE * cost) every = EVALUATION_SHARE * cost;
  }
  return (c->rows / every + 1) * every;
}

// D4RL's agents may pass a level by far between two looks
static int keep_nearest(Collection *c) {
  double gap = fabs(c->returns[0] - c->options.until);
  if (!c->crew.kind->levels || gap >= fabs(c->nearest - c->options.until)) return BFM_OK;
  c->nearest = c->returns[0];
  return crew_save_policy(&c->crew, 0, c->plan.path, "nearest");
}

static int report(Collection *c) {
  if (!c->crew.learner) return BFM_OK;
  TRY(evaluate(c));
  c->reported = c->rows;
  if (stopped(c)) return BFM_OK;
  TRY(keep_nearest(c));
  return write_log(c);
}

static int collect(Collection *c, Progress *progress) {
  double flushed = c->start, saved = c->start, pause = SAVE_FIRST;
  if (c->rows && c->reported < 0) TRY(report(c));
  int64_t due = next_report(c);
  char note[256] = "";
  while (c->rows < c->options.steps && !stopped(c) && !reached(c)) {
    TRY(step(c));
    if (c->rows >= due) {
      TRY(report(c));
      returns_note(c, note, sizeof note);
      due = next_report(c);
    }
    double now = seconds_now();
    if (c->plan.seconds > 0 && now - c->start > c->plan.seconds) return BFM_OK;
    if (now - flushed > FLUSH_SECONDS) {
      TRY(flush(c, now - PIECE_SECONDS));
      flushed = now;
    }
    if (now - saved > pause) {
      TRY(crew_save(&c->crew, c->plan.path));
      saved = now;
      pause = fmin(2 * pause, SAVE_SECONDS);
    }
    progress_update(progress, c->rows, note);
  }
  if (stopped(c) || c->reported == c->rows) return BFM_OK;
  return report(c);
}

// a file that is complete with fewer rows than planned has room for no more than those
static int shorten(Collection *c) {
  int count;
  const Table *tables = episodes_tables(c->waiting, &count);
  Writer *writer;
  TRY(writer_resume(&writer, c->plan.path, tables, count, c->rows));
  return writer_close(writer);
}

static int finish(Collection *c) {
  Writer *writer = c->writer;
  TRY(episodes_write_old(c->waiting, writer, INFINITY));
  c->writer = NULL;
  TRY(writer_close(writer));
  return reached(c) && c->rows < c->options.steps ? shorten(c) : BFM_OK;
}

int collection_run(Collection *c) {
  // whom D4RL's data is of is not there before it was trained
  if (c->crew.kind->policies && c->crew.kind->levels && c->rows < c->options.steps) {
    TRY(d4rl_train(&c->plan, c->env_name, &c->options, c->crew.kind->levels));
    TRY(crew_read_policies(&c->crew, c->plan.path));
  }
  TRY(open_log(c));
  Progress progress;
  const char *what = c->crew.learner && c->crew.kind->levels ? "train" : "collect";
  progress_start(&progress, what, "steps", c->rows, c->options.steps, c->plan.quiet);
  c->start = seconds_now();
  int status = collect(c, &progress);
  c->seconds = seconds_now() - c->start;
  progress_end(&progress);

  // the learners before a divergence are worth keeping, those after it are not
  if (status == BFM_DIVERGED) {
    char why[512];
    snprintf(why, sizeof why, "%s", bfm_error());
    TRY(finish(c));
    return bfm_fail(status, "%s; the %" PRId64 " transitions until then are in %s", why, c->rows,
                    c->plan.path);
  }
  TRY(status);
  TRY(finish(c));
  TRY(crew_save(&c->crew, c->plan.path));
  if (c->rows >= c->options.steps || reached(c)) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED,
                  "stopped at transition %" PRId64 " of %" PRId64
                  "; bfm collect --resume -o %s goes on",
                  c->rows, c->options.steps, c->plan.path);
}

// ---------------------------------- opening ------------------------------------------------------

// ["stand", "walk", …]: what the numbers of infos/task mean
static char *task_names(const char *env) {
  cJSON *names = cJSON_CreateArray();
  const char *name;
  for (int i = 0; (name = bfm_task_name(env, i, NULL, NULL)); i++) {
    cJSON_AddItemToArray(names, cJSON_CreateString(name));
  }
  char *text = cJSON_PrintUnformatted(names);
  cJSON_Delete(names);
  return text;
}

// ["td3 stand", …]: what the numbers of infos/source mean
static char *source_names(const Crew *crew) {
  cJSON *names = cJSON_CreateArray();
  for (int t = 0; t < crew->agents; t++) {
    cJSON_AddItemToArray(names, cJSON_CreateString(crew->sources[t]));
  }
  char *text = cJSON_PrintUnformatted(names);
  cJSON_Delete(names);
  return text;
}

static int create_file(Collection *c) {
  char *options = options_to_json(collect_options(), &c->options);
  char *tasks = task_names(c->env_name), *sources = source_names(&c->crew);
  int count, status = BFM_OK;
  const Table *tables = episodes_tables(c->waiting, &count);
  if (!options || !tasks || !sources) {
    status = bfm_fail(BFM_NO_MEMORY, "no memory for the options");
  }
  if (!status) {
    const Note notes[] = {{"env", c->env_name}, {"collector", c->crew.kind->name},
                          {"options", options}, {"task", c->options.task},
                          {"tasks", tasks},     {"sources", sources}};
    status = writer_create(&c->writer, c->plan.path, tables, count, c->options.steps, notes,
                           sizeof notes / sizeof *notes);
  }
  free(options);
  free(tasks);
  free(sources);
  return status;
}

// environments and crew; state: the learners' file to go on with, or NULL
static int gather(Collection *c, uint64_t seed, const char *state) {
  TRY(bfm_env_new(&c->env, c->env_name, (int)c->options.envs, seed, (int)c->options.threads));
  bfm_env_get_sizes(c->env, &c->sizes);
  c->n = c->sizes.count;
  TRY(moment_new(&c->moment, &c->sizes));
  TRY(episodes_new(&c->waiting, &c->sizes));
  TRY(crew_rewards(&c->crew, c->env, c->moment.rewards));  // refuses expressions that are none
  TRY(crew_open(&c->crew, c->env, state));
  int ready = c->crew.kind->policies && !c->crew.kind->levels;
  return ready ? crew_read_policies(&c->crew, c->plan.path) : BFM_OK;
}

// what the file says of how it was made
static int read_notes(Collection *c, hid_t file) {
  char options[4096], env[sizeof c->env_name];
  hdf5_attribute(file, "options", options, sizeof options);
  hdf5_attribute(file, "env", env, sizeof env);
  if (!*options || !*env) {
    return bfm_fail(BFM_BAD_FILE, "%s was not made by bfm collect: it cannot be resumed",
                    c->plan.path);
  }
  if (options_from_json(collect_options(), &c->options, options)) {
    return bfm_fail_prefix(BFM_BAD_FILE, "%s: its options are damaged: ", c->plan.path);
  }
  // the plan of the last resume
  c->options.steps = hdf5_attribute_number(file, "planned_rows", c->options.steps);
  if (c->plan.env && strcmp(c->plan.env, env)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s is of %s, not of %s", c->plan.path, env, c->plan.env);
  }
  strcpy(c->env_name, env);
  return BFM_OK;
}

typedef struct {
  Collection *collection;
  int64_t rows, last;  // numbers of transitions go on behind the last one that is in the file
  int64_t labels;      // rows of infos/source
  int64_t envs;        // side by side until now
  double *steps, *sources;
} Begun;

static int read_numbers(hid_t file, const char *name, int64_t *rows, double **out) {
  int64_t columns;
  int axes;
  TRY(hdf5_shape(file, name, rows, &columns, &axes));
  if (columns != 1) {
    return bfm_fail(BFM_BAD_FILE, "%s has %" PRId64 " columns, but must have 1", name, columns);
  }
  *out = malloc((size_t)(*rows + 1) * sizeof **out);
  if (!*out) return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rows", *rows);
  return hdf5_read_doubles(file, name, *rows, 1, *out);
}

static int look_into(hid_t file, void *context) {
  Begun *begun = context;
  TRY(read_notes(begun->collection, file));
  int status = read_numbers(file, "infos/step", &begun->rows, &begun->steps);
  if (!status) status = read_numbers(file, "infos/source", &begun->labels, &begun->sources);
  if (status) return bfm_fail_prefix(status, "%s: ", begun->collection->plan.path);
  for (int64_t i = 0; i < begun->rows; i++) {
    if (begun->steps[i] > (double)begun->last) begun->last = (int64_t)begun->steps[i];
  }
  return BFM_OK;
}

// the file's notes tell whose rows it has: who acts, and for what, stays
static int check_same(const Collection *c, const CollectOptions *begun) {
  static const char *const names[] = {"with", "task", "model"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const Option *option = options_find(own_options, names[i]);
    char now[OPTION_TEXT_SIZE], then[OPTION_TEXT_SIZE];
    options_get(option, &c->options, now, sizeof now);
    options_get(option, begun, then, sizeof then);
    if (!strcmp(now, then)) continue;
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s is \"%s\", but %s was begun with \"%s\": a resume keeps who acts and for "
                    "what task",
                    names[i], now, c->plan.path, then);
  }
  if (!crew_kinds[begun->with].learners || begun->envs == c->options.envs) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "envs is %" PRId64 ", but %s was begun with %" PRId64
                  ": learners go on with as many",
                  c->options.envs, c->plan.path, begun->envs);
}

static int go_on(Collection *c, const Begun *begun) {
  TRY(crew_choose(&c->crew, c->env_name, &c->options, 1));

  // initial states must not repeat those of the episodes that are there
  uint64_t seed = (uint64_t)c->options.seed + 0x9E3779B97F4A7C15u * (uint64_t)(begun->last + 1);
  char state[PATH_MAX];
  collect_path_beside(c->plan.path, "state.safetensors", state, sizeof state);
  c->anew = c->crew.kind->learners && access(state, F_OK);
  TRY(gather(c, seed, c->anew ? NULL : state));
  if (begun->rows > 1) TRY(crew_remember(&c->crew, c->plan.path));
  int count;
  const Table *tables = episodes_tables(c->waiting, &count);
  TRY(writer_resume(&c->writer, c->plan.path, tables, count, c->options.steps));
  // neither may the draws of the actions, also where environments were fewer
  int64_t fewest = begun->envs < c->n ? begun->envs : c->n;
  c->at = begun->last / fewest + (begun->last >= 0);
  for (int64_t i = 0; i < begun->labels && i < writer_rows(c->writer); i++) {
    int agent = (int)begun->sources[i];
    if (agent >= 0 && agent < c->crew.agents) c->rows_of[agent]++;
  }
  return BFM_OK;
}

static int open_resumed(Collection *c) {
  Begun begun = {.collection = c, .last = -1};
  int status = hdf5_use(c->plan.path, look_into, &begun);
  CollectOptions then = c->options;
  begun.envs = then.envs;
  if (!status) status = options_from_json(collect_options(), &c->options, c->plan.given);
  if (!status) status = check_same(c, &then);
  if (!status) status = go_on(c, &begun);
  free(begun.steps);
  free(begun.sources);
  return status;
}

static int open_new(Collection *c) {
  if (!c->plan.env) return bfm_fail(BFM_BAD_ARGUMENT, "name an environment: bfm collect walker");
  if (strlen(c->plan.env) >= sizeof c->env_name) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no environment \"%.64s…\"", c->plan.env);
  }
  strcpy(c->env_name, c->plan.env);
  const Domain *domain;
  TRY(domain_find(&domain, c->env_name));
  TRY(options_from_json(collect_options(), &c->options, c->plan.given));
  cJSON *given = cJSON_Parse(c->plan.given);
  int envs_given = cJSON_HasObjectItem(given, "envs");
  cJSON_Delete(given);
  TRY(crew_choose(&c->crew, c->env_name, &c->options, envs_given));
  TRY(gather(c, (uint64_t)c->options.seed, NULL));
  return create_file(c);
}

int collection_open(Collection **out, const CollectPlan *plan) {
  *out = NULL;
  Collection *c = calloc(1, sizeof *c);
  if (!c) return bfm_fail(BFM_NO_MEMORY, "no memory to collect");
  c->plan = *plan;
  int status = options_default(collect_options(), &c->options);
  if (!status) status = plan->resume ? open_resumed(c) : open_new(c);
  if (status) {
    collection_close(c);
    return status;
  }
  c->rows = c->first = writer_rows(c->writer);
  // what was evaluated before is not known: where a return is sought, a resume begins with a look
  c->reported = isinf(c->options.until) ? c->rows : -1;
  c->began = c->at;
  c->updates = c->crew.learner ? bfm_explorer_step(c->crew.learner) : 0;
  for (int i = 0; i < c->n; i++) episodes_begin(c->waiting, i, c->at * c->n + i);
  bfm_env_obs(c->env, c->moment.obs);
  *out = c;
  return BFM_OK;
}

const char *collection_task(const Collection *c, int agent) { return c->crew.tasks[agent]; }

void collection_summary(const Collection *c, CollectSummary *summary) {
  *summary = (CollectSummary){
      .env = c->env_name,
      .with = c->crew.kind->name,
      .first = c->first,
      .rows = c->rows,
      .episodes = c->episodes,
      .diverged = bfm_env_diverged(c->env),
      .updates = c->crew.learner ? bfm_explorer_step(c->crew.learner) - c->updates : 0,
      .envs = c->n,
      .agents = c->crew.agents,
      .anew = c->anew,
      .seconds = c->seconds,
      .busy = c->crew.busy,
      .returns = c->evaluated ? c->returns : NULL,
  };
}

void collection_close(Collection *c) {
  if (!c) return;
  writer_abandon(c->writer);
  crew_close(&c->crew);
  episodes_free(c->waiting);
  moment_free(&c->moment);
  bfm_env_free(c->env);
  stage_free(c->stage);
  if (c->log) fclose(c->log);
  free(c);
}
