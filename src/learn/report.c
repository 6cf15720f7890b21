// The last stage: the model's returns on every task beside random actions and beside the learners
// that made the data, and what a person looks at: report.md, curves.png, strip.png, the small model.

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bfm.h"
#include "core/files.h"
#include "core/json.h"
#include "core/units.h"
#include "data/coverage.h"
#include "data/dataset.h"
#include "envs/tasklist.h"
#include "envs/tasks.h"
#include "learn/learn.h"
#include "rollout/evaluate.h"
#include "train/eval_log.h"
#include "view/episode.h"
#include "view/film.h"

enum { ES = 32, EPISODES = 20, LEAST_EPISODES = 2, PICTURES = 8, PICTURE_WIDTH = 240 };

enum { BY_MEAN, BY_BEST, RANDOM, COLUMNS };  // columns of the table

typedef struct {
  Learn *l;
  bfm_agent *agent;
  TaskList tasks;
  int64_t episodes;
  double *returns;  // [tasks, EPISODES], scratch
  double *mean;     // [COLUMNS, tasks]
  double *learner;  // [tasks], NaN where no learner had the task
  int best;         // BY_MEAN or BY_BEST, whichever earns more
  char model[PATH_MAX], strip[PATH_MAX];
} Report;

// ---------------------------------- returns ------------------------------------------------------

static int each(void *context, int64_t done, int64_t total) {
  char note[64];
  snprintf(note, sizeof note, "evaluating, %.0f%%", 100.0 * (double)done / (double)total);
  return learn_tell(context, note);
}

static int evaluate_column(Report *r, int column) {
  int T = r->tasks.count;
  const bfm_evaluation plan = {.size = sizeof plan, .tasks = (const char *const *)r->tasks.text,
                               .task_count = T, .episodes = r->episodes,
                               .es = column == BY_BEST ? ES : 0, .seed = 1,
                               .threads = (int)r->l->options.threads, .each = each,
                               .context = r->l};
  if (column == RANDOM) TRY(evaluate_random(r->l->env, &plan, r->returns));
  else TRY(bfm_agent_evaluate(r->agent, &plan, r->returns));
  for (int t = 0; t < T; t++) {
    double std;
    mean_std(r->returns + t * r->episodes, r->episodes, &r->mean[column * T + t], &std);
  }
  return BFM_OK;
}

// as many episodes as the time allows: sampled actions cost about ten times as much as random ones
static int evaluate_all(Report *r) {
  double start = seconds_now(), left = learn_left(r->l, 1);
  r->episodes = LEAST_EPISODES;
  TRY(evaluate_column(r, RANDOM));
  double each_episode = 11 * (seconds_now() - start) / LEAST_EPISODES;
  r->episodes = (int64_t)fmax(LEAST_EPISODES, fmin(EPISODES, 0.7 * left / each_episode));
  TRY(evaluate_column(r, RANDOM));
  TRY(evaluate_column(r, BY_MEAN));
  return evaluate_column(r, BY_BEST);
}

// the mean of a column over the tasks of one kind, NaN if there are none
static double mean_of(const Report *r, const double *column, TaskKind kind) {
  double sum = 0;
  int count = 0;
  for (int t = 0; t < r->tasks.count; t++) {
    const Task *task = task_find(r->l->env, r->tasks.text[t]);
    if (!task || task->kind != kind || isnan(column[t])) continue;
    sum += column[t];
    count++;
  }
  return count ? sum / count : NAN;
}

static void choose_best(Report *r) {
  double sum[2] = {0};
  for (int t = 0; t < r->tasks.count; t++) {
    for (int c = BY_MEAN; c <= BY_BEST; c++) sum[c] += r->mean[c * r->tasks.count + t];
  }
  r->best = sum[BY_BEST] > sum[BY_MEAN] ? BY_BEST : BY_MEAN;
}

// the last returns in the collector's log, without noise
static void read_learners(Report *r) {
  char path[PATH_MAX];
  cJSON *lines = NULL;
  const cJSON *line, *item;
  for (int t = 0; t < r->tasks.count; t++) r->learner[t] = NAN;
  learn_path(r->l, "data.log.jsonl", path, sizeof path);
  if (access(path, F_OK) || json_read_lines(&lines, path)) return;
  cJSON_ArrayForEach(line, lines) {
    for (int t = 0; t < r->tasks.count; t++) {
      item = cJSON_GetObjectItem(cJSON_GetObjectItem(line, "returns"), r->tasks.text[t]);
      if (cJSON_IsNumber(item)) r->learner[t] = item->valuedouble;
    }
  }
  cJSON_Delete(lines);
}

// ---------------------------------- pictures -----------------------------------------------------

static int each_picture(void *context, int64_t done, int64_t total) {
  (void)done, (void)total;
  return learn_tell(context, "drawing");
}

// an episode of the task with the best return
static int favourite(const Report *r) {
  int best = 0;
  const double *column = r->mean + r->best * r->tasks.count;
  for (int t = 1; t < r->tasks.count; t++) {
    if (column[t] > column[best]) best = t;
  }
  return best;
}

static int draw_episode(Report *r, Episode *e, const World *world) {
  char title[256];
  TRY(episode_record(e));
  snprintf(title, sizeof title, "%.200s: return %.1f", e->score, *e->rollout.returns);
  Film film = {.world = world, .count = e->count, .qpos = e->qpos, .rewards = e->rewards,
               .title = title, .dt = e->sizes.control_dt, .width = PICTURE_WIDTH,
               .height = PICTURE_WIDTH * 3 / 4, .each = each_picture, .context = r->l};
  return film_strip(&film, PICTURES, r->strip);
}

static int draw_strip(Report *r, const World *world) {
  const char *task = r->tasks.text[favourite(r)];
  AgentActor model = {.agent = r->agent, .es = r->best == BY_BEST ? ES : 0};
  Actor actor = agent_actor(&model);
  float *z = calloc((size_t)bfm_agent_d(r->agent), sizeof *z);
  Episode e = {.score = task, .z = z, .seed = 1, .each = each_picture, .context = r->l};
  int status = z ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for z");
  if (!status) status = bfm_agent_prompt_text(r->agent, 0, task, 0, z);
  if (!status) status = episode_new(&e, &actor);
  if (!status) status = draw_episode(r, &e, world);
  episode_free(&e);
  free(z);
  return status;
}

// pictures are worth having, but their failure is not that of the run
static int draw(Report *r) {
  const World *world;
  const Domain *domain;
  char path[PATH_MAX];
  const char *const folders[] = {r->l->folder.path};
  TRY(domain_find(&domain, r->l->env));
  TRY(world_acquire(&world, domain));
  learn_path(r->l, "strip.png", r->strip, sizeof r->strip);
  int status = draw_strip(r, world);
  world_release(world);
  if (status == BFM_INTERRUPTED) return status;
  if (status) {
    learn_say(r->l, "no strip of pictures: %s", bfm_error());
    *r->strip = 0;
  }
  learn_path(r->l, "curves", path, sizeof path);
  if (eval_log_draw(folders, 1, path)) learn_say(r->l, "no learning curves: %s", bfm_error());
  return BFM_OK;
}

// ---------------------------------- report.md ----------------------------------------------------

static void print_number(FILE *out, double value, int bold) {
  if (isnan(value)) fprintf(out, " – |");
  else if (bold) fprintf(out, " **%.0f** |", value);
  else fprintf(out, " %.0f |", value);
}

static void print_means(const Report *r, FILE *out, const char *name, TaskKind kind) {
  int T = r->tasks.count;
  if (isnan(mean_of(r, r->mean, kind))) return;
  fprintf(out, "| %s | |", name);
  for (int c = 0; c < RANDOM; c++) {
    print_number(out, mean_of(r, r->mean + c * T, kind), c == r->best);
  }
  print_number(out, mean_of(r, r->learner, kind), 0);
  print_number(out, mean_of(r, r->mean + RANDOM * T, kind), 0);
  fputc('\n', out);
}

static void print_table(const Report *r, FILE *out) {
  int T = r->tasks.count;
  fprintf(out,
          "Returns over %" PRId64
          " episodes of each task. The learners made the data, each for its own task, and act "
          "without noise.\n\n"
          "| task | | by the mean | best of %d | learner | random |\n|---|---|---|---|---|---|\n",
          r->episodes, ES);
  for (int t = 0; t < T; t++) {
    const Task *task = task_find(r->l->env, r->tasks.text[t]);
    fprintf(out, "| %s | %s |", r->tasks.text[t],
            task && task->kind == TASK_KNOWN && r->l->mood ? "in the data" : "new");
    for (int c = 0; c < RANDOM; c++) print_number(out, r->mean[c * T + t], 0);
    print_number(out, r->learner[t], 0);
    print_number(out, r->mean[RANDOM * T + t], 0);
    fputc('\n', out);
  }
  print_means(r, out, r->l->mood ? "mean, in the data" : "mean of the known tasks", TASK_KNOWN);
  print_means(r, out, "mean of the new tasks", TASK_NEW);
}

static int print_data(const Report *r, FILE *out) {
  char path[PATH_MAX], count[32], steps[32];
  Dataset data;
  learn_path(r->l, "data.h5", path, sizeof path);
  TRY(dataset_read_to_describe(&data, path));
  cJSON *covered = cJSON_CreateObject();
  if (!r->tasks.count) coverage_info(&data, covered);  // no more than a number for people
  short_count((double)data.count, count, sizeof count);
  double step = folder_log_last(&r->l->folder, "log.jsonl", "step");
  short_count(step, steps, sizeof steps);
  fprintf(out, "%s transitions, %s training steps of %s", count, steps, r->l->options.algo);
  dataset_free(&data);
  cJSON *options = NULL;
  char *text = bfm_agent_options(r->agent);
  if (text) options = cJSON_Parse(text);
  fprintf(out, " (width %.0f, batch %.0f)",
          cJSON_GetNumberValue(cJSON_GetObjectItem(options, "hidden")),
          cJSON_GetNumberValue(cJSON_GetObjectItem(options, "batch")));
  const cJSON *coverage = cJSON_GetObjectItem(covered, "coverage"), *cells;
  if ((cells = cJSON_GetObjectItem(coverage, "cells"))) {
    fprintf(out, ", coverage %.0f cells of %s", cells->valuedouble,
            cJSON_GetStringValue(cJSON_GetObjectItem(coverage, "of")));
  } else if ((cells = cJSON_GetObjectItem(coverage, "bits"))) {
    fprintf(out, ", coverage %.2f bits of %s", cells->valuedouble,
            cJSON_GetStringValue(cJSON_GetObjectItem(coverage, "of")));
  }
  free(text);
  cJSON_Delete(options);
  cJSON_Delete(covered);
  return BFM_OK;
}

static int print_report(const Report *r, FILE *out) {
  const Learn *l = r->l;
  fprintf(out, "# %s in %g minutes\n\n", l->env, l->options.minutes);
  TRY(print_data(r, out));
  fprintf(out, ", %.1f minutes in all, on %ld cores%s.\n\n", learn_spent(l) / 60,
          sysconf(_SC_NPROCESSORS_ONLN), l->gpu ? " and a GPU" : "");
  if (*r->strip) {
    fprintf(out, "![an episode of %s](strip.png)\n\n", r->tasks.text[favourite(r)]);
  }
  if (r->tasks.count) print_table(r, out);
  else fputs("The robot has no tasks: type rewards, or write tasks into its description.\n", out);
  fprintf(out,
          "\nTry it:\n\n    bfm serve %s\n    bfm play %s --reward \"…\"%s -o film.mp4\n\n"
          "Continue: `bfm learn --resume --minutes %g -o %s`\n",
          r->model, r->model, r->best == BY_BEST ? " --es 32" : "", 2 * l->options.minutes,
          l->folder.path);
  return BFM_OK;
}

static int write_report(const Report *r) {
  char path[PATH_MAX], *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) return bfm_fail(BFM_NO_MEMORY, "out of memory for the report");
  int status = print_report(r, out);
  OutputFile file;
  learn_path(r->l, "report.md", path, sizeof path);
  if (fclose(out) && !status) status = bfm_fail(BFM_NO_MEMORY, "out of memory for the report");
  if (!status) status = output_open(&file, path);
  if (!status) status = output_write(&file, text, size);
  if (!status) status = output_commit(&file);
  if (!status && r->l->plan->say) r->l->plan->say(r->l->plan->context, text);
  free(text);
  return status;
}

// ---------------------------------- the stage ----------------------------------------------------

static int export_model(Report *r) {
  char name[96];
  snprintf(name, sizeof name, "%.*s.safetensors", (int)strcspn(r->l->env, "#"), r->l->env);
  learn_path(r->l, name, r->model, sizeof r->model);
  return bfm_agent_export(r->agent, 0, r->model, 0, 1, -1);
}

static int make_report(Report *r) {
  TRY(export_model(r));
  if (task_at(r->l->env, 0)) TRY(tasklist_parse(&r->tasks, r->l->env, "all"));
  size_t T = (size_t)r->tasks.count;
  r->returns = calloc(T * EPISODES + 1, sizeof *r->returns);
  r->mean = calloc(T * COLUMNS + 1, sizeof *r->mean);
  r->learner = calloc(T + 1, sizeof *r->learner);
  if (!r->returns || !r->mean || !r->learner) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %zu tasks", T);
  }
  if (T) {
    TRY(evaluate_all(r));
    choose_best(r);
    read_learners(r);
    TRY(draw(r));
  }
  return write_report(r);
}

int learn_report(Learn *l) {
  char path[PATH_MAX], options[512];
  Report r = {.l = l};
  learn_path(l, "model.safetensors", path, sizeof path);
  snprintf(options, sizeof options, "{\"device\": \"%.64s\", \"threads\": %d}", l->options.device,
           (int)l->options.threads);
  TRY(bfm_agent_load(&r.agent, path, options));
  int status = make_report(&r);
  bfm_agent_free(r.agent);
  tasklist_free(&r.tasks);
  free(r.returns);
  free(r.mean);
  free(r.learner);
  return status;
}
