// Tensors between a device and a file. All values of a file are first copied to the host, where they
// may be converted to half the bytes, and then written at once.

#include "nets/checkpoint.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bf16.h"
#include "core/number.h"
#include "envs/registry.h"
#include "envs/signals.h"

// Readers refuse files with a higher number: it changes when the same tensors mean another network.
#define CHECKPOINT_LAYOUT "1"

// appends a tensor of a network, with a leading axis of this length unless it is 0
static void add(Entry *entries, int *count, int64_t axis, const char *prefix, const NetTensor *t,
                float *at) {
  Entry *e = &entries[(*count)++];
  *e = (Entry){{.type = TENSOR_F32}, at, t->padding};
  snprintf(e->tensor.name, sizeof e->tensor.name, "%s%s", prefix, t->name);
  if (axis) e->tensor.shape[e->tensor.dims++] = axis;
  for (int i = 0; i < t->dims; i++) e->tensor.shape[e->tensor.dims++] = t->shape[i];
}

void checkpoint_add_replica(Entry *entries, int *count, const Params *p, int replica,
                            unsigned nets) {
  for (int i = 0; i < p->tensor_count; i++) {
    const Param *t = &p->tensors[i];
    int wanted = t->net < 0 || (!t->target && nets >> t->net & 1);
    if (wanted) add(entries, count, 0, "", &t->tensor, param_at(t, replica));
  }
}

void checkpoint_add_state(Entry *entries, int *count, const Params *p) {
  for (int i = 0; i < p->tensor_count; i++) {
    const Param *t = &p->tensors[i];
    add(entries, count, p->replicas, "", &t->tensor, t->at);
    if (t->target || t->net < 0 || p->net[t->net].frozen) continue;
    int64_t at = t->at - p->value;  // the moments have the same layout as the parameters
    add(entries, count, p->replicas, "adam_m.", &t->tensor, p->adam_m + at);
    add(entries, count, p->replicas, "adam_v.", &t->tensor, p->adam_v + at);
  }
}

// ------------------------------- the robot -------------------------------------------------------

#define ROBOT_PREFIX "robot/"

static Tensor tensor_of_file(const BundleFile *file) {
  Tensor t = {.type = TENSOR_U8, .dims = 1, .shape = {(int64_t)file->size}, .data = file->bytes};
  snprintf(t.name, sizeof t.name, ROBOT_PREFIX "%s", file->name);
  return t;
}

static int read_robot(Bundle *bundle, const SafeTensors *file) {
  for (int i = 0; i < safetensors_count(file); i++) {
    const Tensor *t = safetensors_at(file, i);
    if (strncmp(t->name, ROBOT_PREFIX, strlen(ROBOT_PREFIX))) continue;
    if (t->type != TENSOR_U8 || t->dims != 1) {
      return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" is not a file's bytes", t->name);
    }
    TRY(bundle_add(bundle, t->name + strlen(ROBOT_PREFIX), t->data, tensor_bytes(t)));
  }
  return BFM_OK;
}

static int register_robot(const SafeTensors *file) {
  const char *env = safetensors_metadata(file, "env");
  Bundle *bundle;
  if (!env || !registry_is_name(env) || registry_files(env)) return BFM_OK;
  TRY(bundle_new(&bundle));
  int status = read_robot(bundle, file);
  if (!status && bundle_count(bundle)) {
    return registry_add(bundle, env, safetensors_metadata(file, "robot"));
  }
  bundle_free(bundle);
  return status;
}

static int with_robot(SafeTensors **file, const char *path) {
  int status = register_robot(*file);
  if (!status) return BFM_OK;
  safetensors_close(*file);
  *file = NULL;
  return bfm_fail_prefix(status, "%s: ", path);
}

int checkpoint_open(SafeTensors **file, const char *path) {
  TRY(safetensors_open(file, path));
  return with_robot(file, path);
}

int checkpoint_open_copy(SafeTensors **file, const char *path) {
  TRY(safetensors_read(file, path));
  return with_robot(file, path);
}

// ------------------------------- writing ---------------------------------------------------------

// converts float32 to bfloat16 and float64 to float32, in place
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

// the bytes of a tensor, rounded up so that the next one is aligned
static size_t aligned_bytes(const Tensor *t) { return (tensor_bytes(t) + 7) / 8 * 8; }

// The values of a matrix as int8: each row is a whole number of its scale, which is the largest value of
// the row over 127. Matrices with fewer values gain little, and B, which prompts sum up, stays exact.
#define INT8_LEAST 32768

static int is_large_matrix(const Entry *e) {
  const char *name = e->tensor.name;
  int64_t members = e->tensor.dims > 2 ? e->tensor.shape[0] : 1;
  return e->at && e->tensor.dims >= 2 && tensor_count(&e->tensor) >= INT8_LEAST * members &&
         strncmp(name, "B.", 2) && strncmp(name, "phi.", 4);
}

// "F.trunk.0.weight" → "F.trunk.0.scale"
static void scale_name(char out[static 128], const char *weight) {
  snprintf(out, 128, "%.*s.scale", (int)(strrchr(weight, '.') - weight), weight);
}

// Converts float32 to int8 in place, and appends the scales behind them, where there is room: a row of
// two or more float32 is longer than int8 and a scale.
static int quantize(Tensor *t, void *values, Tensor *scales) {
  int64_t cols = t->shape[t->dims - 1], rows = tensor_count(t) / cols;
  float *scale = malloc((size_t)rows * sizeof *scale);
  if (!scale) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", t->name);
  *scales = *t;
  scales->dims = t->dims - 1;
  scale_name(scales->name, t->name);
  t->type = TENSOR_I8;
  scales->data = (char *)values + aligned_bytes(t);
  for (int64_t i = 0; i < rows; i++) {
    float largest = 0;
    for (int64_t j = 0; j < cols; j++) {
      largest = fmaxf(largest, fabsf(((const float *)values)[i * cols + j]));
    }
    scale[i] = largest > 0 ? largest / 127 : 1;
    for (int64_t j = 0; j < cols; j++) {
      float value = ((const float *)values)[i * cols + j];
      ((int8_t *)values)[i * cols + j] = (int8_t)lrintf(value / scale[i]);
    }
  }
  memcpy((char *)values + aligned_bytes(t), scale, (size_t)rows * sizeof *scale);
  free(scale);
  return BFM_OK;
}

// Copies an entry's values to the host, as one tensor or, with scales, two. Values that are not finite
// are an error, because no reader would accept the file.
static int stage(Ops *ops, const Entry *e, Storage storage, void *to, Tensor *out, int *count) {
  *out = e->tensor;
  out->data = to;
  *count = 1;
  if (e->at) {
    TRY(padding_download(ops, e->padding, to, e->at, tensor_count(out)));
    if (check_finite(to, 1, tensor_count(out), out->name)) return BFM_DIVERGED;
  } else {
    memcpy(to, e->tensor.data, tensor_bytes(out));
  }
  int is_obs = !e->at && out->type == TENSOR_F32;  // stays float32, on which B was trained
  if (storage == STORE_INT8 && is_large_matrix(e)) {
    TRY(quantize(out, to, out + 1));
    *count = 2;
  } else if (storage != STORE_F32 && !is_obs) {
    narrow(out, to);
  }
  return BFM_OK;
}

static int write_tensors(const Head *head, const char *json, const Tensor *tensors, int count,
                         const char *path) {
  enum { COUNTS = sizeof head->counts / sizeof *head->counts };
  char numbers[COUNTS][32];
  const char *metadata[2 * (COUNTS + 8) + 1] = {"bfm",    head->kind,        "version", BFM_VERSION,
                                                "layout", CHECKPOINT_LAYOUT, "config",  json};
  int m = 8;
  for (int i = 0; i < COUNTS && head->counts[i].name; i++) {
    snprintf(numbers[i], sizeof numbers[i], "%ld", (long)head->counts[i].value);
    metadata[m++] = head->counts[i].name, metadata[m++] = numbers[i];
  }
  if (head->env) metadata[m++] = "env", metadata[m++] = head->env;
  if (head->task) metadata[m++] = "task", metadata[m++] = head->task;
  if (head->signals) metadata[m++] = SIGNALS_KEY, metadata[m++] = head->signals;
  const char *origin = head->env ? registry_origin(head->env) : "";
  if (*origin) metadata[m++] = "robot", metadata[m++] = origin;
  return safetensors_write(path, tensors, count, metadata);
}

int checkpoint_write(Ops *ops, const Head *head, const Entry *entries, int count, Storage storage,
                     const char *path) {
  const Bundle *robot = head->env ? registry_files(head->env) : NULL;
  TRY(options_set(head->table, head->config, "threads", "0"));  // it does not change any result
  size_t size = 0;
  for (int i = 0; i < count; i++) size += aligned_bytes(&entries[i].tensor);
  char *host = malloc(size), *json = options_to_json(head->table, head->config), *to = host;
  Tensor *tensors = malloc((2 * count + bundle_count(robot)) * sizeof *tensors);
  int n = 0, made;
  int status = BFM_OK;
  if (!json || !host || !tensors) status = bfm_fail(BFM_NO_MEMORY, "out of memory for %s", path);
  for (int i = 0; i < count && !status; i++) {
    status = stage(ops, &entries[i], storage, to, tensors + n, &made);
    n += made;
    to += aligned_bytes(&entries[i].tensor);
  }
  for (int i = 0; i < bundle_count(robot) && !status; i++) {
    tensors[n + i] = tensor_of_file(bundle_file(robot, i));
  }
  if (!status) status = write_tensors(head, json, tensors, n + bundle_count(robot), path);
  free(json);
  free(host);
  free(tensors);
  return status;
}

// ------------------------------- reading ---------------------------------------------------------

// the values of a matrix in int8, times the scales of its rows
static int read_int8(const SafeTensors *file, const Tensor *t, float *out) {
  char name[128];
  scale_name(name, t->name);
  const Tensor *scales = safetensors_find(file, name);
  int64_t cols = t->shape[t->dims - 1], count = tensor_count(t);
  int same = scales && scales->type == TENSOR_F32 && scales->dims == t->dims - 1;
  for (int i = 0; same && i < scales->dims; i++) same = scales->shape[i] == t->shape[i];
  if (!same) return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" does not fit the one in int8", name);
  for (int64_t i = 0; i < count; i++) {
    out[i] = ((const float *)scales->data)[i / cols] * ((const int8_t *)t->data)[i];
  }
  return BFM_OK;
}

// The values of a tensor as float32, in a new array *made if they must be converted. Fails if a value
// is not finite.
static int read_floats(const SafeTensors *file, const Tensor *t, float **made,
                       const float **values) {
  int64_t count = tensor_count(t);
  *made = NULL;
  *values = t->data;
  if (t->type != TENSOR_F32) {
    *values = *made = malloc((size_t)count * sizeof **made);
    if (!*made) return bfm_fail(BFM_NO_MEMORY, "out of memory for %s", t->name);
  }
  const uint16_t *half = t->data;
  for (int64_t i = 0; i < count && t->type == TENSOR_BF16; i++) (*made)[i] = bf16_to_f32(half[i]);
  if (t->type == TENSOR_I8) TRY(read_int8(file, t, *made));
  return check_finite(*values, 1, count, t->name) ? BFM_BAD_FILE : BFM_OK;
}

static int is_readable(TensorType type, int int8, int half) {
  return type == TENSOR_F32 || (half && type == TENSOR_BF16) || (int8 && type == TENSOR_I8);
}

static int read_entry(Ops *ops, const SafeTensors *file, const Entry *e, int half) {
  const Tensor *want = &e->tensor, *t = safetensors_find(file, want->name);
  if (!t) return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" is missing", want->name);
  int same = t->dims == want->dims && is_readable(t->type, half && t->dims > 1, half);
  for (int i = 0; same && i < t->dims; i++) same = t->shape[i] == want->shape[i];
  if (!same) {
    return bfm_fail(BFM_BAD_FILE,
                    "tensor \"%s\" has another shape or type than the configuration implies",
                    want->name);
  }
  float *made;
  const float *values;
  int status = read_floats(file, t, &made, &values);
  if (!status) status = padding_upload(ops, e->padding, e->at, values, tensor_count(want));
  free(made);
  return status;
}

// the name of the matrix in int8 that a tensor of scales belongs to; of any other, its own name
static void weight_name(const SafeTensors *file, const char *name, char out[static 128]) {
  const char *dot = strrchr(name, '.');
  snprintf(out, 128, "%.*s.weight", dot ? (int)(dot - name) : 0, name);
  const Tensor *weight = dot && !strcmp(dot, ".scale") ? safetensors_find(file, out) : NULL;
  if (!weight || weight->type != TENSOR_I8) snprintf(out, 128, "%s", name);
}

// Tensors of a layer that the configuration does not have are an error, because they would otherwise
// be ignored. Tensors that belong to no network are left to other readers.
static int check_known(const SafeTensors *file, const Entry *entries, int count) {
  for (int i = 0; i < safetensors_count(file); i++) {
    char name[128];
    weight_name(file, safetensors_at(file, i)->name, name);
    size_t network = strcspn(name, ".") + 1;
    int of_ours = 0, known = 0;
    for (int j = 0; j < count && !known; j++) {
      of_ours |= !strncmp(name, entries[j].tensor.name, network);
      known = !strcmp(name, entries[j].tensor.name);
    }
    if (of_ours && !known) {
      return bfm_fail(BFM_BAD_FILE, "tensor \"%s\" does not belong to the configuration", name);
    }
  }
  return BFM_OK;
}

int checkpoint_read(Ops *ops, const SafeTensors *file, const Entry *entries, int count, int half) {
  TRY(check_known(file, entries, count));
  for (int i = 0; i < count; i++) TRY(read_entry(ops, file, &entries[i], half));
  return BFM_OK;
}

int checkpoint_count(const SafeTensors *file, const char *name, int64_t least, int64_t most,
                     int64_t *out) {
  const char *text = safetensors_metadata(file, name);
  char *end = NULL;
  *out = text ? strtoll(text, &end, 10) : 0;
  if (text && end != text && !*end && *out >= least && *out <= most) return BFM_OK;
  return bfm_fail(BFM_BAD_FILE, "metadata \"%s\" is %s, but must be from %ld to %g", name,
                  text ? text : "missing", (long)least, (double)most);
}

int checkpoint_is_given(const char *given, const char *option) {
  cJSON *options = given ? cJSON_Parse(given) : NULL;
  int is_given = cJSON_HasObjectItem(options, option);
  cJSON_Delete(options);
  return is_given;
}

int checkpoint_config(const SafeTensors *file, const Option *table, void *config,
                      const char *given) {
  const char *json = safetensors_metadata(file, "config");
  if (!json) return bfm_fail(BFM_BAD_FILE, "metadata \"config\" is missing");
  TRY(options_default(table, config));
  if (options_from_json(table, config, json)) return BFM_BAD_FILE;
  TRY(options_set(table, config, "device", "auto"));
  TRY(options_set(table, config, "threads", "0"));
  return given ? options_from_json(table, config, given) : BFM_OK;
}
