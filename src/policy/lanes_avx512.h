// Sixteen numbers in one register of AVX-512.

#define LANES_TILE_W 6
#define LANES_TILE_X 4
#define LANES_ALONE 8

typedef __m512 Lanes_avx512;

LANE __m512 set_avx512(float x) { return _mm512_set1_ps(x); }
LANE __m512 load_f32_avx512(const float *p) { return _mm512_loadu_ps(p); }

LANE __m512 load_bf16_avx512(const uint16_t *p) {
  __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

LANE __m512 load_i8_avx512(const int8_t *p) {
  __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

LANE void store_avx512(float *p, __m512 x) { _mm512_storeu_ps(p, x); }
LANE __m512 fma_avx512(__m512 x, __m512 y, __m512 z) { return _mm512_fmadd_ps(x, y, z); }
LANE __m512 add_avx512(__m512 x, __m512 y) { return _mm512_add_ps(x, y); }
LANE __m512 sub_avx512(__m512 x, __m512 y) { return _mm512_sub_ps(x, y); }
LANE __m512 mul_avx512(__m512 x, __m512 y) { return _mm512_mul_ps(x, y); }
LANE __m512 div_avx512(__m512 x, __m512 y) { return _mm512_div_ps(x, y); }
// the second operand, if one is NaN
LANE __m512 relu_avx512(__m512 x) { return _mm512_max_ps(_mm512_setzero_ps(), x); }
LANE __m512 least_avx512(__m512 x, __m512 y) { return _mm512_min_ps(x, y); }
LANE __m512 abs_avx512(__m512 x) { return _mm512_abs_ps(x); }

LANE __m512 sign_avx512(__m512 x, __m512 from) {
  __m512i sign = _mm512_set1_epi32((int)0x80000000u);
  __m512i bits = _mm512_or_si512(_mm512_andnot_si512(sign, _mm512_castps_si512(x)),
                                 _mm512_and_si512(sign, _mm512_castps_si512(from)));
  return _mm512_castsi512_ps(bits);
}

LANE __m512 pick_avx512(__m512 x, __m512 y, __m512 yes, __m512 no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_GE_OQ), no, yes);
}

LANE __m512 power_avx512(__m512 x) {
  __m512i bits = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
}

// the two halves of x added, then those of y
LANE __m512 fold_avx512(__m512 x, __m512 y) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
}

LANE void sum4_avx512(__m512 a, __m512 b, __m512 c, __m512 d, float *out) {
  __m512 ab = fold_avx512(a, b), cd = fold_avx512(c, d);
  // now each of a, b, c, d has a quarter of the register
  __m512 x = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  x = _mm512_add_ps(x, _mm512_permute_ps(x, 0xb1));
  x = _mm512_add_ps(x, _mm512_permute_ps(x, 0x4e));
  __m512i firsts = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, x)));
}

LANE float sum_avx512(__m512 x) {
  float out[4];
  sum4_avx512(x, x, x, x, out);
  return out[0];
}
