// bfm bench collect: the whole loop of bfm collect (acting, learning, simulating, writing to a file)
// for some seconds, into a temporary folder that is removed afterwards.

#define _GNU_SOURCE  // nftw
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/cli.h"
#include "collect/collect.h"
#include "collect/options.h"

static const struct {
  const char *env, *with;
} rows[] = {{"walker", "mood"}, {"walker", "rnd"}};

// options that keep a few seconds free of what happens rarely: the end, evaluations and the random
// actions at the start
static const struct {
  const char *name, *value;
} schedule[] = {{"steps", "100M"}, {"eval-every", "1G"}, {"random-steps", "0"}};

// the given options that bfm collect has too, as JSON
static char *options_of(const cJSON *given, const char *with) {
  cJSON *options = cJSON_CreateObject();
  cJSON_AddStringToObject(options, "with", with);
  for (size_t i = 0; i < sizeof schedule / sizeof *schedule; i++) {
    cJSON_AddStringToObject(options, schedule[i].name, schedule[i].value);
  }
  const cJSON *item;
  cJSON_ArrayForEach(item, given) {
    if (!options_find(collect_options(), item->string)) continue;
    cJSON_DeleteItemFromObject(options, item->string);
    cJSON_AddItemToObject(options, item->string, cJSON_Duplicate(item, 1));
  }
  char *text = cJSON_PrintUnformatted(options);
  cJSON_Delete(options);
  return text;
}

// the measured time is over, or a signal came
static int is_over(void *seconds, const bfm_progress *progress) {
  return cli_stop || progress->seconds > *(const double *)seconds;
}

static int measure(const CollectPlan *plan, CollectSummary *summary) {
  Collection *collection;
  TRY(collection_open(&collection, plan));
  int status = collection_run(collection);
  collection_summary(collection, summary);
  collection_close(collection);
  if (cli_stop) return bfm_fail(BFM_INTERRUPTED, "stopped while measuring %s", plan->env);
  return status == BFM_INTERRUPTED ? BFM_OK : status;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
  (void)info, (void)type, (void)where;
  return remove(path);
}

static void print(int i, const CollectSummary *s, int json) {
  double rate = (double)(s->rows - s->first) / s->seconds;
  double updates = (double)s->updates / s->seconds, busy = s->busy / s->seconds;
  if (json) {
    printf(
        "{\"bench\": \"collect\", \"env\": \"%s\", \"with\": \"%s\", \"envs\": %d, "
        "\"transitions_per_second\": %.1f, \"updates_per_second\": %.1f, \"simulator\": %.4f}\n",
        rows[i].env, rows[i].with, s->envs, rate, updates, busy);
  } else {
    printf("%-8s %-6s %12.0f /s %12.1f /s %9.1f%%\n", rows[i].env, rows[i].with, rate, updates,
           100 * busy);
  }
  fflush(stdout);
}

int bench_collect(const cJSON *given, double seconds, int json) {
  cli_catch_signals();  // so that Ctrl-C still removes the temporary folder
  if (!json) {
    printf("%-8s %-6s %15s %15s %10s\n", "domain", "with", "transitions", "updates", "simulator");
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *parent = getenv("TMPDIR");
    char folder[PATH_MAX - 32], path[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/bfm-bench-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder)) {
      return bfm_fail(BFM_IO, "cannot make the folder %s: %s; set TMPDIR to another place", folder,
                      strerror(errno));
    }
    snprintf(path, sizeof path, "%s/data.h5", folder);
    char *options = options_of(given, rows[i].with);
    CollectPlan plan = {.env = rows[i].env, .path = path, .given = options, .progress = is_over,
                        .context = &seconds};
    CollectSummary summary;
    int status = options ? measure(&plan, &summary)
                         : bfm_fail(BFM_NO_MEMORY, "out of memory for the options");
    free(options);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    if (status) return status;
    print((int)i, &summary, json);
  }
  return BFM_OK;
}
