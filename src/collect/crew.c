// Who acts while data is collected. An explorer holds the learners' networks and ring of
// transitions; this file chooses their tasks, adds the rows of their environments to the ring, and
// after a resume fills the ring again from the dataset.

#include "collect/crew.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "data/safetensors.h"
#include "envs/domain.h"
#include "envs/tasks.h"
#include "collect/d4rl_scores.h"
#include "ops/ops.h"

const CrewKind crew_kinds[] = {
    {.name = "random"},
    {.name = "rnd", .learners = 1, .algo = EXPLORER_RND, .updates = 0.05, .updates_on_gpu = 0.5},
    {.name = "mood", .learners = 1, .algo = EXPLORER_TD3, .updates = 0.31, .every_task = 1},
    {.name = "td3", .learners = 1, .algo = EXPLORER_TD3, .updates = 0.31},
    {.name = "policy", .policies = 1},
    {.name = "d4rl-medium", .policies = 1, .levels = 1},
    {.name = "d4rl-medium-replay", .learners = 1, .algo = EXPLORER_TD3, .updates = 0.31,
     .levels = 1},
    {.name = "d4rl-medium-expert", .policies = 1, .levels = 2},
};

// ---------------------------------- choosing agents ----------------------------------------------

static int add_agent(Crew *c, const char *source, const char *task) {
  if (c->agents == CREW_MAX) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a collection has at most %d agents", CREW_MAX);
  }
  int t = c->agents++;
  snprintf(c->sources[t], sizeof c->sources[t], "%s", source);
  snprintf(c->tasks[t], sizeof c->tasks[t], "%s", task);
  c->task_numbers[t] = -1;
  const Task *row;
  for (int i = 0; (row = task_at(c->env_name, i)); i++) {
    if (!strcmp(row->name, task)) c->task_numbers[t] = i;
  }
  return BFM_OK;
}

static int add_td3(Crew *c, const char *task) {
  char source[OPTION_TEXT_SIZE + 8];
  snprintf(source, sizeof source, "td3 %s", task);
  return add_agent(c, source, task);
}

// the number of tasks of the datasets, and their names as "stand, walk, run, spin"
static int known_tasks(const char *env, char *out, size_t size, const Task **last) {
  const Task *task;
  int count = 0;
  size_t at = 0;
  *out = 0;
  for (int i = 0; (task = task_at(env, i)); i++) {
    if (task->kind != TASK_KNOWN) continue;
    if (at < size) at += snprintf(out + at, size - at, "%s%s", count ? ", " : "", task->name);
    *last = task;
    count++;
  }
  return count;
}

// --task, or the only task that the domain has
static int find_task(const Crew *c, const char **name) {
  char list[256];
  const Task *task = NULL;
  *name = c->options->task;
  if (**name) return BFM_OK;
  int count = known_tasks(c->env_name, list, sizeof list, &task);
  if (count == 1) *name = task->name;
  if (count == 1) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "name the task to learn, --task %s: %s has %s",
                  task ? task->name : "EXPRESSION", c->env_name,
                  count ? list : "no tasks of its own");
}

static int add_every_task(Crew *c) {
  const Task *task;
  if (*c->options->task) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s learns every task of %s: leave out --task, or use --with td3",
                    c->kind->name, c->env_name);
  }
  for (int i = 0; (task = task_at(c->env_name, i)); i++) {
    if (task->kind == TASK_KNOWN) TRY(add_td3(c, task->name));
  }
  if (c->agents) return BFM_OK;
  return bfm_fail(
      BFM_BAD_ARGUMENT,
      "%s learns the known tasks of a robot, but %s has none: write some into its .yaml "
      "(bfm robot new makes one), or use --with rnd",
      c->kind->name, c->env_name);
}

// a policy for each file of "a.safetensors,b.safetensors"
static int add_policies(Crew *c) {
  char names[OPTION_TEXT_SIZE], *rest = names;
  snprintf(names, sizeof names, "%s", c->options->model);
  if (!*names) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name the policy that acts: --model data.run.safetensors");
  }
  for (char *name; (name = strsep(&rest, ","));) {
    if (!*name) {
      return bfm_fail(BFM_BAD_ARGUMENT,
                      "model is \"%s\", but must be file names with one comma between them",
                      c->options->model);
    }
    TRY(add_agent(c, name, c->options->task));
  }
  return BFM_OK;
}

static int add_agents(Crew *c) {
  const CrewKind *kind = c->kind;
  const char *task = c->options->task;
  if (kind->every_task) return add_every_task(c);
  if (kind->levels || (kind->learners && kind->algo == EXPLORER_TD3)) TRY(find_task(c, &task));
  if (kind->policies && !kind->levels) return add_policies(c);
  for (int level = 0; kind->policies && level < kind->levels; level++) {
    TRY(add_agent(c, d4rl_levels[level].name, task));
  }
  if (kind->policies) return BFM_OK;
  return kind->learners && kind->algo == EXPLORER_TD3 ? add_td3(c, task)
                                                      : add_agent(c, kind->name, task);
}

// reject options that this collector ignores
static int check_options(const CrewKind *kind, const CollectOptions *options) {
  if (*options->model && (!kind->policies || kind->levels)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "model is \"%s\", but --with is %s: --model is for --with policy",
                    options->model, kind->name);
  }
  if (options->hold > 1 && (kind->learners || kind->policies)) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "hold is %" PRId64 ", but --with is %s: --hold is for --with random",
                    options->hold, kind->name);
  }
  if (options->preset == COLLECT_SMALL && !kind->learners) {
    return bfm_fail(BFM_BAD_ARGUMENT, "preset is small, but --with is %s: --preset is for learners",
                    kind->name);
  }
  int has_returns = kind->learners && (kind->algo != EXPLORER_RND || *options->task);
  if (!isinf(options->until) && !has_returns) {
    return bfm_fail(BFM_BAD_ARGUMENT, "until is %g, but --with is %s: --until is for learners%s",
                    options->until, kind->name, kind->learners ? " with a --task" : "");
  }
  return BFM_OK;
}

// On a CPU, the updates of the learners take nearly all of the time: small networks, and few
// environments, so that each transition is learned from more often
static void take_preset(const Crew *c, CollectOptions *options, int envs_given) {
  enum { WIDTH = 256, ENVS = 4 };
  if (options->preset != COLLECT_SMALL) return;
  if (!options->learner.hidden) options->learner.hidden = WIDTH;
  if (!options->learner.batch) options->learner.batch = WIDTH;
  if (!envs_given) options->envs = ENVS * c->agents;
}

int crew_choose(Crew *c, const char *env_name, CollectOptions *options, int envs_given) {
  *c = (Crew){.kind = &crew_kinds[options->with], .env_name = env_name, .options = options};
  TRY(check_options(c->kind, options));
  if (c->kind->levels) TRY(d4rl_check(env_name, options->task, c->kind->name));
  TRY(add_agents(c));
  take_preset(c, options, envs_given);
  if (!envs_given && options->envs > c->agents) options->envs -= options->envs % c->agents;
  if (options->envs % c->agents || options->envs < c->agents) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "envs is %" PRId64 ", but must be a multiple of the %d agents of %s",
                    options->envs, c->agents, c->kind->name);
  }
  c->envs = (int)options->envs / c->agents;
  if (c->kind->learners && c->kind->levels && isinf(options->until)) {
    options->until = d4rl_return(env_name, 0);
  }
  return BFM_OK;
}

// ---------------------------------- life ---------------------------------------------------------

// the number of floats in a row of the learners' ring
static int64_t row_size(const Crew *c) {
  return 2 * (int64_t)c->sizes.obs_dim + c->sizes.act_dim + 3;
}

// random actions stay within ±1, as those of policies do (quadruped would accept a little more)
static void set_range(Crew *c, const bfm_env *env) {
  bfm_env_action_range(env, c->low, c->high);
  for (int u = 0; u < c->sizes.act_dim; u++) {
    c->low[u] = fmax(c->low[u], -1);
    c->high[u] = fmin(c->high[u], 1);
  }
}

// sizes do not tell domains apart. Files of early versions do not name theirs
static int check_policy(const Crew *c, const char *path) {
  SafeTensors *file;
  TRY(safetensors_open(&file, path));
  const char *env = safetensors_metadata(file, "env"), *what = safetensors_metadata(file, "bfm");
  int status = BFM_OK;
  if (what && !strcmp(what, "explorer")) {
    status = bfm_fail(BFM_BAD_ARGUMENT, "%s holds the state of learners, not a policy", path);
  } else if (env && strcmp(env, c->env_name)) {
    status = bfm_fail(BFM_BAD_ARGUMENT, "%s is a policy of %s, not of %s", path, env, c->env_name);
  }
  safetensors_close(file);
  return status;
}

static int read_policy(Crew *c, int t, const char *path) {
  TRY(check_policy(c, path));
  cJSON *options = cJSON_CreateObject();
  cJSON_AddStringToObject(options, "device", c->options->learner.device);
  cJSON_AddNumberToObject(options, "threads", (double)c->options->threads);
  // D4RL records its agents with half the noise of their training
  double sigma = c->options->learner.sigma * (c->kind->levels ? 0.5 : 1);
  cJSON_AddNumberToObject(options, "sigma", sigma);
  cJSON_AddNumberToObject(options, "random-steps", 0);
  // each policy has its own noise, as learners do. As text: a JSON number is exact up to 2^53 only
  char seed[32];
  snprintf(seed, sizeof seed, "%" PRIu64, ((uint64_t)c->options->seed + (uint64_t)t) & INT64_MAX);
  cJSON_AddStringToObject(options, "seed", seed);
  char *given = cJSON_PrintUnformatted(options);
  cJSON_Delete(options);
  if (!given) return bfm_fail(BFM_NO_MEMORY, "out of memory for a policy");
  int status = bfm_explorer_load(&c->policies[t], path, c->envs, given);
  free(given);
  TRY(status);
  if (bfm_explorer_row_size(c->policies[t]) == row_size(c)) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s is a policy of another domain than %s", path, c->env_name);
}

int crew_read_policies(Crew *c) {
  char names[OPTION_TEXT_SIZE], *rest = names;
  if (!c->kind->policies || c->kind->levels) return BFM_OK;
  snprintf(names, sizeof names, "%s", c->options->model);
  for (int t = 0; t < c->agents; t++) TRY(read_policy(c, t, strsep(&rest, ",")));
  return BFM_OK;
}

int crew_read_levels(Crew *c, const char *data) {
  char path[PATH_MAX];
  if (!c->kind->policies || !c->kind->levels) return BFM_OK;
  for (int t = 0; t < c->agents; t++) {
    d4rl_policy_path(data, t, path, sizeof path);
    TRY(read_policy(c, t, path));
  }
  return BFM_OK;
}

// "td3 stand, td3 walk": the names of the learners
static void name_learners(const Crew *c, char *out, size_t size) {
  size_t at = 0;
  for (int t = 0; t < c->agents && at < size; t++) {
    at += (size_t)snprintf(out + at, size - at, "%s%s", t ? ", " : "", c->sources[t]);
  }
}

static int other_learners(const Crew *c, const char *state, const char *who, const char *env) {
  char own[CREW_MAX * OPTION_TEXT_SIZE];
  name_learners(c, own, sizeof own);
  return bfm_fail(BFM_BAD_ARGUMENT, "%s holds the state of %s in %s, but the data is from %s in %s",
                  state, who, env, own, c->env_name);
}

// files of early versions do not name their learners
static int check_names(const Crew *c, const char *state) {
  SafeTensors *file;
  TRY(safetensors_open(&file, state));
  const char *env = safetensors_metadata(file, "env"), *who = safetensors_metadata(file, "task");
  char own[CREW_MAX * OPTION_TEXT_SIZE];
  name_learners(c, own, sizeof own);
  int same = !env || !who || (!strcmp(env, c->env_name) && !strcmp(who, own));
  int status = same ? BFM_OK : other_learners(c, state, who, env);
  safetensors_close(file);
  return status;
}

static int check_sizes(const Crew *c, const char *state) {
  bfm_explorer_sizes has = {.size = sizeof has};
  bfm_explorer_get_sizes(c->learner, &has);
  int same = has.obs_dim == c->sizes.obs_dim && has.act_dim == c->sizes.act_dim;
  if (same && has.tasks == c->agents) return BFM_OK;
  return other_learners(c, state, "other learners", "another domain");
}

static int open_learners(Crew *c, const char *state) {
  ExplorerOptions options = c->options->learner;
  options.algo = c->kind->algo;
  options.seed = c->options->seed;
  options.threads = c->options->threads;
  int64_t most = c->options->steps / c->agents + c->envs;  // no more memory than rows will come
  if (options.replay > most) options.replay = most;
  if (!state) {
    return explorer_new(&c->learner, c->sizes.obs_dim, c->sizes.act_dim, c->agents, c->envs,
                        &options, 1);
  }
  TRY(check_names(c, state));
  char *given = options_to_json(explorer_options, &options);
  if (!given) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  int status = bfm_explorer_load(&c->learner, state, c->envs, given);
  free(given);
  return status ? status : check_sizes(c, state);
}

// the default depends on the device; the file records the number, so that a resume keeps it
static void choose_updates(Crew *c) {
  const CrewKind *kind = c->kind;
  int on_gpu = kind->updates_on_gpu > 0 && !device_is_cpu(c->learner->ops);
  if (c->options->updates == 0) {
    c->options->updates = on_gpu ? kind->updates_on_gpu : kind->updates;
  }
}

// learners open their device; without learners, check that a device named by the user exists
static int check_device(const char *device) {
  Ops *ops;
  if (!strcmp(device, "auto")) return BFM_OK;
  TRY(ops_open(&ops, device, PRECISION_F32, 1));
  ops->close(ops);
  return BFM_OK;
}

int crew_open(Crew *c, const bfm_env *env, const char *state) {
  bfm_env_get_sizes(env, &c->sizes);
  size_t n = (size_t)c->sizes.count, obs = c->sizes.obs_dim, act = c->sizes.act_dim;
  c->low = calloc(act, sizeof *c->low);
  c->high = calloc(act, sizeof *c->high);
  c->obs = calloc(n * obs, sizeof *c->obs);
  c->act = calloc(n * act, sizeof *c->act);
  c->rows = calloc(n * row_size(c), sizeof *c->rows);
  if (!c->low || !c->high || !c->obs || !c->act || !c->rows) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %d environments", c->sizes.count);
  }
  set_range(c, env);
  if (!c->kind->learners) return check_device(c->options->learner.device);
  TRY(open_learners(c, state));
  choose_updates(c);
  return BFM_OK;
}

void crew_close(Crew *c) {
  bfm_explorer_free(c->learner);
  for (int t = 0; t < c->agents; t++) bfm_explorer_free(c->policies[t]);
  free(c->low);
  free(c->high);
  free(c->obs);
  free(c->act);
  free(c->rows);
}

// ---------------------------------- acting -------------------------------------------------------

static void act_randomly(Crew *c, int64_t at, double *actions) {
  int size = c->sizes.act_dim;
  uint64_t draw = (uint64_t)(at / c->options->hold);
  for (int64_t k = 0; k < (int64_t)c->sizes.count * size; k++) {
    double low = c->low[k % size], high = c->high[k % size];
    double u = random_uniform((uint64_t)c->options->seed, STREAM_EXPLORE, draw, k);
    actions[k] = (float)(low + u * (high - low));  // act exactly on what the file stores
  }
}

int crew_act(Crew *c, const double *obs, int explore, int64_t at, double *actions) {
  if (!c->kind->learners && !c->kind->policies) {
    act_randomly(c, at, actions);
    return BFM_OK;
  }
  int64_t n = c->sizes.count, o = c->sizes.obs_dim, a = c->sizes.act_dim;
  for (int64_t k = 0; k < n * o; k++) c->obs[k] = (float)obs[k];
  if (c->learner) TRY(bfm_explorer_act(c->learner, c->obs, explore, (uint64_t)at, c->act));
  for (int t = 0; t < c->agents && !c->learner; t++) {
    int64_t first = (int64_t)t * c->envs;
    TRY(bfm_explorer_act(c->policies[t], c->obs + first * o, explore, (uint64_t)at,
                         c->act + first * a));
  }
  for (int64_t k = 0; k < n * a; k++) {
    if (!isfinite(c->act[k])) {
      return bfm_fail(BFM_DIVERGED, "the learner of %s diverged: its actions are not finite",
                      c->sources[k / a / c->envs]);
    }
    actions[k] = c->act[k];
  }
  return BFM_OK;
}

int crew_check_rewards(const Crew *c, const double *rewards, int count) {
  for (int i = 0; i < count; i++) {
    if (isfinite((float)rewards[i])) continue;
    return bfm_fail(BFM_DIVERGED, "the reward of \"%s\" is %g, which a float32 cannot hold",
                    c->tasks[i / (count / c->agents)], rewards[i]);
  }
  return BFM_OK;
}

int crew_rewards(const Crew *c, bfm_env *env, double *rewards) {
  const char *tasks[CREW_MAX];
  for (int t = 0; t < c->agents; t++) tasks[t] = c->tasks[t];
  if (!*c->tasks[0]) return BFM_OK;
  TRY(bfm_env_group_rewards(env, tasks, c->agents, rewards));
  bfm_env_sizes sizes = {.size = sizeof sizes};
  bfm_env_get_sizes(env, &sizes);
  return crew_check_rewards(c, rewards, sizes.count);
}

int crew_simulate(Crew *c, bfm_env *env, const double *actions, double *rewards) {
  double start = seconds_now();
  TRY(bfm_env_step(env, actions));
  TRY(crew_rewards(c, env, rewards));
  c->busy += seconds_now() - start;
  return BFM_OK;
}

// ---------------------------------- learning -----------------------------------------------------

int crew_learn(Crew *c, int64_t at) {
  if (!c->learner) return BFM_OK;
  const ExplorerOptions *options = explorer_options_of(c->learner);
  if (at * c->envs < options->random_steps || c->slots <= options->nstep) return BFM_OK;
  c->due += c->options->updates * c->envs;
  // whole rounds of `delay` updates, each ending with the policy's: a GPU replays them as one graph
  int64_t updates = (int64_t)(c->due / (double)options->delay) * options->delay;
  c->due -= (double)updates;
  return updates ? bfm_explorer_update(c->learner, updates) : BFM_OK;
}

// obs, act, reward, discount, next_obs, last
static void put_row(float *row, int64_t obs_dim, int64_t act_dim, const float *obs,
                    const float *act, float reward, float discount, const float *next, int last) {
  memcpy(row, obs, obs_dim * sizeof *row);
  memcpy(row += obs_dim, act, act_dim * sizeof *row);
  *(row += act_dim) = reward;
  *++row = discount;
  memcpy(++row, next, obs_dim * sizeof *row);
  row[obs_dim] = (float)last;
}

static int add_slot(Crew *c) {
  c->slots++;
  return bfm_explorer_add(c->learner, c->rows);
}

int crew_add(Crew *c, const Moment *m) {
  if (!c->learner) return BFM_OK;
  int64_t o = c->sizes.obs_dim, a = c->sizes.act_dim, size = row_size(c);
  float next[OBS_MAX];
  for (int64_t i = 0; i < c->sizes.count; i++) {
    float *row = c->rows + i * size;
    row[size - 1] = 1;
    if (m->ended[i] == BFM_END_DIVERGED) continue;
    for (int64_t k = 0; k < o; k++) next[k] = (float)m->next_obs[i * o + k];
    float discount = m->ended[i] & BFM_END_TERMINATED ? 0 : 1;
    put_row(row, o, a, c->obs + i * o, c->act + i * a, (float)m->rewards[i], discount, next,
            m->ended[i] != 0);
  }
  return add_slot(c);
}

// ---------------------------------- after a resume -----------------------------------------------

// [slots, n]: the dataset's row of each control step and environment, -1: none
static int64_t *index_rows(const Dataset *data, int64_t first, int64_t slots, int64_t n) {
  int64_t *index = malloc((size_t)(slots * n) * sizeof *index);
  for (int64_t k = 0; index && k < slots * n; k++) index[k] = -1;
  for (int64_t i = 0; index && i < data->count; i++) {
    int64_t step = data->step[i];
    if (step >= first * n && step - first * n < slots * n) index[step - first * n] = i;
  }
  return index;
}

static int is_whole(const int64_t *index, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (index[i] < 0) return 0;
  }
  return 1;
}

// add the control steps that have a row of every environment. Where one is missing (a killed
// collector lost rows, a simulation diverged), the rows before it become the last of their episodes
static int add_slots(Crew *c, const Dataset *data, const int64_t *index, int64_t slots) {
  int64_t o = c->sizes.obs_dim, a = c->sizes.act_dim, size = row_size(c), n = c->sizes.count;
  for (int64_t s = 0; s < slots; s++) {
    if (!is_whole(index + s * n, n)) continue;
    int broken = s + 1 == slots || !is_whole(index + (s + 1) * n, n);
    for (int64_t i = 0; i < n; i++) {
      int64_t r = index[s * n + i];
      put_row(c->rows + i * size, o, a, data->obs + r * o, data->act + r * a, data->rewards[r],
              data->discount[r], data->next_obs + r * o, broken || data->ends[r]);
    }
    TRY(add_slot(c));
  }
  return BFM_OK;
}

static int remember(Crew *c, const Dataset *data, const char *path) {
  int64_t n = c->sizes.count, last = 0, slots = data->count / n + 1;
  if (!data->step || !data->rewards) {
    return bfm_fail(BFM_BAD_FILE, "%s: there is no dataset \"%s\"", path,
                    data->step ? "rewards" : "infos/step");
  }
  for (int64_t i = 0; i < data->count; i++) {
    if (data->step[i] > last) last = data->step[i];
  }
  // after kills, the numbers of control steps are ahead of the rows: search twice as far back
  int64_t first = last / n - 2 * slots + 1;
  if (first < 0) first = 0;
  slots = last / n - first + 1;
  int64_t *index = index_rows(data, first, slots, n);
  if (!index) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rows", data->count);
  int status = add_slots(c, data, index, slots);
  free(index);
  return status;
}

int crew_remember(Crew *c, const char *path) {
  Dataset data;
  if (!c->learner) return BFM_OK;
  TRY(dataset_read_all(&data, &path, 1));
  int status = remember(c, &data, path);
  dataset_free(&data);
  return status;
}

// ---------------------------------- saving -------------------------------------------------------

int crew_save_policy(Crew *c, int t, const char *path, const char *name) {
  char file[OPTION_TEXT_SIZE + 32], beside[PATH_MAX];
  snprintf(file, sizeof file, "%s.safetensors", name);
  collect_path_beside(path, file, beside, sizeof beside);
  return bfm_explorer_save_model(c->learner, t, c->env_name, c->tasks[t], beside);
}

int crew_save(Crew *c, const char *path) {
  char beside[PATH_MAX];
  if (!c->learner) return BFM_OK;
  for (int t = 0; t < c->agents; t++) {
    // an expression cannot name a file
    const char *name = c->task_numbers[t] >= 0 ? c->tasks[t] : "policy";
    TRY(crew_save_policy(c, t, path, name));
  }
  char who[CREW_MAX * OPTION_TEXT_SIZE];
  name_learners(c, who, sizeof who);
  collect_path_beside(path, "state.safetensors", beside, sizeof beside);
  return explorer_save_state(c->learner, c->env_name, who, beside);
}
