// Work that a child process tries first. HDF5 trusts the files it reads: a single wrong bit can make
// it write beyond its memory or loop forever. The child is a copy of its parent and does exactly the
// same, so the parent can safely do whatever the child survived. Each step has a limit in CPU
// seconds, which stops endless loops but waits for slow disks.

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

#define STEP_SECONDS 2  // CPU seconds; on a sound file, a step without data takes milliseconds
#define STEP_RATE 3e7   // bytes per CPU second that the slowest filter decompresses
#define TRIES 3         // attempts to start a child

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

// The child replaces the parent's signal handlers, prints nothing when it dies, and dies with the
// parent, whose file locks it shares.
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
  volatile int *child;  // the child's progress, in shared memory: others may reap its exit status
} Probe;

// If another thread held a lock of the C library at the moment of the fork, the child's first call
// of HDF5 never returns: alarm() then ends the child, which counts as stuck.
static void be_child(const Probe *r) {
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

// a fork() that fails also counts as stuck
static void run_child(const Probe *r) {
  sigset_t all, before;
  *r->child = STUCK;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t child = fork();
  if (!child) be_child(r);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
}

// HDF5 calls this function while it holds its own lock, so that no other thread is inside HDF5 at the
// fork. The child must not release that lock, because the threads that wait for it do not exist
// there; so the child does its work inside this call.
static herr_t inside_lock(hid_t list, const char *name, void *context) {
  (void)list;
  (void)name;
  Probe *r = context;
  for (int i = 0; i < TRIES && *r->child == STUCK; i++) run_child(r);
  return 1;
}

int hdf5_probe(void (*work)(void *context), void *context) {
  int *child = mmap(NULL, sizeof *child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Probe r = {work, context, child};
  if (child == MAP_FAILED) {
    work(context);
    return 1;
  }
  H5Piterate(H5P_FILE_ACCESS_DEFAULT, NULL, inside_lock, &r);
  int done = *child != STARTED;
  munmap(child, sizeof *child);
  if (done) work(context);
  return done;
}
