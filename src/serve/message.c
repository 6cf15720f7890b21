// From the text of a message to a struct: a table names the fields of each kind of message, where they
// go and which values they may have.

#define _GNU_SOURCE  // memmem

#include "serve/message.h"

#include <cjson/cJSON.h>
#include <string.h>

typedef enum {
  FIELD_INT,
  FIELD_BIG,
  FIELD_REAL,
  FIELD_BOOL,
  FIELD_WORD,
  FIELD_TEXT,
  FIELD_VECTOR,
  FIELD_NUMBERS
} FieldType;

typedef struct {
  const char *name;
  FieldType type;
  size_t offset;      // in Message
  double lo, hi;      // of numbers
  const char *words;  // of FIELD_WORD: "reward|goal"; the number of the word is stored
  int needed;
} Field;

enum { FIELDS_MOST = 12 };

typedef struct {
  const char *name;
  Say say;
  Field fields[FIELDS_MOST];  // NULL after the last
} Kind;

#define AT(field) offsetof(Message, field)
#define BIG 9007199254740991.0  // the largest integer that a double holds with all below it
#define WORLD 1e4               // metres

#define ID {"id", FIELD_BIG, AT(id), 0, BIG, NULL, 0}
#define SLOT(least) {"slot", FIELD_INT, AT(slot), least, SLOTS_MAX - 1, NULL, 0}
#define BODY {"body", FIELD_INT, AT(body), 0, 1e6, NULL, 1}
#define TEXT(name, needed) {name, FIELD_TEXT, AT(text), 0, 0, NULL, needed}
#define NUMBERS(name) {name, FIELD_NUMBERS, AT(numbers), -1e9, 1e9, NULL, 0}
#define VECTOR(name, field) {name, FIELD_VECTOR, AT(field), -WORLD, WORLD, NULL, 1}

static const Kind kinds[] = {
    {"open",
     SAY_OPEN,
     {ID,
      TEXT("model", 1),
      {"slots", FIELD_INT, AT(slots), 1, SLOTS_MAX, NULL, 0},
      {"seed", FIELD_BIG, AT(seed), 0, BIG, NULL, 0}}},
    {"check",
     SAY_CHECK,
     {ID, TEXT("text", 1), {"kind", FIELD_WORD, AT(kind), 0, 0, "reward|goal", 1}}},
    {"prompt",
     SAY_PROMPT,
     {ID,
      SLOT(-1),
      {"kind", FIELD_WORD, AT(kind), 0, 0, "reward|goal|pose|demo|z", 1},
      TEXT("text", 0),
      NUMBERS("qpos"),
      NUMBERS("z"),
      {"seconds", FIELD_REAL, AT(seconds), 0.1, 10, NULL, 0},
      {"ramp", FIELD_REAL, AT(ramp), 0, 10, NULL, 0},
      {"softmax", FIELD_REAL, AT(softmax), 0, 1e6, NULL, 0}}},
    {"ghost", SAY_GHOST, {ID, NUMBERS("qpos"), {"off", FIELD_BOOL, AT(on), 0, 0, NULL, 0}}},
    {"pause", SAY_PAUSE, {ID, {"on", FIELD_BOOL, AT(on), 0, 0, NULL, 1}}},
    {"step", SAY_STEP, {ID}},
    {"reset", SAY_RESET, {ID, {"how", FIELD_WORD, AT(kind), 0, 0, "start|random", 1}}},
    {"speed", SAY_SPEED, {ID, {"factor", FIELD_REAL, AT(factor), 0.1, 4, NULL, 1}}},
    {"act",
     SAY_ACT,
     {ID,
      {"es", FIELD_INT, AT(es), 0, 256, NULL, 0},
      {"noise", FIELD_REAL, AT(noise), 0, 1, NULL, 0}}},
    {"drag", SAY_DRAG, {ID, SLOT(0), BODY, VECTOR("at", at), VECTOR("to", to)}},
    {"release", SAY_RELEASE, {ID}},
    {"push", SAY_PUSH, {ID, SLOT(0), BODY, VECTOR("at", at), VECTOR("impulse", to)}},
    {"take",
     SAY_TAKE,
     {ID,
      SLOT(0),
      {"what", FIELD_WORD, AT(kind), 0, 0, "film|z|trajectory", 1},
      {"seconds", FIELD_REAL, AT(seconds), 1, 30, NULL, 0}}},
    {"cancel", SAY_CANCEL, {{"id", FIELD_BIG, AT(id), 0, BIG, NULL, 1}}},
    {"ack", SAY_ACK, {{"seq", FIELD_BIG, AT(seq), 0, BIG, NULL, 1}}},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

// ---------------------------------- fields -------------------------------------------------------

static int refuse(const Field *field, const char *rule) {
  return bfm_fail(BFM_BAD_ARGUMENT, "\"%s\" must be %s", field->name, rule);
}

static int read_number(const Field *field, const cJSON *value, double *number) {
  if (!cJSON_IsNumber(value)) return refuse(field, "a number");
  *number = value->valuedouble;
  if (*number >= field->lo && *number <= field->hi) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "\"%s\" is %g, but must be from %g to %g", field->name, *number,
                  field->lo, field->hi);
}

static int read_integer(const Field *field, const cJSON *value, int64_t *number) {
  double real;
  TRY(read_number(field, value, &real));
  *number = (int64_t)real;
  return (double)*number == real ? BFM_OK : refuse(field, "a whole number");
}

static int read_numbers(const Field *field, const cJSON *value, int most, double *out, int *count) {
  if (!cJSON_IsArray(value)) return refuse(field, "an array of numbers");
  const cJSON *item;
  *count = 0;
  cJSON_ArrayForEach(item, value) {
    if (*count == most) {
      return bfm_fail(BFM_BAD_ARGUMENT, "\"%s\" has more than %d numbers", field->name, most);
    }
    TRY(read_number(field, item, &out[(*count)++]));
  }
  return BFM_OK;
}

static int read_word(const Field *field, const cJSON *value, int *number) {
  const char *text = cJSON_IsString(value) ? value->valuestring : "", *word = field->words;
  for (*number = 0;; ++*number) {
    size_t length = strcspn(word, "|");
    if (strlen(text) == length && !strncmp(word, text, length)) return BFM_OK;
    if (!word[length]) break;
    word += length + 1;
  }
  return bfm_fail(BFM_BAD_ARGUMENT, "\"%s\" must be one of %s", field->name, field->words);
}

static int read_text(const Field *field, const cJSON *value, char *out) {
  if (!cJSON_IsString(value)) return refuse(field, "a text");
  size_t length = strlen(value->valuestring);
  if (length >= MESSAGE_TEXT) {
    return bfm_fail(BFM_BAD_ARGUMENT, "\"%s\" has %zu characters; at most %d are allowed",
                    field->name, length, MESSAGE_TEXT - 1);
  }
  memcpy(out, value->valuestring, length + 1);
  return BFM_OK;
}

static int read_field(const Field *field, const cJSON *value, Message *message) {
  void *at = (char *)message + field->offset;
  int64_t number = 0;
  int three = 0;
  switch (field->type) {
    case FIELD_INT:
      TRY(read_integer(field, value, &number));
      *(int *)at = (int)number;
      return BFM_OK;
    case FIELD_BIG: return read_integer(field, value, at);
    case FIELD_REAL: return read_number(field, value, at);
    case FIELD_BOOL:
      *(int *)at = cJSON_IsTrue(value);
      return cJSON_IsBool(value) ? BFM_OK : refuse(field, "true or false");
    case FIELD_WORD: return read_word(field, value, at);
    case FIELD_TEXT: return read_text(field, value, at);
    case FIELD_VECTOR:
      TRY(read_numbers(field, value, 3, at, &three));
      return three == 3 ? BFM_OK : refuse(field, "an array of 3 numbers");
    case FIELD_NUMBERS: return read_numbers(field, value, MESSAGE_NUMBERS, at, &message->count);
  }
  return BFM_OK;
}

// ---------------------------------- messages -----------------------------------------------------

static const Kind *find_kind(const cJSON *object) {
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(object, "do");
  for (int i = 0; i < KINDS && cJSON_IsString(name); i++) {
    if (!strcmp(kinds[i].name, name->valuestring)) return &kinds[i];
  }
  return NULL;
}

static const Field *find_field(const Kind *kind, const char *name) {
  for (const Field *field = kind->fields; field->name; field++) {
    if (!strcmp(field->name, name)) return field;
  }
  return NULL;
}

static int read_fields(const Kind *kind, const cJSON *object, Message *message) {
  const cJSON *item;
  unsigned seen = 0;
  cJSON_ArrayForEach(item, object) {
    if (!strcmp(item->string, "do")) continue;
    const Field *field = find_field(kind, item->string);
    if (!field) {
      return bfm_fail(BFM_BAD_ARGUMENT, "\"%s\" has no field \"%.32s\"", kind->name, item->string);
    }
    TRY(read_field(field, item, message));
    seen |= 1U << (field - kind->fields);
  }
  for (int i = 0; kind->fields[i].name; i++) {
    if (!kind->fields[i].needed || seen >> i & 1) continue;
    return bfm_fail(BFM_BAD_ARGUMENT, "\"%s\" lacks the field \"%s\"", kind->name,
                    kind->fields[i].name);
  }
  return BFM_OK;
}

// a formula's place of an error is counted in bytes, and every name that it may use is ASCII
static int check_ascii(const char *text) {
  for (const char *c = text; *c; c++) {
    if ((*c >= ' ' && *c <= '~') || *c == '\n' || *c == '\t') continue;
    return bfm_fail(BFM_BAD_ARGUMENT, "byte %td of the text is not ASCII", c - text);
  }
  return BFM_OK;
}

// what the rows of the table do not say
static int check_rest(const Message *m) {
  if (m->say == SAY_OPEN && m->slots == 3) {
    return bfm_fail(BFM_BAD_ARGUMENT, "\"slots\" must be 1, 2 or 4, not 3");
  }
  if (m->say == SAY_GHOST && m->on && !m->count) {
    return bfm_fail(BFM_BAD_ARGUMENT, "\"ghost\" lacks the field \"qpos\"");
  }
  if (m->say == SAY_TAKE && m->kind != TAKE_Z && m->seconds == 0) {
    return bfm_fail(BFM_BAD_ARGUMENT, "\"take\" lacks the field \"seconds\"");
  }
  return m->say == SAY_CHECK || m->say == SAY_PROMPT ? check_ascii(m->text) : BFM_OK;
}

static int check_prompt(const Message *m) {
  static const char *const fields[] = {[PROMPT_REWARD] = "text", [PROMPT_GOAL] = "text",
                                       [PROMPT_POSE] = "qpos", [PROMPT_DEMO] = "seconds",
                                       [PROMPT_Z] = "z"};
  int there[] = {[PROMPT_REWARD] = *m->text, [PROMPT_GOAL] = *m->text, [PROMPT_POSE] = m->count,
                 [PROMPT_DEMO] = m->seconds > 0, [PROMPT_Z] = m->count};
  if (m->say != SAY_PROMPT || there[m->kind]) return BFM_OK;
  return bfm_fail(BFM_BAD_ARGUMENT, "the prompt lacks \"%s\"", fields[m->kind]);
}

static int read_object(const cJSON *object, Message *message) {
  if (!cJSON_IsObject(object)) return bfm_fail(BFM_BAD_ARGUMENT, "a message must be a JSON object");
  const cJSON *id = cJSON_GetObjectItemCaseSensitive(object, "id");
  static const Field any = ID;
  if (id && read_field(&any, id, message)) message->id = 0;  // its own kind complains
  const Kind *kind = find_kind(object);
  if (!kind) return bfm_fail(BFM_BAD_ARGUMENT, "\"do\" names no message that this server knows");
  message->say = kind->say;
  TRY(read_fields(kind, object, message));
  if (message->say == SAY_GHOST) message->on = !message->on;  // the field says "off"
  TRY(check_rest(message));
  return check_prompt(message);
}

int message_read(Message *message, const char *text, size_t size) {
  memset(message, 0, sizeof *message);
  message->slots = 1;
  if (size > MESSAGE_BYTES) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a message has %zu bytes; at most %d are allowed", size,
                    MESSAGE_BYTES);
  }
  // a zero would end a text early
  const char *end = NULL;
  if (memchr(text, 0, size) || memmem(text, size, "\\u0000", 6)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "a message contains a zero byte");
  }
  cJSON *object = cJSON_ParseWithLengthOpts(text, size, &end, 0);
  while (object && end < text + size && strchr(" \t\r\n", *end)) end++;
  int status = object && end == text + size
                   ? read_object(object, message)
                   : bfm_fail(BFM_BAD_ARGUMENT, "a message is not one JSON object");
  cJSON_Delete(object);
  return status;
}
