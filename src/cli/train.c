// bfm train: start a training run from flags; print a few lines about it before and after.

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/config.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/warn.h"
#include "core/units.h"
#include "explore/explorer.h"
#include "train/recipes.h"
#include "train/train.h"

typedef struct {
  TrainSettings settings;
  Config config;
  ExplorerOptions offline;
  Flags setting_flags, agent_flags, offline_flags;
  const char **data;
  int data_count;
  const char *folder;
  int resume, quiet;
} Arguments;

static const struct argp_option own_options[] = {
    {"output", 'o', "FOLDER", 0, "the folder of the run: models, state, log", 0},
    {"resume", 'r', NULL, 0,
     "continue the run in the folder, bit-identically to an uninterrupted run", 0},
    {"quiet", 'q', NULL, 0, "print nothing but errors", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT:
      flags_init(state, (Flags *const[]){&a->setting_flags, &a->agent_flags, &a->offline_flags}, 3);
      return 0;
    case 'o': a->folder = arg; return 0;
    case 'r': a->resume = 1; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG: a->data[a->data_count++] = arg; return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// the table of recipes, then the examples
static char *help_of_train(int key, const char *text, void *input) {
  (void)input;
  if (key != ARGP_KEY_HELP_POST_DOC) return (char *)text;
  char *help = NULL;
  size_t size;
  FILE *out = open_memstream(&help, &size);
  if (!out) return (char *)text;
  recipes_help(out);
  fprintf(out, "\n%s", text);
  fclose(out);
  return help;
}

// ---------------------------------- what a person sees -------------------------------------------

static void print_data(const Training *t, int64_t obs_dim, int64_t act_dim) {
  char count[32];
  short_count((double)t->transitions, count, sizeof count);
  printf("data   %s transitions in %" PRId64 " episodes%s%s, observations of %" PRId64
         ", actions of %" PRId64 "\n",
         count, t->episodes, *t->env ? " of " : "", t->env, obs_dim, act_dim);
}

// of single-task agents
static void print_offline(const Training *t) {
  const Offline *o = &t->offline;
  bfm_explorer_sizes sizes = {.size = sizeof sizes};
  bfm_explorer_get_sizes(o->learner, &sizes);
  print_data(t, sizes.obs_dim, sizes.act_dim);
  char algo[OPTION_TEXT_SIZE];
  options_get(options_find(explorer_options, "algo"), explorer_options_of(o->learner), algo,
              sizeof algo);
  printf("agent  %s, batch %" PRId64, algo, sizes.batch);
  if (o->seeds > 1) printf(", %d seeds", o->seeds);
  if (t->first_step) printf(", from step %" PRId64 " on", t->first_step);
  printf(", %s\ntasks  ", explorer_device(o->learner));
  for (int i = 0; i < o->tasks.count; i++) printf("%s%s", i ? ", " : "", o->tasks.text[i]);
  putchar('\n');
  fflush(stdout);
}

static void print_start(const Training *t) {
  warn_of_robot(t->env);
  if (!t->agent) {
    print_offline(t);
    return;
  }
  print_data(t, bfm_agent_obs_dim(t->agent), bfm_agent_act_dim(t->agent));
  char count[32];

  char *options = bfm_agent_options(t->agent);
  cJSON *config = options ? cJSON_Parse(options) : NULL;
  const char *algo = cJSON_GetStringValue(cJSON_GetObjectItem(config, "algo"));
  printf("agent  %s, d %" PRId64 ", batch %" PRId64, algo ? algo : "", bfm_agent_d(t->agent),
         bfm_agent_batch(t->agent));
  if (bfm_agent_replicas(t->agent) > 1) printf(", %d seeds", bfm_agent_replicas(t->agent));
  if (t->first_step) printf(", from step %" PRId64 " on", t->first_step);
  printf(", %s\n", t->agent->ops->name);
  if (bfm_agent_prompt_count(t->agent)) {
    short_count((double)bfm_agent_prompt_count(t->agent), count, sizeof count);
    printf("prompt %s states in each model\n", count);
  } else if (*t->prompt_note) {
    printf("prompt no states: %s\n", t->prompt_note);
  }
  fflush(stdout);
  cJSON_Delete(config);
  free(options);
}

static const char *loss_name(const Training *t, int i) {
  return t->agent ? bfm_agent_loss_name(t->agent, i)
                  : bfm_explorer_loss_name(t->offline.learner, i);
}

static void print_end(const Training *t) {
  int64_t step = t->agent ? bfm_agent_step(t->agent) : bfm_explorer_step(t->offline.learner);
  int64_t steps = step - t->first_step;
  if (!steps) {
    printf("all %" PRId64 " steps were done already\n", t->settings.steps);
    return;
  }
  char took[32], rate[32], path[PATH_MAX];
  short_time(t->seconds, took, sizeof took);
  short_count((double)steps / t->seconds, rate, sizeof rate);
  printf("done   %" PRId64 " steps in %s, %s steps/s\n\n", steps, took, rate);

  int count = 0;
  for (; loss_name(t, count); count++) printf("%12s", loss_name(t, count));
  printf("  model\n");
  for (int r = 0; r < training_replicas(t); r++) {
    for (int i = 0; i < count; i++) printf("%12.4g", t->losses[r * count + i]);
    training_model_path(t, r, path, sizeof path);
    printf("  %s\n", path);
  }
}

// the rewards that single-task agents are trained for, or that agents are evaluated with
static void warn(const Training *t) {
  const TrainSettings *s = &t->settings;
  if (!t->agent) warn_of_tasks(t->env, *s->task ? s->task : "in");
  else if (s->eval_every) warn_of_tasks(t->env, s->eval_tasks);
}

static int run(Arguments *a) {
  if (!a->folder) return bfm_fail(BFM_BAD_ARGUMENT, "name the output folder: -o runs/first");
  if (!a->data_count && !a->resume) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name a dataset: bfm train data.h5 -o %s", a->folder);
  }
  const cJSON *flag;
  cJSON_ArrayForEach(flag, a->offline_flags.given) {
    cJSON_AddStringToObject(a->agent_flags.given, flag->string, flag->valuestring);
  }
  char *options = cJSON_PrintUnformatted(a->agent_flags.given);
  char *settings = cJSON_PrintUnformatted(a->setting_flags.given);
  if (!options || !settings) return bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
  RunProgress progress = {.quiet = a->quiet, .stop = &cli_stop};
  TrainPlan plan = {
      .data = a->data,
      .data_count = a->data_count,
      .folder = a->folder,
      .settings = settings,
      .options = options,
      .resume = a->resume,
      .progress = progress_of_run,
      .context = &progress,
  };

  Training training;
  int status = training_open(&training, &plan);
  free(options);
  free(settings);
  if (status) return status;
  cli_catch_signals();
  if (!a->quiet) print_start(&training);
  warn(&training);
  status = training_run(&training);
  progress_end(&progress.line);
  if (!status && !a->quiet) print_end(&training);
  const char *undrawn =
      training.evaluator ? eval_thread_undrawn(training.evaluator) : training.undrawn;
  if (*undrawn) fprintf(stderr, "bfm: %s\n", undrawn);
  training_close(&training);
  return status;
}

int cli_train(int argc, char **argv) {
  Arguments a = {.data = calloc(argc, sizeof *a.data)};
  int status = a.data ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %d arguments", argc);
  if (!status) status = flags_new(&a.setting_flags, train_options, &a.settings, "Training");
  if (!status)
    status =
        flags_new(&a.agent_flags, settings_agent_options(), &a.config,
                  "Agent (single-task agents take of these algo, hidden, batch, gamma, lr, "
                  "noise-clip,\nseed, seeds, device, precision and threads, with defaults of their "
                  "own)");
  if (!status)
    status = flags_new(&a.offline_flags, settings_offline_options(), &a.offline,
                       "Single-task agents (--algo bc, td3bc, iql or xql)");
  if (status) return cli_fail(status);

  const struct argp_child children[] = {{&a.setting_flags.argp, 0, NULL, 1},
                                        {&a.agent_flags.argp, 0, NULL, 2},
                                        {&a.offline_flags.argp, 0, NULL, 3},
                                        {0}};
  const struct argp argp =
      {own_options,
       parse,
       "[DATA.h5...]",
       "Train an agent on the transitions of one or more datasets (HDF5, D4RL's layout).\v"
       "Examples:\n"
       "  bfm train mood.h5 --eval-every 30k --steps 300k -o runs/walker\n"
       "  bfm train --resume --steps 1M -o runs/walker\n"
       "  bfm train a.h5 b.h5 --algo fb-aw --beta 5 --seeds 5 -o runs/five\n"
       "  bfm train point_mass.h5 --preset small --batch 256 --steps 5k -o runs/small\n"
       "  bfm train mood.h5 --algo iql --task stand,run --seeds 5 -o runs/iql\n",
       children,
       help_of_train,
       NULL};
  status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  flags_free(&a.setting_flags);
  flags_free(&a.agent_flags);
  flags_free(&a.offline_flags);
  free(a.data);
  return status;
}
