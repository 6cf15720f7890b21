// Sentences without printf, which may allocate and follows the locale.

#include "policy/policy.h"

POLICY_INTERNAL PolicyText policy_text(bfm_policy_error *error, bfm_policy_status status) {
  PolicyText text;
  text.text = error ? error->text : NULL;
  text.size = error ? sizeof error->text : 0;
  text.used = 0;
  if (error) error->status = status, error->text[0] = 0;
  return text;
}

POLICY_INTERNAL void policy_clear(bfm_policy_error *error) {
  if (error) error->status = BFM_POLICY_OK, error->text[0] = 0;
}

static void say_char(PolicyText *text, char c) {
  if (text->used + 1 >= text->size) return;
  text->text[text->used++] = c;
  text->text[text->used] = 0;
}

POLICY_INTERNAL void say_text(PolicyText *text, const char *words) {
  for (; *words; words++) say_char(text, *words);
}

POLICY_INTERNAL void say_count(PolicyText *text, long long number) {
  char digits[24];
  int n = 0;
  unsigned long long left =
      number < 0 ? 0ULL - (unsigned long long)number : (unsigned long long)number;
  if (number < 0) say_char(text, '-');
  do digits[n++] = (char)('0' + left % 10);
  while (left /= 10);
  while (n) say_char(text, digits[--n]);
}

// as "%.6g", but always with an exponent where the number is large or small
POLICY_INTERNAL void say_number(PolicyText *text, double x) {
  if (isnan(x)) say_text(text, "nan");
  if (isnan(x)) return;
  if (x < 0) say_char(text, '-');
  x = fabs(x);
  if (isinf(x)) say_text(text, "inf");
  if (isinf(x)) return;
  int exponent = x > 0 ? (int)floor(log10(x)) : 0;
  int scientific = exponent < -5 || exponent > 6;
  double shown = scientific ? x / pow(10, exponent) : x;
  int decimals = scientific ? 5 : 5 - exponent > 0 ? 5 - exponent : 0;
  long long scaled = (long long)floor(shown * pow(10, decimals) + 0.5), unit = 1;
  while (decimals && scaled % 10 == 0) scaled /= 10, decimals--;
  for (int i = 0; i < decimals; i++) unit *= 10;
  say_count(text, scaled / unit);
  if (decimals) say_char(text, '.');
  for (unit /= 10; decimals--; unit /= 10) say_char(text, (char)('0' + scaled / unit % 10));
  if (!scientific) return;
  say_char(text, 'e');
  say_count(text, exponent);
}

POLICY_INTERNAL bfm_policy_status policy_fail(bfm_policy_error *error, bfm_policy_status status,
                                              const char *words) {
  PolicyText text = policy_text(error, status);
  say_text(&text, words);
  return status;
}

POLICY_INTERNAL bfm_policy_status policy_fail_at(bfm_policy_error *error, bfm_policy_status status,
                                                 const char *words, double number,
                                                 const char *more) {
  PolicyText text = policy_text(error, status);
  say_text(&text, words);
  if (number == floor(number) && fabs(number) < 1e15) say_count(&text, (long long)number);
  else say_number(&text, number);
  say_text(&text, more);
  return status;
}

POLICY_INTERNAL int policy_odd(const float *x, int n, float most) {
  for (int i = 0; i < n; i++) {
    if (!(fabsf(x[i]) <= most)) return i + 1;
  }
  return 0;
}
