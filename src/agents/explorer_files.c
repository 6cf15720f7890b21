// Explorers in files, safetensors with the options in the metadata. A policy is what one task's
// explorer acts by; a state is all that is learned of all tasks, but not the transitions: whoever
// goes on adds them again and gets the bits of the run that never stopped.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/explorer.h"
#include "data/safetensors.h"

enum { POLICY, STATE };

static const char *const kinds[] = {"policy", "explorer"};

// one tensor of a file and where it is on the device
typedef struct {
  Tensor tensor;
  float *at;
} Entry;

#define MAX_ENTRIES (3 * EXPLORER_TENSORS + 2)

static void add(Entry *entries, int *n, int tasks, const char *prefix, const NetTensor *t,
                float *at) {
  Entry *x = &entries[(*n)++];
  *x = (Entry){{.type = TENSOR_F32}, at};
  snprintf(x->tensor.name, sizeof x->tensor.name, "%s%s", prefix, t->name);
  if (tasks) x->tensor.shape[x->tensor.dims++] = tasks;
  for (int i = 0; i < t->dims; i++) x->tensor.shape[x->tensor.dims++] = t->shape[i];
}

static int is_of(const NetTensor *t, const char *net) {
  return !strncmp(t->name, net, strlen(net));
}

// all that a file of this kind holds; returns how many
static int list_entries(const bfm_explorer *e, int kind, int task, Entry *entries) {
  int n = 0;
  for (int i = 0; i < e->tensor_count; i++) {
    const NetTensor *t = &e->tensors[i].tensor;
    float *at = e->tensors[i].at;
    if (kind == POLICY) {
      if (is_of(t, "pi.")) add(entries, &n, 0, "", t, at + task * t->count);
      continue;
    }
    add(entries, &n, e->T, "", t, at);
    if (strstr(t->name, "_target.") || is_of(t, "random.")) continue;  // not optimized
    add(entries, &n, e->T, "adam_m.", t, e->adam_m + (at - e->value));
    add(entries, &n, e->T, "adam_v.", t, e->adam_v + (at - e->value));
  }
  if (kind == STATE && e->options.algo == EXPLORER_RND) {
    entries[n++] = (Entry){{.name = "stats.obs", .type = TENSOR_F32, .dims = 3,
                            .shape = {e->T, 2, e->obs_dim}}, e->obs_stats};
    entries[n++] = (Entry){{.name = "stats.error", .type = TENSOR_F32, .dims = 2,
                            .shape = {e->T, 2}}, e->error_stats};
  }
  return n;
}

// ------------------------------- writing ---------------------------------------------------------

// numbers of the metadata
enum { OBS_DIM, ACT_DIM, TASKS, ENVS, STEP, NUMBERS };
static const char *const number_names[] = {"obs_dim", "act_dim", "tasks", "envs", "step"};

static int write_file(bfm_explorer *e, int kind, const char *env, const char *task,
                      const Entry *entries, int count, const char *path) {
  const int64_t values[NUMBERS] = {e->obs_dim, e->act_dim, kind == POLICY ? 1 : e->T, e->E,
                                   e->step};
  char numbers[NUMBERS][32];
  const char *metadata[2 * (NUMBERS + 5) + 1];
  int m = 0;
  for (int i = 0; i < NUMBERS; i++) {
    snprintf(numbers[i], sizeof numbers[i], "%ld", (long)values[i]);
    metadata[m++] = number_names[i], metadata[m++] = numbers[i];
  }
  metadata[m++] = "bfm", metadata[m++] = kinds[kind];
  metadata[m++] = "version", metadata[m++] = BFM_VERSION;
  if (env) metadata[m++] = "env", metadata[m++] = env;
  if (task) metadata[m++] = "task", metadata[m++] = task;
  char *json = options_to_json(explorer_options, &e->options);
  metadata[m++] = "config", metadata[m++] = json;
  metadata[m] = NULL;

  size_t size = 0;
  for (int i = 0; i < count; i++) size += tensor_bytes(&entries[i].tensor);
  char *host = malloc(size);
  Tensor *tensors = malloc(count * sizeof *tensors);
  int status = BFM_OK;
  if (!json || !host || !tensors) status = bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  char *to = host;
  for (int i = 0; i < count && !status; i++) {
    tensors[i] = entries[i].tensor;
    tensors[i].data = to;
    status = e->ops->download(e->ops, to, entries[i].at, tensor_bytes(&tensors[i]));
    to += tensor_bytes(&tensors[i]);
  }
  if (!status) status = safetensors_write(path, tensors, count, metadata);
  free(json);
  free(host);
  free(tensors);
  return status;
}

static int save(bfm_explorer *e, int kind, int task, const char *env, const char *name,
                const char *path) {
  Entry *entries = malloc(MAX_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  int status = write_file(e, kind, env, name, entries, list_entries(e, kind, task, entries), path);
  free(entries);
  return status;
}

int bfm_explorer_save_model(bfm_explorer *e, int task, const char *env, const char *name,
                            const char *path) {
  if (task < 0 || task >= e->T) {
    return bfm_fail(BFM_BAD_ARGUMENT, "task %d of an explorer with %d", task, e->T);
  }
  return save(e, POLICY, task, env, name, path);
}

int bfm_explorer_save_state(bfm_explorer *e, const char *path) {
  TRY(explorer_ready(e));
  return save(e, STATE, 0, NULL, NULL, path);
}

// ------------------------------- reading ---------------------------------------------------------

static int read_number(const SafeTensors *file, const char *key, int64_t most, int64_t *out) {
  const char *text = safetensors_metadata(file, key);
  char *end = NULL;
  *out = text ? strtoll(text, &end, 10) : 0;
  if (text && end != text && !*end && *out >= 0 && *out <= most) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "metadata \"%s\" is %s, not a count", key, text ? text : "missing");
}

static int load_entry(bfm_explorer *e, const SafeTensors *file, const Entry *x) {
  const Tensor *want = &x->tensor, *t = safetensors_find(file, want->name);
  if (!t) return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" is missing", want->name);
  int same = t->type == TENSOR_F32 && t->dims == want->dims;
  for (int i = 0; same && i < t->dims; i++) same = t->shape[i] == want->shape[i];
  if (!same) {
    return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" has another shape or type than its options say",
                    want->name);
  }
  if (agent_check_finite(t->data, 1, tensor_count(t), want->name)) return BFM_BAD_FILE;
  return e->ops->upload(e->ops, x->at, t->data, tensor_bytes(t));
}

static int restore(bfm_explorer *e, const SafeTensors *file, int kind, int64_t step) {
  if (kind == STATE) TRY(explorer_ready(e));
  Entry *entries = malloc(MAX_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for an explorer");
  int count = list_entries(e, kind, 0, entries), status = BFM_OK;
  for (int i = 0; i < count && !status; i++) status = load_entry(e, file, &entries[i]);
  free(entries);
  TRY(status);
  e->step = step;
  e->only_acts = kind == POLICY;
  if (kind == STATE) TRY(explorer_upload_counters(e));
  explorer_refresh_copies(e);
  return e->ops->sync(e->ops);
}

static int load(bfm_explorer **out, const SafeTensors *file, int envs, const char *options) {
  const char *what = safetensors_metadata(file, "bfm");
  const char *json = safetensors_metadata(file, "config");
  int kind = what && !strcmp(what, kinds[POLICY]) ? POLICY : STATE;
  if (!what || !json || strcmp(what, kinds[kind])) {
    return bfm_fail(BFM_BAD_FILE, "not an explorer's policy or state");
  }
  int64_t numbers[NUMBERS];
  for (int i = 0; i < NUMBERS; i++) {
    TRY(read_number(file, number_names[i], i == STEP ? INT64_MAX : INT32_MAX, &numbers[i]));
  }
  ExplorerOptions o;
  TRY(options_default(explorer_options, &o));
  if (options_from_json(explorer_options, &o, json)) return BFM_BAD_FILE;
  TRY(options_set(explorer_options, &o, "device", "auto"));
  TRY(options_set(explorer_options, &o, "threads", "0"));
  if (options) TRY(options_from_json(explorer_options, &o, options));
  TRY(explorer_make(out, numbers[OBS_DIM], numbers[ACT_DIM], (int)numbers[TASKS],
                    envs ? envs : (int)numbers[ENVS], &o, 0));
  return restore(*out, file, kind, numbers[STEP]);
}

int bfm_explorer_load(bfm_explorer **out, const char *path, int envs, const char *options) {
  *out = NULL;
  SafeTensors *file;
  TRY(safetensors_open(&file, path));
  int status = load(out, file, envs, options);
  safetensors_close(file);
  if (!status) return BFM_OK;
  bfm_explorer_free(*out);
  *out = NULL;
  return bfm_fail_prefix(status, "%s: ", path);
}
