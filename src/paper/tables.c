// The list of the paper's tables, and reading the paper's numbers.

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/files.h"
#include "core/suggest.h"
#include "paper/paper.h"
#include "collect/d4rl_scores.h"
#include "train/recipes.h"
#include "train/settings.h"

#define DMC "walker cheetah quadruped"
#define MILLION 1000000

// the paper does not state its training steps; the code that it builds on uses a million
static const PaperTable tables[] = {
    {"rnd", "locomotion on RND data", "rnd", DMC, "rnd", MILLION, 5, 100},
    {"mood", "locomotion on MOOD data", "mood", DMC " humanoid", "mood", MILLION, 5, 100},
    {"ablations", "parts of FB-AW, on MOOD data", "ablations", DMC " humanoid", "mood", MILLION, 5,
     100},
    {"jaco-64", "the arm, d 64, on RND data", "jaco-64", "jaco", "rnd", MILLION, 5, 100},
    {"jaco-128", "the arm, d 128", "jaco-128", "jaco", "rnd", MILLION, 5, 100},
    {"jaco-256", "the arm, d 256", "jaco-256", "jaco", "rnd", MILLION, 5, 100},
    {"d4rl", "D4RL's locomotion, normalized", "d4rl", "halfcheetah hopper walker2d",
     "d4rl-medium d4rl-medium-replay d4rl-medium-expert", MILLION, 5, 100},
    {"kitchen", "D4RL's kitchen, normalized", "d4rl", "kitchen", "d4rl-partial d4rl-mixed", MILLION,
     5, 100},
    {"dims", "length d of z, on MOOD data (a figure)", NULL, DMC, "mood", MILLION, 5, 100},
    {"blocks", "blocks of FB-AWARE, on MOOD data (a figure)", NULL, DMC, "mood", MILLION, 5, 100},
    {"jaco-blocks", "blocks and d for the arm (a figure)", NULL, "jaco", "rnd", MILLION, 5, 100},
    {"z", "z in a batch, norm of B, share of z from B (figures)", NULL, DMC, "mood", MILLION, 5,
     100},
    {"es", "FB-AW with and without evaluation-based sampling (a figure)", NULL, DMC " humanoid",
     "mood", MILLION, 5, 100},
    {"six", "not in the paper: every algorithm on RND and MOOD data", NULL, "walker cheetah",
     "mood rnd", 300000, 3, 100},
    {"first", "not in the paper: a short example that runs on a CPU", NULL, "point_mass", "random",
     20000, 2, 20},
    {"stabilizers", "not in the paper: actor x what stabilizes it, with small networks", NULL,
     "walker", "mood-small", 100000, 5, 20},
    {"laplacian", "not in the paper: what LAP needs, one option at a time, with small networks",
     NULL, "walker", "rnd-small", 100000, 5, 20},
    {"claims", "not in the paper: its six claims, with small networks", NULL, "walker point_mass",
     "mood-small rnd-small random-hold20", 100000, 5, 20},
};
#define TABLE_COUNT ((int)(sizeof tables / sizeof *tables))

#define FB "algo=fb"
#define FB_AW "algo=fb-aw"
#define FB_ARE(K) "algo=fb-are blocks=" #K
#define FB_AWARE(K) "algo=fb-aware blocks=" #K
#define LAP "algo=lap"
#define LAP_AW "algo=lap-aw"
#define VANILLA " target=min ensemble=shared"

// The claims compare methods under one configuration, with what stabilizes advantage weighting for all
// of them; FB is also there without, as it is better so. A transition of the point mass lasts 20 control steps (paper/datasets.c).
#define STABLE " ortho=100 f-norm=on beta=10"
#define UNSTABLE " ortho=1 f-norm=off beta=10"
#define CLIP " clip=4.6"
#define NO_CLIP " clip=inf"
#define SMALL " preset=small batch=256 lr=3e-4 d=64"
#define WALKER SMALL STABLE
#define POINT_MASS \
  " hidden=64 feat=64 b-hidden=64 batch=256 lr=5e-4 d=32 gamma=0.95 goal=0:2" STABLE CLIP
#define SINGLE " hidden=256 batch=256 lr=3e-4"
// the recipe of the code that LAP comes from, in our units (docs/code.md)
#define LINEAGE(TARGET, ENSEMBLE, MIX, ORTHO, B_LR, MORE)                                       \
  LAP SMALL " target=" TARGET " ensemble=" ENSEMBLE " z-mix=" MIX " ortho=" ORTHO " b-lr=" B_LR \
            " f-norm=off" MORE
#define ON_MOOD "claims walker mood-small"
#define ON_RND "claims walker rnd-small"
#define ON_GOALS "claims point_mass random-hold20"

static const PaperMethod methods[] = {
    {"rnd", "LAP", LAP, 0},
    {"rnd", "LAP-AW", LAP_AW, 1},
    {"rnd", "FB-AW", FB_AW, 1},
    {"rnd", "FB", FB, 0},
    {"rnd", "FB-ARE (4)", FB_ARE(4), 0},
    {"rnd", "FB-ARE (8)", FB_ARE(8), 0},

    {"mood", "FB", FB, 0},
    {"mood", "FB-AW", FB_AW, 1},
    {"mood", "FB-AWARE (4)", FB_AWARE(4), 1},
    {"mood", "FB-AWARE (8)", FB_AWARE(8), 1},
    {"mood", "LAP-AW", LAP_AW, 1},

    {"ablations", "Vanilla FB", FB VANILLA, 0},
    {"ablations", "FB (fully par. + no min.)", FB, 0},
    {"ablations", "FB-AW (no fully par. + min.)", FB_AW VANILLA, 1},
    {"ablations", "FB-AW (WIS)", FB_AW " weights=wis", 1},
    {"ablations", "FB-AW", FB_AW, 1},

    {"jaco-64", "FB", FB " d=64", 0},
    {"jaco-64", "FB-AW", FB_AW " d=64", 1},
    {"jaco-64", "FB-AWARE (4)", FB_AWARE(4) " d=64", 1},
    {"jaco-64", "FB-AWARE (8)", FB_AWARE(8) " d=64", 1},
    {"jaco-64", "LAP-AW", LAP_AW " d=64", 1},
    {"jaco-128", "FB", FB " d=128", 0},
    {"jaco-128", "FB-AW", FB_AW " d=128", 1},
    {"jaco-128", "FB-AWARE (4)", FB_AWARE(4) " d=128", 1},
    {"jaco-128", "FB-AWARE (8)", FB_AWARE(8) " d=128", 1},
    {"jaco-128", "LAP-AW", LAP_AW " d=128", 1},
    {"jaco-256", "FB", FB " d=256", 0},
    {"jaco-256", "FB-AW", FB_AW " d=256", 1},
    {"jaco-256", "FB-AWARE (4)", FB_AWARE(4) " d=256", 1},
    {"jaco-256", "FB-AWARE (8)", FB_AWARE(8) " d=256", 1},
    {"jaco-256", "LAP-AW", LAP_AW " d=256", 1},

    {"d4rl", "FB", FB, 0},
    {"d4rl", "FB-AW", FB_AW, 1},
    {"d4rl", "FB-AWARE", FB_AWARE(8), 1},
    {"d4rl", "BC", "algo=bc", 0},
    {"d4rl", "TD3+BC", "algo=td3bc", 0},
    {"d4rl", "IQL", "algo=iql", 0},
    {"d4rl", "XQL", "algo=xql", 0},

    {"kitchen", "FB", FB, 0},
    {"kitchen", "FB-AW", FB_AW, 1},
    {"kitchen", "FB-AWARE", FB_AWARE(8), 1},

    {"dims", "FB-AW d 32", FB_AW " d=32", 1},
    {"dims", "FB-AWARE (8) d 32", FB_AWARE(8) " d=32", 1},
    {"dims", "FB-AW d 64", FB_AW " d=64", 1},
    {"dims", "FB-AWARE (8) d 64", FB_AWARE(8) " d=64", 1},
    {"dims", "FB-AW d 128", FB_AW " d=128", 1},
    {"dims", "FB-AWARE (8) d 128", FB_AWARE(8) " d=128", 1},
    {"dims", "FB-AW d 256", FB_AW " d=256", 1},
    {"dims", "FB-AWARE (8) d 256", FB_AWARE(8) " d=256", 1},

    {"blocks", "FB-AWARE (1)", FB_AWARE(1), 1},
    {"blocks", "FB-AWARE (2)", FB_AWARE(2), 1},
    {"blocks", "FB-AWARE (4)", FB_AWARE(4), 1},
    {"blocks", "FB-AWARE (8)", FB_AWARE(8), 1},
    {"blocks", "FB-AWARE (16)", FB_AWARE(16), 1},

    {"jaco-blocks", "FB-AW d 64", FB_AW " d=64", 1},
    {"jaco-blocks", "FB-AWARE (2) d 64", FB_AWARE(2) " d=64", 1},
    {"jaco-blocks", "FB-AWARE (4) d 64", FB_AWARE(4) " d=64", 1},
    {"jaco-blocks", "FB-AWARE (8) d 64", FB_AWARE(8) " d=64", 1},
    {"jaco-blocks", "FB-AW d 128", FB_AW " d=128", 1},
    {"jaco-blocks", "FB-AWARE (2) d 128", FB_AWARE(2) " d=128", 1},
    {"jaco-blocks", "FB-AWARE (4) d 128", FB_AWARE(4) " d=128", 1},
    {"jaco-blocks", "FB-AWARE (8) d 128", FB_AWARE(8) " d=128", 1},
    {"jaco-blocks", "FB-AW d 256", FB_AW " d=256", 1},
    {"jaco-blocks", "FB-AWARE (2) d 256", FB_AWARE(2) " d=256", 1},
    {"jaco-blocks", "FB-AWARE (4) d 256", FB_AWARE(4) " d=256", 1},
    {"jaco-blocks", "FB-AWARE (8) d 256", FB_AWARE(8) " d=256", 1},

    {"z", "FB-AW", FB_AW, 1},
    {"z", "FB-AW, one z a batch", FB_AW " z-groups=1", 1},
    {"z", "FB-AW, B as it is", FB_AW " b-norm=off", 1},
    {"z", "FB-AW, Gaussian z", FB_AW " z-mix=0", 1},
    {"z", "FB-AWARE (8)", FB_AWARE(8), 1},
    {"z", "FB-AWARE (8), B as it is", FB_AWARE(8) " b-norm=off", 1},
    {"z", "FB-AWARE (8), Gaussian z", FB_AWARE(8) " z-mix=0", 1},

    {"es", "FB-AW, policy's mean", FB_AW, 0},
    {"es", "FB-AW, ES", FB_AW, 1},

    {"six", "FB", FB, 0},
    {"six", "FB-AW", FB_AW, 1},
    {"six", "FB-ARE (8)", FB_ARE(8), 0},
    {"six", "FB-AWARE (4)", FB_AWARE(4), 1},
    {"six", "FB-AWARE (8)", FB_AWARE(8), 1},
    {"six", "LAP", LAP, 0},
    {"six", "LAP-AW", LAP_AW, 1},

    {"first", "FB", FB, 0},
    {"first", "FB-AW", FB_AW, 1},
    {"first", "FB-AWARE (4)", FB_AWARE(4), 1},

    {"stabilizers", "FB, plain", FB SMALL UNSTABLE NO_CLIP, 0},
    {"stabilizers", "FB, stabilized", FB WALKER CLIP, 0},
    {"stabilizers", "FB-AW, plain", FB_AW SMALL UNSTABLE NO_CLIP, 1},
    {"stabilizers", "FB-AW, stabilized", FB_AW WALKER CLIP, 1},

    {"laplacian", "FB, stabilized", FB WALKER CLIP, 0},
    {"laplacian", "LAP, stabilized", LAP WALKER CLIP, 0},
    {"laplacian", "LAP, lineage, whole", LINEAGE("min", "shared", "0", "128", "15e-4", ""), 0},
    {"laplacian", "LAP, lineage, target mean", LINEAGE("mean", "shared", "0", "128", "15e-4", ""),
     0},
    {"laplacian", "LAP, lineage, parallel", LINEAGE("min", "parallel", "0", "128", "15e-4", ""), 0},
    {"laplacian", "LAP, lineage, z mixed", LINEAGE("min", "shared", "0.5", "128", "15e-4", ""), 0},
    {"laplacian", "LAP, lineage, z whitened",
     LINEAGE("min", "shared", "0.5", "128", "15e-4", " z-whiten=on"), 0},
    {"laplacian", "LAP, lineage, ortho 1", LINEAGE("min", "shared", "0", "1", "15e-4", ""), 0},
    {"laplacian", "LAP, lineage, equal rates", LINEAGE("min", "shared", "0", "128", "3e-4", ""), 0},
    {"laplacian", "LAP, target min, layer norm", LAP SMALL " ortho=1 target=min f-norm=on", 0},

    {ON_MOOD, "FB", FB WALKER CLIP, 0},
    {ON_MOOD, "FB, plain", FB SMALL UNSTABLE NO_CLIP, 0},
    {ON_MOOD, "FB-AW", FB_AW WALKER CLIP, 1},
    {ON_MOOD, "FB-AW, one z a batch", FB_AW WALKER CLIP " z-groups=1", 1},
    {ON_MOOD, "FB-AWARE (8)", FB_AWARE(8) WALKER CLIP, 1},
    {ON_MOOD, "FB-AW, IWIS, clip off", FB_AW WALKER NO_CLIP " weights=iwis", 1},
    {ON_MOOD, "FB-AW, WIS, clip off", FB_AW WALKER NO_CLIP " weights=wis", 1},
    {ON_RND, "FB", FB WALKER CLIP, 0},
    {ON_RND, "FB, plain", FB SMALL UNSTABLE NO_CLIP, 0},
    {ON_RND, "FB-AW", FB_AW WALKER CLIP, 1},
    {ON_GOALS, "FB-AW", FB_AW POINT_MASS, 1},
    {ON_GOALS, "FB-AW, one z a batch", FB_AW POINT_MASS " z-groups=1", 1},
    {ON_GOALS, "FB-AWARE (8)", FB_AWARE(8) POINT_MASS, 1},
    {ON_MOOD, "IQL", "algo=iql" SINGLE, 0},
    {ON_MOOD, "XQL", "algo=xql" SINGLE, 0},
    {ON_MOOD, "TD3+BC", "algo=td3bc" SINGLE, 0},
};
#define METHOD_COUNT ((int)(sizeof methods / sizeof *methods))

// options of a domain, for methods that do not set d
static const struct {
  const char *domain, *options;
} domain_options[] = {{"humanoid", "d=128"}, {"", "d=64"}};

// cells whose steps are not the table's, and those that are evaluated several times, for their curves
static const struct {
  const char *table, *domain;
  int64_t steps, evaluations;
} schedules[] = {{"claims", "walker", 100000, 5}, {"claims", "point_mass", 12000, 5}};
#define SCHEDULE_COUNT (sizeof schedules / sizeof *schedules)

// ---------------------------------- tables and cells ---------------------------------------------

const PaperTable *paper_table_at(int i) { return i < TABLE_COUNT ? &tables[i] : NULL; }

int paper_table_find(const PaperTable **table, const char *name) {
  Suggestion suggestion = {.word = name};
  for (int i = 0; i < TABLE_COUNT; i++) {
    *table = &tables[i];
    if (!strcmp(tables[i].name, name)) return BFM_OK;
    suggest_try(&suggestion, tables[i].name);
  }
  *table = NULL;
  return bfm_fail(BFM_BAD_ARGUMENT, "there is no table \"%.64s\"%s", name,
                  suggest_say(&suggestion, "; bfm paper list shows all"));
}

// copy word number i of words separated by spaces; returns 0 after the last
static int word_at(const char *words, int i, char *out, size_t size) {
  while (i-- > 0) {
    words += strcspn(words, " ");
    words += strspn(words, " ");
  }
  int length = (int)strcspn(words, " ");
  snprintf(out, size, "%.*s", length, words);
  return length > 0;
}

// write the name of a cell's run: the options of the domain are for methods that have a d and do not
// set it
static void name_run(PaperCell *cell) {
  int k = 0;
  while (*domain_options[k].domain && strcmp(domain_options[k].domain, cell->domain)) k++;
  const char *given = cell->method->options;
  int has_d = !strncmp(given, FB, strlen(FB)) || !strncmp(given, LAP, strlen(LAP));
  const char *more = !has_d || strstr(given, " d=") ? "" : domain_options[k].options;
  snprintf(cell->run, sizeof cell->run, "%s %s %s%s%s", cell->domain, cell->data,
           cell->method->options, *more ? " " : "", more);
}

// set the method to number *i of those that a table has for a domain and data, else count them off
static int find_method(PaperCell *cell, int *i) {
  char place[128];
  snprintf(place, sizeof place, "%s %s %s", cell->table->name, cell->domain, cell->data);
  for (int k = 0; k < METHOD_COUNT; k++) {
    cell->method = &methods[k];
    if (strcmp(methods[k].table, cell->table->name) && strcmp(methods[k].table, place)) continue;
    if ((*i)-- == 0) return 1;
  }
  return 0;
}

int paper_cell_at(const PaperTable *table, int i, PaperCell *cell) {
  *cell = (PaperCell){.table = table};
  for (int k = 0; word_at(table->domains, k, cell->domain, sizeof cell->domain); k++) {
    for (int j = 0; word_at(table->data, j, cell->data, sizeof cell->data); j++) {
      if (!find_method(cell, &i)) continue;
      name_run(cell);
      return 1;
    }
  }
  return 0;
}

static int find_schedule(const PaperCell *cell) {
  size_t i = 0;
  while (i < SCHEDULE_COUNT && (strcmp(schedules[i].table, cell->table->name) ||
                                strcmp(schedules[i].domain, cell->domain))) {
    i++;
  }
  return i < SCHEDULE_COUNT ? (int)i : -1;
}

int64_t paper_cell_steps(const PaperCell *cell) {
  int i = find_schedule(cell);
  return i < 0 ? cell->table->steps : schedules[i].steps;
}

int64_t paper_cell_evaluations(const PaperCell *cell) {
  int i = find_schedule(cell);
  return i < 0 ? 1 : schedules[i].evaluations;
}

const char *paper_options_of(const PaperCell *cell) {
  return strchr(strchr(cell->run, ' ') + 1, ' ') + 1;
}

int paper_cell_offline(const PaperCell *cell) {
  cJSON *options = cJSON_CreateObject();
  char *text = options && !recipe_add(cell->method->options, options)
                   ? cJSON_PrintUnformatted(options)
                   : NULL;
  int algo = settings_offline_algo(text);
  free(text);
  cJSON_Delete(options);
  return algo;
}

// whether one of the words is `word`, apart from a comma behind it
static int has_word(const char *words, const char *word) {
  char other[64];
  for (int i = 0; word_at(words, i, other, sizeof other); i++) {
    other[strcspn(other, ",")] = 0;
    if (!strcmp(other, word)) return 1;
  }
  return 0;
}

int paper_cell_matches(const PaperCell *cell, const char *filter) {
  char word[64];
  for (int i = 0; word_at(filter, i, word, sizeof word); i++) {
    if (strcmp(word, cell->domain) && strcmp(word, cell->data) &&
        !has_word(cell->method->method, word)) {
      return 0;
    }
  }
  return 1;
}

int paper_check_filter(const PaperTable *table, const char *filter) {
  PaperCell cell;
  for (int i = 0; paper_cell_at(table, i, &cell); i++) {
    if (paper_cell_matches(&cell, filter)) return BFM_OK;
  }
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "no cell of the table %s matches --filter \"%s\": bfm paper list %s shows them",
                  table->name, filter, table->name);
}

// ---------------------------------- numbers ------------------------------------------------------

// parse a line "domain,task,method,mean,std"; std may be empty
static int parse_number(char *line, PaperNumber *number) {
  char *field[5];
  for (int i = 0; i < 5; i++) {
    field[i] = strsep(&line, ",\n");
    if (!field[i]) return 0;
  }
  snprintf(number->domain, sizeof number->domain, "%s", field[0]);
  snprintf(number->task, sizeof number->task, "%s", field[1]);
  snprintf(number->method, sizeof number->method, "%s", field[2]);
  char *end;
  number->mean = strtod(field[3], &end);
  if (end == field[3]) return 0;
  number->std = strtod(field[4], &end);
  if (end == field[4]) number->std = NAN;
  return 1;
}

int paper_numbers_read(PaperNumbers *all, const PaperTable *table, const char *results) {
  *all = (PaperNumbers){.count = 0};
  if (!table->numbers) return BFM_OK;
  char path[PATH_MAX], *line = NULL;
  size_t size = 0;
  snprintf(path, sizeof path, "%s/paper/%s.csv", results, table->numbers);
  FILE *file;
  int status = input_stream(path, &file);
  if (status) {
    char why[512];
    snprintf(why, sizeof why, "%s", bfm_error());
    return bfm_fail(status, "%s; set the folder of the paper's numbers with --results", why);
  }
  int room = 0;
  PaperNumber number;
  for (int at = 0; !status && getline(&line, &size, file) > 0; at++) {
    if (!at) continue;  // the column names
    if (!parse_number(line, &number)) {
      status =
          bfm_fail(BFM_BAD_FILE, "%s: line %d is not domain,task,method,mean,std", path, at + 1);
      break;
    }
    if (all->count == room) {
      room = room ? 2 * room : 64;
      PaperNumber *more = realloc(all->numbers, room * sizeof *more);
      if (!more) {
        status = bfm_fail(BFM_NO_MEMORY, "out of memory for the numbers of %s", path);
        break;
      }
      all->numbers = more;
    }
    all->numbers[all->count++] = number;
  }
  free(line);
  fclose(file);
  if (status) paper_numbers_free(all);
  return status;
}

void paper_numbers_free(PaperNumbers *all) {
  free(all->numbers);
  *all = (PaperNumbers){.count = 0};
}

static int is_d4rl(const PaperCell *cell) { return !strncmp(cell->data, "d4rl-", 5); }

// The paper's "tasks" of D4RL are datasets: halfcheetah with d4rl-medium is halfcheetah-medium-v2. The
// kitchen's datasets are named like its tasks. Writes the paper's name to `out` and returns whether
// `task` is the task of the cell's dataset.
static int name_d4rl(const PaperCell *cell, const char *task, char *out, size_t size) {
  const char *kind = cell->data + 5;
  int kitchen = !strcmp(cell->domain, "kitchen");
  snprintf(out, size, "%s-%s-v%d", cell->domain, kind, kitchen ? 0 : 2);
  return !strcmp(task, kitchen ? kind : "run") || (!kitchen && !strcmp(task, "in"));
}

const PaperNumber *paper_number(const PaperNumbers *all, const PaperCell *cell, const char *task) {
  char name[PAPER_TEXT];
  const char *domain = is_d4rl(cell) ? "d4rl" : cell->domain;
  snprintf(name, sizeof name, "%s", task);
  if (is_d4rl(cell) && !name_d4rl(cell, task, name, sizeof name)) return NULL;
  for (int i = 0; i < all->count; i++) {
    const PaperNumber *n = &all->numbers[i];
    if (!strcmp(n->domain, domain) && !strcmp(n->task, name) &&
        !strcmp(n->method, cell->method->method)) {
      return n;
    }
  }
  return NULL;
}

int paper_in_group(const PaperCell *cell, const Task *task, const char *group) {
  if (task->kind == TASK_PROMPT) return 0;
  // a dataset of D4RL's kitchen is named like the task that it was made for
  int kitchen = !strcmp(cell->domain, "kitchen");
  int known = kitchen ? !strcmp(cell->data + 5, task->name) : task->kind == TASK_KNOWN;
  return !strcmp(group, "all") || !strcmp(group, known ? "in" : "new");
}

double paper_value(const PaperNumbers *all, const PaperCell *cell, const char *task, double *std) {
  const PaperNumber *number = paper_number(all, cell, task);
  *std = number ? number->std : NAN;
  if (number) return number->mean;
  double sum = 0;
  int count = 0;
  const Task *one;
  for (int i = 0; (one = task_at(cell->domain, i)); i++) {
    if (!paper_in_group(cell, one, task)) continue;
    number = paper_number(all, cell, one->name);
    sum += number ? number->mean : NAN;
    count++;
  }
  return count ? sum / count : NAN;
}

double paper_score(const PaperCell *cell, const char *task, double value) {
  double score = d4rl_score(cell->domain, task, value);
  return isnan(score) ? value : score;
}
