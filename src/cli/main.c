// bfm: one program, one row a subcommand.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/suggest.h"

static const Command commands[] = {
    {"collect", "simulate a domain and write a dataset", cli_collect},
    {"data", "merge, subsample and convert datasets", cli_data},
    {"train", "learn F, B and a policy from transitions", cli_train},
    {"prompt", "turn a reward, a goal or a demonstration into z", cli_prompt},
    {"eval", "measure what models earn in whole episodes", cli_eval},
    {"bias", "compare what models earn with what they predict", cli_bias},
    {"play", "let a model act and film it", cli_play},
    {"export", "write a smaller model that acts everywhere", cli_export},
    {"plot", "draw the learning curves of runs", cli_plot},
    {"paper", "run, show and draw the paper's tables", cli_paper},
    {"info", "say what a file holds, and whether it is sound", cli_info},
    {"tasks", "list the rewards that have a name", cli_tasks},
    {"names", "list what a reward of a domain can be made of", cli_names},
    {"bench", "measure speeds on this machine", cli_bench},
};
#define COMMAND_COUNT ((int)(sizeof commands / sizeof *commands))

static void print_help(FILE *out) {
  fputs(
      "bfm trains behavioral foundation models: from transitions without rewards one agent is\n"
      "learned that is told what to do afterwards, by a reward, a goal or a demonstration.\n\n"
      "  bfm COMMAND [ARGUMENTS]\n\n",
      out);
  for (int i = 0; i < COMMAND_COUNT; i++) {
    fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
  }
  fputs(
      "  help     say more of a command: bfm help train\n\n"
      "A first run, a minute on a CPU:\n"
      "  bfm collect point_mass --hold 20 --steps 400k -o data.h5\n"
      "  bfm train data.h5 --algo fb --stride 20 --gamma 0.95 --goal position --d 32 \\\n"
      "    --preset small --hidden 64 --batch 256 --lr 5e-4 --steps 4k -o runs/first\n"
      "  bfm eval runs/first/model.safetensors --random\n\n"
      "Datasets are HDF5 files in D4RL's layout; models are safetensors files.\n",
      out);
}

static const Command *find_command(const char *name) {
  for (int i = 0; i < COMMAND_COUNT; i++) {
    if (!strcmp(commands[i].name, name)) return &commands[i];
  }
  return NULL;
}

static int unknown_command(const char *name) {
  Suggestion nearest = {.word = name};
  for (int i = 0; i < COMMAND_COUNT; i++) suggest_try(&nearest, commands[i].name);
  suggest_try(&nearest, "help");
  return cli_fail(bfm_fail(BFM_BAD_ARGUMENT, "there is no command \"%.64s\"%s", name,
                           suggest_say(&nearest, "; bfm --help lists them")));
}

static int run_command(const Command *command, int argc, char **argv) {
  char name[64];
  snprintf(name, sizeof name, "bfm %s", command->name);
  argv[0] = name;  // what argp calls the program
  return command->run(argc, argv);
}

static int help(int argc, char **argv) {
  if (argc < 2 || !strcmp(argv[1], "help") || !strcmp(argv[1], "--help")) {
    print_help(stdout);
    return BFM_OK;
  }
  const Command *command = find_command(argv[1]);
  if (!command) return unknown_command(argv[1]);
  char *ask[] = {argv[0], (char[]){"--help"}, NULL};
  return run_command(command, 2, ask);
}

// data is read where it lies: of a file that loses its end, or its disk, this is all one hears
static void on_lost_file(int number) {
  (void)number;
  static const char text[] = "bfm: a file was shortened, or its disk failed, while it was in use\n";
  ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  (void)written;
  _exit(BFM_IO);
}

// what was printed and did not arrive is an error like that of any file
static void flush_output(void) {
  errno = 0;
  if (!fflush(stdout) && !ferror(stdout)) return;
  fprintf(stderr, "bfm: cannot write what was to be printed: %s\n",
          errno ? strerror(errno) : "an earlier part was lost");
  _exit(BFM_IO);
}

// the next file opened would get the number of a stream that is closed, and be printed into. What
// stands in for it cannot be printed to either
static void hold_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int main(int argc, char **argv) {
  hold_streams();
  atexit(flush_output);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error to report, not a death
  signal(SIGBUS, on_lost_file);

  if (argc < 2) {
    print_help(stderr);
    return BFM_BAD_ARGUMENT;
  }
  const char *first = argv[1];
  if (!strcmp(first, "--version") || !strcmp(first, "-V")) {
    puts(CLI_VERSION);
    return BFM_OK;
  }
  if (!strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "help")) {
    return help(argc - 1, argv + 1);
  }
  const Command *command = find_command(first);
  return command ? run_command(command, argc - 1, argv + 1) : unknown_command(first);
}
