// Sixteen numbers in two registers of AVX2, with fused multiply-add.

#define LANES_TILE_W 2
#define LANES_TILE_X 2
#define LANES_ALONE 4

typedef struct {
  __m256 a, b;
} Lanes_avx2;

LANE Lanes_avx2 pair_avx2(__m256 a, __m256 b) {
  Lanes_avx2 r;
  r.a = a, r.b = b;
  return r;
}

LANE Lanes_avx2 set_avx2(float x) { return pair_avx2(_mm256_set1_ps(x), _mm256_set1_ps(x)); }

LANE Lanes_avx2 load_f32_avx2(const float *p) {
  return pair_avx2(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}

LANE __m256 widen_bf16_avx2(const uint16_t *p) {
  __m128i half = _mm_loadu_si128((const __m128i *)(const void *)p);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

LANE Lanes_avx2 load_bf16_avx2(const uint16_t *p) {
  return pair_avx2(widen_bf16_avx2(p), widen_bf16_avx2(p + 8));
}

LANE Lanes_avx2 load_i8_avx2(const int8_t *p) {
  __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
  return pair_avx2(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                   _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))));
}

LANE void store_avx2(float *p, Lanes_avx2 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}

LANE Lanes_avx2 fma_avx2(Lanes_avx2 x, Lanes_avx2 y, Lanes_avx2 z) {
  return pair_avx2(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}

LANE Lanes_avx2 add_avx2(Lanes_avx2 x, Lanes_avx2 y) {
  return pair_avx2(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b));
}

LANE Lanes_avx2 sub_avx2(Lanes_avx2 x, Lanes_avx2 y) {
  return pair_avx2(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b));
}

LANE Lanes_avx2 mul_avx2(Lanes_avx2 x, Lanes_avx2 y) {
  return pair_avx2(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b));
}

LANE Lanes_avx2 div_avx2(Lanes_avx2 x, Lanes_avx2 y) {
  return pair_avx2(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b));
}

// the second operand, if one is NaN
LANE Lanes_avx2 relu_avx2(Lanes_avx2 x) {
  __m256 zero = _mm256_setzero_ps();
  return pair_avx2(_mm256_max_ps(zero, x.a), _mm256_max_ps(zero, x.b));
}

LANE Lanes_avx2 least_avx2(Lanes_avx2 x, Lanes_avx2 y) {
  return pair_avx2(_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b));
}

LANE Lanes_avx2 abs_avx2(Lanes_avx2 x) {
  __m256 sign = _mm256_set1_ps(-0.0f);
  return pair_avx2(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}

LANE Lanes_avx2 sign_avx2(Lanes_avx2 x, Lanes_avx2 from) {
  __m256 sign = _mm256_set1_ps(-0.0f);
  return pair_avx2(_mm256_or_ps(_mm256_andnot_ps(sign, x.a), _mm256_and_ps(sign, from.a)),
                   _mm256_or_ps(_mm256_andnot_ps(sign, x.b), _mm256_and_ps(sign, from.b)));
}

LANE Lanes_avx2 pick_avx2(Lanes_avx2 x, Lanes_avx2 y, Lanes_avx2 yes, Lanes_avx2 no) {
  return pair_avx2(_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ)),
                   _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ)));
}

LANE __m256 power8_avx2(__m256 x) {
  __m256i bits = _mm256_add_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
}

LANE Lanes_avx2 power_avx2(Lanes_avx2 x) { return pair_avx2(power8_avx2(x.a), power8_avx2(x.b)); }

LANE __m128 sum_to4_avx2(Lanes_avx2 x) {
  __m256 sum = _mm256_add_ps(x.a, x.b);
  return _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
}

LANE void sum4_avx2(Lanes_avx2 a, Lanes_avx2 b, Lanes_avx2 c, Lanes_avx2 d, float *out) {
  __m128 ab = _mm_hadd_ps(sum_to4_avx2(a), sum_to4_avx2(b));
  __m128 cd = _mm_hadd_ps(sum_to4_avx2(c), sum_to4_avx2(d));
  _mm_storeu_ps(out, _mm_hadd_ps(ab, cd));
}

LANE float sum_avx2(Lanes_avx2 a) {
  __m128 x = sum_to4_avx2(a);
  x = _mm_hadd_ps(x, x);
  return _mm_cvtss_f32(_mm_hadd_ps(x, x));
}
