// The health of a run. The guard judges F and B of the batch at hand; the log has their mean norms,
// which are a little smaller, so that here a run is at most called better than the guard finds it.

#include "serve/health.h"

#include <math.h>
#include <stdio.h>

#include "agent/guard.h"
#include "serve/run_log.h"

// "Reading the log" in docs/learning.md: healthy runs have an ess above a few percent, and where w.max
// is near 1, one transition alone decides the step
#define LEAST_ESS 0.02
#define MOST_WEIGHT 0.5

// ---------------------------------- measuring ----------------------------------------------------

// the values of a metric under the name it has, lap's or fb's
static int values(const cJSON *line, const char *name, const char *lap_name, double *out) {
  int n = log_values(line, name, out);
  return n || !lap_name ? n : log_values(line, lap_name, out);
}

static double largest(const cJSON *line, const char *name, const char *lap_name) {
  double all[SEEDS_MOST], found = NAN;
  int n = values(line, name, lap_name, all);
  for (int i = 0; i < n; i++) found = fmax(found, all[i]);
  return found;
}

static double smallest(const cJSON *line, const char *name, const char *lap_name) {
  double all[SEEDS_MOST], found = NAN;
  int n = values(line, name, lap_name, all);
  for (int i = 0; i < n; i++) found = fmin(found, all[i]);
  return found;
}

// the guard's first two rules
static void measure(const cJSON *line, const AgentFacts *agent, Health *h) {
  double f[SEEDS_MOST], b[SEEDS_MOST], ortho[SEEDS_MOST];
  int n = values(line, "F", "psi.norm", f), m = values(line, "B", "phi", b);
  int k = values(line, "ortho", NULL, ortho);
  double d = (double)agent->d, rest = fmax(1 - agent->gamma, 1e-3);
  h->d = d;
  h->bound = sqrt(d) / rest;
  for (int r = 0; r < n && r < m; r++) h->share = fmax(h->share, f[r] * b[r] * rest / d);
  for (int r = 0; r < m && r < k && d > 1 && agent->ortho > 0; r++) {
    double square = b[r] * b[r];
    h->directions = fmin(h->directions, fmin(d, square * square / (2 * (ortho[r] + square))));
  }
}

// ---------------------------------- judging ------------------------------------------------------

// the worst word counts, and of several texts with it the first
#define SAY(health, of, ...)                                     \
  if ((of) > (health)->word || !*(health)->text) {               \
    (health)->word = (of);                                       \
    snprintf((health)->text, sizeof(health)->text, __VA_ARGS__); \
  }

static void judge_losses(const cJSON *line, Health *h) {
  const cJSON *item;
  double all[SEEDS_MOST];
  cJSON_ArrayForEach(item, line) {
    int n = log_is_counter(item->string) ? 0 : log_values(line, item->string, all);
    for (int i = 0; i < n; i++) {
      if (!isfinite(all[i])) SAY(h, DIVERGED, "%.24s is not finite", item->string);
    }
  }
}

// before the guard looks, features may be too alike
static void judge_guard(const cJSON *line, Health *h) {
  Word word = log_value(line, "step") < GUARD_STEPS ? WATCH : DIVERGED;
  if (h->share > GUARD_MOST_F) SAY(h, word, "F is at %.3g times its bound", h->share);
  if (h->directions < GUARD_FEWEST_DIRECTIONS) {
    SAY(h, word, "B uses only %.3g of its %.0f directions", h->directions, h->d);
  }
  if (h->share > 1) {
    SAY(h, WATCH, "F is at %.3g times its bound; the guard stops at %.3g", h->share, GUARD_MOST_F);
  }
}

static void judge_weights(Health *h) {
  if (h->w_max > MOST_WEIGHT) {
    SAY(h, WATCH, "one transition has %.0f%% of the weight of its batch", 100 * h->w_max);
  }
  if (h->ess < LEAST_ESS) {
    SAY(h, WATCH, "the weights leave %.2g%% of a batch (ess)", 100 * h->ess);
  }
}

static void praise(const cJSON *line, Health *h) {
  if (!line) SAY(h, HEALTHY, "the log has no lines yet");
  if (h->share >= 0) SAY(h, HEALTHY, "F is at %.0f%% of its bound", 100 * h->share);
  SAY(h, HEALTHY, "its losses are finite");
}

Health health_of(const cJSON *line, const AgentFacts *agent, const char *why) {
  Health h = {.share = NAN, .bound = NAN, .directions = NAN, .d = NAN};
  h.f = largest(line, "F", "psi.norm");
  h.m_max = largest(line, "M.max", NULL);
  h.eig_min = smallest(line, "B.eig.min", "phi.eig.min");
  h.eig_max = largest(line, "B.eig.max", "phi.eig.max");
  h.ess = smallest(line, "ess", NULL);
  h.w_max = largest(line, "w.max", NULL);
  if (agent->d > 0) measure(line, agent, &h);
  if (*why) SAY(&h, DIVERGED, "%.500s", why);
  judge_losses(line, &h);
  judge_guard(line, &h);
  judge_weights(&h);
  praise(line, &h);
  return h;
}

// ---------------------------------- as JSON ------------------------------------------------------

cJSON *health_item(const Health *h) {
  static const char *const words[] = {"healthy", "watch", "diverged"};
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"F", h->f},
                 {"F_bound", h->bound},
                 {"share", h->share},
                 {"M_max", h->m_max},
                 {"B_eig_min", h->eig_min},
                 {"B_eig_max", h->eig_max},
                 {"directions", h->directions},
                 {"d", h->d},
                 {"ess", h->ess},
                 {"w_max", h->w_max}};
  cJSON *item = cJSON_CreateObject();
  cJSON_AddStringToObject(item, "word", words[h->word]);
  cJSON_AddBoolToObject(item, "ok", h->word == HEALTHY);
  log_add_text(item, "text", h->text);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    log_add(item, numbers[i].name, numbers[i].value);
  }
  return item;
}
