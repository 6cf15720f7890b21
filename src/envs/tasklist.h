// Lists of tasks: from the text that a user types to names and expressions.

#ifndef BFM_ENVS_TASKLIST_H
#define BFM_ENVS_TASKLIST_H

#include "core/status.h"

#define TASKLIST_MAX 64

typedef struct {
  int count;
  char *text[TASKLIST_MAX];
} TaskList;

// Names, expressions and groups, separated by commas (those in parentheses belong to an expression).
// Groups: "in" are the domain's tasks of the datasets, "new" the new ones, "all" both. The code that
// evaluates the tasks checks their names.
int tasklist_parse(TaskList *list, const char *domain, const char *text);
void tasklist_free(TaskList *list);

#endif
