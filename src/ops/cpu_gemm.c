// The CPU backend's products in float32. A task computes a panel of columns of C, two vectors wide:
// it packs the panel of B once, so that it stays in the first-level cache, and multiplies it with
// tiles of rows of A, whose sums stay in registers. The epilogue is applied before a tile is stored.
// No size of a tile changes the order in which the products of one value of C are summed.

#include "ops/cpu.h"

#ifdef __AVX512F__
#define LANES 16
#define HEIGHT 14  // rows of a tile: their sums, two vectors each, fill the registers
#define LOW(x, y) \
  __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(x, y) \
  __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#else
#define LANES 8
#define HEIGHT 6
#define LOW(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(x, y) __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
#endif

#define PANEL (2 * LANES)
#define DEPTH 256      // rows of a packed panel
#define ROWS_MOST 512  // of a task: so many rows of A stay in the second-level cache
#define ROWS_LEAST 64
#define TASKS 8  // at least so many where the product is large enough: cores share them

typedef float Vector __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(LANES * 4)));

// ------------------------------- panels of B -----------------------------------------------------

// out[depth, PANEL] from the columns 0 … width-1 of b [depth, ldb]; the other columns become 0
static void pack_rows(float *out, const float *b, int64_t ldb, int64_t depth, int64_t width) {
  for (int64_t k = 0; k < depth; k++, b += ldb, out += PANEL) {
    if (width == PANEL) {
      memcpy(out, b, PANEL * sizeof *out);
    } else {
      memset(out + width, 0, (PANEL - width) * sizeof *out);
      memcpy(out, b, width * sizeof *out);
    }
  }
}

// x becomes its transpose: interleaving the halves log2(LANES) times
INLINE void transpose(Vector x[LANES]) {
  Vector y[LANES];
  for (int round = 1; round < LANES; round *= 2) {
    for (int i = 0; i < LANES / 2; i++) {
      y[2 * i] = LOW(x[i], x[i + LANES / 2]);
      y[2 * i + 1] = HIGH(x[i], x[i + LANES / 2]);
    }
    memcpy(x, y, sizeof y);
  }
}

// out[LANES, PANEL] from the columns 0 … count-1 of a transposed b [count, ldb]
INLINE void pack_square(float *out, const float *b, int64_t ldb, int64_t count) {
  Vector x[LANES] = {0};
  for (int64_t i = 0; i < count; i++) x[i] = *(const Vector *)(b + i * ldb);
  transpose(x);
  for (int64_t i = 0; i < LANES; i++) *(Vector *)(out + i * PANEL) = x[i];
}

// pack_rows for a transposed b [width, ldb]
static void pack_columns(float *out, const float *b, int64_t ldb, int64_t depth, int64_t width) {
  int64_t whole = depth / LANES * LANES;
  for (int64_t j = 0; j < PANEL; j += LANES) {
    int64_t count = width < j ? 0 : min64(LANES, width - j);
    for (int64_t k = 0; k < whole; k += LANES) {
      float *to = out + k * PANEL + j;
      if (count == LANES) pack_square(to, b + j * ldb + k, ldb, LANES);
      else pack_square(to, b + j * ldb + k, ldb, count);
    }
  }
  for (int64_t k = whole; k < depth; k++) {
    for (int64_t j = 0; j < PANEL; j++) out[k * PANEL + j] = j < width ? b[j * ldb + k] : 0;
  }
}

// ------------------------------- tiles of C ------------------------------------------------------

typedef struct {
  const float *a;  // [rows, lda], or transposed [depth, lda]
  const float *b;  // a packed panel
  float *c;
  const float *relu, *bias;  // or NULL
  int64_t lda, ldc, ld_relu, depth;
  int add, is_relu;
} Tile;

INLINE Vector positive(Vector value, Vector where) {
  Vector zero = {0};
  return (Vector)((Bits)value & (Bits)(where > zero));
}

INLINE void tile_store(const Tile *t, Vector sum, int row, int column) {
  Vector *c = (Vector *)(t->c + row * t->ldc + column);
  if (t->add) sum += *c;
  if (t->bias) sum += *(const Vector *)(t->bias + column);
  if (t->is_relu) sum = positive(sum, sum);
  if (t->relu) sum = positive(sum, *(const Vector *)(t->relu + row * t->ld_relu + column));
  *c = sum;
}

// A function for each number of rows, written out by the preprocessor: compilers keep the sums of
// loops over rows in memory. The stores at the end, and A's rows of the next tile, are asked for in
// advance.
// clang-format off
#define EACH_1(X) X(0)
#define EACH_2(X) EACH_1(X); X(1)
#define EACH_3(X) EACH_2(X); X(2)
#define EACH_4(X) EACH_3(X); X(3)
#define EACH_5(X) EACH_4(X); X(4)
#define EACH_6(X) EACH_5(X); X(5)
#define EACH_7(X) EACH_6(X); X(6)
#define EACH_8(X) EACH_7(X); X(7)
#define EACH_9(X) EACH_8(X); X(8)
#define EACH_10(X) EACH_9(X); X(9)
#define EACH_11(X) EACH_10(X); X(10)
#define EACH_12(X) EACH_11(X); X(11)
#define EACH_13(X) EACH_12(X); X(12)
#define EACH_14(X) EACH_13(X); X(13)
// clang-format on

#define BEGIN(i)                              \
  Vector left_##i = {0}, right_##i = {0};     \
  __builtin_prefetch(t->c + (i) * t->ldc, 1); \
  __builtin_prefetch(t->c + (i) * t->ldc + LANES, 1)
#define AHEAD(i) __builtin_prefetch(next + (i) * row_step, 0, 2)
#define MULTIPLY(i)                   \
  left_##i += a[(i) * row_step] * b0; \
  right_##i += a[(i) * row_step] * b1
#define STORE(i)                 \
  tile_store(t, left_##i, i, 0); \
  tile_store(t, right_##i, i, LANES)

#define TILE(rows)                                                       \
  static void tile_##rows(const Tile *t) {                               \
    const float *a = t->a, *b = t->b;                                    \
    int64_t row_step = t->lda;                                           \
    EACH_##rows(BEGIN);                                                  \
    for (int64_t k = 0; k < t->depth; k++, a++, b += PANEL) {            \
      Vector b0 = *(const Vector *)b, b1 = *(const Vector *)(b + LANES); \
      if (k % 16 == 0) {                                                 \
        const float *next = a + rows * row_step;                         \
        EACH_##rows(AHEAD);                                              \
      }                                                                  \
      EACH_##rows(MULTIPLY);                                             \
    }                                                                    \
    EACH_##rows(STORE);                                                  \
  }                                                                      \
                                                                         \
  static void transposed_##rows(const Tile *t) {                         \
    const float *a = t->a, *b = t->b;                                    \
    enum { row_step = 1 };                                               \
    EACH_##rows(BEGIN);                                                  \
    for (int64_t k = 0; k < t->depth; k++, a += t->lda, b += PANEL) {    \
      Vector b0 = *(const Vector *)b, b1 = *(const Vector *)(b + LANES); \
      __builtin_prefetch(a + 2 * rows, 0, 2);                            \
      EACH_##rows(MULTIPLY);                                             \
    }                                                                    \
    EACH_##rows(STORE);                                                  \
  }

// clang-format off
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#if HEIGHT > 6
TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
#endif

#define NAMES(rows) {tile_##rows, transposed_##rows}
static void (*const tiles[HEIGHT][2])(const Tile *t) = {
  NAMES(1), NAMES(2), NAMES(3), NAMES(4), NAMES(5), NAMES(6),
#if HEIGHT > 6
  NAMES(7), NAMES(8), NAMES(9), NAMES(10), NAMES(11), NAMES(12), NAMES(13), NAMES(14),
#endif
};
// clang-format on

static void copy_rows(float *to, int64_t ld_to, const float *from, int64_t ld_from, int64_t rows,
                      int64_t width) {
  for (int64_t i = 0; i < rows; i++) {
    memcpy(to + i * ld_to, from + i * ld_from, width * sizeof *to);
  }
}

// a tile whose panel is not full: by way of buffers that are
static void narrow_tile(const Tile *t, int transposed, int64_t rows, int64_t width) {
  float c[HEIGHT * PANEL], relu[HEIGHT * PANEL] = {0};
  Tile full = *t;
  full.c = c;
  full.ldc = full.ld_relu = PANEL;
  if (t->add) copy_rows(c, PANEL, t->c, t->ldc, rows, width);
  if (t->relu) {
    copy_rows(relu, PANEL, t->relu, t->ld_relu, rows, width);
    full.relu = relu;
  }
  tiles[rows - 1][transposed](&full);
  copy_rows(t->c, t->ldc, c, PANEL, rows, width);
}

// ------------------------------- products --------------------------------------------------------

typedef struct {
  const Gemm *x;
  int64_t share_a, share_b, share_c;
  int64_t panels, pieces;  // of the columns and the rows of C
} Plan;

// a tile's rows: as many as fit, the same number in all tiles or one less
static void multiply(const Tile *t, int transposed, int64_t rows, int64_t width) {
  int64_t count = chunks(rows, HEIGHT);
  for (int64_t i = 0; i < count; i++) {
    int64_t begin = i * rows / count, end = (i + 1) * rows / count;
    Tile part = *t;
    part.a += begin * (transposed ? 1 : t->lda);
    part.c += begin * t->ldc;
    if (t->relu) part.relu += begin * t->ld_relu;
    if (width < PANEL) narrow_tile(&part, transposed, end - begin, width);
    else tiles[end - begin - 1][transposed](&part);
  }
}

// A·B of group g to the rows and columns of a tile; `first` of the products that are summed into C
static void add_product(const Plan *p, Tile t, int64_t g, int64_t row, int64_t rows, int64_t column,
                        int first, int last) {
  const Gemm *x = p->x;
  const float *a = (const float *)x->a + g / p->share_a * x->stride_a;
  const float *b = (const float *)x->b + g / p->share_b * x->stride_b;
  int64_t width = min64(PANEL, x->n - column);
  float panel[DEPTH * PANEL] __attribute__((aligned(64))), bias[PANEL] = {0};
  int has_bias = x->epilogue == EPILOGUE_BIAS || x->epilogue == EPILOGUE_BIAS_RELU;
  if (has_bias) memcpy(bias, x->bias + g * x->stride_bias + column, width * sizeof *bias);
  t.lda = x->lda;
  t.b = panel;
  for (int64_t k = 0; k < x->k; k += DEPTH) {
    int is_last = last && k + DEPTH >= x->k;
    t.depth = min64(DEPTH, x->k - k);
    if (x->transpose_b) pack_columns(panel, b + column * x->ldb + k, x->ldb, t.depth, width);
    else pack_rows(panel, b + k * x->ldb + column, x->ldb, t.depth, width);
    t.a = x->transpose_a ? a + k * x->lda + row : a + row * x->lda + k;
    Tile now = t;
    now.add = !first || k || x->epilogue == EPILOGUE_ADD;
    now.bias = is_last && has_bias ? bias : NULL;
    now.is_relu = is_last && x->epilogue == EPILOGUE_BIAS_RELU;
    now.relu = is_last ? t.relu : NULL;
    multiply(&now, x->transpose_a, rows, width);
  }
}

static void product_task(void *argument, int64_t task, int worker) {
  const Plan *p = argument;
  const Gemm *x = p->x;
  (void)worker;
  int64_t column = task % p->panels * PANEL, piece = task / p->panels % p->pieces;
  int64_t group = task / p->panels / p->pieces;
  int64_t row = piece * x->m / p->pieces, rows = (piece + 1) * x->m / p->pieces - row;
  int64_t at = group * x->stride_c + row * x->ldc + column;
  Tile t = {.c = (float *)x->c + at, .ldc = x->ldc, .ld_relu = x->ldc};
  if (x->epilogue == EPILOGUE_RELU_GRAD) t.relu = (const float *)x->relu + at;
  for (int64_t s = 0; s < p->share_c; s++) {
    add_product(p, t, group * p->share_c + s, row, rows, column, !s, s + 1 == p->share_c);
  }
}

// more pieces of rows where there are few panels
static int64_t choose_pieces(const Gemm *x, int64_t tasks) {
  int64_t most = chunks(x->m, ROWS_LEAST), pieces = chunks(x->m, ROWS_MOST);
  while (pieces * tasks < TASKS && 2 * pieces <= most) pieces *= 2;
  return pieces;
}

static void product(Ops *ops, const Gemm *x) {
  Plan p = {.x = x, .panels = chunks(x->n, PANEL)};
  p.share_a = x->share_a ? x->share_a : 1;
  p.share_b = x->share_b ? x->share_b : 1;
  p.share_c = x->share_c ? x->share_c : 1;
  int64_t groups = x->batch / p.share_c;
  p.pieces = choose_pieces(x, groups * p.panels);
  threads_run(((Cpu *)ops)->threads, groups * p.panels * p.pieces, product_task, &p);
}

void cpu_gemm(Ops *ops) { ((Cpu *)ops)->product = product; }
