// Whole collections: what bfm collect and bfm_collect run. The row of the crew table chooses the
// protocol.

#include "collect/collect.h"

#include "collect/collection.h"
#include "collect/d4rl.h"
#include "core/sized.h"

int collection_run(Collection *c) {
  const CrewKind *kind = c->crew.kind;
  return kind->policies && kind->levels ? d4rl_run(c) : collection_loop(c);
}

const char *collection_task(const Collection *c, int agent) { return c->crew.tasks[agent]; }

void collection_summary(const Collection *c, CollectSummary *summary) {
  *summary = (CollectSummary){
      .env = c->env_name,
      .with = c->crew.kind->name,
      .first = c->first,
      .rows = c->rows,
      .episodes = c->episodes,
      .diverged = bfm_env_diverged(c->env),
      .updates = c->crew.learner ? bfm_explorer_step(c->crew.learner) - c->updates : 0,
      .envs = c->n,
      .agents = c->crew.agents,
      .restarted = c->restarted,
      .seconds = c->seconds,
      .busy = c->crew.busy,
      .returns = c->evaluated ? c->returns : NULL,
  };
}

bfm_status bfm_collect(const bfm_collection *given) {
  bfm_collection run;
  NEED("collection", given);
  TRY(sized_read(&run, sizeof run, given, 0, "bfm_collection"));
  NEED("output", run.output);
  const CollectPlan plan = {
      .env = run.env,
      .path = run.output,
      .given = run.options ? run.options : "{}",
      .resume = run.resume,
      .progress = run.progress,
      .context = run.context,
  };
  Collection *collection;
  TRY(collection_open(&collection, &plan));
  int status = collection_run(collection);
  collection_close(collection);
  return status;
}
