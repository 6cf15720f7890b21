// Agents in files. A model holds the networks of one replica and its prompt states; a state holds
// everything of all replicas that a run needs to go on with the bits of the run that never stopped.
// Both are safetensors with the configuration in the metadata. An exported model may have its
// parameters as bfloat16 and its states as float32: half the bytes, nearly the same actions.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agent.h"
#include "core/bf16.h"
#include "data/safetensors.h"

enum { MODEL, STATE };

static int is_target(const AgentTensor *t) { return strstr(t->tensor.name, "_target.") != NULL; }

// the optimizer's moments lie as the parameters do
static float *moment(const bfm_agent *a, const AgentTensor *t, float *moments) {
  return moments + (t->at - a->value);
}

// one tensor of the agent in a file: its values on the device, as float32, or the prompt states on
// the host
typedef struct {
  Tensor tensor;
  float *at;  // NULL: tensor.data is what is written
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

// all of the agent that a file of this kind holds; returns how many
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
    entries[n++] = (Entry){
        {.name = "pool", .type = TENSOR_F32, .dims = 3, .shape = {a->R, a->pool_rows, a->d}},
        a->pool};
  }
  return n;
}

// the tables of prompt states, as they are in memory
enum { PROMPT_TABLES = 4 };

static int list_prompt(const bfm_agent *a, Entry *entries) {
  const PromptStates *p = &a->prompt;
  const struct {
    const char *name;
    TensorType type;
    int64_t columns;
    const void *data;
  } tables[PROMPT_TABLES] = {{"prompt.qpos", TENSOR_F64, p->nq, p->qpos},
                             {"prompt.qvel", TENSOR_F64, p->nv, p->qvel},
                             {"prompt.act", TENSOR_F64, p->na, p->act},
                             {"prompt.obs", TENSOR_F32, a->obs_dim, p->obs}};
  int n = 0;
  for (int i = 0; i < PROMPT_TABLES && p->count; i++) {
    if (!tables[i].columns) continue;
    Entry *e = &entries[n++];
    *e = (Entry){{.type = tables[i].type,
                  .dims = 2,
                  .shape = {p->count, tables[i].columns},
                  .data = tables[i].data},
                 NULL};
    snprintf(e->tensor.name, sizeof e->tensor.name, "%s", tables[i].name);
  }
  return n;
}

#define MAX_ENTRIES (3 * MAX_TENSORS + 1 + PROMPT_TABLES)

// ------------------------------- writing ---------------------------------------------------------

// float32 to bfloat16, float64 to float32, in place
static void narrow(Tensor *t, void *values) {
  int64_t count = tensor_count(t);
  if (t->type == TENSOR_F64) {
    const double *from = values;
    for (int64_t i = 0; i < count; i++) {
      float value = (float)from[i];
      memcpy((char *)values + i * sizeof value, &value, sizeof value);
    }
  } else {
    for (int64_t i = 0; i < count; i++) {
      float value;
      memcpy(&value, (char *)values + i * sizeof value, sizeof value);
      uint16_t half = f32_to_bf16(value);
      memcpy((char *)values + i * sizeof half, &half, sizeof half);
    }
  }
  t->type = t->type == TENSOR_F64 ? TENSOR_F32 : TENSOR_BF16;
}

// room for a tensor's values on their way, so that the next one is aligned
static size_t room(const Tensor *t) { return (tensor_bytes(t) + 7) / 8 * 8; }

// bring an entry's values to the host
static int stage(bfm_agent *a, const Entry *e, int half, void *to, Tensor *out) {
  *out = e->tensor;
  out->data = to;
  if (e->at) {
    TRY(a->ops->download(a->ops, to, e->at, tensor_bytes(out)));
  } else {
    memcpy(to, e->tensor.data, tensor_bytes(out));
  }
  int is_obs = !e->at && out->type == TENSOR_F32;  // as it is: B was trained on float32
  if (half && !is_obs) narrow(out, to);
  return BFM_OK;
}

static int write_file(bfm_agent *a, int kind, const Config *config, const Entry *entries, int count,
                      int half, const char *path) {
  char step[32], obs[32], act[32];
  snprintf(step, sizeof step, "%ld", (long)(a->before + a->step));
  snprintf(obs, sizeof obs, "%ld", (long)a->obs_dim);
  snprintf(act, sizeof act, "%ld", (long)a->act_dim);
  char *json = options_to_json(agent_options, config);
  if (!json) return bfm_fail(BFM_NO_MEMORY, "out of memory for the configuration of %s", path);
  const char *metadata[] = {"bfm",
                            kind == MODEL ? "model" : "state",
                            "version",
                            BFM_VERSION,
                            "config",
                            json,
                            "obs_dim",
                            obs,
                            "act_dim",
                            act,
                            "step",
                            step,
                            *a->prompt.env ? "env" : NULL,
                            a->prompt.env,
                            NULL};
  size_t size = 0;
  for (int i = 0; i < count; i++) size += room(&entries[i].tensor);
  char *host = malloc(size);
  Tensor *tensors = malloc(count * sizeof *tensors);
  int status = host && tensors ? BFM_OK : bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  char *to = host;
  for (int i = 0; i < count && !status; i++) {
    status = stage(a, &entries[i], half, to, &tensors[i]);
    to += room(&entries[i].tensor);
  }
  if (!status) status = safetensors_write(path, tensors, count, metadata);
  free(json);
  free(host);
  free(tensors);
  return status;
}

static int save(bfm_agent *a, int kind, int replica, const Config *config, int half,
                const char *path) {
  Entry *entries = malloc(MAX_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  int count = list_entries(a, kind, replica, entries);
  if (kind == MODEL) count += list_prompt(a, entries + count);
  int status = write_file(a, kind, config, entries, count, half, path);
  free(entries);
  return status;
}

static int save_model(bfm_agent *a, int replica, int half, const char *path) {
  TRY(agent_check_replica(a, replica));
  Config config = a->config;
  config.seed += replica;
  config.seeds = 1;
  return save(a, MODEL, replica, &config, half, path);
}

int bfm_agent_save_model(bfm_agent *a, int replica, const char *path) {
  return save_model(a, replica, 0, path);
}

int bfm_agent_save_state(bfm_agent *a, const char *path) {
  TRY(agent_ready(a));
  return save(a, STATE, 0, &a->config, 0, path);
}

// ------------------------------- exporting -------------------------------------------------------

// the parameters of one replica in an agent with fewer members: they come first in each tensor
static int copy_parameters(bfm_agent *to, bfm_agent *from, int replica) {
  for (int i = 0; i < to->tensor_count; i++) {
    const NetTensor *t = &to->tensors[i].tensor;
    const AgentTensor *source = agent_find_tensor(from, t->name);
    size_t bytes = (size_t)t->count * sizeof(float);
    float *values = malloc(bytes);
    if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", t->name);
    int status =
        from->ops->download(from->ops, values, agent_tensor_at(from, source, replica), bytes);
    if (!status) status = to->ops->upload(to->ops, to->tensors[i].at, values, bytes);
    free(values);
    TRY(status);
  }
  return to->ops->sync(to->ops);
}

// `count` of the prompt states, chosen at random, in their order
static int copy_prompt(bfm_agent *to, const bfm_agent *from, int64_t count) {
  const PromptStates *p = &from->prompt;
  PromptStates *q = &to->prompt;
  if (count < 0 || count > p->count) count = p->count;
  memcpy(q->env, p->env, sizeof q->env);
  q->nq = p->nq;
  q->nv = p->nv;
  q->na = p->na;
  if (!count) return BFM_OK;

  int64_t *order = malloc((size_t)p->count * sizeof *order);
  uint8_t *keep = calloc(p->count, 1);
  q->obs = malloc((size_t)(count * to->obs_dim) * sizeof *q->obs);
  q->qpos = malloc((size_t)(count * q->nq) * sizeof *q->qpos);
  q->qvel = malloc((size_t)(count * q->nv) * sizeof *q->qvel);
  q->act = malloc((size_t)(count * q->na + 1) * sizeof *q->act);
  int status = BFM_OK;
  if (!order || !keep || !q->obs || !q->qpos || !q->qvel || !q->act) {
    status = bfm_fail(BFM_NO_MEMORY, "out of memory for %ld prompt states", (long)count);
  } else {
    random_permutation((uint64_t)from->config.seed, STREAM_USER, 0, p->count, order);
    for (int64_t i = 0; i < count; i++) keep[order[i]] = 1;
    for (int64_t i = 0; i < p->count; i++) {
      if (!keep[i]) continue;
      int64_t at = q->count++;
      memcpy(q->obs + at * to->obs_dim, p->obs + i * to->obs_dim, to->obs_dim * sizeof *q->obs);
      memcpy(q->qpos + at * q->nq, p->qpos + i * q->nq, q->nq * sizeof *q->qpos);
      memcpy(q->qvel + at * q->nv, p->qvel + i * q->nv, q->nv * sizeof *q->qvel);
      if (q->na) memcpy(q->act + at * q->na, p->act + i * q->na, q->na * sizeof *q->act);
    }
  }
  free(order);
  free(keep);
  return status;
}

int bfm_agent_export(bfm_agent *a, int replica, const char *path, int members, int half,
                     int64_t prompt_states) {
  TRY(agent_check_replica(a, replica));
  if (members < 0 || members > a->M) {
    return bfm_fail(BFM_BAD_ARGUMENT, "members must be 1 to the model's %d, not %d", a->M, members);
  }
  Config config = a->config;
  config.seed += replica;
  config.seeds = 1;
  config.members = members ? members : a->M;
  TRY(options_set(agent_options, &config, "device", "cpu"));
  TRY(options_set(agent_options, &config, "precision", "auto"));
  bfm_agent *slim;
  TRY(agent_new(&slim, a->obs_dim, a->act_dim, &config, 0));
  slim->before = a->before + a->step;
  int status = copy_parameters(slim, a, replica);
  if (!status) status = copy_prompt(slim, a, prompt_states);
  if (!status) status = save_model(slim, 0, half, path);
  bfm_agent_free(slim);
  return status;
}

// ------------------------------- reading ---------------------------------------------------------

static int read_number(const SafeTensors *file, const char *key, int64_t *out) {
  const char *text = safetensors_metadata(file, key);
  char *end;
  *out = text ? strtoll(text, &end, 10) : 0;
  if (!text || end == text || *end || *out < 0) {
    return bfm_fail(BFM_BAD_FILE, "metadata \"%s\" is %s, not a count", key,
                    text ? text : "missing");
  }
  return BFM_OK;
}

// a tensor's values as float32, into a malloc'ed array unless it has them; finite ones only
static int read_floats(const Tensor *t, float **made, const float **values) {
  int64_t count = tensor_count(t);
  *made = NULL;
  *values = t->data;
  if (t->type == TENSOR_BF16) {
    const uint16_t *half = t->data;
    *values = *made = malloc((size_t)count * sizeof **made);
    if (!*made) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", t->name);
    for (int64_t i = 0; i < count; i++) (*made)[i] = bf16_to_f32(half[i]);
  }
  return agent_check_finite(*values, 1, count, t->name) ? BFM_BAD_FILE : BFM_OK;
}

static int load_entry(bfm_agent *a, const SafeTensors *file, int kind, const Entry *e) {
  const Tensor *want = &e->tensor, *t = safetensors_find(file, want->name);
  if (!t) return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" is missing", want->name);
  int same =
      t->dims == want->dims && (t->type == TENSOR_F32 || (kind == MODEL && t->type == TENSOR_BF16));
  for (int i = 0; same && i < t->dims; i++) same = t->shape[i] == want->shape[i];
  if (!same) {
    return bfm_fail(BFM_BAD_FILE,
                    "tensor \"%s\" has another shape or type than its configuration says",
                    want->name);
  }
  float *made;
  const float *values;
  int status = read_floats(t, &made, &values);
  if (!status) status = a->ops->upload(a->ops, e->at, values, tensor_bytes(want));
  if (!status && made) status = a->ops->sync(a->ops);
  free(made);
  return status;
}

// a table of `count` prompt states, float64 or float32, as float64; no columns when it is not there
static int read_states(const SafeTensors *file, const char *name, int64_t count, int64_t *columns,
                       double **out) {
  const Tensor *t = safetensors_find(file, name);
  *columns = 0;
  if (!t) return BFM_OK;
  if (t->dims != 2 || (t->type != TENSOR_F64 && t->type != TENSOR_F32) || t->shape[0] != count) {
    return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" is not a table of prompt states", name);
  }
  int64_t n = tensor_count(t);
  *columns = t->shape[1];
  *out = malloc((size_t)(n + 1) * sizeof **out);
  if (!*out) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", name);
  for (int64_t i = 0; i < n; i++) {
    double value =
        t->type == TENSOR_F64 ? ((const double *)t->data)[i] : ((const float *)t->data)[i];
    if (!isfinite(value)) {
      return bfm_fail(BFM_BAD_FILE, "tensor %s is not finite in row %ld", name,
                      (long)(i / *columns));
    }
    (*out)[i] = value;
  }
  return BFM_OK;
}

static int read_prompt(bfm_agent *a, const SafeTensors *file) {
  PromptStates *p = &a->prompt;
  const char *env = safetensors_metadata(file, "env");
  if (env) snprintf(p->env, sizeof p->env, "%s", env);
  const Tensor *obs = safetensors_find(file, "prompt.obs");
  if (!obs) return BFM_OK;
  if (obs->dims != 2 || obs->type != TENSOR_F32 || obs->shape[1] != a->obs_dim) {
    return bfm_fail(BFM_BAD_FILE, "tensor \"prompt.obs\" is not a table of observations");
  }
  int64_t count = obs->shape[0];
  if (agent_check_finite(obs->data, count, a->obs_dim, "prompt.obs")) return BFM_BAD_FILE;
  TRY(read_states(file, "prompt.qpos", count, &p->nq, &p->qpos));
  TRY(read_states(file, "prompt.qvel", count, &p->nv, &p->qvel));
  TRY(read_states(file, "prompt.act", count, &p->na, &p->act));
  if (!p->qpos || !p->qvel) {
    return bfm_fail(BFM_BAD_FILE, "the prompt states have no \"prompt.%s\"",
                    p->qpos ? "qvel" : "qpos");
  }
  p->obs = malloc(tensor_bytes(obs) + 1);
  if (!p->obs) return bfm_fail(BFM_NO_MEMORY, "out of memory for %ld prompt states", (long)count);
  memcpy(p->obs, obs->data, tensor_bytes(obs));
  p->count = count;
  return BFM_OK;
}

// a model has no targets: they start as the networks themselves
static int restore(bfm_agent *a, const SafeTensors *file, int kind) {
  if (kind == STATE) TRY(agent_ready(a));  // the pool of z is one of its buffers
  Entry *entries = malloc(MAX_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for a model");
  int count = list_entries(a, kind, 0, entries), status = BFM_OK;
  for (int i = 0; i < count && !status; i++) status = load_entry(a, file, kind, &entries[i]);
  free(entries);
  TRY(status);
  Ops *ops = a->ops;
  if (kind == MODEL) ops->copy(ops, a->target, a->value, a->target_count * sizeof *a->target);
  TRY(read_number(file, "step", kind == STATE ? &a->step : &a->before));
  if (kind == MODEL) TRY(read_prompt(a, file));
  TRY(ops->upload(ops, a->step_device, &a->step, sizeof a->step));
  agent_refresh_copies(a);
  return ops->sync(ops);
}

static int load(bfm_agent **out, const SafeTensors *file, const char *options) {
  const char *what = safetensors_metadata(file, "bfm"),
             *json = safetensors_metadata(file, "config");
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
    return bfm_fail(BFM_BAD_FILE,
                    "a model holds one replica, and its configuration says seeds = %ld",
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
