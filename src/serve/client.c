// One client.

#include "serve/client.h"

#include <libwebsockets.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"
#include "serve/message.h"
#include "serve/outbox.h"
#include "serve/stage.h"

_Static_assert(OUTBOX_FRONT >= LWS_PRE, "libwebsockets writes a header before a message");

enum {
  RATE = 200,        // messages a second that a client may send on average
  BURST = 400,       // and at once
  BAD_MOST = 20,     // messages that could not be read
  ACK_SECONDS = 10,  // for which a frame may be unacknowledged
  LATE_MOST = 10,    // looks at the clock that find one late: the machine may have paused
  BYE_SECONDS = 2,   // to take what waits before the end
};

struct Client {
  Models *models;
  Outbox *outbox;
  Stage *stage;
  void (*wake)(void *context);
  void *context;
  atomic_int woken;

  char text[MESSAGE_BYTES];  // of the message that arrives
  size_t size;
  double allowance, refilled;  // messages that it may send, and when that was computed
  int bad, late;
  double dismissed;  // when; 0: it was not
};

// ---------------------------------- life ---------------------------------------------------------

static void wake(void *context) {
  Client *client = context;
  if (!atomic_exchange(&client->woken, 1)) client->wake(client->context);
}

int client_new(Client **out, Models *models, void (*wake_server)(void *context), void *context) {
  Client *client = *out = calloc(1, sizeof *client);
  if (!client) return bfm_fail(BFM_NO_MEMORY, "out of memory for a client");
  *client = (Client){.models = models, .wake = wake_server, .context = context, .allowance = BURST,
                     .refilled = seconds_now()};
  int status = outbox_new(&client->outbox, wake, client);
  if (!status) status = stage_new(&client->stage, models, client->outbox);
  if (!status) return BFM_OK;
  client_free(client);
  *out = NULL;
  return status;
}

void client_leave(Client *client) { outbox_close(client->outbox); }

void client_free(Client *client) {
  if (client->stage) stage_free(client->stage);
  outbox_free(client->outbox);
  free(client);
}

int client_is_woken(Client *client) { return atomic_exchange(&client->woken, 0); }

// ---------------------------------- words --------------------------------------------------------

static cJSON *message_of(const char *type) {
  cJSON *message = cJSON_CreateObject();
  cJSON_AddStringToObject(message, "type", type);
  return message;
}

void client_text(Client *client, cJSON *message) { outbox_text(client->outbox, message); }

static void tell(void *context, cJSON *message) { client_text(context, message); }

void client_welcome(Client *client) {
  cJSON *hello = message_of("hello"), *limits = cJSON_AddObjectToObject(hello, "limits");
  cJSON_AddStringToObject(hello, "version", BFM_VERSION);
  cJSON_AddNumberToObject(hello, "window", OUTBOX_WINDOW);
  cJSON_AddNumberToObject(limits, "message", MESSAGE_BYTES);
  cJSON_AddNumberToObject(limits, "text", MESSAGE_TEXT - 1);
  cJSON_AddNumberToObject(limits, "rate", RATE);
  cJSON_AddNumberToObject(limits, "slots", SLOTS_MAX);
  if (models_describe(client->models, hello)) {
    cJSON_Delete(hello);
    client_dismiss(client, bfm_error());
    return;
  }
  client_text(client, hello);
  models_tell(client->models, tell, client);
}

static void refuse(Client *client, int64_t id, const char *error) {
  cJSON *message = message_of("refused");
  if (id) cJSON_AddNumberToObject(message, "id", (double)id);
  cJSON_AddStringToObject(message, "error", error);
  client_text(client, message);
  if (++client->bad == BAD_MOST) client_dismiss(client, "too many messages could not be read");
}

void client_dismiss(Client *client, const char *reason) {
  if (client->dismissed) return;
  client->dismissed = seconds_now();
  cJSON *message = message_of("bye");
  cJSON_AddStringToObject(message, "reason", reason);
  client_text(client, message);
}

// ---------------------------------- receiving ----------------------------------------------------

// Every part of a message counts, so that empty parts without end count too.
static int is_allowed(Client *client) {
  double now = seconds_now();
  client->allowance += RATE * (now - client->refilled);
  client->refilled = now;
  if (client->allowance > BURST) client->allowance = BURST;
  if (client->allowance >= 1) {
    client->allowance--;
    return 1;
  }
  client_dismiss(client, "more than 200 messages a second have arrived");
  return 0;
}

static void obey(Client *client) {
  static Message message;  // of the service thread
  int status = message_read(&message, client->text, client->size);
  if (status) refuse(client, message.id, bfm_error());
  else if (message.say == SAY_ACK) outbox_ack(client->outbox, message.seq);
  else stage_tell(client->stage, &message);
}

void client_receive(Client *client, const void *bytes, size_t size, int first, int last,
                    int binary) {
  if (client->dismissed || !is_allowed(client)) return;
  if (first) client->size = 0;
  if (client->size + size > MESSAGE_BYTES) {
    client_dismiss(client, "a message has more than 16384 bytes");
    return;
  }
  memcpy(client->text + client->size, bytes, size);
  client->size += size;
  if (!last) return;
  if (binary) refuse(client, 0, "a message must be text");
  else obey(client);
}

// ---------------------------------- sending ------------------------------------------------------

ClientState client_write(Client *client, struct lws *wsi) {
  Parcel parcel;
  if (outbox_failed(client->outbox)) return CLIENT_CLOSE;
  if (!outbox_take(client->outbox, &parcel)) {
    return client->dismissed ? CLIENT_CLOSE : CLIENT_IDLE;
  }
  int written = lws_write(wsi, parcel.memory + OUTBOX_FRONT, parcel.size,
                          parcel.binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT);
  free(parcel.memory);
  return written < (int)parcel.size ? CLIENT_CLOSE : CLIENT_MORE;
}

int client_is_overdue(Client *client) {
  if (client->dismissed && seconds_now() - client->dismissed > BYE_SECONDS) return 1;
  client->late = outbox_unanswered(client->outbox) > ACK_SECONDS ? client->late + 1 : 0;
  return client->late > LATE_MOST || outbox_failed(client->outbox);
}
