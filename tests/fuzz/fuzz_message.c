// Fuzzes the messages of the playground's clients: any bytes are read or refused with a sentence, and
// what was read is within its bounds.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/message.h"

static void check_bounds(const Message *m) {
  int ok = m->say >= SAY_OPEN && m->say <= SAY_ACK && m->slot >= -1 && m->slot < SLOTS_MAX &&
           m->slots >= 1 && m->slots <= SLOTS_MAX && m->slots != 3 && m->kind >= 0 &&
           m->kind <= PROMPT_Z && m->id >= 0 && m->seq >= 0 && m->seed >= 0 && m->body >= 0 &&
           m->es >= 0 && m->es <= 256 && m->count >= 0 && m->count <= MESSAGE_NUMBERS &&
           memchr(m->text, 0, sizeof m->text);
  const double reals[] = {m->seconds, m->ramp,  m->softmax, m->factor, m->noise, m->at[0],
                          m->at[1],   m->at[2], m->to[0],   m->to[1],  m->to[2]};
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) ok = ok && isfinite(reals[i]);
  for (int i = 0; i < m->count && ok; i++) ok = isfinite(m->numbers[i]);
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static Message message;
  char *text = malloc(size);  // without a zero at the end
  memcpy(text, bytes, size);
  if (message_read(&message, text, size)) {
    if (!*bfm_error()) abort();
  } else {
    check_bounds(&message);
  }
  free(text);
  return 0;
}
