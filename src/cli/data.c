// bfm data: make a dataset from others. Every action reads the given datasets as one, keeps some or
// all of its transitions and writes them to a file in D4RL's layout; the actions differ in what they
// keep.

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/suggest.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "data/episode_index.h"

typedef struct {
  int64_t steps, seed;
} Choice;

static const Option choice_options[] = {
    {"steps", OPTION_INT, offsetof(Choice, steps), "100k", 2, INFINITY, NULL,
     "subsample: transitions to keep; the last episode is cut to fit"},
    {"seed", OPTION_INT, offsetof(Choice, seed), "0", 0, INFINITY, NULL,
     "subsample: seed of the random choice of episodes"},
    {.name = NULL},
};

typedef struct {
  Choice choice;
  Flags flags;
  const char **words;  // the action, then the datasets
  int word_count;
  const char *path;
} Arguments;

// ---------------------------------- choosing transitions -----------------------------------------

static int keep_all(const Choice *choice, const Dataset *data, uint8_t *keep) {
  (void)choice;
  memset(keep, 1, data->count);
  return BFM_OK;
}

// keep whole episodes in a random order until there are enough transitions; the file has them in their
// original order
static int keep_some(const Choice *choice, const Dataset *data, uint8_t *keep) {
  Piece *pieces;
  int64_t episodes;
  memset(keep, 0, data->count);
  TRY(episode_index(data, &pieces, &episodes));
  int64_t *order = malloc((size_t)(episodes + 1) * sizeof *order);
  int64_t *starts = malloc((size_t)(episodes + 1) * sizeof *starts);
  if (order && starts) {
    for (int64_t k = data->episodes - 1; k >= 0; k--) starts[pieces[k].episode] = k;
    starts[episodes] = data->episodes;
    random_permutation((uint64_t)choice->seed, STREAM_USER, 0, episodes, order);
    int64_t left = choice->steps;
    for (int64_t e = 0; e < episodes; e++) {
      for (int64_t k = starts[order[e]]; k < starts[order[e] + 1] && left > 0; k++) {
        memset(keep + pieces[k].first, 1, pieces[k].rows < left ? pieces[k].rows : left);
        left -= pieces[k].rows;
      }
    }
  }
  int missing = !order || !starts;
  free(pieces);
  free(order);
  free(starts);
  return missing ? bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " episodes", episodes)
                 : BFM_OK;
}

typedef struct {
  const char *name;
  int most;  // the most datasets that it takes
  int (*keep)(const Choice *choice, const Dataset *data, uint8_t *keep);
} Action;

static const Action actions[] = {{"merge", 1 << 20, keep_all},
                                 {"subsample", 1 << 20, keep_some},
                                 {"convert", 1, keep_all}};
#define ACTION_COUNT ((int)(sizeof actions / sizeof *actions))

// ---------------------------------- the command --------------------------------------------------

static int write_kept(const Arguments *a, const Action *action, const Dataset *data) {
  uint8_t *keep = malloc(data->count);
  if (!keep) return bfm_fail(BFM_NO_MEMORY, "out of memory for %" PRId64 " rows", data->count);
  int status = action->keep(&a->choice, data, keep);
  if (!status) status = dataset_write(data, a->path, keep, &cli_stop);
  int64_t kept = 0;
  for (int64_t i = 0; i < data->count; i++) kept += keep[i];
  free(keep);
  if (!status) printf("%" PRId64 " of %" PRId64 " transitions: %s\n", kept, data->count, a->path);
  return status;
}

static int run(const Arguments *a) {
  const Action *action = NULL;
  Suggestion suggestion = {.word = a->word_count ? a->words[0] : ""};
  for (int i = 0; i < ACTION_COUNT; i++) {
    suggest_try(&suggestion, actions[i].name);
    if (!strcmp(suggestion.word, actions[i].name)) action = &actions[i];
  }
  if (!action && a->word_count) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no action \"%.64s\"%s", suggestion.word,
                    suggest_say(&suggestion, ": name merge, subsample or convert"));
  }
  if (!action) return bfm_fail(BFM_BAD_ARGUMENT, "name an action: merge, subsample or convert");
  int count = a->word_count - 1;
  if (count < 1)
    return bfm_fail(BFM_BAD_ARGUMENT, "name a dataset: bfm data %s data.h5", action->name);
  if (count > action->most) {
    return bfm_fail(BFM_BAD_ARGUMENT, "%s takes one dataset, not %d", action->name, count);
  }
  const cJSON *given = a->flags.given->child;
  if (given && action->keep == keep_all) {
    return bfm_fail(BFM_BAD_ARGUMENT, "--%s %s is for subsample: %s keeps all transitions",
                    given->string, given->valuestring, action->name);
  }
  if (!a->path) return bfm_fail(BFM_BAD_ARGUMENT, "name the file to write: -o out.h5");

  Dataset data;
  TRY(dataset_read_all(&data, a->words + 1, count));
  cli_catch_signals();
  int status = write_kept(a, action, &data);
  dataset_free(&data);
  return status;
}

static const struct argp_option own_options[] = {
    {"output", 'o', "FILE", 0, "the file to write (required); it must not exist yet", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: flags_init(state, (Flags *const[]){&a->flags}, 1); return 0;
    case 'o': a->path = arg; return 0;
    case ARGP_KEY_ARG: a->words[a->word_count++] = arg; return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

int cli_data(int argc, char **argv) {
  Arguments a = {.words = calloc(argc, sizeof *a.words)};
  int status = a.words ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %d arguments", argc);
  if (!status) status = flags_new(&a.flags, choice_options, &a.choice, "Transitions to keep");
  if (status) return cli_fail(status);
  const struct argp_child children[] = {{&a.flags.argp, 0, NULL, 1}, {0}};
  const struct argp argp = {own_options,
                            parse,
                            "merge|subsample|convert DATA...",
                            "Read datasets and write one HDF5 file in D4RL's layout. Datasets are "
                            "HDF5 files in D4RL's or Minari's layout, or ExORL's folders of npz "
                            "episodes.\n"
                            "  merge      all transitions of several datasets\n"
                            "  subsample  a random choice of episodes\n"
                            "  convert    all transitions of one dataset\v"
                            "Examples (the first two commands make the data):\n"
                            "  bfm collect point_mass --steps 5k -o a.h5\n"
                            "  bfm collect point_mass --steps 5k --seed 1 -o b.h5\n"
                            "  bfm data merge a.h5 b.h5 -o both.h5\n"
                            "  bfm data subsample both.h5 --steps 2k -o small.h5\n"
                            "A folder of episodes that was downloaded from ExORL:\n"
                            "  bfm data convert exorl/walker/buffer -o exorl.h5\n",
                            children,
                            NULL,
                            NULL};
  status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  flags_free(&a.flags);
  free(a.words);
  return status;
}
