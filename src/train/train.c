// A training run from its start to its first step: settings, data, agent, prompt states, folder.
// All that a user can have got wrong is found here, before anything is left on the disk.

#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/agent.h"
#include "core/json.h"
#include "data/hdf5.h"
#include "data/episode_index.h"
#include "envs/domain.h"
#include "prompt/prompt.h"
#include "train/recipes.h"

#define AT(field) offsetof(TrainSettings, field)
#define RECIPES "auto|none|rnd|mood|d4rl"

const Option train_options[] = {
    {"steps", OPTION_INT, AT(steps), "1M", 1, INFINITY, NULL, "training steps in all"},
    {"stride", OPTION_INT, AT(stride), "1", 1, 1e6, NULL,
     "control steps of a transition, of actions that were held for so many (bfm collect --hold); "
     "gamma is theirs"},
    {"recipe", OPTION_CHOICE, AT(recipe), "auto", 0, 0, RECIPES,
     "defaults of the agent by the kind of data; auto: as the file says who collected it"},
    {"save-every", OPTION_INT, AT(save_every), "0", 0, INFINITY, NULL,
     "steps between saves; 0: every ten minutes"},
    {"log-every", OPTION_INT, AT(log_every), "500", 1, INFINITY, NULL,
     "steps between lines of log.jsonl"},
    {"eval-every", OPTION_INT, AT(eval_every), "0", 0, INFINITY, NULL,
     "steps between evaluations, while training goes on; 0: none"},
    {"eval-tasks", OPTION_TEXT, AT(eval_tasks), "all", 0, 0, NULL,
     "all, in (those of the datasets), new, tasks and rewards, separated by commas"},
    {"eval-episodes", OPTION_INT, AT(eval_episodes), "20", 1, 100000, NULL, "episodes a task"},
    {"eval-steps", OPTION_INT, AT(eval_steps), "0", 0, 1e6, NULL,
     "control steps an episode; 0: the domain's"},
    {"eval-es", OPTION_CHOICE, AT(eval_es), "on", 0, 0, "on|off|both",
     "whether evaluations choose the best of --es actions"},
    {"prompt-states", OPTION_INT, AT(prompt_states), "100k", 0, 1e8, NULL,
     "states of the data that models carry, to be told rewards in words"},
    {"env", OPTION_TEXT, AT(env), "", 0, 0, NULL,
     "domain of the data, where its file does not say"},
    {"on-divergence", OPTION_CHOICE, AT(on_divergence), "stop", 0, 0, "stop|restart",
     "restart: go back to the last good state with a third of the learning rate"},
    {.name = NULL},
};

void training_model_path(const Training *t, int replica, char *out, size_t size) {
  eval_thread_path(t->folder.path, "model", replica, bfm_agent_replicas(t->agent), out, size);
}

// ---------------------------------- run.json -----------------------------------------------------

// a fresh run must not overwrite another, a resume must find one
static int check_folder(const Training *t) {
  char state[PATH_MAX];
  folder_file(&t->folder, "state.safetensors", state, sizeof state);
  int there = !access(state, F_OK);
  if (there && !t->plan.resume) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s has a run in it: add --resume to go on with it, or name another folder",
                    t->folder.path);
  }
  if (!there && t->plan.resume) {
    return bfm_fail(BFM_IO, "%s has no run to resume: there is no state.safetensors",
                    t->folder.path);
  }
  return BFM_OK;
}

int training_read_record(cJSON **record, const char *path) {
  TRY(json_read(record, path));
  int good = cJSON_IsNumber(cJSON_GetObjectItem(*record, "checksum")) &&
             cJSON_IsObject(cJSON_GetObjectItem(*record, "settings")) &&
             cJSON_GetArraySize(cJSON_GetObjectItem(*record, "data")) > 0;
  const cJSON *name;
  cJSON_ArrayForEach(name, cJSON_GetObjectItem(*record, "data")) good &= cJSON_IsString(name);
  if (good) return BFM_OK;
  cJSON_Delete(*record);
  *record = NULL;
  return bfm_fail(BFM_BAD_FILE, "%s is damaged: it names no data files, checksum and settings",
                  path);
}

// words about evaluations where there are none were meant for some
static int check_evaluations(const Training *t) {
  const char *const names[] = {"eval-tasks", "eval-episodes", "eval-steps", "eval-es"};
  cJSON *given = t->settings.eval_every ? NULL : cJSON_Parse(t->plan.settings);
  int status = BFM_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
    if (cJSON_HasObjectItem(given, names[i])) {
      status = bfm_fail(BFM_BAD_ARGUMENT, "--%s is for evaluations: --eval-every says how often",
                        names[i]);
    }
  }
  cJSON_Delete(given);
  return status;
}

// defaults, then what the run was begun with, then what is given now
static int take_settings(Training *t, const cJSON *record) {
  TRY(options_default(train_options, &t->settings));
  const cJSON *begun = cJSON_GetObjectItem(record, "settings");
  char *text = begun ? cJSON_PrintUnformatted(begun) : NULL;
  int status = text ? options_from_json(train_options, &t->settings, text) : BFM_OK;
  free(text);
  if (status) return bfm_fail_prefix(BFM_BAD_FILE, "%s/run.json: ", t->folder.path);
  TRY(options_from_json(train_options, &t->settings, t->plan.settings));
  return check_evaluations(t);
}

// what this start of the run was given; a resume may be given nothing
static int write_record(const Training *t, cJSON *record, uint32_t checksum) {
  if (t->plan.data_count) {
    cJSON_DeleteItemFromObject(record, "data");
    cJSON *files = cJSON_AddArrayToObject(record, "data");
    for (int i = 0; i < t->plan.data_count; i++) {
      // absolute, so that a resume may start anywhere
      char *absolute = realpath(t->plan.data[i], NULL);
      cJSON_AddItemToArray(files, cJSON_CreateString(absolute ? absolute : t->plan.data[i]));
      free(absolute);
    }
  }
  cJSON_DeleteItemFromObject(record, "checksum");
  cJSON_AddNumberToObject(record, "checksum", checksum);
  cJSON_DeleteItemFromObject(record, "settings");
  char *settings = options_to_json(train_options, &t->settings);
  cJSON_AddItemToObject(record, "settings", settings ? cJSON_CreateRaw(settings) : NULL);
  free(settings);
  char path[PATH_MAX];
  folder_file(&t->folder, "run.json", path, sizeof path);
  return json_write(record, path);
}

// ---------------------------------- data ---------------------------------------------------------

static uint32_t checksum_of(const Dataset *data) {
  const struct {
    const float *values;
    int64_t columns;
  } arrays[] = {{data->obs, data->obs_dim},
                {data->act, data->act_dim},
                {data->next_obs, data->obs_dim},
                {data->discount, 1}};
  uint32_t sum = (uint32_t)crc32_z(0, NULL, 0);
  for (int i = 0; i < 4; i++) {
    size_t bytes = (size_t)(data->count * arrays[i].columns) * sizeof(float);
    sum = (uint32_t)crc32_z(sum, (const unsigned char *)arrays[i].values, bytes);
  }
  return sum;
}

static int read_collector(hid_t file, void *context) {
  Training *t = context;
  hdf5_attribute(file, "collector", t->collector, sizeof t->collector);
  return BFM_OK;
}

// the note of who collected the data; domains with a reward of steps are D4RL's
static void find_collector(Training *t, const char *path) {
  const Domain *domain;
  hdf5_use(path, read_collector, t);
  if (!*t->collector && !domain_find(&domain, t->env) && domain->step_reward) {
    strcpy(t->collector, "d4rl");
  }
}

// the data's domain where its observations are positions and a goal, else NULL
static const Domain *domain_with_goals(const Training *t) {
  const Domain *domain;
  if (domain_find(&domain, t->env) || domain->obs_dim != t->data.obs_dim) return NULL;
  return domain->goal_dim ? domain : NULL;
}

static int choose_env(Training *t, const char *said) {
  const char *given = t->settings.env;
  const Domain *domain;
  snprintf(t->env, sizeof t->env, "%s", *given ? given : said);
  if (!*given || !*said || !strcmp(given, said)) return BFM_OK;
  TRY(domain_find(&domain, given));
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "the data is of %s, not of %s: --env is for files that do not say", said, given);
}

static int read_data(Training *t, const cJSON *record) {
  Dataset *data = &t->data;
  const cJSON *names = cJSON_GetObjectItem(record, "data");
  int given = t->plan.data_count > 0 || !t->plan.resume;
  int count = given ? t->plan.data_count : cJSON_GetArraySize(names);
  const char **paths = calloc(count + 1, sizeof *paths);
  if (!paths) return bfm_fail(BFM_NO_MEMORY, "no memory for %d names", count);
  for (int i = 0; i < count; i++) {
    paths[i] = given ? t->plan.data[i] : cJSON_GetArrayItem(names, i)->valuestring;
  }
  int status = (t->settings.prompt_states ? dataset_read_all : dataset_read)(data, paths, count);
  if (!status && (data->obs_dim > OBS_MOST || data->act_dim > ACT_MOST)) {
    status = bfm_fail(BFM_BAD_FILE,
                      "%s has observations of %" PRId64 " and actions of %" PRId64
                      " numbers: an agent takes at most %d and %d",
                      paths[0], data->obs_dim, data->act_dim, OBS_MOST, ACT_MOST);
  }
  if (!status) status = choose_env(t, data->env);
  if (!status) find_collector(t, paths[0]);
  free(paths);
  TRY(status);
  TRY(dataset_check_actions(data));
  const Domain *domain = domain_with_goals(t);
  if (domain) TRY(dataset_clear(data, domain->obs_dim - domain->goal_dim));
  return dataset_stride(data, t->settings.stride);
}

// ---------------------------------- the agent ----------------------------------------------------

// parts of an observation that a goal space names become columns
static int name_goal(const Training *t, const Dataset *data, cJSON *options) {
  const char *goal = cJSON_GetStringValue(cJSON_GetObjectItem(options, "goal"));
  if (!goal || !goal[strspn(goal, "0123456789:,")]) return BFM_OK;
  if (!*t->env) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "goal is \"%s\", but the data does not say its domain: give --env", goal);
  }
  const Domain *domain;
  char columns[OPTION_TEXT_SIZE];
  TRY(domain_find(&domain, t->env));
  if (domain->obs_dim != data->obs_dim) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "goal is \"%s\", but the data has observations of %" PRId64
                    " numbers, not the %d of %s",
                    goal, data->obs_dim, domain->obs_dim, t->env);
  }
  TRY(domain_columns(domain, goal, columns, sizeof columns));
  cJSON_ReplaceItemInObject(options, "goal", cJSON_CreateString(columns));
  return BFM_OK;
}

// evaluations are told apart by seeds: with others, those of one replica would be another's
static int keep_seed(const Training *t, const char *given) {
  Config config;
  if (!given) return BFM_OK;
  TRY(options_set(agent_options, &config, "seed", given));
  if (config.seed == t->agent->config.seed) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "seed is %s, but the run in %s has %" PRId64 ", which it keeps",
                  given, t->folder.path, (int64_t)t->agent->config.seed);
}

static int make_agent(Training *t, const Dataset *data) {
  cJSON *options = cJSON_Parse(t->plan.options ? t->plan.options : "{}");
  char recipe[16], path[PATH_MAX];
  options_get(options_find(train_options, "recipe"), &t->settings, recipe, sizeof recipe);
  folder_file(&t->folder, "state.safetensors", path, sizeof path);
  int status = name_goal(t, data, options), resume = t->plan.resume;
  if (!status && !resume) status = recipe_apply(recipe, recipe_kind(t->collector), options);
  cJSON *seed = resume ? cJSON_DetachItemFromObject(options, "seed") : NULL;
  char *text = status ? NULL : cJSON_PrintUnformatted(options);
  if (!status) {
    status = resume ? bfm_agent_load(&t->agent, path, text)
                    : bfm_agent_new(&t->agent, data->obs_dim, data->act_dim, text);
  }
  if (!status) status = keep_seed(t, cJSON_GetStringValue(seed));
  free(text);
  cJSON_Delete(options);
  cJSON_Delete(seed);
  TRY(status);
  int64_t obs_dim = bfm_agent_obs_dim(t->agent), act_dim = bfm_agent_act_dim(t->agent);
  if (obs_dim != data->obs_dim || act_dim != data->act_dim) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "the data has observations of %" PRId64 " and actions of %" PRId64
                    ", but the agent was trained on %" PRId64 " and %" PRId64,
                    data->obs_dim, data->act_dim, obs_dim, act_dim);
  }
  t->first_step = bfm_agent_step(t->agent);
  size_t R = (size_t)bfm_agent_replicas(t->agent);
  t->losses = calloc(R * bfm_agent_loss_count(t->agent), sizeof *t->losses);
  t->metrics = calloc(R * bfm_agent_metric_count(t->agent), sizeof *t->metrics);
  if (!t->losses || !t->metrics) return bfm_fail(BFM_NO_MEMORY, "no memory for the losses");
  return agent_lend_data(t->agent, data->count, data->obs, data->act, data->next_obs,
                         data->discount);
}

// ---------------------------------- prompt states ------------------------------------------------

// so many rows of an array, one of each equal share of all, of each row the first bytes
static void *sample_part(const Dataset *data, const void *from, size_t row_bytes, int64_t rows,
                         size_t bytes) {
  char *to = malloc((size_t)rows * bytes + 1);
  for (int64_t i = 0; to && bytes && i < rows; i++) {
    size_t row = (size_t)dataset_sample_row(data, rows, i);
    memcpy(to + (size_t)i * bytes, (const char *)from + row * row_bytes, bytes);
  }
  return to;
}

static void *sample(const Dataset *data, const void *from, int64_t rows, size_t row_bytes) {
  return sample_part(data, from, row_bytes, rows, row_bytes);
}

// where the states are: in tables of their own or, one after the other, in physics
typedef struct {
  struct {
    const double *from;
    int64_t row, columns;
  } part[3];  // qpos, qvel, act
} States;

static int find_physics(const Training *t, const Dataset *data, const StateSizes *model,
                        States *states) {
  const int64_t columns[3] = {model->nq, model->nv, model->na}, row = data->physics_dim;
  int64_t at = 0;
  for (int i = 0; i < 3; at += columns[i++]) {
    states->part[i].from = data->physics + at;
    states->part[i].row = row;
    states->part[i].columns = columns[i];
  }
  if (at == row) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "physics of the data has %" PRId64 " numbers, a state of %s has %" PRId64, row,
                  t->env, at);
}

// activations may be missing: they are taken for zeros
static int find_states(const Training *t, const Dataset *data, States *states) {
  StateSizes model;
  TRY(prompt_state_sizes(t->agent, &model));
  if (data->physics) return find_physics(t, data, &model, states);
  *states = (States){{{data->qpos, data->nq, data->nq},
                      {data->qvel, data->nv, data->nv},
                      {data->activation, data->na, data->na}}};
  if (data->nq == model.nq && data->nv == model.nv && (!data->na || data->na == model.na)) {
    return BFM_OK;
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "states of the data have qpos, qvel and act of %" PRId64 ", %" PRId64
                  " and %" PRId64 " numbers, those of %s have %d, %d and %d",
                  data->nq, data->nv, data->na, t->env, (int)model.nq, (int)model.nv,
                  (int)model.na);
}

static int64_t prompt_rows(const Training *t, const Dataset *data) {
  return t->settings.prompt_states < data->count ? t->settings.prompt_states : data->count;
}

// positions that are observed are states at rest
static int give_observed(Training *t, const Dataset *data, const Domain *domain) {
  int64_t rows = prompt_rows(t, data), nq = domain->obs_dim - domain->goal_dim;
  float *obs = sample(data, data->obs, rows, data->obs_dim * sizeof(float));
  double *qpos = malloc((size_t)(rows * nq) * sizeof *qpos);
  for (int64_t i = 0; obs && qpos && i < rows * nq; i++) {
    qpos[i] = obs[i / nq * data->obs_dim + i % nq];
  }
  int status = BFM_OK;
  if (!obs || !qpos) {
    status = bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " prompt states", rows);
  }
  if (!status) status = bfm_agent_set_prompt(t->agent, t->env, rows, obs, qpos, NULL, NULL);
  free(obs);
  free(qpos);
  return status;
}

static int give_prompt(Training *t, const Dataset *data) {
  if (!*t->env) return bfm_fail(BFM_BAD_ARGUMENT, "the data does not say its domain: give --env");
  TRY(bfm_agent_set_prompt(t->agent, t->env, 0, NULL, NULL, NULL, NULL));
  const Domain *domain = domain_with_goals(t);
  if (!data->nq && !data->physics) return domain ? give_observed(t, data, domain) : BFM_OK;
  States states;
  TRY(find_states(t, data, &states));
  int64_t rows = prompt_rows(t, data);
  float *obs = sample(data, data->obs, rows, data->obs_dim * sizeof(float));
  double *parts[3];
  int missing = !obs;
  for (int i = 0; i < 3; i++) {
    parts[i] = sample_part(data, states.part[i].from, states.part[i].row * sizeof(double), rows,
                           states.part[i].columns * sizeof(double));
    missing |= !parts[i];
  }
  int status = BFM_OK;
  if (missing) status = bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " prompt states", rows);
  if (!status) {
    status = bfm_agent_set_prompt(t->agent, t->env, rows, obs, parts[0], parts[1],
                                  states.part[2].columns ? parts[2] : NULL);
  }
  for (int i = 0; i < 3; i++) free(parts[i]);
  free(obs);
  return status;
}

// the states that rewards of the data belong to are those an action led to
static int keep_rewards(Training *t, const Dataset *data) {
  if (!data->rewards) return BFM_OK;
  int64_t rows = prompt_rows(t, data);
  t->sample_obs = sample(data, data->next_obs, rows, data->obs_dim * sizeof(float));
  t->sample_rewards = sample(data, data->rewards, rows, sizeof(float));
  t->sample_rows = rows;
  if (t->sample_obs && t->sample_rewards) return BFM_OK;
  return bfm_fail(BFM_NO_MEMORY, "no memory for %" PRId64 " rewards", rows);
}

// a model of data whose domain is not known can be trained, but neither told in words nor evaluated
static int set_prompt(Training *t, const Dataset *data) {
  if (!t->settings.prompt_states && t->settings.eval_every) {
    return bfm_fail(BFM_BAD_ARGUMENT, "evaluations need prompt states: --prompt-states is 0");
  }
  if (!t->settings.prompt_states) return BFM_OK;
  int status = give_prompt(t, data);
  if (status == BFM_NO_MEMORY || (status && (t->settings.eval_every || *t->settings.env))) {
    return status;
  }
  if (!bfm_agent_prompt_count(t->agent)) {
    snprintf(t->prompt_note, sizeof t->prompt_note, "%s",
             status ? bfm_error() : "the data, or a part of it, has no infos/qpos and infos/qvel");
  }
  return t->settings.eval_every ? keep_rewards(t, data) : BFM_OK;
}

// ---------------------------------- all of it ----------------------------------------------------

static int make_watch(Training *t) {
  const TrainSettings *s = &t->settings;
  if (!s->eval_every) return BFM_OK;
  EvalThreadPlan plan = {.folder = t->folder.path, .env = t->env, .tasks = s->eval_tasks,
                         .episodes = s->eval_episodes, .episode_steps = s->eval_steps,
                         .rows = t->sample_rows, .obs = t->sample_obs, .rewards = t->sample_rewards,
                         .stop = t->plan.stop};
  enum { ON, OFF, BOTH };
  int64_t es = t->agent->config.es;
  if (s->eval_es != ON || !es) plan.es[plan.es_count++] = 0;
  if (s->eval_es != OFF && es) plan.es[plan.es_count++] = es;
  return eval_thread_new(&t->watch, &plan, t->agent);
}

// the bits of a run are those of its data: a resume on other data is refused
static int take_data(Training *t, const Dataset *data, cJSON *record) {
  Piece *pieces;
  TRY(episode_index(data, &pieces, &t->episodes));
  free(pieces);
  t->transitions = data->count;
  uint32_t checksum = checksum_of(data);
  if (t->plan.resume && checksum != cJSON_GetObjectItem(record, "checksum")->valuedouble) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the data is not that of the run in %s, or not in its order",
                    t->folder.path);
  }
  TRY(make_agent(t, data));
  TRY(set_prompt(t, data));
  TRY(make_watch(t));
  t->begun = 1;
  TRY(folder_make(&t->folder));
  TRY(folder_lock(&t->folder));
  int status = check_folder(t);  // another process may have had it until now …
  if (status) t->kept = 1;       // … and left its own traces
  return status ? status : write_record(t, record, checksum);
}

static int open_training(Training *t, cJSON *record) {
  TRY(take_settings(t, record));
  TRY(read_data(t, record));
  TRY(take_data(t, &t->data, record));
  (agent_on_cpu(t->agent) ? dataset_trim : dataset_free)(&t->data);
  TRY(folder_open_log(&t->folder, "log.jsonl", "step", t->first_step, &t->log));
  t->before = folder_log_last(&t->folder, "log.jsonl", "seconds");
  return t->watch ? eval_thread_resume(t->watch, t->first_step) : BFM_OK;
}

int training_open(Training *t, const TrainPlan *plan) {
  *t = (Training){.plan = *plan, .kept = plan->resume};
  TRY(folder_name(&t->folder, plan->folder));
  TRY(check_folder(t));
  cJSON *record = NULL;
  int status = BFM_OK;
  char path[PATH_MAX];
  folder_file(&t->folder, "run.json", path, sizeof path);
  if (plan->resume) status = training_read_record(&record, path);
  else record = cJSON_CreateObject();
  if (!status) status = open_training(t, record);
  cJSON_Delete(record);
  if (status) training_close(t);
  return status;
}

void training_close(Training *t) {
  static const char *const traces[] = {"run.json", "log.jsonl", NULL};
  eval_thread_free(t->watch);
  for (int i = 0; i < 2 && t->agent; i++) snapshot_free(&t->good[i], t->agent);
  bfm_agent_free(t->agent);
  dataset_free(&t->data);
  free(t->losses);
  free(t->metrics);
  free(t->sample_obs);
  free(t->sample_rewards);
  if (t->log) fclose(t->log);
  if (t->begun && !t->kept) folder_take_back(&t->folder, traces);
  folder_unlock(&t->folder);
  *t = (Training){.agent = NULL};
}
