// bfm manual: the manual pages as roff, for make install. What they say comes from the tables that
// --help prints: the commands, their parsers and the options. Only the environment, the exit statuses
// and the files are written here.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"

// ---------------------------------- roff ---------------------------------------------------------

// the next character of UTF-8, and the text behind it
static unsigned next_code(const unsigned char **text) {
  unsigned first = *(*text)++;
  int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  unsigned code = more ? first & (0x3fu >> more) : first;
  for (; more && **text; more--) code = code << 6 | (*(*text)++ & 0x3f);
  return code;
}

// Roff prints some characters as others, unless they are named; a reader copies commands.
static void print_code(unsigned code) {
  static const struct {
    char code;
    const char *roff;
  } named[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
               {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    if (code == (unsigned char)named[i].code) {
      fputs(named[i].roff, stdout);
      return;
    }
  }
  if (code < 0x80) putchar((int)code);
  else printf("\\[u%04X]", code);
}

static void print_text(const char *text, size_t length) {
  const unsigned char *at = (const unsigned char *)text, *end = at + length;
  if (length && *text == '.') fputs("\\&", stdout);  // not a request
  while (at < end) print_code(next_code(&at));
}

static void print_bold(const char *text) {
  fputs("\\fB", stdout);
  print_text(text, strlen(text));
  fputs("\\fR", stdout);
}

// text that roff fills, in lines that people can read
static void print_filled(const char *text, size_t length) {
  const char *end = text + length;
  for (int column = 0; text < end;) {
    size_t word = strcspn(text, " \n");
    if (column) putchar(column + word > 70 ? '\n' : ' ');
    column = column + word > 70 ? (int)word : column + 1 + (int)word;
    print_text(text, word);
    text += word;
    text += strspn(text, " ");
  }
  putchar('\n');
}

static void print_line(const char *text) { print_filled(text, strlen(text)); }

static void section(const char *name) { printf(".SH %s\n", name); }

static void subsection(const char *name, size_t length) {
  fputs(".SS \"", stdout);
  for (; length; name++, length--) {
    if (*name != '\n') print_text(name, 1);
    else putchar(' ');
  }
  fputs("\"\n", stdout);
}

// Lines that begin with a space keep their form; the others are paragraphs, divided by empty lines.
static void print_paragraphs(const char *text) {
  int fixed = 0, begun = 0;
  while (*text) {
    size_t length = strcspn(text, "\n");
    int wants = *text == ' ';
    if (length && wants != fixed) puts(wants ? (begun ? ".PP\n.nf" : ".nf") : ".fi\n.PP");
    if (length) fixed = wants;
    if (length && wants) print_text(text, length), putchar('\n');
    else if (length) print_filled(text, length);
    else if (text[1] && !fixed && text[1] != ' ') puts(".PP");
    begun |= length > 0;
    text += length + (text[length] == '\n');
  }
  if (fixed) puts(".fi");
}

// "bfm", "train" → the heading of bfm-train(1); SOURCE_DATE_EPOCH makes a build repeatable
static void print_title(const char *command, const char *help) {
  const char *epoch = getenv("SOURCE_DATE_EPOCH");
  time_t now = epoch && *epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
  struct tm day;
  char date[32] = "", title[64];
  if (gmtime_r(&now, &day)) strftime(date, sizeof date, "%Y-%m-%d", &day);
  snprintf(title, sizeof title, "bfm%s%s", *command ? "-" : "", command);
  fputs(".TH ", stdout);
  for (const char *c = title; *c; c++) print_code((unsigned)toupper((unsigned char)*c));
  printf(" 1 %s \"%s\" \"User Commands\"\n.nh\n.ad l\n", date, CLI_VERSION);
  section("NAME");
  print_text(title, strlen(title));
  fputs(" \\- ", stdout);
  print_line(help);
}

// ---------------------------------- the page of a command ----------------------------------------

// a long list of choices may continue in the next line
static void print_argument(const char *text) {
  fputs("=\\fI", stdout);
  while (*text) {
    size_t length = strcspn(text, "|");
    print_text(text, length);
    if (text[length]) fputs("|\\:", stdout), length++;
    text += length;
  }
  fputs("\\fR", stdout);
}

// The flags of own options: short and long names, and the argument.
static void print_flag(const struct argp_option *o) {
  puts(".TP");
  if (isgraph(o->key)) printf("\\fB\\-%c\\fR%s", o->key, o->name ? ", " : "");
  if (o->name) fputs("\\fB\\-\\-", stdout), print_text(o->name, strlen(o->name));
  fputs("\\fR", stdout);
  if (o->arg) print_argument(o->arg);
  putchar('\n');
  print_line(o->doc ? o->doc : "");
}

static void print_row(const Option *option) {
  char text[512];
  const struct argp_option flag = {.name = option->name, .arg = options_argument(option),
                                   .doc = text};
  options_describe(option, text, sizeof text);
  print_flag(&flag);
}

static void print_options(const struct argp *argp) {
  const Flags *flags = flags_of(argp);
  if (flags) {
    subsection(flags->heading, strlen(flags->heading));
    for (int i = 0; i < flags->count; i++) print_row(&flags->table[i]);
    return;
  }
  for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++) {
    if (o->name && !(o->flags & OPTION_HIDDEN)) print_flag(o);
  }
  for (const struct argp_child *child = argp->children; child && child->argp; child++) {
    if (child->header) subsection(child->header, strcspn(child->header, ":"));
    print_options(child->argp);
  }
}

static void print_usage(const Command *command, const char *arguments) {
  section("SYNOPSIS");
  do {
    size_t length = strcspn(arguments, "\n");
    printf("\\fBbfm %s\\fR [\\fIOPTION\\fR]... ", command->name);
    print_text(arguments, length);
    putchar('\n');
    arguments += length;
    if (*arguments) puts(".br"), arguments++;
  } while (*arguments);
}

// "Examples (the second uses names from the first):" → its text in brackets, as a sentence
static const char *print_examples_heading(const char *text) {
  const char *end = text + strcspn(text, "\n"), *open = memchr(text, '(', (size_t)(end - text));
  section("EXAMPLES");
  if (open && end > open + 3) {
    putchar(toupper((unsigned char)open[1]));
    print_text(open + 2, (size_t)(end - open) - 4);
    puts(":\n.PP");
  }
  return end + (*end == '\n');
}

static void print_page(void *context, const struct argp *argp) {
  const Command *command = context;
  const char *doc = argp->doc, *post = strchr(doc, '\v');
  char *about = strndup(doc, post ? (size_t)(post - doc) : strlen(doc)), *filtered = NULL;
  post = post ? post + 1 : "";
  if (argp->help_filter) {
    filtered = argp->help_filter(ARGP_KEY_HELP_POST_DOC, post, NULL);
    post = filtered;
  }
  const char *examples = strstr(post, "Examples");
  char *notes = strndup(post, examples ? (size_t)(examples - post) : strlen(post));

  print_title(command->name, command->help ? command->help : "for make install");
  print_usage(command, argp->args_doc);
  section("DESCRIPTION");
  if (about) print_paragraphs(about);
  if (notes && *notes) puts(".PP"), print_paragraphs(notes);
  section("OPTIONS");
  print_options(argp);
  print_flag(&(struct argp_option){.name = "help", .key = '?', .doc = "print a help text"});
  if (examples) print_paragraphs(print_examples_heading(examples));
  section("SEE ALSO");
  puts("\\fBbfm\\fR(1)");
  free(filtered);
  free(notes);
  free(about);
}

// ---------------------------------- the page of the program --------------------------------------

typedef struct {
  const char *name, *help;
} Row;

static const Row statuses[] = {
    {"0", "success"},
    {"2", "a wrong argument or option"},
    {"3", "a file is damaged or has another layout"},
    {"4", "a file cannot be read or written"},
    {"5", "memory ran out"},
    {"6", "a device, a library or the model of a robot is not on this machine"},
    {"7", "a loss, a parameter or a simulation is no longer finite"},
    {"128 + N", "signal N stopped the command; what it had done is saved"},
    {NULL, NULL},
};

static const Row variables[] = {
    {"BFM_MODELS", "the folder of the built-in robots' bodies, if it is not the installed one"},
    {"BFM_CUDA_PLUGIN", "the plugin for GPUs, if it is not the installed one"},
    {"BFM_GL, MUJOCO_GL", "how pictures are drawn: egl or osmesa"},
    {"TMPDIR", "the folder of temporary files"},
    {NULL, NULL},
};

static const Row files[] = {
    {"PREFIX/share/bfm/models", "trained models, which bfm serve offers by default"},
    {"PREFIX/share/bfm/robots", "the text files and bodies of the built-in robots"},
    {NULL, NULL},
};

static void print_rows(const char *heading, const Row *rows) {
  section(heading);
  for (; rows->name; rows++) {
    puts(".TP");
    print_bold(rows->name);
    putchar('\n');
    print_line(rows->help);
  }
}

static void print_commands(void) {
  const Command *command;
  section("COMMANDS");
  for (int i = 0; (command = cli_command_at(i)); i++) {
    if (command->group) subsection(command->group, strlen(command->group));
    if (!command->help) continue;
    puts(".TP");
    print_bold(command->name);
    putchar('\n');
    print_line(command->help);
  }
}

// commands that have a page of their own
static int has_page(const Command *command) {
  return command->help && strcmp(command->name, "help");
}

static void print_program(void) {
  print_title("", "train and prompt behavioral foundation models");
  section("SYNOPSIS");
  puts("\\fBbfm\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]");
  section("DESCRIPTION");
  print_paragraphs(cli_about);
  print_commands();
  section("EXAMPLES");
  print_paragraphs(cli_examples);
  print_rows("EXIT STATUS", statuses);
  print_rows("ENVIRONMENT", variables);
  print_rows("FILES", files);
  section("SEE ALSO");
  const Command *command;
  const char *between = "";
  for (int i = 0; (command = cli_command_at(i)); i++) {
    if (!has_page(command)) continue;
    printf("%s\\fBbfm\\-%s\\fR(1)", between, command->name);
    between = ",\n";
  }
  putchar('\n');
}

// ---------------------------------- the command --------------------------------------------------

typedef struct {
  const char *command;
  int list;
} Arguments;

static const struct argp_option own_options[] = {
    {.name = "list", .key = 'l', .doc = "print the names of all pages"},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'l': a->list = 1; return 0;
    case ARGP_KEY_ARG: a->command = arg; return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static void print_names(void) {
  const Command *command;
  puts("bfm");
  for (int i = 0; (command = cli_command_at(i)); i++) {
    if (has_page(command)) printf("bfm-%s\n", command->name);
  }
}

static int run(void *input) {
  const Arguments *a = input;
  const Command *command = a->command ? cli_command(a->command) : NULL;
  if (a->list) {
    print_names();
  } else if (!a->command) {
    print_program();
  } else if (!command || !has_page(command)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no manual page of \"%.64s\"; --list names all",
                    a->command);
  } else {
    cli_look(command, print_page, (void *)command);
  }
  return BFM_OK;
}

int cli_manual(int argc, char **argv) {
  Arguments a = {0};
  const CommandLine line = {
      .options = own_options, .parse = parse, .arguments = "[COMMAND]",
      .help =
          "Print the manual page of bfm or of a command, in the format of man(1).\v"
          "Examples:\n"
          "  bfm manual train | man -l -\n",
      .run = run,
  };
  return cli_run(&line, argc, argv, &a);
}
