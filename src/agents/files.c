// Agents in files. A model holds the networks of one replica; a state holds everything of all
// replicas that a run needs to go on with the bits of the run that never stopped. Both are
// safetensors with the configuration in the metadata.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agent.h"
#include "data/safetensors.h"

enum { MODEL, STATE };

static int is_target(const AgentTensor *t) { return strstr(t->tensor.name, "_target.") != NULL; }

// the optimizer's moments lie as the parameters do
static float *moment(const bfm_agent *a, const AgentTensor *t, float *moments) {
  return moments + (t->at - a->value);
}

// one tensor of the agent in a file: where it is on the device and what it is called
typedef struct {
  Tensor tensor;
  float *at;
} Entry;

static void add(Entry *entries, int *n, int kind, int R, const char *prefix, const AgentTensor *t,
                float *at) {
  Entry *e = &entries[(*n)++];
  memset(e, 0, sizeof *e);
  snprintf(e->tensor.name, sizeof e->tensor.name, "%s%s", prefix, t->tensor.name);
  e->tensor.type = TENSOR_F32;
  if (kind == STATE) e->tensor.shape[e->tensor.dims++] = R;
  for (int i = 0; i < t->tensor.dims; i++) e->tensor.shape[e->tensor.dims++] = t->tensor.shape[i];
  e->at = at;
}

// everything a file of this kind holds; returns how many
static int list_entries(const bfm_agent *a, int kind, int replica, Entry *entries) {
  int n = 0;
  for (int i = 0; i < a->tensor_count; i++) {
    const AgentTensor *t = &a->tensors[i];
    if (kind == MODEL) {
      if (!is_target(t)) add(entries, &n, kind, a->R, "", t, agent_tensor_at(a, t, replica));
      continue;
    }
    add(entries, &n, kind, a->R, "", t, t->at);
    if (is_target(t)) continue;
    add(entries, &n, kind, a->R, "adam_m.", t, moment(a, t, a->adam_m));
    add(entries, &n, kind, a->R, "adam_v.", t, moment(a, t, a->adam_v));
  }
  if (kind == STATE && a->pool) {
    entries[n++] = (Entry){{.name = "pool", .type = TENSOR_F32, .dims = 3,
                            .shape = {a->R, a->pool_rows, a->d}}, a->pool};
  }
  return n;
}

#define MAX_ENTRIES (3 * MAX_TENSORS + 1)

// ------------------------------- writing ---------------------------------------------------------

static int write_file(bfm_agent *a, int kind, const Config *config, const Entry *entries, int count,
                      const char *path) {
  char step[32], obs[32], act[32];
  snprintf(step, sizeof step, "%ld", (long)a->step);
  snprintf(obs, sizeof obs, "%ld", (long)a->obs_dim);
  snprintf(act, sizeof act, "%ld", (long)a->act_dim);
  char *json = options_to_json(agent_options, config);
  if (!json) return bfm_fail(BFM_NO_MEMORY, "out of memory for the configuration of %s", path);
  const char *metadata[] = {"bfm", kind == MODEL ? "model" : "state", "version", BFM_VERSION,
                            "config", json, "obs_dim", obs, "act_dim", act, "step", step, NULL};
  size_t size = 0;
  for (int i = 0; i < count; i++) size += tensor_bytes(&entries[i].tensor);
  char *host = malloc(size);
  Tensor *tensors = malloc(count * sizeof *tensors);
  int status = host && tensors ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  char *to = host;
  for (int i = 0; i < count && !status; i++) {
    tensors[i] = entries[i].tensor;
    tensors[i].data = to;
    status = a->ops->download(a->ops, to, entries[i].at, tensor_bytes(&tensors[i]));
    to += tensor_bytes(&tensors[i]);
  }
  if (!status) status = safetensors_write(path, tensors, count, metadata);
  free(json);
  free(host);
  free(tensors);
  return status;
}

static int save(bfm_agent *a, int kind, int replica, const Config *config, const char *path) {
  Entry *entries = malloc(MAX_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  int count = list_entries(a, kind, replica, entries);
  int status = write_file(a, kind, config, entries, count, path);
  free(entries);
  return status;
}

int bfm_agent_save_model(bfm_agent *a, int replica, const char *path) {
  TRY(agent_check_replica(a, replica));
  Config config = a->config;
  config.seed += replica;
  config.seeds = 1;
  return save(a, MODEL, replica, &config, path);
}

int bfm_agent_save_state(bfm_agent *a, const char *path) {
  TRY(agent_ready(a));
  return save(a, STATE, 0, &a->config, path);
}

// ------------------------------- reading ---------------------------------------------------------

static int read_number(const SafeTensors *file, const char *key, int64_t *out) {
  const char *text = safetensors_metadata(file, key);
  char *end;
  *out = text ? strtoll(text, &end, 10) : 0;
  if (!text || end == text || *end || *out < 0) {
    return bfm_fail(BFM_BAD_FILE, "metadata \"%s\" is %s, not a count", key, text ? text : "missing");
  }
  return BFM_OK;
}

static int load_entry(bfm_agent *a, const SafeTensors *file, const Entry *e) {
  const Tensor *want = &e->tensor, *t = safetensors_find(file, want->name);
  if (!t) return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" is missing", want->name);
  int same = t->type == TENSOR_F32 && t->dims == want->dims;
  for (int i = 0; same && i < t->dims; i++) same = t->shape[i] == want->shape[i];
  if (!same) {
    return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" has another shape or type than its configuration says",
                    want->name);
  }
  if (agent_check_finite(t->data, 1, tensor_count(t), want->name)) return BFM_BAD_FILE;
  return a->ops->upload(a->ops, e->at, t->data, tensor_bytes(t));
}

// a model has no targets: they start as the networks themselves
static int restore(bfm_agent *a, const SafeTensors *file, int kind) {
  if (kind == STATE) TRY(agent_ready(a));  // the pool of z is one of its buffers
  Entry *entries = malloc(MAX_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for a model");
  int count = list_entries(a, kind, 0, entries), status = BFM_OK;
  for (int i = 0; i < count && !status; i++) status = load_entry(a, file, &entries[i]);
  free(entries);
  TRY(status);
  Ops *ops = a->ops;
  if (kind == MODEL) ops->copy(ops, a->target, a->value, a->target_count * sizeof *a->target);
  if (kind == STATE) TRY(read_number(file, "step", &a->step));
  TRY(ops->upload(ops, a->step_device, &a->step, sizeof a->step));
  agent_refresh_copies(a);
  return ops->sync(ops);
}

static int load(bfm_agent **out, const SafeTensors *file, const char *options) {
  const char *what = safetensors_metadata(file, "bfm"), *json = safetensors_metadata(file, "config");
  if (!what || !json || (strcmp(what, "model") && strcmp(what, "state"))) {
    return bfm_fail(BFM_BAD_FILE, "not a model or training state of bfm");
  }
  int64_t obs_dim, act_dim;
  TRY(read_number(file, "obs_dim", &obs_dim));
  TRY(read_number(file, "act_dim", &act_dim));
  Config config;
  TRY(options_default(agent_options, &config));
  if (options_from_json(agent_options, &config, json)) return BFM_BAD_FILE;
  TRY(options_set(agent_options, &config, "device", "auto"));
  TRY(options_set(agent_options, &config, "threads", "0"));
  if (options) TRY(options_from_json(agent_options, &config, options));
  int kind = strcmp(what, "model") ? STATE : MODEL;
  if (kind == MODEL && config.seeds != 1) {
    return bfm_fail(BFM_BAD_FILE, "a model holds one replica, and its configuration says seeds = %ld",
                    (long)config.seeds);
  }
  TRY(agent_new(out, obs_dim, act_dim, &config, 0));
  return restore(*out, file, kind);
}

int bfm_agent_load(bfm_agent **out, const char *path, const char *options) {
  *out = NULL;
  SafeTensors *file;
  TRY(safetensors_open(&file, path));
  int status = load(out, file, options);
  safetensors_close(file);
  if (!status) return BFM_OK;
  bfm_agent_free(*out);
  *out = NULL;
  return bfm_fail_prefix(status, "%s: ", path);
}
