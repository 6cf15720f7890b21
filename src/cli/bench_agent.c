// bfm bench prompt and bfm bench act: the time to compute z from the rewards of 100,000 states, and
// actions from observations, with a newly initialized agent.

#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "core/units.h"
#include "core/rng.h"
#include "core/status.h"

enum { STATES = 100000 };

// seconds of the first and of the fastest call
typedef struct {
  double first, best;
} Times;

// call at least twice, and until `seconds` have passed
static int repeat(int (*call)(void *context), void *context, double seconds, Times *times) {
  double start = seconds_now();
  for (int i = 0; i < 2 || seconds_now() - start < seconds; i++) {
    double turn = seconds_now();
    TRY(call(context));
    double took = seconds_now() - turn;
    if (!i) times->first = times->best = took;
    if (took < times->best) times->best = took;
  }
  return BFM_OK;
}

// ---------------------------------- prompt -------------------------------------------------------

typedef struct {
  bfm_agent *agent;
  float *obs, *reward, *z;
} PromptCall;

static int prompt_call(void *context) {
  PromptCall *c = context;
  return bfm_agent_prompt_reward(c->agent, 0, STATES, c->obs, c->reward, 0, c->z);
}

int bench_prompt(bfm_agent *agent, double seconds, int json) {
  int64_t obs_dim = bfm_agent_obs_dim(agent);
  PromptCall call = {.agent = agent};
  call.obs = malloc(STATES * (obs_dim + 1) * sizeof *call.obs);
  call.z = malloc(bfm_agent_d(agent) * sizeof *call.z);
  int status =
      call.obs && call.z ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %d states", STATES);
  Times times = {0};
  if (!status) {
    call.reward = call.obs + STATES * obs_dim;
    bfm_random_normal(0, STREAM_USER, 0, STATES * (obs_dim + 1), call.obs);
    status = repeat(prompt_call, &call, seconds, &times);
  }
  free(call.obs);
  free(call.z);
  TRY(status);
  if (json) {
    printf("{\"bench\": \"prompt\", \"states\": %d, \"seconds\": %.5f, \"first_seconds\": %.5f}\n",
           STATES, times.best, times.first);
  } else {
    printf("z from %d states: %.4g s (first call: %.4g s)\n", STATES, times.best, times.first);
  }
  return BFM_OK;
}

// ---------------------------------- act ----------------------------------------------------------

typedef struct {
  bfm_agent *agent;
  int64_t rows;
  int es;
  float *obs, *z, *act;
} ActCall;

static int act_call(void *context) {
  ActCall *c = context;
  return bfm_agent_act(c->agent, 0, c->rows, c->obs, c->z, c->es, 0, 0, c->act);
}

int bench_act(bfm_agent *agent, double seconds, int json) {
  static const struct {
    int64_t rows;
    int es;
  } cases[] = {{1, 0}, {1, 32}, {100, 0}, {256, 32}};
  int64_t most = 256, obs_dim = bfm_agent_obs_dim(agent), d = bfm_agent_d(agent);
  ActCall call = {.agent = agent};
  call.obs = malloc(most * (obs_dim + d) * sizeof *call.obs);
  call.act = malloc(most * bfm_agent_act_dim(agent) * sizeof *call.act);
  int status =
      call.obs && call.act ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for observations");
  if (!status) {
    call.z = call.obs + most * obs_dim;
    bfm_random_normal(0, STREAM_USER, 0, most * (obs_dim + d), call.obs);
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases && !status; i++) {
    Times times = {0};
    call.rows = cases[i].rows;
    call.es = cases[i].es;
    status = repeat(act_call, &call, seconds / 4, &times);
    if (status) break;
    if (json) {
      printf("{\"bench\": \"act\", \"rows\": %ld, \"es\": %d, \"seconds\": %.6f}\n",
             (long)call.rows, call.es, times.best);
    } else {
      printf("%4ld observation%s %-18s %8.3f ms\n", (long)call.rows, call.rows > 1 ? "s," : ", ",
             call.es ? "best of 32 actions" : "policy's mean", 1e3 * times.best);
    }
    fflush(stdout);
  }
  free(call.obs);
  free(call.act);
  return status;
}
