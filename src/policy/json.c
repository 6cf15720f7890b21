// Reading JSON where it is, also inside a JSON string, as safetensors stores metadata. Nothing is
// copied but the strings that someone asks for, and every text ends the reading at its first flaw.

#include "policy/policy.h"

enum { DEPTH = 16 };  // nested values that are skipped

// the character at the cursor and how many bytes it takes; -1 at the end or for a flaw
static int next(const PolicyJson *j, int *bytes) {
  *bytes = 1;
  if (j->at >= j->end) return -1;
  if (!j->escaped || *j->at != '\\') return (unsigned char)*j->at;
  *bytes = 2;
  if (j->end - j->at < 2) return -1;
  switch (j->at[1]) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'u': return -1;  // bfm writes no such characters into its own metadata
    default: return (unsigned char)j->at[1];
  }
}

static int step(PolicyJson *j) {
  int bytes, c = next(j, &bytes);
  if (c >= 0) j->at += bytes;
  return c;
}

POLICY_INTERNAL int json_peek(PolicyJson *j) {
  int bytes, c;
  while ((c = next(j, &bytes)) == ' ' || c == '\n' || c == '\t' || c == '\r') j->at += bytes;
  return c;
}

POLICY_INTERNAL int json_take(PolicyJson *j, int wanted) {
  if (json_peek(j) != wanted) return 0;
  step(j);
  return 1;
}

// the four hexadecimal digits of \u as one byte: '?' beyond ASCII, which no name of bfm contains
static int read_unicode(PolicyJson *j) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    int c = step(j);
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = 16 * value + digit;
  }
  return value && value < 128 ? value : '?';
}

// a string without backslashes, which nearly all are: returns 0 if it is another one
static int plain_string(PolicyJson *j, char *out, size_t size) {
  size_t left = (size_t)(j->end - j->at);
  const char *close = j->escaped ? NULL : (const char *)memchr(j->at, '"', left);
  if (!close || memchr(j->at, '\\', (size_t)(close - j->at))) return 0;
  size_t length = (size_t)(close - j->at);
  if (length + 1 > size) length = size ? size - 1 : 0;
  if (out && length) memcpy(out, j->at, length);
  if (out && size) out[length] = 0;
  j->at = close + 1;
  return 1;
}

POLICY_INTERNAL int json_string(PolicyJson *j, char *out, size_t size) {
  size_t used = 0;
  if (size) out[0] = 0;
  if (!json_take(j, '"')) return 0;
  if (plain_string(j, out, size)) return 1;
  for (;;) {
    int c = step(j);
    if (c == '"') break;
    if (c == '\\') {
      c = step(j);
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'u' ? read_unicode(j) : c;
    }
    if (c < 0) return 0;
    if (used + 1 < size) out[used++] = (char)c, out[used] = 0;
  }
  return 1;
}

POLICY_INTERNAL int json_number(PolicyJson *j, double *out) {
  double value = 0, sign = 1;
  int digits = 0, exponent = 0, power = 0, power_sign = 1, bytes, c;
  if (json_take(j, '-')) sign = -1;
  for (; (c = next(j, &bytes)) >= '0' && c <= '9'; j->at += bytes, digits++) {
    value = value * 10 + (c - '0');
  }
  if (c == '.') {
    for (j->at += bytes; (c = next(j, &bytes)) >= '0' && c <= '9'; j->at += bytes, digits++) {
      value = value * 10 + (c - '0');
      exponent--;
    }
  }
  if (!digits || digits > 300) return 0;
  if (c == 'e' || c == 'E') {
    j->at += bytes;
    c = next(j, &bytes);
    if (c == '-' || c == '+') power_sign = c == '-' ? -1 : 1, j->at += bytes;
    for (; (c = next(j, &bytes)) >= '0' && c <= '9'; j->at += bytes) {
      if (power < 1000) power = power * 10 + (c - '0');
    }
  }
  exponent += power_sign * power;
  *out = sign * (exponent < 0 ? value / pow(10, -exponent) : value * pow(10, exponent));
  return 1;
}

// true, false or null
static int skip_word(PolicyJson *j) {
  int letters = 0, bytes, c;
  for (; (c = next(j, &bytes)) >= 'a' && c <= 'z'; j->at += bytes) letters++;
  return letters == 4 || letters == 5;
}

POLICY_INTERNAL int json_skip(PolicyJson *j) {
  int close[DEPTH], first[DEPTH], depth = 0;
  for (;;) {
    int c = json_peek(j), ok = 1;
    double number;
    if (c == '{' || c == '[') {
      if (depth == DEPTH) return 0;
      step(j);
      first[depth] = 1;
      close[depth++] = c == '{' ? '}' : ']';
    } else if (c == '"') {
      ok = json_string(j, NULL, 0);
    } else {
      ok = (c >= 'a' && c <= 'z') ? skip_word(j) : json_number(j, &number);
    }
    if (!ok) return 0;
    // to the next value within the brackets, or out of them
    while (depth) {
      int *is_first = &first[depth - 1];
      int more =
          close[depth - 1] == '}' ? json_key(j, is_first, NULL, 0) : json_element(j, is_first);
      if (more < 0) return 0;
      if (more) break;
      depth--;
    }
    if (!depth) return 1;
  }
}

// whether another item follows: 1, 0 at the closing bracket, -1
static int item(PolicyJson *j, int *first, int close) {
  int was_first = *first;
  *first = 0;
  if (json_take(j, close)) return 0;
  return was_first || json_take(j, ',') ? 1 : -1;
}

POLICY_INTERNAL int json_key(PolicyJson *j, int *first, char *key, size_t size) {
  int more = item(j, first, '}');
  if (more <= 0) return more;
  return json_string(j, key, size) && json_take(j, ':') ? 1 : -1;
}

POLICY_INTERNAL int json_element(PolicyJson *j, int *first) { return item(j, first, ']'); }
