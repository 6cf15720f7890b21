// Workspaces: what acting and prompting write. Parameters and prompt states are only read, so any
// number of threads may act with one agent, each in a workspace of its own.

#ifndef BFM_AGENT_WORKSPACE_H
#define BFM_AGENT_WORKSPACE_H

#include "agent/agent.h"

// buffers for a chunk of rows, infer.c
typedef struct {
  int64_t rows;
  void *memory;
  Tape f, b, pi;
  float *obs, *goal, *act, *z, *z_b, *mu, *out, *q, *candidates;
  float *few;  // scratch of few.c
} Infer;

// buffers for a prompt, encode.c
typedef struct {
  int replica;
  int64_t rows;               // states of this call
  const float *obs, *weight;  // of this call, on the host
  int64_t chunk;              // rows that are computed at once
  int64_t kept;               // rows whose activations are kept between passes
  int apart;                  // kept activations have buffers of their own, not the tape's
  Tape tape;                  // of a chunk
  void *act, *cat, *trunk[NET_MAX_LAYERS];  // kept activations, [kept, ·]
  float *states, *w;                        // [kept + chunk, goal], [kept + chunk]
  float *whole;                             // [chunk, obs] if B sees only some columns, else NULL
  float *z_b, *b;                           // [d], [chunk, d]
  double *sum;                              // [d]
  void *memory;
} Encoder;

typedef struct Workspace {
  bfm_agent *agent;
  Ops *ops;  // the agent's own in its first workspace; the others have an Ops of one thread each
  Infer infer;
  Encoder encoder;
  struct Workspace *next;  // in the list of idle ones
} Workspace;

// take an idle workspace or make one; on a GPU, which would only share its time among several, wait
// for the one there is
int workspace_take(bfm_agent *agent, Workspace **workspace);
void workspace_give(bfm_agent *agent, Workspace *workspace);

// Have calls of this thread use one CPU thread each, also when they come alone: for a thread that acts
// on few observations at every control step, which more threads hardly speed up, while another thread
// may need them for a prompt.
void workspace_spare_threads(int spare);

// in a function that acts or prompts: a workspace w until the function returns
#define WORKSPACE(w, agent)                                        \
  __attribute__((cleanup(workspace_leave))) Workspace *(w) = NULL; \
  TRY(workspace_take((agent), &(w)))

static inline void workspace_leave(Workspace *const *workspace) {
  if (*workspace) workspace_give((*workspace)->agent, *workspace);
}

// end all workspaces; none is in use
void workspaces_free(bfm_agent *agent);

// few.c: passes over few rows on a CPU. The inputs are in the tape, as for net_forward; of input 1, only
// the first `rows` rows, which repeat
int few_are(const Workspace *workspace, int64_t rows);
int64_t few_scratch(const bfm_agent *agent);  // floats of Infer.few
void few_forward(Workspace *workspace, int net, const Tape *tape, int replica, int64_t rows,
                 int64_t repeat);

// encode.c, infer.c: end the buffers
void encoder_free(Workspace *workspace);
void infer_free(Workspace *workspace);

#endif
