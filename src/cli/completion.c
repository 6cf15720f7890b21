// bfm completion: completion of command lines in bash and zsh. The scripts that it prints are short:
// they ask `bfm completion words` what can come next, and the answer comes from the tables of
// commands, options, domains, tasks and of the paper.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "envs/domain.h"
#include "envs/tasks.h"
#include "paper/paper.h"
#include "serve/shelf.h"

// A line of `bfm completion words` is a word, a tab and its help; ":files" and ":folders" stand for
// names that the shell knows better.
static const char script_bash[] =
    "# completion of bfm for bash, by bfm completion bash\n"
    "_bfm() {\n"
    "  local line cur=${COMP_WORDS[COMP_CWORD]} IFS=$'\\n'\n"
    "  [[ $cur != = ]] || cur=\n"
    "  COMPREPLY=()\n"
    "  while read -r line; do\n"
    "    case $line in\n"
    "      :files) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
    "      :folders) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- \"$cur\")) ;;\n"
    "      *) COMPREPLY+=(\"${line%%$'\\t'*}\") ;;\n"
    "    esac\n"
    "  done < <(\"${COMP_WORDS[0]/#\\~/$HOME}\" completion words \\\n"
    "    \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _bfm bfm\n";

static const char script_zsh[] =
    "#compdef bfm\n"
    "# completion of bfm for zsh, by bfm completion zsh\n"
    "_bfm() {\n"
    "  local line\n"
    "  local -a found\n"
    "  for line in \"${(@f)$(${~words[1]} completion words \"${(@Q)words[2,CURRENT]}\" "
    "2>/dev/null)}\"\n"
    "  do\n"
    "    case $line in\n"
    "      '') ;;\n"
    "      :files) [[ $PREFIX != --*=* ]] || compset -P '*='; _files ;;\n"
    "      :folders) [[ $PREFIX != --*=* ]] || compset -P '*='; _files -/ ;;\n"
    "      *) found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "    esac\n"
    "  done\n"
    "  (( $#found )) || return 0\n"
    "  [[ $PREFIX != --*=* ]] || compset -P '*='\n"
    "  _describe bfm found\n"
    "}\n"
    "if [[ $funcstack[1] == _bfm ]]; then _bfm \"$@\"; else compdef _bfm bfm; fi\n";

// ---------------------------------- candidates ---------------------------------------------------

// What the shell has typed: the words after bfm, the last of them unfinished.
typedef struct {
  char **words;
  int count;
  const char *now;    // the unfinished word, or its part behind --option=
  const char *value;  // --VALUE: the option whose value `now` is; NULL: none
  int place;          // how many words before it are no options or their values
  const char *first;  // the first of them, such as the action of bfm paper
  const char *kept;   // printed before every candidate
  int kept_length;
} Line;

static void offer_part(const Line *line, const char *word, size_t length, const char *help) {
  if (strncmp(word, line->now, strlen(line->now)) || strlen(line->now) > length) return;
  printf("%.*s%.*s\t%s\n", line->kept_length, line->kept, (int)length, word, help);
}

static void offer(const Line *line, const char *word, const char *help) {
  offer_part(line, word, strlen(word), help);
}

// the words of "a|b|c"
static void offer_choices(const Line *line, const char *choices, size_t length) {
  for (const char *end = choices + length; choices < end; choices++) {
    size_t part = strcspn(choices, "|");
    if (part > (size_t)(end - choices)) part = (size_t)(end - choices);
    offer_part(line, choices, part, "");
    choices += part;
  }
}

static void offer_files(const Line *line) { (void)line, puts(":files"); }
static void offer_folders(const Line *line) { (void)line, puts(":folders"); }

static void offer_domains(const Line *line) {
  const Domain *domain;
  for (int i = 0; (domain = domain_at(i)); i++) offer(line, domain->name, domain->help);
}

static void offer_robots(const Line *line) {
  offer_domains(line);
  offer_files(line);
}

static void offer_devices(const Line *line) { offer_choices(line, "auto|cpu|cuda", 13); }

static void offer_tables(const Line *line) {
  const PaperTable *table;
  for (int i = 0; (table = paper_table_at(i)); i++) offer(line, table->name, table->help);
}

// the domain that the line names, by itself or by a model; NULL if it names none
static const Domain *domain_of(const Line *line) {
  const Domain *domain;
  for (int w = 1; w < line->count - 1; w++) {
    ModelFacts facts = {.env = ""};
    const char *name = line->words[w];
    if (!access(name, R_OK) && !shelf_facts(&facts, name)) name = facts.env;
    for (int i = 0; (domain = domain_at(i)); i++) {
      if (!strcmp(domain->name, name)) return domain;
    }
  }
  return NULL;
}

// Whether an earlier domain has a task of this name, which was offered then.
static int was_offered(const char *name, int before) {
  for (int i = 0; i < before; i++) {
    for (const Task *task = domain_at(i)->tasks; task && task->name; task++) {
      if (!strcmp(task->name, name)) return 1;
    }
  }
  return 0;
}

// the tasks of the line's domain, or of all
static void offer_tasks(const Line *line) {
  const Domain *only = domain_of(line), *domain;
  for (int i = 0; (domain = domain_at(i)); i++) {
    if (only && domain != only) continue;
    for (const Task *task = domain->tasks; task && task->name; task++) {
      if (only || !was_offered(task->name, i)) offer(line, task->name, task->help);
    }
  }
}

// The last of names separated by commas. The shells replace the whole word, so what stands before the
// last comma is printed again.
static Line last_name(const Line *line) {
  const char *comma = strrchr(line->now, ',');
  Line last = *line;
  if (comma) {
    last.kept = line->now;
    last.kept_length = (int)(comma + 1 - line->now);
    last.now = comma + 1;
  }
  return last;
}

static void offer_names(const Line *line) {
  const Line last = last_name(line);
  offer_tasks(&last);
}

static void offer_list(const Line *line) {
  const Line last = last_name(line);
  offer_choices(&last, "all|in|new", 10);
  offer_tasks(&last);
}

static void offer_commands(const Line *line) {
  const Command *command;
  for (int i = 0; (command = cli_command_at(i)); i++) {
    if (command->help) offer(line, command->name, command->help);
  }
}

// ---------------------------------- values and arguments -----------------------------------------

typedef void (*Offer)(const Line *line);

static const struct {
  const char *option;
  Offer offer;
} by_name[] = {{"task", offer_names},   {"tasks", offer_list},     {"eval-tasks", offer_list},
               {"env", offer_domains},  {"domain", offer_domains}, {"device", offer_devices},
               {"data", offer_folders}, {"runs", offer_folders},   {"results", offer_folders},
               {"model", offer_files}};

static const struct {
  const char *word;
  Offer offer;
} by_argument[] = {{"FILE", offer_files},    {"GOAL", offer_files},      {"FOLDER", offer_folders},
                   {"DOMAIN", offer_robots}, {"ENV", offer_robots},      {"ROBOT", offer_robots},
                   {"TABLE", offer_tables},  {"COMMAND", offer_commands}};

static void offer_value(const Line *line, const char *name, const char *argument) {
  for (size_t i = 0; i < sizeof by_name / sizeof *by_name; i++) {
    if (!strcmp(by_name[i].option, name)) {
      by_name[i].offer(line);
      return;
    }
  }
  for (size_t i = 0; i < sizeof by_argument / sizeof *by_argument; i++) {
    if (!strcmp(by_argument[i].word, argument)) by_argument[i].offer(line);
  }
  if (strchr(argument, '|')) offer_choices(line, argument, strlen(argument));
}

// An argument of the usage line: words in small letters are typed as they are, [TABLE] is one of by_argument,
// and anything else is a file.
static void offer_argument(const Line *line, const char *word, size_t length) {
  if (strspn(word, "abcdefghijklmnopqrstuvwxyz|") >= length) {
    offer_choices(line, word, length);
    return;
  }
  char name[32];
  const char *letters = word + (*word == '[');
  snprintf(name, sizeof name, "%.*s", (int)strspn(letters, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), letters);
  for (size_t i = 0; i < sizeof by_argument / sizeof *by_argument; i++) {
    if (strcmp(by_argument[i].word, name)) continue;
    by_argument[i].offer(line);
    return;
  }
  offer_files(line);
}

// whether one of the words of "a|b|c" is this
static int is_among(const char *choices, size_t length, const char *word) {
  size_t size = strlen(word);
  for (const char *end = choices + length; choices < end; choices += strcspn(choices, "| ") + 1) {
    if (!strncmp(choices, word, size) && strchr("| \n", choices[size])) return 1;
  }
  return 0;
}

// The usage of a command has one line for each way to call it: "show|plot [TABLE]", "add FOLDER...".
// Behind the first word, only its own line counts. The last argument of a line repeats if it ends in
// "...".
static void offer_usage(const Line *line, const char *usage) {
  int several = usage && strchr(usage, '\n');
  while (usage && *usage) {
    size_t rest = strcspn(usage, "\n"), first = strcspn(usage, " \n");
    const char *word = usage, *end = usage + rest;
    if (!line->place || !several || is_among(usage, first, line->first)) {
      int repeats = rest > 3 && !strncmp(end - 3, "...", 3);
      for (int i = 0; word < end && i < line->place; i++) {
        const char *next = word + strcspn(word, " \n") + 1;
        if (next >= end && repeats) break;
        word = next;
      }
      if (word < end) offer_argument(line, word, strcspn(word, " \n"));
    }
    usage += rest + (usage[rest] == '\n');
  }
}

// ---------------------------------- the line -----------------------------------------------------

// Calls `see` with every option of a parser and its children until it returns something.
static const struct argp_option *each_option(const struct argp *argp, const Line *line,
                                             int (*see)(const Line *, const char *name, int key,
                                                        const char *help)) {
  const Flags *flags = flags_of(argp);
  for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++) {
    const char *help = flags ? flags->table[o - argp->options].help : o->doc;
    if (o->name && see(line, o->name, o->key, help)) return o;
  }
  for (const struct argp_child *child = argp->children; child && child->argp; child++) {
    const struct argp_option *found = each_option(child->argp, line, see);
    if (found) return found;
  }
  return NULL;
}

static int offer_option(const Line *line, const char *name, int key, const char *help) {
  char flag[64];
  (void)key;
  snprintf(flag, sizeof flag, "--%s", name);
  offer(line, flag, help);
  return 0;
}

// the option that `value` names: "--task", "--task=run" or "-t"
static int is_option(const Line *line, const char *name, int key, const char *help) {
  const char *word = line->value;
  (void)help;
  if (word[0] != '-' || !word[1]) return 0;
  if (word[1] != '-') return word[1] == key && !word[2];
  return strlen(name) == strcspn(word + 2, "=") && !strncmp(word + 2, name, strlen(name));
}

// the option whose value a word would be, if it stands behind `word`
static const struct argp_option *taking_value(const struct argp *argp, char *word) {
  const struct argp_option *o = each_option(argp, &(Line){.value = word}, is_option);
  return o && o->arg ? o : NULL;
}

// Finds out what stands before the unfinished word. Bash divides --task=run at the "=".
static const struct argp_option *read_line(Line *line, const struct argp *argp) {
  const struct argp_option *waiting = NULL;
  int last = line->count - 1;
  for (int w = 1; w < last; w++) {
    char *word = line->words[w];
    if (waiting && !strcmp(word, "=")) continue;
    if (waiting) {
      waiting = NULL;
    } else if (*word == '-') {
      waiting = strchr(word, '=') ? NULL : taking_value(argp, word);
    } else if (!line->place++) {
      line->first = word;
    }
  }
  char *equals = strchr(line->words[last], '=');
  if (waiting) {
    line->now = line->words[last] + (equals == line->words[last]);
  } else if (*line->words[last] == '-' && equals) {
    waiting = taking_value(argp, line->words[last]);
    line->now = equals + 1;
  }
  return waiting;
}

static void complete(void *context, const struct argp *argp) {
  Line *line = context;
  const struct argp_option *waiting = read_line(line, argp);
  if (waiting) {
    offer_value(line, waiting->name, waiting->arg);
  } else if (*line->now == '-') {
    each_option(argp, line, offer_option);
    offer(line, "--help", "print a help text");
  } else {
    offer_usage(line, argp->args_doc);
  }
}

static void print_words(char **words, int count) {
  Line line = {.words = words, .count = count, .now = count ? words[count - 1] : "", .first = "",
               .kept = ""};
  const Command *command = count > 1 ? cli_command(words[0]) : NULL;
  if (count < 2 || !strcmp(words[0], "help")) {
    offer_commands(&line);
    if (count < 2 && *line.now == '-') offer_choices(&line, "--help|--version", 16);
  } else if (command) {
    cli_look(command, complete, &line);
  }
}

// ---------------------------------- the command --------------------------------------------------

static const struct argp_option no_options[] = {{0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  const char **shell = state->input;
  switch (key) {
    case ARGP_KEY_ARG:
      if (*shell) argp_error(state, "name one shell, not %s and %s", *shell, arg);
      *shell = arg;
      return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "name a shell: bash or zsh"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static int run(void *input) {
  const char *shell = *(const char **)input;
  if (strcmp(shell, "bash") && strcmp(shell, "zsh")) {
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no completion for \"%.64s\": name bash or zsh",
                    shell);
  }
  fputs(strcmp(shell, "bash") ? script_zsh : script_bash, stdout);
  return BFM_OK;
}

int cli_completion(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "words")) {
    print_words(argv + 2, argc - 2);
    return BFM_OK;
  }
  const char *shell = NULL;
  const CommandLine line = {
      .options = no_options, .parse = parse, .arguments = "bash|zsh",
      .help =
          "Print the script that completes bfm's command lines in a shell.\v"
          "Examples:\n"
          "  source <(bfm completion bash)\n",
      .run = run,
  };
  return cli_run(&line, argc, argv, &shell);
}
