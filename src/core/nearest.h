// The word a user probably meant: the candidate at the smallest edit distance.

#ifndef BFM_CORE_NEAREST_H
#define BFM_CORE_NEAREST_H

typedef struct {
  const char *word;  // what was typed
  const char *best;  // the closest candidate so far, NULL while none is close
  int distance;
  char said[96];
} Nearest;

// Nearest n = {.word = typed}; nearest_try(&n, candidate) for each candidate; then read n.best
void nearest_try(Nearest *n, const char *candidate);

// the end of a refusal: "; did you mean best?", or what to say where none is close
const char *nearest_say(Nearest *n, const char *otherwise);

#endif
