// The sizes of a training run: the largest networks with which this machine makes enough steps in the
// time there is. Each candidate trains for a moment on random numbers, from small to large.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bfm.h"
#include "core/rng.h"
#include "core/units.h"
#include "learn/learn.h"

enum {
  ROWS = 4096,     // of random data
  ENOUGH = 40000,  // steps below which a model of the next size is worse than one of this size
  LEAST = 1000,    // steps below which nothing is learned
};

#define MEASUREMENTS 4
#define MEASURE_SECONDS 0.15

static const LearnSizes candidates[] = {
    {64, 32, 32, 128, 1e-3, 0},    {128, 64, 64, 256, 3e-4, 0},    {256, 128, 128, 256, 3e-4, 0},
    {256, 128, 128, 512, 3e-4, 0}, {512, 256, 256, 1024, 1e-4, 0}, {1024, 512, 256, 1024, 1e-4, 0},
};
enum { CANDIDATES = sizeof candidates / sizeof *candidates };

static int make_agent(const Learn *l, const LearnSizes *s, int64_t obs_dim, int64_t act_dim,
                      bfm_agent **agent) {
  char options[512];
  snprintf(options, sizeof options,
           "{\"algo\": \"%.32s\", \"hidden\": %d, \"feat\": %d, \"b-hidden\": %d, \"batch\": %d, "
           "\"device\": \"%.32s\", \"threads\": %d, \"f-norm\": \"on\"}",
           l->options.algo, (int)s->hidden, (int)s->feat, (int)s->b_hidden, (int)s->batch,
           l->options.device, (int)l->options.threads);
  return bfm_agent_new(agent, obs_dim, act_dim, options);
}

static int set_random_data(bfm_agent *agent, int64_t obs_dim, int64_t act_dim) {
  int64_t row = 2 * obs_dim + act_dim;
  float *data = malloc((size_t)(row * ROWS) * sizeof *data);
  if (!data) return bfm_fail(BFM_NO_MEMORY, "out of memory for %d transitions", ROWS);
  bfm_random_uniform(0, STREAM_USER, 0, row * ROWS, data);
  const float *obs = data, *next = obs + obs_dim * ROWS, *act = next + obs_dim * ROWS;
  int status = bfm_agent_set_data(agent, ROWS, obs, act, next, NULL);
  free(data);
  return status;
}

// Steps per second: the best of a few measurements, as another program may disturb one. The first
// prepares the kernels.
static int measure(Learn *l, bfm_agent *agent, double *rate) {
  for (int i = 0; i < MEASUREMENTS; i++) {
    double start = seconds_now(), took = 0;
    int64_t steps = 0;
    for (int64_t chunk = 1; took < MEASURE_SECONDS; chunk *= 2) {
      TRY(bfm_agent_train(agent, chunk, NULL));
      steps += chunk;
      took = seconds_now() - start;
      if (learn_tell(l, "measuring this machine")) return BFM_OK;
    }
    *rate = fmax(*rate, (double)steps / took);
  }
  return BFM_OK;
}

static int measure_sizes(Learn *l, LearnSizes *s, int64_t obs_dim, int64_t act_dim) {
  bfm_agent *agent;
  TRY(make_agent(l, s, obs_dim, act_dim, &agent));
  int status = set_random_data(agent, obs_dim, act_dim);
  if (!status) status = measure(l, agent, &s->rate);
  bfm_agent_free(agent);
  return status;
}

static int refuse(const Learn *l, double seconds) {
  double needed = l->options.minutes * LEAST / (l->sizes.rate * seconds);
  return bfm_fail(BFM_BAD_ARGUMENT,
                  "%g minutes are too few to learn anything of %s: this machine would make %.0f "
                  "training steps, and %d are the least; give --minutes %.1f or more",
                  l->options.minutes, l->env, l->sizes.rate * seconds, LEAST, needed + 0.05);
}

int learn_choose_sizes(Learn *l, int64_t obs_dim, int64_t act_dim, double seconds) {
  for (int i = 0; i < CANDIDATES && !l->stopped; i++) {
    LearnSizes sizes = candidates[i];
    TRY(measure_sizes(l, &sizes, obs_dim, act_dim));
    if (l->stopped) return BFM_OK;
    if (i && sizes.rate * seconds < ENOUGH) break;
    l->sizes = sizes;
  }
  return l->sizes.rate * seconds < LEAST ? refuse(l, seconds) : BFM_OK;
}
