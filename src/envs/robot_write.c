// A robot as the text of its description. A text is written plain where YAML reads it back as it is, and in
// double quotes otherwise; a number with the fewest digits that give it back. So whatever was read or
// chosen is read again as the same robot.

#include "envs/robot_write.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "core/paths.h"
#include "envs/quantities.h"

enum { COLUMNS = 98, NUMBER = 32 };

typedef struct {
  FILE *out;
  const Robot *robot;
  const mjModel *model;
  int comments;
} Writer;

// ---------------------------------- scalars ------------------------------------------------------

// whether YAML reads it as this text, also inside of [ ] and { }
static int is_plain(const char *text) {
  static const char inside[] = " _.()*/+-<>=|&^";
  if (!isalnum((unsigned char)*text) && !strchr("_(.", *text)) return 0;
  for (const char *c = text; *c; c++) {
    if (!isalnum((unsigned char)*c) && !strchr(inside, *c)) return 0;
  }
  return text[strlen(text) - 1] != ' ';
}

static void scalar(FILE *out, const char *text) {
  if (is_plain(text)) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (const char *c = text; *c; c++) {
    if (*c == '\n') fputs("\\n", out);
    else if (*c == '\t') fputs("\\t", out);
    else fprintf(out, "%s%c", strchr("\"\\", *c) ? "\\" : "", *c);
  }
  fputc('"', out);
}

static void number(char text[NUMBER], double value) {
  char *end;
  int digits = value == floor(value) && fabs(value) < 1e6 ? 7 : 1;
  do number_write(text, NUMBER, digits, value);
  while (number_read(text, &end) != value && ++digits <= 17);
}

// "indent key: value"
static void pair(FILE *out, int indent, const char *key, const char *value) {
  if (!value) return;
  fprintf(out, "%*s", indent, "");
  scalar(out, key);
  fputs(": ", out);
  scalar(out, value);
  fputc('\n', out);
}

// "key: value" of one entry, "key: [a, b]" of several, in lines of at most 100 columns
static void list(const Writer *w, int indent, const char *key, const RobotList *list) {
  int column = indent + (int)strlen(key) + 3;
  if (list->count == 1) {
    pair(w->out, indent, key, list->of[0].text);
    return;
  }
  fprintf(w->out, "%*s", indent, "");
  scalar(w->out, key);
  fputs(": [", w->out);
  for (int i = 0; i < list->count; i++) {
    int length = (int)strlen(list->of[i].text) + 4;
    if (column + length > COLUMNS) {
      fprintf(w->out, "\n%*s", indent + 4, "");
      column = indent + 4;
    } else if (i) {
      fputc(' ', w->out);
    }
    scalar(w->out, list->of[i].text);
    if (i + 1 < list->count) fputc(',', w->out);
    column += length;
  }
  fputs("]\n", w->out);
}

// ---------------------------------- comments -----------------------------------------------------

static void comment(const Writer *w, int indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A comment in lines of at most 100 columns. Names out of a model may contain anything: a line's end is
// written as a space.
static void comment(const Writer *w, int indent, const char *format, ...) {
  char text[1024];
  va_list arguments;
  if (!w->comments) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *c = text; *c; c++) {
    if (iscntrl((unsigned char)*c)) *c = ' ';
  }
  for (const char *at = text; *at;) {
    int room = COLUMNS - indent - 2, length = (int)strlen(at);
    if (length > room) {
      length = room;
      while (length && at[length] != ' ') length--;
      if (!length) length = (int)strcspn(at, " ");
    }
    fprintf(w->out, "%*s# %.*s\n", indent, "", length, at);
    at += length;
    at += strspn(at, " ");
  }
}

static void gap(const Writer *w) {
  if (w->comments) fputc('\n', w->out);
}

// a line that people may uncomment
static void example(const Writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void example(const Writer *w, const char *format, ...) {
  va_list arguments;
  if (!w->comments) return;
  fputs("#", w->out);
  va_start(arguments, format);
  vfprintf(w->out, format, arguments);
  va_end(arguments);
  fputc('\n', w->out);
}

// ---------------------------------- the model and time -------------------------------------------

static void write_model(const Writer *w, const char *model_name) {
  const Robot *r = w->robot;
  if (!r->help.text) {
    comment(w, 0, "a line for lists");
    example(w, "help: a robot of mine");
    gap(w);
  }
  pair(w->out, 0, "help", r->help.text);
  comment(w, 0, "the MJCF or URDF file, relative to this file");
  pair(w->out, 0, "model", model_name);
  if (r->base != BASE_DEFAULT) pair(w->out, 0, "base", r->base == BASE_FREE ? "free" : "fixed");
  if (w->comments) pair(w->out, 0, "assets", r->assets.text);
  gap(w);
}

static void write_camera(const Writer *w) {
  const char *camera = w->robot->camera.text;
  char names[256] = "";
  for (int c = 0; c < w->model->ncam && w->comments; c++) {
    const char *name = mj_id2name(w->model, mjOBJ_CAMERA, c);
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%.40s", used ? ", " : "", name ? name : "");
  }
  if (*names) comment(w, 0, "the camera of pictures and films, one of: %s", names);
  else comment(w, 0, "the model has no camera: pictures and films show all of it");
  pair(w->out, 0, "camera", camera);
  gap(w);
}

static void write_time(const Writer *w) {
  char text[NUMBER];
  double dt = w->robot->substeps * w->model->opt.timestep;
  comment(w, 0, "physics steps of a control step: %d × %g s = %g ms", w->robot->substeps,
          w->model->opt.timestep, 1000 * dt);
  number(text, w->robot->substeps);
  pair(w->out, 0, "substeps", text);
  comment(w, 0, "control steps of an episode: %d × %g ms = %g s", w->robot->episode, 1000 * dt,
          w->robot->episode * dt);
  number(text, w->robot->episode);
  pair(w->out, 0, "episode", text);
  gap(w);
  write_camera(w);
  comment(w, 0,
          "range: an action of ±1 is an end of its control's range; raw: an action is the control, "
          "clipped to its range. The model has %d controls",
          (int)w->model->nu);
  pair(w->out, 0, "actions", w->robot->actions == ACTIONS_RAW ? "raw" : "range");
  gap(w);
}

// ---------------------------------- observed -----------------------------------------------------

static void write_observed(const Writer *w) {
  const Robot *r = w->robot;
  char size[NUMBER];
  comment(
      w, 0,
      "What the agent observes, in named parts: %d numbers. An entry is a quantity (torso.z), a "
      "vector (qpos.7.., velocimeter), a vector in a frame (hand in torso), a function of each "
      "number (asinh(force)) or any expression.",
      r->size);
  for (int i = 0; i < r->notes.count; i++) comment(w, 0, "Note: %s.", r->notes.of[i].text);
  fputs("observed:\n", w->out);
  for (int p = 0; p < r->observed_count; p++) {
    list(w, 2, r->observed[p].name.text, &r->observed[p].items);
  }
  number(size, r->size);
  if (!w->comments) pair(w->out, 0, "size", size);  // people change what is observed
  if (r->goal.count) {
    list(w, 0, "goal", &r->goal);
  } else {
    comment(w, 0, "the parts that bfm train takes as the space of goals; without it, all of them");
    example(w, "goal: %s", r->observed[0].name.text);
  }
  gap(w);
}

// ---------------------------------- resets -------------------------------------------------------

static void write_noise(FILE *out, const RobotReset *reset) {
  static const char *const names[] = {"qpos", "joints", "qvel"};
  const RobotNoise *noises[] = {&reset->qpos, &reset->joint_noise, &reset->qvel};
  const char *separator = "";
  fputs("noise: {", out);
  for (int i = 0; i < 3; i++) {
    char text[NUMBER];
    if (noises[i]->size <= 0) continue;
    number(text, noises[i]->size);
    fprintf(out, "%s%s: %s %s", separator, names[i], noises[i]->normal ? "normal" : "uniform",
            text);
    separator = ", ";
  }
  fputs("}\n", out);
}

static void write_joints(FILE *out, const RobotReset *reset) {
  if (!reset->joint_count) {
    pair(out, 0, "joints", reset->limited ? "limited" : "random");
    return;
  }
  fputs("joints:\n", out);
  for (int i = 0; i < reset->joint_count; i++) {
    char text[NUMBER];
    number(text, reset->joints[i].position);
    fputs("      ", out);
    scalar(out, reset->joints[i].name.text);
    fprintf(out, ": %s\n", text);
  }
}

static void write_raise(FILE *out, const RobotReset *reset) {
  char by[NUMBER], from[NUMBER];
  number(by, reset->by);
  number(from, reset->from);
  if (isnan(reset->from)) fprintf(out, "raise: %s\n", by);
  else fprintf(out, "raise: {from: %s, by: %s}\n", from, by);
}

int robot_write_reset(FILE *out, const RobotReset *reset, int in_bundle) {
  char name[PATH_MAX];
  switch (reset->kind) {
    case RESET_KEYFRAME: pair(out, 0, "keyframe", reset->text.text); break;
    case RESET_JOINTS: write_joints(out, reset); break;
    case RESET_NOISE: write_noise(out, reset); break;
    case RESET_ORIENTATION: pair(out, 0, "orientation", "random"); break;
    case RESET_RAISE: write_raise(out, reset); break;
    case RESET_REDRAW: fputs(reset->limited ? "redraw: floor\n" : "redraw\n", out); break;
    case RESET_SETTLE: fprintf(out, "settle: %d\n", reset->steps); break;
    case RESET_STATES:
      TRY(path_inside(name, reset->text.text));
      pair(out, 0, "states", in_bundle ? name : reset->text.text);
  }
  return BFM_OK;
}

static int write_resets(const Writer *w) {
  const Robot *r = w->robot;
  comment(
      w, 0,
      "How an episode starts: these steps, in this order, on the model's default state. The steps "
      "are keyframe: NAME, states: FILE.npz, joints: random or limited or {NAME: "
      "POSITION}, noise: {qpos: uniform 0.1, joints: uniform 0.1, qvel: normal 0.1}, orientation: "
      "random, raise: 0.01, redraw, settle: 200");
  fputs(r->reset_count ? "reset:\n" : "reset: []\n", w->out);
  for (int i = 0; i < r->reset_count; i++) {
    fputs("  - ", w->out);
    TRY(robot_write_reset(w->out, r->resets + i, !w->comments));
  }
  gap(w);
  return BFM_OK;
}

// ---------------------------------- expressions --------------------------------------------------

static void write_terminated(const Writer *w, const char *body) {
  if (!w->robot->terminated.text) {
    comment(w, 0, "an episode is over where this is not 0; without it, only after its last step");
    example(w, "terminated: %s.zz < 0", body);
    gap(w);
  }
  pair(w->out, 0, "terminated", w->robot->terminated.text);
}

static void write_aliases(const Writer *w, const char *body) {
  const Robot *r = w->robot;
  comment(w, 0, "names for expressions; bfm names lists what they can use");
  if (!r->alias_count) {
    example(w, "aliases:");
    example(w, "  upright: {is: (1 + %s.zz) / 2, help: 1 when upright}", body);
    example(w, "  speed: %s.vx", body);
    gap(w);
    return;
  }
  fputs("aliases:\n", w->out);
  for (int i = 0; i < r->alias_count; i++) {
    const Alias *alias = r->aliases + i;
    if (!*alias->help) {
      pair(w->out, 2, alias->name, alias->expression);
      continue;
    }
    fprintf(w->out, "  %s:\n", alias->name);
    pair(w->out, 4, "is", alias->expression);
    pair(w->out, 4, "help", alias->help);
  }
  gap(w);
}

static void write_tasks(const Writer *w, const char *body) {
  static const char *const kinds[] =
      {[TASK_KNOWN] = NULL, [TASK_NEW] = "new", [TASK_PROMPT] = "prompt"};
  const Robot *r = w->robot;
  comment(
      w, 0,
      "Named rewards. bfm collect --with mood trains an agent for each known task; new tasks are "
      "for tests only.");
  if (!r->task_count) {
    example(w, "tasks:");
    example(w, "  upright: {reward: %s.zz, help: stay upright}", body);
    example(w, "  forward: {reward: \"%s.zz * tolerance(%s.vx, 1, inf, 1)\", help: go ahead}", body,
            body);
    example(w, "  back: {reward: -%s.vx, kind: new, help: go back}", body);
    gap(w);
    return;
  }
  fputs("tasks:\n", w->out);
  for (int i = 0; i < r->task_count; i++) {
    const Task *task = r->tasks + i;
    fprintf(w->out, "  %s:\n", task->name);
    pair(w->out, 4, "reward", task->expression);
    pair(w->out, 4, "step", task->step);
    pair(w->out, 4, "help", *task->help ? task->help : NULL);
    pair(w->out, 4, "kind", kinds[task->kind]);
  }
  gap(w);
}

// ---------------------------------- edits --------------------------------------------------------

static void write_element(const Writer *w, const RobotEdit *edit) {
  char element[2 * REWARD_MAX_LENGTH + 2];
  if (edit->name.text == edit->type.text) snprintf(element, sizeof element, "%s", edit->type.text);
  else snprintf(element, sizeof element, "%s %s", edit->type.text, edit->name.text);
  scalar(w->out, element);
}

static int is_same_element(const RobotEdit *a, const RobotEdit *b) {
  return !strcmp(a->type.text, b->type.text) && !strcmp(a->name.text, b->name.text);
}

// the edits of one kind, which lie together
static void write_edits_of(const Writer *w, RobotEditKind kind) {
  static const char *const keys[] = {"remove", "change", "add"};
  int changes = kind != EDIT_REMOVE;
  const RobotEdit *last = NULL;
  for (int i = 0; i < w->robot->edit_count; i++) {
    const RobotEdit *edit = w->robot->edits + i;
    if (edit->kind != kind) continue;
    if (!last) fprintf(w->out, "  %s:\n", keys[kind]);
    if (!changes || !last || !is_same_element(last, edit)) {
      fputs(changes ? "    " : "    - ", w->out);
      write_element(w, edit);
      fputs(changes ? ":\n" : "\n", w->out);
    }
    if (changes) pair(w->out, 6, edit->attribute.text, edit->value.text);
    last = edit;
  }
}

static void write_edits(const Writer *w) {
  const Robot *r = w->robot;
  if (!r->edit_count) {
    comment(w, 0, "changes to the model before it is compiled");
    example(w, "edits:");
    example(w, "  change:");
    example(w, "    option: {timestep: %g}", w->model->opt.timestep);
    return;
  }
  fputs("edits:\n", w->out);
  for (int i = 0; i < r->edit_count; i++) {
    RobotEditKind kind = r->edits[i].kind;
    if (!i || r->edits[i - 1].kind != kind) write_edits_of(w, kind);
  }
}

// ---------------------------------- the file -----------------------------------------------------

static int write_robot(const Writer *w, const char *model_name) {
  char body[ROBOT_ELEMENT];
  robot_element_name(w->robot, w->model, mjOBJ_BODY, quantities_robot(w->model), body);
  comment(
      w, 0,
      "A robot for bfm, with all that bfm chose for its model. Change anything; what you delete "
      "gets its default again. bfm robot check explains every mistake in this file at its line, "
      "bfm names lists what expressions can use, and docs/robots.md explains all keys.");
  gap(w);
  write_model(w, model_name);
  write_time(w);
  write_observed(w);
  TRY(write_resets(w));
  write_terminated(w, body);
  write_aliases(w, body);
  write_tasks(w, body);
  write_edits(w);
  return BFM_OK;
}

int robot_write(const Robot *robot, const mjModel *model, const char *model_name, int comments,
                char **yaml) {
  size_t size;
  *yaml = NULL;
  FILE *out = open_memstream(yaml, &size);
  if (!out) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", robot->file);
  const Writer w = {out, robot, model, comments};
  int status = write_robot(&w, model_name), failed = ferror(out);
  if ((fclose(out) || failed) && !status) {
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for %s", robot->file);
  }
  if (status) {
    free(*yaml);
    *yaml = NULL;
  }
  return status;
}
