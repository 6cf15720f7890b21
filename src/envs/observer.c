// Compiled observations.

#include "envs/observer.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"
#include "envs/quantities.h"
#include "envs/reward_functions.h"
#include "envs/reward_pool.h"

#define NESTING 8     // aliases of aliases, functions of functions
#define LONGEST 1024  // numbers of a vector
#define ARGUMENTS 4   // constants after the vector: tolerance(v, lo, hi, margin, value)
#define NAME_SIZE 160

// numbers of an array of mjData
typedef struct {
  size_t array;  // offset of its pointer in mjData
  int at;
} Place;

static const mjtNum *place_read(const mjData *data, Place place) {
  return *(mjtNum *const *)((const char *)data + place.array) + place.at;
}

typedef enum {
  COPY,        // `count` numbers at `from`
  READ,        // … of a quantity that has to be computed
  POINT,       // the position at `from` in a frame
  DIRECTION,   // the vector at `from` in a frame
  DIRECTED,    // … which has to be computed
  CLIP,        // the last `count` numbers, within the first two constants
  CALL,        // a function of each of them, and of constants
  EXPRESSION,  // one number
} Operation;

typedef struct {
  Operation operation;
  int out, count;
  const char *item;  // its text, and the item's first number
  int item_out;
  Place from, pos, mat;  // pos and mat: of the frame
  Quantity quantity;
  muMultFun_t function;
  double constants[ARGUMENTS];
  int constant_count;
  RewardPool *pool;
} Entry;

struct Observer {
  Entry *entries;
  int entry_count, room;
  int size, needs;
  int *counts;  // numbers of each part
};

// ---------------------------------- reading ------------------------------------------------------

static void read_quantity(const Quantity *q, const mjModel *model, const mjData *data,
                          double *out) {
  double all[LONGEST];
  q->source.read(model, data, q->source.kind, q->source.id, all);
  memcpy(out, all + q->first, (size_t)q->count * sizeof *out);
}

static void call(const Entry *e, double *out) {
  double arguments[1 + ARGUMENTS];
  memcpy(arguments + 1, e->constants, sizeof e->constants);
  for (int i = 0; i < e->count; i++) {
    arguments[0] = out[i];
    out[i] = e->function(arguments, 1 + e->constant_count);
  }
}

void observer_read(const Observer *observer, const mjModel *model, const mjData *data,
                   double *obs) {
  const Entry *end = observer->entries + observer->entry_count;
  for (const Entry *e = observer->entries; e < end; e++) {
    double *out = obs + e->out, vector[3];
    switch (e->operation) {
      case COPY: {
        const mjtNum *from = place_read(data, e->from);
        for (int i = 0; i < e->count; i++) out[i] = from[i];
        break;
      }
      case READ: read_quantity(&e->quantity, model, data, out); break;
      case POINT:
        mju_sub3(vector, place_read(data, e->from), place_read(data, e->pos));
        mju_mulMatTVec3(out, place_read(data, e->mat), vector);
        break;
      case DIRECTION:
        mju_mulMatTVec3(out, place_read(data, e->mat), place_read(data, e->from));
        break;
      case DIRECTED:
        read_quantity(&e->quantity, model, data, vector);
        mju_mulMatTVec3(out, place_read(data, e->mat), vector);
        break;
      case CLIP:
        for (int i = 0; i < e->count; i++) {
          double x = out[i] < e->constants[0] ? e->constants[0] : out[i];
          out[i] = x > e->constants[1] ? e->constants[1] : x;
        }
        break;
      case CALL: call(e, out); break;
      case EXPRESSION: *out = reward_pool_value(e->pool, model, data); break;
    }
  }
}

// ---------------------------------- compiling ----------------------------------------------------

typedef struct {
  Observer *observer;
  const Robot *robot;
  const mjModel *model;
  RobotText item;  // that is compiled, for messages
  int item_out;    // its first number
} Compiler;

static const char *skip(const char *text) { return text + strspn(text, " \t\r\n"); }

// room for one more entry, or NULL
static Entry *grow(Observer *o) {
  if (o->entry_count == o->room) {
    int room = 2 * o->room + 16;
    Entry *entries = realloc(o->entries, (size_t)room * sizeof *entries);
    if (!entries) return NULL;
    o->entries = entries;
    o->room = room;
  }
  return o->entries + o->entry_count;
}

// adds an entry, or lengthens the last one by it
static int add(Compiler *c, Entry entry) {
  Observer *o = c->observer;
  if (o->size + entry.count > OBS_MAX) {
    return robot_fail(
        c->robot, c->item,
        "the observation has more than %d numbers: choose fewer with \"observed\" in a "
        "robot's .yaml",
        OBS_MAX);
  }
  entry.out = o->size;
  entry.item = c->item.text;
  entry.item_out = c->item_out;
  o->size += entry.count;
  Entry *at = grow(o);
  if (!at) return bfm_fail(BFM_NO_MEMORY, "out of memory for an observation");
  Entry *last = o->entry_count ? at - 1 : NULL;
  if (last && entry.operation == COPY && last->operation == COPY &&
      last->from.array == entry.from.array && last->from.at + last->count == entry.from.at) {
    last->count += entry.count;
    return BFM_OK;
  }
  *at = entry;
  o->entry_count++;
  return BFM_OK;
}

// a function of the numbers from `first` on
static int add_function(Compiler *c, int first, Entry entry) {
  int size = c->observer->size;
  c->observer->size = first;
  entry.count = size - first;
  return add(c, entry);
}

static const Alias *alias_find(const Compiler *c, const char *name, size_t length) {
  for (const Alias *a = c->robot->aliases; a && a->name; a++) {
    if (strlen(a->name) == length && !strncmp(a->name, name, length)) return a;
  }
  return NULL;
}

static int is_name(const char *text) {
  if (!isalpha((unsigned char)*text) && *text != '_') return 0;
  for (; *text; text++) {
    if (!isalnum((unsigned char)*text) && !strchr("_.:", *text)) return 0;
  }
  return 1;
}

// the text between two places without spaces at its ends; 0 if it is too long to be a name
static int cut(const char *from, const char *to, char *out, size_t size) {
  while (from < to && isspace((unsigned char)*from)) from++;
  while (to > from && isspace((unsigned char)to[-1])) to--;
  if (to == from || (size_t)(to - from) >= size) return 0;
  memcpy(out, from, (size_t)(to - from));
  out[to - from] = 0;
  return 1;
}

// replaces an alias that begins a name by what it stands for, if that is a name
static void follow(const Compiler *c, char *name, size_t size) {
  for (int i = 0; i < NESTING; i++) {
    size_t length = strcspn(name, ".");
    const Alias *alias = alias_find(c, name, length);
    char whole[2 * NAME_SIZE];
    if (!alias || !is_name(alias->expression) || strlen(alias->expression) >= NAME_SIZE) return;
    snprintf(whole, sizeof whole, "%s%s", alias->expression, name + length);
    if (strlen(whole) >= size) return;
    memcpy(name, whole, strlen(whole) + 1);
  }
}

// NOT_THIS: the text is of another form, which is to be tried next
#define NOT_THIS (-1)

static int find(const Compiler *c, Quantity *q, const char *name) {
  char followed[NAME_SIZE];
  if (!is_name(name) || strlen(name) >= sizeof followed) return NOT_THIS;
  memcpy(followed, name, strlen(name) + 1);
  follow(c, followed, sizeof followed);
  if (!is_name(followed) || quantity_find(q, c->model, followed)) return NOT_THIS;
  return q->count && q->source.size <= LONGEST ? BFM_OK : NOT_THIS;
}

static int quantity(Compiler *c, const char *name) {
  Quantity q;
  TRY(find(c, &q, name));
  Entry entry = {.operation = READ, .count = q.count, .quantity = q};
  c->observer->needs |= q.source.needs;
  if (quantity_place(&q, c->model, &entry.from.array, &entry.from.at)) entry.operation = COPY;
  return add(c, entry);
}

// hand in torso
static int in_frame(Compiler *c, const char *text) {
  char name[NAME_SIZE], frame_name[NAME_SIZE];
  const char *in = strstr(text, " in ");
  Quantity q, frame;
  if (!in || !cut(text, in, name, sizeof name) ||
      !cut(in + 4, text + strlen(text), frame_name, sizeof frame_name) || !is_name(name)) {
    return NOT_THIS;
  }
  if (find(c, &q, name) || q.count != 3) {
    return robot_fail(c->robot, c->item, "'%s' is no vector of three numbers", name);
  }
  size_t pos, mat;
  int at;
  if (find(c, &frame, frame_name) || !quantity_frame(&frame, c->model, &pos, &mat, &at)) {
    return robot_fail(c->robot, c->item, "'%s' is no body, site or geom", frame_name);
  }
  Entry entry = {.operation = DIRECTED, .count = 3, .quantity = q, .pos = {pos, 3 * at},
                 .mat = {mat, 9 * at}};
  c->observer->needs |= q.source.needs | frame.source.needs;
  if (quantity_place(&q, c->model, &entry.from.array, &entry.from.at)) {
    entry.operation = quantity_is_point(&q) ? POINT : DIRECTION;
  }
  return add(c, entry);
}

// the constants of a call, from the first comma on
static int constants(Entry *entry, const char *text) {
  while (*text == ',') {
    char *end;
    text = skip(text + 1);
    if (entry->constant_count == ARGUMENTS) return 0;
    int negative = *text == '-' || *text == '+' ? *text++ == '-' : 0;
    double value = !strncmp(text, "inf", 3) ? INFINITY : number_read(text, &end);
    if (!strncmp(text, "inf", 3)) end = (char *)text + 3;
    else if (end == text || !isfinite(value) || isalpha((unsigned char)*text)) return 0;
    entry->constants[entry->constant_count++] = negative ? -value : value;
    text = skip(end);
  }
  return *text == ')' && !*skip(text + 1);
}

static int entry_of(Entry *entry, const char *name, const char *rest) {
  const Function *f = reward_functions;
  while (f->name && strcmp(f->name, name)) f++;
  if (!f->name || !f->function || f->flags & VECTORS || !constants(entry, rest)) return 0;
  int count = 1 + entry->constant_count;
  if (count < f->min || count > f->max) return 0;
  const double *k = entry->constants;
  if (f->flags & TOLERANCE_CALL) {
    // the expression's compiler says what is wrong with the arguments
    if (count == 2) return 0;
    double lo = count > 2 ? k[0] : 0, hi = count > 2 ? k[1] : 0;
    double margin = count > 3 ? k[2] : 0, value = count > 4 ? k[3] : VALUE_AT_MARGIN;
    if (tolerance_flaw(lo, hi, margin, value, f->flags & ZERO_ALLOWED)) return 0;
  }
  entry->operation = CALL;
  entry->function = f->function;
  if (!strcmp(name, "clip") && k[0] <= k[1]) entry->operation = CLIP;
  return 1;
}

// asinh(force), clip(qvel, -10, 10)
static int function(Compiler *c, const char *text, int depth) {
  const char *open = strchr(text, '('), *comma = open;
  char name[NAME_SIZE], inner[REWARD_MAX_LENGTH + 1];
  Entry entry = {.operation = CALL};
  if (!open || !cut(text, open, name, sizeof name) || !is_name(name)) return NOT_THIS;
  int level = 0;
  do {
    level += (*comma == '(') - (*comma == ')');
    comma++;
  } while (*comma && level && !(level == 1 && (*comma == ',' || *comma == ')')));
  if (!cut(open + 1, comma, inner, sizeof inner) || !entry_of(&entry, name, comma)) return NOT_THIS;

  // what is inside must be numbers of vectors: an expression is compiled as a whole
  int first = c->observer->size;
  int status = is_name(inner)          ? quantity(c, inner)
               : strstr(inner, " in ") ? in_frame(c, inner)
                                       : NOT_THIS;
  if (status == NOT_THIS && strchr(inner, '(') && depth < NESTING) {
    status = function(c, inner, depth + 1);
  }
  return status ? status : add_function(c, first, entry);
}

// any expression: as many as the numbers of its vectors
static int expression(Compiler *c, const char *text) {
  int count = 1;
  for (int i = 0; i < count; i++) {
    Entry entry = {.operation = EXPRESSION, .count = 1};
    Reward *reward;
    if (reward_new_number(&reward, c->model, c->robot->aliases, text, i, &count)) {
      return robot_fail_expression(c->robot, c->item);
    }
    c->observer->needs |= reward_needs(reward);
    TRY(reward_pool_new(&entry.pool, reward));
    int status = add(c, entry);
    if (status) {
      reward_pool_free(entry.pool);
      return status;
    }
  }
  return BFM_OK;
}

static int item(Compiler *c, const char *text, int depth) {
  char name[NAME_SIZE] = "";
  const Alias *alias =
      cut(text, text + strlen(text), name, sizeof name) ? alias_find(c, name, strlen(name)) : NULL;
  int status = NOT_THIS;
  if (alias && depth < NESTING) return item(c, alias->expression, depth + 1);
  if (is_name(name)) status = quantity(c, name);
  if (status == NOT_THIS) status = in_frame(c, text);
  if (status == NOT_THIS) status = function(c, text, 0);
  return status == NOT_THIS ? expression(c, text) : status;
}

int observer_new(Observer **out, const Robot *robot, const mjModel *model) {
  Observer *o = *out = calloc(1, sizeof *o);
  if (o) o->counts = calloc((size_t)robot->observed_count + 1, sizeof *o->counts);
  if (!o || !o->counts) {
    observer_free(o);
    *out = NULL;
    return bfm_fail(BFM_NO_MEMORY, "out of memory for an observation");
  }
  Compiler c = {.observer = o, .robot = robot, .model = model};
  int status = BFM_OK;
  for (int p = 0; p < robot->observed_count && !status; p++) {
    const RobotPart *part = robot->observed + p;
    int before = o->size;
    for (int i = 0; i < part->items.count && !status; i++) {
      c.item = part->items.of[i];
      c.item_out = o->size;
      status = robot_goes_on(robot, item(&c, c.item.text, 0));
    }
    o->counts[p] = o->size - before;
  }
  if (!status && !o->size && !robot_problem_count(robot))
    status = bfm_fail(BFM_BAD_FILE, "%s: nothing is observed", robot->file);
  if (status) {
    observer_free(o);
    *out = NULL;
  }
  return status;
}

void observer_free(Observer *o) {
  if (!o) return;
  for (int i = 0; i < o->entry_count; i++) reward_pool_free(o->entries[i].pool);
  free(o->entries);
  free(o->counts);
  free(o);
}

int observer_size(const Observer *o) { return o->size; }
int observer_count(const Observer *o, int part) { return o->counts[part]; }
int observer_needs(const Observer *o) { return o->needs; }

static const char *function_name(const Entry *e) {
  const Function *f = reward_functions;
  while (f->name && f->function != e->function) f++;
  return e->operation == CLIP ? "clip" : f->name;
}

// entries are in the order of their numbers, and functions follow what they are applied to
ObserverSource observer_source(const Observer *o, int i) {
  ObserverSource source = {.item = ""};
  int first = 0, end = 0;
  for (const Entry *e = o->entries; e < o->entries + o->entry_count; e++) {
    if (source.item[0] && e->item == source.item) end = e->out + e->count;
    if (i < e->out || i >= e->out + e->count) continue;
    if (e->operation == CLIP || e->operation == CALL) {
      source.function = function_name(e);
      continue;
    }
    first = e->item_out, end = e->out + e->count;
    source.item = e->item;
    source.copied = e->operation == COPY;
    source.array = e->from.array, source.at = e->from.at + i - e->out;
  }
  source.index = i - first, source.count = end - first;
  return source;
}
