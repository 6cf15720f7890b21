// bfm serve: the playground. It offers models to a browser, where one types rewards and sees them become
// behaviour.

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "serve/serve.h"

extern char **environ;

typedef struct {
  int64_t port, clients, threads;
  char host[OPTION_TEXT_SIZE], device[OPTION_TEXT_SIZE];
} ServeOptions;

#define AT(field) offsetof(ServeOptions, field)

static const Option serve_options[] = {
    {"port", OPTION_INT, AT(port), "8080", 0, 65535, NULL, "port to listen on; 0: a free one"},
    {"host", OPTION_TEXT, AT(host), "127.0.0.1", 0, 0, NULL,
     "address to listen on; any other than 127.0.0.1 lets other machines in"},
    {"clients", OPTION_INT, AT(clients), "8", 1, SERVE_CLIENTS_MOST, NULL,
     "pages that may be open at a time; each has a simulation of its own"},
    {"device", OPTION_TEXT, AT(device), "auto", 0, 0, NULL, "auto, cpu, cuda or cuda:n"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "CPU threads; 0: one per core"},
    {.name = NULL},
};

typedef struct {
  ServeOptions options;
  const char **paths;
  int count;
  int open;
} Arguments;

enum { KEY_OPEN = 0x900 };

static const struct argp_option own_options[] = {
    {"open", KEY_OPEN, NULL, 0, "open the page in the browser of this desktop", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  Arguments *a = state->input;
  switch (key) {
    case KEY_OPEN: a->open = 1; return 0;
    case ARGP_KEY_ARG: a->paths[a->count++] = arg; return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

// No shell sees the address. Whether a browser appears is not our business: the address was printed.
static void open_browser(const char *address) {
  char *words[] = {"xdg-open", (char *)address, NULL};
  pid_t child;
  int error = posix_spawnp(&child, words[0], NULL, NULL, words, environ);
  if (error)
    fprintf(stderr, "bfm: cannot run xdg-open: %s; open the address yourself\n", strerror(error));
}

static int serve(const Arguments *a, Models *models) {
  const ServeOptions *o = &a->options;
  ServerOptions options = {.host = o->host, .port = (int)o->port, .clients = (int)o->clients,
                           .models = models, .stop = &cli_stop};
  Server *server;
  int status = server_new(&server, &options);
  if (status) {
    models_free(models);
    return status;
  }
  if (server_is_public(server)) {
    fprintf(stderr,
            "bfm: warning: other machines can reach %s; whoever knows the token can use this "
            "server, and the connection is not encrypted\n",
            o->host);
  }
  printf("bfm serve: %s\n", server_address(server));
  fflush(stdout);
  if (a->open) open_browser(server_address(server));
  status = server_run(server);
  if (server_is_busy(server)) _exit(status ? cli_fail(status) : BFM_OK);
  models_free(models);  // ends the thread that tells the server about runs
  server_free(server);
  return status;
}

static int run(void *input) {
  Arguments *a = input;
  Models *models;
  cli_catch_signals();
  TRY(models_new(&models, a->paths, a->count, a->options.device, (int)a->options.threads));
  return serve(a, models);
}

int cli_serve(int argc, char **argv) {
  Arguments a = {.paths = calloc(argc, sizeof *a.paths)};
  if (!a.paths) return cli_fail(bfm_fail(BFM_NO_MEMORY, "out of memory for %d arguments", argc));
  Flags flags = {.table = serve_options, .fields = &a.options, .heading = "The server"};
  const CommandLine line = {
      .options = own_options, .parse = parse, .arguments = "[MODEL.safetensors | FOLDER]...",
      .help =
          "Open the playground: type a reward in a browser and see the robot obey, change it while "
          "it moves, pull it, pose it, compare prompts, and take the result home as code. Give "
          "models, "
          "folders of models, or folders of runs, which are then shown while they train; without "
          "arguments, the models of the folder models are offered. The printed address holds a "
          "token that lets your browser in; bfm serve runs until Ctrl-C.\v"
          "Examples:\n"
          "  bfm serve\n"
          "  bfm serve models/walker.safetensors --open\n"
          "  bfm serve runs/walker --port 8000\n"
          "  ssh -L 8080:127.0.0.1:8080 machine   # then open the address of the bfm serve there\n",
      .flags = {&flags}, .run = run};
  int status = cli_run(&line, argc, argv, &a);
  free(a.paths);
  return status;
}
