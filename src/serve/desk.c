// What waits for a worker.

#include "serve/desk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void desk_init(Desk *desk, Outbox *outbox) {
  pthread_condattr_t clock;
  memset(desk, 0, sizeof *desk);
  desk->outbox = outbox;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_mutex_init(&desk->lock, NULL);
  pthread_cond_init(&desk->changed, &clock);
  pthread_condattr_destroy(&clock);
}

void desk_destroy(Desk *desk) {
  for (int i = 0; i < DESK_PLACES; i++) free(desk->waiting[i]);
  pthread_cond_destroy(&desk->changed);
  pthread_mutex_destroy(&desk->lock);
}

static int place_of(const Message *m) {
  switch (m->say) {
    case SAY_OPEN: return DESK_OPEN;
    case SAY_PROMPT: return m->slot < 0 ? DESK_ALL : DESK_SLOT + m->slot % SLOTS_MAX;
    case SAY_GHOST: return DESK_GHOST;
    case SAY_CHECK: return DESK_CHECK;
    default: return DESK_TAKE;
  }
}

// Whoever asked for a prompt or a download waits for an answer; of checks and ghosts only the latest
// counts.
static void refuse(const Desk *desk, const Message *m, const char *why) {
  if (m->say != SAY_PROMPT && m->say != SAY_TAKE) return;
  cJSON *answer = cJSON_CreateObject();
  cJSON_AddStringToObject(answer, "type", "refused");
  cJSON_AddNumberToObject(answer, "id", (double)m->id);
  if (m->say == SAY_PROMPT) cJSON_AddNumberToObject(answer, "slot", m->slot);
  cJSON_AddStringToObject(answer, "error", why);
  cJSON_AddBoolToObject(answer, "cancelled", 1);
  outbox_text(desk->outbox, answer);
}

static void drop(Desk *desk, int place, const char *why) {
  if (!desk->waiting[place]) return;
  refuse(desk, desk->waiting[place], why);
  free(desk->waiting[place]);
  desk->waiting[place] = NULL;
}

// whether a message at this place makes one at another needless
static int replaces(int place, int other) {
  int prompts = other >= DESK_ALL && other < DESK_GHOST;
  if (place == DESK_OPEN) return other != DESK_TAKE;
  return place == other || (place == DESK_ALL && prompts);
}

static void put(Desk *desk, const Message *message) {
  int place = place_of(message);
  Message *copy = malloc(sizeof *copy);
  if (copy) memcpy(copy, message, sizeof *copy);
  for (int i = 0; i < DESK_PLACES; i++) {
    if (replaces(place, i)) drop(desk, i, "a newer one took its place");
  }
  if (desk->running && desk->running->say != SAY_OPEN && replaces(place, desk->running_place)) {
    atomic_store(&desk->cancel, 1);
  }
  desk->waiting[place] = copy;
  pthread_cond_signal(&desk->changed);
}

void desk_put(Desk *desk, const Message *message) {
  pthread_mutex_lock(&desk->lock);
  put(desk, message);
  pthread_mutex_unlock(&desk->lock);
}

static int first_place(const Desk *desk) {
  for (int i = 0; i < DESK_PLACES; i++) {
    if (desk->waiting[i]) return i;
  }
  return -1;
}

void desk_offer(Desk *desk, const Message *message) {
  pthread_mutex_lock(&desk->lock);
  if (first_place(desk) < 0) put(desk, message);
  pthread_mutex_unlock(&desk->lock);
}

int desk_cancel(Desk *desk, int64_t id) {
  int found = 0;
  pthread_mutex_lock(&desk->lock);
  for (int i = 0; i < DESK_PLACES; i++) {
    if (!desk->waiting[i] || desk->waiting[i]->id != id) continue;
    drop(desk, i, "cancelled");
    found = 1;
  }
  if (desk->running && desk->running->id == id) {
    atomic_store(&desk->cancel, 1);
    found = 1;
  }
  pthread_mutex_unlock(&desk->lock);
  return found;
}

void desk_stop(Desk *desk) {
  pthread_mutex_lock(&desk->lock);
  desk->stop = 1;
  atomic_store(&desk->cancel, 1);
  pthread_cond_signal(&desk->changed);
  pthread_mutex_unlock(&desk->lock);
}

int desk_stopped(Desk *desk) {
  pthread_mutex_lock(&desk->lock);
  int stop = desk->stop;
  pthread_mutex_unlock(&desk->lock);
  return stop;
}

// ---------------------------------- the worker's side --------------------------------------------

static struct timespec moment_after(double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  double whole = floor(seconds);
  until.tv_sec += (time_t)whole;
  until.tv_nsec += (long)((seconds - whole) * 1e9);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return until;
}

void desk_rest(Desk *desk, double seconds) {
  struct timespec until = moment_after(seconds);
  pthread_mutex_lock(&desk->lock);
  while (!desk->stop && !pthread_cond_timedwait(&desk->changed, &desk->lock, &until)) continue;
  pthread_mutex_unlock(&desk->lock);
}

const Message *desk_take(Desk *desk, double seconds) {
  struct timespec until = moment_after(seconds);
  pthread_mutex_lock(&desk->lock);
  while (!desk->stop && first_place(desk) < 0) {
    if (pthread_cond_timedwait(&desk->changed, &desk->lock, &until)) break;
  }
  int place = desk->stop ? -1 : first_place(desk);
  if (place >= 0) {
    desk->running = desk->waiting[place];
    desk->running_place = place;
    desk->waiting[place] = NULL;
    atomic_store(&desk->cancel, 0);
  }
  pthread_mutex_unlock(&desk->lock);
  return place < 0 ? NULL : desk->running;
}

void desk_done(Desk *desk) {
  pthread_mutex_lock(&desk->lock);
  free(desk->running);
  desk->running = NULL;
  if (!desk->stop) atomic_store(&desk->cancel, 0);
  pthread_mutex_unlock(&desk->lock);
}
