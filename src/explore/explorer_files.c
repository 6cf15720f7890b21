// Explorers in safetensors files, with the options in the metadata. A policy file holds one task's
// policy. A state file holds all networks of all tasks but not the transitions: a caller that adds
// them again continues bit-identically to an uninterrupted run.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "envs/domain.h"
#include "nets/checkpoint.h"
#include "explore/explorer.h"

enum { POLICY, STATE };

static const char *const kinds[] = {"policy", "explorer"};

// lists the tensors of a file of this kind and returns their number
static int list_entries(const bfm_explorer *e, int kind, int task, Entry *entries) {
  int n = 0;
  if (kind == POLICY) checkpoint_add_replica(entries, &n, &e->params, task, 1u << XNET_PI);
  else checkpoint_add_state(entries, &n, &e->params);
  if (kind == STATE && e->options.algo == EXPLORER_RND) {
    entries[n++] = (Entry){.tensor = {.name = "stats.obs", .type = TENSOR_F32, .dims = 3,
                                      .shape = {e->T, 2, e->obs_dim}},
                           .at = e->obs_stats};
    entries[n++] = (Entry){.tensor = {.name = "stats.error", .type = TENSOR_F32, .dims = 2,
                                      .shape = {e->T, 2}},
                           .at = e->error_stats};
  }
  if (kind == STATE && e->log_sigma) {
    for (int i = 0; i < 2; i++) {
      Entry *moment = &entries[n++];
      *moment = (Entry){.tensor = {.type = TENSOR_F32, .dims = 2, .shape = {e->T, e->act_dim}},
                        .at = e->log_sigma_moments + i * e->T * e->act_dim};
      snprintf(moment->tensor.name, sizeof moment->tensor.name, "adam_%c.pi.log_sigma", "mv"[i]);
    }
  }
  return n;
}

// ------------------------------- writing ---------------------------------------------------------

static int save(bfm_explorer *e, int kind, int task, const char *env, const char *name,
                const char *path) {
  Entry *entries = malloc(CHECKPOINT_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  ExplorerOptions options = e->options;
  if (kind == POLICY) snprintf(options.device, sizeof options.device, "auto");
  if (kind == POLICY && explorer_is_offline(options.algo)) {
    options.seed += task % options.seeds;
    options.seeds = 1;
  }
  Head head = {.kind = kinds[kind], .table = explorer_options, .config = &options, .env = env,
               .task = name,
               .counts = {{"obs_dim", e->obs_dim},
                          {"act_dim", e->act_dim},
                          {"tasks", kind == POLICY ? 1 : e->T},
                          {"envs", e->E},
                          {"step", e->step}}};
  int count = list_entries(e, kind, task, entries);
  int status = checkpoint_write(e->ops, &head, entries, count, STORE_F32, path);
  free(entries);
  return status;
}

bfm_status bfm_explorer_save_model(bfm_explorer *e, int task, const char *env, const char *name,
                                   const char *path) {
  NEED("explorer", e);
  EXCLUSIVE(e);
  TRY(explorer_check_task(e, task));
  return save(e, POLICY, task, env, name, path);
}

int explorer_save_state(bfm_explorer *e, const char *env, const char *tasks, const char *path) {
  TRY(explorer_ready(e));
  return save(e, STATE, 0, env, tasks, path);
}

bfm_status bfm_explorer_save_state(bfm_explorer *e, const char *path) {
  NEED("explorer", e);
  EXCLUSIVE(e);
  return explorer_save_state(e, NULL, NULL, path);
}

// ------------------------------- reading ---------------------------------------------------------

static int restore(bfm_explorer *e, const SafeTensors *file, int kind, int64_t step) {
  if (kind == STATE) TRY(explorer_ready(e));
  Entry *entries = malloc(CHECKPOINT_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for an explorer");
  int count = list_entries(e, kind, 0, entries);
  int status = checkpoint_read(e->ops, file, entries, count, 0);
  free(entries);
  TRY(status);
  e->step = step;
  e->only_acts = kind == POLICY;
  if (kind == STATE) TRY(explorer_upload_counters(e));
  params_refresh(&e->params);
  return e->ops->sync(e->ops);
}

static ExplorerChoice choice_of(const SafeTensors *file, const char *tensor) {
  return safetensors_find(file, tensor) ? CHOICE_ON : CHOICE_OFF;
}

static int load(bfm_explorer **out, const SafeTensors *file, int envs, const char *options) {
  const char *what = safetensors_metadata(file, "bfm");
  int kind = what && !strcmp(what, kinds[POLICY]) ? POLICY : STATE;
  if (!what || strcmp(what, kinds[kind])) {
    return bfm_fail(BFM_BAD_FILE, "the file must be a policy or an explorer, but is %s%.64s",
                    what ? "of the kind " : "not of bfm", what ? what : "");
  }
  int64_t obs_dim, act_dim, tasks, saved_envs, step;
  TRY(checkpoint_count(file, "obs_dim", 1, OBS_MOST, &obs_dim));
  TRY(checkpoint_count(file, "act_dim", 1, ACT_MOST, &act_dim));
  TRY(checkpoint_count(file, "tasks", 1, kind == POLICY ? 1 : TASKS_MOST, &tasks));
  TRY(checkpoint_count(file, "envs", 1, ENVS_MOST, &saved_envs));
  TRY(checkpoint_count(file, "step", 0, INT64_MAX, &step));
  ExplorerOptions o;
  TRY(checkpoint_config(file, explorer_options, &o, options));
  // files of earlier versions lack these options: the tensors show their values
  if (o.obs_norm == CHOICE_AUTO) o.obs_norm = choice_of(file, "input.stats");
  if (o.policy_norm == CHOICE_AUTO) o.policy_norm = choice_of(file, "pi.s.out.norm.weight");
  if (!envs) envs = (int)saved_envs;
  int status = explorer_new(out, obs_dim, act_dim, (int)tasks, envs, &o, 0);
  // a policy trained in bf16 also acts on a CPU without
  if (status == BFM_UNAVAILABLE && kind == POLICY && o.precision == DEVICE_BF16 &&
      !checkpoint_is_given(options, "precision")) {
    o.precision = DEVICE_F32;
    status = explorer_new(out, obs_dim, act_dim, (int)tasks, envs, &o, 0);
  }
  return status ? status : restore(*out, file, kind, step);
}

int explorer_read(bfm_explorer **out, const char *path, int envs, const char *options) {
  NEED("explorer", out);
  *out = NULL;
  SafeTensors *file;
  TRY(checkpoint_open(&file, path));
  int status = load(out, file, envs, options);
  safetensors_close(file);
  if (!status) return BFM_OK;
  bfm_explorer_free(*out);
  *out = NULL;
  return bfm_fail_prefix(status, "%s: ", path);
}

static int check_domain(const bfm_explorer *e, const char *path) {
  SafeTensors *file;
  TRY(safetensors_open(&file, path));
  int status = domain_check_obs(safetensors_metadata(file, "env"), e->obs_dim, path);
  safetensors_close(file);
  return status;
}

bfm_status bfm_explorer_load(bfm_explorer **out, const char *path, int envs, const char *options) {
  TRY(explorer_read(out, path, envs, options));
  int status = check_domain(*out, path);
  if (!status) return BFM_OK;
  bfm_explorer_free(*out);
  *out = NULL;
  return status;
}
