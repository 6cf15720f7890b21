// Who may enter.

#include "serve/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/status.h"

// ---------------------------------- listening ----------------------------------------------------

static int make_token(char *token) {
  unsigned char bytes[(GATE_TOKEN - 1) / 2];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    return bfm_fail(BFM_IO, "cannot get random bytes for the token: %s", strerror(errno));
  }
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  return BFM_OK;
}

static int port_of(const struct sockaddr *address) {
  return ntohs(address->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                              : ((const struct sockaddr_in *)address)->sin_port);
}

static int is_loopback(const struct sockaddr *address) {
  return address->sa_family == AF_INET6
             ? IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr)
             : ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
}

// A descriptor that listens, or -1 and errno
static int listen_at(const struct addrinfo *at) {
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  if (at->ai_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof(int));
  }
  if (!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, 128)) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static int cannot_listen(const char *host, int port) {
  if (errno == EADDRINUSE) {
    return bfm_fail(BFM_IO, "port %d of %s is in use by another program; choose one with --port",
                    port, host);
  }
  if (errno == EACCES) {
    return bfm_fail(BFM_IO, "port %d of %s is reserved for root; choose one above 1023 with --port",
                    port, host);
  }
  return bfm_fail(BFM_IO, "cannot listen at %s, port %d: %s", host, port, strerror(errno));
}

int gate_open(Gate *gate, const char *host, int port, int *fd) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  int unknown = getaddrinfo(host, service, &hints, &found);
  if (unknown || strlen(host) >= sizeof gate->host) {
    if (!unknown) freeaddrinfo(found);
    return bfm_fail(BFM_BAD_ARGUMENT, "--host %.64s is no address of this machine: %s", host,
                    unknown ? gai_strerror(unknown) : "the name is too long");
  }
  *fd = -1;
  // a name may have addresses of a family that this machine lacks
  for (struct addrinfo *at = found; at && *fd < 0; at = at->ai_next) {
    *fd = listen_at(at);
    if (*fd < 0 && errno == EADDRINUSE) break;
  }
  freeaddrinfo(found);
  if (*fd < 0) return cannot_listen(host, port);

  struct sockaddr_storage local;
  getsockname(*fd, (struct sockaddr *)&local, &(socklen_t){sizeof local});
  gate->port = port_of((struct sockaddr *)&local);
  gate->is_public = !is_loopback((struct sockaddr *)&local);
  snprintf(gate->host, sizeof gate->host, "%s", host);
  return make_token(gate->token);
}

// ---------------------------------- names of the server ------------------------------------------

static int is_any(const char *host) { return !strcmp(host, "0.0.0.0") || !strcmp(host, "::"); }

// a name or a number as it stands in an address of the web
static void bracket(const char *host, char *out, size_t size) {
  snprintf(out, size, strchr(host, ':') ? "[%s]" : "%s", host);
}

static void number_of(const struct sockaddr *address, char *out, size_t size) {
  char number[INET6_ADDRSTRLEN] = "";
  const void *bytes = address->sa_family == AF_INET6
                          ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                          : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
  inet_ntop(address->sa_family, bytes, number, sizeof number);
  bracket(number, out, size);
}

void gate_address(const Gate *gate, char *out, size_t size) {
  char name[GATE_HOST + 2];
  const char *host = gate->host;
  if (is_any(host)) host = strcmp(host, "::") ? "127.0.0.1" : "::1";
  bracket(host, name, sizeof name);
  snprintf(out, size, "http://%s:%d/#%s", name, gate->port, gate->token);
}

// ---------------------------------- headers ------------------------------------------------------

// Browsers leave out port 80.
static int is_name(const Gate *gate, const char *given, const char *name) {
  char full[GATE_HOST + 16];
  snprintf(full, sizeof full, "%s:%d", name, gate->port);
  return !strcasecmp(given, full) || (gate->port == 80 && !strcasecmp(given, name));
}

int gate_host_ok(const Gate *gate, const char *host, const struct sockaddr *local) {
  char here[INET6_ADDRSTRLEN + 2], named[GATE_HOST + 2];
  number_of(local, here, sizeof here);
  bracket(gate->host, named, sizeof named);
  int ok = is_name(gate, host, here) || (!is_any(gate->host) && is_name(gate, host, named));
  static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};
  for (int i = 0; i < 3 && is_loopback(local); i++) ok |= is_name(gate, host, loopback[i]);
  return ok;
}

int gate_origin_ok(const Gate *gate, const char *origin, const struct sockaddr *local) {
  static const char scheme[] = "http://";
  return !strncmp(origin, scheme, sizeof scheme - 1) &&
         gate_host_ok(gate, origin + sizeof scheme - 1, local);
}

// The time does not depend on how much of the token is right.
int gate_token_ok(const Gate *gate, const char *protocols) {
  static const char before[] = "bfm.v1,";
  if (strncmp(protocols, before, sizeof before - 1)) return 0;
  const char *token = protocols + sizeof before - 1;
  token += strspn(token, " ");
  if (strlen(token) != GATE_TOKEN - 1) return 0;
  unsigned different = 0;
  for (int i = 0; i < GATE_TOKEN - 1; i++) different |= (unsigned)(token[i] ^ gate->token[i]);
  return !different;
}
