// The server: sockets, HTTP and handshakes, on one thread. What a request may ask for is a table of pages;
// who may connect, the gate decides. A socket that has not become a client must get on within seconds.

#define _GNU_SOURCE  // accept4

#include "serve/serve.h"

#include <errno.h>
#include <libwebsockets.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"
#include "serve/client.h"
#include "serve/gate.h"
#include "serve/page.h"

enum {
  CLIENTS_MOST = SERVE_CLIENTS_MOST,
  OTHERS_MOST = 64,  // sockets that are not (yet) clients
  CONNECTIONS = CLIENTS_MOST + OTHERS_MOST,
  WAIT_SECONDS = 10,     // for a request, and for a part of a page to be taken
  END_MS = 500,          // for the last words when the server ends
  LEAVE_SECONDS = 3,     // for the clients' threads to notice then
  TICK_US = 100 * 1000,  // between looks at the clock
  CHUNK = 32 << 10,      // of a page
};

typedef struct {
  struct lws *wsi;   // NULL: the place is free
  double deadline;   // unless it is a client
  const Page *page;  // that is being sent
  size_t sent;
  Client *client;
} Connection;

// a client that has left; a thread of its own frees it, because its threads may take a while to notice
typedef struct {
  Server *server;
  Client *client;  // NULL: the place is free
} Leaver;

struct Server {
  ServerOptions options;
  Gate gate;
  char address[GATE_HOST + 64];
  struct lws_context *context;
  int listener;  // -1: libwebsockets has it
  lws_sorted_usec_list_t ticker;
  double ending;  // when the end began, or 0
  int done;
  Connection connections[CONNECTIONS];

  pthread_mutex_t lock;  // guards what follows, and the clients of connections against `broadcast`
  pthread_cond_t empty;  // nobody is leaving
  Leaver leavers[2 * CLIENTS_MOST];
  int leaving;
};

// ---------------------------------- clients ------------------------------------------------------

static int count_clients(const Server *server) {
  int count = 0;
  for (int i = 0; i < CONNECTIONS; i++) count += server->connections[i].client != NULL;
  return count;
}

static void *free_leaver(void *context) {
  Leaver *leaver = context;
  Server *server = leaver->server;
  client_free(leaver->client);
  malloc_trim(0);  // or a film's hundreds of megabytes would stay in the pools of its threads
  pthread_mutex_lock(&server->lock);
  leaver->client = NULL;
  if (!--server->leaving) pthread_cond_signal(&server->empty);
  pthread_mutex_unlock(&server->lock);
  return NULL;
}

static void free_soon(Leaver *leaver) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_leaver, leaver)) free_leaver(leaver);
  else pthread_detach(thread);
}

static void leave(Server *server, Connection *connection) {
  if (!connection->client) return;
  Leaver *leaver = server->leavers;
  pthread_mutex_lock(&server->lock);
  while (leaver->client) leaver++;  // has_room leaves enough of them
  *leaver = (Leaver){server, connection->client};
  connection->client = NULL;
  server->leaving++;
  pthread_mutex_unlock(&server->lock);
  client_leave(leaver->client);
  free_soon(leaver);
}

// A page that is loaded anew comes back before its client is freed.
static int has_room(Server *server) {
  pthread_mutex_lock(&server->lock);
  int leaving = server->leaving;
  pthread_mutex_unlock(&server->lock);
  return !server->ending && count_clients(server) < server->options.clients &&
         leaving <= server->options.clients;
}

static void wake(void *context) {
  Server *server = context;
  lws_cancel_service(server->context);
}

static void write_to_woken(Server *server) {
  for (int i = 0; i < CONNECTIONS; i++) {
    Connection *connection = &server->connections[i];
    if (!connection->client || !client_is_woken(connection->client)) continue;
    lws_callback_on_writable(connection->wsi);
  }
}

static int join(Server *server, Connection *connection) {
  Client *client;
  if (client_new(&client, server->options.models, wake, server)) return -1;
  lws_set_timeout(connection->wsi, NO_PENDING_TIMEOUT, 0);
  pthread_mutex_lock(&server->lock);
  connection->client = client;
  pthread_mutex_unlock(&server->lock);
  client_welcome(client);
  return 0;
}

// a message of the watch thread, to everyone
static void broadcast(void *context, cJSON *message) {
  Server *server = context;
  pthread_mutex_lock(&server->lock);
  for (int i = 0; i < CONNECTIONS; i++) {
    Client *client = server->connections[i].client;
    if (client) client_text(client, cJSON_Duplicate(message, 1));
  }
  pthread_mutex_unlock(&server->lock);
  cJSON_Delete(message);
}

static int receive(Connection *connection, const void *bytes, size_t size) {
  struct lws *wsi = connection->wsi;
  int last = lws_is_final_fragment(wsi) && !lws_remaining_packet_payload(wsi);
  client_receive(connection->client, bytes, size, lws_is_first_fragment(wsi), last,
                 lws_frame_is_binary(wsi));
  return 0;
}

static int send_to_client(Connection *connection) {
  switch (client_write(connection->client, connection->wsi)) {
    case CLIENT_IDLE: return 0;
    case CLIENT_MORE: lws_callback_on_writable(connection->wsi); return 0;
    default: break;
  }
  lws_close_reason(connection->wsi, LWS_CLOSE_STATUS_GOINGAWAY, NULL, 0);
  return -1;
}

// ---------------------------------- responses ----------------------------------------------------

// The headers of every response. Scripts, styles and connections are our own; nobody may put the page
// into a frame, and other origins may not load our files.
static const struct lws_protocol_vhost_options *headers(void) {
  static const struct lws_protocol_vhost_options list[] = {
      {&list[1], NULL, "content-security-policy:",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {&list[2], NULL, "x-content-type-options:", "nosniff"},
      {&list[3], NULL, "referrer-policy:", "no-referrer"},
      {&list[4], NULL, "cache-control:", "no-cache"},
      {NULL, NULL, "cross-origin-resource-policy:", "same-origin"},
  };
  return list;
}

// Write a response's head, and behind it a short body, which may be NULL.
static int send_head(struct lws *wsi, int status, const char *type, size_t size, const char *body) {
  unsigned char buffer[LWS_PRE + 2048], *start = buffer + LWS_PRE, *at = start,
                                        *end = buffer + sizeof buffer - 256;
  static const char allowed[] = "GET, HEAD";
  if (lws_add_http_common_headers(wsi, status, type, size, &at, end)) return -1;
  if (status == HTTP_STATUS_METHOD_NOT_ALLOWED &&
      lws_add_http_header_by_name(wsi, (const unsigned char *)"allow:",
                                  (const unsigned char *)allowed, sizeof allowed - 1, &at, end)) {
    return -1;
  }
  if (lws_finalize_http_header(wsi, &at, end)) return -1;
  if (body) {
    memcpy(at, body, size);
    at += size;
  }
  return lws_write(wsi, start, at - start, LWS_WRITE_HTTP) < at - start ? -1 : 0;
}

// a sentence as a response; 1: it was sent
static int say(struct lws *wsi, int status, const char *text) {
  return send_head(wsi, status, "text/plain; charset=utf-8", strlen(text), text) ? -1 : 1;
}

static int send_page(Connection *connection) {
  static unsigned char buffer[LWS_PRE + CHUNK];
  struct lws *wsi = connection->wsi;
  const Page *page = connection->page;
  if (!page) return 0;
  size_t left = page->end - page->begin - connection->sent, size = left < CHUNK ? left : CHUNK;
  memcpy(buffer + LWS_PRE, page->begin + connection->sent, size);
  int last = size == left;
  if (lws_write(wsi, buffer + LWS_PRE, size, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) <
      (int)size) {
    return -1;
  }
  connection->sent += size;
  connection->deadline = seconds_now() + WAIT_SECONDS;
  lws_set_timeout(wsi, PENDING_TIMEOUT_HTTP_CONTENT, WAIT_SECONDS);
  if (!last) {
    lws_callback_on_writable(wsi);
    return 0;
  }
  connection->page = NULL;
  return lws_http_transaction_completed(wsi) ? -1 : 0;
}

// ---------------------------------- requests -----------------------------------------------------

enum { HEADER_MOST = 320 };

// A header into out [HEADER_MOST]; one that is too long becomes "?", which nothing accepts. Returns
// whether there is one.
static int header(struct lws *wsi, enum lws_token_indexes name, char *out) {
  *out = 0;
  int length = lws_hdr_total_length(wsi, name);
  if (length > 0 && lws_hdr_copy(wsi, out, HEADER_MOST, name) < 0) strcpy(out, "?");
  return length > 0;
}

// what Host and Origin are compared with
static struct sockaddr *local_of(struct lws *wsi, struct sockaddr_storage *address) {
  *address = (struct sockaddr_storage){.ss_family = AF_INET};
  getsockname(lws_get_socket_fd(wsi), (struct sockaddr *)address, &(socklen_t){sizeof *address});
  return (struct sockaddr *)address;
}

static int is_host_ok(const Server *server, struct lws *wsi) {
  char host[HEADER_MOST];
  struct sockaddr_storage local;
  return header(wsi, WSI_TOKEN_HOST, host) &&
         gate_host_ok(&server->gate, host, local_of(wsi, &local));
}

static int is_origin_ok(const Server *server, struct lws *wsi) {
  char origin[HEADER_MOST];
  struct sockaddr_storage local;
  return !header(wsi, WSI_TOKEN_ORIGIN, origin) ||
         gate_origin_ok(&server->gate, origin, local_of(wsi, &local));
}

#define WRONG_HOST "This server has another name. Open the address that bfm serve has printed.\n"
#define FULL "All places are taken. Close another page of this server, or wait.\n"

// The path of a request into path [HEADER_MOST], "?" where there is a query. Returns the method.
static int read_request(struct lws *wsi, char *path) {
  char *uri = NULL;
  int size = 0, method = lws_http_get_uri_and_method(wsi, &uri, &size);
  int plain = uri && size < HEADER_MOST && !lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS);
  snprintf(path, HEADER_MOST, "%.*s", plain ? size : 1, plain ? uri : "?");
  return method;
}

static int answer(Server *server, Connection *connection) {
  struct lws *wsi = connection->wsi;
  char path[HEADER_MOST];
  int method = read_request(wsi, path);
  const Page *page = page_find(path);
  connection->deadline = seconds_now() + WAIT_SECONDS;
  // a body that nobody wants may be long: the connection ends
  if (method != LWSHUMETH_GET && method != LWSHUMETH_HEAD) {
    say(wsi, HTTP_STATUS_METHOD_NOT_ALLOWED, "Only GET and HEAD are answered.\n");
    return -1;
  }
  int sent = 0;
  if (!is_host_ok(server, wsi)) {
    sent = say(wsi, 421, WRONG_HOST);
  } else if (!strcmp(path, "/live")) {
    sent = has_room(server) ? say(wsi, 426, "This is the address of a WebSocket.\n")
                            : say(wsi, HTTP_STATUS_SERVICE_UNAVAILABLE, FULL);
  } else if (!page) {
    sent = say(wsi, HTTP_STATUS_NOT_FOUND, "There is no such page.\n");
  } else if (method == LWSHUMETH_HEAD) {
    sent = send_head(wsi, HTTP_STATUS_OK, page->type, page->end - page->begin, NULL) ? -1 : 1;
  }
  if (sent) return sent < 0 || lws_http_transaction_completed(wsi) ? -1 : 0;

  if (send_head(wsi, HTTP_STATUS_OK, page->type, page->end - page->begin, NULL)) return -1;
  connection->page = page;
  connection->sent = 0;
  lws_callback_on_writable(wsi);
  return 0;
}

// Whether a request may become a WebSocket: 0 yes; 1 no, and it was told why; -1 hang up.
static int check_upgrade(Server *server, struct lws *wsi) {
  char path[HEADER_MOST], upgrade[HEADER_MOST], protocols[HEADER_MOST];
  header(wsi, WSI_TOKEN_UPGRADE, upgrade);
  if (strcasecmp(upgrade, "websocket")) return -1;
  header(wsi, WSI_TOKEN_PROTOCOL, protocols);
  if (read_request(wsi, path) != LWSHUMETH_GET || strcmp(path, "/live")) {
    return say(wsi, HTTP_STATUS_NOT_FOUND, "There is no such page.\n");
  }
  if (!is_host_ok(server, wsi)) return say(wsi, 421, WRONG_HOST);
  if (!is_origin_ok(server, wsi)) {
    return say(wsi, HTTP_STATUS_FORBIDDEN, "A page of another server may not connect.\n");
  }
  if (!gate_token_ok(&server->gate, protocols)) {
    return say(wsi, HTTP_STATUS_FORBIDDEN, "The token is wrong.\n");
  }
  return has_room(server) ? 0 : say(wsi, HTTP_STATUS_SERVICE_UNAVAILABLE, FULL);
}

// ---------------------------------- sockets ------------------------------------------------------

static void drop(Connection *connection) {
  lws_set_timeout(connection->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
}

// A place for a new socket. If there is none, the socket that has waited longest must go: whoever means
// well needs milliseconds.
static Connection *find_place(Server *server) {
  Connection *oldest = NULL;
  int others = 0;
  for (int i = 0; i < CONNECTIONS; i++) {
    Connection *connection = &server->connections[i];
    if (!connection->wsi || connection->client) continue;
    others++;
    if (!oldest || connection->deadline < oldest->deadline) oldest = connection;
  }
  if (others >= OTHERS_MOST) {
    lws_set_timeout(oldest->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);
  }
  for (int i = 0; i < CONNECTIONS; i++) {
    if (!server->connections[i].wsi) return &server->connections[i];
  }
  return NULL;
}

static int accept_one(struct lws *listener) {
  struct sockaddr_storage peer;
  return accept4(lws_get_socket_fd(listener), (struct sockaddr *)&peer, &(socklen_t){sizeof peer},
                 SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void accept_all(Server *server, struct lws *listener) {
  int fd;
  while ((fd = accept_one(listener)) >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    Connection *connection = find_place(server);
    struct lws *wsi = NULL;
    if (connection) wsi = lws_adopt_socket_vhost(lws_get_vhost(listener), fd);
    else close(fd);
    if (!wsi) continue;
    *connection = (Connection){.wsi = wsi, .deadline = seconds_now() + WAIT_SECONDS};
    lws_set_opaque_user_data(wsi, connection);
  }
}

static void forget(Server *server, Connection *connection) {
  leave(server, connection);
  connection->wsi = NULL;
}

static int of_connection(Server *server, Connection *connection, enum lws_callback_reasons reason,
                         const void *bytes, size_t size) {
  switch (reason) {
    case LWS_CALLBACK_HTTP: return answer(server, connection);
    case LWS_CALLBACK_HTTP_WRITEABLE: return send_page(connection);
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: return check_upgrade(server, connection->wsi);
    case LWS_CALLBACK_ESTABLISHED: return join(server, connection);
    case LWS_CALLBACK_RECEIVE: return connection->client ? receive(connection, bytes, size) : -1;
    case LWS_CALLBACK_SERVER_WRITEABLE: return connection->client ? send_to_client(connection) : -1;
    case LWS_CALLBACK_WSI_DESTROY: forget(server, connection); return 0;
    default: return 0;
  }
}

static int callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *bytes,
                    size_t size) {
  (void)user;
  Server *server = lws_context_user(lws_get_context(wsi));
  switch (reason) {
    case LWS_CALLBACK_EVENT_WAIT_CANCELLED: write_to_woken(server); return 0;
    case LWS_CALLBACK_RAW_RX_FILE: accept_all(server, wsi); return 0;
    // a request CONNECT would become a raw socket
    case LWS_CALLBACK_RAW_ADOPT:
    case LWS_CALLBACK_RAW_RX: return -1;
    case LWS_CALLBACK_HTTP:
    case LWS_CALLBACK_HTTP_WRITEABLE:
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
    case LWS_CALLBACK_ESTABLISHED:
    case LWS_CALLBACK_RECEIVE:
    case LWS_CALLBACK_SERVER_WRITEABLE:
    case LWS_CALLBACK_WSI_DESTROY: break;
    default: return 0;
  }
  Connection *connection = lws_get_opaque_user_data(wsi);
  return connection ? of_connection(server, connection, reason, bytes, size) : 0;
}

// ---------------------------------- time ---------------------------------------------------------

static void begin_end(Server *server) {
  server->ending = seconds_now();
  for (int i = 0; i < CONNECTIONS; i++) {
    Client *client = server->connections[i].client;
    if (client) client_dismiss(client, "the server was stopped");
  }
}

static void tick(lws_sorted_usec_list_t *ticker) {
  Server *server = lws_container_of(ticker, Server, ticker);
  double now = seconds_now();
  for (int i = 0; i < CONNECTIONS; i++) {
    Connection *connection = &server->connections[i];
    if (!connection->wsi) continue;
    if (connection->client ? client_is_overdue(connection->client) : now > connection->deadline) {
      drop(connection);
    }
  }
  if (*server->options.stop && !server->ending) begin_end(server);
  if (server->ending && (now - server->ending > END_MS * 1e-3 || !count_clients(server))) {
    server->done = 1;
    lws_cancel_service(server->context);  // or it would wait for the next event
  }
  lws_sul_schedule(server->context, 0, ticker, tick, TICK_US);
}

// ---------------------------------- the server ---------------------------------------------------

static int open_context(Server *server) {
  static const struct lws_protocols protocols[] = {{.name = "bfm.v1", .callback = callback}, {0}};
  static const lws_retry_bo_t alive = {.secs_since_valid_ping = 10, .secs_since_valid_hangup = 20};
  struct lws_context_creation_info info = {
      .port = CONTEXT_PORT_NO_LISTEN_SERVER,
      .protocols = protocols,
      .headers = headers(),
      .server_string = "bfm",
      .max_http_header_data = 8192,
      .max_http_header_pool = OTHERS_MOST,
      .fd_limit_per_thread = CONNECTIONS + 16,
      .keepalive_timeout = 5,
      .timeout_secs = WAIT_SECONDS,
      .timeout_secs_ah_idle = WAIT_SECONDS,
      .retry_and_idle_policy = &alive,
      .options = LWS_SERVER_OPTION_VALIDATE_UTF8 | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
      .user = server,
  };
  lws_set_log_level(0, NULL);
  server->context = lws_create_context(&info);
  struct lws_vhost *vhost = server->context ? lws_create_vhost(server->context, &info) : NULL;
  lws_sock_file_fd_type listener = {.filefd = server->listener};
  if (!vhost || !lws_adopt_descriptor_vhost(vhost, LWS_ADOPT_RAW_FILE_DESC, listener, NULL, NULL)) {
    return bfm_fail(BFM_IO, "cannot start the web server (libwebsockets %s)",
                    lws_get_library_version());
  }
  server->listener = -1;
  lws_sul_schedule(server->context, 0, &server->ticker, tick, TICK_US);
  return BFM_OK;
}

int server_new(Server **out, const ServerOptions *options) {
  Server *server = *out = calloc(1, sizeof *server);
  if (!server) return bfm_fail(BFM_NO_MEMORY, "out of memory for the server");
  server->options = *options;
  server->listener = -1;
  pthread_mutex_init(&server->lock, NULL);
  pthread_cond_init(&server->empty, NULL);
  int status = gate_open(&server->gate, options->host, options->port, &server->listener);
  if (!status) status = open_context(server);
  if (!status) {
    gate_address(&server->gate, server->address, sizeof server->address);
    return BFM_OK;
  }
  server_free(server);
  *out = NULL;
  return status;
}

static void send_all_away(Server *server) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += LEAVE_SECONDS;
  for (int i = 0; i < CONNECTIONS; i++) leave(server, &server->connections[i]);
  pthread_mutex_lock(&server->lock);
  while (server->leaving && !pthread_cond_timedwait(&server->empty, &server->lock, &end)) {}
  pthread_mutex_unlock(&server->lock);
}

int server_is_busy(Server *server) {
  pthread_mutex_lock(&server->lock);
  int busy = server->leaving > 0;
  pthread_mutex_unlock(&server->lock);
  return busy;
}

// The clients' threads wake the context, so they end before it does.
static void close_context(Server *server) {
  if (server->context) lws_context_destroy(server->context);
  server->context = NULL;
}

int server_run(Server *server) {
  int status = models_watch(server->options.models, 2, broadcast, server);
  while (!status && !server->done && lws_service(server->context, 0) >= 0) {}
  if (!status && !server->done) status = bfm_fail(BFM_IO, "the web server has failed");
  send_all_away(server);
  if (!server_is_busy(server)) close_context(server);
  return status;
}

void server_free(Server *server) {
  if (!server) return;
  close_context(server);
  if (server->listener >= 0) close(server->listener);
  pthread_cond_destroy(&server->empty);
  pthread_mutex_destroy(&server->lock);
  free(server);
}

const char *server_address(const Server *server) { return server->address; }
int server_is_public(const Server *server) { return server->gate.is_public; }
