// The functions of rewards. Those that muParser has not, or computes otherwise than NumPy, are here.
//
// NaN has one rule, IEEE's and NumPy's: it passes through every function, whatever the order of the
// arguments (but x^0 and 1^x are 1). A comparison with it is false (only != is true), && || ! take it
// for true, and where it is a condition, the result is NaN. reward_value then counts a final value
// that is not finite as 0.

#include "envs/reward_functions.h"

#include <math.h>
#include <stdio.h>

#include "envs/reward.h"

#define MANY 1024  // most arguments of functions that take any number

// ---------------------------------- tolerances ---------------------------------------------------

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

const char *tolerance_flaw(double lo, double hi, double margin, double v, int zero_allowed) {
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

static double f_dot(const double *a, int n) { return mju_dot(a, a + n / 2, n / 2); }

// muParser's own is not the C library's
static double f_asinh(const double *a, int n) { return (void)n, asinh(a[0]); }

static double f_log1p(const double *a, int n) { return (void)n, log1p(a[0]); }

static double f_fma(const double *a, int n) { return (void)n, fma(a[0], a[1], a[2]); }

#define TOLERANCE_ROW(name, sigmoid, zero, help) \
  {name, 1, 5, TOLERANCE_CALL | (zero), tolerance_##sigmoid, help}

const Function reward_functions[] = {
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
    {"log1p", 1, 1, 0, f_log1p, "log(1 + x), exact for small x"},
    {"sin", 1, 1, 0, NULL, "sine (rad)"},
    {"cos", 1, 1, 0, NULL, "cosine"},
    {"tan", 1, 1, 0, NULL, "tangent"},
    {"asin", 1, 1, 0, NULL, "arc sine"},
    {"acos", 1, 1, 0, NULL, "arc cosine"},
    {"atan", 1, 1, 0, NULL, "arc tangent"},
    {"atan2", 2, 2, 0, NULL, "(y, x): angle of the vector (x, y)"},
    {"asinh", 1, 1, 0, f_asinh, "inverse hyperbolic sine: a logarithmic scale with a sign"},
    {"fma", 3, 3, 0, f_fma, "(x, y, z): x * y + z, rounded once"},
    {"sinh", 1, 1, 0, NULL, "hyperbolic sine"},
    {"cosh", 1, 1, 0, NULL, "hyperbolic cosine"},
    {"tanh", 1, 1, 0, NULL, "hyperbolic tangent"},
    {.name = NULL},
};

const Constant reward_constants[] = {{"pi", M_PI, "3.14159…, half a turn (rad)"},
                                     {"inf", INFINITY, "infinity"},
                                     {.name = NULL}};

void reward_help(FILE *out) {
  fprintf(out, "%-24s+ - * / ^  < <= > >= == !=  && || !  condition ? a : b  ( )\n", "operators");
  for (const Function *f = reward_functions; f->name; f++) {
    fprintf(out, "%-24s%s\n", f->name, f->help);
  }
  for (const Constant *c = reward_constants; c->name; c++) {
    fprintf(out, "%-24s%s\n", c->name, c->help);
  }
}

static double add(double a, double b) { return a + b; }

static double subtract(double a, double b) { return a - b; }

static double multiply(double a, double b) { return a * b; }

static double divide(double a, double b) { return a / b; }

static double logical_and(double a, double b) { return a != 0 && b != 0; }

static double logical_or(double a, double b) { return a != 0 || b != 0; }

// Arithmetic and logic are our own operators: muParser rearranges its own, so that (x + 1) * inf
// becomes x * inf + inf, which is NaN for a negative x, and it folds 0.5 && 1 to 0. Longer operators
// come first, so that "<=" is not read as "<".
const Operator reward_operators[] = {
    {"<=", COMPARISON, "<=", 0, NULL},
    {">=", COMPARISON, ">=", 0, NULL},
    {"==", COMPARISON, "==", 0, NULL},
    {"!=", COMPARISON, "!=", 0, NULL},
    {"&&", LOGICAL, "&", 2, logical_and},
    {"||", LOGICAL, "|", 1, logical_or},
    {"<", COMPARISON, "<", 0, NULL},
    {">", COMPARISON, ">", 0, NULL},
    {"+", ARITHMETIC, "#", 5, add},
    {"-", ARITHMETIC, "~", 5, subtract},
    {"*", ARITHMETIC, "$", 6, multiply},
    {"/", ARITHMETIC, "%", 6, divide},
    {.text = NULL},
};
