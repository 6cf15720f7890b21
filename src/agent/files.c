// Agents in files. A model holds the networks of one replica and its prompt states; a state holds
// everything of all replicas, so that a run resumes bit-identically to an uninterrupted one. Both
// are safetensors files with the configuration in the metadata. An exported model may store its
// parameters as bfloat16 and its prompt states as float32: half the bytes, nearly the same actions.
// When such a model is exported again it stays at half size: all its values fit in those types.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "nets/checkpoint.h"
#include "core/bf16.h"
#include "envs/domain.h"

enum { MODEL, STATE };

static const char *const kinds[] = {"model", "state"};

// list what a file of this kind holds of the agent; returns the number of tensors
static int list_entries(const bfm_agent *a, int kind, int replica, Entry *entries) {
  int n = 0;
  if (kind == MODEL) checkpoint_add_replica(entries, &n, &a->params, replica, ~0u);
  else checkpoint_add_state(entries, &n, &a->params);
  if (kind == STATE && a->pool) {
    entries[n++] = (Entry){.tensor = {.name = "pool", .type = TENSOR_F32, .dims = 3,
                                      .shape = {a->R, a->pool_rows, a->d}},
                           .at = a->pool};
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
    *e = (Entry){.tensor = {.type = tables[i].type, .dims = 2,
                            .shape = {p->count, tables[i].columns},
                            .data = tables[i].data}};
    snprintf(e->tensor.name, sizeof e->tensor.name, "%s", tables[i].name);
  }
  return n;
}

// ------------------------------- writing ---------------------------------------------------------

// a model may be of any data: a domain that is unknown here, or differs, describes nothing
static void describe_domain(bfm_agent *a) {
  Signals of_domain;
  if (!*a->prompt.env || signals_of_domain(&of_domain, a->prompt.env)) return;
  if (of_domain.obs_count != a->obs_dim || of_domain.act_count != a->act_dim) {
    signals_free(&of_domain);
  } else {
    a->signals = of_domain;
  }
}

int agent_describe(bfm_agent *a) {
  Signals *s = &a->signals;
  if (!s->obs_count) describe_domain(a);
  if (!a->prompt.count || (s->obs_count && s->obs[0].std >= 0)) return BFM_OK;
  return signals_measure(s, a->prompt.obs, a->prompt.count, a->obs_dim);
}

static int save(bfm_agent *a, int kind, int replica, Config config, Storage storage,
                const char *path) {
  Entry *entries = malloc(CHECKPOINT_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  int count = list_entries(a, kind, replica, entries);
  char *signals = NULL;
  if (kind == MODEL) {
    count += list_prompt(a, entries + count);
    if (!agent_describe(a) && a->signals.obs_count) signals = signals_to_json(&a->signals);
  }
  Head head = {.kind = kinds[kind], .table = agent_options, .config = &config,
               .env = *a->prompt.env ? a->prompt.env : NULL, .signals = signals,
               .counts = {{"obs_dim", a->obs_dim},
                          {"act_dim", a->act_dim},
                          {"step", kind == STATE ? a->step : a->before + a->step},
                          {kind == STATE && a->before ? "before" : NULL, a->before}}};
  int status = checkpoint_write(a->ops, &head, entries, count, storage, path);
  free(entries);
  free(signals);
  return status;
}

static int save_model(bfm_agent *a, int replica, Storage storage, const char *path) {
  TRY(agent_check_replica(a, replica));
  Config config = a->config;
  config.seed += replica;
  config.seeds = 1;
  TRY(options_set(agent_options, &config, "device", "auto"));  // another machine may load it
  return save(a, MODEL, replica, config, storage, path);
}

bfm_status bfm_agent_save_model(bfm_agent *a, int replica, const char *path) {
  NEED("agent", a);
  EXCLUSIVE(a);
  return save_model(a, replica, STORE_F32, path);
}

bfm_status bfm_agent_save_state(bfm_agent *a, const char *path) {
  NEED("agent", a);
  EXCLUSIVE(a);
  TRY(agent_ready(a));
  return save(a, STATE, 0, a->config, STORE_F32, path);
}

// ------------------------------- exporting -------------------------------------------------------

// whether all values are exact as bfloat16, or as float32
static int fit_bf16(const float *values, int64_t count) {
  int64_t i = 0;
  while (i < count && bf16_to_f32(f32_to_bf16(values[i])) == values[i]) i++;
  return i == count;
}

static int fit_f32(const double *values, int64_t count) {
  int64_t i = 0;
  while (i < count && (float)values[i] == values[i]) i++;
  return i == count;
}

// Copy one replica's parameters to an agent with fewer members, which come first in each tensor.
// *fit: whether all of them are exact as bfloat16
static int copy_parameters(bfm_agent *to, bfm_agent *from, int replica, int *fit) {
  *fit = 1;
  for (int i = 0; i < to->params.tensor_count; i++) {
    const NetTensor *t = &to->params.tensors[i].tensor;
    const Param *source = params_find(&from->params, t->name);
    float *values = malloc((size_t)t->count * sizeof *values);
    if (!values) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", t->name);
    int status =
        padding_download(from->ops, t->padding, values, param_at(source, replica), t->count);
    if (!status) {
      *fit = *fit && fit_bf16(values, t->count);
      status = padding_upload(to->ops, t->padding, to->params.tensors[i].at, values, t->count);
    }
    free(values);
    TRY(status);
  }
  return to->ops->sync(to->ops);
}

// copy `count` of the prompt states, chosen at random, in their order
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

// fit: bfloat16 holds the weights without loss
static Storage storage_of(int weights, int fit) {
  switch (weights) {
    case BFM_WEIGHTS_INT8: return STORE_INT8;
    case BFM_WEIGHTS_F32: return STORE_F32;
    default: return weights == BFM_WEIGHTS_BF16 || fit ? STORE_BF16 : STORE_F32;
  }
}

static int copy_signals(bfm_agent *to, bfm_agent *from) {
  TRY(agent_describe(from));
  if (!from->signals.obs_count) return BFM_OK;
  char *json = signals_to_json(&from->signals);
  if (!json) return bfm_fail(BFM_NO_MEMORY, "out of memory for the names of signals");
  int status = signals_from_json(&to->signals, json, to->obs_dim, to->act_dim);
  free(json);
  return status;
}

bfm_status bfm_agent_export(bfm_agent *a, int replica, const char *path, int members, int weights,
                            int64_t prompt_states) {
  NEED("agent", a);
  EXCLUSIVE(a);
  TRY(agent_check_replica(a, replica));
  if (members < 0 || members > a->M) {
    return bfm_fail(BFM_BAD_ARGUMENT, "members must be 1 to the model's %d, not %d", a->M, members);
  }
  if (weights < BFM_WEIGHTS_KEEP || weights > BFM_WEIGHTS_F32) {
    return bfm_fail(BFM_BAD_ARGUMENT, "weights must be one of BFM_WEIGHTS_…, 0 to %d, not %d",
                    BFM_WEIGHTS_F32, weights);
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
  const PromptStates *p = &slim->prompt;
  int fit;
  int status = copy_parameters(slim, a, replica, &fit);
  if (!status) status = copy_prompt(slim, a, prompt_states);
  if (!status) status = copy_signals(slim, a);
  if (!status) {
    fit = fit && fit_f32(p->qpos, p->count * p->nq) && fit_f32(p->qvel, p->count * p->nv) &&
          fit_f32(p->act, p->count * p->na);
    status = save_model(slim, 0, storage_of(weights, fit), path);
  }
  bfm_agent_free(slim);
  return status;
}

// ------------------------------- reading ---------------------------------------------------------

// read a table of `count` prompt states, float64 or float32, as float64; 0 columns if there is none
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
  const char *signals = safetensors_metadata(file, SIGNALS_KEY);
  if (signals) TRY(signals_from_json(&a->signals, signals, a->obs_dim, a->act_dim));
  const Tensor *obs = safetensors_find(file, "prompt.obs");
  if (!obs) return BFM_OK;
  if (obs->dims != 2 || obs->type != TENSOR_F32 || obs->shape[1] != a->obs_dim) {
    return bfm_fail(BFM_BAD_FILE, "tensor \"prompt.obs\" is not a table of observations");
  }
  int64_t count = obs->shape[0];
  if (check_finite(obs->data, count, a->obs_dim, "prompt.obs")) return BFM_BAD_FILE;
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

// a model has no targets: they start as copies of the networks
static int restore(bfm_agent *a, const SafeTensors *file, int kind) {
  if (kind == STATE) TRY(agent_ready(a));  // the pool of z is one of its buffers
  Entry *entries = malloc(CHECKPOINT_ENTRIES * sizeof *entries);
  if (!entries) return bfm_fail(BFM_NO_MEMORY, "out of memory for a model");
  int count = list_entries(a, kind, 0, entries);
  int status = checkpoint_read(a->ops, file, entries, count, kind == MODEL);
  free(entries);
  TRY(status);
  Ops *ops = a->ops;
  if (kind == MODEL)
    ops->copy(ops, a->params.target, a->params.value,
              a->params.target_count * sizeof *a->params.target);
  TRY(checkpoint_count(file, "step", 0, INT64_MAX, kind == STATE ? &a->step : &a->before));
  if (kind == STATE && safetensors_metadata(file, "before")) {
    TRY(checkpoint_count(file, "before", 0, INT64_MAX, &a->before));
  }
  if (kind == MODEL) TRY(read_prompt(a, file));
  TRY(ops->upload(ops, a->step_device, &a->step, sizeof a->step));
  params_refresh(&a->params);
  return ops->sync(ops);
}

// options without which the same parameters would be another network's; and those that set shapes
static const char *const meaning[] = {"blocks", "goal", "f-norm", "pi-norm", "b-norm", NULL};
static const char *const shaping[] = {"algo", "d",        "seeds",    "hidden",
                                      "feat", "b-hidden", "members",  "ensemble",
                                      "mbar", "z-pool",   "z-groups", NULL};

// refuse options that differ from the file's own
static int check_kept(const Config *own, const Config *config, const char *const *names) {
  for (; *names; names++) {
    const Option *option = options_find(agent_options, *names);
    char has[OPTION_TEXT_SIZE], wanted[OPTION_TEXT_SIZE];
    options_get(option, own, has, sizeof has);
    options_get(option, config, wanted, sizeof wanted);
    if (!strcmp(has, wanted)) continue;
    return bfm_fail(BFM_BAD_ARGUMENT, "the file has %s %s, which cannot change to %s", *names, has,
                    wanted);
  }
  return BFM_OK;
}

// In version 0.1, members with a shared ensemble had one trunk of three layers in common.
static int check_ensemble(const SafeTensors *file, const Config *own) {
  const char *last = algo_is_laplacian(own->algo) ? "psi.trunk.3.weight" : "F.trunk.3.weight";
  if (own->ensemble != ENSEMBLE_SHARED || !safetensors_find(file, last)) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE,
                  "its members share all layers but the last, which ensemble = shared meant in "
                  "version 0.1; now they share only the branches: train it again");
}

// precision_given: the caller chose the precision; otherwise it is that of the training
static int load_as(bfm_agent **out, const SafeTensors *file, int kind, const Config *config,
                   int precision_given) {
  int64_t obs_dim, act_dim;
  TRY(checkpoint_count(file, "obs_dim", 1, OBS_MOST, &obs_dim));
  TRY(checkpoint_count(file, "act_dim", 1, ACT_MOST, &act_dim));
  if (kind == MODEL && config->seeds != 1) {
    return bfm_fail(BFM_BAD_FILE,
                    "a model holds one replica, and its configuration says seeds = %ld",
                    (long)config->seeds);
  }
  int status = agent_new(out, obs_dim, act_dim, config, 0);
  // a model trained in bf16 also acts on a CPU without; only a resume needs the same bits
  if (status == BFM_UNAVAILABLE && kind == MODEL && config->precision == DEVICE_BF16 &&
      !precision_given) {
    Config f32 = *config;
    f32.precision = DEVICE_F32;
    status = agent_new(out, obs_dim, act_dim, &f32, 0);
  }
  return status ? status : restore(*out, file, kind);
}

static int load(bfm_agent **out, const SafeTensors *file, const char *options) {
  const char *what = safetensors_metadata(file, "bfm");
  int kind = what && !strcmp(what, kinds[MODEL]) ? MODEL : STATE;
  if (what && !strcmp(what, "policy")) {
    const char *task = safetensors_metadata(file, "task");
    return bfm_fail(
        BFM_BAD_FILE,
        "the policy of a single task%s%.64s, which acts for that task alone and takes no "
        "prompt: bfm eval and bfm play accept it",
        task ? ", " : "", task ? task : "");
  }
  if (!what || strcmp(what, kinds[kind])) {
    return bfm_fail(BFM_BAD_FILE, "not a model or training state of bfm%s%.64s",
                    what ? ", but of the kind " : "", what ? what : "");
  }
  Config own, config;
  TRY(checkpoint_config(file, agent_options, &own, NULL));
  TRY(checkpoint_config(file, agent_options, &config, options));
  if (config_complete(&own)) return BFM_BAD_FILE;
  TRY(check_ensemble(file, &own));
  // one z per transition stays one per transition when the batch changes
  if (own.z_groups == own.batch && config.z_groups == own.batch) config.z_groups = config.batch;
  TRY(config_complete(&config));
  TRY(check_kept(&own, &config, meaning));
  int status = load_as(out, file, kind, &config, checkpoint_is_given(options, "precision"));
  // if the tensors do not fit because of an option that was given, blame the option
  if (status == BFM_BAD_FILE) TRY(check_kept(&own, &config, shaping));
  return status;
}

int agent_read(bfm_agent **out, const char *path, const char *options) {
  NEED("agent", out);
  *out = NULL;
  SafeTensors *file;
  TRY(checkpoint_open_copy(&file, path));
  int status = load(out, file, options);
  safetensors_close(file);
  if (!status) return BFM_OK;
  bfm_agent_free(*out);
  *out = NULL;
  return bfm_fail_prefix(status, "%s: ", path);
}

bfm_status bfm_agent_load(bfm_agent **out, const char *path, const char *options) {
  TRY(agent_read(out, path, options));
  int status = domain_check_obs((*out)->prompt.env, (*out)->obs_dim, path);
  if (!status) return BFM_OK;
  bfm_agent_free(*out);
  *out = NULL;
  return status;
}
