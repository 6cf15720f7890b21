// bfm tasks: list the built-in tasks of one domain or of all.

#include "cli/cli.h"
#include "envs/domain.h"
#include "envs/tasks.h"

typedef struct {
  const char *domain;
  int json;
} Arguments;

static const struct argp_option own_options[] = {
    {"json", 'j', NULL, 0, "print one JSON object per task, each on a line", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'j': a->json = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->domain)
        argp_error(state, "name one domain, or none for all, not %s and %s", a->domain, arg);
      a->domain = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const char *const kinds[] = {
    [TASK_KNOWN] = "known",
    [TASK_NEW] = "new",
    [TASK_PROMPT] = "prompt",
};

static void print_json(const char *domain, const Task *task) {
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "domain", domain);
  cJSON_AddStringToObject(item, "task", task->name);
  cJSON_AddStringToObject(item, "kind", kinds[task->kind]);
  cJSON_AddStringToObject(item, "help", task->help);
  if (task->expression) cJSON_AddStringToObject(item, "reward", task->expression);
  cli_print_json(item);
  cJSON_Delete(item);
}

static void print_task(const char *domain, const Task *task, int with_reward) {
  printf("%-12s%-20s%-8s%s\n", domain, task->name, kinds[task->kind], task->help);
  if (with_reward && task->expression) printf("%12s= %s\n", "", task->expression);
}

static int run(const Arguments *a) {
  const Domain *domain = NULL;
  if (a->domain) TRY(domain_find(&domain, a->domain));
  for (int i = 0; domain_at(i); i++) {
    if (domain && domain_at(i) != domain) continue;
    const char *name = domain_at(i)->name;
    const Task *task;
    for (int k = 0; (task = task_at(name, k)); k++) {
      if (a->json) print_json(name, task);
      else print_task(name, task, domain != NULL);
    }
  }
  return BFM_OK;
}

int cli_tasks(int argc, char **argv) {
  const struct argp argp = {
      own_options,
      parse,
      "[DOMAIN]",
      "List the built-in tasks of all domains, or of one domain with their reward expressions. The "
      "third column is the kind of the task: the agents that bfm collect --with mood trains "
      "pursue the known tasks; new tasks are not in that data; prompt tasks are examples of typed "
      "rewards.\v"
      "Examples:\n"
      "  bfm tasks\n"
      "  bfm tasks walker\n",
      NULL,
      NULL,
      NULL};
  Arguments a = {0};
  int status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  return status;
}
