// The kernels of one instruction set, over the lanes of a file such as lanes_avx2.h. kernels.c includes
// this file once for each, with ISA and LANE defined.
//
// A product is computed in tiles: some rows of the weight times some rows of x, all of whose sums stay
// in registers. Weights are read in place, row by row, and widened to float32 on the way.

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define L(name) JOIN(name, ISA)

typedef struct {
  const float *x[LANES_TILE_X];
  float tail[LANES_TILE_X][16];  // the last lanes of x, for inputs that are no multiple of 16
} L(Columns);

// The last inputs % 16 numbers of x, in the lanes that they have in the last 16 numbers of a row; all
// other lanes are 0. Rows with fewer than 16 numbers begin in lane 0.
LANE void L(columns)(L(Columns) * c, const PolicyProduct *p, int row, int count) {
  int rest = p->inputs % 16, first = p->inputs < 16 ? 0 : 16 - rest;
  for (int i = 0; i < count; i++) {
    int own = row + i < p->rows ? row + i : p->rows - 1;
    c->x[i] = p->x + (size_t)own * p->ldx;
    if (!rest) continue;
    memset(c->tail[i], 0, sizeof c->tail[i]);
    memcpy(c->tail[i] + first, c->x[i] + p->inputs - rest, (size_t)rest * sizeof(float));
  }
}

// out[x · W + w] = dot product of row w of the weight with row x, for W rows and X rows: both are
// constants where this is inlined, and W·X is a multiple of 4
#define TILE(kind, Element)                                                                    \
  LANE void L(tile_##kind)(const Element *const *w, const L(Columns) * c, int inputs, int W,   \
                           int X, float *out) {                                                \
    L(Lanes) sum[24];                                                                          \
    UNROLL for (int i = 0; i < W * X; i++) sum[i] = L(set)(0);                                 \
    for (int k = 0; k + 16 <= inputs; k += 16) {                                               \
      L(Lanes) row[8];                                                                         \
      UNROLL for (int i = 0; i < W; i++) row[i] = L(load_##kind)(w[i] + k);                    \
      UNROLL for (int j = 0; j < X; j++) {                                                     \
        L(Lanes) x = L(load_f32)(c->x[j] + k);                                                 \
        UNROLL for (int i = 0; i < W; i++) sum[j * W + i] = L(fma)(row[i], x, sum[j * W + i]); \
      }                                                                                        \
    }                                                                                          \
    if (inputs % 16) {                                                                         \
      L(Lanes) row[8];                                                                         \
      Element few[16] = {0};                                                                   \
      UNROLL for (int i = 0; i < W; i++) {                                                     \
        if (inputs < 16) memcpy(few, w[i], (size_t)inputs * sizeof *few);                      \
        row[i] = L(load_##kind)(inputs < 16 ? few : w[i] + inputs - 16);                       \
      }                                                                                        \
      UNROLL for (int j = 0; j < X; j++) {                                                     \
        L(Lanes) x = L(load_f32)(c->tail[j]);                                                  \
        UNROLL for (int i = 0; i < W; i++) sum[j * W + i] = L(fma)(row[i], x, sum[j * W + i]); \
      }                                                                                        \
    }                                                                                          \
    UNROLL for (int i = 0; i < W * X; i += 4) {                                                \
      L(sum4)(sum[i], sum[i + 1], sum[i + 2], sum[i + 3], out + i);                            \
    }                                                                                          \
  }                                                                                            \
                                                                                               \
  LANE void L(stripe_##kind)(const PolicyProduct *p, int row, int W, int X) {                  \
    const PolicyLinear *l = p->layer;                                                          \
    const Element *weight = (const Element *)l->weight + (size_t)p->member * l->stride;        \
    L(Columns) c;                                                                              \
    L(columns)(&c, p, row, X);                                                                 \
    for (int i = p->from; i < p->to; i += W) {                                                 \
      const Element *w[8];                                                                     \
      float out[24];                                                                           \
      UNROLL for (int k = 0; k < W; k++) {                                                     \
        w[k] = weight + (size_t)(i + k < p->to ? i + k : p->to - 1) * l->ld;                   \
      }                                                                                        \
      L(tile_##kind)(w, &c, p->inputs, W, X, out);                                             \
      for (int j = 0; j < X && row + j < p->rows; j++) {                                       \
        policy_finish(p, row + j, i, i + W < p->to ? W : p->to - i, out + j * W);              \
      }                                                                                        \
    }                                                                                          \
  }                                                                                            \
                                                                                               \
  KERNEL void L(product_##kind)(const PolicyProduct *p) {                                      \
    int alone = LANES_TILE_X == 1 || p->rows == 1;                                             \
    for (int row = 0; row < p->rows; row += alone ? 1 : LANES_TILE_X) {                        \
      if (alone) L(stripe_##kind)(p, row, LANES_ALONE, 1);                                     \
      else L(stripe_##kind)(p, row, LANES_TILE_W, LANES_TILE_X);                               \
    }                                                                                          \
  }

// NOLINTBEGIN(bugprone-branch-clone): with LANES_TILE_X 1 both ways are the same
TILE(f32, float)
TILE(bf16, uint16_t)
TILE(i8, int8_t)
// NOLINTEND(bugprone-branch-clone)

KERNEL void L(product)(const PolicyProduct *p) {
  if (p->layer->type == WEIGHTS_F32) L(product_f32)(p);
  else if (p->layer->type == WEIGHTS_BF16) L(product_bf16)(p);
  else L(product_i8)(p);
}

// up to 16 numbers; where there are fewer, the others are `beyond`
LANE L(Lanes) L(load_some)(const float *x, int left, float beyond) {
  if (left >= 16) return L(load_f32)(x);
  float few[16];
  for (int i = 0; i < 16; i++) few[i] = i < left ? x[i] : beyond;
  return L(load_f32)(few);
}

LANE void L(store_some)(float *x, int left, L(Lanes) v) {
  float few[16];
  L(store)(left < 16 ? few : x, v);
  if (left < 16) memcpy(x, few, (size_t)left * sizeof *few);
}

// tanh within 3e-7 relative: Taylor's odd series near 0, exp elsewhere
KERNEL NO_INLINE L(Lanes) L(tanh16)(L(Lanes) x) {
  L(Lanes) a = L(abs)(x), s = L(mul)(x, x), one = L(set)(1);
  L(Lanes) p = L(set)(21844.0f / 6081075);
  p = L(fma)(p, s, L(set)(-1382.0f / 155925));
  p = L(fma)(p, s, L(set)(62.0f / 2835));
  p = L(fma)(p, s, L(set)(-17.0f / 315));
  p = L(fma)(p, s, L(set)(2.0f / 15));
  p = L(fma)(p, s, L(set)(-1.0f / 3));
  L(Lanes) near_0 = L(fma)(L(mul)(p, s), x, x);

  // exp(y) = 2^n · exp(r): adding 1.5 · 2^23 rounds to a whole number, which is then in the low bits
  L(Lanes) y = L(least)(L(set)(9), a), magic = L(set)(12582912.0f);
  y = L(add)(y, y);
  L(Lanes) t = L(fma)(y, L(set)(1.44269504088896341f), magic), n = L(sub)(t, magic);
  L(Lanes) r = L(fma)(n, L(set)(-0.693359375f), y);
  r = L(fma)(n, L(set)(2.12194440e-4f), r);
  L(Lanes) e = L(set)(1.0f / 5040);
  e = L(fma)(e, r, L(set)(1.0f / 720));
  e = L(fma)(e, r, L(set)(1.0f / 120));
  e = L(fma)(e, r, L(set)(1.0f / 24));
  e = L(fma)(e, r, L(set)(1.0f / 6));
  e = L(fma)(e, r, L(set)(0.5f));
  e = L(fma)(e, r, one);
  e = L(fma)(e, r, one);
  e = L(mul)(e, L(power)(t));
  L(Lanes) far_off = L(sub)(one, L(div)(L(set)(2), L(add)(e, one)));
  return L(pick)(a, L(set)(0.4f), L(sign)(far_off, x), near_0);  // near_0 if x is NaN
}

KERNEL void L(tanh_all)(float *x, int n) {
  for (int k = 0; k < n; k += 16)
    L(store_some)(x + k, n - k, L(tanh16)(L(load_some)(x + k, n - k, 0)));
}

KERNEL void L(norm)(float *x, int n, const float *gain, const float *shift, int f) {
  L(Lanes) sum = L(set)(0), square = L(set)(0);
  for (int k = 0; k < n; k += 16) sum = L(add)(sum, L(load_some)(x + k, n - k, 0));
  float mean = L(sum)(sum) / (float)n;
  L(Lanes) m = L(set)(mean);
  for (int k = 0; k < n; k += 16) {
    L(Lanes) apart = L(sub)(L(load_some)(x + k, n - k, mean), m);
    square = L(fma)(apart, apart, square);
  }
  L(Lanes) scale = L(set)(1.0f / sqrtf(L(sum)(square) / (float)n + 1e-5f));
  for (int k = 0; k < n; k += 16) {
    L(Lanes) hat = L(mul)(L(sub)(L(load_some)(x + k, n - k, mean), m), scale);
    L(Lanes) v = L(fma)(hat, L(load_some)(gain + k, n - k, 0), L(load_some)(shift + k, n - k, 0));
    L(store_some)(x + k, n - k, f == POLICY_TANH ? L(tanh16)(v) : L(relu)(v));
  }
}

KERNEL float L(dot)(const float *x, const float *y, int n) {
  L(Lanes) sum = L(set)(0);
  for (int k = 0; k < n; k += 16) {
    sum = L(fma)(L(load_some)(x + k, n - k, 0), L(load_some)(y + k, n - k, 0), sum);
  }
  return L(sum)(sum);
}

static const PolicyKernels L(kernels) = {
    NAME, L(works), L(product), L(norm), L(tanh_all), L(dot),
};

#undef TILE
#undef L
#undef JOIN
#undef JOIN_
#undef ISA
#undef NAME
#undef LANE
#undef KERNEL
#undef LANES_TILE_W
#undef LANES_TILE_X
#undef LANES_ALONE
