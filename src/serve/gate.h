// Who may enter: the names by which the server may be called (against DNS rebinding), the pages that may
// connect to it (Origin), and the token.

#ifndef BFM_SERVE_GATE_H
#define BFM_SERVE_GATE_H

#include <sys/socket.h>

enum { GATE_HOST = 256, GATE_TOKEN = 33 };

typedef struct {
  char host[GATE_HOST];  // as named on the command line
  int port;
  int is_public;           // whether other machines can reach it
  char token[GATE_TOKEN];  // 32 random hex digits
} Gate;

// Listen at a name or an address; port 0 becomes a free one. The caller closes *fd.
int gate_open(Gate *gate, const char *host, int port, int *fd);

// The page's address, with the token behind the #, which browsers send to nobody.
void gate_address(const Gate *gate, char *out, size_t size);

// Each answers whether a header of a request will do. local: the address at which it arrived.
int gate_host_ok(const Gate *gate, const char *host, const struct sockaddr *local);
int gate_origin_ok(const Gate *gate, const char *origin, const struct sockaddr *local);
int gate_token_ok(const Gate *gate, const char *protocols);  // "bfm.v1, TOKEN"

#endif
