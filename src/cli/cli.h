// What the subcommands share: their declarations, error reporting, signals, and command lines built
// from tables of options.

#ifndef BFM_CLI_CLI_H
#define BFM_CLI_CLI_H

#include <argp.h>
#include <cjson/cJSON.h>
#include <signal.h>

#include "core/options.h"

#define CLI_VERSION "bfm " BFM_VERSION

// A subcommand gets "bfm NAME" as argv[0] and returns the program's exit status.
int cli_learn(int argc, char **argv);
int cli_train(int argc, char **argv);
int cli_collect(int argc, char **argv);
int cli_data(int argc, char **argv);
int cli_prompt(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_bias(int argc, char **argv);
int cli_play(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_sweep(int argc, char **argv);
int cli_plot(int argc, char **argv);
int cli_paper(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_tasks(int argc, char **argv);
int cli_names(int argc, char **argv);
int cli_robot(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_manual(int argc, char **argv);
int cli_completion(int argc, char **argv);

// A row of the table of subcommands in main.c.
typedef struct {
  const char *group;  // heading in the program's help; NULL: the group of the row above
  const char *name;
  const char *help;  // NULL: the program's help does not list the command
  int (*run)(int argc, char **argv);
} Command;
const Command *cli_command_at(int i);  // NULL after the last
const Command *cli_command(const char *name);

extern const char cli_about[], cli_examples[];  // the beginning and the end of the program's help

// Print "bfm: " and bfm_error() to standard error. Returns the exit status: `status` itself, or after
// a signal 128 + its number, as shells expect.
int cli_fail(int status);

// Return whether a path ends in a suffix such as ".png" and has a name before it.
int cli_has_suffix(const char *path, const char *suffix);

// Return whether two paths lead to the same file.
int cli_is_same(const char *a, const char *b);

// Print a JSON value as one line to standard output.
void cli_print_json(const cJSON *value);

// signals.c: cli_set_signals() for every command; cli_catch_signals() for those that run long: the
// first SIGINT, SIGTERM or SIGHUP is then stored in cli_stop.
extern volatile sig_atomic_t cli_stop;
void cli_set_signals(void);
void cli_catch_signals(void);

// ---------------------------------- command lines ------------------------------------------------

// The flags that a table of options adds to a command line.
typedef struct {
  const Option *table;
  void *fields;         // receives the defaults, then the values typed
  const char *heading;  // above these options in --help
  // filled in by cli_run
  int count;
  cJSON *given;  // the options typed, as text by name
  struct argp argp;
  struct argp_option *options;
} Flags;

// A command line consists of the subcommand's own options, the options of a child parser and the
// options of tables; --help lists them in this order.
typedef struct {
  const struct argp_option *options;
  argp_parser_t parse;       // state->input is the input of cli_run
  const char *arguments;     // for the usage line, such as "MODEL..."
  const char *help;          // the description, \v, the examples
  const struct argp *child;  // NULL: none
  const char *child_heading;
  void *child_input;
  Flags *flags[4];  // NULL after the last
  char *(*help_filter)(int key, const char *text, void *input);
  int (*run)(void *input);
} CommandLine;

// Parse the arguments, run the command and print its error. Returns the exit status. An unknown
// option suggests the closest one; --z_mix is accepted for --z-mix.
int cli_run(const CommandLine *line, int argc, char **argv, void *input);

// Call `look` with the parser of a command, which then ends without doing anything. Manual pages and
// completion come from what they see there.
void cli_look(const Command *command, void (*look)(void *context, const struct argp *argp),
              void *context);

// the flags behind a child parser that cli_run or flags_new made; NULL for any other
const Flags *flags_of(const struct argp *argp);

// The steps of cli_run, for subcommands that call them one by one.
int flags_new(Flags *flags, const Option *table, void *fields, const char *heading);
void flags_free(Flags *flags);
void flags_init(struct argp_state *state, Flags *const *flags, int count);
int cli_parse(const struct argp *argp, int argc, char **argv, void *input);

#endif
