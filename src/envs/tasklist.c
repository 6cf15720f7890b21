// Lists of tasks. Groups are looked up in the table of tasks; the rest is split at commas outside
// of parentheses.

#include "envs/tasklist.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "envs/tasks.h"

static const struct {
  const char *name;
  int known, fresh;  // 1: includes the tasks of the datasets, includes the new tasks
} groups[] = {{"all", 1, 1}, {"in", 1, 0}, {"new", 0, 1}};
#define GROUP_COUNT ((int)(sizeof groups / sizeof *groups))

static int add(TaskList *list, const char *text, size_t length) {
  if (list->count == TASKLIST_MAX) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the list has more than %d tasks", TASKLIST_MAX);
  }
  char *copy = strndup(text, length);
  if (!copy) return bfm_fail(BFM_NO_MEMORY, "out of memory for a list of tasks");
  list->text[list->count++] = copy;
  return BFM_OK;
}

static int add_group(TaskList *list, const char *domain, int group) {
  const Task *task;
  int before = list->count;
  for (int i = 0; (task = task_at(domain, i)); i++) {
    int wanted = (task->kind == TASK_KNOWN && groups[group].known) ||
                 (task->kind == TASK_NEW && groups[group].fresh);
    if (wanted) TRY(add(list, task->name, strlen(task->name)));
  }
  if (list->count > before) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s has no tasks of the group \"%s\"", domain,
                  groups[group].name);
}

// adds the text between two commas
static int add_part(TaskList *list, const char *domain, const char *text, size_t length) {
  while (length && *text == ' ') text++, length--;
  while (length && text[length - 1] == ' ') length--;
  if (!length)
    return bfm_fail(BFM_BAD_ARGUMENT, "the list of tasks has an empty entry: remove a comma");
  for (int i = 0; i < GROUP_COUNT; i++) {
    const char *name = groups[i].name;
    if (strlen(name) != length || strncasecmp(name, text, length)) continue;
    if (!strncmp(name, text, length)) return add_group(list, domain, i);
    return bfm_fail(BFM_BAD_ARGUMENT, "there is no group of tasks \"%.*s\"; did you mean %s?",
                    (int)length, text, name);
  }
  return add(list, text, length);
}

static int parse(TaskList *list, const char *domain, const char *text) {
  const char *start = text;
  for (int depth = 0;; text++) {
    depth += (*text == '(') - (*text == ')');
    if (*text && (*text != ',' || depth > 0)) continue;
    TRY(add_part(list, domain, start, text - start));
    if (!*text) return BFM_OK;
    start = text + 1;
  }
}

int tasklist_parse(TaskList *list, const char *domain, const char *text) {
  *list = (TaskList){.count = 0};
  int status = parse(list, domain, text);
  if (status) tasklist_free(list);
  return status;
}

void tasklist_free(TaskList *list) {
  for (int i = 0; i < list->count; i++) free(list->text[i]);
  list->count = 0;
}
