// Claims. A file that link(2) creates is there with its whole content or not at all, on NFS too; if the
// reply of a server is lost, the file's number of links tells whether it was made. Nothing is ever
// deleted or renamed, so a slow process cannot remove the claim of a faster one. The holder renews its
// claim by a new number in the file; observers compare contents, never times of different machines.

#include "sweep/claim.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/folder.h"
#include "core/units.h"

#define BEATS_PER_EXPIRY 6

struct Claims {
  Folder folder;
  double expire;
  char host[64], machine[128], start[32];
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  int running, ending;
  // the claim that is held, under the mutex
  char path[PATH_MAX], next[PATH_MAX];  // its file, and that of a process that takes over; "": none
  int64_t beat;
  int deaths, lost;
};

// ---------------------------------- who a process is ---------------------------------------------

static void read_line(const char *path, char *out, size_t size) {
  FILE *file = fopen(path, "re");
  if (!file || !fgets(out, (int)size, file)) *out = 0;
  if (file) fclose(file);
  out[strcspn(out, "\n")] = 0;
}

// Host, boot and namespace of process ids: within one of these, a process id means one process.
static void find_machine(Claims *c) {
  char boot[48], space[32] = "";
  if (gethostname(c->host, sizeof c->host - 1)) strcpy(c->host, "unknown");
  read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  if (*boot && n > 0) snprintf(c->machine, sizeof c->machine, "%s %.*s", boot, (int)n, space);
}

// When a process began, in the kernel's ticks; empty if there is no such process, or if only its exit
// status is left.
static void process_start(int process, char *out, size_t size) {
  char path[64], line[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  read_line(path, line, sizeof line);
  *out = 0;
  char *field = strrchr(line, ')');  // the end of the name, which may have spaces in it
  if (!field || strchr("ZX", field[2])) return;
  for (int i = 0; field && i < 20; i++) field = strchr(field + 1, ' ');
  if (field) snprintf(out, size, "%.*s", (int)strcspn(field + 1, " "), field + 1);
}

// ---------------------------------- a claim's file -----------------------------------------------

static const char *const states[] = {"free", "held", "done"};

static int path_of(const Claims *c, const char *cell, int number, char out[PATH_MAX]) {
  int n = snprintf(out, PATH_MAX, "%s/%s.%d.claim", c->folder.path, cell, number);
  return n < PATH_MAX ? BFM_OK
                      : bfm_fail(BFM_BAD_ARGUMENT, "the folder's name is too long: %s", out);
}

// the content of the present claim, padded so that every write covers the one before
static void write_text(const Claims *c, ClaimState state, char out[CLAIM_TEXT]) {
  int n = snprintf(out, CLAIM_TEXT,
                   "{\"state\":\"%s\",\"host\":\"%s\",\"process\":%d,\"machine\":\"%s\","
                   "\"start\":\"%s\",\"expire\":%g,\"deaths\":%d,\"beat\":%lld}",
                   states[state], c->host, (int)getpid(), c->machine, c->start, c->expire,
                   c->deaths, (long long)c->beat);
  memset(out + n, ' ', CLAIM_TEXT - n - 1);
  out[CLAIM_TEXT - 1] = '\n';
}

// Each renewal opens and closes the file, because NFS shows others what was written before a close.
static int overwrite(const char *path, const char text[CLAIM_TEXT]) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  int bad = pwrite(fd, text, CLAIM_TEXT, 0) != CLAIM_TEXT;
  return close(fd) || bad ? -1 : 0;
}

// Create the file at `path` with its content, as the only one of all processes. *made tells who won.
static int create(const Claims *c, const char *path, const char text[CLAIM_TEXT], int *made) {
  char temporary[PATH_MAX];
  struct stat info = {.st_nlink = 0};
  int n = snprintf(temporary, sizeof temporary, "%s/%s-%d-%s.tmp", c->folder.path, c->host,
                   (int)getpid(), c->start);
  if (n >= PATH_MAX) return bfm_fail(BFM_BAD_ARGUMENT, "the folder's name is too long: %s", path);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int bad = fd < 0 || write(fd, text, CLAIM_TEXT) != CLAIM_TEXT || fsync(fd), why = errno;
  if (fd >= 0 && close(fd) && !bad) bad = 1, why = errno;
  if (!bad) {
    int linked = link(temporary, path);
    why = errno;
    *made = !linked || (!stat(temporary, &info) && info.st_nlink == 2);
    bad = !*made && why != EEXIST;
  }
  unlink(temporary);
  if (!bad) return BFM_OK;
  return bfm_fail(BFM_IO, "cannot claim a cell in %s: %s; its file system must have hard links",
                  c->folder.path, strerror(why));
}

// ---------------------------------- renewing -----------------------------------------------------

static void renew(Claims *c) {
  char text[CLAIM_TEXT];
  struct stat info;
  if (!*c->path || c->lost) return;
  if (!stat(c->next, &info)) {
    c->lost = 1;
    return;
  }
  c->beat++;
  write_text(c, CLAIM_HELD, text);
  overwrite(c->path, text);  // if it fails, the next renewal may do better before the claim expires
}

static void *renew_always(void *context) {
  Claims *c = context;
  pthread_mutex_lock(&c->mutex);
  while (!c->ending) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    double pause = c->expire / BEATS_PER_EXPIRY;
    at.tv_sec += (time_t)pause;
    at.tv_nsec += (long)(1e9 * (pause - floor(pause)));
    if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
    if (pthread_cond_timedwait(&c->wake, &c->mutex, &at) == ETIMEDOUT) renew(c);
  }
  pthread_mutex_unlock(&c->mutex);
  return NULL;
}

// signals are for the main thread
static int start_thread(Claims *c) {
  sigset_t all, before;
  pthread_condattr_t attributes;
  pthread_mutex_init(&c->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&c->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  c->running = !pthread_create(&c->thread, NULL, renew_always, c);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return c->running ? BFM_OK
                    : bfm_fail(BFM_NO_MEMORY, "cannot start the thread that renews claims");
}

// ---------------------------------- opening and closing ------------------------------------------

int claims_open(Claims **out, const char *folder, double expire) {
  Claims *c = *out = calloc(1, sizeof *c);
  if (!c) return bfm_fail(BFM_NO_MEMORY, "out of memory for claims");
  c->expire = expire;
  find_machine(c);
  process_start(getpid(), c->start, sizeof c->start);
  int status = folder_name(&c->folder, folder);
  if (!status) status = folder_make(&c->folder);
  if (!status) status = start_thread(c);
  if (!status) return BFM_OK;
  claims_close(c);
  *out = NULL;
  return status;
}

void claims_close(Claims *c) {
  if (!c) return;
  claims_end(c, CLAIM_FREE);
  if (c->running) {
    pthread_mutex_lock(&c->mutex);
    c->ending = 1;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->mutex);
  }
  free(c);
}

// ---------------------------------- looking ------------------------------------------------------

static int exists(const Claims *c, const char *cell, int number) {
  char path[PATH_MAX];
  struct stat info;
  return !path_of(c, cell, number, path) && !stat(path, &info);
}

// read the newest claim; the number is 0 if there is none
static int read_newest(const Claims *c, const CellClaim *claim, int *number,
                       char text[CLAIM_TEXT]) {
  char path[PATH_MAX];
  *number = exists(c, claim->name, claim->number) ? claim->number : 0;
  while (exists(c, claim->name, *number + 1)) ++*number;
  memset(text, 0, CLAIM_TEXT);
  if (!*number) return BFM_OK;
  TRY(path_of(c, claim->name, *number, path));
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  int bad = fd < 0 || read(fd, text, CLAIM_TEXT - 1) < 0, why = errno;
  if (fd >= 0) close(fd);
  return bad ? bfm_fail(BFM_IO, "cannot read the claim %s: %s", path, strerror(why)) : BFM_OK;
}

static const char *text_at(const cJSON *object, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
  return text ? text : "";
}

static double number_at(const cJSON *object, const char *name, double fallback) {
  const cJSON *item = cJSON_GetObjectItem(object, name);
  return cJSON_IsNumber(item) ? item->valuedouble : fallback;
}

// whether the process of a claim runs; -1: it is not of this machine
static int is_running(const Claims *c, const cJSON *claim) {
  char start[32];
  if (!*c->machine || strcmp(text_at(claim, "machine"), c->machine)) return -1;
  if (!*c->start || strcmp(text_at(claim, "host"), c->host)) return -1;
  process_start((int)number_at(claim, "process", 0), start, sizeof start);
  return !strcmp(start, text_at(claim, "start"));
}

// a damaged file is held until it expires
static ClaimState state_of(const Claims *c, CellClaim *claim, const cJSON *content) {
  const char *state = text_at(content, "state");
  claim->deaths = (int)number_at(content, "deaths", 0);
  snprintf(claim->holder, sizeof claim->holder, "host %.60s, process %d", text_at(content, "host"),
           (int)number_at(content, "process", 0));
  if (!strcmp(state, states[CLAIM_FREE])) return CLAIM_FREE;
  if (!strcmp(state, states[CLAIM_DONE])) return CLAIM_DONE;
  int running = is_running(c, content);
  double expire = number_at(content, "expire", c->expire);
  if (running < 0) running = seconds_now() - claim->since <= expire;
  if (running) return CLAIM_HELD;
  claim->deaths++;
  return CLAIM_FREE;
}

int claims_look(Claims *c, CellClaim *claim) {
  char text[CLAIM_TEXT];
  int number;
  TRY(read_newest(c, claim, &number, text));
  if (number != claim->number || strcmp(text, claim->text)) {
    memcpy(claim->text, text, sizeof text);
    claim->number = number;
    claim->since = seconds_now();
  }
  cJSON *content = cJSON_Parse(text);
  claim->state = CLAIM_FREE;
  claim->deaths = 0;
  if (number) claim->state = state_of(c, claim, content);
  cJSON_Delete(content);
  return BFM_OK;
}

// ---------------------------------- taking and ending --------------------------------------------

int claims_take(Claims *c, CellClaim *claim, int again, int *taken) {
  char text[CLAIM_TEXT], path[PATH_MAX], next[PATH_MAX];
  *taken = 0;
  TRY(claims_look(c, claim));
  if (claim->state == CLAIM_HELD || (claim->state == CLAIM_DONE && !again)) return BFM_OK;
  TRY(path_of(c, claim->name, claim->number + 1, path));
  TRY(path_of(c, claim->name, claim->number + 2, next));
  pthread_mutex_lock(&c->mutex);
  c->deaths = claim->deaths;
  c->beat = c->lost = 0;
  write_text(c, CLAIM_HELD, text);
  int status = create(c, path, text, taken);
  if (!status && *taken) {
    strcpy(c->path, path);
    strcpy(c->next, next);
    claim->number++;
  }
  pthread_mutex_unlock(&c->mutex);
  return status;
}

int claims_renew(Claims *c) {
  pthread_mutex_lock(&c->mutex);
  renew(c);
  int lost = c->lost;
  pthread_mutex_unlock(&c->mutex);
  return lost;
}

int claims_lost(Claims *c) {
  pthread_mutex_lock(&c->mutex);
  int lost = c->lost;
  pthread_mutex_unlock(&c->mutex);
  return lost;
}

int claims_end(Claims *c, ClaimState state) {
  char text[CLAIM_TEXT];
  int bad = 0, why = 0;
  if (!c->running) return BFM_OK;
  pthread_mutex_lock(&c->mutex);
  if (*c->path && !c->lost) {
    c->beat++;
    write_text(c, state, text);
    bad = overwrite(c->path, text);
    why = errno;
  }
  *c->path = *c->next = 0;
  pthread_mutex_unlock(&c->mutex);
  return bad ? bfm_fail(BFM_IO, "cannot end a claim in %s: %s", c->folder.path, strerror(why))
             : BFM_OK;
}
