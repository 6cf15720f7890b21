// The options of a training run. bfm_train takes them and the agent's in one object, so that there
// is one more table here, with the rows of both.

#include "train/settings.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "agent/config.h"

#define AT(field) offsetof(TrainSettings, field)
#define RECIPES "auto|none|rnd|mood|d4rl"

const Option train_options[] = {
    {"steps", OPTION_INT, AT(steps), "1M", 1, INFINITY, NULL, "training steps in all"},
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
    {"on-divergence", OPTION_CHOICE, AT(on_divergence), "stop", 0, 0, "stop|restart",
     "restart: return to the last good state with a third of the learning rate"},
    {.name = NULL},
};

// ---------------------------------- with the agent's options -------------------------------------

typedef struct {
  TrainSettings settings;
  Config agent;
} AllOptions;

#define OPTIONS_MAX 96

static Option all_options[OPTIONS_MAX];

static void fill_table(void) {
  int count = 0;
  for (const Option *o = train_options; o->name; o++) all_options[count++] = *o;
  for (const Option *o = agent_options; o->name && count < OPTIONS_MAX - 1; o++) {
    all_options[count] = *o;
    all_options[count++].offset += offsetof(AllOptions, agent);
  }
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
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_table);
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
