// The word a user probably meant, by Levenshtein distance, one row of the table at a time. '-' and
// '_' count as equal, and so do capital and small letters.

#include "core/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MAX_LENGTH 64

static int folded(char c) { return c == '_' ? '-' : tolower((unsigned char)c); }

static int min2(int a, int b) { return a < b ? a : b; }

static int edit_distance(const char *a, const char *b) {
  int rows = (int)strlen(a), columns = (int)strlen(b);
  int row[MAX_LENGTH + 1];
  for (int j = 0; j <= columns; j++) row[j] = j;

  for (int i = 1; i <= rows; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= columns; j++) {
      int replace = diagonal + (folded(a[i - 1]) != folded(b[j - 1]));
      diagonal = row[j];
      row[j] = min2(replace, min2(row[j], row[j - 1]) + 1);
    }
  }
  return row[columns];
}

void suggest_try(Suggestion *n, const char *candidate) {
  size_t length = strlen(n->word);
  if (length > MAX_LENGTH || strlen(candidate) > MAX_LENGTH) return;

  // up to a third of the letters may be wrong; beyond that it is a different word
  int allowed = 1 + (int)length / 3;
  int distance = edit_distance(n->word, candidate);
  if (distance <= allowed && (!n->best || distance < n->distance)) {
    n->best = candidate;
    n->distance = distance;
  }
}

const char *suggest_say(Suggestion *n, const char *otherwise) {
  if (!n->best) return otherwise;
  snprintf(n->text, sizeof n->text, "; did you mean %s?", n->best);
  return n->text;
}
