// Reads a robot's description: the tables of keys below turn the tree of its YAML into a Robot. Each row
// says of which kind a value is and which function reads it.

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "core/suggest.h"
#include "envs/reward_functions.h"
#include "envs/robot.h"
#include "envs/robot_tree.h"
#include "envs/tasklist.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))
#define NAME_LENGTH 63

// ---------------------------------- values -------------------------------------------------------

typedef int ReadValue(Robot *robot, const Node *node, void *out);

// a key of a mapping, what its value may be, who reads it, and where it goes
typedef struct {
  const char *name;
  int kinds;
  ReadValue *read;
  size_t place;
} Key;

static int check_kind(const Robot *robot, const Node *node, const char *what, int kinds) {
  if (node->kind & kinds) return BFM_OK;
  char wanted[64] = "";
  for (int kind = TEXT; kind <= MAPPING; kind *= 2) {
    size_t used = strlen(wanted);
    if (kinds & kind) {
      snprintf(wanted + used, sizeof wanted - used, "%s%s", used ? " or " : "",
               robot_node_kind(kind));
    }
  }
  return robot_fail(robot, node->text, "%s must be %s, not %s", what, wanted,
                    robot_node_kind(node->kind));
}

static int read_entry(Robot *robot, const Node *child, const Key *key, void *out) {
  Suggestion nearest = {.word = child->key.text};
  for (; key->name && strcmp(key->name, child->key.text); key++) suggest_try(&nearest, key->name);
  if (!key->name) {
    return robot_fail(robot, child->key, "unknown key '%s'%s", child->key.text,
                      suggest_say(&nearest, ""));
  }
  TRY(check_kind(robot, child, key->name, key->kinds));
  return key->read(robot, child, (char *)out + key->place);
}

static int read_mapping(Robot *robot, const Node *node, const Key *keys, void *out) {
  for (const Node *child = node->children; child; child = child->next) {
    TRY(robot_goes_on(robot, read_entry(robot, child, keys, out)));
  }
  return BFM_OK;
}

static int read_text(Robot *robot, const Node *node, void *out) {
  if (!*node->text.text) return robot_fail(robot, node->text, "a value is missing");
  *(RobotText *)out = node->text;
  return BFM_OK;
}

static int read_item(Robot *robot, const Node *node, RobotList *list) {
  TRY(check_kind(robot, node, "an entry of this list", TEXT));
  TRY(read_text(robot, node, &list->of[list->count]));
  list->count++;
  return BFM_OK;
}

static int read_list(Robot *robot, const Node *node, void *out) {
  RobotList *list = out;
  list->of = robot_take(robot, (size_t)(node->count + 2) * sizeof *list->of);
  if (!list->of) return BFM_NO_MEMORY;
  list->count = 0;
  if (node->kind == TEXT) return read_item(robot, node, list);
  for (const Node *child = node->children; child; child = child->next) {
    TRY(robot_goes_on(robot, read_item(robot, child, list)));
  }
  return BFM_OK;
}

static int read_number(const Robot *robot, RobotText text, double *value) {
  char *end;
  *value = number_read(text.text, &end);
  if (end > text.text && !*end && isfinite(*value) && !isalpha((unsigned char)*text.text)) {
    return BFM_OK;
  }
  return robot_fail(robot, text, "'%s' is not a number", text.text);
}

// a whole number of at least 1
static int read_whole(const Robot *robot, RobotText text, int most, int *value) {
  double number;
  TRY(read_number(robot, text, &number));
  if (number < 1 || number > most || number != floor(number)) {
    return robot_fail(robot, text, "'%s' is not a whole number from 1 to %d", text.text, most);
  }
  *value = (int)number;
  return BFM_OK;
}

static int read_substeps(Robot *robot, const Node *node, void *out) {
  return read_whole(robot, node->text, ROBOT_SUBSTEPS, out);
}

static int read_episode(Robot *robot, const Node *node, void *out) {
  return read_whole(robot, node->text, 1000000, out);
}

static int read_size(Robot *robot, const Node *node, void *out) {
  robot->size_place = node->text;
  return read_whole(robot, node->text, OBS_MAX, out);
}

// the index of a word in a list that ends with NULL
static int read_word(const Robot *robot, RobotText text, const char *const *words, int *index) {
  char all[256] = "";
  Suggestion nearest = {.word = text.text};
  for (*index = 0; words[*index]; ++*index) {
    size_t used = strlen(all);
    if (!strcmp(words[*index], text.text)) return BFM_OK;
    suggest_try(&nearest, words[*index]);
    snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", words[*index]);
  }
  return robot_fail(robot, text, "'%s' is none of %s%s", text.text, all, suggest_say(&nearest, ""));
}

static int read_actions(Robot *robot, const Node *node, void *out) {
  static const char *const words[] = {"range", "raw", NULL};
  int index;
  TRY(read_word(robot, node->text, words, &index));
  *(RobotActions *)out = index ? ACTIONS_RAW : ACTIONS_RANGE;
  return BFM_OK;
}

static int read_base(Robot *robot, const Node *node, void *out) {
  static const char *const words[] = {"free", "fixed", NULL};
  int index;
  TRY(read_word(robot, node->text, words, &index));
  *(BundleBase *)out = index ? BASE_FIXED : BASE_FREE;
  return BFM_OK;
}

// a name that people type: letters, digits, and the characters in `more`
static int check_name(const Robot *robot, RobotText name, const char *what, const char *more) {
  const char *text = name.text;
  int good = isalpha((unsigned char)*text) || *text == '_';
  for (const char *c = text; *c; c++) good &= isalnum((unsigned char)*c) || strchr(more, *c);
  if (good && strlen(text) <= NAME_LENGTH) return BFM_OK;
  return robot_fail(
      robot, name,
      "the name of %s is '%.70s', but it must begin with a letter and have at most %d "
      "letters, digits and %s",
      what, text, NAME_LENGTH, more);
}

// a comma inside [ ] divides a list, and with it an expression that is not in quotes
static int check_parentheses(const Robot *robot, const RobotList *list) {
  for (int i = 0; i < list->count; i++) {
    int depth = 0;
    for (const char *c = list->of[i].text; *c; c++) depth += (*c == '(') - (*c == ')');
    if (depth <= 0 || i + 1 == list->count) continue;
    return robot_fail(robot, list->of[i],
                      "')' is missing in '%s': inside [ ], put an expression with commas in quotes",
                      list->of[i].text);
  }
  return BFM_OK;
}

// ---------------------------------- observed -----------------------------------------------------

static int add_part(Robot *robot, RobotText name, const Node *node) {
  RobotPart *part = robot->observed + robot->observed_count;
  *part = (RobotPart){.name = name};
  TRY(check_name(robot, name, "a part of the observation", "_-/"));
  TRY(check_kind(robot, node, "a part of the observation", TEXT | LIST));
  TRY(read_list(robot, node, &part->items));
  TRY(check_parentheses(robot, &part->items));
  robot->observed_count++;
  return BFM_OK;
}

static int read_observed(Robot *robot, const Node *node, void *out) {
  (void)out;
  if (!node->count) return robot_fail(robot, node->text, "nothing is observed");
  robot->observed = robot_take(robot, (size_t)(node->count + 1) * sizeof *robot->observed);
  if (!robot->observed) return BFM_NO_MEMORY;
  if (node->kind == LIST) {
    RobotText name = node->text;
    name.text = "observation";
    return add_part(robot, name, node);
  }
  for (const Node *child = node->children; child; child = child->next) {
    TRY(robot_goes_on(robot, add_part(robot, child->key, child)));
  }
  return BFM_OK;
}

// ---------------------------------- resets -------------------------------------------------------

// {hip: -0.2, knee: 0.5}
static int read_positions(Robot *robot, const Node *node, RobotReset *reset) {
  if (!node->count) return robot_fail(robot, node->text, "no joint is given a position");
  reset->joints = robot_take(robot, (size_t)node->count * sizeof *reset->joints);
  if (!reset->joints) return BFM_NO_MEMORY;
  for (const Node *child = node->children; child; child = child->next) {
    RobotJoint *joint = reset->joints + reset->joint_count++;
    TRY(check_kind(robot, child, "the position of a joint", TEXT));
    TRY(read_number(robot, child->text, &joint->position));
    joint->name = child->key;
  }
  return BFM_OK;
}

static int read_joints(Robot *robot, const Node *node, void *out) {
  static const char *const words[] = {"random", "limited", NULL};
  RobotReset *reset = out;
  if (node->kind == MAPPING) return read_positions(robot, node, reset);
  return read_word(robot, node->text, words, &reset->limited);
}

static int read_keyframe(Robot *robot, const Node *node, void *out) {
  return read_text(robot, node, &((RobotReset *)out)->text);
}

static int read_states(Robot *robot, const Node *node, void *out) {
  const char *text = node->text.text;
  size_t length = strlen(text);
  TRY(read_text(robot, node, &((RobotReset *)out)->text));
  if (length > 4 && !strcmp(text + length - 4, ".npz")) return BFM_OK;
  return robot_fail(robot, node->text, "states come from an .npz file with qpos, not from '%s'",
                    text);
}

// uniform 0.1, normal 0.1
static int read_one_noise(Robot *robot, const Node *node, void *out) {
  RobotNoise *noise = out;
  const char *space = strchr(node->text.text, ' ');
  RobotText kind = node->text, size = node->text;
  static const char *const words[] = {"uniform", "normal", NULL};
  if (!space) {
    return robot_fail(robot, node->text,
                      "'%s' is no noise: write \"uniform 0.1\" for ±0.1, or \"normal 0.1\"",
                      node->text.text);
  }
  kind.text = robot_text(robot, kind.text, (size_t)(space - kind.text));
  if (!kind.text) return BFM_NO_MEMORY;
  size.column += (int)(space + 1 - size.text);
  size.text = space + 1;
  TRY(read_word(robot, kind, words, &noise->normal));
  TRY(read_number(robot, size, &noise->size));
  if (noise->size > 0) return BFM_OK;
  return robot_fail(robot, size, "the noise is %s, but must be above 0", size.text);
}

static int read_noise(Robot *robot, const Node *node, void *out) {
  static const Key keys[] = {{"qpos", TEXT, read_one_noise, offsetof(RobotReset, qpos)},
                             {"joints", TEXT, read_one_noise, offsetof(RobotReset, joint_noise)},
                             {"qvel", TEXT, read_one_noise, offsetof(RobotReset, qvel)},
                             {.name = NULL}};
  return read_mapping(robot, node, keys, out);
}

static int read_orientation(Robot *robot, const Node *node, void *out) {
  static const char *const words[] = {"random", NULL};
  int index;
  (void)out;
  return read_word(robot, node->text, words, &index);
}

static int read_height(Robot *robot, const Node *node, void *out) {
  return read_number(robot, node->text, out);
}

static int read_raise(Robot *robot, const Node *node, void *out) {
  static const Key keys[] = {{"from", TEXT, read_height, offsetof(RobotReset, from)},
                             {"by", TEXT, read_height, offsetof(RobotReset, by)},
                             {.name = NULL}};
  RobotReset *reset = out;
  int problems = robot_problem_count(robot);
  if (node->kind == TEXT) TRY(read_number(robot, node->text, &reset->by));
  else TRY(read_mapping(robot, node, keys, reset));
  if (reset->by > 0 || robot_problem_count(robot) > problems) return BFM_OK;
  return robot_fail(robot, node->text, "a robot is raised in steps, which must be above 0");
}

static int read_redraw(Robot *robot, const Node *node, void *out) {
  static const char *const words[] = {"anything", "floor", NULL};
  return read_word(robot, node->text, words, &((RobotReset *)out)->limited);
}

static int read_settle(Robot *robot, const Node *node, void *out) {
  return read_whole(robot, node->text, 100000, &((RobotReset *)out)->steps);
}

// in the order of ResetKind
static const Key reset_keys[] = {
    {"keyframe", TEXT, read_keyframe, 0},
    {"joints", TEXT | MAPPING, read_joints, 0},
    {"noise", MAPPING, read_noise, 0},
    {"orientation", TEXT, read_orientation, 0},
    {"raise", TEXT | MAPPING, read_raise, 0},
    {"redraw", TEXT, read_redraw, 0},
    {"settle", TEXT, read_settle, 0},
    {"states", TEXT, read_states, 0},
    {.name = NULL},
};

static int read_reset(Robot *robot, const Node *node, RobotReset *reset) {
  TRY(check_kind(robot, node, "a step of the reset", TEXT | MAPPING));
  *reset = (RobotReset){.text = node->text, .from = NAN};
  if (node->kind == TEXT && !strcmp(node->text.text, "redraw")) {
    reset->kind = RESET_REDRAW;
    return BFM_OK;
  }
  if (node->kind == TEXT || node->count != 1) {
    return robot_fail(robot, node->text,
                      "a step of the reset is \"redraw\", or one key with its value, such as "
                      "\"joints: random\"");
  }
  const Node *child = node->children;
  TRY(read_entry(robot, child, reset_keys, reset));
  while (strcmp(reset_keys[reset->kind].name, child->key.text)) reset->kind++;
  if (child->kind == TEXT) reset->text = child->text;
  return BFM_OK;
}

static int add_reset(Robot *robot, const Node *node) {
  RobotReset *reset = robot->resets + robot->reset_count;
  TRY(read_reset(robot, node, reset));
  for (int i = 0; i < robot->reset_count; i++) {
    if (robot->resets[i].kind != reset->kind) continue;
    if (reset->kind == RESET_REDRAW) {
      return robot_fail(robot, node->text, "a reset has at most one redraw");
    }
    if (reset->kind == RESET_STATES) {
      return robot_fail(robot, node->text, "a reset has at most one file of states");
    }
  }
  robot->reset_count++;
  return BFM_OK;
}

static int read_resets(Robot *robot, const Node *node, void *out) {
  (void)out;
  robot->has_resets = 1;
  robot->resets = robot_take(robot, (size_t)(node->count + 1) * sizeof *robot->resets);
  if (!robot->resets) return BFM_NO_MEMORY;
  for (const Node *child = node->children; child; child = child->next) {
    TRY(robot_goes_on(robot, add_reset(robot, child)));
  }
  return BFM_OK;
}

// ---------------------------------- aliases ------------------------------------------------------

static int is_word_of_language(const char *name) {
  for (const Function *f = reward_functions; f->name; f++) {
    if (!strcmp(f->name, name)) return 1;
  }
  for (const Constant *c = reward_constants; c->name; c++) {
    if (!strcmp(c->name, name)) return 1;
  }
  return 0;
}

typedef struct {
  RobotText is, help;
} AliasTexts;

// what an alias with a mistake stands for, where reading goes on
static const char wrong_alias[] = "0";

static int read_alias(Robot *robot, const Node *node) {
  static const Key keys[] = {{"is", TEXT, read_text, offsetof(AliasTexts, is)},
                             {"help", TEXT, read_text, offsetof(AliasTexts, help)},
                             {.name = NULL}};
  AliasTexts texts = {.is = node->text};
  TRY(check_name(robot, node->key, "an alias", "_"));
  if (is_word_of_language(node->key.text)) {
    return robot_fail(robot, node->key, "'%s' is a word of the reward language already",
                      node->key.text);
  }
  robot->alias_places[robot->alias_count] = node->text;
  robot->aliases[robot->alias_count++] = (Alias){node->key.text, wrong_alias, ""};
  TRY(check_kind(robot, node, "an alias", TEXT | MAPPING));
  int problems = robot_problem_count(robot);
  if (node->kind == MAPPING) TRY(read_mapping(robot, node, keys, &texts));
  if (robot_problem_count(robot) > problems) return BFM_OK;
  if (!texts.is.text || !*texts.is.text) {
    return robot_fail(robot, node->text, "the alias '%s' lacks its expression: \"is: …\"",
                      node->key.text);
  }
  robot->alias_places[robot->alias_count - 1] = texts.is;
  robot->aliases[robot->alias_count - 1] =
      (Alias){node->key.text, texts.is.text, texts.help.text ? texts.help.text : ""};
  return BFM_OK;
}

// the index of the alias that a text begins with, or -1
static int alias_at(const Robot *robot, const char *text, size_t length) {
  for (int i = 0; i < robot->alias_count; i++) {
    if (strlen(robot->aliases[i].name) == length &&
        !strncmp(robot->aliases[i].name, text, length)) {
      return i;
    }
  }
  return -1;
}

// an alias that needs itself, among `index` and those that it needs, or -1; states: 1 while an alias is
// looked at, 2 afterwards
static int find_cycle(const Robot *robot, int index, char *states) {
  if (states[index]) return states[index] == 1 ? index : -1;
  states[index] = 1;
  for (const char *c = robot->aliases[index].expression; *c;) {
    size_t length = 0, whole;
    while (isalnum((unsigned char)c[length]) || c[length] == '_') length++;
    whole = length;
    // what follows a dot or a prefix such as "joint:" is no alias
    while (c[whole] == '.' || (whole && c[whole] == ':' && isalpha((unsigned char)c[whole + 1])) ||
           isalnum((unsigned char)c[whole]) || c[whole] == '_') {
      whole++;
    }
    int other = length && c[length] != ':' ? alias_at(robot, c, length) : -1;
    int cyclic = other >= 0 ? find_cycle(robot, other, states) : -1;
    if (cyclic >= 0) return cyclic;
    c += whole ? whole : 1;
  }
  states[index] = 2;
  return -1;
}

static int read_aliases(Robot *robot, const Node *node, void *out) {
  (void)out;
  size_t rows = (size_t)node->count + 1;
  robot->aliases = robot_take(robot, rows * sizeof *robot->aliases);
  robot->alias_places = robot_take(robot, rows * sizeof *robot->alias_places);
  char *states = robot_take(robot, rows);
  if (!robot->aliases || !robot->alias_places || !states) return BFM_NO_MEMORY;
  for (const Node *child = node->children; child; child = child->next) {
    TRY(robot_goes_on(robot, read_alias(robot, child)));
  }
  for (int i = 0; i < robot->alias_count; i++) {
    int cyclic = find_cycle(robot, i, states);
    if (cyclic < 0) continue;
    int status = robot_fail(robot, robot->alias_places[cyclic], "the alias '%s' refers to itself",
                            robot->aliases[cyclic].name);
    TRY(robot_goes_on(robot, status));
    robot->aliases[cyclic].expression = wrong_alias;
    memset(states, 0, rows);
  }
  return BFM_OK;
}

// ---------------------------------- tasks --------------------------------------------------------

typedef struct {
  RobotText reward, step, help;
  int kind;
} TaskTexts;

static int read_kind(Robot *robot, const Node *node, void *out) {
  static const char *const words[] = {"known", "new", "prompt", NULL};
  return read_word(robot, node->text, words, out);
}

static int read_task(Robot *robot, const Node *node) {
  static const char *const groups[] = {"all", "in", "new"};
  static const Key keys[] = {{"reward", TEXT, read_text, offsetof(TaskTexts, reward)},
                             {"step", TEXT, read_text, offsetof(TaskTexts, step)},
                             {"help", TEXT, read_text, offsetof(TaskTexts, help)},
                             {"kind", TEXT, read_kind, offsetof(TaskTexts, kind)},
                             {.name = NULL}};
  TaskTexts texts = {.kind = TASK_KNOWN};
  TRY(check_name(robot, node->key, "a task", "_-"));
  for (int i = 0; i < COUNT(groups); i++) {
    if (strcasecmp(groups[i], node->key.text)) continue;
    return robot_fail(robot, node->key, "'%s' is the name of a group of tasks", node->key.text);
  }
  TRY(check_kind(robot, node, "a task", TEXT | MAPPING));
  int problems = robot_problem_count(robot);
  if (node->kind == TEXT) TRY(read_text(robot, node, &texts.reward));
  else TRY(read_mapping(robot, node, keys, &texts));
  if (!texts.reward.text == !texts.step.text) {
    if (robot_problem_count(robot) > problems) return BFM_OK;
    return robot_fail(robot, node->text, "the task '%s' needs either \"reward: …\" or \"step: …\"",
                      node->key.text);
  }
  robot->task_places[robot->task_count] = texts.step.text ? texts.step : texts.reward;
  robot->tasks[robot->task_count++] =
      (Task){node->key.text, (TaskKind)texts.kind, texts.reward.text,
             texts.help.text ? texts.help.text : "", texts.step.text};
  return BFM_OK;
}

static int read_tasks(Robot *robot, const Node *node, void *out) {
  (void)out;
  if (node->count > TASKLIST_MAX) {
    return robot_fail(robot, node->text, "a robot has at most %d tasks, not %d", TASKLIST_MAX,
                      node->count);
  }
  size_t rows = (size_t)node->count + 1;
  robot->tasks = robot_take(robot, rows * sizeof *robot->tasks);
  robot->task_places = robot_take(robot, rows * sizeof *robot->task_places);
  if (!robot->tasks || !robot->task_places) return BFM_NO_MEMORY;
  for (const Node *child = node->children; child; child = child->next) {
    TRY(robot_goes_on(robot, read_task(robot, child)));
  }
  return BFM_OK;
}

// ---------------------------------- edits --------------------------------------------------------

// divides "geom floor" into type and name
static int read_element(Robot *robot, RobotText text, RobotEdit *edit) {
  const char *space = strchr(text.text, ' ');
  *edit = (RobotEdit){.type = text, .name = text};
  if (space && space[1]) {
    edit->type.text = robot_text(robot, text.text, (size_t)(space - text.text));
    edit->name.text = space + 1;
    edit->name.column += (int)(space + 1 - text.text);
    return edit->type.text ? BFM_OK : BFM_NO_MEMORY;
  }
  if (!strcmp(text.text, "option")) return BFM_OK;
  return robot_fail(robot, text, "'%s' must be a type and a name, such as \"geom floor\"",
                    text.text);
}

// room for more edits
static int grow_edits(Robot *robot, int more) {
  size_t count = (size_t)robot->edit_count + (size_t)more + 1;
  RobotEdit *edits = robot_take(robot, count * sizeof *edits);
  if (!edits) return BFM_NO_MEMORY;
  if (robot->edit_count) memcpy(edits, robot->edits, (size_t)robot->edit_count * sizeof *edits);
  robot->edits = edits;
  return BFM_OK;
}

static int read_remove(Robot *robot, const Node *node, void *out) {
  RobotList list;
  (void)out;
  TRY(read_list(robot, node, &list));
  TRY(grow_edits(robot, list.count));
  for (int i = 0; i < list.count; i++) {
    int status = read_element(robot, list.of[i], robot->edits + robot->edit_count);
    TRY(robot_goes_on(robot, status));
    robot->edit_count += !status;
  }
  return BFM_OK;
}

static int add_change(Robot *robot, const Node *element, const Node *attribute,
                      RobotEditKind kind) {
  RobotEdit *edit = robot->edits + robot->edit_count;
  TRY(read_element(robot, element->key, edit));
  TRY(check_kind(robot, attribute, "an attribute", TEXT));
  edit->kind = kind;
  edit->is_first = attribute == element->children;
  edit->attribute = attribute->key;
  edit->value = attribute->text;
  robot->edit_count++;
  return BFM_OK;
}

static int read_changes(Robot *robot, const Node *element, RobotEditKind kind) {
  TRY(check_kind(robot, element, kind == EDIT_ADD ? "an added element" : "a change", MAPPING));
  TRY(grow_edits(robot, element->count));
  for (const Node *child = element->children; child; child = child->next) {
    TRY(robot_goes_on(robot, add_change(robot, element, child, kind)));
  }
  return BFM_OK;
}

static int read_attributes(Robot *robot, const Node *node, RobotEditKind kind) {
  for (const Node *element = node->children; element; element = element->next) {
    TRY(robot_goes_on(robot, read_changes(robot, element, kind)));
  }
  return BFM_OK;
}

static int read_change(Robot *robot, const Node *node, void *out) {
  (void)out;
  return read_attributes(robot, node, EDIT_CHANGE);
}

static int read_add(Robot *robot, const Node *node, void *out) {
  (void)out;
  return read_attributes(robot, node, EDIT_ADD);
}

static int read_edits(Robot *robot, const Node *node, void *out) {
  static const Key keys[] = {{"remove", TEXT | LIST, read_remove, 0},
                             {"change", MAPPING, read_change, 0},
                             {"add", MAPPING, read_add, 0},
                             {.name = NULL}};
  return read_mapping(robot, node, keys, out);
}

// ---------------------------------- the file -----------------------------------------------------

static const Key robot_keys[] = {
    {"help", TEXT, read_text, offsetof(Robot, help)},
    {"model", TEXT, read_text, offsetof(Robot, model)},
    {"base", TEXT, read_base, offsetof(Robot, base)},
    {"assets", TEXT, read_text, offsetof(Robot, assets)},
    {"substeps", TEXT, read_substeps, offsetof(Robot, substeps)},
    {"episode", TEXT, read_episode, offsetof(Robot, episode)},
    {"camera", TEXT, read_text, offsetof(Robot, camera)},
    {"actions", TEXT, read_actions, offsetof(Robot, actions)},
    {"observed", LIST | MAPPING, read_observed, 0},
    {"size", TEXT, read_size, offsetof(Robot, size)},
    {"reset", LIST, read_resets, 0},
    {"terminated", TEXT, read_text, offsetof(Robot, terminated)},
    {"aliases", MAPPING, read_aliases, 0},
    {"tasks", MAPPING, read_tasks, 0},
    {"goal", TEXT | LIST, read_list, offsetof(Robot, goal)},
    {"edits", MAPPING, read_edits, 0},
    {.name = NULL},
};

static int parse(Robot *robot, const char *yaml, size_t size) {
  Node root = {.kind = TEXT};
  if (size > ROBOT_BYTES) {
    return bfm_fail(BFM_BAD_FILE, "%s has %zu bytes, but a robot's file has at most %d",
                    robot->file, size, ROBOT_BYTES);
  }
  TRY(robot_tree(robot, yaml, size, &root));
  TRY(check_kind(robot, &root, "a robot's file", MAPPING));
  TRY(read_mapping(robot, &root, robot_keys, robot));
  if (robot->model.text) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "%s does not say which model it describes: add \"model: robot.xml\"",
                  robot->file);
}

int robot_parse_all(Robot **out, const char *file, const char *yaml, size_t size,
                    RobotProblems *problems) {
  *out = NULL;
  Robot *robot;
  TRY(robot_new(&robot, file));
  robot->problems = problems;
  int status = parse(robot, yaml, size);
  if (status) robot_free(robot);
  else *out = robot;
  return status;
}

int robot_parse(Robot **out, const char *file, const char *yaml, size_t size) {
  return robot_parse_all(out, file, yaml, size, NULL);
}
