// What the claims need of a run in addition to its last returns: the learning curve and the prediction
// bias, as they are stored in the ledger.

#ifndef BFM_PAPER_EVIDENCE_H
#define BFM_PAPER_EVIDENCE_H

#include <cjson/cJSON.h>

#include "agent/agent.h"
#include "train/eval_log.h"

// The returns of a seed and es by step: {"steps": […], "stand": […], …}; NULL if only one step was
// evaluated.
cJSON *evidence_curve(const EvalLog *evals, int64_t seed, int64_t es);

// Measure what each replica earns on the domain's known tasks by the policy's mean, and what it
// predicts, as bfm bias does. *bias [replica] = {"stand": {"earned": …, "predicted": …}, …}; the caller
// frees it. steps 0: of an episode of the domain.
int evidence_bias(bfm_agent *agent, const char *domain, int64_t episodes, int64_t steps,
                  const bfm_evaluation *how, cJSON **bias);

// The share of the predicted return that is earned, in percent and at most 100, as the mean over tasks;
// NaN if bias is NULL. Below 100 is over-optimism.
double evidence_kept(const cJSON *bias);

#endif
