// Which tasks: a list as people type it becomes names and expressions.

#ifndef BFM_ENVS_TASKLIST_H
#define BFM_ENVS_TASKLIST_H

#include "core/status.h"

#define TASKLIST_MAX 64

typedef struct {
  int count;
  char *text[TASKLIST_MAX];
} TaskList;

// "all": the domain's tasks of the datasets and the new ones, "in": of the datasets, "new", names
// and expressions, separated by commas (those within brackets belong to an expression). Names are
// checked by who evaluates them
int tasklist_parse(TaskList *list, const char *domain, const char *text);
void tasklist_free(TaskList *list);

#endif
