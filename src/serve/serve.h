// The playground's server: the page by HTTP, and one WebSocket per client.

#ifndef BFM_SERVE_SERVE_H
#define BFM_SERVE_SERVE_H

#include <signal.h>

#include "serve/models.h"

enum { SERVE_CLIENTS_MOST = 64 };

typedef struct {
  const char *host;
  int port;     // 0: a free one
  int clients;  // at most so many at a time, up to SERVE_CLIENTS_MOST
  Models *models;
  const volatile sig_atomic_t *stop;  // the server ends soon after this has become true
} ServerOptions;

typedef struct Server Server;

// After this the server listens; server_run answers until it is stopped.
int server_new(Server **server, const ServerOptions *options);
int server_run(Server *server);
// Whether threads of clients still run after server_run: to draw a film's first picture may take long on
// a busy machine. They end with the process; neither server nor models may be freed before.
int server_is_busy(Server *server);
void server_free(Server *server);

// The page's address with the token, as one opens it in a browser.
const char *server_address(const Server *server);
int server_is_public(const Server *server);  // whether other machines can reach it

#endif
