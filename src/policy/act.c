// Acting: a workspace, the policy's mean or the best of some samples around it, the limits, and what is
// to be done when something is not finite.

#include "policy/policy.h"

static const float obs_most = 1e15f;  // the squares of larger values overflow in a layer norm

// ------------------------------- workspaces ------------------------------------------------------

static int widest(int a, int b, int c) {
  int wide = a > b ? a : b;
  return wide > c ? wide : c;
}

static float *take_floats(PolicyRoom *room, size_t count) {
  return (float *)policy_take(room, count * sizeof(float));
}

// places a workspace at base, or with NULL only counts its bytes
static size_t lay_out_work(const bfm_policy *p, int samples, char *base, bfm_policy_work *out) {
  PolicyRoom room = {base, 0};
  size_t act = (size_t)p->info.act_dim, obs = (size_t)p->info.obs_dim, d = (size_t)p->info.d;
  int rows = samples > 1 ? samples : 1;
  size_t n = (size_t)rows, f = policy_scratch(&p->f, rows), b = policy_scratch(&p->b, rows);
  size_t pi = policy_scratch(&p->pi, 1), scratch = f > b ? f : b;
  policy_take(&room, sizeof *out);
  out->rows = rows, out->samples = samples, out->policy = p, out->id = p->id;
  out->low = take_floats(&room, act);
  out->high = take_floats(&room, act);
  out->rate = take_floats(&room, act);
  out->safe = take_floats(&room, act);
  out->last = take_floats(&room, act);
  out->mu = take_floats(&room, act);
  out->unit_z = take_floats(&room, d);
  out->in0 = take_floats(&room, n * (obs + act));
  out->in1 = take_floats(&room, n * (obs + d));
  out->out = take_floats(&room, (size_t)widest(rows * p->info.d, p->info.act_dim, 0));
  out->candidates = take_floats(&room, n * act);
  out->q = take_floats(&room, n * (size_t)p->info.members);
  out->scratch = take_floats(&room, scratch > pi ? scratch : pi);
  return room.used;
}

size_t bfm_policy_work_bytes(const bfm_policy *policy, int samples) {
  bfm_policy_work unused;
  if (!policy || samples < 0 || samples > POLICY_SAMPLES) return 0;
  return lay_out_work(policy, samples, NULL, &unused);
}

bfm_policy_status bfm_policy_work_init(bfm_policy_work **work, const bfm_policy *policy,
                                       int samples, void *memory, size_t bytes,
                                       bfm_policy_error *error) {
  policy_clear(error);
  if (!work || !policy) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "work or policy is NULL");
  }
  *work = NULL;
  if (samples < 0 || samples > POLICY_SAMPLES) {
    return policy_fail_at(error, BFM_POLICY_BAD_ARGUMENT, "samples must be 0 to 4096, not ",
                          samples, "");
  }
  if (!memory || (uintptr_t)memory % 64) {
    return policy_fail(error, BFM_POLICY_BAD_MEMORY,
                       "the memory of a workspace must lie at a multiple of 64 bytes");
  }
  size_t needed = bfm_policy_work_bytes(policy, samples);
  if (bytes < needed) {
    return policy_fail_at(error, BFM_POLICY_BAD_MEMORY, "the workspace needs ", (double)needed,
                          " bytes of memory: ask bfm_policy_work_bytes");
  }
  memset(memory, 0, needed);
  *work = (bfm_policy_work *)memory;
  lay_out_work(policy, samples, (char *)memory, *work);
  return bfm_policy_set_limits(*work, NULL, error);
}

POLICY_INTERNAL int policy_owns(const bfm_policy *policy, const bfm_policy_work *work) {
  return work->policy == policy && work->id == policy->id;
}

// ------------------------------- limits ----------------------------------------------------------

static void copy_or(float *out, const float *in, int n, float missing) {
  for (int i = 0; i < n; i++) out[i] = in ? in[i] : missing;
}

static bfm_policy_status check_limits(const bfm_policy_limits *l, int n, bfm_policy_error *error) {
  for (int i = 0; i < n; i++) {
    float low = l->low ? l->low[i] : -1, high = l->high ? l->high[i] : 1;
    float rate = l->rate ? l->rate[i] : 2, safe = l->safe ? l->safe[i] : 0;
    if (low >= -1 && low <= high && high <= 1 && rate > 0 && rate < 1e30f && fabsf(safe) <= 1)
      continue;
    return policy_fail_at(error, BFM_POLICY_BAD_ARGUMENT, "the limits of action ", i,
                          " are not valid: -1 <= low <= high <= 1, rate > 0 and -1 <= safe <= 1");
  }
  return BFM_POLICY_OK;
}

bfm_policy_status bfm_policy_set_limits(bfm_policy_work *work, const bfm_policy_limits *limits,
                                        bfm_policy_error *error) {
  static const bfm_policy_limits none = {NULL, NULL, NULL, NULL};
  policy_clear(error);
  if (!work || !policy_owns(work->policy, work)) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT,
                       "work is NULL or was made for another model");
  }
  int n = work->policy->info.act_dim;
  const bfm_policy_limits *l = limits ? limits : &none;
  uint64_t before = policy_float_begin();
  bfm_policy_status status = check_limits(l, n, error);
  policy_float_end(before);
  if (status) return status;
  copy_or(work->low, l->low, n, -1);
  copy_or(work->high, l->high, n, 1);
  copy_or(work->rate, l->rate, n, 2);
  copy_or(work->safe, l->safe, n, 0);
  return BFM_POLICY_OK;
}

void bfm_policy_set_last(bfm_policy_work *work, const float *last) {
  if (!work || !policy_owns(work->policy, work)) return;
  int n = work->policy->info.act_dim;
  uint64_t before = policy_float_begin();
  if (!last) work->has_last = 0;
  else if (!policy_odd(last, n, 3e38f)) {
    for (int i = 0; i < n; i++) work->last[i] = last[i] > 1 ? 1 : last[i] < -1 ? -1 : last[i];
    work->has_last = 1;
  }
  policy_float_end(before);
}

// Limits act, remembers it, and returns how many of its numbers changed. Where the rate does not reach
// the range, the rate wins: an action goes back into its range step by step.
static int limit(bfm_policy_work *w, float *act) {
  int n = w->policy->info.act_dim, changed = 0;
  for (int i = 0; i < n; i++) {
    float wanted = act[i], x = wanted;
    x = x < w->low[i] ? w->low[i] : x > w->high[i] ? w->high[i] : x;
    if (w->has_last) {
      float most = w->last[i] + w->rate[i], least = w->last[i] - w->rate[i];
      x = x > most ? most : x < least ? least : x;
    }
    changed += x != wanted;
    act[i] = w->last[i] = x;
  }
  w->has_last = 1;
  return changed;
}

// ------------------------------- random numbers --------------------------------------------------

// Philox4x32-10 as in core/rng.h: the same seed, stream and step give the main library's samples
static void philox(uint64_t seed, uint32_t stream, uint64_t step, uint32_t index, uint32_t out[4]) {
  uint32_t c0 = index, c1 = stream, c2 = (uint32_t)step, c3 = (uint32_t)(step >> 32);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static float uniform(uint32_t word) {
  return (float)(word >> 8) * 5.9604644775390625e-8f + 2.98023223876953125e-8f;
}

// two standard normals from two words (Box-Muller)
static void normals(const uint32_t words[2], float out[2]) {
  float radius = sqrtf(-2.0f * logf(uniform(words[0])));
  float angle = 6.28318530717958648f * uniform(words[1]);
  out[0] = radius * cosf(angle);
  out[1] = radius * sinf(angle);
}

enum { STREAM_OF_SAMPLES = 7 };  // STREAM_ES of core/rng.h

// candidates around mu; mean_first: the first is mu itself
static void draw(bfm_policy_work *w, int samples, const bfm_policy_how *how, int mean_first) {
  int n = w->policy->info.act_dim, count = samples * n;
  float sigma = (float)w->policy->info.sigma, noise[4] = {0};
  for (int i = 0; i < count; i++) {
    if (i % 4 == 0) {
      uint32_t words[4];
      philox(how->seed, STREAM_OF_SAMPLES, how->step, (uint32_t)i / 4, words);
      normals(words, noise);
      normals(words + 2, noise + 2);
    }
    float x = w->mu[i % n] + (mean_first && i < n ? 0 : sigma) * noise[i % 4];
    w->candidates[i] = x > 1 ? 1 : x < -1 ? -1 : x;
  }
}

// ------------------------------- networks --------------------------------------------------------

static void pack(float *out, const float *a, int n, const float *b, int m) {
  memcpy(out, a, (size_t)n * sizeof *out);
  memcpy(out + n, b, (size_t)m * sizeof *out);
}

static PolicyPass pass_of(const bfm_policy *p, const PolicyNet *net, bfm_policy_work *w, int rows) {
  PolicyPass pass;
  memset(&pass, 0, sizeof pass);
  pass.kernels = p->kernels, pass.net = net;
  pass.in[0] = w->in0, pass.in[1] = w->in1;
  pass.rows = rows, pass.rows1 = 1;
  pass.scratch = w->scratch, pass.out = w->out;
  return pass;
}

static void run_pi(const bfm_policy *p, bfm_policy_work *w, const float *obs) {
  int obs_dim = p->info.obs_dim;
  memcpy(w->in0, obs, (size_t)obs_dim * sizeof *obs);
  pack(w->in1, obs, obs_dim, w->unit_z, p->info.d);
  PolicyPass pass = pass_of(p, &p->pi, w, 1);
  pass.out = w->mu;
  policy_forward(&pass);
  p->kernels->tanh(w->mu, p->info.act_dim);
}

// F of one member for the first `rows` of the actions, to w->out
static void run_f(const bfm_policy *p, bfm_policy_work *w, int member, const float *obs,
                  const float *acts, int rows) {
  int obs_dim = p->info.obs_dim, act_dim = p->info.act_dim;
  for (int k = 0; k < rows; k++) {
    pack(w->in0 + (size_t)k * (size_t)(obs_dim + act_dim), obs, obs_dim,
         acts + (size_t)k * (size_t)act_dim, act_dim);
  }
  pack(w->in1, obs, obs_dim, w->unit_z, p->info.d);
  PolicyPass pass = pass_of(p, &p->f, w, rows);
  pass.head = member;
  policy_forward(&pass);
}

// q[m · rows + k] = F_m(action k) · z
static void values(const bfm_policy *p, bfm_policy_work *w, const float *obs, const float *acts,
                   int rows) {
  int d = p->info.d;
  for (int m = 0; m < p->info.members; m++) {
    run_f(p, w, m, obs, acts, rows);
    for (int k = 0; k < rows; k++) {
      w->q[m * rows + k] = p->kernels->dot(w->out + (size_t)k * (size_t)d, w->unit_z, d);
    }
  }
}

// the candidate that the members judge best
static int best(const bfm_policy_work *w, int samples, bfm_policy_base base) {
  int members = w->policy->info.members, found = 0;
  float most = -INFINITY;
  for (int k = 0; k < samples; k++) {
    float q = base == BFM_POLICY_MEAN ? 0 : INFINITY;
    for (int m = 0; m < members; m++) {
      const float *own = w->q + m * samples;
      float value = own[k] - (base == BFM_POLICY_GAIN ? own[0] : 0);
      if (base == BFM_POLICY_MEAN) q += value;
      else if (!(value >= q)) q = value;
    }
    if (q > most) most = q, found = k;
  }
  return found;
}

static void report_q(const bfm_policy_work *w, int rows, int k, bfm_policy_report *report) {
  int members = w->policy->info.members;
  float sum = 0, low = INFINITY, high = -INFINITY;
  for (int m = 0; m < members; m++) {
    float q = w->q[m * rows + k];
    sum += q;
    low = q < low ? q : low, high = q > high ? q : high;
  }
  report->q = sum / (float)members;
  report->spread = high - low;
}

// ------------------------------- observations ----------------------------------------------------

static void report_distance(const bfm_policy *p, const float *obs, bfm_policy_report *report) {
  int n = p->info.obs_dim;
  double square = 0;
  if (!p->mean) return;
  report->worst = -1;
  for (int i = 0; i < n; i++) {
    float apart = fabsf(obs[i] - p->mean[i]) * p->inverse[i];
    square += (double)apart * apart;
    if (apart > report->worst) report->worst = apart, report->worst_obs = i;
  }
  report->distance = (float)sqrt(square / n);
}

// an observation by its number and, if it is known, its name
static bfm_policy_status bad_obs(const bfm_policy *p, int i, float value, bfm_policy_error *error) {
  PolicyText text = policy_text(error, BFM_POLICY_BAD_INPUT);
  say_text(&text, "observation ");
  say_count(&text, i);
  if (p->obs) {
    say_text(&text, " (");
    say_text(&text, p->obs[i].name);
    say_text(&text, ")");
  }
  say_text(&text, " is ");
  say_number(&text, value);
  say_text(&text, isfinite(value) ? ", beyond 1e15: check its unit" : "");
  return BFM_POLICY_BAD_INPUT;
}

POLICY_INTERNAL bfm_policy_status policy_check_obs(const bfm_policy *p, const float *obs,
                                                   bfm_policy_error *error) {
  int odd = policy_odd(obs, p->info.obs_dim, obs_most);
  return odd ? bad_obs(p, odd - 1, obs[odd - 1], error) : BFM_POLICY_OK;
}

// z needs a direction: in float32, the square of a number above 1e18 overflows, and that of one below
// 1e-18 is 0
POLICY_INTERNAL bfm_policy_status policy_check_z(const float *z, int d, bfm_policy_error *error) {
  double square = 0;
  for (int i = 0; i < d; i++) square += (double)z[i] * z[i];
  if (square >= 1e-36 && square <= 1e36) return BFM_POLICY_OK;
  if (!isfinite(square)) return policy_fail(error, BFM_POLICY_BAD_INPUT, "z is not finite");
  return policy_fail_at(error, BFM_POLICY_BAD_INPUT, "z has the norm ", sqrt(square),
                        square < 1 ? ": it says nothing to the policy"
                                   : ", above 1e18: scale it down");
}

// ------------------------------- acting ----------------------------------------------------------

static bfm_policy_status check_how(const bfm_policy_work *w, const bfm_policy_how *how,
                                   bfm_policy_error *error) {
  if (how->samples < 0 || how->samples > w->samples) {
    return policy_fail_at(error, BFM_POLICY_BAD_ARGUMENT, "the workspace was made for ", w->samples,
                          " samples, and how asks for another number");
  }
  if ((int)how->base < BFM_POLICY_MEAN || (int)how->base > BFM_POLICY_GAIN) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "how->base is none of bfm_policy_base");
  }
  return BFM_POLICY_OK;
}

static bfm_policy_status choose(const bfm_policy *p, bfm_policy_work *w, const float *obs,
                                const float *z, const bfm_policy_how *how, float *act,
                                bfm_policy_report *report, bfm_policy_error *error) {
  int n = p->info.act_dim, samples = how->samples, odd;
  policy_sphere(w->unit_z, z, p->info.d);
  run_pi(p, w, obs);
  const float *chosen = w->mu;
  if (samples) {
    draw(w, samples, how, how->base == BFM_POLICY_GAIN);
    values(p, w, obs, w->candidates, samples);
    int k = best(w, samples, how->base);
    chosen = w->candidates + (size_t)k * (size_t)n;
    report_q(w, samples, k, report);
  } else if (how->want_q) {
    values(p, w, obs, w->mu, 1);
    report_q(w, 1, 0, report);
  }
  odd = policy_odd(chosen, n, 1);
  if (!odd && !policy_odd(w->mu, n, 1) && (!(samples || how->want_q) || isfinite(report->q))) {
    memcpy(act, chosen, (size_t)n * sizeof *act);
    return BFM_POLICY_OK;
  }
  return odd ? policy_fail_at(error, BFM_POLICY_BAD_OUTPUT, "action ", odd - 1,
                              " is not finite: the observation is far beyond the training data")
             : policy_fail(
                   error, BFM_POLICY_BAD_OUTPUT,
                   "the values of the actions are not finite: the observation is far beyond "
                   "the training data");
}

// checks everything, then chooses
static bfm_policy_status act_on(const bfm_policy *p, bfm_policy_work *w, const float *obs,
                                const float *z, const bfm_policy_how *how, float *act,
                                bfm_policy_report *report, bfm_policy_error *error) {
  bfm_policy_status status = check_how(w, how, error);
  if (!status) status = policy_check_obs(p, obs, error);
  if (status) return status;
  report_distance(p, obs, report);
  status = policy_check_z(z, p->info.d, error);
  return status ? status : choose(p, w, obs, z, how, act, report, error);
}

bfm_policy_status bfm_policy_act(const bfm_policy *policy, bfm_policy_work *work, const float *obs,
                                 const float *z, const bfm_policy_how *how, float *act,
                                 bfm_policy_report *report, bfm_policy_error *error) {
  static const bfm_policy_how by_mean = {0, BFM_POLICY_MEAN, 0, 0, 0};
  bfm_policy_report unused;
  bfm_policy_status status = BFM_POLICY_OK;
  policy_clear(error);
  if (!report) report = &unused;
  if (!how) how = &by_mean;
  memset(report, 0, sizeof *report);
  report->q = report->spread = report->distance = report->worst = NAN;
  if (!policy || !work || !act) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "policy, work or act is NULL");
  }
  if (!policy_owns(policy, work)) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "the workspace was made for another model");
  }
  uint64_t before = policy_float_begin();
  if (obs && z) status = act_on(policy, work, obs, z, how, act, report, error);
  else status = policy_fail(error, BFM_POLICY_BAD_ARGUMENT, "obs or z is NULL");
  if (status) {
    memcpy(act, work->safe, (size_t)policy->info.act_dim * sizeof *act);
    report->q = report->spread = NAN;
  }
  report->limited = limit(work, act);
  policy_float_end(before);
  return status;
}

bfm_policy_status bfm_policy_F(const bfm_policy *policy, bfm_policy_work *work, const float *obs,
                               const float *act, const float *z, float *out,
                               bfm_policy_error *error) {
  bfm_policy_status status;
  policy_clear(error);
  if (!policy || !work || !policy_owns(policy, work) || !obs || !act || !z || !out) {
    return policy_fail(error, BFM_POLICY_BAD_ARGUMENT,
                       "an argument of bfm_policy_F is NULL, or the workspace is of another model");
  }
  uint64_t before = policy_float_begin();
  int d = policy->info.d;
  status = policy_check_obs(policy, obs, error);
  if (!status && policy_odd(act, policy->info.act_dim, 1)) {
    status = policy_fail(error, BFM_POLICY_BAD_INPUT, "the action is not within -1 and 1");
  }
  if (!status) status = policy_check_z(z, d, error);
  if (!status) policy_sphere(work->unit_z, z, d);
  for (int m = 0; m < policy->info.members && !status; m++) {
    run_f(policy, work, m, obs, act, 1);
    memcpy(out + (size_t)m * (size_t)d, work->out, (size_t)d * sizeof *out);
    if (policy_odd(work->out, d, 3e38f)) {
      status = policy_fail(error, BFM_POLICY_BAD_OUTPUT, "F is not finite");
    }
  }
  policy_float_end(before);
  return status;
}
