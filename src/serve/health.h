// Whether a run is healthy, judged by a line of its log: by the rules of the guard
// (src/agent/guard.h), and by what docs/learning.md says of weights in a healthy run.

#ifndef BFM_SERVE_HEALTH_H
#define BFM_SERVE_HEALTH_H

#include <cjson/cJSON.h>
#include <stdint.h>

typedef enum { HEALTHY, WATCH, DIVERGED } Word;

// the options of an agent that the guard's rules need; d 0: they are not known
typedef struct {
  int64_t d;
  double gamma, ortho;
} AgentFacts;

// All numbers are the worst seed's, and NaN where neither the log nor the agent tells.
typedef struct {
  Word word;
  char text[640];           // why, for people
  double f, bound, share;   // norm of F, the largest that theory allows, and their ratio
  double m_max;             // largest |F·B|
  double eig_min, eig_max;  // of E[BBᵀ]
  double directions, d;     // how many of d directions B uses
  double ess, w_max;        // of the weights of a batch
} Health;

// line: the last with losses, or NULL. why: the reason of a divergence that ended the run, or empty
Health health_of(const cJSON *line, const AgentFacts *agent, const char *why);

// the field `health` of a message `run`; NULL when memory ran out
cJSON *health_item(const Health *health);

#endif
