// Sixteen numbers in four registers of 64-bit ARM.

#define LANES_TILE_W 2
#define LANES_TILE_X 2
#define LANES_ALONE 4

typedef struct {
  float32x4_t a, b, c, d;
} Lanes_neon;

LANE Lanes_neon four_neon(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d) {
  Lanes_neon r;
  r.a = a, r.b = b, r.c = c, r.d = d;
  return r;
}

#define EACH2(f, x, y) four_neon(f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d))

LANE Lanes_neon set_neon(float x) {
  float32x4_t v = vdupq_n_f32(x);
  return four_neon(v, v, v, v);
}

LANE Lanes_neon load_f32_neon(const float *p) {
  return four_neon(vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12));
}

LANE float32x4_t widen_neon(uint16x4_t half) {
  return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

LANE Lanes_neon load_bf16_neon(const uint16_t *p) {
  uint16x8_t low = vld1q_u16(p), high = vld1q_u16(p + 8);
  return four_neon(widen_neon(vget_low_u16(low)), widen_neon(vget_high_u16(low)),
                   widen_neon(vget_low_u16(high)), widen_neon(vget_high_u16(high)));
}

LANE Lanes_neon load_i8_neon(const int8_t *p) {
  int8x16_t bytes = vld1q_s8(p);
  int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  return four_neon(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                   vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                   vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                   vcvtq_f32_s32(vmovl_s16(vget_high_s16(high))));
}

LANE void store_neon(float *p, Lanes_neon x) {
  vst1q_f32(p, x.a);
  vst1q_f32(p + 4, x.b);
  vst1q_f32(p + 8, x.c);
  vst1q_f32(p + 12, x.d);
}

LANE Lanes_neon fma_neon(Lanes_neon x, Lanes_neon y, Lanes_neon z) {
  return four_neon(vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
                   vfmaq_f32(z.d, x.d, y.d));
}

LANE Lanes_neon add_neon(Lanes_neon x, Lanes_neon y) { return EACH2(vaddq_f32, x, y); }
LANE Lanes_neon sub_neon(Lanes_neon x, Lanes_neon y) { return EACH2(vsubq_f32, x, y); }
LANE Lanes_neon mul_neon(Lanes_neon x, Lanes_neon y) { return EACH2(vmulq_f32, x, y); }
LANE Lanes_neon div_neon(Lanes_neon x, Lanes_neon y) { return EACH2(vdivq_f32, x, y); }
LANE Lanes_neon least_neon(Lanes_neon x, Lanes_neon y) { return EACH2(vminq_f32, x, y); }
LANE Lanes_neon relu_neon(Lanes_neon x) { return EACH2(vmaxq_f32, set_neon(0), x); }

LANE Lanes_neon abs_neon(Lanes_neon x) {
  return four_neon(vabsq_f32(x.a), vabsq_f32(x.b), vabsq_f32(x.c), vabsq_f32(x.d));
}

LANE float32x4_t sign4_neon(float32x4_t x, float32x4_t from) {
  return vbslq_f32(vdupq_n_u32(0x80000000u), from, x);
}

LANE Lanes_neon sign_neon(Lanes_neon x, Lanes_neon from) { return EACH2(sign4_neon, x, from); }

LANE Lanes_neon pick_neon(Lanes_neon x, Lanes_neon y, Lanes_neon yes, Lanes_neon no) {
  return four_neon(vbslq_f32(vcgeq_f32(x.a, y.a), yes.a, no.a),
                   vbslq_f32(vcgeq_f32(x.b, y.b), yes.b, no.b),
                   vbslq_f32(vcgeq_f32(x.c, y.c), yes.c, no.c),
                   vbslq_f32(vcgeq_f32(x.d, y.d), yes.d, no.d));
}

LANE float32x4_t power4_neon(float32x4_t x) {
  uint32x4_t bits = vaddq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(127));
  return vreinterpretq_f32_u32(vshlq_n_u32(bits, 23));
}

LANE Lanes_neon power_neon(Lanes_neon x) {
  return four_neon(power4_neon(x.a), power4_neon(x.b), power4_neon(x.c), power4_neon(x.d));
}

LANE float32x4_t sum_to4_neon(Lanes_neon x) {
  return vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
}

LANE void sum4_neon(Lanes_neon a, Lanes_neon b, Lanes_neon c, Lanes_neon d, float *out) {
  float32x4_t ab = vpaddq_f32(sum_to4_neon(a), sum_to4_neon(b));
  vst1q_f32(out, vpaddq_f32(ab, vpaddq_f32(sum_to4_neon(c), sum_to4_neon(d))));
}

LANE float sum_neon(Lanes_neon a) {
  float32x4_t x = sum_to4_neon(a);
  x = vpaddq_f32(x, x);
  return vgetq_lane_f32(vpaddq_f32(x, x), 0);
}

#undef EACH2
