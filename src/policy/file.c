// From the bytes of a safetensors file to networks: the header is read in place, each tensor that the
// configuration implies is looked up and checked, matrices stay in the file, and vectors are copied
// as float32. The file is not trusted: every place and size is checked before it is used.

#include "policy/policy.h"

enum { LENGTH_BYTES = 8, WANTED = 128, NAME = 48 };
static const size_t header_most = 100000000;

// a tensor that the configuration implies
typedef struct {
  char name[NAME];
  int dims, shape[3];
  int matrix, found;
  int type;  // PolicyWeights
  const char *data;
} Want;

typedef struct {
  bfm_policy_error *error;
  PolicyJson header;
  const char *data;
  size_t data_size;

  PolicyJson config, signals;  // at NULL: missing
  char kind[16], layout[8], env[64];
  int obs_dim, act_dim;

  char algo[16], ensemble[16], goal[260];
  double d, blocks, hidden, feat, b_hidden, members, sigma;
  int b_norm, f_norm, pi_norm;

  Want want[WANTED];
  int wanted;
  const float *prompt_obs;
  long long prompt_rows;
} File;

// ------------------------------- failures --------------------------------------------------------

static bfm_policy_status bad(const File *f, const char *words) {
  return policy_fail(f->error, BFM_POLICY_BAD_FILE, words);
}

// "tensor X" and what is wrong with it
static bfm_policy_status bad_tensor(const File *f, const char *name, const char *words) {
  PolicyText text = policy_text(f->error, BFM_POLICY_BAD_FILE);
  say_text(&text, "tensor ");
  say_text(&text, name);
  say_text(&text, words);
  return BFM_POLICY_BAD_FILE;
}

// ------------------------------- the header ------------------------------------------------------

static bfm_policy_status open_file(File *f, const void *file, size_t size) {
  const unsigned char *bytes = (const unsigned char *)file;
  uint64_t length = 0;
  if (!file) return policy_fail(f->error, BFM_POLICY_BAD_ARGUMENT, "file is NULL");
  if ((uintptr_t)file % 8) {
    return policy_fail(f->error, BFM_POLICY_BAD_ARGUMENT,
                       "the file must lie at a multiple of 8 bytes in memory");
  }
  if (size < LENGTH_BYTES) return bad(f, "the file has fewer than 8 bytes: it is no model");
  for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | bytes[i];
  if (length > header_most) return bad(f, "this is not a safetensors file");
  if (length > size - LENGTH_BYTES) return bad(f, "the file is cut short within its header");
  f->header.at = (const char *)file + LENGTH_BYTES;
  f->header.end = f->header.at + length;
  f->header.escaped = 0;
  f->data = f->header.end;
  f->data_size = size - LENGTH_BYTES - (size_t)length;
  return BFM_POLICY_OK;
}

// the inside of the string at the cursor, to be read as JSON
static int inside(PolicyJson *j, PolicyJson *out) {
  if (json_peek(j) != '"') return 0;
  *out = *j;
  out->at++;
  out->escaped = 1;
  if (!json_string(j, NULL, 0)) return 0;
  out->end = j->at - 1;
  return 1;
}

static int read_dim(PolicyJson *j, int *out) {
  PolicyJson text;
  double value;
  if (!inside(j, &text) || !json_number(&text, &value) || !(value >= 1 && value < 1e6) ||
      value != floor(value))
    return 0;
  *out = (int)value;
  return 1;
}

static bfm_policy_status read_metadata(File *f, PolicyJson *j) {
  char key[24];
  int first = 1, more = json_take(j, '{') ? 1 : -1, ok = 1;
  while (more > 0 && ok && (more = json_key(j, &first, key, sizeof key)) > 0) {
    if (!strcmp(key, "bfm")) ok = json_string(j, f->kind, sizeof f->kind);
    else if (!strcmp(key, "layout")) ok = json_string(j, f->layout, sizeof f->layout);
    else if (!strcmp(key, "env")) ok = json_string(j, f->env, sizeof f->env);
    else if (!strcmp(key, "config")) ok = inside(j, &f->config);
    else if (!strcmp(key, "signals")) ok = inside(j, &f->signals);
    else if (!strcmp(key, "obs_dim")) ok = read_dim(j, &f->obs_dim);
    else if (!strcmp(key, "act_dim")) ok = read_dim(j, &f->act_dim);
    else ok = json_skip(j);
  }
  return more < 0 || !ok ? bad(f, "the metadata of the file is not valid") : BFM_POLICY_OK;
}

// ------------------------------- the configuration -----------------------------------------------

static int read_bool(PolicyJson *j, int *out) {
  *out = json_peek(j) == 't';
  return json_skip(j);
}

static bfm_policy_status read_config(File *f) {
  PolicyJson *j = &f->config;
  char key[24];
  int first = 1, more, ok = 1;
  if (!j->at) return bad(f, "the file has no configuration of a model");
  more = json_take(j, '{') ? 1 : -1;
  while (more > 0 && ok && (more = json_key(j, &first, key, sizeof key)) > 0) {
    if (!strcmp(key, "algo")) ok = json_string(j, f->algo, sizeof f->algo);
    else if (!strcmp(key, "ensemble")) ok = json_string(j, f->ensemble, sizeof f->ensemble);
    else if (!strcmp(key, "goal")) ok = json_string(j, f->goal, sizeof f->goal);
    else if (!strcmp(key, "d")) ok = json_number(j, &f->d);
    else if (!strcmp(key, "blocks")) ok = json_number(j, &f->blocks);
    else if (!strcmp(key, "hidden")) ok = json_number(j, &f->hidden);
    else if (!strcmp(key, "feat")) ok = json_number(j, &f->feat);
    else if (!strcmp(key, "b-hidden")) ok = json_number(j, &f->b_hidden);
    else if (!strcmp(key, "members")) ok = json_number(j, &f->members);
    else if (!strcmp(key, "sigma")) ok = json_number(j, &f->sigma);
    else if (!strcmp(key, "b-norm")) ok = read_bool(j, &f->b_norm);
    else if (!strcmp(key, "f-norm")) ok = read_bool(j, &f->f_norm);
    else if (!strcmp(key, "pi-norm")) ok = read_bool(j, &f->pi_norm);
    else ok = json_skip(j);
  }
  return more < 0 || !ok ? bad(f, "the configuration of the model is not valid") : BFM_POLICY_OK;
}

static bfm_policy_status check_config(const File *f) {
  static const char *const algos[] = {"fb", "fb-aw", "fb-are", "fb-aware", "lap", "lap-aw", NULL};
  const struct {
    const char *name;
    double value, most;
  } sizes[] = {{"d", f->d, POLICY_WIDTH},
               {"blocks", f->blocks, POLICY_BLOCKS},
               {"hidden", f->hidden, POLICY_WIDTH},
               {"feat", f->feat, POLICY_WIDTH},
               {"b-hidden", f->b_hidden, POLICY_WIDTH},
               {"members", f->members, POLICY_MEMBERS},
               {"obs_dim", (double)f->obs_dim, POLICY_OBS},
               {"act_dim", (double)f->act_dim, POLICY_ACT}};
  int algo = 0;
  if (!strcmp(f->kind, "policy")) {
    return bad(f, "this is the policy of a single task, not a model that takes prompts");
  }
  if (strcmp(f->kind, "model")) return bad(f, "this is not a model of bfm: export one");
  if (*f->layout && strcmp(f->layout, "1")) {
    PolicyText text = policy_text(f->error, BFM_POLICY_BAD_FILE);
    say_text(&text, "the file has layout ");
    say_text(&text, f->layout);
    say_text(&text, ", and this runtime reads layout 1: update it");
    return BFM_POLICY_BAD_FILE;
  }
  while (algos[algo] && strcmp(algos[algo], f->algo)) algo++;
  if (!algos[algo]) return bad(f, "the model has an algorithm that this runtime does not know");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    double value = sizes[i].value;
    if (value >= 1 && value <= sizes[i].most && value == floor(value)) continue;
    PolicyText text = policy_text(f->error, BFM_POLICY_BAD_FILE);
    say_text(&text, sizes[i].name);
    say_text(&text, " of the model must be 1 to ");
    say_number(&text, sizes[i].most);
    say_text(&text, ", not ");
    say_number(&text, value);
    return BFM_POLICY_BAD_FILE;
  }
  if (f->blocks > f->d || f->blocks > f->b_hidden)
    return bad(f, "the model has more blocks than units");
  if (!(f->sigma >= 0 && f->sigma <= 10)) return bad(f, "sigma of the model must be 0 to 10");
  return BFM_POLICY_OK;
}

static int read_index(const char **at) {
  int value = 0, digits = 0;
  for (; **at >= '0' && **at <= '9' && digits < 6; (*at)++, digits++)
    value = value * 10 + **at - '0';
  return digits ? value : -1;
}

// the columns of a goal space, "0:4,7"; columns may be NULL, to count them. -1 if it is not valid
static int read_goal(const File *f, int *columns) {
  const char *at = f->goal;
  int count = 0;
  if (strlen(at) == sizeof f->goal - 1) return -1;  // cut off: bfm's have 255 at most
  while (*at) {
    int from = read_index(&at), to = from + 1;
    if (*at == ':') at++, to = read_index(&at);
    if (from < 0 || to <= from || to > f->obs_dim || count + to - from > f->obs_dim) return -1;
    for (int i = from; i < to; i++, count++) {
      if (columns) columns[count] = i;
    }
    if (*at && (*at != ',' || !at[1])) return -1;
    if (*at) at++;
  }
  return count;
}

// ------------------------------- what the networks need ------------------------------------------

static Want *want(File *f, const char *net, const char *part, const char *kind, int members) {
  Want *w = &f->want[f->wanted++];
  PolicyText text = {w->name, sizeof w->name, 0};
  memset(w, 0, sizeof *w);
  say_text(&text, net);
  say_text(&text, ".");
  say_text(&text, part);
  say_text(&text, ".");
  say_text(&text, kind);
  if (members > 1) w->shape[w->dims++] = members;
  return w;
}

// weight, bias, and the scale that goes with a weight in int8
static void want_linear(File *f, const char *net, const char *part, int members, int in, int out) {
  Want *w = want(f, net, part, "weight", members);
  w->shape[w->dims++] = out;
  w->shape[w->dims++] = in;
  w->matrix = 1;
  w = want(f, net, part, "bias", members);
  w->shape[w->dims++] = out;
  w = want(f, net, part, "scale", members);
  w->shape[w->dims++] = out;
}

static void want_norm(File *f, const char *net, const char *part, int members, int width) {
  Want *w = want(f, net, part, "weight", members);
  w->shape[w->dims++] = width;
  w = want(f, net, part, "bias", members);
  w->shape[w->dims++] = width;
}

static const char *trunk_name(int i, int norm, char out[16]) {
  PolicyText text = {out, 16, 0};
  say_text(&text, "trunk.");
  say_count(&text, i);
  say_text(&text, norm ? ".norm" : "");
  return out;
}

static const char *branch_name(const char *branch, const char *part, char out[16]) {
  PolicyText text = {out, 16, 0};
  say_text(&text, branch);
  say_text(&text, part);
  return out;
}

static const char *const f_branches[] = {"sa", "sz"}, *const s_branches[] = {"s", "sz"};

static void want_net(File *f, const PolicyNet *net, const char *name, const char *const *branches,
                     int norm) {
  char part[16];
  for (int b = 0; b < 2; b++) {
    want_linear(f, name, branch_name(branches[b], ".in", part), net->body, net->in[b], net->hidden);
    want_norm(f, name, branch_name(branches[b], ".norm", part), net->body, net->hidden);
    want_linear(f, name, branch_name(branches[b], ".out", part), net->body, net->hidden, net->feat);
  }
  for (int i = 0; i <= net->layers; i++) {
    int last = i == net->layers;
    want_linear(f, name, trunk_name(i, 0, part), net->heads, i ? net->hidden : 2 * net->feat,
                last ? net->out : net->hidden);
    if (norm && !last) want_norm(f, name, trunk_name(i, 1, part), net->heads, net->hidden);
  }
}

// as define_networks of agent/agent.c
static void define_networks(const File *f, bfm_policy *p) {
  int shared = !strcmp(f->ensemble, "shared"), d = (int)f->d, members = (int)f->members;
  int z_of_b = f->blocks > 1 ? d : 0;
  PolicyNet *F = &p->f, *B = &p->b, *pi = &p->pi;
  F->in[0] = f->obs_dim + f->act_dim, F->in[1] = f->obs_dim + d;
  F->hidden = (int)f->hidden, F->feat = (int)f->feat, F->out = d, F->blocks = 1;
  F->layers = shared ? 1 : 3;
  F->body = shared ? 1 : members, F->heads = members;
  B->in[0] = p->goal_dim, B->in[1] = p->goal_dim + z_of_b, B->z = z_of_b;
  B->hidden = B->feat = (int)f->b_hidden, B->layers = 2, B->out = d, B->blocks = (int)f->blocks;
  B->body = B->heads = 1;
  pi->in[0] = f->obs_dim, pi->in[1] = f->obs_dim + d;
  pi->hidden = (int)f->hidden, pi->feat = (int)f->feat, pi->layers = 4, pi->out = f->act_dim;
  pi->body = pi->heads = pi->blocks = 1;
}

static void want_networks(File *f, const bfm_policy *p) {
  want_net(f, &p->f, p->laplacian ? "psi" : "F", f_branches, f->f_norm);
  want_net(f, &p->b, p->laplacian ? "phi" : "B", s_branches, 0);
  want_net(f, &p->pi, "pi", s_branches, f->pi_norm);
}

// ------------------------------- tensors ---------------------------------------------------------

typedef struct {
  char dtype[12];
  double shape[4], begin, end;
  int dims;
} Entry;

static int read_numbers(PolicyJson *j, double *out, int most) {
  int first = 1, count = 0, more;
  if (!json_take(j, '[')) return -1;
  while ((more = json_element(j, &first)) > 0) {
    if (count == most || json_peek(j) < 0 || !json_number(j, &out[count++])) return -1;
  }
  return more < 0 ? -1 : count;
}

static int read_entry(PolicyJson *j, Entry *e) {
  char key[16];
  int first = 1, more, seen = 0;
  if (!json_take(j, '{')) return 0;
  while ((more = json_key(j, &first, key, sizeof key)) > 0) {
    double offsets[2];
    if (!strcmp(key, "dtype")) {
      if (!json_string(j, e->dtype, sizeof e->dtype)) return 0;
      seen |= 1;
    } else if (!strcmp(key, "shape")) {
      if ((e->dims = read_numbers(j, e->shape, 4)) < 0) return 0;
      seen |= 2;
    } else if (!strcmp(key, "data_offsets")) {
      if (read_numbers(j, offsets, 2) != 2) return 0;
      e->begin = offsets[0], e->end = offsets[1];
      seen |= 4;
    } else if (!json_skip(j)) {
      return 0;
    }
  }
  return more == 0 && seen == 7;
}

static int type_of(const char *dtype) {
  if (!strcmp(dtype, "F32")) return WEIGHTS_F32;
  if (!strcmp(dtype, "BF16")) return WEIGHTS_BF16;
  return !strcmp(dtype, "I8") ? WEIGHTS_I8 : -1;
}

static size_t size_of(int type) { return type == WEIGHTS_F32 ? 4 : type == WEIGHTS_BF16 ? 2 : 1; }

// the place of a tensor's bytes, if they are in the file and as many as its shape says
static const char *place_of(const File *f, const Entry *e, int type) {
  double bytes = (double)size_of(type);
  for (int i = 0; i < e->dims; i++) bytes *= e->shape[i];
  if (!(e->begin >= 0 && e->begin <= e->end && e->end <= (double)f->data_size)) return NULL;
  if (e->begin != floor(e->begin) || e->end - e->begin != bytes) return NULL;
  const char *data = f->data + (size_t)e->begin;
  return (uintptr_t)data % size_of(type) ? NULL : data;
}

static bfm_policy_status read_wanted(File *f, Want *w, const Entry *e) {
  int same = e->dims == w->dims;
  for (int i = 0; same && i < w->dims; i++) same = e->shape[i] == w->shape[i];
  if (w->found) return bad_tensor(f, w->name, " appears twice");
  if (!same) return bad_tensor(f, w->name, " has another shape than the configuration implies");
  w->type = type_of(e->dtype);
  if (w->type < 0 || (w->type == WEIGHTS_I8 && !w->matrix)) {
    return bad_tensor(f, w->name,
                      " has a type that this runtime does not read: export the model with "
                      "--weights f32, bf16 or int8");
  }
  w->data = place_of(f, e, w->type);
  if (!w->data) return bad_tensor(f, w->name, " is not where the header says, or cut short");
  w->found = 1;
  return BFM_POLICY_OK;
}

static bfm_policy_status read_prompt_obs(File *f, const Entry *e) {
  if (e->dims != 2 || e->shape[1] != f->obs_dim || type_of(e->dtype) != WEIGHTS_F32 ||
      !place_of(f, e, WEIGHTS_F32)) {
    return bad_tensor(f, "prompt.obs", " is not a table of observations");
  }
  f->prompt_rows = (long long)e->shape[0];
  f->prompt_obs = f->prompt_rows ? (const float *)(const void *)place_of(f, e, WEIGHTS_F32) : NULL;
  return BFM_POLICY_OK;
}

// Goes through the header: without wanted tensors for its metadata, with them for their places.
static bfm_policy_status read_header(File *f) {
  PolicyJson j = f->header;
  char key[NAME];
  int first = 1, more = json_take(&j, '{') ? 1 : -1;
  while (more > 0 && (more = json_key(&j, &first, key, sizeof key)) > 0) {
    bfm_policy_status status = BFM_POLICY_OK;
    if (!strcmp(key, "__metadata__") && !f->wanted) {
      return read_metadata(f, &j);  // the rest is for the second time
    } else if (!f->wanted || !strcmp(key, "__metadata__")) {
      if (!json_skip(&j)) more = -1;
    } else {
      Entry entry;
      Want *w = f->want, *end = f->want + f->wanted;
      memset(&entry, 0, sizeof entry);
      if (!read_entry(&j, &entry)) return bad_tensor(f, key, " has no valid entry in the header");
      while (w < end && strcmp(w->name, key)) w++;
      if (w < end) status = read_wanted(f, w, &entry);
      else if (!strcmp(key, "prompt.obs")) status = read_prompt_obs(f, &entry);
    }
    if (status) return status;
  }
  if (!more && json_peek(&j) >= 0) more = -1;  // text after the object
  return more < 0 ? bad(f, "the header of the file is not valid JSON") : BFM_POLICY_OK;
}

// ------------------------------- filling the networks --------------------------------------------

static int are_finite(const Want *w, size_t count) {
  uint32_t odd = 0;
  if (w->type == WEIGHTS_F32) {
    const uint32_t *bits = (const uint32_t *)(const void *)w->data;
    for (size_t i = 0; i < count; i++) odd |= (bits[i] & 0x7f800000u) == 0x7f800000u;
  } else if (w->type == WEIGHTS_BF16) {
    const uint16_t *bits = (const uint16_t *)(const void *)w->data;
    for (size_t i = 0; i < count; i++) odd |= (bits[i] & 0x7f80u) == 0x7f80u;
  }
  return !odd;
}

static size_t count_of(const Want *w) {
  size_t count = 1;
  for (int i = 0; i < w->dims; i++) count *= (size_t)w->shape[i];
  return count;
}

// whether it is there, of a kind that fits, and finite
static bfm_policy_status check_want(const File *f, const Want *w) {
  int scale = w > f->want + 1 && w[-2].matrix;  // the order of want_linear
  if (scale && w[-2].type != WEIGHTS_I8) return BFM_POLICY_OK;
  if (!w->found) return bad_tensor(f, w->name, " is missing");
  return are_finite(w, count_of(w)) ? BFM_POLICY_OK : bad_tensor(f, w->name, " is not finite");
}

// values: also whether they are finite, which reads the whole file
static bfm_policy_status check_tensors(const File *f, int values) {
  for (int i = 0; i < f->wanted; i++) {
    bfm_policy_status status = BFM_POLICY_OK;
    if (values || !f->want[i].found) status = check_want(f, &f->want[i]);
    if (status) return status;
  }
  for (long long row = 0; values && row < f->prompt_rows; row++) {
    if (policy_odd(f->prompt_obs + row * f->obs_dim, f->obs_dim, 3e38f)) {
      return bad_tensor(f, "prompt.obs", " is not finite");
    }
  }
  return BFM_POLICY_OK;
}

// a vector as float32 in the room
static const float *copy_vector(PolicyRoom *room, const Want *w) {
  size_t count = count_of(w);
  float *out = (float *)policy_take(room, count * sizeof *out);
  if (!out) return NULL;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    if (w->type == WEIGHTS_F32) {
      memcpy(&bits, w->data + 4 * i, 4);
    } else {
      uint16_t half;
      memcpy(&half, w->data + 2 * i, 2);
      bits = (uint32_t)half << 16;
    }
    memcpy(&out[i], &bits, 4);
  }
  return out;
}

static void fill_linear(PolicyRoom *room, PolicyLinear *l, const Want **at, int members) {
  const Want *weight = (*at)++, *bias = (*at)++, *scale = (*at)++;
  l->out = weight->shape[weight->dims - 2], l->in = weight->shape[weight->dims - 1];
  l->members = members;
  l->weight = weight->data, l->type = weight->type;
  l->ld = (size_t)l->in, l->stride = (size_t)l->in * (size_t)l->out;
  l->bias = copy_vector(room, bias);
  l->scale = weight->type == WEIGHTS_I8 ? copy_vector(room, scale) : NULL;
  l->bias_stride = l->scale_stride = (size_t)l->out;
}

static void fill_norm(PolicyRoom *room, PolicyNorm *norm, const Want **at) {
  const Want *gain = (*at)++, *shift = (*at)++;
  norm->gain = copy_vector(room, gain);
  norm->shift = copy_vector(room, shift);
  norm->stride = (size_t)gain->shape[gain->dims - 1];
}

// in the order of want_net
static void fill_net(PolicyRoom *room, PolicyNet *net, const Want **at, int norm) {
  for (int b = 0; b < 2; b++) {
    fill_linear(room, &net->branch_in[b], at, net->body);
    fill_norm(room, &net->branch_norm[b], at);
    fill_linear(room, &net->branch_out[b], at, net->body);
  }
  for (int i = 0; i <= net->layers; i++) {
    fill_linear(room, &net->trunk[i], at, net->heads);
    if (norm && i < net->layers) fill_norm(room, &net->trunk_norm[i], at);
  }
}

// ------------------------------- signals ---------------------------------------------------------

static int read_signal(PolicyJson *j, bfm_policy_signal *s) {
  char key[16];
  int first = 1, more, ok = 1;
  double number = 0;
  memset(s, 0, sizeof *s);
  s->std = -1;
  if (!json_take(j, '{')) return 0;
  while (ok && (more = json_key(j, &first, key, sizeof key)) > 0) {
    if (!strcmp(key, "name")) ok = json_string(j, s->name, sizeof s->name);
    else if (!strcmp(key, "part")) ok = json_string(j, s->part, sizeof s->part);
    else if (!strcmp(key, "unit")) ok = json_string(j, s->unit, sizeof s->unit);
    else if (!strcmp(key, "low")) ok = json_number(j, &number), s->low = (float)number;
    else if (!strcmp(key, "high")) ok = json_number(j, &number), s->high = (float)number;
    else if (!strcmp(key, "mean")) ok = json_number(j, &number), s->mean = (float)number;
    else if (!strcmp(key, "std")) ok = json_number(j, &number), s->std = (float)number;
    else ok = json_skip(j);
  }
  return ok && !more && fabsf(s->low) <= 1e30f && fabsf(s->high) <= 1e30f &&
         fabsf(s->mean) <= 1e30f && fabsf(s->std) <= 1e30f;
}

static int read_list(PolicyJson *j, bfm_policy_signal *out, int count) {
  int first = 1, n = 0, more;
  bfm_policy_signal unused;
  if (!json_take(j, '[')) return 0;
  while ((more = json_element(j, &first)) > 0) {
    if (n == count || !read_signal(j, out ? out + n : &unused)) return 0;
    n++;
  }
  return more == 0 && n == count;
}

static bfm_policy_status read_signals(File *f, bfm_policy *p, PolicyRoom *room) {
  PolicyJson j = f->signals;
  char key[24];
  int first = 1, more, ok = 1;
  if (!j.at) return BFM_POLICY_OK;
  more = json_take(&j, '{') ? 1 : -1;
  while (more > 0 && ok && (more = json_key(&j, &first, key, sizeof key)) > 0) {
    if (!strcmp(key, "control_dt")) {
      ok = json_number(&j, &p->info.control_dt) && p->info.control_dt > 0 &&
           p->info.control_dt < 1e9;
    } else if (!strcmp(key, "observations") && !p->obs) {
      p->obs = (bfm_policy_signal *)policy_take(room, (size_t)f->obs_dim * sizeof *p->obs);
      ok = read_list(&j, p->obs, f->obs_dim);
    } else if (!strcmp(key, "actions") && !p->act) {
      p->act = (bfm_policy_signal *)policy_take(room, (size_t)f->act_dim * sizeof *p->act);
      ok = read_list(&j, p->act, f->act_dim);
    } else {
      ok = json_skip(&j);
    }
  }
  return more < 0 || !ok ? bad(f, "the names of observations and actions are not valid")
                         : BFM_POLICY_OK;
}

// of the prompt states, for models of earlier versions, which do not carry their mean and deviation
static void measure(const File *f, int i, double *mean, double *std) {
  double sum = 0, square = 0, n = (double)f->prompt_rows;
  for (long long row = 0; row < f->prompt_rows; row++) sum += f->prompt_obs[row * f->obs_dim + i];
  *mean = sum / n;
  for (long long row = 0; row < f->prompt_rows; row++) {
    double apart = f->prompt_obs[row * f->obs_dim + i] - *mean;
    square += apart * apart;
  }
  *std = sqrt(square / n);
}

static void fill_statistics(const File *f, bfm_policy *p, PolicyRoom *room) {
  int known = p->obs && p->obs[0].std >= 0;
  float *mean = (float *)policy_take(room, (size_t)f->obs_dim * sizeof *mean);
  float *inverse = (float *)policy_take(room, (size_t)f->obs_dim * sizeof *inverse);
  if (!mean || !inverse || (!known && !f->prompt_obs)) return;
  for (int i = 0; i < f->obs_dim; i++) {
    double m, s;
    if (known) m = p->obs[i].mean, s = p->obs[i].std;
    else measure(f, i, &m, &s);
    if (!(s > 1e-6)) s = 1e-6;  // a number that never changed: any other value is far away
    mean[i] = (float)m, inverse[i] = (float)(1 / s);
  }
  p->mean = mean, p->inverse = inverse;
}

// ------------------------------- loading ---------------------------------------------------------

static void fill_info(const File *f, bfm_policy *p) {
  bfm_policy_info *info = &p->info;
  int type = p->pi.trunk[0].type;
  info->obs_dim = f->obs_dim, info->act_dim = f->act_dim;
  info->d = (int)f->d, info->blocks = (int)f->blocks, info->members = (int)f->members;
  info->sigma = f->sigma, info->prompt_rows = f->prompt_rows;
  memcpy(info->env, f->env, sizeof info->env);
  memcpy(info->algo, f->algo, sizeof info->algo);
  strcpy(info->weights, type == WEIGHTS_F32 ? "f32" : type == WEIGHTS_BF16 ? "bf16" : "int8");
  p->kernels = policy_kernels(NULL);
  info->kernels = p->kernels->name;
}

static bfm_policy_status fill_goal(const File *f, bfm_policy *p, PolicyRoom *room) {
  int columns = read_goal(f, NULL), *goal = NULL;
  if (columns < 0) return bad(f, "the goal space of the model is not valid");
  if (columns) goal = (int *)policy_take(room, (size_t)columns * sizeof *goal);
  if (goal) read_goal(f, goal);
  p->goal = goal;
  p->goal_dim = columns ? columns : f->obs_dim;
  return BFM_POLICY_OK;
}

// FNV-1a
static uint64_t hash(const char *at, const char *end) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (; at < end; at++) sum = (sum ^ (unsigned char)*at) * 0x100000001b3u;
  return sum;
}

// Reads the file; with a base in the room, into a policy there.
static bfm_policy_status read_model(File *f, const void *file, size_t size, PolicyRoom *room,
                                    bfm_policy **out) {
  bfm_policy local, *p = (bfm_policy *)policy_take(room, sizeof *p);
  bfm_policy_status status = open_file(f, file, size);
  if (!p) p = &local;
  memset(p, 0, sizeof *p);
  if (!status) status = read_header(f);
  if (!status && !*f->kind) status = bad(f, "the file was not written by bfm");
  if (!status) status = read_config(f);
  if (!status) status = check_config(f);
  if (status) return status;

  p->laplacian = !strncmp(f->algo, "lap", 3);
  p->b_norm = f->b_norm;
  status = fill_goal(f, p, room);
  if (status) return status;
  define_networks(f, p);
  want_networks(f, p);
  status = read_header(f);
  if (!status) status = check_tensors(f, room->base != NULL);
  if (status) return status;

  const Want *at = f->want;
  fill_net(room, &p->f, &at, f->f_norm);
  fill_net(room, &p->b, &at, 0);
  fill_net(room, &p->pi, &at, f->pi_norm);
  status = read_signals(f, p, room);
  if (status) return status;
  fill_info(f, p);
  fill_statistics(f, p, room);
  p->prompt_obs = f->prompt_obs;
  p->id = hash(f->header.at, f->header.end);
  *out = p;
  return BFM_POLICY_OK;
}

static bfm_policy_status load(const void *file, size_t size, PolicyRoom *room, bfm_policy **out,
                              bfm_policy_error *error) {
  File f;
  uint64_t before = policy_float_begin();
  memset(&f, 0, sizeof f);
  f.error = error;
  bfm_policy_status status = read_model(&f, file, size, room, out);
  policy_float_end(before);
  return status;
}

bfm_policy_status bfm_policy_bytes(const void *file, size_t size, size_t *bytes,
                                   bfm_policy_error *error) {
  PolicyRoom room = {NULL, 0};
  bfm_policy *none = NULL;
  policy_clear(error);
  if (!bytes) return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "bytes is NULL");
  *bytes = 0;
  bfm_policy_status status = load(file, size, &room, &none, error);
  if (!status) *bytes = room.used;
  return status;
}

bfm_policy_status bfm_policy_load(bfm_policy **policy, const void *file, size_t size, void *memory,
                                  size_t bytes, bfm_policy_error *error) {
  PolicyRoom room = {(char *)memory, 0};
  size_t needed = 0;
  policy_clear(error);
  if (!policy) return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "policy is NULL");
  *policy = NULL;
  if (!memory || (uintptr_t)memory % 64) {
    return policy_fail(error, BFM_POLICY_BAD_MEMORY,
                       "the memory of a model must lie at a multiple of 64 bytes");
  }
  bfm_policy_status status = bfm_policy_bytes(file, size, &needed, error);
  if (status) return status;
  if (bytes < needed) {
    return policy_fail_at(error, BFM_POLICY_BAD_MEMORY, "the model needs ", (double)needed,
                          " bytes of memory: ask bfm_policy_bytes");
  }
  return load(file, size, &room, policy, error);
}

// ------------------------------- looking inside --------------------------------------------------

const bfm_policy_info *bfm_policy_get_info(const bfm_policy *policy) {
  return policy ? &policy->info : NULL;
}

const float *bfm_policy_prompt_obs(const bfm_policy *policy) {
  return policy ? policy->prompt_obs : NULL;
}

const bfm_policy_signal *bfm_policy_observation(const bfm_policy *policy, int i) {
  return policy && policy->obs && i >= 0 && i < policy->info.obs_dim ? policy->obs + i : NULL;
}

const bfm_policy_signal *bfm_policy_action(const bfm_policy *policy, int i) {
  return policy && policy->act && i >= 0 && i < policy->info.act_dim ? policy->act + i : NULL;
}

bfm_policy_status bfm_policy_set_kernels(bfm_policy *policy, const char *name,
                                         bfm_policy_error *error) {
  const PolicyKernels *kernels = name ? policy_kernels(name) : NULL;
  policy_clear(error);
  if (!policy || !kernels) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT,
                       "this machine or build has no kernels of that name: name avx512, avx2, neon "
                       "or plain");
  }
  policy->kernels = kernels;
  policy->info.kernels = kernels->name;
  return BFM_POLICY_OK;
}
