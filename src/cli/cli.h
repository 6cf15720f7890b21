// What the subcommands share: their table, errors, and flags made from tables of options.

#ifndef BFM_CLI_CLI_H
#define BFM_CLI_CLI_H

#include <argp.h>
#include <cjson/cJSON.h>
#include <signal.h>

#include "core/options.h"

#define CLI_VERSION "bfm " BFM_VERSION

// a subcommand gets its own name as argv[0] and returns the program's exit status
typedef struct {
  const char *name, *help;
  int (*run)(int argc, char **argv);
} Command;

int cli_train(int argc, char **argv);
int cli_collect(int argc, char **argv);
int cli_data(int argc, char **argv);
int cli_prompt(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_bias(int argc, char **argv);
int cli_play(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_plot(int argc, char **argv);
int cli_paper(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_tasks(int argc, char **argv);
int cli_names(int argc, char **argv);
int cli_bench(int argc, char **argv);

// print bfm_error() as "bfm: sentence"; returns the exit status: the status, or after a signal what
// shells expect
int cli_fail(int status);

// whether a file's name ends in ".png"
int cli_has_suffix(const char *path, const char *suffix);

// whether two paths name one file
int cli_is_same(const char *a, const char *b);

// a JSON value as one line, for programs
void cli_print_json(const cJSON *value);

// the first SIGINT or SIGTERM is noted here, a second one ends the program at once
extern volatile sig_atomic_t cli_stop;
void cli_catch_signals(void);

// flags of a table of options, as a child parser of a subcommand's own
typedef struct {
  const Option *table;
  int count;
  void *fields;  // filled with defaults, then with what is typed
  cJSON *given;  // what was typed, by name
  const char *heading;
  struct argp argp;
  struct argp_option *options;
} Flags;

int flags_new(Flags *flags, const Option *table, void *fields, const char *heading);
void flags_free(Flags *flags);

// hand the flags to the parser's children, in their order: to be called with ARGP_KEY_INIT
void flags_init(struct argp_state *state, Flags *const *flags, int count);

// argp_parse that suggests the flag a user probably meant and takes z_mix for z-mix; on failure the
// error is printed
int cli_parse(const struct argp *argp, int argc, char **argv, void *input);

#endif
