// A client's worker. It opens plays, works out prompts, checks texts, draws ghosts and starts downloads;
// between them it looks whether a run has a newer model, and prompts a robot that nobody has told
// anything.

#define _GNU_SOURCE  // gettid
#include "serve/worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "core/deadline.h"
#include "core/units.h"
#include "serve/desk.h"
#include "serve/scene.h"
#include "serve/take.h"

enum { NICE = 1, LIMIT = 10 };  // below the stage's priority; seconds that a message may take

#define LOOK 0.25     // seconds between looks at what nobody asked for
#define SHARE 0.25    // of a core that messages may use in the long run, so that a client that
#define BURST 2.0     // prompts without pause slows no other; seconds that they may use at once,
#define DEBT 1.0      // and seconds of which one message pays no more
#define PATIENCE 0.5  // seconds without a prompt before the worker gives one itself

struct Worker {
  Board *board;
  Desk desk;
  pthread_t thread;
  int started;
  Take *take;  // the download that is being made, or NULL; set under the desk's lock

  // of the open play
  int index;             // of its model in the table
  const Model *model;    // the newest that is loaded, or NULL
  const Model *retired;  // an older one, which the play still acts with, or NULL
  int64_t unusable;      // a version that does not fit
  Poses poses;
  double opened;  // when; 0: somebody has prompted since
  double looked;  // when it last looked around

  double credit, counted;  // seconds of a core that messages may use now; when it was counted
};

// ---------------------------------- answers ------------------------------------------------------

static void refuse(Worker *w, const Message *m, int cancelled) {
  cJSON *answer = cJSON_CreateObject();
  cJSON_AddStringToObject(answer, "type", "refused");
  cJSON_AddNumberToObject(answer, "id", (double)m->id);
  if (m->say == SAY_PROMPT) cJSON_AddNumberToObject(answer, "slot", m->slot);
  ask_add_error(answer, m->say == SAY_PROMPT ? m->kind : -1);
  if (cancelled) cJSON_AddBoolToObject(answer, "cancelled", 1);
  outbox_text(w->board->outbox, answer);
}

// Whoever waits for an answer gets one; a check or a ghost that was cancelled has been replaced.
static void report_failure(Worker *w, const Message *m, int status) {
  int cancelled = status == BFM_INTERRUPTED && atomic_load(&w->desk.cancel);
  if (cancelled && m->say != SAY_PROMPT) return;
  if (status == BFM_INTERRUPTED && !cancelled) {
    bfm_fail(status, "the %s took longer than %d s", m->say == SAY_CHECK ? "check" : "prompt",
             LIMIT);
  }
  refuse(w, m, cancelled);
}

// ---------------------------------- opening ------------------------------------------------------

// take the play away from the stage, and free it
static void close_play(Worker *w) {
  Board *b = w->board;
  pthread_mutex_lock(&b->lock);
  Play *play = b->play;
  b->play = NULL;
  pthread_mutex_unlock(&b->lock);
  play_free(play);
  poses_free(&w->poses);
  if (w->retired) models_release(b->models, w->retired);
  if (w->model) models_release(b->models, w->model);
  w->model = w->retired = NULL;
}

static void describe_model(cJSON *scene, const Model *model) {
  const bfm_agent *a = model->agent;
  cJSON_AddNumberToObject(scene, "d", (double)a->d);
  cJSON *blocks = cJSON_AddArrayToObject(scene, "blocks");
  for (int64_t k = 0; k < a->K; k++) {
    int64_t size = block_start(k + 1, a->d, a->K) - block_start(k, a->d, a->K);
    cJSON_AddItemToArray(blocks, cJSON_CreateNumber((double)size));
  }
  cJSON_AddNumberToObject(scene, "members", a->M);
  cJSON_AddNumberToObject(scene, "gamma", a->config.gamma);
  cJSON_AddNumberToObject(scene, "prompt_states", (double)a->prompt.count);
}

// what the robots do until somebody tells them something: the domain's first task
static const Task *first_task(const Model *model) {
  return model->agent->prompt.count ? task_at(model->world->domain->name, 0) : NULL;
}

static cJSON *scene_of(Worker *w, const Message *m) {
  const World *world = w->model->world;
  const Task *task = first_task(w->model);
  cJSON *scene = cJSON_CreateObject();
  cJSON_AddStringToObject(scene, "type", "scene");
  cJSON_AddStringToObject(scene, "model", m->text);
  cJSON_AddStringToObject(scene, "domain", world->domain->name);
  cJSON_AddStringToObject(scene, "title", world->domain->help);
  cJSON_AddNumberToObject(scene, "seed", (double)m->seed);
  cJSON_AddNumberToObject(scene, "slots", m->slots);
  scene_describe(scene, &w->poses);
  describe_model(scene, w->model);
  scene_words(scene, world);
  cJSON *prompt = task ? cJSON_AddObjectToObject(scene, "prompt") : NULL;
  if (task) {
    cJSON_AddStringToObject(prompt, "kind", "reward");
    cJSON_AddStringToObject(prompt, "text", task->name);
  }
  return scene;
}

// Frames of the play before must not follow the new scene, so that the stage has no play meanwhile.
static int show_play(Worker *w, const Message *m, Play *play) {
  Board *b = w->board;
  TRY(poses_new(&w->poses, w->model->world));
  poses_set(&w->poses, play_qpos(play, 0));
  outbox_text(b->outbox, scene_of(w, m));
  TRY(scene_send_blobs(w->model->world, b->outbox));
  pthread_mutex_lock(&b->lock);
  b->play = play;
  b->opened++;
  pthread_mutex_unlock(&b->lock);
  w->opened = seconds_now();
  return BFM_OK;
}

static int open_play(Worker *w, const Message *m) {
  Board *b = w->board;
  const Model *model;
  Play *play;
  int index = models_find(b->models, m->text);
  if (index < 0) return bfm_fail(BFM_BAD_ARGUMENT, "there is no model \"%.64s\" here", m->text);
  TRY(models_acquire(b->models, index, &model));
  int status = play_new(&play, model, m->slots, (uint64_t)m->seed);
  if (status) {
    models_release(b->models, model);
    return status;
  }
  close_play(w);
  w->index = index;
  w->model = model;
  w->unusable = 0;
  status = show_play(w, m, play);
  if (!status) return BFM_OK;
  play_free(play);
  close_play(w);
  return status;
}

// ---------------------------------- prompts ------------------------------------------------------

static int check_slot(Worker *w, const Message *m) {
  Board *b = w->board;
  pthread_mutex_lock(&b->lock);
  int slots = b->play ? play_slots(b->play) : 0;
  pthread_mutex_unlock(&b->lock);
  if (!slots || !w->model) return bfm_fail(BFM_BAD_ARGUMENT, "open a model first");
  if (m->slot < slots) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "there are %d robots, so that \"slot\" cannot be %d", slots,
                  m->slot);
}

// the last seconds of a robot; of all robots, it is the first
static int copy_past(Worker *w, const Message *m, Rows *rows) {
  Board *b = w->board;
  pthread_mutex_lock(&b->lock);
  int status = past_copy(play_past(b->play, m->slot < 0 ? 0 : m->slot), m->seconds, rows);
  pthread_mutex_unlock(&b->lock);
  return status;
}

// hand a prompt to the robots that it is for
static void tell_robots(Worker *w, const Message *m, Ask *ask) {
  Play *play = w->board->play;
  pthread_mutex_lock(&w->board->lock);
  for (int i = 0; i < play_slots(play); i++) {
    if (m->slot < 0 || m->slot == i) play_ask(play, i, ask_share(ask), m->ramp);
  }
  pthread_mutex_unlock(&w->board->lock);
}

static int prompt(Worker *w, const Message *m) {
  Ask *ask;
  Rows rows = {.count = 0};
  w->opened = 0;
  TRY(check_slot(w, m));
  if (m->kind == PROMPT_DEMO) TRY(copy_past(w, m, &rows));
  int status = ask_new(&ask, w->model, m, rows.next_obs, rows.count);
  rows_free(&rows);
  TRY(status);
  tell_robots(w, m, ask);
  outbox_text(w->board->outbox, ask_prompted(ask, w->model->agent->d, w->model->world->model->nq));
  ask_release(ask);
  return BFM_OK;
}

static int check(Worker *w, const Message *m) {
  cJSON *checked;
  if (!w->model) return bfm_fail(BFM_BAD_ARGUMENT, "open a model first");
  TRY(ask_check(w->model, m, &checked));
  outbox_text(w->board->outbox, checked);
  return BFM_OK;
}

static int ghost(Worker *w, const Message *m) {
  enum { HEAD = 8, KIND_GHOST = 4 };
  if (!m->on) return BFM_OK;
  if (!w->model) return bfm_fail(BFM_BAD_ARGUMENT, "open a model first");
  const World *world = w->model->world;
  if (m->count != world->model->nq) {
    return bfm_fail(BFM_BAD_ARGUMENT, "qpos has %d numbers, but %s has %d", m->count,
                    world->domain->name, (int)world->model->nq);
  }
  unsigned char *message = calloc(1, HEAD + poses_bytes(world));
  if (!message) return bfm_fail(BFM_NO_MEMORY, "out of memory for a ghost");
  message[0] = KIND_GHOST;
  put_u32(message + 4, (uint32_t)m->id);
  poses_set(&w->poses, m->numbers);
  unsigned char *end = poses_put_bodies(&w->poses, message + HEAD);
  outbox_blob(w->board->outbox, message, (size_t)(end - message));
  free(message);
  return BFM_OK;
}

// ---------------------------------- downloads ----------------------------------------------------

static void end_take(Worker *w) {
  Take *take = w->take;
  if (!take || !take_ended(take)) return;
  pthread_mutex_lock(&w->desk.lock);
  w->take = NULL;
  pthread_mutex_unlock(&w->desk.lock);
  take_free(take);
}

static int begin_take(Worker *w, const Message *m) {
  Board *b = w->board;
  TakePlan plan = {.said = *m, .outbox = b->outbox, .world = w->model ? w->model->world : NULL};
  end_take(w);
  if (w->take) return bfm_fail(BFM_BAD_ARGUMENT, "another download is being made");
  TRY(check_slot(w, m));
  TRY(bfm_agent_fingerprint(w->model->agent, 0, plan.fingerprint));
  snprintf(plan.path, sizeof plan.path, "%s", models_path(b->models, w->index));
  plan.d = w->model->agent->d;
  if (m->kind != TAKE_Z) TRY(copy_past(w, m, &plan.rows));
  pthread_mutex_lock(&b->lock);
  plan.ask = ask_share((Ask *)play_asked(b->play, m->slot));
  pthread_mutex_unlock(&b->lock);
  Take *take;
  TRY(take_new(&take, &plan));
  pthread_mutex_lock(&w->desk.lock);
  w->take = take;
  pthread_mutex_unlock(&w->desk.lock);
  return BFM_OK;
}

static void cancel_take(Worker *w, int64_t id) {
  pthread_mutex_lock(&w->desk.lock);
  if (w->take) take_cancel(w->take, id);
  pthread_mutex_unlock(&w->desk.lock);
}

// ---------------------------------- what nobody asked for ----------------------------------------

static void prompt_first(Worker *w) {
  if (!w->opened || seconds_now() - w->opened < PATIENCE) return;
  const Task *task = first_task(w->model);
  Message said = {.say = SAY_PROMPT, .kind = PROMPT_REWARD, .slot = -1};
  w->opened = 0;
  if (!task) return;
  snprintf(said.text, sizeof said.text, "%s", task->name);
  desk_offer(&w->desk, &said);
}

static void release_retired(Worker *w) {
  if (!w->retired) return;
  pthread_mutex_lock(&w->board->lock);
  int used = play_model(w->board->play) == w->retired;
  pthread_mutex_unlock(&w->board->lock);
  if (used) return;
  models_release(w->board->models, w->retired);
  w->retired = NULL;
}

static int fits(const Model *a, const Model *b) {
  return a->world == b->world && a->agent->d == b->agent->d && a->agent->M == b->agent->M &&
         a->agent->K == b->agent->K;
}

// what the robots were told, worked out for a newer model; NULL where it refuses the prompt
static void ask_again_all(const Model *model, int slots, Ask *const *old, Ask **asks) {
  for (int i = 0; i < slots; i++) {
    int same = 0;
    while (same < i && old[same] != old[i]) same++;
    if (same < i) asks[i] = ask_share(asks[same]);
    else if (old[i] && ask_again(&asks[i], model, old[i])) asks[i] = NULL;
  }
}

// Prompt a newer model with what the robots were told, and give both to the robots in one step.
static void switch_model(Worker *w, const Model *model) {
  Board *b = w->board;
  Ask *asks[SLOTS_MAX] = {NULL}, *old[SLOTS_MAX] = {NULL};
  int slots = play_slots(b->play);
  pthread_mutex_lock(&b->lock);
  for (int i = 0; i < slots; i++) old[i] = ask_share((Ask *)play_asked(b->play, i));
  pthread_mutex_unlock(&b->lock);
  ask_again_all(model, slots, old, asks);
  pthread_mutex_lock(&b->lock);
  play_model_set(b->play, model);
  for (int i = 0; i < slots; i++) {
    if (asks[i]) play_ask(b->play, i, asks[i], 0);
  }
  int used = play_model(b->play) == w->model;
  pthread_mutex_unlock(&b->lock);
  for (int i = 0; i < slots; i++) ask_release(old[i]);
  if (used) w->retired = w->model;
  else models_release(b->models, w->model);
  w->model = model;
}

static void look_for_newer(Worker *w) {
  Models *models = w->board->models;
  const Model *model;
  if (!w->model) return;
  int64_t version = models_version(models, w->index);
  if (version == w->model->version || version == w->unusable) return;
  if (models_acquire(models, w->index, &model)) {
    w->unusable = version;
  } else if (model->version == w->model->version || !fits(model, w->model)) {
    w->unusable = version;
    models_release(models, model);
  } else {
    switch_model(w, model);
  }
}

// ---------------------------------- the thread ---------------------------------------------------

static int work(Worker *w, const Message *m) {
  switch (m->say) {
    case SAY_OPEN: return open_play(w, m);
    case SAY_PROMPT: return prompt(w, m);
    case SAY_CHECK: return check(w, m);
    case SAY_GHOST: return ghost(w, m);
    case SAY_TAKE: return begin_take(w, m);
    default: return BFM_OK;
  }
}

static void work_on(Worker *w, const Message *m) {
  Deadline deadline = {.cancel = &w->desk.cancel, .seconds = LIMIT};
  deadline_set(&deadline);
  int status = work(w, m);
  if (status) report_failure(w, m, status);
  desk_done(&w->desk);
  deadline_set(NULL);
}

// now and then, also for a client that never rests
static void look_around(Worker *w) {
  if (seconds_now() - w->looked < LOOK) return;
  Deadline deadline = {.cancel = &w->desk.cancel, .seconds = LIMIT};
  deadline_set(&deadline);
  prompt_first(w);
  look_for_newer(w);
  release_retired(w);
  end_take(w);
  deadline_set(NULL);
  w->looked = seconds_now();
}

// Of messages that come faster than this, the latest win, as always.
static void earn(Worker *w) {
  double now = seconds_now();
  w->credit = fmin(BURST, w->credit + SHARE * (now - w->counted));
  w->counted = now;
}

// by this thread; on a busy machine it is less than the time that passes
static double seconds_used(void) {
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void spend(Worker *w, const Message *m) {
  double start = seconds_used();
  work_on(w, m);
  w->credit = fmax(-DEBT, w->credit - (seconds_used() - start));
  earn(w);
  if (w->credit < 0) desk_rest(&w->desk, -w->credit / SHARE);
}

static void *run(void *context) {
  Worker *w = context;
  int nice = getpriority(PRIO_PROCESS, (id_t)gettid());
  setpriority(PRIO_PROCESS, (id_t)gettid(), nice + NICE);
  while (!desk_stopped(&w->desk)) {
    const Message *m = desk_take(&w->desk, LOOK);
    earn(w);
    if (m) spend(w, m);
    look_around(w);
  }
  return NULL;
}

int worker_new(Worker **out, Board *board) {
  Worker *w = *out = calloc(1, sizeof *w);
  if (!w) return bfm_fail(BFM_NO_MEMORY, "out of memory for a worker");
  w->board = board;
  w->credit = BURST;
  w->counted = seconds_now();
  desk_init(&w->desk, board->outbox);
  if (!pthread_create(&w->thread, NULL, run, w)) {
    w->started = 1;
    return BFM_OK;
  }
  worker_free(w);
  *out = NULL;
  return bfm_fail(BFM_UNAVAILABLE, "cannot start a thread for a client");
}

void worker_tell(Worker *w, const Message *m) {
  if (m->say != SAY_CANCEL) desk_put(&w->desk, m);
  else if (!desk_cancel(&w->desk, m->id)) cancel_take(w, m->id);
}

void worker_free(Worker *w) {
  if (!w) return;
  desk_stop(&w->desk);
  if (w->started) pthread_join(w->thread, NULL);
  if (w->take) take_free(w->take);
  close_play(w);
  desk_destroy(&w->desk);
  free(w);
}
