// One client: its connection as libwebsockets sees it, the outbox, and the stage. It is used by the
// service thread alone, but for what its stage puts into the outbox.

#ifndef BFM_SERVE_CLIENT_H
#define BFM_SERVE_CLIENT_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "serve/models.h"

struct lws;
typedef struct Client Client;

// `wake` is called, from any thread, when the connection should be written to
int client_new(Client **client, Models *models, void (*wake)(void *context), void *context);
// Nothing more is received or sent; returns at once.
void client_leave(Client *client);
// Waits for the client's threads. For a thread that may wait.
void client_free(Client *client);

// Greet a client that has just connected.
void client_welcome(Client *client);
void client_text(Client *client, cJSON *message);  // takes the message

// Say why and close the connection, when all that waits is sent or two seconds are over.
void client_dismiss(Client *client, const char *reason);

// Bytes of a message have arrived; first, last: of the message.
void client_receive(Client *client, const void *bytes, size_t size, int first, int last,
                    int binary);

// Write the next message. What the connection is to do then:
typedef enum { CLIENT_IDLE, CLIENT_MORE, CLIENT_CLOSE } ClientState;
ClientState client_write(Client *client, struct lws *wsi);

int client_is_woken(Client *client);    // whether it was woken since the last call
int client_is_overdue(Client *client);  // whether it must be dropped; called a few times a second

#endif
