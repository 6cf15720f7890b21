// A robot as JSON, and its lines for people. Both say the same, so that nothing is chosen without being shown.

#include "cli/robot_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envs/domain.h"
#include "envs/robot.h"
#include "envs/robot_write.h"
#include "envs/tasks.h"

enum { INDENT = 17, COLUMNS = 100 };

// ---------------------------------- as JSON ------------------------------------------------------

static void add_text(cJSON *info, const char *key, const char *text) {
  if (text && *text) cJSON_AddStringToObject(info, key, text);
  else cJSON_AddNullToObject(info, key);
}

static void add_counts(cJSON *info, const mjModel *m) {
  const struct {
    const char *name;
    double value;
  } rows[] = {{"bodies", (double)m->nbody - 1},
              {"joints", (double)m->njnt},
              {"dofs", (double)m->nv},
              {"actuators", (double)m->nu},
              {"sensors", (double)m->nsensor}};
  double mass = 0;
  for (int b = 1; b < m->nbody; b++) mass += m->body_mass[b];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cJSON_AddNumberToObject(info, rows[i].name, rows[i].value);
  }
  cJSON_AddNumberToObject(info, "mass_kg", mass);
  cJSON *states = cJSON_AddObjectToObject(info, "states");
  cJSON_AddNumberToObject(states, "qpos", (double)m->nq);
  cJSON_AddNumberToObject(states, "qvel", (double)m->nv);
  if (m->na) cJSON_AddNumberToObject(states, "act", (double)m->na);
}

static void add_time(cJSON *info, const World *world) {
  const Domain *domain = world->domain;
  double timestep = world->model->opt.timestep, dt = domain->substeps * timestep;
  cJSON_AddNumberToObject(info, "control_step_ms", 1000 * dt);
  cJSON_AddNumberToObject(info, "substeps", domain->substeps);
  cJSON_AddNumberToObject(info, "timestep_ms", 1000 * timestep);
  cJSON_AddNumberToObject(info, "episode", domain->episode_steps);
  cJSON_AddNumberToObject(info, "episode_s", domain->episode_steps * dt);
}

static cJSON *texts(const RobotList *list) {
  cJSON *array = cJSON_CreateArray();
  for (int i = 0; i < list->count; i++) {
    cJSON_AddItemToArray(array, cJSON_CreateString(list->of[i].text));
  }
  return array;
}

static void add_observed(cJSON *info, const World *world) {
  const Robot *robot = world->domain->robot;
  cJSON_AddNumberToObject(info, "obs_dim", world->domain->obs_dim);
  cJSON *parts = cJSON_AddArrayToObject(info, "observed");
  for (int p = 0; p < robot->observed_count; p++) {
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "name", robot->observed[p].name.text);
    cJSON_AddNumberToObject(part, "count", world_part(world, p).count);
    cJSON_AddItemToObject(part, "items", texts(&robot->observed[p].items));
    cJSON_AddItemToArray(parts, part);
  }
}

// the joint that an actuator moves, or NULL
static const char *moved_by(const mjModel *m, int actuator) {
  int type = m->actuator_trntype[actuator], joint = m->actuator_trnid[2 * actuator];
  return type == mjTRN_JOINT || type == mjTRN_JOINTINPARENT ? mj_id2name(m, mjOBJ_JOINT, joint)
                                                            : NULL;
}

static void add_actions(cJSON *info, const World *world) {
  const mjModel *m = world->model;
  cJSON_AddNumberToObject(info, "act_dim", m->nu);
  cJSON_AddStringToObject(info, "scaling", world->domain->scaled ? "range" : "raw");
  cJSON *actions = cJSON_AddArrayToObject(info, "actions");
  for (int u = 0; u < m->nu; u++) {
    const char *name = mj_id2name(m, mjOBJ_ACTUATOR, u);
    cJSON *action = cJSON_CreateObject();
    char number[32];
    snprintf(number, sizeof number, "actuator:%d", u);
    cJSON_AddStringToObject(action, "name", name && *name ? name : number);
    add_text(action, "joint", moved_by(m, u));
    cJSON_AddNumberToObject(action, "low", m->actuator_ctrlrange[2 * u]);
    cJSON_AddNumberToObject(action, "high", m->actuator_ctrlrange[2 * u + 1]);
    cJSON_AddItemToArray(actions, action);
  }
}

static int add_resets(cJSON *info, const Robot *robot) {
  cJSON *steps = cJSON_AddArrayToObject(info, "reset");
  for (int i = 0; i < robot->reset_count; i++) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", robot->file);
    int status = robot_write_reset(out, robot->resets + i, 0);
    fclose(out);
    if (text) text[strcspn(text, "\n")] = 0;
    if (!status) cJSON_AddItemToArray(steps, cJSON_CreateString(text ? text : ""));
    free(text);
    TRY(status);
  }
  return BFM_OK;
}

static void add_words(cJSON *info, const Robot *robot) {
  static const char *const kinds[] =
      {[TASK_KNOWN] = "known", [TASK_NEW] = "new", [TASK_PROMPT] = "prompt"};
  cJSON *aliases = cJSON_AddObjectToObject(info, "aliases");
  for (int i = 0; i < robot->alias_count; i++) {
    cJSON_AddStringToObject(aliases, robot->aliases[i].name, robot->aliases[i].expression);
  }
  cJSON *tasks = cJSON_AddArrayToObject(info, "tasks");
  for (int i = 0; i < robot->task_count; i++) {
    const Task *task = robot->tasks + i;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", task->name);
    cJSON_AddStringToObject(item, "kind", kinds[task->kind]);
    cJSON_AddStringToObject(item, "help", task->help);
    cJSON_AddStringToObject(item, task->step ? "step" : "reward",
                            task->step ? task->step : task->expression);
    cJSON_AddItemToArray(tasks, item);
  }
}

static int describe(const World *world, cJSON *info) {
  const Robot *robot = world->domain->robot;
  cJSON_AddStringToObject(info, "kind", "robot");
  cJSON_AddStringToObject(info, "name", world->domain->name);
  add_text(info, "help", world->domain->help);
  add_counts(info, world->model);
  add_time(info, world);
  add_observed(info, world);
  add_actions(info, world);
  TRY(add_resets(info, robot));
  add_text(info, "terminated", robot->terminated.text);
  add_text(info, "camera", robot->camera.text);
  cJSON_AddItemToObject(info, "goal", texts(&robot->goal));
  add_words(info, robot);
  cJSON_AddItemToObject(info, "notes", texts(&robot->notes));
  return BFM_OK;
}

int robot_info(const char *path, cJSON *info) {
  const Domain *domain;
  const World *world;
  TRY(domain_find(&domain, path));
  TRY(world_acquire(&world, domain));
  int status = describe(world, info);
  world_release(world);
  return status;
}

// ---------------------------------- for people ---------------------------------------------------

static const cJSON *get(const cJSON *info, const char *key) {
  return cJSON_GetObjectItem(info, key);
}

static double number(const cJSON *info, const char *key) { return get(info, key)->valuedouble; }

// the words of a text, in lines that begin in column INDENT
static void wrap(const char *name, const char *text) {
  int column = printf("  %-*s ", INDENT - 3, name);
  while (*text) {
    int length = (int)strcspn(text, " ");
    if (column > INDENT && column + length > COLUMNS) {
      printf("\n%*s", INDENT, "");
      column = INDENT;
    }
    int space = (int)strspn(text + length, " ");
    column += printf("%.*s%s", length, text, space ? " " : "");
    text += length + space;
  }
  putchar('\n');
}

// "begin one, two, three"
static void wrap_list(const char *name, const char *begin, const cJSON *list) {
  const cJSON *item;
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) return;
  fputs(begin, out);
  cJSON_ArrayForEach(item, list) fprintf(out, "%s%s", item->valuestring, item->next ? ", " : "");
  fclose(out);
  wrap(name, text);
  free(text);
}

static void print_part(const cJSON *part) {
  char head[80], count[32];
  snprintf(head, sizeof head, "  %s", get(part, "name")->valuestring);
  snprintf(count, sizeof count, "%d: ", get(part, "count")->valueint);
  wrap_list(head, count, get(part, "items"));
}

static void print_actions(const cJSON *info) {
  const cJSON *action;
  int raw = !strcmp(get(info, "scaling")->valuestring, "raw");
  printf("  %-*s%.0f, %s\n", INDENT - 2, "actions", number(info, "act_dim"),
         raw ? "which are the controls, clipped to their ranges"
             : "of which ±1 is an end of the control's range");
  cJSON_ArrayForEach(action, get(info, "actions")) {
    const char *name = get(action, "name")->valuestring;
    const cJSON *joint = get(action, "joint");
    int shown = cJSON_IsString(joint) && strcmp(joint->valuestring, name) != 0;
    printf("    %-*s %g … %g%s%s\n", INDENT - 5, name, number(action, "low"),
           number(action, "high"), shown ? ", moves " : "", shown ? joint->valuestring : "");
  }
}

static void print_tasks(const cJSON *tasks) {
  const cJSON *task;
  if (!cJSON_GetArraySize(tasks)) wrap("tasks", "none of its own; any expression is a reward");
  cJSON_ArrayForEach(task, tasks) {
    char text[1024];
    snprintf(text, sizeof text, "%s (%s) %s", get(task, "name")->valuestring,
             get(task, "kind")->valuestring, get(task, "help")->valuestring);
    wrap(task == tasks->child ? "tasks" : "", text);
  }
}

static void print_text(const char *name, const cJSON *text, const char *none) {
  wrap(name, cJSON_IsString(text) ? text->valuestring : none);
}

static void print_counts(const cJSON *info) {
  static const struct {
    const char *key, *one, *several;
  } rows[] = {{"bodies", "body", "bodies"},
              {"joints", "joint", "joints"},
              {"dofs", "degree of freedom", "degrees of freedom"},
              {"actuators", "actuator", "actuators"},
              {"sensors", "sensor", "sensors"}};
  printf("  %-*s", INDENT - 2, "model");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double count = number(info, rows[i].key);
    printf("%.0f %s, ", count, count == 1 ? rows[i].one : rows[i].several);
  }
  printf("%.4g kg\n", number(info, "mass_kg"));
}

void robot_print(const cJSON *info) {
  const cJSON *item;
  printf("%s\n", get(info, "file")->valuestring);
  print_text("robot", get(info, "name"), "");
  if (cJSON_IsString(get(info, "help"))) print_text("help", get(info, "help"), "");
  print_counts(info);
  printf("  %-*s%g ms: %g physics step%s of %g ms\n", INDENT - 2, "control step",
         number(info, "control_step_ms"), number(info, "substeps"),
         number(info, "substeps") == 1 ? "" : "s", number(info, "timestep_ms"));
  printf("  %-*s%g control steps, %g s\n", INDENT - 2, "episode", number(info, "episode"),
         number(info, "episode_s"));
  printf("  %-*s%.0f numbers\n", INDENT - 2, "observed", number(info, "obs_dim"));
  cJSON_ArrayForEach(item, get(info, "observed")) print_part(item);
  print_actions(info);
  int resets = cJSON_GetArraySize(get(info, "reset"));
  wrap_list("reset", resets ? "" : "the model's default state", get(info, "reset"));
  print_text("terminated", get(info, "terminated"), "never: only the time limit ends an episode");
  print_text("camera", get(info, "camera"), "none: pictures look at the model from the side");
  int goals = cJSON_GetArraySize(get(info, "goal"));
  wrap_list("goal", goals ? "" : "the whole observation", get(info, "goal"));
  cJSON_ArrayForEach(item, get(info, "aliases")) {
    char text[512];
    snprintf(text, sizeof text, "%s = %s", item->string, item->valuestring);
    wrap(item == get(info, "aliases")->child ? "aliases" : "", text);
  }
  print_tasks(get(info, "tasks"));
  cJSON_ArrayForEach(item, get(info, "notes")) wrap("note", item->valuestring);
}
