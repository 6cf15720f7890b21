// The options of a collection: one table of its own options and those of its learners.

#include "collect/options.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define AT(field) offsetof(CollectOptions, field)

static const Option own_options[] = {
    {"with", OPTION_CHOICE, AT(with), "random", 0, 0, CREW_NAMES,
     "the agents that act; random: uniform actions; rnd: one learner that seeks novelty; mood: one "
     "learner for each task of the domain; td3: one learner of --task; policy: the policies of "
     "--model; d4rl-*: agents and data as in D4RL"},
    {"steps", OPTION_INT, AT(steps), "100k", 2, 1e12, NULL, "transitions in all"},
    {"preset", OPTION_CHOICE, AT(preset), "full", 0, 0, "full|small",
     "sizes of learners; small: for a CPU, with --hidden 256, --batch 256 and 4 environments for "
     "each "
     "learner, unless they are given"},
    {"minutes", OPTION_REAL, AT(minutes), "0", 0, 1e6, NULL,
     "end after so many minutes, with the transitions made by then; 0: no limit"},
    {"envs", OPTION_INT, AT(envs), "128", 1, 65536, NULL,
     "environments simulated in parallel, shared equally by the agents"},
    {"task", OPTION_TEXT, AT(task), "", 0, 0, NULL,
     "task or expression that td3 learns and whose rewards are stored; without it rewards are 0"},
    {"hold", OPTION_INT, AT(hold), "1", 1, 1e6, NULL, "control steps that a random action lasts"},
    {"model", OPTION_TEXT, AT(model), "", 0, 0, NULL,
     "policies that act with --with policy: a.safetensors,b.safetensors"},
    {"updates", OPTION_REAL, AT(updates), "0", 0, 1000, NULL,
     "updates of a learner for each step of one of its environments; 0: 0.31, rnd 0.5 on a GPU "
     "(the "
     "field's one update for two transitions) and 0.05 on a CPU"},
    {"until", OPTION_REAL, AT(until), "inf", 0, 0, NULL,
     "stop when every learner's return reaches this value"},
    {"eval-every", OPTION_INT, AT(eval_every), "0", 0, 1e12, NULL,
     "transitions between evaluations, each a line of the log; 0: twenty in a long run"},
    {"eval-episodes", OPTION_INT, AT(eval_episodes), "4", 1, 1000, NULL,
     "episodes without noise in an evaluation of a learner, at most as many as it has "
     "environments"},
    {"train-steps", OPTION_INT, AT(train_steps), "3M", 2, 1e12, NULL,
     "transitions that d4rl-medium and d4rl-medium-expert may use to train their agents"},
    {"whole-episodes", OPTION_BOOL, AT(whole_episodes), "off", 0, 0, NULL,
     "write rows only when their episode ends: the same command then writes the same rows in the "
     "same order; off: also after some seconds, so that a killed collector loses less"},
    {"seed", OPTION_INT, AT(seed), "0", 0, INFINITY, NULL,
     "seed of initial states, actions and learners"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 4096, NULL,
     "CPU threads that simulate and, without a GPU, learn; 0: one per core"},
    {.name = NULL},
};

#define OPTIONS_MAX 64

static Option table[OPTIONS_MAX];

static void fill_table(void) {
  int count = 0;
  for (const Option *o = own_options; o->name; o++) table[count++] = *o;
  for (const Option *o = explorer_options; o->name && count < OPTIONS_MAX - 1; o++) {
    // --with chooses the learners' algo
    if (!strcmp(o->name, "algo") || options_find(own_options, o->name)) continue;
    table[count] = *o;
    table[count++].offset += offsetof(CollectOptions, learner);
  }
}

const Option *collect_options(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_table);
  return table;
}

void collect_path_beside(const char *data, const char *name, char *out, size_t size) {
  size_t length = strlen(data);
  const char *dot = strrchr(data, '.');
  if (dot && dot > data && !strchr(dot, '/') && dot[-1] != '/') length = dot - data;
  snprintf(out, size, "%.*s.%s", (int)length, data, name);
}
