// The options of a training run. bfm_train takes them and those of what is trained in one object, so
// that there is one more table here, with the rows of all.

#include "train/settings.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "explore/explorer.h"

#define AT(field) offsetof(TrainSettings, field)
#define RECIPES "auto|none|rnd|mood|d4rl"

const Option train_options[] = {
    {"steps", OPTION_INT, AT(steps), "1M", 1, INFINITY, NULL, "training steps in all"},
    {"minutes", OPTION_REAL, AT(minutes), "0", 0, 1e6, NULL,
     "end after so many minutes of training, counted anew by a resume; 0: no limit"},
    {"stride", OPTION_INT, AT(stride), "1", 1, 1e6, NULL,
     "control steps in a transition, for data whose actions last that long (bfm collect --hold); "
     "gamma discounts once per transition"},
    {"recipe", OPTION_CHOICE, AT(recipe), "auto", 0, 0, RECIPES,
     "defaults of the agent for a kind of data; auto: the kind that the data file names"},
    {"save-every", OPTION_INT, AT(save_every), "0", 0, INFINITY, NULL,
     "steps between saves; 0: every ten minutes"},
    {"log-every", OPTION_INT, AT(log_every), "500", 1, INFINITY, NULL,
     "steps between lines of log.jsonl"},
    {"eval-every", OPTION_INT, AT(eval_every), "0", 0, INFINITY, NULL,
     "steps between evaluations, which run while training continues; 0: none"},
    {"eval-tasks", OPTION_TEXT, AT(eval_tasks), "all", 0, 0, NULL,
     "all, in (tasks of the datasets), new, task names and rewards, separated by commas"},
    {"eval-episodes", OPTION_INT, AT(eval_episodes), "20", 1, 100000, NULL,
     "episodes of each task in an evaluation"},
    {"eval-steps", OPTION_INT, AT(eval_steps), "0", 0, 1e6, NULL,
     "control steps of an episode; 0: as many as the domain has"},
    {"eval-es", OPTION_CHOICE, AT(eval_es), "on", 0, 0, "on|off|both",
     "whether evaluations choose the best of --es actions"},
    {"prompt-states", OPTION_INT, AT(prompt_states), "100k", 0, 1e8, NULL,
     "states of the data that are stored in the models; rewards in words are evaluated at them"},
    {"env", OPTION_TEXT, AT(env), "", 0, 0, NULL,
     "domain of the data, if its file does not name it"},
    {"task", OPTION_TEXT, AT(task), "", 0, 0, NULL,
     "bc, td3bc, iql, xql: the tasks to learn, one policy for each: names, rewards, all, in or "
     "new, "
     "separated by commas; empty: in"},
    {"reward-scale", OPTION_CHOICE, AT(reward_scale), "auto", 0, 0, "auto|off|returns",
     "td3bc, iql, xql: returns: scale rewards so that the dataset's best and worst episode are "
     "1000 "
     "apart; auto: returns for iql and xql on D4RL's locomotion"},
    {"on-divergence", OPTION_CHOICE, AT(on_divergence), "stop", 0, 0, "stop|restart",
     "restart: return to the last good state with a third of the learning rate"},
    {.name = NULL},
};

// ---------------------------------- with the agent's options -------------------------------------

typedef struct {
  TrainSettings settings;
  Config agent;
  ExplorerOptions offline;
} AllOptions;

#define OPTIONS_MAX 128
#define OFFLINE_ALGOS "bc|td3bc|iql|xql"

static Option all_options[OPTIONS_MAX], agent_rows[OPTIONS_MAX], offline_rows[OPTIONS_MAX];
static char algos[128], algo_help[256];

static int of_offline(const char *option) {
  for (int algo = EXPLORER_BC; algo <= EXPLORER_XQL; algo++) {
    if (explorer_takes(algo, option)) return 1;
  }
  return 0;
}

static void add_rows(int *count, const Option *rows, size_t offset) {
  for (; rows->name && *count < OPTIONS_MAX - 1; rows++) {
    all_options[*count] = *rows;
    all_options[(*count)++].offset += offset;
  }
}

static void fill_tables(void) {
  int count = 0;
  for (const Option *o = agent_options; o->name; o++) {
    Option *row = &agent_rows[count++];
    *row = *o;
    if (strcmp(o->name, "algo")) continue;
    snprintf(algos, sizeof algos, "%s|" OFFLINE_ALGOS, o->choices);
    snprintf(algo_help, sizeof algo_help,
             "%s; bc, td3bc, iql and xql learn one policy for each --task", o->help);
    row->choices = algos;
    row->help = algo_help;
  }
  count = 0;
  for (const Option *o = explorer_options; o->name; o++) {
    if (of_offline(o->name) && !options_find(agent_options, o->name)) offline_rows[count++] = *o;
  }
  count = 0;
  add_rows(&count, train_options, 0);
  add_rows(&count, agent_rows, offsetof(AllOptions, agent));
  add_rows(&count, offline_rows, offsetof(AllOptions, offline));
}

static void need_tables(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_tables);
}

const Option *settings_agent_options(void) {
  need_tables();
  return agent_rows;
}

const Option *settings_offline_options(void) {
  need_tables();
  return offline_rows;
}

// ---------------------------------- which options belong together --------------------------------

static int algo_by_name(const char *name) {
  ExplorerOptions o;
  if (!name || options_set(explorer_options, &o, "algo", name)) return -1;
  return explorer_is_offline(o.algo) ? o.algo : -1;
}

int settings_offline_algo(const char *agent) {
  cJSON *given = agent ? cJSON_Parse(agent) : NULL;
  int algo = algo_by_name(cJSON_GetStringValue(cJSON_GetObjectItem(given, "algo")));
  cJSON_Delete(given);
  return algo;
}

// options of the run that only one kind of agent reads
static const struct {
  const char *name;
  int offline;
} settings_of[] = {{"recipe", 0},        {"eval-tasks", 0}, {"eval-es", 0}, {"prompt-states", 0},
                   {"on-divergence", 0}, {"minutes", 0},    {"task", 1},    {"reward-scale", 1}};

static int check_setting(const char *name, int offline_algo, const char *algo) {
  for (size_t i = 0; i < sizeof settings_of / sizeof *settings_of; i++) {
    if (strcmp(settings_of[i].name, name) || settings_of[i].offline == (offline_algo >= 0))
      continue;
    return offline_algo >= 0
               ? bfm_fail(
                     BFM_BAD_ARGUMENT,
                     "--%s is an option of agents that are prompted, but %s learns policies of "
                     "single tasks: leave it out",
                     name, algo)
               : bfm_fail(BFM_BAD_ARGUMENT,
                          "--%s is an option of bc, td3bc, iql and xql, which learn policies of "
                          "single tasks: leave it out, or name one of them with --algo",
                          name);
  }
  return BFM_OK;
}

static int check_agent_option(const char *name, int offline_algo, const char *algo) {
  if (offline_algo < 0) {
    if (options_find(agent_rows, name)) return BFM_OK;
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "--%s is an option of single-task agents, not of %s: leave it out, or choose "
                    "--algo bc, td3bc, iql or xql",
                    name, algo);
  }
  if (options_find(explorer_options, name) && explorer_takes(offline_algo, name)) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "--%s is not an option of %s: leave it out", name, algo);
}

int settings_check(const char *settings, const char *agent, int offline_algo) {
  need_tables();
  cJSON *run = cJSON_Parse(settings ? settings : "{}"), *own = cJSON_Parse(agent ? agent : "{}");
  const cJSON *item;
  int status = BFM_OK;
  char algo[OPTION_TEXT_SIZE];
  ExplorerOptions o = {.algo = offline_algo};
  const char *given = cJSON_GetStringValue(cJSON_GetObjectItem(own, "algo"));
  snprintf(algo, sizeof algo, "%s", given ? given : options_find(agent_options, "algo")->fallback);
  if (offline_algo >= 0) options_get(options_find(explorer_options, "algo"), &o, algo, sizeof algo);
  cJSON_ArrayForEach(item, run) {
    if (!status) status = check_setting(item->string, offline_algo, algo);
  }
  cJSON_ArrayForEach(item, own) {
    if (!status) status = check_agent_option(item->string, offline_algo, algo);
  }
  cJSON_Delete(run);
  cJSON_Delete(own);
  return status;
}

// texts as the command line has them, so that a run starts alike from both
static int split(const cJSON *options, const AllOptions *all, cJSON *settings, cJSON *agent) {
  const cJSON *item;
  cJSON_ArrayForEach(item, options) {
    char text[OPTION_TEXT_SIZE];
    const Option *option = options_find(all_options, item->string);
    options_get(option, all, text, sizeof text);
    cJSON *to = options_find(train_options, item->string) ? settings : agent;
    if (!cJSON_AddStringToObject(to, option->name, text)) {
      return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
    }
  }
  return BFM_OK;
}

int settings_split(const char *options, char **settings, char **agent) {
  need_tables();
  AllOptions all;
  *settings = *agent = NULL;
  if (!options) options = "{}";
  TRY(options_default(all_options, &all));
  TRY(options_from_json(all_options, &all, options));

  cJSON *given = cJSON_Parse(options);
  cJSON *own = cJSON_CreateObject(), *agents = cJSON_CreateObject();
  int status = split(given, &all, own, agents);
  if (!status) {
    *settings = cJSON_PrintUnformatted(own);
    *agent = cJSON_PrintUnformatted(agents);
    if (!*settings || !*agent) status = bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  }
  if (status) {
    free(*settings);
    free(*agent);
    *settings = *agent = NULL;
  }
  cJSON_Delete(given);
  cJSON_Delete(own);
  cJSON_Delete(agents);
  return status;
}
