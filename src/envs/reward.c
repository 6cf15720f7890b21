// The reward language. A recursive-descent parser checks the typed expression (so that an error can
// point at its place), resolves the names and writes the same expression with numbered variables for
// muParser, which only evaluates it. A vector inside a function of vectors is expanded:
// norm(hand - target) is parsed three times and becomes norm(q0 - q3, q1 - q4, q2 - q5).

#include "envs/reward.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/suggest.h"
#include "envs/quantities.h"
#include "envs/reward_functions.h"

#define MAX_SOURCES 256  // distinct vectors in one expression
#define MAX_VALUES 8192  // numbers of these vectors
#define MAX_DEPTH 128    // nested expressions and signs; a parenthesis counts as two
#define MAX_TEXT 20000   // characters for muParser, after vectors and aliases are expanded
#define MAX_NAME 128

typedef struct {
  QuantitySource source;
  int at;  // index of its first number in `values`
} Slot;

struct Reward {
  Slot slots[MAX_SOURCES];
  int slot_count, value_count, needs;
  int of_step;  // whether it may compare two states
  double dt;    // … which are so many seconds apart
  int64_t faults;
  double *values;  // muParser's variables point here
  char *text;      // the expression for muParser
  muParserHandle_t parser;
};

// ---------------------------------- muParser -----------------------------------------------------

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

static int parser_new(muParserHandle_t *parser) {
  muParserHandle_t p = mupCreate(muBASETYPE_FLOAT);
  if (!p) return bfm_fail(BFM_NO_MEMORY, "out of memory for the parser of a reward");
  for (const Function *f = reward_functions; f->name; f++) {
    if (f->function) mupDefineMultFun(p, f->name, f->function, 1);
  }
  for (const Constant *c = reward_constants; c->name; c++) mupDefineConst(p, c->name, c->value);
  for (const Operator *o = reward_operators; o->text; o++) {
    if (!o->function) continue;
    mupDefineOprt(p, o->written, o->function, (muInt_t)o->priority, muOPRT_ASCT_LEFT, 1);
  }
  *parser = p;
  return BFM_OK;
}

// ---------------------------------- compiling ----------------------------------------------------

typedef struct {
  Reward *reward;
  const mjModel *model;
  const Alias *aliases;

  const char *typed;  // the text of the user, for messages
  const char *at;     // the next character, in `typed` or in an alias
  const char *alias;  // the place in `typed` of the alias that is being read, or NULL
  const char *alias_name;
  int depth;

  int element;    // index of the number of a vector to write; -1: no vectors allowed here
  int size;       // of the vectors in this argument; 0: none so far
  int variables;  // quantities written so far

  char *out;  // the text for muParser
  size_t length;
} Compiler;

static int expression(Compiler *c);

static _Thread_local RewardPlace error_place;

RewardPlace reward_error_place(void) { return error_place; }

void reward_error_set(RewardPlace place) { error_place = place; }

static void suggest(const char *name) {
  snprintf(error_place.meant, sizeof error_place.meant, "%s", name);
}

static int is_name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }

static int is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

// the characters of the word or the operator that begins here
static int word_length(const char *text) {
  int length = 0;
  while (is_name(text[length])) length++;
  if (length && text[length] == ':' && quantity_is_prefix(text, (size_t)length)) {
    length++;
    while (is_name(text[length])) length++;
  }
  return length ? length : *text != 0;
}

// extends the message of bfm_fail by the place of the error, with a caret under it
static int fail_at(Compiler *c, const char *place) {
  enum { BEFORE = 40, SHOWN = 76 };
  char why[512], shown[SHOWN + 1];
  snprintf(why, sizeof why, "%s", bfm_error());

  char inside[MAX_NAME + 16] = "";
  if (c->alias) {
    snprintf(inside, sizeof inside, " (in the alias '%.*s')", MAX_NAME - 16, c->alias_name);
    place = c->alias;
  }
  int offset = (int)(place - c->typed);
  error_place.at = offset;
  error_place.length = word_length(place);
  int start = offset > BEFORE ? offset - BEFORE : 0, n = 0;
  for (; n < SHOWN && c->typed[start + n]; n++) {
    char letter = c->typed[start + n];
    shown[n] = isprint((unsigned char)letter) ? letter : '?';
  }
  shown[n] = 0;
  return bfm_fail(BFM_BAD_ARGUMENT, "%s%s, at character %d of the reward\n  %s\n  %*s^", why,
                  inside, offset + 1, shown, offset - start, "");
}

#define FAIL_AT(c, place, ...) (bfm_fail(BFM_BAD_ARGUMENT, __VA_ARGS__), fail_at(c, place))

// writes a token and a space, so that muParser does not join two operators
static int emit(Compiler *c, const char *token, size_t length) {
  if (c->length + length + 2 > MAX_TEXT) {
    return FAIL_AT(
        c, c->at,
        "the expression has more than %d characters after vectors and aliases are expanded",
        MAX_TEXT);
  }
  memcpy(c->out + c->length, token, length);
  c->length += length;
  c->out[c->length++] = ' ';
  c->out[c->length] = 0;
  return BFM_OK;
}

static int emit_word(Compiler *c, const char *word) { return emit(c, word, strlen(word)); }

static int enter(Compiler *c) {
  if (c->depth++ < MAX_DEPTH) return BFM_OK;
  return FAIL_AT(c, c->at, "the expression is nested too deeply");
}

static char peek(Compiler *c) {
  while (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r') c->at++;
  return *c->at;
}

static int expect(Compiler *c, char closing, const char *opened) {
  char next = peek(c);
  if (next == closing) {
    c->at++;
    return emit(c, &closing, 1);
  }
  if (!next) return FAIL_AT(c, opened, "'%c' is missing for the '%c' here", closing, *opened);
  return FAIL_AT(c, c->at, "expected an operator or '%c' before '%c'", closing, next);
}

// ---------------------------------- numbers ------------------------------------------------------

static const char *digits(const char *text) {
  while (isdigit((unsigned char)*text)) text++;
  return text;
}

// keeps numbers far below the largest double, so that muParser can always read them
#define MAX_DIGITS 40
#define MAX_EXPONENT 250

static int number(Compiler *c) {
  const char *start = c->at, *end = digits(start);
  if (*end == '.') end = digits(end + 1);
  int is_number = isdigit((unsigned char)*start) || end > start + 1;
  int too_large = end - start > MAX_DIGITS;
  if (*end == 'e' || *end == 'E') {
    const char *exponent = end + 1 + (end[1] == '+' || end[1] == '-');
    end = digits(exponent);
    is_number &= end > exponent;
    too_large |= end - exponent > 3 || strtol(exponent, NULL, 10) > MAX_EXPONENT;
  }
  if (!is_number || is_name(*end)) {
    int shown = (int)strcspn(start, " ,()*/<>=&|?:");
    return FAIL_AT(c, start, "'%.*s' is not a number", shown < 32 ? shown : 32, start);
  }
  if (too_large) {
    return FAIL_AT(c, start, "a number has more than %d digits or an exponent beyond %d",
                   MAX_DIGITS, MAX_EXPONENT);
  }
  c->at = end;
  return emit(c, start, (size_t)(end - start));
}

// ---------------------------------- names --------------------------------------------------------

// reads a name with its dots and, if it begins with a kind and a colon, its prefix
static int read_name(Compiler *c, char *name) {
  const char *start = c->at, *end = start;
  while (is_name(*end)) end++;
  if (*end == ':' && quantity_is_prefix(start, (size_t)(end - start))) {
    end++;
    while (is_name(*end)) end++;
  }
  size_t length = (size_t)(end - start);
  if (length >= MAX_NAME)
    return FAIL_AT(c, start, "a name is longer than %d characters", MAX_NAME - 1);
  memcpy(name, start, length);
  name[length] = 0;
  c->at = end;
  return BFM_OK;
}

static const Function *function_find(const char *name) {
  for (const Function *f = reward_functions; f->name; f++) {
    if (!strcmp(f->name, name)) return f;
  }
  return NULL;
}

static const Alias *alias_find(const Compiler *c, const char *name) {
  for (const Alias *a = c->aliases; a && a->name; a++) {
    if (!strcmp(a->name, name)) return a;
  }
  return NULL;
}

static int fail_unknown(Compiler *c, const char *place, const char *name) {
  // compare only the object's name, because the part ('.z') may be right
  char object[MAX_NAME];
  const char *colon = strchr(name, ':');
  snprintf(object, sizeof object, "%s", colon ? colon + 1 : name);
  size_t length = strcspn(object, ".");
  const char *part = name + strlen(name) - strlen(object + length);
  object[length] = 0;

  Suggestion nearest = {.word = object};
  quantities_nearest(c->model, &nearest);
  if (!part[0]) {
    for (const Alias *a = c->aliases; a && a->name; a++) suggest_try(&nearest, a->name);
    for (const Constant *k = reward_constants; k->name; k++) suggest_try(&nearest, k->name);
  }
  char best[MAX_NAME] = "", meant[2 * MAX_NAME];
  if (nearest.best) quantity_typed_name(best, sizeof best, nearest.best);
  snprintf(meant, sizeof meant, "%s%s", best, part);
  if (colon && !strcmp(best, object)) {
    return FAIL_AT(c, place, "the model has no %.*s called '%s'", (int)(colon - name), name,
                   object);
  }
  if (!best[0] || !strcmp(meant, name)) { return FAIL_AT(c, place, REWARD_UNKNOWN " '%s'", name); }
  if (!c->alias) suggest(meant);
  return FAIL_AT(c, place, REWARD_UNKNOWN " '%s' (did you mean '%s'?)", name, meant);
}

static int same_source(const QuantitySource *a, const QuantitySource *b) {
  return a->read == b->read && a->kind == b->kind && a->id == b->id;
}

// the variable for one number of a source; each source is read once, however often it occurs
static int variable(Compiler *c, const char *place, const QuantitySource *source, int number) {
  Reward *r = c->reward;
  int slot = 0;
  while (slot < r->slot_count && !same_source(&r->slots[slot].source, source)) slot++;
  if (slot == r->slot_count) {
    if (r->value_count + source->size > MAX_VALUES) {
      return FAIL_AT(c, place, "the expression reads more than %d numbers of the model",
                     MAX_VALUES);
    }
    if (slot == MAX_SOURCES) {
      return FAIL_AT(c, place, "the expression has more than %d different quantities", slot);
    }
    r->slots[slot] = (Slot){*source, r->value_count};
    r->slot_count++;
    r->value_count += source->size;
    r->needs |= source->needs;
  }
  char name[16];
  snprintf(name, sizeof name, "q%d", r->slots[slot].at + number);
  c->variables++;
  return emit_word(c, name);
}

static int quantity(Compiler *c, const char *place, const char *name) {
  Quantity q;
  int status = quantity_find(&q, c->model, name);
  if (status == QUANTITY_UNKNOWN) return fail_unknown(c, place, name);
  if (status) return fail_at(c, place);

  if (q.count == 0) return FAIL_AT(c, place, "'%s' is empty in this model", name);
  if (q.count == 1) return variable(c, place, &q.source, q.first);
  if (c->element < 0) {
    return FAIL_AT(c, place, "'%s' is a vector of %d numbers: choose one of them, or use its norm",
                   name, q.count);
  }
  if (c->size && c->size != q.count) {
    return FAIL_AT(c, place, "'%s' is a vector of %d numbers, but another one here has %d", name,
                   q.count, c->size);
  }
  c->size = q.count;
  return variable(c, place, &q.source, q.first + c->element);
}

// resolves a name such as "tcp.x", where tcp is an alias for another name, to the part of that name
static void alias_part(const Compiler *c, char *name) {
  size_t length = strcspn(name, ".");
  if (!name[length]) return;
  char object[MAX_NAME], whole[2 * MAX_NAME];
  snprintf(object, sizeof object, "%.*s", (int)length, name);
  const Alias *alias = alias_find(c, object);
  if (!alias) return;
  for (const char *p = alias->expression; *p; p++) {
    if (!is_name(*p) && *p != ':') return;
  }
  int n = snprintf(whole, sizeof whole, "%s%s", alias->expression, name + length);
  if (n >= MAX_NAME) return;
  memcpy(name, whole, (size_t)n + 1);
}

static int read_alias(Compiler *c, const char *place, const Alias *alias) {
  Compiler outer = *c;
  if (!c->alias) c->alias = place;
  c->alias_name = alias->name;
  c->at = alias->expression;
  TRY(emit_word(c, "("));
  TRY(expression(c));
  if (peek(c)) return FAIL_AT(c, c->at, "unexpected '%c'", *c->at);
  TRY(emit_word(c, ")"));

  c->at = outer.at;
  c->alias = outer.alias, c->alias_name = outer.alias_name;
  return BFM_OK;
}

// ---------------------------------- steps --------------------------------------------------------

// marks of sources that reward_step_value reads: what a number of qpos, number id, has moved by; dt
static void read_moved(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)m, (void)d, (void)kind, (void)id, (void)out;
}

static void read_dt(const mjModel *m, const mjData *d, int kind, int id, double *out) {
  (void)m, (void)d, (void)kind, (void)id, (void)out;
}

static int is_step_word(const Compiler *c, const char *word, const char *name) {
  return c->reward->of_step && !strcmp(word, name);
}

// moved(rootx), after its name
static int moved(Compiler *c, const char *place) {
  const char *opened = c->at++;
  char name[MAX_NAME];
  Quantity q;
  size_t array;
  int at;
  peek(c);
  TRY(read_name(c, name));
  alias_part(c, name);
  int status = quantity_find(&q, c->model, name);
  if (status == QUANTITY_UNKNOWN) return fail_unknown(c, opened + 1, name);
  if (status) return fail_at(c, place);
  if (q.count != 1 || !quantity_place(&q, c->model, &array, &at) ||
      array != offsetof(mjData, qpos)) {
    return FAIL_AT(c, place,
                   "moved takes the position of a joint, such as a slide's name, not '%s'", name);
  }
  if (peek(c) != ')') return FAIL_AT(c, opened, "')' is missing for the '(' here");
  c->at++;
  return variable(c, place, &(QuantitySource){.read = read_moved, .id = at, .size = 1}, 0);
}

// ---------------------------------- calls --------------------------------------------------------

typedef struct {
  size_t start, end;  // offsets in c->out
  int is_constant;
} Argument;

// Reads one argument; if it contains a vector, once for each of the vector's numbers. Adds the
// number of arguments that it wrote to *count.
static int argument(Compiler *c, const Function *f, int *count) {
  if (!(f->flags & VECTORS)) {
    *count += 1;
    return expression(c);
  }

  int outer_element = c->element, outer_size = c->size;
  const char *start = c->at;
  c->element = c->size = 0;
  TRY(expression(c));
  int size = c->size;
  for (c->element = 1; c->element < size; c->element++) {
    TRY(emit_word(c, ","));
    c->at = start;
    TRY(expression(c));
  }
  *count += size ? size : 1;
  c->element = outer_element, c->size = outer_size;
  return BFM_OK;
}

static int constant_value(Compiler *c, const Argument *a, double fallback, double *value) {
  *value = fallback;
  if (!a) return 1;
  if (!a->is_constant) return 0;
  char end = c->out[a->end];
  c->out[a->end] = 0;
  mupSetExpr(c->reward->parser, c->out + a->start);
  *value = mupEval(c->reward->parser);
  c->out[a->end] = end;
  int failed = mupError(c->reward->parser);
  mupErrorReset(c->reward->parser);
  return !failed;
}

// dm_control raises an error for impossible tolerances; so does this, if the bounds are constant
static int check_tolerance(Compiler *c, const char *place, const Function *f, const Argument *a,
                           int count) {
  if (count == 2) return FAIL_AT(c, place, "%s takes both bounds: (x, lo, hi)", f->name);
  double lo, hi, margin, v;  // arguments that are not constant get valid values
  if (!constant_value(c, count > 2 ? &a[1] : NULL, 0, &lo) ||
      !constant_value(c, count > 2 ? &a[2] : NULL, 0, &hi)) {
    lo = hi = 0;
  }
  if (!constant_value(c, count > 3 ? &a[3] : NULL, 0, &margin)) margin = 1;
  if (!constant_value(c, count > 4 ? &a[4] : NULL, VALUE_AT_MARGIN, &v)) v = VALUE_AT_MARGIN;

  const char *flaw = tolerance_flaw(lo, hi, margin, v, f->flags & ZERO_ALLOWED);
  return flaw ? FAIL_AT(c, place, "%s: %s", f->name, flaw) : BFM_OK;
}

static int call(Compiler *c, const char *place, const char *name) {
  const Function *f = function_find(name);
  if (!f) {
    Suggestion nearest = {.word = name};
    for (const Function *g = reward_functions; g->name; g++) suggest_try(&nearest, g->name);
    if (!nearest.best) return FAIL_AT(c, place, "there is no function '%s'", name);
    suggest(nearest.best);
    return FAIL_AT(c, place, "there is no function '%s' (did you mean '%s'?)", name, nearest.best);
  }

  const char *opened = c->at++;
  Argument arguments[5];
  int count = 0;
  uint64_t ends = 0;  // bit n is set if an argument ends after n numbers
  TRY(emit_word(c, name));
  c->length--;  // no space: muParser needs the parenthesis directly after the name
  TRY(emit_word(c, "("));
  while (peek(c) != ')') {
    if (count) {
      if (*c->at != ',') return expect(c, ')', opened);
      c->at++;
      TRY(emit_word(c, ","));
    }
    Argument a = {.start = c->length};
    int index = count, variables = c->variables;
    TRY(argument(c, f, &count));
    a.end = c->length;
    a.is_constant = c->variables == variables;
    if (index < COUNT(arguments)) arguments[index] = a;
    if (count <= PAIR) ends |= (uint64_t)1 << count;
  }

  if (count < f->min || count > f->max) {
    const char *bound = f->min == f->max ? "" : count < f->min ? "at least " : "at most ";
    return FAIL_AT(c, place, "%s takes %s%d argument%s, not %d", name, bound,
                   count < f->min ? f->min : f->max, f->min == 1 && f->max == 1 ? "" : "s", count);
  }
  if (f->flags & PAIRS && (count % 2 || !(ends >> count / 2 & 1))) {
    return FAIL_AT(c, place, "%s takes two vectors of the same length", name);
  }
  if (f->flags & TOLERANCE_CALL) TRY(check_tolerance(c, place, f, arguments, count));
  return expect(c, ')', opened);
}

// ---------------------------------- the grammar --------------------------------------------------
//   expression := binary [ '?' expression ':' expression ]
//   binary     := unary { operator unary }
//   unary      := ( '-' | '+' | '!' ) unary | operand [ '^' unary ]
//   operand    := number | name | alias | function '(' arguments ')' | '(' expression ')'

static int operand(Compiler *c) {
  char next = peek(c);
  const char *place = c->at;

  if (isdigit((unsigned char)next) || next == '.') return number(c);

  if (next == '(') {
    c->at++;
    TRY(emit_word(c, "("));
    TRY(expression(c));
    return expect(c, ')', place);
  }

  if (is_name_start(next)) {
    char name[MAX_NAME];
    TRY(read_name(c, name));
    if (peek(c) == '(' && is_step_word(c, "moved", name)) return moved(c, place);
    if (peek(c) == '(') return call(c, place, name);
    if (is_step_word(c, "dt", name)) {
      return variable(c, place, &(QuantitySource){.read = read_dt, .size = 1}, 0);
    }
    for (const Constant *k = reward_constants; k->name; k++) {
      if (!strcmp(k->name, name)) return emit_word(c, name);
    }
    const Alias *alias = alias_find(c, name);
    if (alias) return read_alias(c, place, alias);
    if (function_find(name)) return FAIL_AT(c, place, "the function '%s' needs arguments", name);
    alias_part(c, name);
    return quantity(c, place, name);
  }

  if (!next) return FAIL_AT(c, place, "a number, a name or '(' is missing at the end");
  if (!isprint((unsigned char)next)) {
    return FAIL_AT(c, place, "an expression has no character 0x%02x", (unsigned char)next);
  }
  return FAIL_AT(c, place, "a number, a name or '(' is missing before '%c'", next);
}

static int is_sign(char c) { return c == '-' || c == '+' || c == '!'; }

// muParser accepts one sign before an operand, so further signs and exponents get parentheses
static int unary(Compiler *c) {
  TRY(enter(c));
  char next = peek(c);
  if (is_sign(next)) {
    c->at++;
    TRY(emit_word(c, next == '-' ? "- (" : next == '!' ? "not(" : "("));
    TRY(unary(c));
    TRY(emit_word(c, ")"));
  } else {
    TRY(operand(c));
    if (peek(c) == '^') {
      c->at++;
      TRY(emit_word(c, "^ ("));
      TRY(unary(c));
      TRY(emit_word(c, ")"));
    }
  }
  c->depth--;
  return BFM_OK;
}

// operators of other languages, and the same in this one
static const struct {
  const char *text, *here;
} foreign[] = {
    {"**", "^"}, {"=>", ">="}, {"=<", "<="},  {"=", "=="},
    {"&", "&&"}, {"|", "||"},  {"and", "&&"}, {"or", "||"},
};

static int fail_foreign(Compiler *c) {
  for (int i = 0; i < COUNT(foreign); i++) {
    size_t n = strlen(foreign[i].text);
    if (strncmp(c->at, foreign[i].text, n)) continue;
    if (is_name_start(*c->at) && is_name(c->at[n])) continue;
    return FAIL_AT(c, c->at, "'%s' is written '%s' here", foreign[i].text, foreign[i].here);
  }
  return BFM_OK;
}

static int binary(Compiler *c) {
  int compared = 0;
  for (;;) {
    TRY(unary(c));
    peek(c);
    const Operator *o = reward_operators;
    while (o->text && strncmp(c->at, o->text, strlen(o->text))) o++;
    if (!o->text || !strncmp(c->at, "**", 2)) return fail_foreign(c);

    // a < b < c would compare c with 0 or 1
    if (o->type == COMPARISON && compared) {
      return FAIL_AT(c, c->at,
                     "two comparisons in a row: write a < b && b < c, or use parentheses");
    }
    if (o->type == COMPARISON) compared = 1;
    if (o->type == LOGICAL) compared = 0;
    TRY(emit_word(c, o->written));
    c->at += strlen(o->text);
  }
}

// a ? b : c is written as if(a, b, c), since muParser's own takes a NaN for true
static int expression(Compiler *c) {
  size_t start = c->length;
  TRY(enter(c));
  TRY(binary(c));
  if (peek(c) == '?') {
    const char *question = c->at++;
    TRY(emit_word(c, "if("));
    size_t length = c->length - start, word = strlen("if( ");
    memmove(c->out + start + word, c->out + start, length - word);
    memcpy(c->out + start, "if( ", word);
    TRY(emit_word(c, ","));
    TRY(expression(c));
    if (peek(c) != ':') return FAIL_AT(c, question, "':' is missing for the '?' here");
    c->at++;
    TRY(emit_word(c, ","));
    TRY(expression(c));
    TRY(emit_word(c, ")"));
  }
  c->depth--;
  return BFM_OK;
}

static int compile(Compiler *c) {
  if (!peek(c)) return bfm_fail(BFM_BAD_ARGUMENT, "the reward is an empty expression");
  TRY(expression(c));
  if (!peek(c)) return BFM_OK;
  if (*c->at == ')') return FAIL_AT(c, c->at, "there is no '(' for the ')' here");
  if (*c->at == ',' || *c->at == ';') {
    return FAIL_AT(c, c->at, "a reward is one expression, not several");
  }
  if (*c->at == ':') return FAIL_AT(c, c->at, "there is no '?' for the ':' here");
  if (!isprint((unsigned char)*c->at)) {
    return FAIL_AT(c, c->at, "an expression has no character 0x%02x", (unsigned char)*c->at);
  }
  return FAIL_AT(c, c->at, "expected an operator before '%c'", *c->at);
}

// ---------------------------------- rewards ------------------------------------------------------

// passes text and variables to muParser; the first evaluation compiles its bytecode
static int reward_bind(Reward *r) {
  r->values = calloc((size_t)r->value_count + 1, sizeof *r->values);
  if (!r->values) return bfm_fail(BFM_NO_MEMORY, "out of memory for the quantities of a reward");
  for (int i = 0; i < r->value_count; i++) {
    char name[16];
    snprintf(name, sizeof name, "q%d", i);
    mupDefineVar(r->parser, name, &r->values[i]);
  }
  mupSetExpr(r->parser, r->text);
  mupEval(r->parser);
  if (mupError(r->parser)) {
    return bfm_fail(BFM_BAD_ARGUMENT, "muParser cannot evaluate this reward (error %d of muParser)",
                    (int)mupGetErrorCode(r->parser));
  }
  return BFM_OK;
}

// What is to be compiled: the number `element` of an expression with vectors, or -1 where none are
// allowed; *size becomes the vectors' size, 0 without them. dt > 0: the reward of a step
typedef struct {
  const mjModel *model;
  const Alias *aliases;
  const char *typed;
  int element, size;
  double dt;
} Source;

static int reward_compile(Reward **reward, Source *source) {
  const char *typed = source->typed;
  *reward = NULL;
  error_place = (RewardPlace){.at = -1};
  if (strlen(typed) > REWARD_MAX_LENGTH) {
    return bfm_fail(BFM_BAD_ARGUMENT, "the reward has %zu characters, but at most %d are allowed",
                    strlen(typed), REWARD_MAX_LENGTH);
  }
  Reward *r = calloc(1, sizeof *r);
  char *out = malloc(MAX_TEXT);
  if (!r || !out) {
    free(r);
    free(out);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a reward");
  }
  out[0] = 0;
  r->text = out;
  r->of_step = source->dt > 0;
  r->dt = source->dt;

  Compiler c = {.reward = r, .model = source->model, .aliases = source->aliases, .typed = typed,
                .at = typed, .element = source->element, .out = out};
  int status = parser_new(&r->parser);
  if (!status) status = compile(&c);
  if (!status) status = reward_bind(r);
  if (status) reward_free(r);
  else *reward = r;
  source->size = c.size;
  return status;
}

int reward_new(Reward **reward, const mjModel *model, const Alias *aliases, const char *typed) {
  Source source = {.model = model, .aliases = aliases, .typed = typed, .element = -1};
  return reward_compile(reward, &source);
}

int reward_new_step(Reward **reward, const mjModel *model, const Alias *aliases, double dt,
                    const char *typed) {
  Source source = {.model = model, .aliases = aliases, .typed = typed, .element = -1, .dt = dt};
  return reward_compile(reward, &source);
}

int reward_new_number(Reward **reward, const mjModel *model, const Alias *aliases,
                      const char *typed, int number, int *count) {
  Source source = {.model = model, .aliases = aliases, .typed = typed, .element = number};
  TRY(reward_compile(reward, &source));
  *count = source.size ? source.size : 1;
  return BFM_OK;
}

int reward_copy(Reward **copy, const Reward *reward) {
  *copy = NULL;
  Reward *r = malloc(sizeof *r);
  char *text = strdup(reward->text);
  if (!r || !text) {
    free(r);
    free(text);
    return bfm_fail(BFM_NO_MEMORY, "out of memory for a reward");
  }
  *r = *reward;
  r->faults = 0;
  r->text = text;
  r->values = NULL;
  r->parser = NULL;
  int status = parser_new(&r->parser);
  if (!status) status = reward_bind(r);
  if (status) reward_free(r);
  else *copy = r;
  return status;
}

void reward_free(Reward *r) {
  if (!r) return;
  if (r->parser) mupRelease(r->parser);
  free(r->values);
  free(r->text);
  free(r);
}

int reward_stage(const Reward *r) {
  if (r->needs & NEEDS_FORCE) return REWARD_FORCE;
  if (r->needs & (NEEDS_VELOCITY | NEEDS_SENSOR_VEL | NEEDS_ALL_VEL)) return REWARD_VELOCITY;
  return REWARD_POSITION;
}

void reward_forward(const Reward *r, const mjModel *m, mjData *d) {
  int needs = r->needs;
  if (needs & NEEDS_FORCE) {
    mj_forward(m, d);
    return;
  }
  d->flg_subtreevel = 0;
  if (needs & NEEDS_ALL_POS) {
    mj_fwdPosition(m, d);
  } else {
    if (needs & NEEDS_KINEMATICS) mj_kinematics(m, d);
    if (needs & NEEDS_COM) mj_comPos(m, d);
  }
  if (needs & NEEDS_SENSOR_POS) mj_sensorPos(m, d);
  if (needs & NEEDS_ALL_VEL) mj_fwdVelocity(m, d);
  else if (needs & NEEDS_VELOCITY) mj_comVel(m, d);
  if (needs & NEEDS_SENSOR_VEL) mj_sensorVel(m, d);
}

static double evaluate(Reward *r) {
  double value = mupEval(r->parser);
  if (isfinite(value)) return value;
  r->faults++;
  return 0;
}

double reward_value(Reward *r, const mjModel *m, const mjData *d) {
  for (int i = 0; i < r->slot_count; i++) {
    const QuantitySource *s = &r->slots[i].source;
    s->read(m, d, s->kind, s->id, r->values + r->slots[i].at);
  }
  return evaluate(r);
}

double reward_step_value(Reward *r, const mjModel *m, const mjData *d, const double *qpos) {
  for (int i = 0; i < r->slot_count; i++) {
    const QuantitySource *s = &r->slots[i].source;
    double *value = r->values + r->slots[i].at;
    if (s->read == read_moved) *value = d->qpos[s->id] - qpos[s->id];
    else if (s->read == read_dt) *value = r->dt;
    else s->read(m, d, s->kind, s->id, value);
  }
  return evaluate(r);
}

int reward_needs(const Reward *r) { return r->needs; }

int64_t reward_faults(const Reward *r) { return r->faults; }
