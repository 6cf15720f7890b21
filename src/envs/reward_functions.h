// The functions, constants and operators of the reward language, as tables.

#ifndef BFM_ENVS_REWARD_FUNCTIONS_H
#define BFM_ENVS_REWARD_FUNCTIONS_H

#include <muParserDLL.h>

#define PAIR 63              // most arguments of functions that take two vectors
#define VALUE_AT_MARGIN 0.1  // of a tolerance whose last argument is left out

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

typedef struct {
  const char *name;
  double value;
  const char *help;
} Constant;

enum { ARITHMETIC, COMPARISON, LOGICAL };

typedef struct {
  const char *text;
  int type;
  const char *written;  // in muParser's syntax; as short, so that no expression becomes too long
  int priority;         // of our own operators; muParser's comparisons have 4, its power 7
  muFun2_t function;
} Operator;

// each ends with a row without a name
extern const Function reward_functions[];
extern const Constant reward_constants[];
extern const Operator reward_operators[];

// an error in the arguments of a tolerance, or NULL
const char *tolerance_flaw(double lo, double hi, double margin, double v, int zero_allowed);

#endif
