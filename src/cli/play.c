// bfm play: draw one episode of a prompted model, or of a policy of one task, as a film or a strip
// of pictures. The episode is recorded first and drawn afterwards.

#include <stdlib.h>

#include "agent/agent.h"
#include "agent/config.h"
#include "cli/eval_common.h"
#include "cli/prompt_args.h"
#include "cli/cli.h"
#include "cli/warn.h"
#include "core/files.h"
#include "cli/progress.h"
#include "core/units.h"
#include "prompt/prompt.h"
#include "view/episode.h"
#include "view/film.h"

typedef struct {
  int64_t steps, es, seed, threads, width, height, pictures;
  int es_base;  // as in config_acting
  char device[OPTION_TEXT_SIZE];
} PlayOptions;

#define AT(field) offsetof(PlayOptions, field)

static const Option play_options[] = {
    {"steps", OPTION_INT, AT(steps), "0", 0, 1e6, NULL, "control steps; 0: a whole episode"},
    {"es", OPTION_INT, AT(es), "0", 0, 4096, NULL,
     "evaluation-based sampling: act by the best of so many sampled actions; 0: by the "
     "policy's mean"},
    {"es-base", OPTION_CHOICE, AT(es_base), "model", 0, 0, ES_ACT_BASES,
     "how the members of F judge a sampled action, as in bfm train; model: as in the model"},
    {"seed", OPTION_INT, AT(seed), "0", 0, 9e15, NULL,
     "seed of the initial state and of sampled actions"},
    {"width", OPTION_INT, AT(width), "0", 0, 4096, NULL,
     "width of a picture in pixels; 0: 480, or 240 in a strip"},
    {"height", OPTION_INT, AT(height), "0", 0, 4096, NULL,
     "height of a picture in pixels; 0: three quarters of its width"},
    {"pictures", OPTION_INT, AT(pictures), "8", 1, 512, NULL, "pictures side by side in a strip"},
    {"device", OPTION_TEXT, AT(device), "auto", 0, 0, NULL, "auto, cpu, cuda or cuda:n"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "CPU threads; 0: one per core"},
    {.name = NULL},
};

typedef struct {
  PlayOptions options;
  Flags flags;
  PromptArgs ask;
  const char *model, *path, *score;
  int quiet;
} Arguments;

enum { KEY_SCORE = 0x900 };

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "the film (.mp4) or strip of pictures (.png) to write", 2},
    {"score", KEY_SCORE, "EXPRESSION", 0,
     "draw this reward below the pictures (default: --reward or --task)", 2},
    {"quiet", 'q', NULL, 0, "print errors only", 2},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT:
      state->child_inputs[0] = &a->ask;
      state->child_inputs[1] = &a->flags;
      return 0;
    case 'o': a->path = arg; return 0;
    case KEY_SCORE: a->score = arg; return 0;
    case 'q': a->quiet = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->model) argp_error(state, "name one model, not %s and %s", a->model, arg);
      a->model = arg;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a model: bfm play models/walker.safetensors --task run -o run.mp4");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// ---------------------------------- what is played ------------------------------------------------

typedef struct {
  const Arguments *arguments;
  PromptArgs ask;
  AgentActor model;  // either the model acts …
  Policy policy;     // … or the policy
  Actor actor;
  const World *world;
  float *z;         // NULL if a policy acts
  double prompted;  // seconds to load the model and to compute z
  Episode episode;
  Progress progress;
} Play;

static int each(void *context, int64_t done, int64_t total) {
  Play *p = context;
  p->progress.total = total;
  progress_update(&p->progress, done, NULL);
  return cli_stop;
}

// ---------------------------------- the film -----------------------------------------------------

// the number of pictures in a strip, 0 for a film
static int strip_of(const Arguments *a) {
  return cli_has_suffix(a->path, ".png") ? (int)a->options.pictures : 0;
}

static Film film_of(Play *p, int64_t count, const char *title) {
  const PlayOptions *o = &p->arguments->options;
  int width = o->width ? (int)o->width : strip_of(p->arguments) ? 240 : 480;
  return (Film){.world = p->world, .count = count, .qpos = p->episode.qpos,
                .rewards = p->episode.score ? p->episode.rewards : NULL, .title = title,
                .dt = p->episode.sizes.control_dt, .width = width,
                .height = o->height ? (int)o->height : width * 3 / 4, .each = each, .context = p};
}

static int draw(Play *p) {
  const Arguments *a = p->arguments;
  char title[256] = "";
  if (p->episode.score)
    snprintf(title, sizeof title, "%.200s: return %.1f", p->episode.score,
             *p->episode.rollout.returns);
  Film film = film_of(p, p->episode.count, title);
  int pictures = strip_of(a);
  progress_start(&p->progress, "draw", "pictures", 0, 1, a->quiet);
  int status = pictures ? film_strip(&film, pictures, a->path) : film_mp4(&film, a->path);
  progress_end(&p->progress);
  return status;
}

static void print_end(const Play *p, const char *note) {
  const char *name = "policy", *text = p->arguments->model;
  prompt_args_given(&p->ask, &name, &text);
  printf("%-8s%s\n", name, text);
  if (*note) printf("%-8s%s\n", "", note);
  if (p->z) printf("%-8sz after %.2f s\n", "", p->prompted);
  if (p->episode.score)
    printf("%-8s%.1f in %ld steps\n", "return", *p->episode.rollout.returns,
           (long)p->episode.count - 1);
  printf("%-8s%s, %.1f s of %s\n", "drawn", p->arguments->path,
         (double)(p->episode.count - 1) * p->episode.sizes.control_dt, p->actor.env);
}

// ---------------------------------- the actor ----------------------------------------------------

// a policy acts for its own task; --task and --reward choose the reward that is drawn
static int open_policy(Play *p, const char *options, char *note, size_t size) {
  const PromptArgs *ask = &p->arguments->ask;
  if (p->arguments->options.es || ask->softmax > 0 || ask->goal || ask->demo || ask->z) {
    return bfm_fail(BFM_BAD_ARGUMENT,
                    "%s is the policy of a single task: it takes no --goal, --demo, --z, --softmax "
                    "or --es",
                    p->policy.path);
  }
  if (ask->reward || ask->task) {
    TRY(prompt_args_check(ask));
  } else if (*p->policy.task) {
    p->ask.task = p->policy.task;
  }
  TRY(policy_load(&p->policy, 1, options, &p->actor));
  TRY(world_acquire(&p->world, p->policy.world->domain));
  warn_of_robot(p->policy.env);
  if (*p->policy.task) snprintf(note, size, "by the policy of %s", p->policy.task);
  return BFM_OK;
}

static int open_model(Play *p, const char *options, char *note, size_t size) {
  double start = seconds_now();
  TRY(bfm_agent_load(&p->model.agent, p->arguments->model, options));
  TRY(prompt_world(p->model.agent, &p->world));
  warn_of_robot(bfm_agent_env(p->model.agent));
  p->z = calloc(bfm_agent_d(p->model.agent), sizeof *p->z);
  if (!p->z) return bfm_fail(BFM_NO_MEMORY, "out of memory for z");
  TRY(prompt_args_z(&p->ask, p->model.agent, p->z, note, size));
  p->prompted = seconds_now() - start;
  p->model.es = (int)p->arguments->options.es;
  p->actor = agent_actor(&p->model);
  return BFM_OK;
}

static int play(Play *p) {
  const Arguments *a = p->arguments;
  const PlayOptions *o = &a->options;
  char options[MACHINE_SIZE], note[4096] = "";
  int found;
  config_acting(o->device, o->threads, o->es_base, options);
  TRY(policy_find(&p->policy, a->model, &found));
  TRY((found ? open_policy : open_model)(p, options, note, sizeof note));
  p->episode.score = a->score ? a->score : p->ask.reward ? p->ask.reward : p->ask.task;

  p->episode.z = p->z;
  p->episode.seed = (uint64_t)o->seed;
  p->episode.steps = o->steps;
  p->episode.each = each;
  p->episode.context = p;
  TRY(episode_new(&p->episode, &p->actor));
  Film film = film_of(p, p->episode.steps + 1, "");
  TRY(film_check(&film, strip_of(a)));  // before the episode, which takes longer
  progress_start(&p->progress, "play", "steps", 0, p->episode.steps, a->quiet);
  int status = episode_record(&p->episode);
  progress_end(&p->progress);
  TRY(status);
  TRY(draw(p));
  if (!a->quiet) print_end(p, note);
  return BFM_OK;
}

static int run(const Arguments *a) {
  if (!a->path || !(cli_has_suffix(a->path, ".png") || cli_has_suffix(a->path, ".mp4"))) {
    return bfm_fail(BFM_BAD_ARGUMENT, "name the file to write: -o film.mp4 or -o strip.png%s%s%s",
                    a->path ? ", not \"" : "", a->path ? a->path : "", a->path ? "\"" : "");
  }
  TRY(check_es_base(a->options.es_base, a->options.es));
  OutputFile file;  // fail before the episode if the file cannot be written
  TRY(output_open(&file, a->path));
  output_discard(&file);
  Play p = {.arguments = a, .ask = a->ask};
  cli_catch_signals();
  int status = play(&p);
  bfm_agent_free(p.model.agent);
  policy_free(&p.policy);
  world_release(p.world);
  episode_free(&p.episode);
  free(p.z);
  return status;
}

int cli_play(int argc, char **argv) {
  Arguments a = {.model = NULL};
  int status = flags_new(&a.flags, play_options, &a.options, "The episode");
  if (status) return cli_fail(status);
  const struct argp_child children[] =
      {{&prompt_args_argp, 0, "Task (exactly one of --reward, --task, --goal, --demo, --z):", 1},
       {&a.flags.argp, 0, NULL, 3},
       {0}};
  const struct argp argp =
      {own_options,
       parse,
       "MODEL",
       "Prompt a model with a task, let it act for one episode and draw the episode as a film "
       "(.mp4) "
       "or as a strip of pictures (.png), with the reward over time below. A policy that bfm "
       "collect "
       "has trained (with td3 or mood) acts for its own task; --task or --reward then only choose "
       "the reward that is drawn.\v"
       "Examples:\n"
       "  bfm play models/walker.safetensors --task run -o run.mp4\n"
       "  bfm play models/walker.safetensors --reward 'torso.z > 1.2' -o stand.png\n"
       "  bfm play models/walker.safetensors --goal 'torso.zz=1, speed=3' -o go.png\n"
       "  bfm play mood.run.safetensors -o run.mp4\n",
       children,
       NULL,
       NULL};
  status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  flags_free(&a.flags);
  return status;
}
