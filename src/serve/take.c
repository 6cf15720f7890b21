// Downloads. Film and trajectory are written to a file in a folder of their own and sent in pieces,
// which wait when the client is slow.

#define _GNU_SOURCE  // gettid
#include "serve/take.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/units.h"
#include "data/parts.h"
#include "prompt/prompt.h"
#include "view/film.h"

enum { NICE = 10, KIND_PIECE = 3, HEAD = 8, NAME_MOST = 40, WIDTH = 640, HEIGHT = 480 };

#define PROGRESS 0.2  // seconds between messages

struct Take {
  TakePlan plan;
  const World *world;
  pthread_t thread;
  int cancel, ended;  // atomic
  double told;        // seconds: the last message `progress`
  int64_t bytes;      // sent so far
};

// ---------------------------------- messages -----------------------------------------------------

static cJSON *message_new(const Take *take, const char *type) {
  cJSON *message = cJSON_CreateObject();
  cJSON_AddStringToObject(message, "type", type);
  cJSON_AddNumberToObject(message, "id", (double)take->plan.said.id);
  return message;
}

static int is_cancelled(const Take *take) {
  return __atomic_load_n(&take->cancel, __ATOMIC_ACQUIRE);
}

static int tell_progress(void *context, int64_t done, int64_t total) {
  Take *take = context;
  if (seconds_now() - take->told < PROGRESS && done < total) return is_cancelled(take);
  take->told = seconds_now();
  cJSON *message = message_new(take, "progress");
  cJSON_AddNumberToObject(message, "done", (double)done);
  cJSON_AddNumberToObject(message, "total", (double)total);
  outbox_text(take->plan.outbox, message);
  return is_cancelled(take);
}

// "upright * (speed > 2)" as upright-speed-2; a prompt without words gets the domain's name
static void name_of(const Take *take, const char *suffix, char *out, size_t size) {
  const Ask *ask = take->plan.ask;
  char slug[NAME_MOST + 1];
  int n = 0;
  for (const char *c = ask ? ask->said.text : ""; *c && n < NAME_MOST; c++) {
    if (isalnum((unsigned char)*c) || *c == '_') slug[n++] = *c;
    else if (n && slug[n - 1] != '-') slug[n++] = '-';
  }
  while (n && slug[n - 1] == '-') n--;
  slug[n] = 0;
  snprintf(out, size, "%s%s", n ? slug : take->world->domain->name, suffix);
}

// Once the client hears that a download is done, it may ask for the next one.
static void tell_last(Take *take, cJSON *message) {
  __atomic_store_n(&take->ended, 1, __ATOMIC_RELEASE);
  outbox_text(take->plan.outbox, message);
}

static void tell_taken(Take *take, const char *suffix, const char *mime) {
  char name[NAME_MOST + 32];
  name_of(take, suffix, name, sizeof name);
  cJSON *message = message_new(take, "taken");
  cJSON_AddStringToObject(message, "name", name);
  cJSON_AddNumberToObject(message, "bytes", (double)take->bytes);
  cJSON_AddStringToObject(message, "mime", mime);
  tell_last(take, message);
}

static int send_piece(Take *take, unsigned char *message, size_t size, int last) {
  uint32_t id = (uint32_t)take->plan.said.id;
  memset(message, 0, HEAD);
  message[0] = KIND_PIECE;
  message[1] = (unsigned char)last;
  memcpy(message + 4, &id, sizeof id);
  take->bytes += (int64_t)size;
  return outbox_piece(take->plan.outbox, message, HEAD + size, &take->cancel);
}

// ---------------------------------- files --------------------------------------------------------

static int send_open_file(Take *take, int fd, int64_t size) {
  unsigned char *message = malloc(OUTBOX_PIECE);
  if (!message) return bfm_fail(BFM_NO_MEMORY, "out of memory for a download");
  int status = size ? BFM_OK : send_piece(take, message, 0, 1);
  while (size > 0 && !status) {
    size_t want = size < OUTBOX_PIECE - HEAD ? (size_t)size : OUTBOX_PIECE - HEAD;
    ssize_t n = read(fd, message + HEAD, want);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      status = bfm_fail(BFM_IO, "cannot read the download back: %s", strerror(n ? errno : EIO));
      break;
    }
    size -= n;
    status = send_piece(take, message, (size_t)n, size == 0);
  }
  free(message);
  return status;
}

// send a file and remove it
static int send_file(Take *take, const char *path) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  unlink(path);
  if (fd < 0 || fstat(fd, &info)) {
    if (fd >= 0) close(fd);
    return bfm_fail(BFM_IO, "cannot read the download back: %s", strerror(errno));
  }
  int status = send_open_file(take, fd, info.st_size);
  close(fd);
  return status;
}

// call `make` with a path in a new folder, and send what it wrote there
static int by_file(Take *take, const char *name, int (*make)(Take *take, const char *path)) {
  const char *place = getenv("TMPDIR");
  char folder[PATH_MAX - 64], path[PATH_MAX];
  snprintf(folder, sizeof folder, "%s/bfm-XXXXXX", place && *place ? place : "/tmp");
  if (!mkdtemp(folder)) {
    return bfm_fail(BFM_IO, "cannot make a folder for a download: %s", strerror(errno));
  }
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int status = make(take, path);
  if (!status) status = send_file(take, path);
  rmdir(folder);
  return status;
}

// ---------------------------------- film ---------------------------------------------------------

// One film is drawn at a time: the renderer lets only one thread draw, and a film takes hundreds of
// megabytes.
static int drawing;

static int draw_in_turn(Take *take, const Film *film, const char *path) {
  while (__atomic_exchange_n(&drawing, 1, __ATOMIC_ACQUIRE)) {
    if (tell_progress(take, 0, 1)) return bfm_fail(BFM_INTERRUPTED, "the film was cancelled");
    usleep(50 * 1000);
  }
  int status = film_mp4(film, path);
  __atomic_store_n(&drawing, 0, __ATOMIC_RELEASE);
  return status;
}

// the states are those before the steps, then the last one
static int draw(Take *take, const char *path) {
  const Rows *rows = &take->plan.rows;
  const World *world = take->world;
  const Ask *ask = take->plan.ask;
  int64_t nq = world->model->nq, count = rows->count + 1;
  double *qpos = malloc((size_t)(count * (nq + 1)) * sizeof *qpos);
  if (!qpos) return bfm_fail(BFM_NO_MEMORY, "out of memory for a film");
  double *rewards = qpos + count * nq;
  mju_copy(qpos, rows->qpos, (int)(rows->count * nq));
  mju_copy(qpos + rows->count * nq, rows->next_qpos + (rows->count - 1) * nq, (int)nq);
  for (int64_t i = 0; i < count; i++) rewards[i] = rows->rewards[i ? i - 1 : 0];
  Film film = {.world = world, .count = count, .qpos = qpos, .rewards = rewards,
               .title = ask ? ask_words(ask) : "",
               .dt = world->domain->substeps * world->model->opt.timestep, .width = WIDTH,
               .height = HEIGHT, .each = tell_progress, .context = take};
  int status = draw_in_turn(take, &film, path);
  free(qpos);
  return status;
}

static int film(Take *take) {
  TRY(by_file(take, "film.mp4", draw));
  tell_taken(take, ".mp4", "video/mp4");
  return BFM_OK;
}

// ---------------------------------- trajectory ---------------------------------------------------

// the rows as a dataset; its arrays `discount` and `ends` are new
static int dataset_of(const Take *take, Dataset *data) {
  const Rows *rows = &take->plan.rows;
  const mjModel *model = take->world->model;
  *data = (Dataset){.count = rows->count, .obs_dim = take->world->domain->obs_dim,
                    .act_dim = model->nu, .obs = rows->obs, .act = rows->act,
                    .next_obs = rows->next_obs, .rewards = rows->rewards, .nq = model->nq,
                    .nv = model->nv, .na = model->na, .qpos = rows->qpos, .qvel = rows->qvel,
                    .activation = rows->act_state,
                    .parts = PARTS_NEEDED | BIT(PART_REWARDS) | BIT(PART_QPOS) | BIT(PART_QVEL)};
  if (model->na) data->parts |= BIT(PART_ACTIVATION);
  snprintf(data->env, sizeof data->env, "%s", take->world->domain->name);
  data->discount = malloc((size_t)rows->count * sizeof *data->discount);
  data->ends = malloc((size_t)rows->count);
  if (!data->discount || !data->ends) {
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a trajectory");
  }
  for (int64_t i = 0; i < rows->count; i++) {
    data->discount[i] = !rows->terminals[i];
    data->ends[i] = rows->terminals[i] || rows->timeouts[i];
  }
  return BFM_OK;
}

static int write_rows(Take *take, const char *path) {
  static pthread_mutex_t hdf5 = PTHREAD_MUTEX_INITIALIZER;  // the library is not thread-safe
  Dataset data;
  int status = dataset_of(take, &data);
  if (!status) {
    pthread_mutex_lock(&hdf5);
    status = dataset_write(&data, path, NULL, NULL);
    pthread_mutex_unlock(&hdf5);
  }
  free(data.discount);
  free(data.ends);
  return status;
}

static int trajectory(Take *take) {
  TRY(by_file(take, "trajectory.h5", write_rows));
  tell_taken(take, ".h5", "application/x-hdf5");
  return BFM_OK;
}

// ---------------------------------- z ------------------------------------------------------------

static int send_text(Take *take, const char *text) {
  size_t size = strlen(text);
  unsigned char *message = malloc(HEAD + size + 1);
  if (!message) return bfm_fail(BFM_NO_MEMORY, "out of memory for a download");
  memcpy(message + HEAD, text, size);
  message[HEAD + size] = '\n';
  int status = send_piece(take, message, size + 1, 1);
  free(message);
  return status;
}

static int z_file(Take *take) {
  const TakePlan *plan = &take->plan;
  const Ask *ask = plan->ask;
  if (!ask) return bfm_fail(BFM_BAD_ARGUMENT, "the robot has no prompt yet");
  cJSON *json = prompt_file_json(plan->path, plan->fingerprint, take->world->domain->name,
                                 ask_kind(ask), ask_words(ask), ask->z, plan->d);
  char *text = cJSON_Print(json);
  cJSON_Delete(json);
  int status = text ? send_text(take, text) : bfm_fail(BFM_NO_MEMORY, "out of memory for z");
  free(text);
  if (!status) tell_taken(take, ".json", "application/json");
  return status;
}

// ---------------------------------- the thread ---------------------------------------------------

static void refuse(Take *take) {
  cJSON *message = message_new(take, "refused");
  ask_add_error(message, -1);
  if (is_cancelled(take)) cJSON_AddBoolToObject(message, "cancelled", 1);
  tell_last(take, message);
}

static void *run(void *context) {
  static int (*const makers[])(Take *take) = {film, z_file, trajectory};
  Take *take = context;
  setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
  if (makers[take->plan.said.kind](take)) refuse(take);
  return NULL;
}

static void plan_free(TakePlan *plan) {
  rows_free(&plan->rows);
  ask_release(plan->ask);
  plan->ask = NULL;
}

int take_new(Take **out, TakePlan *plan) {
  Take *take = *out = calloc(1, sizeof *take);
  int status = take ? world_acquire(&take->world, plan->world->domain)
                    : bfm_fail(BFM_NO_MEMORY, "out of memory for a download");
  if (!status) {
    take->plan = *plan;
    if (!pthread_create(&take->thread, NULL, run, take)) return BFM_OK;
    world_release(take->world);
    status = bfm_fail(BFM_UNAVAILABLE, "cannot start a thread for a download");
  }
  plan_free(plan);
  free(take);
  *out = NULL;
  return status;
}

int take_ended(const Take *take) { return __atomic_load_n(&take->ended, __ATOMIC_ACQUIRE); }

void take_cancel(Take *take, int64_t id) {
  if (take->plan.said.id == id) __atomic_store_n(&take->cancel, 1, __ATOMIC_RELEASE);
}

void take_free(Take *take) {
  take_cancel(take, take->plan.said.id);
  pthread_join(take->thread, NULL);
  world_release(take->world);
  plan_free(&take->plan);
  free(take);
}
