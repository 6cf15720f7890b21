// The loop of a collection. In each control step all environments are simulated on all cores while
// a GPU makes the learners' updates of that step. Rows wait until their episode ends (episodes.c).

#include "collect/collection.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "core/units.h"

#define FLUSH_SECONDS 2.0  // between writes to the file
#define PIECE_SECONDS 4.0  // after which a write includes rows of unfinished episodes
#define SAVE_FIRST 5.0     // seconds to the first save of the learners; the pause then doubles
#define SAVE_SECONDS 60.0  // up to this
#define IDLE_MAX 100       // control steps in which every simulation diverges

// ---------------------------------- one control step ---------------------------------------------

// cut the learners' first episodes at different times: else all later ones would end together
static void stagger(Collection *c) {
  int64_t length = c->sizes.episode_steps, done = c->at + 1 - c->began;
  if (!c->crew.learner || done >= length) return;
  for (int i = 0; i < c->n; i++) {
    int64_t turn = length - i % c->crew.envs * length / c->crew.envs;
    if (done == turn && !c->moment.ended[i]) c->moment.ended[i] = BFM_END_TIME_LIMIT;
  }
}

// policies get equal shares of the rows, also where a kill or a divergence lost rows of one
static int has_room(const Collection *c, int agent) {
  int64_t agents = c->crew.agents, steps = c->options.steps;
  int64_t share = c->crew.kind->policies ? steps / agents + (agent < steps % agents) : steps;
  return c->rows < steps && c->rows_of[agent] < share;
}

static int put_row(Collection *c, int i, int64_t number, double now) {
  int agent = i / c->crew.envs;
  // a diverged step has no successor state: the episode ends with the row before
  if (c->moment.ended[i] == BFM_END_DIVERGED || !has_room(c, agent)) return BFM_OK;
  Label label = {agent, c->crew.task_numbers[agent], number};
  c->rows++;
  c->rows_of[agent]++;
  return episodes_put(c->waiting, c->writer, &c->moment, i, label, now);
}

// a robot whose simulations always diverge would never fill the file
static int check_progress(Collection *c) {
  int diverged = 0;
  for (int i = 0; i < c->n; i++) diverged += c->moment.ended[i] == BFM_END_DIVERGED;
  c->idle = diverged == c->n ? c->idle + 1 : 0;
  if (c->idle < IDLE_MAX) return BFM_OK;
  return bfm_fail(BFM_DIVERGED,
                  "all simulations of %s diverge at once: check its initial states, timestep and "
                  "controls",
                  c->crew.env_name);
}

static int step(Collection *c) {
  Moment *m = &c->moment;
  bfm_env_state(c->env, m->qpos, m->qvel, m->act_state);
  TRY(crew_act(&c->crew, m->obs, 1, c->at, m->actions));
  TRY(crew_learn(&c->crew, c->at));
  TRY(crew_simulate(&c->crew, c->env, m->actions, m->rewards));
  bfm_env_obs(c->env, m->next_obs);
  bfm_env_end_reasons(c->env, m->ended);
  TRY(check_progress(c));
  stagger(c);

  double now = seconds_now();
  int any = 0;
  for (int i = 0; i < c->n; i++) {
    int64_t number = c->at * c->n + i;
    TRY(put_row(c, i, number, now));
    if (!m->ended[i]) continue;
    TRY(episodes_write(c->waiting, c->writer, i));
    episodes_begin(c->waiting, i, number + c->n);
    c->episodes++;
    any = 1;
  }
  TRY(crew_add(&c->crew, m));
  c->at++;
  if (any) TRY(bfm_env_reset(c->env, m->ended));
  bfm_env_obs(c->env, m->obs);
  return BFM_OK;
}

// ---------------------------------- the run ------------------------------------------------------

static int flush(Collection *c, double since) {
  TRY(episodes_write_old(c->waiting, c->writer, since));
  TRY(writer_flush(c->writer));
  return report_check_learners(c);
}

// whether the run ends before it has all planned transitions
static int ends_early(const Collection *c) { return c->timed_out || report_reached(c); }

static int is_done(const Collection *c) { return c->rows >= c->options.steps || ends_early(c); }

static int collect(Collection *c) {
  double flushed = c->start, saved = c->start, pause = SAVE_FIRST;
  if (c->rows && c->reported < 0) TRY(report(c));
  int64_t due = report_due(c);
  while (!is_done(c) && !c->monitor.stopped) {
    TRY(step(c));
    if (c->rows >= due) {
      TRY(report(c));
      due = report_due(c);
    }
    double now = seconds_now(), limit = 60 * c->options.minutes;
    c->timed_out = limit > 0 && now - c->start >= limit;
    if (now - flushed > FLUSH_SECONDS) {
      TRY(flush(c, c->options.whole_episodes ? -INFINITY : now - PIECE_SECONDS));
      flushed = now;
    }
    if (now - saved > pause) {
      TRY(crew_save(&c->crew, c->plan.path));
      saved = now;
      pause = fmin(2 * pause, SAVE_SECONDS);
    }
    monitor_update(&c->monitor, c->rows, c->note);
  }
  if (c->monitor.stopped || c->reported == c->rows) return BFM_OK;
  return report(c);
}

// the run ends with fewer rows than planned: the file must not promise more rows than it has
static int shorten(Collection *c) {
  int count;
  const Table *tables = episodes_tables(c->waiting, &count);
  Writer *writer;
  TRY(writer_resume(&writer, c->plan.path, tables, count, c->rows));
  return writer_close(writer);
}

static int finish(Collection *c) {
  Writer *writer = c->writer;
  TRY(episodes_write_old(c->waiting, writer, INFINITY));
  c->writer = NULL;
  TRY(writer_close(writer));
  return ends_early(c) && c->rows < c->options.steps ? shorten(c) : BFM_OK;
}

// keep the data, if there are any, and the learners' last save from before they diverged
static int finish_diverged(Collection *c) {
  char why[512];
  snprintf(why, sizeof why, "%s", bfm_error());
  TRY(finish(c));
  if (!c->rows) {
    unlink(c->plan.path);
    return bfm_fail(BFM_DIVERGED, "%s", why);
  }
  return bfm_fail(BFM_DIVERGED, "%s; the %" PRId64 " transitions collected before are in %s", why,
                  c->rows, c->plan.path);
}

int collection_loop(Collection *c) {
  if (c->rows < c->options.steps) TRY(crew_read_levels(&c->crew, c->plan.path));
  TRY(report_open(c));
  const char *stage = c->crew.learner && c->crew.kind->levels ? "train" : "collect";
  c->start = seconds_now();
  monitor_limit(&c->monitor, 60 * c->options.minutes);
  monitor_begin(&c->monitor, stage, "transitions", c->rows, c->options.steps);
  int status = collect(c);
  if (!status) monitor_end(&c->monitor, c->rows, c->note);
  c->seconds = seconds_now() - c->start;

  if (status == BFM_DIVERGED) return finish_diverged(c);
  TRY(status);
  TRY(finish(c));
  TRY(crew_save(&c->crew, c->plan.path));
  if (is_done(c)) return BFM_OK;
  return bfm_fail(BFM_INTERRUPTED,
                  "stopped at transition %" PRId64 " of %" PRId64
                  "; continue with bfm collect --resume -o %s",
                  c->rows, c->options.steps, c->plan.path);
}
