// The word a user probably meant: the candidate at the smallest edit distance.

#ifndef BFM_CORE_SUGGEST_H
#define BFM_CORE_SUGGEST_H

typedef struct {
  const char *word;  // the word that was typed
  const char *best;  // the closest candidate so far, NULL while none is close
  int distance;
  char text[96];
} Suggestion;

// Suggestion n = {.word = typed}; suggest_try(&n, candidate) for each candidate; then read n.best
void suggest_try(Suggestion *n, const char *candidate);

// the end of an error sentence: "; did you mean best?", or `otherwise` if no candidate is close
const char *suggest_say(Suggestion *n, const char *otherwise);

#endif
