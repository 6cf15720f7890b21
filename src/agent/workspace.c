// The pool of workspaces. Each agent keeps those it has made: a thread that acts at every control
// step finds its buffers again. A call that comes alone gets the first workspace and with it all of
// the agent's threads; calls beside it get one thread each. The results are the same bits.

#include "agent/workspace.h"

#include <stdlib.h>

static int open_workspace(bfm_agent *a, int first, Workspace **out) {
  Workspace *w = *out = calloc(1, sizeof *w);
  if (!w) return bfm_fail(BFM_NO_MEMORY, "out of memory for acting");
  w->agent = a;
  w->ops = a->ops;
  int status = first ? BFM_OK : ops_open_cpu(&w->ops, a->ops->type, 1);
  if (!status) return BFM_OK;
  free(w);
  *out = NULL;
  return status;
}

static void close_workspace(Workspace *w) {
  infer_free(w);
  encoder_free(w);
  if (w->ops != w->agent->ops) w->ops->close(w->ops);
  free(w);
}

static _Thread_local int spare_threads;

void workspace_spare_threads(int spare) { spare_threads = spare; }

int workspace_take(bfm_agent *a, Workspace **out) {
  Workspaces *pool = &a->workspaces;
  int spare = spare_threads && agent_on_cpu(a);
  pthread_mutex_lock(&pool->mutex);
  while (!pool->idle && pool->count && !agent_on_cpu(a)) {
    pthread_cond_wait(&pool->given, &pool->mutex);
  }
  Workspace **place = &pool->idle;
  if (spare && *place && (*place)->ops == a->ops) place = &(*place)->next;
  int first = !spare && !pool->first;
  *out = first ? NULL : *place;
  if (*out) *place = (*out)->next;
  else pool->count++;
  pool->first |= first;
  pthread_mutex_unlock(&pool->mutex);
  if (*out) return BFM_OK;

  int status = open_workspace(a, first, out);
  if (!status) return BFM_OK;
  pthread_mutex_lock(&pool->mutex);
  pool->count--;
  if (first) pool->first = 0;
  pthread_cond_signal(&pool->given);
  pthread_mutex_unlock(&pool->mutex);
  return status;
}

// the one with the agent's threads goes to the front, to be taken first
void workspace_give(bfm_agent *a, Workspace *w) {
  Workspaces *pool = &a->workspaces;
  pthread_mutex_lock(&pool->mutex);
  Workspace **place = &pool->idle;
  if (w->ops != a->ops && *place && (*place)->ops == a->ops) place = &(*place)->next;
  w->next = *place;
  *place = w;
  pthread_cond_signal(&pool->given);
  pthread_mutex_unlock(&pool->mutex);
}

void workspaces_free(bfm_agent *a) {
  for (Workspace *w = a->workspaces.idle, *next; w; w = next) {
    next = w->next;
    close_workspace(w);
  }
  a->workspaces.idle = NULL;
  a->workspaces.count = a->workspaces.first = 0;
}
