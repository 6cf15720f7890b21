// The program bfm: find the subcommand and run it. Each subcommand is one row of a table; the rows
// follow the way of the data: collect, train, prompt, measure.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/suggest.h"

static int help(int argc, char **argv);

static const Command commands[] = {
    {"Make a model", "learn", "collect, train, evaluate and report within a given time", cli_learn},
    {"Describe a robot", "robot", "write and check the text file of a robot of your own",
     cli_robot},
    {"Make a dataset", "collect", "simulate a domain and save every transition", cli_collect},
    {NULL, "data", "merge, subsample or convert datasets", cli_data},
    {"Train", "train", "train an agent on datasets", cli_train},
    {NULL, "sweep", "run many collections and trainings, shared among machines", cli_sweep},
    {NULL, "plot", "plot the learning curves of runs", cli_plot},
    {"Prompt a model", "tasks", "list the built-in tasks of the domains", cli_tasks},
    {NULL, "names", "list the quantities and functions that a reward can use", cli_names},
    {NULL, "prompt", "turn a reward, a goal or a demonstration into the vector z", cli_prompt},
    {NULL, "play", "run a model in the simulator; save a film or pictures", cli_play},
    {NULL, "serve", "open the playground in a browser: type rewards, watch and pull the robot",
     cli_serve},
    {NULL, "export", "write a smaller copy of a model", cli_export},
    {"Measure", "eval", "measure the returns of models on tasks", cli_eval},
    {NULL, "bias", "compare the returns that models predict with those they earn", cli_bias},
    {NULL, "paper", "run, show and plot the tables of the paper", cli_paper},
    {NULL, "bench", "measure the speed of this machine", cli_bench},
    {"Look things up", "info", "describe a file and check that it is intact", cli_info},
    {NULL, "help", "explain a command: bfm help train", help},
    // make install calls these
    {NULL, "manual", NULL, cli_manual},
    {NULL, "completion", NULL, cli_completion},
};
#define COMMAND_COUNT ((int)(sizeof commands / sizeof *commands))

const char cli_about[] =
    "bfm trains behavioral foundation models. One agent learns from recordings that\n"
    "have no rewards; afterwards you give it any task as a reward, a goal or a\n"
    "demonstration, and it acts at once, without further training.\n";

const char cli_examples[] =
    "Make the trained walker of this repository stand up:\n"
    "  bfm play models/walker.safetensors --reward 'torso.z > 1.2' -o stand.png\n\n"
    "Collect data and train an agent of your own (about a minute on a CPU):\n"
    "  bfm collect point_mass --hold 20 --steps 400k -o data.h5\n"
    "  bfm train data.h5 --algo fb --stride 20 --gamma 0.95 --goal position --d 32 \\\n"
    "    --preset small --hidden 64 --batch 256 --lr 5e-4 --steps 4k -o runs/first\n"
    "  bfm eval runs/first/model.safetensors --random\n\n"
    "Datasets are HDF5 files in D4RL's layout; models are safetensors files.\n";

static void print_help(FILE *out) {
  fprintf(out, "%s\nUsage: bfm COMMAND [ARGUMENTS]\n", cli_about);
  for (int i = 0; i < COMMAND_COUNT; i++) {
    if (commands[i].group) fprintf(out, "\n%s:\n", commands[i].group);
    if (commands[i].help) fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
  }
  fprintf(out, "\n%sbfm help COMMAND explains a command.\n", cli_examples);
}

const Command *cli_command_at(int i) { return i < COMMAND_COUNT ? commands + i : NULL; }

const Command *cli_command(const char *name) {
  for (int i = 0; i < COMMAND_COUNT; i++) {
    if (!strcmp(commands[i].name, name)) return &commands[i];
  }
  return NULL;
}

static int unknown_command(const char *name) {
  Suggestion suggestion = {.word = name};
  for (int i = 0; i < COMMAND_COUNT; i++) suggest_try(&suggestion, commands[i].name);
  return cli_fail(bfm_fail(BFM_BAD_ARGUMENT, "there is no command \"%.64s\"%s", name,
                           suggest_say(&suggestion, "; bfm --help lists them")));
}

static int run_command(const Command *command, int argc, char **argv) {
  char name[64];
  snprintf(name, sizeof name, "bfm %s", command->name);
  argv[0] = name;  // argp prints it as the program's name
  return command->run(argc, argv);
}

static int help(int argc, char **argv) {
  const Command *command = argc < 2 ? NULL : cli_command(argv[1]);
  if (argc < 2 || !strcmp(argv[1], "--help") || (command && command->run == help)) {
    print_help(stdout);
    return BFM_OK;
  }
  if (!command) return unknown_command(argv[1]);
  char *words[] = {argv[0], (char[]){"--help"}, NULL};
  return run_command(command, 2, words);
}

// fail if output could not be written, for example to a full disk
static void flush_output(void) {
  errno = 0;
  if (!fflush(stdout) && !ferror(stdout)) return;
  fprintf(stderr, "bfm: cannot write to standard output: %s\n",
          errno ? strerror(errno) : "an earlier write failed");
  _exit(BFM_IO);
}

// If the program starts with a standard stream closed, the next file that bfm opens would get the
// stream's descriptor, and output would be printed into that file. So /dev/null takes the descriptor,
// opened in the other direction, so that using the stream fails.
static void reserve_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int main(int argc, char **argv) {
  reserve_streams();
  atexit(flush_output);
  cli_set_signals();

  if (argc < 2) {
    print_help(stderr);
    return BFM_BAD_ARGUMENT;
  }
  const char *first = argv[1];
  if (!strcmp(first, "--version") || !strcmp(first, "-V")) {
    puts(CLI_VERSION);
    return BFM_OK;
  }
  if (!strcmp(first, "--help") || !strcmp(first, "-h")) return help(argc - 1, argv + 1);
  const Command *command = cli_command(first);
  return command ? run_command(command, argc - 1, argv + 1) : unknown_command(first);
}
