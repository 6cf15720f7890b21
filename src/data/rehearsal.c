// Work that a child does first. HDF5 trusts what it reads: by one wrong bit it writes beyond its
// memory, or never returns. The child starts with all that its parent has and does the very same,
// so what it survives the parent will; its death is an answer. A step's time is counted in CPU
// seconds: slow disks are waited for, circles are not.

#include "data/rehearsal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/hdf5.h"

#define STEP_SECONDS 2  // an honest one without data takes milliseconds
#define STEP_RATE 3e7   // bytes a second that the slowest filter unpacks

// ---------------------------------- the child ----------------------------------------------------

static int is_child;

int rehearsing(void) { return is_child; }

void rehearsal_step(double bytes) {
  if (!is_child) return;
  double seconds = bytes < 1e15 ? STEP_SECONDS + bytes / STEP_RATE : STEP_SECONDS;
  struct itimerval timer = {.it_value = {.tv_sec = (time_t)seconds}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

static void leave(int signal) { _exit(signal); }

// the parent's handlers are none of the child's, and nothing is said of its death
static void prepare(void) {
  static const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
    signal(deaths[i], leave);
    sigaddset(&set, deaths[i]);
  }
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
}

// ---------------------------------- the parent ---------------------------------------------------

// called by HDF5 while it holds its lock: no other thread is in it, so the child's is in order
static herr_t fork_inside(hid_t list, const char *name, void *context) {
  (void)list;
  (void)name;
  *(pid_t *)context = fork();
  return 1;
}

// the answer lies in shared memory: where children's deaths are ignored, waiting does not tell
int rehearse(void (*work)(void *context), void *context) {
  volatile int *survived =
      mmap(NULL, sizeof *survived, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (survived == MAP_FAILED) return 1;
  sigset_t all, before;
  pid_t child = -1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  H5Piterate(H5P_FILE_ACCESS_DEFAULT, NULL, fork_inside, &child);
  if (!child) {
    is_child = 1;
    prepare();
    rehearsal_step(0);
    work(context);
    *survived = 1;
    _exit(0);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  int answer = child < 0 || *survived;
  munmap((void *)survived, sizeof *survived);
  return answer;
}
