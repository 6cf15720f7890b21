// The reward language. A recursive-descent parser checks the typed expression (so that an error can
// point at its place), resolves the names and writes the same expression with numbered variables for
// muParser, which only evaluates it. A vector inside a function of vectors is expanded:
// norm(hand - target) is parsed three times and becomes norm(q0 - q3, q1 - q4, q2 - q5).

#include "envs/reward.h"

#include <ctype.h>
#include <math.h>
#include <muParserDLL.h>
#include <stdlib.h>
#include <string.h>

#include "core/suggest.h"
#include "envs/quantities.h"

#define MAX_SOURCES 256  // distinct vectors in one expression
#define MAX_VALUES 8192  // numbers of these vectors
#define MAX_DEPTH 128    // nested expressions and signs; a parenthesis counts as two
#define MAX_TEXT 20000   // characters for muParser, after vectors and aliases are expanded
#define MAX_NAME 128
#define MANY 1024  // most arguments of functions that take any number
#define PAIR 63    // most arguments of functions that take two vectors

typedef struct {
  QuantitySource source;
  int at;  // index of its first number in `values`
} Slot;

struct Reward {
  Slot slots[MAX_SOURCES];
  int slot_count, value_count, needs;
  int64_t faults;
  double *values;  // muParser's variables point here
  char *text;      // the expression for muParser
  muParserHandle_t parser;
};

// ---------------------------------- functions ----------------------------------------------------
//
// NaN has one rule, IEEE's and NumPy's: it passes through every function, whatever the order of the
// arguments (but x^0 and 1^x are 1). A comparison with it is false (only != is true), && || ! take it
// for true, and where it is a condition, the result is NaN. reward_value then counts a final value
// that is not finite as 0.

// dm_control's sigmoids: 1 at x = 0, v at x = 1
static double gaussian(double x, double v) {
  double scaled = x * sqrt(-2 * log(v));
  return exp(-0.5 * scaled * scaled);
}

static double hyperbolic(double x, double v) { return 1 / cosh(x * acosh(1 / v)); }

static double long_tail(double x, double v) {
  double scaled = x * sqrt(1 / v - 1);
  return 1 / (scaled * scaled + 1);
}

static double reciprocal(double x, double v) { return 1 / (fabs(x) * (1 / v - 1) + 1); }

static double cosine(double x, double v) {
  double scaled = x * (acos(2 * v - 1) / M_PI);
  return fabs(scaled) < 1 ? (1 + cos(M_PI * scaled)) / 2 : 0;
}

static double linear(double x, double v) {
  double scaled = x * (1 - v);
  return fabs(scaled) < 1 ? 1 - scaled : 0;
}

static double quadratic(double x, double v) {
  double scaled = x * sqrt(1 - v);
  return fabs(scaled) < 1 ? 1 - scaled * scaled : 0;
}

static double tanh_squared(double x, double v) {
  double t = tanh(x * atanh(sqrt(1 - v)));
  return 1 - t * t;
}

// an error in the arguments of a tolerance, or NULL
static const char *tolerance_flaw(double lo, double hi, double margin, double v, int zero_allowed) {
  if (isnan(lo) || isnan(hi)) return "a bound is NaN";
  if (isnan(margin) || isnan(v)) return "the margin or the value at the margin is NaN";
  if (lo > hi) return "the lower bound is above the upper bound";
  if (margin < 0) return "the margin is negative";
  if (margin == 0) return NULL;  // a step function, which ignores v
  if (v >= 1 || v < 0 || (v == 0 && !zero_allowed)) {
    return zero_allowed ? "the value at the margin is not in [0, 1)"
                        : "the value at the margin is not in (0, 1)";
  }
  return NULL;
}

#define VALUE_AT_MARGIN 0.1

// a = x [, lo, hi [, margin [, value at margin]]]; NaN where dm_control would raise an error
static inline double tolerance(const double *a, int n, double (*sigmoid)(double, double),
                               int zero_allowed) {
  double x = a[0], lo = n > 2 ? a[1] : 0, hi = n > 2 ? a[2] : 0;
  double margin = n > 3 ? a[3] : 0, v = n > 4 ? a[4] : VALUE_AT_MARGIN;
  if (isnan(x) || tolerance_flaw(lo, hi, margin, v, zero_allowed)) return NAN;

  if (lo <= x && x <= hi) return 1;
  if (margin == 0) return 0;
  double margins = (x < lo ? lo - x : x - hi) / margin;
  return isnan(margins) ? NAN : sigmoid(margins, v);  // NaN: an infinite distance and margin
}

#define TOLERANCE(sigmoid, zero_allowed)                      \
  static double tolerance_##sigmoid(const double *a, int n) { \
    return tolerance(a, n, sigmoid, zero_allowed);            \
  }

TOLERANCE(gaussian, 0)
TOLERANCE(hyperbolic, 0)
TOLERANCE(long_tail, 0)
TOLERANCE(reciprocal, 0)
TOLERANCE(tanh_squared, 0)
TOLERANCE(cosine, 1)
TOLERANCE(linear, 1)
TOLERANCE(quadratic, 1)

static double f_if(const double *a, int n) {
  return (void)n, isnan(a[0]) ? NAN : a[0] != 0 ? a[1] : a[2];
}

static double f_not(const double *a, int n) { return (void)n, a[0] == 0; }

static double f_min(const double *a, int n) {
  double least = a[0];
  for (int i = 1; i < n; i++) least = a[i] < least || isnan(a[i]) ? a[i] : least;
  return least;
}

static double f_max(const double *a, int n) {
  double most = a[0];
  for (int i = 1; i < n; i++) most = a[i] > most || isnan(a[i]) ? a[i] : most;
  return most;
}

static double f_clip(const double *a, int n) {
  const double above[] = {a[0], a[1]}, within[] = {f_max(above, 2), a[2]};
  return (void)n, f_min(within, 2);
}

static double f_sign(const double *a, int n) {
  return (void)n, isnan(a[0]) ? NAN : (a[0] > 0) - (a[0] < 0);
}

// muParser has no floor; its abs keeps the sign of -0, its rint rounds 0.5 up, and its log2(2^29) is
// not 29
static double f_abs(const double *a, int n) { return (void)n, fabs(a[0]); }

static double f_floor(const double *a, int n) { return (void)n, floor(a[0]); }

static double f_rint(const double *a, int n) { return (void)n, rint(a[0]); }

static double f_log2(const double *a, int n) { return (void)n, log2(a[0]); }

static double f_mean(const double *a, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i];
  return sum / n;
}

static double f_norm(const double *a, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * a[i];
  return sqrt(sum);
}

static double f_dist(const double *a, int n) {
  double sum = 0;
  for (int i = 0; i < n / 2; i++) sum += (a[i] - a[n / 2 + i]) * (a[i] - a[n / 2 + i]);
  return sqrt(sum);
}

static double f_dot(const double *a, int n) {
  double sum = 0;
  for (int i = 0; i < n / 2; i++) sum += a[i] * a[n / 2 + i];
  return sum;
}

enum {
  VECTORS = 1,         // a vector as an argument stands for all its numbers
  PAIRS = 2,           // takes the numbers of two vectors, one after the other
  TOLERANCE_CALL = 4,  // constant bounds are checked at compile time
  ZERO_ALLOWED = 8,    // the value at the margin may be 0
};

typedef struct {
  const char *name;
  int min, max;  // number of arguments
  int flags;
  muMultFun_t function;  // NULL: muParser's own function
  const char *help;
} Function;

#define TOLERANCE_ROW(name, sigmoid, zero, help) \
  {name, 1, 5, TOLERANCE_CALL | (zero), tolerance_##sigmoid, help}

static const Function functions[] = {
    TOLERANCE_ROW("tolerance", gaussian, 0,
                  "(x, lo, hi, margin, value): 1 in [lo, hi], falls to value (0.1) at margin"),
    TOLERANCE_ROW("tolerance_gaussian", gaussian, 0, "the same as tolerance"),
    TOLERANCE_ROW("tolerance_linear", linear, ZERO_ALLOWED, "a straight line to 0"),
    TOLERANCE_ROW("tolerance_quadratic", quadratic, ZERO_ALLOWED, "a parabola to 0"),
    TOLERANCE_ROW("tolerance_cosine", cosine, ZERO_ALLOWED, "half a cosine wave to 0"),
    TOLERANCE_ROW("tolerance_hyperbolic", hyperbolic, 0, "1 / cosh"),
    TOLERANCE_ROW("tolerance_long_tail", long_tail, 0, "1 / (x² + 1)"),
    TOLERANCE_ROW("tolerance_reciprocal", reciprocal, 0, "1 / (|x| + 1)"),
    TOLERANCE_ROW("tolerance_tanh_squared", tanh_squared, 0, "1 - tanh²"),
    {"if", 3, 3, 0, f_if, "(condition, a, b): a where the condition is not 0, else b"},
    {"not", 1, 1, 0, f_not, "1 where x is 0, else 0"},
    {"clip", 3, 3, 0, f_clip, "(x, lo, hi): x kept within [lo, hi]"},
    {"min", 1, MANY, VECTORS, f_min, "the smallest argument"},
    {"max", 1, MANY, VECTORS, f_max, "the largest argument"},
    {"sum", 1, MANY, VECTORS, NULL, "the sum of the arguments"},
    {"mean", 1, MANY, VECTORS, f_mean, "the mean of the arguments"},
    {"norm", 1, MANY, VECTORS, f_norm, "the Euclidean norm: norm(com.vx, com.vy), norm(qvel)"},
    {"dist", 2, PAIR, VECTORS | PAIRS, f_dist, "distance: dist(left_hand, right_hand)"},
    {"dot", 2, PAIR, VECTORS | PAIRS, f_dot, "scalar product of two vectors"},
    {"abs", 1, 1, 0, f_abs, "absolute value"},
    {"sign", 1, 1, 0, f_sign, "-1, 0 or 1"},
    {"floor", 1, 1, 0, f_floor, "largest integer not above x"},
    {"rint", 1, 1, 0, f_rint, "nearest integer; halves become the even one"},
    {"sqrt", 1, 1, 0, NULL, "square root"},
    {"exp", 1, 1, 0, NULL, "e to the power of x"},
    {"log", 1, 1, 0, NULL, "natural logarithm"},
    {"log2", 1, 1, 0, f_log2, "logarithm to base 2"},
    {"log10", 1, 1, 0, NULL, "logarithm to base 10"},
    {"sin", 1, 1, 0, NULL, "sine (rad)"},
    {"cos", 1, 1, 0, NULL, "cosine"},
    {"tan", 1, 1, 0, NULL, "tangent"},
    {"asin", 1, 1, 0, NULL, "arc sine"},
    {"acos", 1, 1, 0, NULL, "arc cosine"},
    {"atan", 1, 1, 0, NULL, "arc tangent"},
    {"atan2", 2, 2, 0, NULL, "(y, x): angle of the vector (x, y)"},
    {"sinh", 1, 1, 0, NULL, "hyperbolic sine"},
    {"cosh", 1, 1, 0, NULL, "hyperbolic cosine"},
    {"tanh", 1, 1, 0, NULL, "hyperbolic tangent"},
};

static const struct {
  const char *name;
  double value;
  const char *help;
} constants[] = {{"pi", M_PI, "3.14159…, half a turn (rad)"}, {"inf", INFINITY, "infinity"}};

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

void reward_help(FILE *out) {
  fprintf(out, "%-24s+ - * / ^  < <= > >= == !=  && || !  condition ? a : b  ( )\n", "operators");
  for (int i = 0; i < COUNT(functions); i++) {
    fprintf(out, "%-24s%s\n", functions[i].name, functions[i].help);
  }
  for (int i = 0; i < COUNT(constants); i++) {
    fprintf(out, "%-24s%s\n", constants[i].name, constants[i].help);
  }
}

static double add(double a, double b) { return a + b; }

static double subtract(double a, double b) { return a - b; }

static double multiply(double a, double b) { return a * b; }

static double divide(double a, double b) { return a / b; }

static double logical_and(double a, double b) { return a != 0 && b != 0; }

static double logical_or(double a, double b) { return a != 0 || b != 0; }

enum { ARITHMETIC, COMPARISON, LOGICAL };

// Arithmetic and logic are our own operators: muParser rearranges its own, so that (x + 1) * inf
// becomes x * inf + inf, which is NaN for a negative x, and it folds 0.5 && 1 to 0. Longer operators
// come first, so that "<=" is not read as "<".
static const struct {
  const char *text;
  int type;
  const char *written;  // in muParser's syntax; as short, so that no expression becomes too long
  int priority;         // of our own operators; muParser's comparisons have 4, its power 7
  muFun2_t function;
} operators[] = {
    {"<=", COMPARISON, "<=", 0, NULL},    {">=", COMPARISON, ">=", 0, NULL},
    {"==", COMPARISON, "==", 0, NULL},    {"!=", COMPARISON, "!=", 0, NULL},
    {"&&", LOGICAL, "&", 2, logical_and}, {"||", LOGICAL, "|", 1, logical_or},
    {"<", COMPARISON, "<", 0, NULL},      {">", COMPARISON, ">", 0, NULL},
    {"+", ARITHMETIC, "#", 5, add},       {"-", ARITHMETIC, "~", 5, subtract},
    {"*", ARITHMETIC, "$", 6, multiply},  {"/", ARITHMETIC, "%", 6, divide},
};

static int parser_new(muParserHandle_t *parser) {
  muParserHandle_t p = mupCreate(muBASETYPE_FLOAT);
  if (!p) return bfm_fail(BFM_NO_MEMORY, "out of memory for the parser of a reward");
  for (int i = 0; i < COUNT(functions); i++) {
    if (functions[i].function) mupDefineMultFun(p, functions[i].name, functions[i].function, 1);
  }
  for (int i = 0; i < COUNT(constants); i++) {
    mupDefineConst(p, constants[i].name, constants[i].value);
  }
  for (int i = 0; i < COUNT(operators); i++) {
    if (!operators[i].function) continue;
    mupDefineOprt(p, operators[i].written, operators[i].function, (muInt_t)operators[i].priority,
                  muOPRT_ASCT_LEFT, 1);
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

static int is_name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }

static int is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

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
  for (int i = 0; i < COUNT(functions); i++) {
    if (!strcmp(functions[i].name, name)) return &functions[i];
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
    for (int i = 0; i < COUNT(constants); i++) suggest_try(&nearest, constants[i].name);
  }
  char best[MAX_NAME] = "", meant[2 * MAX_NAME];
  if (nearest.best) quantity_typed_name(best, sizeof best, nearest.best);
  snprintf(meant, sizeof meant, "%s%s", best, part);
  if (colon && !strcmp(best, object)) {
    return FAIL_AT(c, place, "the model has no %.*s called '%s'", (int)(colon - name), name,
                   object);
  }
  if (!best[0] || !strcmp(meant, name)) { return FAIL_AT(c, place, REWARD_UNKNOWN " '%s'", name); }
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
    if (slot == MAX_SOURCES || r->value_count + source->size > MAX_VALUES) {
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
    for (int i = 0; i < COUNT(functions); i++) suggest_try(&nearest, functions[i].name);
    if (!nearest.best) return FAIL_AT(c, place, "there is no function '%s'", name);
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
    if (peek(c) == '(') return call(c, place, name);
    for (int i = 0; i < COUNT(constants); i++) {
      if (!strcmp(constants[i].name, name)) return emit_word(c, name);
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
    int i = 0;
    while (i < COUNT(operators) && strncmp(c->at, operators[i].text, strlen(operators[i].text))) {
      i++;
    }
    if (i == COUNT(operators) || !strncmp(c->at, "**", 2)) return fail_foreign(c);

    // a < b < c would compare c with 0 or 1
    if (operators[i].type == COMPARISON && compared) {
      return FAIL_AT(c, c->at,
                     "two comparisons in a row: write a < b && b < c, or use parentheses");
    }
    if (operators[i].type == COMPARISON) compared = 1;
    if (operators[i].type == LOGICAL) compared = 0;
    TRY(emit_word(c, operators[i].written));
    c->at += strlen(operators[i].text);
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

int reward_new(Reward **reward, const mjModel *model, const Alias *aliases, const char *typed) {
  *reward = NULL;
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

  Compiler c = {.reward = r, .model = model, .aliases = aliases, .typed = typed, .at = typed,
                .element = -1, .out = out};
  int status = parser_new(&r->parser);
  if (!status) status = compile(&c);
  if (!status) status = reward_bind(r);
  if (status) reward_free(r);
  else *reward = r;
  return status;
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

double reward_value(Reward *r, const mjModel *m, const mjData *d) {
  for (int i = 0; i < r->slot_count; i++) {
    const QuantitySource *s = &r->slots[i].source;
    s->read(m, d, s->kind, s->id, r->values + r->slots[i].at);
  }
  double value = mupEval(r->parser);
  if (isfinite(value)) return value;
  r->faults++;
  return 0;
}

int64_t reward_faults(const Reward *r) { return r->faults; }
