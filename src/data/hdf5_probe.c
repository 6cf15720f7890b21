// Work that a child does first. HDF5 trusts what it reads: by one wrong bit it writes beyond its
// memory, or never returns. The child starts with all that its parent has and does the very same,
// so what it survives the parent will; its death is an answer. A step's time is counted in CPU
// seconds: slow disks are waited for, circles are not.

#include "data/hdf5_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/hdf5.h"

#define STEP_SECONDS 2  // an honest one without data takes milliseconds
#define STEP_RATE 3e7   // bytes a second that the slowest filter unpacks
#define TRIES 3         // to get a child

// ---------------------------------- the child ----------------------------------------------------

static int is_child;

int hdf5_is_probe(void) { return is_child; }

void hdf5_probe_step(double bytes) {
  if (!is_child) return;
  double seconds = bytes < 1e15 ? STEP_SECONDS + bytes / STEP_RATE : STEP_SECONDS;
  struct itimerval timer = {.it_value = {.tv_sec = (time_t)seconds}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

void hdf5_probe_pause(void) {
  if (is_child) setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
}

static void leave(int signal) { _exit(signal); }

// the parent's handlers are none of the child's, nothing is said of its death, and it does not
// outlive the parent, whose locks it shares
static void prepare(void) {
  static const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF, SIGALRM};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
    signal(deaths[i], leave);
    sigaddset(&set, deaths[i]);
  }
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

// ---------------------------------- both ---------------------------------------------------------

enum { STUCK, STARTED, SURVIVED };

typedef struct {
  void (*work)(void *context);
  void *context;
  volatile int *child;  // how far it came; in shared memory, as a reaped death tells nothing
  int done;
} Rehearsal;

// HDF5's lock rests on one that another thread may be holding for the moment of the fork: then the
// child's first call never returns
static void be_child(const Rehearsal *r) {
  is_child = 1;
  prepare();
  alarm(1);
  hdf5_restore(hdf5_silence());
  alarm(0);
  *r->child = STARTED;
  hdf5_probe_step(0);
  r->work(r->context);
  *r->child = SURVIVED;
  _exit(0);
}

// no child at all counts as stuck
static void run_child(const Rehearsal *r) {
  sigset_t all, before;
  *r->child = STUCK;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t child = fork();
  if (!child) be_child(r);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
}

// called by HDF5, which keeps its lock meanwhile: in the child no other thread is within it. That
// lock must not be given back there, as those who wait for it are gone: both stay inside
static herr_t inside(hid_t list, const char *name, void *context) {
  (void)list;
  (void)name;
  Rehearsal *r = context;
  for (int i = 0; i < TRIES && *r->child == STUCK; i++) run_child(r);
  r->done = *r->child != STARTED;
  if (r->done) r->work(r->context);
  return 1;
}

int hdf5_probe(void (*work)(void *context), void *context) {
  int *child = mmap(NULL, sizeof *child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Rehearsal r = {work, context, child, 0};
  if (child == MAP_FAILED) {
    work(context);
    return 1;
  }
  H5Piterate(H5P_FILE_ACCESS_DEFAULT, NULL, inside, &r);
  munmap(child, sizeof *child);
  return r.done;
}
