// bfm names: list the aliases, model names and functions that a reward of a domain can use.

#include "cli/cli.h"
#include "cli/domain_arg.h"
#include "envs/quantities.h"

typedef struct {
  const char *domain;
  int json;
} Arguments;

static const struct argp_option own_options[] = {
    {"json", 'j', NULL, 0, "print one JSON object with every name", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case 'j': a->json = 1; return 0;
    case ARGP_KEY_ARG:
      if (a->domain) argp_error(state, "name one domain, not %s and %s", a->domain, arg);
      a->domain = arg;
      return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "name a domain: bfm names walker"); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static void print_names(const World *world) {
  for (const Alias *alias = world->domain->aliases; alias && alias->name; alias++) {
    printf("%-16s%s\n%16s= %s\n", alias->name, alias->help, "", alias->expression);
  }
  putchar('\n');
  quantities_help(world->model, stdout);
  puts("\nOperators, functions and constants:");
  reward_help(stdout);
}

static void add_name(void *context, const char *kind, const char *name, const char *help) {
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "kind", kind);
  cJSON_AddStringToObject(item, "name", name);
  cJSON_AddStringToObject(item, "help", help);
  cJSON_AddItemToArray(context, item);
}

static void print_json(const World *world) {
  cJSON *result = cJSON_CreateObject();
  cJSON_AddStringToObject(result, "domain", world->domain->name);
  cJSON *aliases = cJSON_AddObjectToObject(result, "aliases");
  for (const Alias *alias = world->domain->aliases; alias && alias->name; alias++) {
    cJSON_AddStringToObject(aliases, alias->name, alias->expression);
  }
  quantities_each(world->model, add_name, cJSON_AddArrayToObject(result, "names"));
  cli_print_json(result);
  cJSON_Delete(result);
}

static int run(const Arguments *a) {
  const Domain *domain;
  const World *world;
  TRY(domain_arg(&domain, a->domain));
  TRY(world_acquire(&world, domain));
  if (a->json) print_json(world);
  else print_names(world);
  world_release(world);
  return BFM_OK;
}

int cli_names(int argc, char **argv) {
  const struct argp argp =
      {own_options,
       parse,
       "DOMAIN",
       "List everything that a reward of a domain can use: the domain's aliases, the bodies, "
       "joints, sensors and actuators of its model with their quantities, and the functions. bfm "
       "tasks lists the domains. " DOMAIN_ARG_HELP
       "\v"
       "Examples (the second uses names from the first):\n"
       "  bfm names walker\n"
       "  bfm names my_robot.xml\n"
       "  bfm prompt models/walker.safetensors --reward 'upright * (speed > 2)'\n",
       NULL,
       NULL,
       NULL};
  Arguments a = {0};
  int status = cli_parse(&argp, argc, argv, &a);
  if (!status && (status = run(&a))) status = cli_fail(status);
  return status;
}
