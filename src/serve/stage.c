// A client's stage: the thread that simulates its robots in real time. Sixty times a second it takes over
// what the client wants, simulates what has become due, and offers a frame. Messages only change a few
// numbers, so that whoever hands them over never waits for the simulation.

#include "serve/stage.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "agent/workspace.h"
#include "core/units.h"
#include "serve/board.h"
#include "serve/worker.h"

#define TICK (1.0 / 60)
#define CATCH_UP 0.1     // seconds of a stall that are simulated afterwards, at most
#define BUDGET 0.025     // seconds of real time in which a tick simulates
#define REST 0.001       // seconds that are left to other threads after a tick that came late
#define STATS_EVERY 0.1  // seconds
#define DRAG_LASTS 1.0   // seconds after its last renewal

// what the client wants, apart from prompts
typedef struct {
  int paused, steps;  // steps: single ones that are still to be done
  int resets;         // 1 + ResetKind, or 0
  double speed;
  int es;
  double noise;
  int drag_slot;
  Drag drag;
  double dragged;  // when the drag was renewed
  Push push[SLOTS_MAX];
} Controls;

struct Stage {
  Board board;
  Worker *worker;
  pthread_t thread;
  int started;
  atomic_int stop;
  pthread_mutex_t lock;  // of controls
  Controls controls;

  // of the stage's thread
  int shown;               // the number of the play that what follows is of
  unsigned char *frame;    // room for one
  double ticked, told;     // when the last tick and the last stats were
  double simulated, rate;  // at the last stats; simulated seconds per second
};

static const Controls at_first = {.speed = 1};

// ---------------------------------- a tick -------------------------------------------------------

// what is wanted now; what is wanted once is taken away
static Controls take_controls(Stage *stage) {
  pthread_mutex_lock(&stage->lock);
  Controls *c = &stage->controls, taken = *c;
  c->steps = c->resets = 0;
  for (int i = 0; i < SLOTS_MAX; i++) c->push[i].body = 0;
  pthread_mutex_unlock(&stage->lock);
  return taken;
}

static void apply(Play *play, const Controls *c, double now) {
  static const Drag none = {.body = 0};
  int dragging = c->drag.body && now - c->dragged < DRAG_LASTS;
  play_act(play, c->es, c->noise);
  if (c->resets) play_reset(play, c->resets - 1);
  for (int i = 0; i < play_slots(play); i++) {
    play_drag(play, i, dragging && c->drag_slot == i ? &c->drag : &none);
    if (c->push[i].body) play_push(play, i, &c->push[i]);
  }
}

// another play: its numbers begin anew
static int show(Stage *stage, const Board *b) {
  if (stage->shown == b->opened) return BFM_OK;
  free(stage->frame);
  stage->frame = malloc(play_frame_bytes(b->play));
  if (!stage->frame) return bfm_fail(BFM_NO_MEMORY, "out of memory for a frame");
  stage->shown = b->opened;
  stage->simulated = play_time(b->play);
  stage->rate = 0;
  return BFM_OK;
}

static void tell_stats(Stage *stage, Play *play, int paused, double now) {
  double elapsed = now - stage->told, rate = (play_time(play) - stage->simulated) / elapsed;
  if (elapsed < STATS_EVERY) return;
  stage->rate = paused ? 0 : stage->rate > 0 ? 0.7 * stage->rate + 0.3 * rate : rate;
  stage->simulated = play_time(play);
  stage->told = now;
  cJSON *stats = cJSON_CreateObject();
  cJSON_AddStringToObject(stats, "type", "stats");
  cJSON_AddNumberToObject(stats, "time", round(play_stepped(play) * 1e6) / 1e6);
  cJSON_AddNumberToObject(stats, "rate", round(stage->rate * 1e3) / 1e3);
  cJSON_AddBoolToObject(stats, "paused", paused);
  cJSON_AddItemToObject(stats, "slots", play_stats(play));
  outbox_text(stage->board.outbox, stats);
}

static void tick(Stage *stage) {
  Board *b = &stage->board;
  double now = seconds_now(), elapsed = fmin(now - stage->ticked, CATCH_UP);
  stage->ticked = now;
  pthread_mutex_lock(&b->lock);
  Play *play = b->play;
  if (play && !show(stage, b)) {
    Controls c = take_controls(stage);
    apply(play, &c, now);
    if (!c.paused) play_advance(play, c.speed * elapsed, BUDGET);
    for (int i = 0; i < c.steps && c.paused; i++) play_step(play);
    outbox_frame(b->outbox, stage->frame, play_frame(play, stage->frame));
    tell_stats(stage, play, c.paused, now);
  }
  pthread_mutex_unlock(&b->lock);
}

static void sleep_until(double seconds) {
  struct timespec until = {.tv_sec = (time_t)seconds};
  until.tv_nsec = (long)((seconds - (double)until.tv_sec) * 1e9);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) continue;
}

static void *run(void *context) {
  Stage *stage = context;
  workspace_spare_threads(1);
  double next = stage->ticked = stage->told = seconds_now();
  while (!atomic_load(&stage->stop)) {
    tick(stage);
    // after a late tick the next ones come sooner, but a stall is not made up for
    next = fmax(next + TICK, seconds_now() - CATCH_UP);
    sleep_until(fmax(next, seconds_now() + REST));
  }
  return NULL;
}

// ---------------------------------- messages -----------------------------------------------------

static int finite3(const double x[3]) { return isfinite(x[0]) && isfinite(x[1]) && isfinite(x[2]); }

static void take_vector(double to[3], const double from[3]) {
  for (int i = 0; i < 3; i++) to[i] = from[i];
}

static void want_drag(Controls *c, const Message *m) {
  if (!finite3(m->at) || !finite3(m->to)) return;
  c->drag_slot = m->slot;
  c->dragged = seconds_now();
  c->drag.body = m->body;
  take_vector(c->drag.at, m->at);
  take_vector(c->drag.to, m->to);
}

static void want_push(Controls *c, const Message *m) {
  if (!finite3(m->at) || !finite3(m->to) || m->slot < 0 || m->slot >= SLOTS_MAX) return;
  Push *push = &c->push[m->slot];
  push->body = m->body;
  take_vector(push->at, m->at);
  take_vector(push->impulse, m->to);
}

static void want(Controls *c, const Message *m) {
  enum { STEPS_MOST = 100, ES_MOST = 256 };
  switch (m->say) {
    case SAY_OPEN: *c = at_first; break;
    case SAY_PAUSE: c->paused = m->on; break;
    case SAY_STEP: c->steps += c->steps < STEPS_MOST; break;
    case SAY_RESET: c->resets = 1 + m->kind; break;
    case SAY_SPEED: c->speed = fmin(fmax(m->factor, 0.1), 4); break;
    case SAY_ACT:
      c->es = m->es < 0 ? 0 : m->es > ES_MOST ? ES_MOST : m->es;
      c->noise = fmin(fmax(m->noise, 0), 1);
      break;
    case SAY_DRAG: want_drag(c, m); break;
    case SAY_RELEASE: c->drag.body = 0; break;
    case SAY_PUSH: want_push(c, m); break;
    default: break;
  }
}

void stage_tell(Stage *stage, const Message *m) {
  pthread_mutex_lock(&stage->lock);
  want(&stage->controls, m);
  pthread_mutex_unlock(&stage->lock);
  switch (m->say) {
    case SAY_OPEN:
    case SAY_CHECK:
    case SAY_PROMPT:
    case SAY_GHOST:
    case SAY_TAKE:
    case SAY_CANCEL: worker_tell(stage->worker, m); break;
    default: break;
  }
}

// ---------------------------------- life ---------------------------------------------------------

int stage_new(Stage **out, Models *models, Outbox *outbox) {
  Stage *stage = *out = calloc(1, sizeof *stage);
  if (!stage) return bfm_fail(BFM_NO_MEMORY, "out of memory for a stage");
  stage->board = (Board){.models = models, .outbox = outbox};
  stage->controls = at_first;
  pthread_mutex_init(&stage->board.lock, NULL);
  pthread_mutex_init(&stage->lock, NULL);
  int status = worker_new(&stage->worker, &stage->board);
  if (!status) {
    stage->started = !pthread_create(&stage->thread, NULL, run, stage);
    if (stage->started) return BFM_OK;
    status = bfm_fail(BFM_UNAVAILABLE, "cannot start a thread for a client");
  }
  stage_free(stage);
  *out = NULL;
  return status;
}

void stage_free(Stage *stage) {
  if (!stage) return;
  atomic_store(&stage->stop, 1);
  if (stage->started) pthread_join(stage->thread, NULL);
  worker_free(stage->worker);
  pthread_mutex_destroy(&stage->lock);
  pthread_mutex_destroy(&stage->board.lock);
  free(stage->frame);
  free(stage);
}
