// Sixteen numbers as an array: plain C for every machine. Compilers turn these loops into whatever
// vector instructions they may use.

#define LANES_TILE_W 4
#define LANES_TILE_X 1
#define LANES_ALONE 4

typedef struct {
  float v[16];
} Lanes_plain;

#define EACH for (int i_ = 0; i_ < 16; i_++)

LANE Lanes_plain set_plain(float x) {
  Lanes_plain r;
  EACH r.v[i_] = x;
  return r;
}

LANE Lanes_plain load_f32_plain(const float *p) {
  Lanes_plain r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}

LANE Lanes_plain load_bf16_plain(const uint16_t *p) {
  Lanes_plain r;
  uint32_t bits[16];
  EACH bits[i_] = (uint32_t)p[i_] << 16;
  memcpy(r.v, bits, sizeof r.v);
  return r;
}

LANE Lanes_plain load_i8_plain(const int8_t *p) {
  Lanes_plain r;
  EACH r.v[i_] = (float)p[i_];
  return r;
}

LANE void store_plain(float *p, Lanes_plain a) { memcpy(p, a.v, sizeof a.v); }

LANE Lanes_plain fma_plain(Lanes_plain a, Lanes_plain b, Lanes_plain c) {
#ifdef FP_FAST_FMAF
  EACH c.v[i_] = fmaf(a.v[i_], b.v[i_], c.v[i_]);
#else
  EACH c.v[i_] += a.v[i_] * b.v[i_];
#endif
  return c;
}

LANE Lanes_plain add_plain(Lanes_plain a, Lanes_plain b) {
  EACH a.v[i_] += b.v[i_];
  return a;
}

LANE Lanes_plain sub_plain(Lanes_plain a, Lanes_plain b) {
  EACH a.v[i_] -= b.v[i_];
  return a;
}

LANE Lanes_plain mul_plain(Lanes_plain a, Lanes_plain b) {
  EACH a.v[i_] *= b.v[i_];
  return a;
}

LANE Lanes_plain div_plain(Lanes_plain a, Lanes_plain b) {
  EACH a.v[i_] /= b.v[i_];
  return a;
}

LANE Lanes_plain relu_plain(Lanes_plain a) {
  EACH a.v[i_] = a.v[i_] < 0 ? 0 : a.v[i_];
  return a;
}

LANE Lanes_plain least_plain(Lanes_plain a, Lanes_plain b) {
  EACH a.v[i_] = a.v[i_] < b.v[i_] ? a.v[i_] : b.v[i_];
  return a;
}

LANE Lanes_plain abs_plain(Lanes_plain a) {
  EACH a.v[i_] = fabsf(a.v[i_]);
  return a;
}

LANE Lanes_plain sign_plain(Lanes_plain a, Lanes_plain sign) {
  EACH a.v[i_] = copysignf(a.v[i_], sign.v[i_]);
  return a;
}

LANE Lanes_plain pick_plain(Lanes_plain a, Lanes_plain b, Lanes_plain yes, Lanes_plain no) {
  EACH no.v[i_] = a.v[i_] >= b.v[i_] ? yes.v[i_] : no.v[i_];
  return no;
}

LANE Lanes_plain power_plain(Lanes_plain a) {
  uint32_t bits[16];
  memcpy(bits, a.v, sizeof bits);
  EACH bits[i_] = (bits[i_] + 127u) << 23;
  memcpy(a.v, bits, sizeof bits);
  return a;
}

LANE float sum_plain(Lanes_plain a) {
  for (int half = 8; half >= 4; half /= 2) {
    for (int i = 0; i < half; i++) a.v[i] += a.v[i + half];
  }
  return (a.v[0] + a.v[1]) + (a.v[2] + a.v[3]);
}

LANE void sum4_plain(Lanes_plain a, Lanes_plain b, Lanes_plain c, Lanes_plain d, float *out) {
  out[0] = sum_plain(a), out[1] = sum_plain(b), out[2] = sum_plain(c), out[3] = sum_plain(d);
}

#undef EACH
