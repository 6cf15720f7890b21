// Numbers as text, with a decimal point: a program that uses the library may have set a locale that
// writes a comma.

#ifndef BFM_CORE_NUMBER_H
#define BFM_CORE_NUMBER_H

#include <stddef.h>

double number_read(const char *text, char **end);                     // as strtod
void number_write(char *out, size_t size, int digits, double value);  // as "%.*g"

#endif
