// Signals: what each of them means, for every command.

#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

volatile sig_atomic_t cli_stop;

static void stop(int number) { cli_stop = number; }

// Datasets are mapped into memory: if a file shrinks or its disk fails while bfm reads it, the kernel
// raises SIGBUS.
static void fail_on_lost_file(int number) {
  (void)number;
  static const char text[] = "bfm: a file shrank, or its disk failed, while bfm was reading it\n";
  ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  (void)written;
  _exit(BFM_IO);
}

typedef struct {
  int number;
  void (*handler)(int);
  int flags;
} Meaning;

static const Meaning always[] = {
    {SIGBUS, fail_on_lost_file, 0},
    {SIGXFSZ, SIG_IGN, 0},  // a write beyond a limit of file sizes fails
};

// Commands that run long save and stop. A second SIGINT or SIGTERM kills the program. SIGHUP says
// that the terminal was closed: a shell and the kernel may both send it, so it never kills. Output
// into a closed terminal or pipe then fails, but does not end the run.
static const Meaning while_running[] = {
    {SIGINT, stop, SA_RESETHAND},
    {SIGTERM, stop, SA_RESETHAND},
    {SIGHUP, stop, 0},
    {SIGPIPE, SIG_IGN, 0},
};

// Handlers run on a stack of their own: oneDNN's kernels keep values below the stack pointer, which a
// handler on their stack would overwrite. The kernel delivers signals to the main thread if it can,
// so one alternate stack is enough.
static void set(const Meaning *meanings, int count) {
  static char stack[1 << 16];
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  for (int i = 0; i < count; i++) {
    struct sigaction action = {.sa_handler = meanings[i].handler,
                               .sa_flags = meanings[i].flags | SA_ONSTACK},
                     old;
    sigaction(meanings[i].number, &action, &old);
    // nohup starts a program with SIGHUP ignored: leave it so
    if (meanings[i].number == SIGHUP && old.sa_handler == SIG_IGN) sigaction(SIGHUP, &old, NULL);
  }
}

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

void cli_set_signals(void) { set(always, COUNT(always)); }
void cli_catch_signals(void) { set(while_running, COUNT(while_running)); }
