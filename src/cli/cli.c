// What the subcommands share. argp parses the command line; the flags come from tables of options, so
// that each flag, its help text and its range check have one definition.

#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/suggest.h"

#define FLAG_KEY 0x1000  // argp key of a table's first row; the subcommands' own keys are smaller

int cli_fail(int status) {
  fprintf(stderr, "bfm: %s\n", bfm_error());
  return status == BFM_INTERRUPTED ? 128 + cli_stop : status;
}

int cli_has_suffix(const char *path, const char *suffix) {
  size_t a = strlen(path), b = strlen(suffix);
  return a > b && !strcmp(path + a - b, suffix);
}

int cli_is_same(const char *a, const char *b) {
  struct stat x, y;
  return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

void cli_print_json(const cJSON *value) {
  char *text = cJSON_PrintUnformatted(value);
  if (text) puts(text);
  free(text);
}

// ---------------------------------- flags of a table ---------------------------------------------

static error_t parse_flag(int key, char *arg, struct argp_state *state) {
  Flags *flags = state->input;
  if (key < FLAG_KEY || key >= FLAG_KEY + flags->count) return ARGP_ERR_UNKNOWN;
  const Option *option = &flags->table[key - FLAG_KEY];
  int status = options_set(flags->table, flags->fields, option->name, arg);
  if (status) exit(cli_fail(status));
  cJSON_DeleteItemFromObjectCaseSensitive(flags->given, option->name);
  cJSON_AddStringToObject(flags->given, option->name, arg);
  return 0;
}

// Print the options in the order of the table, which lists the most important ones first; argp itself
// would sort them by name.
static char *help_of_table(int key, const char *text, void *input) {
  const Flags *flags = input;
  if (key != ARGP_KEY_HELP_EXTRA || !flags) return (char *)text;
  char *help = NULL;
  size_t size;
  FILE *out = open_memstream(&help, &size);
  if (!out) return NULL;
  fprintf(out, "%s:\n", flags->heading);
  options_help(flags->table, out);
  fclose(out);
  return help;
}

int flags_new(Flags *flags, const Option *table, void *fields, const char *heading) {
  *flags = (Flags){.table = table, .fields = fields, .heading = heading};
  while (table[flags->count].name) flags->count++;
  flags->given = cJSON_CreateObject();
  flags->options = calloc(flags->count + 1, sizeof *flags->options);
  if (!flags->given || !flags->options) {
    flags_free(flags);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for %d options", flags->count);
  }
  for (int i = 0; i < flags->count; i++) {
    flags->options[i] = (struct argp_option){.name = table[i].name, .key = FLAG_KEY + i,
                                             .arg = options_argument(&table[i]),
                                             .flags = OPTION_HIDDEN};
  }
  flags->argp =
      (struct argp){.options = flags->options, .parser = parse_flag, .help_filter = help_of_table};
  return options_default(table, fields);
}

void flags_free(Flags *flags) {
  cJSON_Delete(flags->given);
  free(flags->options);
  flags->given = NULL;
  flags->options = NULL;
}

void flags_init(struct argp_state *state, Flags *const *flags, int count) {
  for (int i = 0; i < count; i++) state->child_inputs[i] = flags[i];
}

const Flags *flags_of(const struct argp *argp) {
  if (argp->parser != parse_flag) return NULL;
  return (const Flags *)((const char *)argp - offsetof(Flags, argp));
}

// ---------------------------------- parsing ------------------------------------------------------

// Return whether an option of the parser or its children begins with `name`; getopt accepts such
// abbreviations. If there is none, all options have been offered to the suggestion.
static int match_flag(const struct argp *argp, const char *name, Suggestion *suggestion) {
  for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++) {
    if (!o->name) continue;
    if (!strncmp(o->name, name, strlen(name))) return 1;
    suggest_try(suggestion, o->name);
  }
  for (const struct argp_child *child = argp->children; child && child->argp; child++) {
    if (match_flag(child->argp, name, suggestion)) return 1;
  }
  return 0;
}

// reject an unknown flag and suggest a similar one; change z_mix to z-mix in place
static int check_flag(const struct argp *argp, char *flag) {
  char name[64];
  size_t length = strcspn(flag, "=");
  for (size_t i = 0; i < length; i++) flag[i] = flag[i] == '_' ? '-' : flag[i];
  snprintf(name, sizeof name, "%.*s", (int)length, flag);

  static const char *const of_argp[] = {"help", "usage", "version"};
  for (int i = 0; i < 3; i++) {
    if (!strncmp(of_argp[i], name, strlen(name))) return BFM_OK;
  }
  Suggestion suggestion = {.word = name};
  if (match_flag(argp, name, &suggestion)) return BFM_OK;
  if (!suggestion.best) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no option --%s; --help lists the options", name);
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "there is no option --%s; did you mean --%s?", name,
                  suggestion.best);
}

static struct {
  void (*look)(void *context, const struct argp *argp);  // NULL: parse
  void *context;
} looking;

void cli_look(const Command *command, void (*look)(void *context, const struct argp *argp),
              void *context) {
  char *words[] = {(char[]){"bfm"}, NULL};
  looking.look = look;
  looking.context = context;
  command->run(1, words);
  looking.look = NULL;
}

int cli_parse(const struct argp *argp, int argc, char **argv, void *input) {
  if (looking.look) {
    looking.look(looking.context, argp);
    return BFM_BAD_ARGUMENT;
  }
  for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
    if (strncmp(argv[i], "--", 2)) continue;
    int status = check_flag(argp, argv[i] + 2);
    if (status) return cli_fail(status);
  }
  setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
  argp_err_exit_status = BFM_BAD_ARGUMENT;
  argp_program_version = CLI_VERSION;
  return argp_parse(argp, argc, argv, 0, NULL, input) ? BFM_BAD_ARGUMENT : BFM_OK;
}

// ---------------------------------- running ------------------------------------------------------

typedef struct {
  const CommandLine *line;
  void *input;
} Session;

// The parser of the whole line. It hands each child parser its input and all else to the subcommand's
// parser.
static error_t parse_line(int key, char *arg, struct argp_state *state) {
  const Session *session = state->input;
  const CommandLine *line = session->line;
  if (key == ARGP_KEY_INIT) {
    void **child = state->child_inputs;
    if (line->child) *child++ = line->child_input;
    for (Flags *const *flags = line->flags; *flags; flags++) *child++ = *flags;
  }
  state->input = session->input;
  return line->parse(key, arg, state);
}

static int parse_and_run(const CommandLine *line, int argc, char **argv, void *input) {
  struct argp_child children[5] = {{.argp = NULL}}, *child = children;
  if (line->child) {
    *child++ = (struct argp_child){.argp = line->child, .header = line->child_heading};
  }
  int status = BFM_OK, group = 1;
  for (Flags *const *flags = line->flags; *flags && !status; flags++) {
    status = flags_new(*flags, (*flags)->table, (*flags)->fields, (*flags)->heading);
    *child++ = (struct argp_child){.argp = &(*flags)->argp, .group = group++};
  }
  if (status) return cli_fail(status);
  const struct argp argp = {
      .options = line->options,
      .parser = parse_line,
      .args_doc = line->arguments,
      .doc = line->help,
      .children = children,
      .help_filter = line->help_filter,
  };
  status = cli_parse(&argp, argc, argv, &(Session){line, input});
  if (status) return status;
  status = line->run(input);
  return status ? cli_fail(status) : BFM_OK;
}

int cli_run(const CommandLine *line, int argc, char **argv, void *input) {
  int status = parse_and_run(line, argc, argv, input);
  for (Flags *const *flags = line->flags; *flags; flags++) flags_free(*flags);
  return status;
}
