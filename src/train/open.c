// A training run from its start to its first step: settings, data, agent, prompt states, folder.
// Everything that a user can get wrong is found here, before anything is left on the disk.

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "data/episode_index.h"
#include "envs/robot.h"
#include "explore/explorer.h"
#include "train/recipes.h"
#include "train/training.h"

// ---------------------------------- settings -----------------------------------------------------

// --eval-… options need --eval-every
static int check_evaluations(const Training *t) {
  const char *const names[] = {"eval-tasks", "eval-episodes", "eval-steps", "eval-es"};
  cJSON *given = t->settings.eval_every ? NULL : cJSON_Parse(t->plan.settings);
  int status = BFM_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
    if (cJSON_HasObjectItem(given, names[i])) {
      status = bfm_fail(BFM_BAD_ARGUMENT,
                        "--%s needs --eval-every: without it there are no evaluations", names[i]);
    }
  }
  cJSON_Delete(given);
  return status;
}

// defaults, overridden by run.json, overridden by the settings of the plan
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

// what is trained: named by the options, on a resume by run.json
static int take_algo(Training *t, const cJSON *record) {
  const char *begun = cJSON_GetStringValue(cJSON_GetObjectItem(record, "algo"));
  char text[64];
  snprintf(text, sizeof text, "{\"algo\": \"%.32s\"}", begun ? begun : "");
  int given = settings_offline_algo(t->plan.options);
  t->offline.algo = t->plan.resume ? settings_offline_algo(text) : given;
  if (t->plan.resume && given >= 0 && t->offline.algo != given) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the run in %s has another algorithm: leave out --algo",
                    t->folder.path);
  }
  return settings_check(t->plan.settings, t->plan.options, t->offline.algo);
}

// ---------------------------------- the agent ----------------------------------------------------

// the parts that the robot's description names as goals, "hand,height", if it has any
static void default_goal(const Training *t, const Dataset *data, cJSON *options) {
  const Domain *domain;
  char goal[OPTION_TEXT_SIZE] = "";
  if (t->plan.resume || !*t->env || cJSON_HasObjectItem(options, "goal")) return;
  if (domain_find(&domain, t->env) || !domain->robot || domain->obs_dim != data->obs_dim) return;
  const RobotList *parts = &domain->robot->goal;
  for (int i = 0; i < parts->count; i++) {
    size_t used = strlen(goal);
    snprintf(goal + used, sizeof goal - used, "%s%s", i ? "," : "", parts->of[i].text);
  }
  if (*goal) cJSON_AddStringToObject(options, "goal", goal);
}

// the option `goal` may name parts of the domain's observation: replace them by their columns
static int name_goal(const Training *t, const Dataset *data, cJSON *options) {
  const char *goal = cJSON_GetStringValue(cJSON_GetObjectItem(options, "goal"));
  if (!goal || !goal[strspn(goal, "0123456789:,")]) return BFM_OK;
  if (!*t->env) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "goal is \"%s\", but the data does not name its domain: add --env", goal);
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

// eval.jsonl tells replicas apart by their seeds, so that a resume must keep the seed
static int keep_seed(const Training *t, const char *given) {
  Config config;
  if (!given) return BFM_OK;
  TRY(options_set(agent_options, &config, "seed", given));
  if (config.seed == t->agent->config.seed) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "seed is %s, but the run in %s has seed %" PRId64 " and keeps it", given,
                  t->folder.path, (int64_t)t->agent->config.seed);
}

static int make_agent(Training *t, const Dataset *data) {
  cJSON *options = cJSON_Parse(t->plan.options ? t->plan.options : "{}");
  char recipe[16], path[PATH_MAX];
  options_get(options_find(train_options, "recipe"), &t->settings, recipe, sizeof recipe);
  folder_file(&t->folder, "state.safetensors", path, sizeof path);
  default_goal(t, data, options);
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
  if (!t->losses || !t->metrics) return bfm_fail(BFM_NO_MEMORY, "out of memory for the losses");
  return agent_lend_data(t->agent, data->count, data->obs, data->act, data->next_obs,
                         data->discount);
}

// ---------------------------------- all of it ----------------------------------------------------

static int make_evaluator(Training *t) {
  const TrainSettings *s = &t->settings;
  if (!s->eval_every) return BFM_OK;
  EvalThreadPlan plan = {.folder = t->folder.path, .env = t->env, .tasks = s->eval_tasks,
                         .episodes = s->eval_episodes, .episode_steps = s->eval_steps,
                         .rows = t->sample_rows, .obs = t->sample_obs, .rewards = t->sample_rewards,
                         .monitor = &t->monitor};
  enum { ON, OFF, BOTH };
  int64_t es = t->agent->config.es;
  if (s->eval_es != ON || !es) plan.es[plan.es_count++] = 0;
  if (s->eval_es != OFF && es) plan.es[plan.es_count++] = es;
  return eval_thread_new(&t->evaluator, &plan, t->agent);
}

static int check_stopped(Training *t) {
  if (!monitor_update(&t->monitor, 0, NULL)) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED, "stopped before the first step");
}

// an agent, with what prompts and evaluates it
static int make_prompted(Training *t, const Dataset *data) {
  TRY(make_agent(t, data));
  TRY(check_stopped(t));
  TRY(training_set_prompt(t));
  TRY(check_stopped(t));
  return make_evaluator(t);
}

// a resume on other data would not be bit-identical: reject it
static int take_data(Training *t, const Dataset *data, cJSON *record) {
  Piece *pieces;
  TRY(episode_index(data, &pieces, &t->episodes));
  free(pieces);
  t->transitions = data->count;
  uint32_t checksum = training_checksum(data);
  TRY(check_stopped(t));
  if (t->plan.resume && checksum != cJSON_GetObjectItem(record, "checksum")->valuedouble) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the data is not that of the run in %s, or has another order",
                    t->folder.path);
  }
  TRY(t->offline.algo >= 0 ? offline_make(t, record) : make_prompted(t, data));
  TRY(check_stopped(t));
  t->begun = 1;
  TRY(folder_make(&t->folder));
  TRY(folder_lock(&t->folder));
  int status = training_check_folder(t);  // another process may have had it until now …
  if (status) t->kept = 1;                // … and left its own traces
  return status ? status : training_write_record(t, record, checksum);
}

static int open_training(Training *t, cJSON *record) {
  TRY(take_algo(t, record));
  TRY(take_settings(t, record));
  TRY(training_read_data(t, record));
  TRY(check_stopped(t));
  TRY(take_data(t, &t->data, record));
  int in_place = t->agent ? agent_on_cpu(t->agent) : explorer_on_cpu(t->offline.learner);
  (in_place ? dataset_trim : dataset_free)(&t->data);
  TRY(folder_open_log(&t->folder, "log.jsonl", "step", t->first_step, &t->log));
  t->before = folder_log_last(&t->folder, "log.jsonl", "seconds");
  if (t->offline.algo >= 0) return offline_resume(t);
  return t->evaluator ? eval_thread_resume(t->evaluator, t->first_step) : BFM_OK;
}

int training_open(Training *t, const TrainPlan *plan) {
  *t = (Training){.plan = *plan, .kept = plan->resume, .offline = {.algo = -1}};
  t->monitor = (Monitor){.call = plan->progress, .context = plan->context};
  TRY(folder_name(&t->folder, plan->folder));
  TRY(training_check_folder(t));
  cJSON *record = NULL;
  int status = BFM_OK;
  char path[PATH_MAX];
  folder_file(&t->folder, "run.json", path, sizeof path);
  if (plan->resume) status = training_read_record(&record, path);
  else record = cJSON_CreateObject();
  monitor_begin(&t->monitor, "open", "", 0, 0);
  if (!status) status = open_training(t, record);
  cJSON_Delete(record);
  if (status) training_close(t);
  return status;
}

void training_close(Training *t) {
  static const char *const traces[] = {"run.json", "log.jsonl", NULL};
  eval_thread_free(t->evaluator);
  offline_close(t);
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
