// bfm tasks: list the built-in tasks of one domain or of all.

#include "cli/cli.h"
#include "cli/domain_arg.h"
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
  printf("%-11s %-19s %-8s%s\n", domain, task->name, kinds[task->kind], task->help);
  if (with_reward && task->expression) printf("%12s= %s\n", "", task->expression);
}

static void list(const Arguments *a, const Domain *domain) {
  for (const Task *task = domain->tasks; task && task->name; task++) {
    if (a->json) print_json(domain->name, task);
    else print_task(domain->name, task, a->domain != NULL);
  }
}

static int run(const Arguments *a) {
  const Domain *domain;
  if (a->domain) {
    TRY(domain_arg(&domain, a->domain));
    list(a, domain);
    return BFM_OK;
  }
  for (int i = 0; (domain = domain_at(i)); i++) list(a, domain);
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
      "rewards. " DOMAIN_ARG_HELP
      "\v"
      "Examples:\n"
      "  bfm tasks\n"
      "  bfm tasks walker\n"
      "  bfm tasks my_robot.yaml\n",
      NULL,
      NULL,
      NULL};
  Arguments a = {0};
  int status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  return status;
}
