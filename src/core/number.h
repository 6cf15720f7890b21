// Numbers as text, always with a decimal point: a program that uses the library may have set a
// locale with a decimal comma. And checks of the numbers that callers pass in.

#ifndef BFM_CORE_NUMBER_H
#define BFM_CORE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

double number_read(const char *text, char **end);                     // as strtod
void number_write(char *out, size_t size, int digits, double value);  // as "%.*g"

// BFM_BAD_ARGUMENT unless 1 ≤ value ≤ most; `what` names the argument in the message
int check_size(const char *what, int64_t value, int64_t most);

// BFM_BAD_ARGUMENT if an element of x [rows, cols] is NaN or infinite, or if x is NULL and rows is
// not 0; `what` names the array in the message
int check_finite(const float *x, int64_t rows, int64_t cols, const char *what);

#endif
